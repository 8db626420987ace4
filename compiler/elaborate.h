// Elaboration: the AST is executed at compile time. Numbers, lists and strings are computed; tensors become nn ops.
// This header is shared by elaborate*.c (names, blocks, control flow, the train section) and layer*.c (the built-in
// functions of the language).
#ifndef NNC_COMPILER_ELABORATE_H
#define NNC_COMPILER_ELABORATE_H

#include "compiler/compiler.h"
#include "compiler/diagnostics.h"

typedef enum ValueKind {
  VALUE_NONE,   // an argument left out whose default is "none"
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_BOOL,
  VALUE_STRING,
  VALUE_INIT,   // an initialiser, in the spelling the runtime reads: "normal(0.02)"
  VALUE_LIST,   // also tuples
  VALUE_TENSOR,
} ValueKind;

typedef struct Value {
  ValueKind kind;
  union {
    int64_t i;
    double f;
    bool b;
    const char *s;   // Borrowed from the elaborator's memory; also VALUE_INIT
    struct {
      struct Value *items;
      int n;
    } list;   // Borrowed from the elaborator's memory
    MlirValue tensor;
  };
} Value;

// One evaluated argument at a call; name is NULL when it was given by position.
typedef struct CallArg {
  const char *name;
  Value value;
  AstPos pos, name_pos;
} CallArg;   // pos: of the value

typedef struct Elaborator Elaborator;

// --- What elaborate*.c offers to the layers -------------------------------------------------------------------------
void *elaborator_alloc(Elaborator *e, size_t size);   // zeroed, freed with the elaborator
// "7", "true", "f32[8, 4]", "[2, 3]": a value as it would be written, a tensor by its type
const char *value_text(Elaborator *e, Value v);
char *elaborator_format(Elaborator *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
// at the end of the function being built, location of the call
NnBuilder *elaborator_builder(Elaborator *e);
bool elaborator_training(const Elaborator *e);                           // false in @eval and @predict
NnDtype elaborator_element_type(const Elaborator *e, NnDtype written);   // f32 and f64 become the program's float type
// reports it, with the names of dimensions and where they are from; false
bool shapes_do_not_fit(Elaborator *e, AstPos pos, const char *operator, const NnType * x, const NnType *y);
// the precision of the block around here: what literals are made of
NnDtype elaborator_dtype(const Elaborator *e);
// The parameter <current layer path>.<name>; made on first use. An existing one of another type is an error (null
// value). One of a narrow type is kept in f32, and cast.
MlirValue elaborator_param(Elaborator *e, AstPos pos, const char *name, NnType type, const char *init);
// The path of the parameter that v is, or is a cast of; NULL: it is none.
const char *elaborator_parameter_path(Elaborator *e, MlirValue v);
// The parameters of a model that has been called, a list in the order of their first use; false after reporting.
bool elaborator_parameters(Elaborator *e, AstPos pos, const char *model, Value *result);
MlirValue elaborator_state(Elaborator *e, AstPos pos, const char *name, NnType type, const char *init);
// becomes an `update` result of @train
void elaborator_update_state(Elaborator *e, const char *name, MlirValue value);
// v is drawn as the initialiser says.
void elaborator_note_draw(Elaborator *e, MlirValue v, const char *init);
MlirValue elaborator_random_key(Elaborator *e);   // i32[4]: a row of the rng argument no other op uses
// Reports at pos; returns false so that `return elaborator_error(…)` reads well.
bool elaborator_error(Elaborator *e, AstPos pos, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Once per place, however often it is executed.
void elaborator_warning(Elaborator *e, AstPos pos, const char *format, ...) __attribute__((format(printf, 3, 4)));
// to the last error or warning
void elaborator_hint(Elaborator *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

// --- What layer*.c offers -------------------------------------------------------------------------------------------
typedef struct LayerCall {
  Elaborator *e;
  NnBuilder *b;
  AstPos pos;
  const struct LayerInfo *info;
  Value *arg;   // one per parameter of the signature, defaults filled in
  AstPos *arg_pos;
  int n_extra;
  const CallArg *extra;   // further positional arguments and unknown names, where the signature ends in "..."
} LayerCall;
typedef bool (*LayerFn)(LayerCall *c, Value *result);
typedef struct LayerInfo {
  const char *name;
  const char *signature;   // "x:tensor, features:int, bias:bool=true"; grammar in layer.c
  LayerFn fn;
  const char *doc;
  bool has_parameters;   // makes parameters or state: gets a path of its own
  // What it does with tensors of bf16 and f16. AS_GIVEN: computes on them, with sums in f32. IN_F32: on f32 copies, the
  // result is rounded once. TO_F32: the same, and the result stays f32 (losses and metrics).
  enum { LAYER_AS_GIVEN, LAYER_IN_F32, LAYER_TO_F32 } arithmetic;
  const AstItem *block;   // what it computes, of a function that is written in the language; else NULL
  const char *example;    // of such a function, "(x: f32[8, 64]): f(x)"
} LayerInfo;
const LayerInfo *layer_find(const char *name);
// Of the argument with that name, or without one at that place; NULL: there is none.
const char *layer_argument_kind(const LayerInfo *info, int place, const char *name);
int layer_count(void);
const LayerInfo *layer_at(int i);
// Binds the arguments to the signature, reports what does not fit, and runs the layer.
bool layer_call(Elaborator *e, const LayerInfo *info, AstPos pos, int n_args, const CallArg *args, Value *result);
// The body of a function that is written in the language (elaborate_block.c).
bool call_prelude(LayerCall *c, Value *result);
// layer_call without values: reports arguments that it does not have, and those that are missing.
void layer_check_arguments(Elaborator *e, const LayerInfo *info, AstPos pos, int n_args, const CallArg *args);

// Operators of the language on any mix of numbers and tensors: + - * / // % ** == != < <= > >= and or; numpy
// broadcasting, integers promote to the float type of the other side. False after reporting.
bool value_binary(Elaborator *e, AstPos pos, const char *op, Value x, Value y, Value *result);
bool value_unary(Elaborator *e, AstPos pos, const char *op, Value x, Value *result);   // "-" "not"
// The element type that values have together, promote.c; and that of their sum, where u8 and i1 become i32, or
// quotient.
NnDtype value_common_dtype(Elaborator *e, int n, const Value *v);
NnDtype value_arithmetic_dtype(Elaborator *e, const Value *x, const Value *y, bool division);
// All as tensors of that type; false after reporting.
bool value_promote(Elaborator *e, AstPos pos, int n, const Value *v, NnDtype dtype, MlirValue *out);
bool value_broadcast_shape(const NnType *x, const NnType *y, NnType *out);   // false: they do not fit
// numbers become scalar constants
bool value_to_tensor(Elaborator *e, AstPos pos, Value x, NnDtype dtype, MlirValue *out);
bool value_as_number(const Value *v, double *out);    // int, float or bool
const char *value_describe(Elaborator *e, Value v);   // "f32[128, 10]", "the number 3", "a list of 2"
Value value_tensor(MlirValue t);
Value value_int(int64_t i);
Value value_float(double f);
Value value_bool(bool b);
Value value_string(const char *s);
// x[starts:stops…] with one entry per leading axis; drop[i]: an index, whose axis disappears.
bool value_slice(Elaborator *e, AstPos pos, MlirValue x, int n, const int64_t *start, const int64_t *stop,
                 const int64_t *step, const bool *drop, Value *result);

#endif

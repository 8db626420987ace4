// Private to elaborate*.c: the state of an elaboration. The body of a function is built first, in a block of its own,
// because its arguments (parameters, states, random keys) are discovered while building; function_finish then writes
// the signature and moves the operations in.
#ifndef NNC_COMPILER_ELABORATE_INTERNAL_H
#define NNC_COMPILER_ELABORATE_INTERNAL_H

#include "compiler/elaborate.h"
#include "compiler/name_table.h"
#include "compiler/pool.h"
#include "support/names.h"

#define MAX_BLOCK_DEPTH 64   // blocks calling blocks
#define FEW_VARIABLES 8      // up to which a name is looked for one by one
#define MAX_CALLERS 3        // calls shown with an error
#define MAX_OPS 200000       // operations in one function
// What is compared with each other in pairs.
#define MAX_LISTED 1000           // groups, losses and metrics, parameters of a block
#define MAX_MODEL_CALLS 200       // with arguments that differ, in one function
#define MAX_SCANS 500             // loops over time in one function
#define MAX_EVALUATIONS 2000000   // expressions and loop rounds in one function

typedef enum Mode { MODE_TRAIN, MODE_EVAL, MODE_PREDICT } Mode;

// --- Names in scope and places in the tree of parameter names (elaborate_block.c)

typedef struct Variable {
  const char *name;
  Value value;
  bool broken;          // an error was reported where it was assigned: uses stay silent
  bool is_dim;          // bound by a shape in the signature, or a `dim` of the file
  AstPos pos;           // where it got its value
  const char *origin;   // dims bound by a shape: "axis 1 of 'x'"
  int state;            // its slot + 1, of a name that `state` declared and nothing assigned since
} Variable;

typedef struct PathName {
  const char *name;
  int count;
  bool declared;    // by a `param`
  bool automatic;   // not by `as` before a call
  bool of_model;    // of the file's only model, in the train section's scope; or a clash with it that has been told
} PathName;
// One node of the tree of parameter names while its scope is open.
typedef struct Path {
  const char *text;   // "" at the root
  int n, capacity;
  PathName *names;   // given out so far below this node
  NameTable places;
} Path;

typedef struct Frame {
  struct Frame *caller;
  const AstItem *block;   // NULL: the train section or file level
  bool is_prelude;        // a function of the language: sees nothing of the file
  AstPos call_pos;
  int depth;
  Path *path;          // of parameters made here, below the loops
  Path *body;          // of the block or model itself, which paths in quotes are relative to
  NnDtype precision;   // the type that is computed in
  bool in_default;     // a default is computed, which sees the arguments before it
  int n, capacity;
  Variable *variables;
  NameTable places;   // of more than FEW_VARIABLES; may know places behind n, of names whose scope has ended
} Frame;

// --- The function being built (elaborate_function.c)

typedef struct Slot {   // a parameter or state
  const char *path, *init;
  NnType type;
  bool is_state;
  bool is_parameter;        // of a layer or declared; its average, where that is read, counts as one
  bool declared;            // by `state`, not by a layer
  const char *average_of;   // the parameter whose moving average it is; NULL: none is
  double decay;             // of a declared average: what stays of it, `every` so many steps; every 0: another state
  int64_t every;
  AstPos pos;          // where it was first made
  MlirValue value;     // placeholder argument
  MlirValue updated;   // states: the value after the updates so far
  int updated_in;      // the phase of the last `update`; -1: none
} Slot;

// How the numbers of a file become an input's while a batch is staged. channels: x to (x - mean) / std, channel by
// channel, numbers as text, separated by commas; 1 or the size of axis 1, 0: not. csr: the file has row starts, the
// input the row of each edge.
typedef struct Staging {
  int channels;
  const char *mean, *std;
  bool csr;
} Staging;
// whole: without an axis of records
typedef struct Input {
  const char *name;
  NnType type;
  MlirValue value;
  bool whole;
  const Staging *staging;
  const char *drawn;   // the initialiser that says how training draws it; NULL: it does not, or otherwise
} Input;
typedef struct Draw {
  MlirValue value;
  const char *init;
} Draw;   // a random tensor whose distribution an initialiser can tell
typedef struct Output {
  const char *role, *name;
  MlirValue value;
} Output;
typedef struct Score {
  const char *name;
  bool is_loss;
  int phase;   // -1: of the section
  AstPos pos;
  MlirValue value;
} Score;   // a loss or metric line
typedef struct ModelCall {
  const AstItem *model;
  const char *path;
  int n_args;
  CallArg *args;
  Value result;
  int first_slot, end_slot;   // that it made
} ModelCall;
typedef struct ModelSlots {   // what the first call of a model made, also of one in another phase
  const AstItem *model;
  int first, end;
} ModelSlots;
// A model's first call in the train section: what its prediction takes argument types and numbers from.
typedef struct ModelUse {
  const AstItem *model;
  int n_args;
  const CallArg *args;
  const Input *inputs;   // of the arguments that are tensors: type, whole, staging, drawn
} ModelUse;
// What stands in the place of the parameters among the slots while a model is executed.
typedef struct Replacement {
  int first_slot, end_slot;
  MlirValue *value;   // by slot; null where it is a state
} Replacement;

// What an integer may be: [0, rows), and this one besides.
typedef struct Limit {
  int64_t rows;      // 0: anything
  int64_t besides;   // 0: no other
} Limit;

typedef struct RandomKey {
  MlirValue value;   // placeholder
  int row;           // of the argument
} RandomKey;

typedef struct Function {
  const char *name;
  Mode mode;
  MlirBlock block;      // Owned until function_finish
  MlirOperation last;   // last operation counted
  NnBuilder builder;
  int64_t n_ops, n_evaluations;
  int n_scans;
  int n_inputs, cap_inputs;
  Input *inputs;
  int n_slots, cap_slots;
  Slot *slots;
  NameTable places;   // of paths among the slots
  int *slot_of;       // by number of the placeholder, + 1
  int cap_slot_of;
  int n_keys, cap_keys, n_shared_draws;
  RandomKey *keys;
  int n_draws, cap_draws;
  Draw *draws;
  int n_outputs, cap_outputs;
  Output *outputs;
  int n_scores, cap_scores;
  Score *scores;
  int n_calls, cap_calls, n_made, cap_made;
  ModelCall *calls;
  ModelSlots *made;
} Function;

typedef struct Group {
  const char **patterns;
  int n_patterns;
  AstPos pos;
  const AstItem *optimizer;
  const Value *value;        // of each of its arguments, from the third on
  const AstPos *place;       // where this line gives it; source NULL: it does not
  double lr, beta1, beta2;   // of them, where it has them
  const char *rate;          // where the learning rate is an expression of the step: as C; lr is 1 then
  bool frozen;
  bool matched;
} Group;

typedef struct Setting {
  const AstStmt *line;
  int phase;   // -1: of the section
} Setting;

// A part of the training with an optimizer of its own. A section without phases is one.
typedef struct Phase {
  const AstStmt *line;   // NULL: the whole section
  const char *name;      // "" of that
  int64_t every;         // it is run in steps that are multiples
  const AstStmt *parameters;
  int n_patterns;
  const char **patterns;       // of the paths that it trains
  int first_group, n_groups;   // its own
  const char *optimizer;       // NULL: it has a mistake
  const char *schedule;        // as C; NULL: none
  double clip_norm;
  bool clips;
  int n_draws;         // random tensors inside
  const Path *after;   // the section's names where it ends, in the execution of the whole section
} Phase;

struct Elaborator {
  MlirContext ctx;
  MlirModule module;
  const AstFile *file;
  NameTable blocks;   // by name, among the items of the file
  // f32 or f64: of parameters, of the train section; stands for the f32 and f64 that the file writes
  NnDtype dtype;
  NnDtype precision;   // of models that do not say theirs
  Diagnostics *diagnostics;
  Pool *pool;
  char *stack_base;
  Frame *frame;     // innermost
  Frame *globals;   // file-level dimensions
  Function *function;
  const Replacement *replacement;   // NULL: none
  const char *layer_path;           // path of the layer being called
  int n_models;
  const AstItem *main_model;   // of the loss, or the first
  int n_called, cap_called;
  const AstItem **called;   // models that were built
  int n_uses, cap_uses;
  ModelUse *uses;         // that of the main model first
  const AstItem *train;   // NULL: none
  int n_settings, cap_settings;
  Setting *settings;   // the other lines of the train section, as executed
  bool has_settings;   // they have been read
  int n_phases;
  Phase *phases;        // one at least
  bool phased;          // the section has phases
  int in_phase;         // the one that is being executed; -1: none
  int only_phase;       // the one that the function is of; -1: all are
  bool train_alone;     // no @eval and @predict
  int n_shared_draws;   // random tensors outside of the phases
  Limit *limits;        // of the section's inputs, in all phases together; NULL: not known yet
  int n_groups, cap_groups;
  Group *groups;
  int n_updates, cap_updates;
  struct Update *updates;   // elaborate_optimizer.c
  double ema;               // of the parameters; 0: none
  bool continued;           // the data is a text that goes on from batch to batch, and declared states with it
  int n_labels;
  AstPos labels_pos;   // names of the classes; 0: none
  int n_callers;
  AstName callers[MAX_CALLERS];   // of the last error
  int n_reported, cap_reported;
  AstPos *reported;
  int n_warned, cap_warned;
  AstPos *warned;
  bool hushed;    // the last error was a repetition and not shown
  bool gave_up;   // a limit was hit: stop without further messages
};

// Appends to an array in the elaborator's memory; the capacity stands beside it and doubles.
#define PUSH(e, array, count, capacity, item)                                       \
  do {                                                                              \
    if ((count) == (capacity)) {                                                    \
      (capacity) = (count) < 4 ? 8 : (count)*2;                                     \
      void *larger_ = elaborator_alloc((e), sizeof *(array) * (size_t)(capacity));  \
      if ((count) > 0) memcpy(larger_, (array), sizeof *(array) * (size_t)(count)); \
      (array) = larger_;                                                            \
    }                                                                               \
    (array)[(count)++] = (item);                                                    \
  } while (0)

// elaborate.c
bool elaborator_give_up(Elaborator *e, AstPos pos, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool elaborator_stack_ok(Elaborator *e, AstPos pos);
void elaborator_note(Elaborator *e, AstPos pos, const char *format, ...) __attribute__((format(printf, 3, 4)));
const AstItem *find_block(const Elaborator *e, const char *name);
// The user's place of a mistake in a function of the library: the call, or the argument that the message begins with.
AstPos user_position(const Elaborator *e, AstPos pos, const char *message);
MlirLocation location_of(Elaborator *e, AstPos pos);

// elaborate_function.c
Function *function_begin(Elaborator *e, const char *name, Mode mode);
// NULL: as they are
MlirValue function_add_input(Elaborator *e, const char *name, NnType type, bool whole, const Staging *staging);
// what the train section draws for it; NULL: nothing that an initialiser can tell
const char *function_drawn(const Function *f, MlirValue v);
bool function_reads_whole(const Function *f, MlirValue v);   // v is computed from inputs, and all of them are whole
const Staging *function_staging(const Function *f, MlirValue v);   // of the input that v is; NULL: none
void function_add_output(Elaborator *e, const char *role, const char *name, MlirValue value);
// The narrow value behind a cast to f32, which changes no bits: what the program shows is shown as it was computed.
MlirValue value_before_widening(MlirValue v);
void function_finish(Elaborator *e, Function *f);   // writes the func.func into the module
void function_discard(Function *f);
bool function_count_ops(Elaborator *e, AstPos pos);   // false after reporting: too many
bool function_charge(Elaborator *e, AstPos pos);      // one evaluation
// No parameter or state has the name that a result, a gradient or the optimizer has in files; reports.
bool function_check_names(Elaborator *e);
Limit *function_limits(Elaborator *e);   // of each input, by what the function makes of it
// The moving average of a parameter, a state <parameter>.<name>; NULL after reporting
Slot *function_average(Elaborator *e, AstPos pos, const Slot *of, const char *name);
Slot *function_slot(Elaborator *e, const char *name);   // below the current layer path; NULL
// the declared or kept state whose value before the step this is; NULL
Slot *function_state(Elaborator *e, MlirValue value);
bool values_same(const Value *x, const Value *y);   // equal numbers, or tensors computed alike

// elaborate_parameters.c
// of a call with parameters=…; false after reporting
bool replacement_read(Elaborator *e, const AstItem *model, const CallArg *arg, Replacement *out);
MlirValue replacement_of(const Elaborator *e, const Slot *s);   // the placeholder itself where nothing replaces it
// A model called with its average is another network: it changes no state of its own. begin: what the states become so
// far, NULL for other calls; end gives it back to them.
MlirValue *teacher_begin(Elaborator *e, const CallArg *parameters);
void teacher_end(Elaborator *e, const MlirValue *updated, int n);
bool exec_average(Elaborator *e, const AstStmt *s);             // average NAME = MODEL, decay=…, every=…
bool average_is_ready(const Elaborator *e, const AstStmt *s);   // a line of it, whose model has been called

// elaborate_precision.c
// unchanged where none is written; false after reporting
bool precision_read(Elaborator *e, const AstName *written, NnDtype *precision);
// Floats of x, a tensor or a list of them, as another type; all else as it is.
Value value_cast(Elaborator *e, Value x, NnDtype dtype);

// elaborate_expr.c
bool eval(Elaborator *e, const AstExpr *x, Value *result);
bool eval_condition(Elaborator *e, const AstExpr *x, bool *result);
bool eval_int(Elaborator *e, const AstExpr *x, const char *what, int64_t *result);
// A type as written: dims evaluated in the current scope; `any` NULL or set where no dtype is written.
bool eval_type(Elaborator *e, const AstType *t, NnType *result);
bool type_dtype(Elaborator *e, const AstType *t, NnDtype *result);
bool eval_args(Elaborator *e, int n, const AstArg *from, CallArg *args);
// The model in parameters(net), whose argument is no value; NULL: another call.
const char *model_named(const Elaborator *e, const AstExpr *call);
bool eval_if(Elaborator *e, const AstExpr *x, Value *result, bool *has_result);

// elaborate_scan.c
bool eval_scan(Elaborator *e, const AstExpr *x, Value *result);

// A built-in function. Parts of others, whose names begin with '_', are not for programs.
const LayerInfo *function_find(const Elaborator *e, const char *name);
bool name_is_known(Elaborator *e, const char *name);
bool report_unknown_name(Elaborator *e, const AstExpr *x);   // false
void report_unknown_function(Elaborator *e, const AstExpr *x);

// elaborate_names.c
void check_names(Elaborator *e);   // of all blocks, models and the train section

// elaborate_block.c
Variable *find_variable(Frame *f, const char *name);
Variable *visible_variable(const Elaborator *e, const char *name);   // in the frame, or a constant of the file
Variable *set_variable(Elaborator *e, const char *name, AstPos pos, Value value);
Path *path_create(Elaborator *e, const char *text);
Path *path_copy(Elaborator *e, const Path *of);
Path *path_enter(Elaborator *e, Path *parent, const char *name, bool explicit_name);
Path *path_of_label(Elaborator *e, const AstName *label, const char *otherwise);   // NULL: reported
bool path_declare(Elaborator *e, Path *p, const char *name);   // a parameter below p; false: declared before
const char *path_join(Elaborator *e, const char *parent, const char *name);
bool call_block(Elaborator *e, const AstItem *b, AstPos pos, const AstName *label, int n_args, const CallArg *args,
                Value *result);
// their names and number
void block_check_arguments(Elaborator *e, const AstItem *b, AstPos pos, int n, const CallArg *args);
bool report_no_value(Elaborator *e, const AstItem *b);   // false
void frame_push(Elaborator *e, Frame *f, const AstItem *block, AstPos pos, Path *path);
void frame_pop(Elaborator *e);

// elaborate_signature.c
// against p's type, in the frame of b
bool signature_bind(Elaborator *e, const AstItem *b, const AstParameter *p, const CallArg *arg, Value *value);

// elaborate_body.c
// What gives names a value in the first n lines of a section, whose labels have no type yet: no phases, of settings
// what losses and metrics call and averages, no loops or conditions with settings.
bool exec_definitions(Elaborator *e, const AstBody *body, int n);
void break_body(Elaborator *e, const AstBody *body);   // what a body that is not executed would have assigned
bool exec_body(Elaborator *e, const AstBody *body, Value *result, bool *has_result);

// elaborate_train.c
bool elaborate_train(Elaborator *e);                           // @train, @eval and the module's attributes
bool elaborate_predict(Elaborator *e, const AstItem *model);   // of the main model: @predict
// @predict.<model> of the others that training calls, or whose signatures tell all shapes. A model with parameters that
// the training does not have is built for its mistakes only.
void elaborate_others(Elaborator *e);
bool exec_setting(Elaborator *e, const AstStmt *s);         // a line of the train section
void hint_parameters(Elaborator *e, const char *pattern);   // those of the function that are nearest
MlirAttribute text_attr(Elaborator *e, const char *text);
MlirAttribute int_attr(Elaborator *e, int64_t value);
MlirAttribute float_attr(Elaborator *e, double value);
MlirAttribute bool_attr(Elaborator *e, bool value);
MlirNamedAttribute named_attr(Elaborator *e, const char *name, MlirAttribute value);
void set_module_attr(Elaborator *e, const char *name, MlirAttribute value);

bool train_has_loss(const Elaborator *e);
bool train_has_line(const Elaborator *e, const AstStmt *s);   // directly in it
bool train_missing_loss(Elaborator *e);                       // reports it; false

// elaborate_phase.c
bool phases_find(Elaborator *e);    // in the train section: e->phases; false after reporting
bool phases_check(Elaborator *e);   // each parameter of the function is in one
void phases_write(Elaborator *e);   // attributes of the module
bool exec_phase(Elaborator *e, const AstStmt *s);
const Phase *phase_of(const Elaborator *e, const char *path);   // that trains a parameter; NULL: none
const char *phase_name(Elaborator *e, const char *name);        // "critic.loss" in a phase
int phase_draw(Elaborator *e);                                  // row of the next random key

// elaborate_data.c
// broken: an error was reported, uses stay silent
typedef struct DataInput {
  const char *name;
  AstPos pos;
  NnType type;
  bool typed, fixed_dtype, shape_only, whole, is_weights, is_target;
  int reader;
  const AstExpr *logits;
  // of these logits: the train section or a phase, and the line of it they stand in
  const AstExpr *placed;
  const AstBody *section;
  int line;
  const AstExpr *unknown;   // the size in a model's signature that has no value
  const Staging *staging;
  bool broken;
} DataInput;
// The reader of a data or eval line, without the transformations behind it.
const AstExpr *data_reader(const AstStmt *s);
MlirAttribute data_texts(Elaborator *e, int n, const char *const *texts);   // an array of strings
bool data_inputs(Elaborator *e, int *n, DataInput **out);   // names of the `data` lines with their types
bool data_attributes(Elaborator *e, int n, const DataInput *inputs);

// elaborate_transform.c
typedef struct Transforms {
  int n_flipped, n_cropped;
  const char **flipped, **cropped;
  double flip;
  int64_t crop;
} Transforms;
// sets input->staging where the line normalises it
bool transforms_normalise(Elaborator *e, const AstStmt *s, DataInput *input);
// What moves images, once the types are known; also says what is wrong with the others.
bool transforms_read(Elaborator *e, const AstStmt *s, int n, const DataInput *inputs, Transforms *out);

// elaborate_options.c
typedef enum OptionKind { OPTION_REAL, OPTION_COUNT, OPTION_FLAG, OPTION_OTHER, OPTION_ANY } OptionKind;
typedef struct Option {
  const char *name;
  OptionKind kind;
  Value otherwise;    // VALUE_NONE: must be given, unless it is computed; an OPTION_OTHER must be of its kind
  double low, high;   // inclusive
  bool computed;      // its default is none, or follows from other arguments
} Option;
#define OPTION_BIG 1e18
#define OPTION_INT(x) \
  { .kind = VALUE_INT, .i = (x) }
#define OPTION_FLOAT(x) \
  { .kind = VALUE_FLOAT, .f = (x) }
const char *option_kind_name(OptionKind kind);   // "a number"
bool option_value(Elaborator *e, const char *of, const Option *o, const CallArg *a, Value *value);
// Binds arguments to n options; value[] holds the defaults on entry.
bool options_bind(Elaborator *e, AstPos pos, const char *of, int n_args, const CallArg *args, int n,
                  const Option *options, Value *value);
double option_number(Value v);
// Those of an optimizer or a schedule: its parameters from `first` on but those that are given by the step; *place: the
// number of the parameter of each.
bool options_of(Elaborator *e, const AstItem *item, int first, int n_given, const char *const *given, int *n,
                Option **options, int **place);
// Defaults that follow from other arguments, which the body computes; those of a number of the step stay VALUE_NONE.
bool options_complete(Elaborator *e, const AstItem *item, int n, const Option *options, const int *place, Value *value);
// An argument whose value is written out; nothing is executed here, not even a sign.
bool option_literal(Elaborator *e, const AstExpr *x, CallArg *arg);
// The names of arguments, and the values that are written out; what a name stands for is not known here.
void options_check(Elaborator *e, AstPos pos, const char *of, int n_args, const AstArg *args, int n,
                   const Option *options);

// elaborate_method.c: optimizers and schedules, the program's own before those of the library
const AstItem *method_of(const Elaborator *e, AstItemKind kind, const char *name);            // NULL: there is none
const AstItem *method_nth(const Elaborator *e, AstItemKind kind, int i);                      // NULL behind the last
const AstItem *method_named(Elaborator *e, AstItemKind kind, AstPos pos, const char *name);   // NULL: an error is told

// elaborate_optimizer.c
void optimizer_check_declaration(Elaborator *e, const AstItem *o);   // its arguments
// of the phase, and its groups; s NULL: there is no line
bool settings_optimizer(Elaborator *e, const AstStmt *s, Phase *phase);
void optimizer_write_groups(Elaborator *e);
void optimizer_check_line(Elaborator *e, const AstStmt *s, const AstExpr *x);   // x: the optimizer and its arguments
void optimizer_check_group(Elaborator *e, const AstStmt *s);
bool optimizer_build_updates(Elaborator *e);   // of the parameters of the function that is being built
// The function that updates a parameter; NULL: it is frozen.
const char *optimizer_update_of(Elaborator *e, const char *path, NnType type);
bool optimizer_is_taken(const char *state);   // the name of something else that training keeps of a parameter
bool optimizer_keeps(Elaborator *e, const char *state);   // some update has a state of this name

// elaborate_schedule.c
// s NULL: there is no line; rate: the optimizer's; *text: as C
bool settings_schedule(Elaborator *e, const AstStmt *s, double rate, const char **text);
// An argument `lr`: a number, or, where it follows from the step, a tensor, which is valid no longer, and *text: as C.
bool settings_rate(Elaborator *e, const AstExpr *x, Value *value, const char **text);
void schedule_check_line(Elaborator *e, const AstStmt *s, const AstExpr *x);

// elaborate_settings.c
bool settings_known(Elaborator *e, const AstStmt *s);               // reports an unknown keyword
bool settings_in_place(Elaborator *e, const AstStmt *s);            // reports one of a phase outside, or inside
const AstStmt *settings_find(Elaborator *e, const char *keyword);   // of the phase; the only one, NULL: none
bool settings_read_phase(Elaborator *e, Phase *phase);              // optimizer, groups, schedule, clip
// optimizer, schedule and group: which one, names of arguments, values that are written out
void settings_check_line(Elaborator *e, const AstStmt *s);
bool settings_read(Elaborator *e);                                     // e->settings to module attributes and e->groups
void settings_loss_scale(Elaborator *e, double init, int64_t every);   // every 0: it stays
int settings_group_of(Elaborator *e, const char *path);
bool settings_averaged(Elaborator *e, const char *path);   // @eval and @predict read the parameter's moving average

#endif

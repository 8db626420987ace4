// What the emitter has written, operation by operation. Text is made of these records and never read back: whoever
// looks for something in a kernel (kernels that are shared) looks here.
#ifndef NNC_CODEGEN_KERNEL_OPERATIONS_H
#define NNC_CODEGEN_KERNEL_OPERATIONS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/text.h"

// SSA values: %v<n> is n. Values that are added to a finished function have another letter.
static inline int value_named(char letter, int n) { return letter << 24 | n; }

typedef struct Values {
  int n;
  const int *id;
} Values;   // Borrowed
#define VALUES(...) ((Values){(int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]){__VA_ARGS__}})
#define NO_VALUES ((Values){0, (const int[1]){0}})

// What of an operation is a constant that may be replaced by a value: arith.constant of an integer, or of an f32 in all
// lanes of a vector (its bits), and the bytes that llvm.getelementptr adds to a buffer's address.
typedef enum ConstantKind { CONSTANT_NONE, CONSTANT_INTEGER, CONSTANT_SPLAT, CONSTANT_OFFSET } ConstantKind;
typedef struct Constant {
  ConstantKind kind;
  int lanes;   // of a splat
  int64_t value;
} Constant;

// "results = name rest"
typedef struct Operation {
  char name[32];     // "arith.addi"; of what ends a region, "}"
  char *rest;        // Owned; % stands for the next operand, # for the constant, $ for @ and the function's symbol
  int indent;        // steps of two spaces
  int bits;          // 32 or 64: the result is one integer of so many; 0: something else
  bool below_2_31;   // and, whatever its operands are, at least 0 and below 2^31
  int n_results, n_operands;
  int *values;   // Owned; results, then operands in the order of the text, with those that a region defines
  Constant constant;
} Operation;

typedef struct Operations {
  int n, capacity;
  Operation *items;   // Owned
} Operations;

Operation *operations_add(Operations *list, const char *name, int indent, Values results, Values operands,
                          const char *rest, ...) __attribute__((format(printf, 6, 7)));
Operation *operations_addv(Operations *list, const char *name, int indent, Values results, Values operands,
                           const char *rest, va_list args);
void operations_move(Operations *from, Operations *to);   // to the end; `from` is empty then
Operation *operations_copy(const Operation *o, Operations *to);
void operations_free(Operations *list);
void operation_set_results(Operation *o, Values results);
static inline int operation_operand(const Operation *o, int i) {   // -1: it has no such
  return i < o->n_operands ? o->values[o->n_results + i] : -1;
}
bool operation_is(const Operation *o, const char *name);
// One line.
void operation_print(const Operation *o, const char *symbol, bool without_constant, Text *out);

typedef struct Argument {
  int value;
  char type[32];
} Argument;

// func.func @symbol(arguments) -> (results)
typedef struct KernelFunction {
  char *symbol;   // Owned
  Text globals;   // arrays of its own in MLIR, $ for @ and the symbol
  int n_arguments;
  Argument *arguments;   // Owned
  char *results;         // Owned; types; NULL: none
  bool replaced;         // by another kernel's function: not written
  Operations body;
} KernelFunction;

typedef struct KernelFunctions {
  int n;
  KernelFunction *items;   // Owned
} KernelFunctions;

void function_add_argument(KernelFunction *f, int value, const char *type);
// An array named $suffix of the function's own; space: 3 shared memory
void function_add_array(KernelFunction *f, const char *suffix, int space, int64_t n, const char *element);
void function_add_table(KernelFunction *f, const char *suffix, int space, int64_t n, const char *numbers);   // i64
void function_print_head(const KernelFunction *f, const char *symbol, Text *out);   // globals and the first line
void function_print(const KernelFunction *f, Text *out);
void function_free(KernelFunction *f);
KernelFunction *functions_find(const KernelFunctions *functions, const char *symbol);   // NULL: there is none
void functions_add(KernelFunctions *functions, KernelFunction f);                       // takes f
void functions_move(KernelFunctions *from, KernelFunctions *to);                        // to the end
void functions_print(const KernelFunctions *functions, Text *out);
void functions_free(KernelFunctions *functions);

#endif

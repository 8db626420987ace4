// What a kernel of several operations computes, element by element and operation by operation, from the text that the
// tables hold: to tell which of its operations a NaN begins at. Slow: a NaN is looked for once.
#ifndef NNC_RUNTIME_EXPRESSION_H
#define NNC_RUNTIME_EXPRESSION_H

#include "runtime/runtime.h"

typedef struct ExpressionNode ExpressionNode;
typedef struct Expression {
  int n, n_arguments, n_results;   // the arguments are the first nodes
  ExpressionNode *nodes;           // Owned
  const void **arguments;          // Owned; (n_arguments) their values, to be set
  int *results;                    // Owned; nodes
} Expression;

// An element of an operation's result.
typedef struct ExpressionPlace {
  const char *operation;   // "sqrt"
  int64_t element, elements;
  const char *file;   // of the source; NULL: not recorded
  int file_bytes;
  const char *line;   // ":12:5", line_bytes of it
  int line_bytes;
} ExpressionPlace;

// A text of NncProgram.expressions, which must stay. False: it names an operation that is not known.
bool expression_read(Expression *x, const char *text);
void expression_free(Expression *x);
int64_t expression_argument_bytes(const Expression *x, int argument);
double expression_value(Expression *x, int result, int64_t element);
// From an element of a result that is a NaN (or, unless nan, not finite) down to the operation, which is no view, that
// has no such operand there or takes it from an argument. False: its operations give another value.
bool expression_find(Expression *x, int result, int64_t element, bool nan, ExpressionPlace *out);

#endif

// The driver and frontend: sources, diagnostics, parsing, elaboration to the nn dialect.
#ifndef NNC_COMPILER_COMPILER_H
#define NNC_COMPILER_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "compiler/ast.h"
#include "ir/ir.h"

#define NNC_EXIT_DIAGNOSTICS 1
#define NNC_EXIT_USAGE 2
#define NNC_EXIT_BUG 70

// -D NAME=VALUE: a number, true, false or a text
// text: the value as it was written
typedef struct Define {
  const char *name, *text;
  bool is_number;
  double number;
  bool used, of_fit;   // of_fit: the dimension that nnc fit looks for a value of
} Define;

// Lowers a parsed file to a module with @train, @eval and @predict (docs/internals.md, "What the frontend builds").
// Reports any number of errors through diag_*, in the order of their places; returns the null module when there were
// some. A file without a model or train section gives a module without functions. train_alone: only training.
MlirModule elaborate(MlirContext ctx, const AstFile *file, Define *defines, int n_defines, const char *dtype,
                     bool train_alone);

#endif

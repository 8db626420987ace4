// The command line of nnc.
#ifndef NNC_COMPILER_OPTIONS_H
#define NNC_COMPILER_OPTIONS_H

#include "compiler/compiler.h"
#include "compiler/diagnostics.h"
#include "passes/passes.h"

// EMIT(name, doc), in the order of the pipeline.
#define OPTIONS_EMIT(EMIT)                                 \
  EMIT(ast, "the syntax tree")                             \
  EMIT(nn, "the network as the frontend built it")         \
  EMIT(problem, "the training step as JSON for nnc-plan")  \
  EMIT(remat, "the training step after rematerialization") \
  EMIT(plan, "the table of steps and their memory")        \
  EMIT(kernels, "the fused kernels as MLIR")               \
  EMIT(llvm, "LLVM IR of the kernels")                     \
  EMIT(asm, "their assembly")                              \
  EMIT(ptx, "their PTX, for a CUDA target")                \
  EMIT(tables, "the step tables as C")                     \
  EMIT(exe, "the executable (default)")

typedef enum Emit {
#define EMIT(name, doc) EMIT_##name,
  OPTIONS_EMIT(EMIT)
#undef EMIT
} Emit;

typedef struct Options {
  const char *input;    // "-": standard input
  const char *output;   // Owned; "-": standard output
  Emit emit;
  const char *target, *cpu;
  const char *gpu_arch;   // "sm_90a"; NULL for the host
  const char *math;       // of f32 products on a GPU, "f32" or "tf32"; NULL: not given
  // as given, checked; NULL: not given
  const char *memory_budget, *remat, *max_overhead, *remat_time, *remat_effort, *remat_seed;
  const char *inside;   // what backward kernels compute again; NULL: not given
  bool sweep;
  int offload;                   // the pass of that name, for tests; 0: not given
  const char *report;            // file of the HTML page; NULL: none
  const char *machine, *costs;   // machine description, measured times; NULL: not given
  const char *shard;             // what of the state each of several ranks keeps, "none"; NULL: one rank
  const char *dtype;             // "f32", "f64", "bf16", "f16"; NULL: as the file says
  int n_defines;
  Define *defines;   // Owned
  NnPipelineHooks hooks;
  int opt_level;
  bool verbose, write_dependencies, keep_temporaries;
  DiagColor color;
  int max_errors;
} Options;

// Returns an exit status to stop with (--help, --version and mistakes, which are reported), or -1 to go on.
int options_parse(int argc, char **argv, Options *options);
void options_free(Options *options);

// Parts that the commands share; all return an exit status to stop with, or -1.
int options_usage_error(const char *format, const char *detail);   // format has one %s
// NAME=NUMBER, which is cut at the '='; a later one for a name replaces the earlier
int options_define(char *text, Options *options);
int options_number(const char *text, const char *option, int largest, int *value);   // 0 to largest
// suggests the nearest word
int options_choose(const char *option, const char *text, int n, const char *const *words, int *chosen);

// nnc check: diagnostics of any number of files, nothing else (check.c). The exit status; argv[0] is "check".
int command_check(int argc, char **argv);
// nnc fmt: files in their one layout (fmt.c).
int command_fmt(int argc, char **argv);

#endif

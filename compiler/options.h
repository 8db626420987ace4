// The command line of nnc.
#ifndef NNC_COMPILER_OPTIONS_H
#define NNC_COMPILER_OPTIONS_H

#include "compiler/compiler.h"
#include "compiler/diagnostics.h"
#include "passes/passes.h"
#include "support/options.h"

// EMIT(name, doc), in the order of the pipeline.
#define OPTIONS_EMIT(EMIT)                                                              \
  EMIT(ast, "the syntax tree")                                                          \
  EMIT(nn, "the network as the frontend built it")                                      \
  EMIT(onnx, "the model as predict computes it, for ONNX runtimes; --weights")          \
  EMIT(problem, "the training step as JSON for nnc-plan")                               \
  EMIT(remat, "the training step after rematerialization")                              \
  EMIT(plan, "the table of steps and their memory")                                     \
  EMIT(prediction, "memory and speed of --ranks ranks")                                 \
  EMIT(kernels, "the fused kernels as MLIR")                                            \
  EMIT(llvm, "LLVM IR of the kernels")                                                  \
  EMIT(asm, "their assembly")                                                           \
  EMIT(ptx, "their PTX, for a CUDA target")                                             \
  EMIT(tables, "the step tables as C")                                                  \
  EMIT(library, "a library to call from C or Python, with its header: libmodel.so, .a") \
  EMIT(exe, "the executable (default)")

typedef enum Emit {
#define EMIT(name, doc) EMIT_##name,
  OPTIONS_EMIT(EMIT)
#undef EMIT
} Emit;

typedef struct Defines {
  int n;
  Define *list;   // Owned
} Defines;

typedef struct Options {
  const char *input;      // "-": standard input
  const char *output;     // "-": standard output
  char *default_output;   // Owned; `output` where none is given
  Emit emit;
  const char *target, *cpu;
  const char *gpu_arch;   // "sm_90a"; NULL for the host
  const char *math;       // of f32 products on a GPU, "f32" or "tf32"; NULL: not given
  // as given, checked; NULL: not given
  const char *memory_budget, *remat, *max_overhead, *remat_time, *remat_effort;
  const char *far, *far_budget;   // memory far away: "host", "file:PATH" or "none", and bytes of it; NULL: not given
  uint64_t remat_seed;
  const char *inside;   // what backward kernels compute again; NULL: not given
  const char *fuse;     // what becomes one kernel; NULL: not given
  bool sweep;
  int offload, homes;            // the pass of that name, for tests; 0: not given
  const char *report;            // file of the HTML page; NULL: none
  const char *machine, *costs;   // machine description, measured times; NULL: not given
  const char *model;             // of --emit=onnx: which; NULL: the main one
  const char *weights;           // of --emit=onnx: the parameters' file; NULL: not given
  const char *mpi;               // of codegen_mpi, or "none"; NULL: the first
  int ranks;                     // of how many, 0: not given
  const char *fit;               // of nnc fit: the dimension; NULL: another command
  const char *shard;             // what of the state each of several ranks keeps, "none"; NULL: one rank
  const char *bucket;            // bytes of gradients that they exchange at once; NULL: not given
  bool fast_reduce;              // sums over them are the engine's own
  const char *dtype;             // "f32", "f64", "bf16", "f16"; NULL: as the file says
  Defines defines;
  NnPipelineHooks hooks;
  int opt_level;
  bool verbose, write_dependencies, keep_temporaries, kv_cache;
  bool json;   // of nnc check
  DiagColor color;
  int max_errors;
} Options;
bool emits_program(const Options *options);   // an executable or a library, no text

// Returns an exit status to stop with (--help, --version and mistakes, which are reported), or -1 to go on.
int options_parse(int argc, char **argv, Options *options);
// The file that would be written over `path`, by whatever name; NULL: none. Owned: free().
char *options_overwritten(const Options *options, const char *path);
void options_free(Options *options);

// Rows that several commands have.
const char *options_define(char *text, void *defines);   // NAME=VALUE, which is cut at the '='
#define OPTION_OF_DEFINES(type)                                                                   \
  {                                                                                               \
    .letter = 'D', .argument = " NAME=VALUE", .kind = OPTION_READ, .at = offsetof(type, defines), \
    .read = options_define, .help = "another value for a 'dim' or 'let' of the model file"        \
  }
#define OPTION_OF_DTYPE(type, help_) \
  OPTION(type, dtype, "dtype", "TYPE", WORD, help_, .words = OPTION_WORDS("f32", "f64", "bf16", "f16"))
// ORDER of DiagColor
#define OPTION_OF_COLOR(type)                                                     \
  OPTION(type, color, "color", "WHEN", CHOICE, "auto (default), always or never", \
         .words = OPTION_WORDS("auto", "never", "always"))
#define OPTION_OF_MAX_ERRORS(type)                                                                     \
  {                                                                                                    \
    .letter = 'f', .argument = "max-errors=N", .kind = OPTION_COUNT, .at = offsetof(type, max_errors), \
    .most = 1000000, .help = "stop after N errors of a file, 0: never (default: 20)"                   \
  }
extern const char *const options_targets[];   // the rows of targets.def
const char *options_read_arch(char *text, void *out);
#define OPTIONS_OF_TARGET(type)                                                                                        \
  OPTION(type, target, "target", "NAME", WORD, "host (default), cuda, or cuda-emu: cuda's kernels run by an emulator", \
         .words = options_targets),                                                                                    \
      OPTION(type, gpu_arch, "gpu-arch", "NAME", READ, "architecture of the GPU for cuda (default: sm_80)",            \
             .read = options_read_arch)
// Where the target is a GPU, *gpu_arch may be NULL, and is then the default. -1, or the status to stop with.
int options_check_arch(const char *program, const char *target, const char **gpu_arch);
extern const char *const options_passes[];   // "all" and the passes
#define OPTIONS_OF_HOOKS(type)                                                                                    \
  OPTION(type, hooks.print_before, "print-ir-before", "PASS", WORD,                                               \
         "print the module on standard error before a pass, or 'all'", .words = options_passes),                  \
      OPTION(type, hooks.print_after, "print-ir-after", "PASS", WORD, "the same after", .words = options_passes), \
      OPTION(type, hooks.time_passes, "time-passes", NULL, FLAG, "times of all stages on standard error")

// nnc check: diagnostics of any number of files, nothing else (check.c). The exit status; argv[0] is "check".
int command_check(int argc, char **argv);
// nnc fmt: files in their one layout (fmt.c).
int command_fmt(int argc, char **argv);

#endif

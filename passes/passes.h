// The passes: one file each, one row each in passes/passes.def, run in pipeline order by passes/pipeline.c or alone by
// nnc-opt. A pass takes the module, changes it in place and returns false after reporting an error. Above each entry
// stands its contract: what it requires, establishes and breaks.
#ifndef NNC_PASSES_PASSES_H
#define NNC_PASSES_PASSES_H

#include "ir/ir.h"

// What the passes must know of the machine. A part of codegen/'s CodegenTarget; passes never ask which target it is.
// The functions are given the target they are of.
typedef struct NnTarget NnTarget;

// A memory far away, where values wait that the arena has no room for: the host's memory beside a GPU, a file beside
// the host. Copies there and back go beside each other and beside what is computed.
typedef struct NnFarRates {
  double out_bytes_per_second, in_bytes_per_second;
  double copy_seconds;            // what a copy takes besides
  double drag_seconds_per_byte;   // by which a copied byte holds up what is computed
} NnFarRates;

// Seconds of a copy; adds to *drag those by which it holds up what is computed.
static inline double nn_far_seconds(const NnFarRates *far, bool out, double bytes, double *drag) {
  *drag += bytes * far->drag_seconds_per_byte;
  return far->copy_seconds + bytes / (out ? far->out_bytes_per_second : far->in_bytes_per_second);
}

struct NnTarget {
  const char *name;
  int64_t alignment;                           // bytes, of every buffer
  double flops_per_second, bytes_per_second;   // roofline, for seconds()
  double launch_seconds;                       // fixed cost of one step
  NnFarRates far;          // where the machine tells none: what is usual for its kind; zero: it has no such memory
  const char *far_place;   // what --far takes for a memory of that kind: "file:PATH"
  // bytes of scratch that a library op needs while it runs, or a call of the kernel: its partial results
  int64_t (*workspace_bytes)(const NnTarget *target, MlirOperation op_or_kernel);
  // Whether steps of a loop are faster where a library op's second operand, the same in all of them, stays in its
  // workspace as the first step left it; NULL: of none.
  bool (*packs_once)(const NnTarget *target, MlirOperation op);
  double (*seconds)(const NnTarget *target, MlirOperation op);   // predicted time of one execution
  bool channels_last;                                            // layout the convolutions want
  bool convolves_volumes;                                        // it has conv3d; else that is convolutions of slices
  int64_t block_channels;   // of 2 bytes, whole multiples of which blocks of pixels become where channels are few; 0:
                            // none
  int64_t row_bytes;        // rows of a product are best multiples of that; 0: of any size
  int64_t loss_rows;        // least rows of a chunk of the scores of a loss; 0: they are not cut
  bool streams_results;     // its programs can fetch a part of a result while they run
  bool groups_updates;      // one launch for adjacent updates: `gather` is worth its while
  // It has loops for Fourier transforms of that length; NULL: of none.
  bool (*fourier_ok)(int64_t length, NnDtype dtype);
  // It can run a kernel that begins with a convolution; NULL: none.
  bool (*epilogue_ok)(const NnTarget *target, MlirOperation kernel);
  // Its code may write result over arg; NULL: wherever the body allows it.
  bool (*inplace_ok)(const NnTarget *target, MlirOperation kernel, int result, int arg);
};
// Of every buffer, in bytes; target may be NULL.
static inline int64_t nn_alignment(const NnTarget *target) {
  return target && target->alignment > 0 ? target->alignment : 64;
}

// How far the pass `schedule` looks ahead, in steps. `chunk` makes no more chunks of a loss than a few of whose steps
// fit in it: a product with its taps, the loss and their gradients.
enum { NN_SCHEDULE_WINDOW = 32, NN_MAX_CHUNKS = NN_SCHEDULE_WINDOW / 4 };

// Options of one pass, from text: remat{budget=512MiB policy=auto}
typedef struct NnPassOption {
  char *key, *value;
} NnPassOption;   // Owned by the NnPassRun
typedef struct NnPassRun {
  const struct NnPassInfo *info;
  int n_options;
  NnPassOption *options;
  const NnTarget *target;
} NnPassRun;
const char *nn_pass_option(const NnPassRun *run, const char *key, const char *otherwise);

typedef bool (*NnPassFn)(MlirModule module, const NnPassRun *run);
typedef struct NnPassInfo {
  const char *name, *doc, *options;
  NnPassFn fn;
  bool ends_stage;
} NnPassInfo;
extern const NnPassInfo nn_passes[];
extern const int nn_n_passes;
#define NN_PASS(name, extent, options, doc) bool nn_pass_##name(MlirModule module, const NnPassRun *run);
#include "passes/passes.def"
#undef NN_PASS

typedef struct NnPipeline {
  int n;
  NnPassRun *runs;
} NnPipeline;
// "simplify,autodiff,remat{policy=sqrt}". Returns false and writes `error` (NN_ERROR_SIZE). Owned: nn_pipeline_free.
bool nn_pipeline_parse(const char *text, const NnTarget *target, NnPipeline *out, char *error);
void nn_pipeline_free(NnPipeline *p);
typedef struct NnPipelineHooks {            // printing, timing and verification
  const char *print_before, *print_after;   // pass name, "all" or NULL
  bool time_passes, verify_each, verify_never;
  // NULL: none; must leave the module as it is
  void (*before_pass)(void *context, const NnPassInfo *pass, MlirModule module);
  void *context;
} NnPipelineHooks;
// Runs each pass, and verifies the module where a stage ends and after the last, or after each, or never (a module that
// does not verify is our bug: the report names the pass).
bool nn_pipeline_run(const NnPipeline *p, MlirModule module, const NnPipelineHooks *hooks);

// Reports through MLIR's diagnostics at op's location, so that the driver prints it with the source line.
void nn_error(MlirOperation op, const char *format, ...) __attribute__((format(printf, 2, 3)));
void nn_error_at(MlirLocation loc, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

// What targets for GPUs share: which thread computes which elements of a kernel, of whichever family (kernel/gpu.h).
#ifndef NNC_CODEGEN_GPU_SCHEDULE_H
#define NNC_CODEGEN_GPU_SCHEDULE_H

#include "codegen/cost_model.h"
#include "codegen/kernel/emitted.h"
#include "codegen/kernel/groups.h"
#include "codegen/kernel/kernel.h"

// math.c: KernelTarget.math
Value gpu_math(Emitter *e, const char *name, int n, const Value *x, NnDtype dtype);
// e^x for a term of a sum whose largest is 1: its relative error is 1 - x times some units in the last place. f32.
Value gpu_exp_of_sum(Emitter *e, Value x);
Value gpu_round_bf16(Emitter *e, Value x);   // KernelTarget.round_bf16, of 8.0 and later

// schedule.c: functions, indices of threads, what threads of a block say to each other.
typedef struct GpuModule {
  KernelModule m;
  const bool *aligned;   // Borrowed, of the current kernel: arguments, results, workspace
  GpuShared shared;
  int64_t constant_bytes;   // of constant memory, in use
} GpuModule;
// What of KernelTarget all kernels here have, those of convolutions, too: a parameter for each buffer, the GPU's
// basics.
KernelTarget schedule_target(const GpuFamily *family);
// head with one parameter a buffer
void schedule_begin(Emitter *e, GpuModule *m, const Kernel *k, const char *symbol, int n_buffers);
// A basic with its result, the operands as it has them
Value schedule_basic(Emitter *e, int depth, GpuBasic which, Values operands);
Value schedule_number(Emitter *e, GpuBasic which);   // of a thread or a block, as i64
Value schedule_number32(Emitter *e, GpuBasic which);
// ctaid.x threads + tid.x; threads of a block, needed in all
Value schedule_linear(Emitter *e, int64_t threads, int64_t total);
// takes symbol; a block of x by y threads
void schedule_launch(EmittedKernel *out, char *symbol, int64_t blocks, int64_t x, int64_t y);
void schedule_forget(Emitter *e, int lanes);   // goes on with another number of lanes
// Lanes of 16 bytes along the innermost axis, if every access allows them; else 1.
int schedule_lanes(const Kernel *k, const Nest *nest);       // at most 4: reductions keep f32 sums of each in registers
int schedule_map_lanes(const Kernel *k, const Nest *nest);   // 8 where what is read or written once has 2 bytes at most
void schedule_barrier(Emitter *e);
void schedule_warp_barrier(Emitter *e);
// The address of an element of the function's array $<array> in shared memory; and vectors there.
Value schedule_shared(Emitter *e, const char *array, Value index, const char *element);
void schedule_shared_store(Emitter *e, const char *array, NnDtype dtype, Value index, Value v);
Value schedule_shared_load(Emitter *e, const char *array, NnDtype dtype, Value index);
Value schedule_shuffle_xor(Emitter *e, NnDtype dtype, Value x, int distance);   // x: a vector of one lane

void schedule_map(GpuModule *m, const Kernel *k, EmittedKernel *out);
// false: the map reads nothing across
bool schedule_transpose(GpuModule *m, const Kernel *k, EmittedKernel *out);
void schedule_reduce(GpuModule *m, const Kernel *k, EmittedKernel *out);   // row and column
void schedule_move(GpuModule *m, const Kernel *k, EmittedKernel *out);
int64_t schedule_move_workspace(const Kernel *k);
// For the roofline: its launches; of a scatter the seconds in which a block waits for one access of memory after the
// other, else 0.
void schedule_move_work(const Kernel *k, double *launches, double *serial);
// What a call of a row or column kernel takes.
CostWork schedule_reduce_work(GpuShared shared, MlirOperation call, const Kernel *k);
int64_t schedule_reduce_workspace(const Kernel *k);
// The second half of a column kernel over channels whose partial sums others have left, for `rows` elements of a
// channel at a time, in the workspace from byte `from` on: an array (parts, channels) per sum, two per moments, *pitch
// bytes apart, then what is made of many parts on the way. The plan is the bytes of the whole workspace.
int64_t schedule_combine_plan(const Kernel *k, int64_t rows, int64_t from, int64_t *pitch);   // pitch may be NULL
void schedule_combine(GpuModule *m, const Kernel *k, int64_t rows, int64_t from, EmittedKernel *out);

bool schedule_is_total(const Kernel *k);   // a reduction that a group may have
// The groups of body `number`, whose kernel is k: their launches and their numbers in them.
void schedule_group(GpuModule *m, const KernelGroups *groups, int number, const Kernel *k, EmittedKernel *out);

// group.c: launches of one kernel over many tensors (schedule_group.c).
int64_t gpu_total_part(int64_t elements);   // elements of a part of a large tensor
// Finds them in all functions of a planned module. Owned: kernel_groups_free.
KernelGroups *gpu_groups_build(MlirModule module);
// The part of a group's launches that a call is expected to have, before there is a plan to tell: updates alike in
// their operands stand side by side where memory has room, sums over whole tensors share up to GROUP_TOTAL_PARTS parts.
// 1: it is in none.
double gpu_group_share(MlirOperation call, MlirOperation kernel);

// align.c: buffers that wide accesses may rely on.
typedef struct GpuAlignment GpuAlignment;
// Of all calls of the module, the bodies of scans included; the plan has been made. Owned: gpu_alignment_free.
GpuAlignment *gpu_alignment_build(MlirModule module);
// By buffer of the kernel (arguments, results, what follows them, `n` in all): every call has it at a multiple of 16
// bytes. Owned: free.
bool *gpu_aligned_buffers(const GpuAlignment *a, MlirOperation kernel, int n);
void gpu_alignment_free(GpuAlignment *a);

// launch.c: one more launch of a kernel; and the lines of a comment that tell all of them.
void gpu_add_launch(EmittedKernel *out, const char *symbol, int64_t x, int64_t y, int64_t z, int64_t threads);
void gpu_comment_launches(const EmittedKernel *k, Text *t);

// share.c: where there are at least `many` launches, those of `alike` or more kernels that differ only in numbers
// become launches of one function; those that add up parts always do.
enum { SHARE_MANY = 200, SHARE_ALIKE = 3 };
void gpu_share_kernels(EmittedKernels *kernels, int many, int alike);

#endif

// What every GPU has and each family spells in its own way: numbers of threads, barriers, shuffles, what the hardware
// approximates. Schedules and templates ask for these by name; a family is a row, a GpuFamily in its folder.
#ifndef NNC_CODEGEN_KERNEL_GPU_H
#define NNC_CODEGEN_KERNEL_GPU_H

#include <stdint.h>

typedef enum GpuBasic {
  GPU_THREAD_X,   // of the block; numbers are i32
  GPU_THREAD_Y,
  GPU_BLOCK_X,
  GPU_BLOCK_Y,
  GPU_BLOCK_Z,
  GPU_BARRIER,        // of all threads of the block
  GPU_WARP_BARRIER,   // of all lanes of the warp, as all that follow are
  GPU_SHUFFLE_XOR,    // (word, distance): the word of the lane whose number differs by that
  GPU_SHUFFLE_XOR_F32,
  GPU_SHUFFLE_FROM,   // (word, lane)
  GPU_SHUFFLE_FROM_F32,
  GPU_BALLOT,       // (i1): a bit for each lane
  GPU_EXP2,         // approximate, of f32; a subnormal result is 0
  GPU_LOG2,         // so is this
  GPU_RECIPROCAL,   // and this
  GPU_DIVIDE,       // approximate, of f32
  GPU_ROUND_BF16,
  GPU_ROUND_TWO_BF16,   // (upper, lower): a vector of two
  GPU_ROUND_TWO_F16,
  GPU_BASICS
} GpuBasic;

typedef struct GpuIntrinsic {
  const char *name;       // LLVM's
  const char *operands;   // a letter each: 0 and 1 the caller's, a all lanes of the warp (-1), z 0, l the last lane
  const char *type;       // in MLIR
} GpuIntrinsic;

typedef struct GpuFamily {
  GpuIntrinsic basic[GPU_BASICS];
  int last_lane;
  const char *pointer;   // of global memory, in MLIR
  const char *triple;
  const char *prefix;           // of its intrinsics: the emulator has those that kernels use (symbols.def)
  unsigned kernel_convention;   // LLVM's number
  const char *threads;          // attribute of a kernel: "x,y,z" threads of its blocks
  const char *blocks;           // of a multiprocessor that are enough
  const char *device_scope;     // of fences and atomics: all threads of the GPU
} GpuFamily;

// Of shared memory: bytes that a block may have which is alone on a multiprocessor; each of two that share one.
typedef struct GpuShared {
  int64_t alone, paired;
} GpuShared;

// No array of static shared memory may have a larger alignment: ptxas rounds that of every kernel of a module up to the
// largest one that a dynamic array of it has. What needs more aligns itself, in a launch that asks for so much more.
enum { GPU_SHARED_ALIGN = 128 };

#endif

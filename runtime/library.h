// Convolutions and matrix products on the host: oneDNN where it has a good implementation, own loops where they are
// faster (winograd.c, gemm.c), elsewhere and for f64 (direct.c). The compiler links this too, so that the scratch bytes
// in the plan and the scratch bytes at run time come from the same code. Everything an operation needs beyond its
// operands lies in one workspace: oneDNN's scratchpad, reordered weights and, where no implementation takes the given
// layout, reordered activations. Only dnnl_sgemm allocates during execution: some MiB of packed blocks.
#ifndef NNC_RUNTIME_LIBRARY_H
#define NNC_RUNTIME_LIBRARY_H

#include <stddef.h>

#include "runtime/program.h"

// ---------------------------------------------------------------------------------------------------------------------
// Asked by the compiler. Sizes depend on the instruction set and the number of threads; the plan records both in
// NncProgram (isa, threads), and the executable makes its primitives for these, whatever the machine it runs on could
// do beyond them.

// Limits the library to an instruction set: "sse41", "avx2", "avx512_core" or "native". Must come before any other call
// of this header. False: unknown, or this machine lacks it, or oneDNN is in use already.
bool nnc_library_set_isa(const char *isa);
// The instruction set in use: one of the names above, "native" on machines other than x86-64. Static string.
const char *nnc_library_isa(void);
// Threads that primitives are made for, OpenMP's maximum unless set. Scratch sizes depend on it. Setting it to n < 1
// resets it.
void nnc_library_set_threads(int n);
int nnc_library_threads(void);

// Workspace in bytes of one execution, a multiple of NNC_ALIGN, 0 if none; the scratch_bytes field of the argument is
// not read. c->weights_layout must be "", "oihw" or a name that nnc_weights_layout_split accepts for c; -1 if it is
// not, or if the sizes are inconsistent (oh, ow do not follow from the others). About 0.2 ms for a new descriptor;
// repeated calls are looked up.
int64_t nnc_conv_scratch(const NncConv *c);
int64_t nnc_matmul_scratch(const NncMatmul *m);
// The implementation that would run, for --emit=plan and `bench`: "jit:avx512_core", "brgconv:avx512_core", "direct".
// Static string.
const char *nnc_conv_implementation(const NncConv *c);
const char *nnc_matmul_implementation(const NncMatmul *m);

// The layout in which this convolution would like its weights: a name such as "OIhw16i16o", whose elements are exactly
// those of the logical weights (o, c/groups, kh, kw), none padded, or "oihw" where it does not matter.
// c->weights_layout is not read. Writes to buf (NNC_LAYOUT_SIZE bytes) and returns it.
#define NNC_LAYOUT_SIZE 32
const char *nnc_conv_weights_layout(const NncConv *c, char *buf, size_t size);
// How a weights layout comes from the logical row-major (o, c/groups, kh, kw): reshape to split, then permute by perm
// (result axis i is split axis perm[i]), as in NncTensor. False: unknown name, or the channels do not divide. "oihw"
// gives rank 4 and the identity.
bool nnc_weights_layout_split(const char *layout, const NncConv *c, int *rank, int64_t split[NNC_MAX_RANK],
                              int perm[NNC_MAX_RANK]);

// ---------------------------------------------------------------------------------------------------------------------
// Used by the step loop. An operation is made once at start and executed many times; equal descriptors share one.

typedef struct NncOperation NncOperation;   // lives until the process ends

// NULL with a message in error (size bytes) when the descriptor is invalid or needs more than its scratch_bytes.
const NncOperation *nnc_conv_prepare(const NncConv *c, char *error, size_t size);
const NncOperation *nnc_matmul_prepare(const NncMatmul *m, char *error, size_t size);
// buffers: the three addresses in the order of NncConv and NncMatmul; workspace: scratch_bytes bytes aligned to
// NNC_ALIGN, or NULL when that is 0. Runs on all threads and returns when the result is written. False only when the
// library fails.
bool nnc_operation_execute(const NncOperation *op, void *const buffers[3], void *workspace);

// ---------------------------------------------------------------------------------------------------------------------
// Attention (attention.c): own loops, without state. The result does not depend on the number of threads.

// Workspace in bytes for nnc_library_threads() threads, a multiple of NNC_ALIGN; the field scratch_bytes is not read.
int64_t nnc_attention_scratch(const NncAttention *a);
// buffers: as NncAttention says; workspace: nnc_attention_scratch bytes, aligned to NNC_ALIGN. At most
// nnc_library_threads() threads.
void nnc_attention_execute(const NncAttention *a, void *const *buffers, void *workspace);

#endif

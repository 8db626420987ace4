// Library ops on the host: for convolutions and matrix products oneDNN where it has a good implementation, own loops
// where they are faster (winograd.c, gemm.c), elsewhere and for f64 (direct.c). The compiler links this too, so that
// the scratch bytes in the plan and the scratch bytes at run time come from the same code. Everything an operation
// needs beyond its operands lies in one workspace: oneDNN's scratchpad, reordered weights and, where no implementation
// takes the given layout, reordered activations. Own loops allocate nothing; dnnl_primitive_execute some small objects
// (its table of arguments), which are gone when it returns.
#ifndef NNC_RUNTIME_LIBRARY_H
#define NNC_RUNTIME_LIBRARY_H

#include <stddef.h>

#include "runtime/program.h"

// ---------------------------------------------------------------------------------------------------------------------
// Asked by the compiler. Sizes depend on the instruction set and the number of threads; the plan records both in
// NncProgram (isa, threads), and the executable makes its primitives for these, whatever the machine it runs on could
// do beyond them.

// Limits the library to an instruction set: "sse41", "avx", "avx2", "avx512_core", "avx512_core_bf16",
// "avx512_core_amx" or "native". Must come before any other call of this header. False: unknown, or this machine lacks
// it, or oneDNN is in use already.
bool nnc_library_set_isa(const char *isa);
// The instruction set in use: one of the names above, "native" on machines other than x86-64. Static string.
const char *nnc_library_isa(void);
bool nnc_library_has_amx(void);   // it is "avx512_core_amx"
// Operations that are made for so many threads, 0: OpenMP's maximum. Nothing of two libraries is shared, so that two
// threads may use one each.
typedef struct NncLibrary NncLibrary;
NncLibrary *nnc_library_open(int threads);     // Owned by the caller
void nnc_library_close(NncLibrary *library);   // and its operations; NULL allowed
// Threads that scratch and implementation suppose, OpenMP's maximum unless set. Scratch sizes depend on it. Setting it
// to n < 1 resets it.
void nnc_library_set_threads(int n);
int nnc_library_threads(void);

// For each row of NNC_LIBRARY_RECORDS, nnc_conv_scratch, nnc_matmul_prepare and so on:
// scratch: workspace in bytes of one execution, on nnc_library_threads() threads or on one, a multiple of NNC_ALIGN, 0
// if none; the field scratch_bytes is not read.
//   -1 where the record is inconsistent (a convolution's oh, ow do not follow from the others). About 0.2 ms for a new
//   record of oneDNN's; repeated calls are looked up. Attention: for nnc_library_threads() threads.
// prepare: for the step loop. NULL with a message in error (size bytes) where the record is inconsistent or needs more
//   than its scratch_bytes. Made once at start and executed many times, by one thread at a time; equal records share
//   one. The record must stay.
// implementation: what would run, for --emit=plan and `bench`: "jit:avx512_core", "brgconv:avx512_core", "direct", or
// ""
//   where there is only one. Static string.
typedef struct NncOperation NncOperation;   // lives as long as its library
#define NNC_LIBRARY_FUNCTIONS(KIND, name, Record, gpu)                                                           \
  int64_t nnc_##name##_scratch(const Record *record);                                                            \
  const NncOperation *nnc_##name##_prepare(NncLibrary *library, const Record *record, char *error, size_t size); \
  const char *nnc_##name##_implementation(const Record *record);
NNC_LIBRARY_RECORDS(NNC_LIBRARY_FUNCTIONS)
#undef NNC_LIBRARY_FUNCTIONS

// buffers: the addresses in the order of the record; workspace: scratch_bytes bytes aligned to NNC_ALIGN, or NULL when
// that is 0. Runs on the library's threads, or on one where the plan has no workspace for those, and returns when the
// result is written. False only when the library fails. again: of a record that packs once, the workspace is as the
// last execution left it, and B the same.
bool nnc_operation_execute(const NncOperation *op, void *const *buffers, void *workspace, bool again);
// Whether the product gains from packing B once, for many executions: of few rows, by own loops.
bool nnc_matmul_packs_once(const NncMatmul *m);

// ---------------------------------------------------------------------------------------------------------------------
// Collectives (comm/collective.c): the staging buffer in bytes, for any number of ranks; scratch_bytes is not read.
// piece: the most bytes of it that are needed.
int64_t nnc_collective_scratch(const NncCollective *c, int64_t piece);
// Elements of each part that are exchanged at once by way of `piece` bytes, half of what goes out, half of what comes
// in.
static inline int64_t nnc_scattered_piece(int64_t elements, int64_t size, int ranks, int64_t piece) {
  int64_t most = piece / 2 / ranks / size;
  return most < 1 ? 1 : elements < most ? elements : most;
}

#endif

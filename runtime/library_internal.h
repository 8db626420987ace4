// What library.c (set-up, cache, execution), library_conv.c, library_matmul.c and direct.c share.
#ifndef NNC_RUNTIME_LIBRARY_INTERNAL_H
#define NNC_RUNTIME_LIBRARY_INTERNAL_H

#include <string.h>

#include "runtime/gemm.h"
#include "runtime/library.h"
#include "runtime/onednn.h"
#include "support/integers.h"

// One operand of an operation: the memory as the plan has it and, where the implementation wants another layout, a copy
// in the workspace.
typedef struct LibraryOperand {
  int arg;   // DNNL_ARG_SRC, …
  bool is_output;
  OnednnLayout given, used;                  // Owned
  bool reordered;                            // given and used differ
  int64_t offset;                            // of the reordered copy in the workspace
  dnnl_primitive_desc_t reorder_desc;        // Owned
  dnnl_primitive_t reorder;                  // Owned
  dnnl_memory_t memory_given, memory_used;   // Owned
} LibraryOperand;

// An operand that is converted to f32 and back: count[0] x count[1] runs of count[2] neighbours, the runs stride[0] and
// stride[1] elements apart in the plan's buffer and dense in the workspace. count[0] is 0 where the buffer itself is
// f32.
typedef struct LibraryCopy {
  int64_t count[3], stride[2], offset;
} LibraryCopy;

typedef void (*LibraryLoops)(const void *record, void *const *buffers, void *workspace);

typedef enum OperationKind {
  OPERATION_ONEDNN,        // `primitive`
  OPERATION_DIRECT,        // by loops over everything (direct.c)
  OPERATION_PRODUCT,       // by own loops, as `gemm` says
  OPERATION_WINOGRAD,      // of `conv`
  OPERATION_PACKED_CONV,   // of `conv`
  OPERATION_CONVERTED,     // `inner` on f32 copies, where this type has nothing of its own
  OPERATION_ADDED,         // the product of `inner` in the workspace, added to C
  OPERATION_LOOPS          // own loops without state
} OperationKind;

struct NncOperation {
  bool is_conv;
  NncConv conv;
  NncMatmul matmul;   // with scratch_bytes 0
  int threads;
  OperationKind kind;
  const char *implementation;   // Borrowed from oneDNN, or the name of own loops
  Gemm gemm;                    // OPERATION_PRODUCT
  int gemm_buffer[3];           // which buffers are A, B and C
  int64_t scratch_bytes;        // reordered copies, then the scratchpad
  int64_t scratchpad_offset, scratchpad_bytes;
  LibraryOperand operand[3];    // in the order of the buffers
  dnnl_primitive_desc_t desc;   // Owned
  dnnl_primitive_t primitive;   // Owned; made by the first prepare
  dnnl_memory_t scratchpad;     // Owned
  const NncOperation *inner;    // OPERATION_CONVERTED, OPERATION_ADDED
  LibraryCopy copy[3];          // OPERATION_CONVERTED, in the order of the buffers
  LibraryLoops loops;           // OPERATION_LOOPS; of the rest only `record` and `library` are set
  const void *record;           // Borrowed
  bool is_prepared;
  struct NncLibrary *library;   // Borrowed: whose it is
  struct NncOperation *next;
};

struct NncLibrary {
  dnnl_engine_t engine;   // NULL: nothing has been described yet
  dnnl_stream_t stream;
  dnnl_primitive_attr_t attr;   // scratchpad mode user
  int threads;                  // 0: OpenMP's maximum
  NncOperation *operations;     // Owned; of oneDNN and of its kinds
  NncOperation *loops;          // Owned; of own loops without state
};
typedef struct NncLibrary Library;

// Prepares own loops that need nothing but their record: nnc_<name>_prepare, with what nnc_<name>_scratch says now and
// the record has.
const NncOperation *library_prepare_loops(Library *lib, LibraryLoops loops, const void *record, int64_t needed,
                                          int64_t planned, char *error, size_t size);

// What the functions without a library describe operations in; lives as long as the process.
Library *library_of_questions(void);
int library_threads(const Library *lib);

static inline int64_t library_align(int64_t bytes) { return round_up(bytes, NNC_ALIGN); }
// oneDNN's reference loops, and for bf16 its products over an unpacked image or with a copy of the result in f32.
static inline bool library_is_slow(const char *implementation, NncDtype type) {
  return strncmp(implementation, "ref", 3) == 0 || (type == NNC_BF16 && strstr(implementation, "gemm"));
}

static inline NncDtype library_weights_type(const NncConv *c) {
  return c->pass == NNC_CONV_WEIGHT_GRAD ? c->result : c->dtype;
}

bool library_conv_equal(const NncConv *a, const NncConv *b);   // but for scratch_bytes
bool library_matmul_equal(const NncMatmul *a, const NncMatmul *b);
// Fill desc, operands, implementation of an operation whose conv or matmul is set. False: the descriptor is invalid.
bool library_describe_conv(Library *lib, NncOperation *op);
bool library_describe_matmul(Library *lib, NncOperation *op);
// Takes an implementation: compares the layouts it wants with those given, makes reorder descriptors and lays out the
// workspace. False (nothing kept) when a reorder is not available.
bool library_adopt(Library *lib, NncOperation *op, dnnl_primitive_desc_t desc);
bool library_adopt_direct(Library *lib, NncOperation *op);
bool library_adopt_packed(Library *lib, NncOperation *op, const Gemm *gemm);   // which gemm_fits
// A single product of matrices, the only kind that library_product_fits: by own loops (gemm.h).
bool library_product_fits(const NncMatmul *m);
bool library_adopt_product(Library *lib, NncOperation *op, const NncMatmul *m);
Gemm library_gemm_of(const NncMatmul *m);
bool library_adopt_winograd(Library *lib, NncOperation *op);      // by op->conv, which winograd_fits
bool library_adopt_packed_conv(Library *lib, NncOperation *op);   // which packed_conv_fits
// Where op->copy[] lie in the workspace, and the bytes of them all.
int64_t library_place_copies(NncOperation *op);
// Takes the placed copies and the operation on them.
void library_adopt_converted(NncOperation *op, const NncOperation *inner);
// For so many threads; one of the two records. NULL: invalid.
NncOperation *library_find(Library *lib, const NncConv *c, const NncMatmul *m, int threads);
static inline bool library_result_fits(NncDtype dtype, NncDtype result) {
  return result == dtype || (result == NNC_F32 && (dtype == NNC_BF16 || dtype == NNC_F16));
}
bool library_has_bf16(void);   // oneDNN multiplies bf16 with the processor's own instructions

// Own loops, for any float type: deterministic for any number of threads. Weights in row-major (o, c/groups, [kd,] kh,
// kw).
void direct_conv(const NncConv *c, void *const buffers[3]);
void direct_matmul(const NncMatmul *m, void *const buffers[3]);

// Winograd's filtering (winograd.c), for 3x3 convolutions of stride 1 where it is faster than any other way; buffers as
// those of NncConv. The result does not depend on the number of threads. winograd_scratch: bytes of its workspace,
// which is aligned to NNC_ALIGN.
bool winograd_fits(const NncConv *c, int threads);
int64_t winograd_scratch(const NncConv *c, int threads);
void winograd_execute(const NncConv *c, int threads, void *const buffers[3], void *workspace);

// Products of own loops (packed_conv.c), where images are channels-last without groups, of f32 or, for a weight
// gradient, bf16. The weights, or their
// gradient, are in the order of these strides (o, c, kh, kw), in elements; the rest is as winograd's.
bool packed_conv_fits(const NncConv *c);
void packed_conv_weight_strides(const NncConv *c, dnnl_dims_t strides);
int64_t packed_conv_scratch(const NncConv *c, int threads);
void packed_conv_execute(const NncConv *c, int threads, void *const buffers[3], void *workspace);

#endif

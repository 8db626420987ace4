// A convolution as matrix products C[m, n] = sum over k of A[m, k] B[k, n], one per group, whose
// operands are read where they lie (the matrix of windows never exists as a whole).
#ifndef NNC_CODEGEN_CUDA_CONV_H
#define NNC_CODEGEN_CUDA_CONV_H

#include "codegen/cuda/cuda.h"
#include "codegen/gpu/schedule.h"
#include "support/text.h"

// An index i = (i2 size1 + i1) size0 + i0, and where it leads: an offset in elements and a pixel of an image.
typedef struct Digits {
  int64_t size1, size0;
  int64_t stride[3];    // of i0, i1, i2
  int64_t y[3], x[3];   // steps of the pixel
  int64_t y0, x0;       // where it starts
} Digits;

typedef struct ConvOperand {
  int buffer;
  int64_t group_stride;
  Digits outer, inner;   // of m (or n), of k; places add up
  bool is_window;        // the place is a pixel that may lie outside of the image
  int64_t step[2];       // only every step-th position exists (transposed convolution); 1 otherwise
  int64_t height, width, y_stride, x_stride;
  bool outer_is_contiguous;   // neighbours in m (or n) are neighbours in memory, rather than those in k
} ConvOperand;

typedef struct ConvProduct {
  int64_t groups, m, n, k;
  int64_t splits, split_size;   // of k: partial products in the workspace, added up in order; 1: none
  ConvOperand a, b;
  int64_t c_group_stride;
  Digits c_rows, c_cols;
  NnDtype dtype, result;   // of the operands; of the result
  const char *element;     // "f32": what is computed in, and what partial products are
  int64_t element_bytes;
  int index_bits;   // 32 or 64: what holds every offset
} ConvProduct;

void conv_product(const NncConv *c, ConvProduct *p);

// The emitter with nothing hoisted: all but constants is written where it stands. Values are SSA ids.
typedef struct Code {
  Emitter e;
  const ConvProduct *p;
} Code;
// Begins a function with the first `buffers` of: the three operands, the workspace.
void code_begin(Code *c, KernelModule *m, const ConvProduct *p, const char *symbol, int buffers);
int code(Code *c, const char *name, Values operands, const char *rest, ...) __attribute__((format(printf, 4, 5)));
int code_index(Code *c, int64_t value);               // constant of the index type
int code_op(Code *c, const char *op, int a, int b);   // arith.<op> on indices
int code_op_with(Code *c, const char *op, int a, int64_t b);
int code_number(Code *c, GpuBasic which);   // of a thread or a block, as an index
typedef struct CodePlace {
  int y, x, offset;
} CodePlace;   // y, x: -1 where they are constant 0
CodePlace code_place(Code *c, const Digits *d, int index);
// The element of o at two places, zero where `valid` (-1: true) is false or the pixel is outside.
int code_element(Code *c, const ConvOperand *o, int group_offset, const CodePlace *outer, const CodePlace *inner,
                 int valid);
// Stores a result into buffer 2, rounded to its type, or a partial product into the workspace.
void code_store(Code *c, int buffer, int offset, int value);
int code_and(Code *c, int a, int b);                        // of i1; -1 is true
int code_result_offset(Code *c, int group, int m, int n);   // of element (m, n) of a group's product

// Kernels: each gives the module its function. Buffers: 0 to 2 the operands, 3 the workspace.
void conv_emit_tiled(KernelModule *m, const ConvProduct *p, const char *symbol, EmittedKernel *out);
// a thread per element
void conv_emit_direct(KernelModule *m, const ConvProduct *p, const char *symbol, EmittedKernel *out);
void conv_emit_sum(KernelModule *m, const ConvProduct *p, const char *symbol, EmittedKernel *out);   // of the splits

// The module that kernels are written into; and epilogue.c: kernels that begin with a convolution.
typedef struct CudaModule {
  GpuModule gpu;
  const CudaTarget *target;   // Borrowed
  int n_epilogues;
  char **epilogues;   // Owned; what epilogue<i> is
} CudaModule;
void conv_kernel_emit(CudaModule *m, const Kernel *k, EmittedKernel *out);
int64_t conv_kernel_workspace(const CudaTarget *target, const Kernel *k);
int conv_kernel_launches(const CudaTarget *target, const Kernel *k);

#endif

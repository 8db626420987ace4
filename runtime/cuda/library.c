// Library ops that are calls of cuBLAS.
#include "runtime/cuda/cuda.h"

// Where the record's row says CUBLAS.
#define CALL(KIND, name, Record, gpu) \
  bool cuda_call_##name(const CudaMemory *m, const NncStep *s, const CUdeviceptr *addresses, CUdeviceptr workspace);
NNC_LIBRARY_RECORDS(CALL)
#undef CALL

static const void *device_pointer(CUdeviceptr p) { return (const void *)(uintptr_t)p; }

static int smallest_stride(int64_t stride, int64_t rows) { return (int)(stride > rows ? stride : rows); }

static int cublas_type(NncDtype dtype) {
  return dtype == NNC_F64 ? CUDA_R_64F : dtype == NNC_BF16 ? CUDA_R_16BF : dtype == NNC_F16 ? CUDA_R_16F : CUDA_R_32F;
}

// C = A B in row-major order is, read by columns, C^T = B^T A^T. One stride of each operand is 1, which says whether it
// is transposed.
bool cuda_call_matmul(const CudaMemory *m, const NncStep *s, const CUdeviceptr *addresses, CUdeviceptr place) {
  const NncMatmul *x = s->matmul;
  const float one_f = 1, zero_f = 0;
  const double one_d = 1, zero_d = 0;
  bool wide = x->dtype == NNC_F64, b_plain = x->b_col == 1, a_plain = x->a_col == 1;
  int type = cublas_type(x->dtype), type_c = cublas_type(x->result),
      compute = wide                                            ? CUBLAS_COMPUTE_64F
                : x->dtype == NNC_F32 && nnc_program.cuda->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                : CUBLAS_COMPUTE_32F;
  const void *one = wide ? (const void *)&one_d : &one_f, *beta = x->adds ? one
                                                                  : wide  ? (const void *)&zero_d
                                                                          : &zero_f;
  int op_b = b_plain ? CUBLAS_OP_N : CUBLAS_OP_T,
      ldb = b_plain ? smallest_stride(x->b_row, x->n) : smallest_stride(x->b_col, x->k);
  int op_a = a_plain ? CUBLAS_OP_N : CUBLAS_OP_T,
      lda = a_plain ? smallest_stride(x->a_row, x->k) : smallest_stride(x->a_col, x->m);
  const void *a = device_pointer(addresses[0]), *b = device_pointer(addresses[1]);
  void *c = (void *)(uintptr_t)addresses[2], *workspace = (void *)(uintptr_t)place;
  // cuBLAS wants 256 bytes of alignment; the plan has room for it (cuda_library_workspace).
  size_t padding = workspace ? -(uintptr_t)workspace % 256 : 0;
  if (!CUBLAS(m, s->label, SetWorkspace, m->cublas, workspace ? (char *)workspace + padding : NULL,
              workspace ? (size_t)x->scratch_bytes - padding : 0))
    return false;
  if (x->batch == 1)
    return CUBLAS(m, s->label, GemmEx, m->cublas, op_b, op_a, (int)x->n, (int)x->m, (int)x->k, one, b, type, ldb, a,
                  type, lda, beta, c, type_c, smallest_stride(x->c_row, x->n), compute, CUBLAS_GEMM_DEFAULT);
  return CUBLAS(m, s->label, GemmStridedBatchedEx, m->cublas, op_b, op_a, (int)x->n, (int)x->m, (int)x->k, one, b, type,
                ldb, x->b_batch, a, type, lda, x->a_batch, beta, c, type_c, smallest_stride(x->c_row, x->n), x->c_batch,
                (int)x->batch, compute, CUBLAS_GEMM_DEFAULT);
}

#define CALL_KERNEL(name) NULL
#define CALL_CUBLAS(name) cuda_call_##name
static const CudaLibraryCall calls[] = {
#define ROW(KIND, name, Record, gpu) [NNC_STEP_##KIND] = CALL_##gpu(name),
    NNC_LIBRARY_RECORDS(ROW)
#undef ROW
};

CudaLibraryCall cuda_library_call(NncStepKind kind) {
  return (size_t)kind < sizeof calls / sizeof *calls ? calls[kind] : NULL;
}

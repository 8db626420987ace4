// Stand-in for cuBLAS: products in f32 through oneDNN's sgemm, with operands of 16 bits widened first, and in f64 by
// plain loops. Every operand must lie inside the memory that the call may touch.
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/emulator/device.h"
#include "runtime/cuda/emulator/internal.h"

struct CublasContext {
  CUstream stream;
  void *workspace;
  size_t workspace_bytes;
  int math, pointer_mode;
};

static size_t element_bytes(int type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

static float load(const void *p, size_t i, int type) {
  if (type == CUDA_R_32F) return ((const float *)p)[i];
  uint16_t bits = ((const uint16_t *)p)[i];
  return type == CUDA_R_16BF ? emu_from_bf16(bits) : emu_from_f16(bits);
}

// A matrix (columns, leading) as f32 in the same layout. Owned: free.
static float *widen(const void *p, int type, int rows, int columns, int leading, bool tf32) {
  float *out = malloc((size_t)columns * (size_t)leading * sizeof *out + 1);
  for (int c = 0; out && c < columns; c++)
    for (int r = 0; r < rows; r++) {
      size_t i = (size_t)c * (size_t)leading + (size_t)r;
      out[i] = load(p, i, type);
      if (tf32)
        out[i] = (union {
                   uint32_t u;
                   float f;
                 }){.u = nnc_emu_f2tf32_rna(out[i])}
                     .f;
    }
  return out;
}

static bool multiply_f32(const Gemm *g, const char *a, const char *b, char *c) {
  bool tf32 = g->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && g->type_a == CUDA_R_32F;
  int a_rows = g->op_a ? g->k : g->m, a_columns = g->op_a ? g->m : g->k, b_rows = g->op_b ? g->n : g->k,
      b_columns = g->op_b ? g->k : g->n;
  float *af = widen(a, g->type_a, a_rows, a_columns, g->lda, tf32),
        *bf = widen(b, g->type_b, b_rows, b_columns, g->ldb, tf32);
  float *cf = malloc((size_t)g->m * (size_t)g->n * sizeof *cf + 1);
  // Column-major c = op(a) op(b) is row-major c' = op(b)' op(a)'.
  bool ok = af && bf && cf &&
            (g->k == 0 || dnnl_sgemm(g->op_b ? 'T' : 'N', g->op_a ? 'T' : 'N', g->n, g->m, g->k, (float)g->alpha, bf,
                                     g->ldb, af, g->lda, 0, cf, g->m) == dnnl_success);
  if (ok && g->k == 0) memset(cf, 0, (size_t)g->m * (size_t)g->n * sizeof *cf);
  for (int j = 0; ok && j < g->n; j++)
    for (int i = 0; i < g->m; i++) {
      size_t at = (size_t)j * (size_t)g->ldc + (size_t)i;
      float value = cf[(size_t)j * (size_t)g->m + (size_t)i];
      if (g->beta != 0) value += (float)g->beta * load(c, at, g->type_c);
      if (g->type_c == CUDA_R_32F) ((float *)c)[at] = value;
      else
        ((uint16_t *)c)[at] = (uint16_t)(g->type_c == CUDA_R_16BF ? nnc_emu_f2bf16(value) : nnc_emu_ff2f16x2(0, value));
    }
  free(af);
  free(bf);
  free(cf);
  return ok;
}

static void multiply_f64(const Gemm *g, const double *a, const double *b, double *c) {
  size_t lda = (size_t)g->lda, ldb = (size_t)g->ldb, ldc = (size_t)g->ldc;
  for (size_t j = 0; j < (size_t)g->n; j++)
    for (size_t i = 0; i < (size_t)g->m; i++) {
      double sum = 0;
      for (size_t k = 0; k < (size_t)g->k; k++)
        sum += (g->op_a ? a[i * lda + k] : a[k * lda + i]) * (g->op_b ? b[k * ldb + j] : b[j * ldb + k]);
      c[j * ldc + i] = g->alpha * sum + (g->beta != 0 ? g->beta * c[j * ldc + i] : 0);
    }
}

static EmuFault check_operand(const Command *command, const char *name, const void *p, int rows, int columns,
                              int leading, long long stride, int type, char *message, size_t size) {
  int n;
  EmuRange *ranges = emu_ranges(command, &n);
  size_t bytes = rows && columns ? (((size_t)columns - 1) * (size_t)leading + (size_t)rows) * element_bytes(type) : 0;
  if (bytes) bytes += (size_t)(command->gemm.batch - 1) * (size_t)stride * element_bytes(type);
  EmuFault fault = EMU_OK;
  if ((uintptr_t)p % element_bytes(type)) fault = EMU_MISALIGNED;
  else if (!ranges || !emu_ranges_contain(ranges, n, p, bytes)) fault = EMU_OUT_OF_BOUNDS;
  free(ranges);
  if (fault)
    snprintf(message, size, "cuBLAS product (m %d, n %d, k %d, batch %d): operand %s of %zu bytes at %p is %s",
             command->gemm.m, command->gemm.n, command->gemm.k, command->gemm.batch, name, bytes, p,
             fault == EMU_MISALIGNED ? "misaligned" : "out of bounds");
  return fault;
}

EmuFault emu_gemm(const Command *command, char *message, size_t size) {
  const Gemm *g = &command->gemm;
  EmuFault fault = check_operand(command, "a", g->a, g->op_a ? g->k : g->m, g->op_a ? g->m : g->k, g->lda, g->stride_a,
                                 g->type_a, message, size);
  if (!fault)
    fault = check_operand(command, "b", g->b, g->op_b ? g->n : g->k, g->op_b ? g->k : g->n, g->ldb, g->stride_b,
                          g->type_b, message, size);
  if (!fault) fault = check_operand(command, "c", g->c, g->m, g->n, g->ldc, g->stride_c, g->type_c, message, size);
  if (!fault && g->workspace) {
    int n;
    EmuRange *ranges = emu_ranges(command, &n);
    if (!ranges || !emu_ranges_contain(ranges, n, g->workspace, g->workspace_bytes)) {
      snprintf(message, size, "cuBLAS product: the workspace of %zu bytes is out of bounds", g->workspace_bytes);
      fault = EMU_OUT_OF_BOUNDS;
    }
    free(ranges);
    if (!fault) memset(g->workspace, 0xff, g->workspace_bytes);   // the library may write anything there
  }
  for (int i = 0; i < g->batch && !fault; i++) {
    const char *a = (const char *)g->a + (long long)element_bytes(g->type_a) * g->stride_a * i,
               *b = (const char *)g->b + (long long)element_bytes(g->type_b) * g->stride_b * i;
    char *c = (char *)g->c + (long long)element_bytes(g->type_c) * g->stride_c * i;
    if (g->type_a == CUDA_R_64F) {
      multiply_f64(g, (const double *)(const void *)a, (const double *)(const void *)b, (double *)(void *)c);
    } else if (!multiply_f32(g, a, b, c)) {
      snprintf(message, size, "the emulator is out of memory");
      fault = EMU_BAD_LAUNCH;
    }
  }
  return fault;
}

// ---------------------------------------------------------------------------------------------------------------------

static cublasStatus_t create(cublasHandle_t *handle) {
  *handle = calloc(1, sizeof **handle);
  return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static cublasStatus_t destroy(cublasHandle_t handle) {
  free(handle);
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get_version(cublasHandle_t handle, int *version) {
  (void)handle;
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get_property(int property, int *value) {
  *value = property == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

static const char *get_status_name(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                 : "CUBLAS_STATUS_EXECUTION_FAILED";
}

static cublasStatus_t set_stream(cublasHandle_t handle, CUstream stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

// The workspace must be device memory aligned to 256 bytes, and enough for any product.
static cublasStatus_t set_workspace(cublasHandle_t handle, void *workspace, size_t bytes) {
  int n;
  EmuRange *ranges = emu_ranges(&(Command){0}, &n);
  bool ok = ranges && bytes >= CUBLAS_LEAST_WORKSPACE && (uintptr_t)workspace % 256 == 0 &&
            emu_ranges_contain(ranges, n, workspace, bytes);
  free(ranges);
  handle->workspace = ok ? workspace : NULL;
  handle->workspace_bytes = ok ? bytes : 0;
  return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t set_math_mode(cublasHandle_t handle, int mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set_pointer_mode(cublasHandle_t handle, int mode) {
  handle->pointer_mode = mode;
  return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static bool supported(int type_a, int type_b, int type_c, int compute) {
  if (type_a != type_b) return false;
  if (type_a == CUDA_R_64F) return type_c == CUDA_R_64F && compute == CUBLAS_COMPUTE_64F;
  bool single = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
                compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return single && element_bytes(type_a) && (type_c == type_a || type_c == CUDA_R_32F);
}

static cublasStatus_t gemm_strided(cublasHandle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                                   const void *a, int type_a, int lda, long long stride_a, const void *b, int type_b,
                                   int ldb, long long stride_b, const void *beta, void *c, int type_c, int ldc,
                                   long long stride_c, int batch, int compute, int algorithm) {
  (void)algorithm;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < (op_a ? k : m) || ldb < (op_b ? n : k) || ldc < m || lda < 1 ||
      ldb < 1 || ldc < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(type_a, type_b, type_c, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (element_bytes(type_c) < 4 && !(handle->math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)) {
    emu_fault(EMU_BAD_LAUNCH,
              "cuBLAS product with a narrow result: without CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION it may "
              "add parts of a sum in the result's type");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (!m || !n || !batch) return CUBLAS_STATUS_SUCCESS;
  bool wide = compute == CUBLAS_COMPUTE_64F;
  if (compute == CUBLAS_COMPUTE_32F &&
      (handle->math & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == CUBLAS_TF32_TENSOR_OP_MATH)
    compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  Command command = {.kind = COMMAND_GEMM,
                     .gemm = {.op_a = op_a,
                              .op_b = op_b,
                              .m = m,
                              .n = n,
                              .k = k,
                              .alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha,
                              .beta = wide ? *(const double *)beta : (double)*(const float *)beta,
                              .a = a,
                              .b = b,
                              .c = c,
                              .type_a = type_a,
                              .type_b = type_b,
                              .type_c = type_c,
                              .lda = lda,
                              .ldb = ldb,
                              .ldc = ldc,
                              .stride_a = stride_a,
                              .stride_b = stride_b,
                              .stride_c = stride_c,
                              .batch = batch,
                              .compute = compute,
                              .workspace = handle->workspace,
                              .workspace_bytes = handle->workspace_bytes}};
  return emu_submit(handle->stream, &command) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t gemm(cublasHandle_t handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                           const void *a, int type_a, int lda, const void *b, int type_b, int ldb, const void *beta,
                           void *c, int type_c, int ldc, int compute, int algorithm) {
  return gemm_strided(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c, type_c, ldc, 0,
                      1, compute, algorithm);
}

void emu_bind_blas(CudaApi *api) {
  api->cublas = (CudaBlas){.Create = create,
                           .Destroy = destroy,
                           .GetVersion = get_version,
                           .GetProperty = get_property,
                           .GetStatusName = get_status_name,
                           .SetStream = set_stream,
                           .SetWorkspace = set_workspace,
                           .SetMathMode = set_math_mode,
                           .SetPointerMode = set_pointer_mode,
                           .GemmEx = gemm,
                           .GemmStridedBatchedEx = gemm_strided};
}

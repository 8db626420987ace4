// The stand-ins for the driver and cuBLAS, through the same table that an executable uses: memory, launches, a captured
// graph, matrix products, errors.
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/nccl.h"
#include "runtime/program.h"
#include "test/check.h"
#include "test/codegen/emulate.c"

static CudaApi api;
const NncProgram nnc_program = {.model = "emulated"};   // what ranks belong to

#define OK(call)                            \
  do {                                      \
    CUresult r_ = (call);                   \
    const char *name_ = "";                 \
    api.driver.GetErrorName(r_, &name_);    \
    CHECK(r_ == CUDA_SUCCESS, "%s", name_); \
  } while (0)

static Emulated *compile(char *text) {
  Emulated *e = emulate_text(text, NULL);
  free(text);
  if (!e) exit(1);
  return e;
}

static CUdeviceptr upload(const void *data, size_t bytes) {
  CUdeviceptr p = 0;
  OK(api.driver.MemAlloc(&p, bytes));
  if (data) OK(api.driver.MemcpyHtoD(p, data, bytes));
  return p;
}

static void *allocate_pinned(size_t bytes) {
  void *p = NULL;
  OK(api.driver.MemAllocHost(&p, bytes));
  return p;
}

// Sums of blocks, captured with a copy in and a copy out, replayed on other inputs.
static void test_graph(void) {
  enum { N = 1000, BLOCKS = 4 };
  Emulated *e = compile(emulate_read("block_sum.ll"));
  CUmodule module;
  CUfunction f;
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  OK(api.driver.ModuleLoadDataEx(&module, emulate_module(e), 0, NULL, NULL));
  CHECK(api.driver.ModuleGetFunction(&f, module, "absent") == CUDA_ERROR_NOT_FOUND, "a function that is not there");
  OK(api.driver.ModuleGetFunction(&f, module, "block_sum"));
  OK(api.driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  enum { X = N * sizeof(float), OUT = BLOCKS * sizeof(float) };
  float *x = allocate_pinned(X), *out = allocate_pinned(OUT);
  CUdeviceptr dx = upload(NULL, X), dout = upload(NULL, OUT);
  out[0] = 0;
  int n = N;
  OK(api.driver.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(api.driver.StreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
        "waiting for a stream that captures");
  OK(api.driver.MemcpyHtoDAsync(dx, x, X, stream));
  void *arguments[] = {&dx, &dout, &n};
  OK(api.driver.LaunchKernel(f, BLOCKS, 1, 1, 128, 1, 1, 0, stream, arguments, NULL));
  OK(api.driver.MemcpyDtoHAsync(out, dout, OUT, stream));
  OK(api.driver.StreamEndCapture(stream, &graph));
  n = -1;   // the graph has its own copy
  OK(api.driver.GraphInstantiate(&exec, graph, 0));
  OK(api.driver.GraphDestroy(graph));
  CHECK(out[0] == 0, "capturing runs nothing");
  for (int round = 1; round <= 3; round++) {
    float expected[BLOCKS] = {0};
    for (int i = 0; i < N; i++) {
      x[i] = (float)(i % 17 * round);
      expected[i / 128 % BLOCKS] += x[i];
    }
    OK(api.driver.GraphLaunch(exec, stream));
    OK(api.driver.StreamSynchronize(stream));
    CHECK(!memcmp(out, expected, OUT), "round %d: %g, expected %g", round, (double)out[0], (double)expected[0]);
  }
  OK(api.driver.GraphExecDestroy(exec));
  // A tensor inside of a larger allocation: with its range known, reading beyond it is a fault; without, it is not.
  n = N - 1;
  OK(api.driver.LaunchKernel(f, BLOCKS, 1, 1, 128, 1, 1, 0, stream, arguments, NULL));
  CudaRange ranges[] = {{"sums", dout, OUT, false}, {"x", dx, (N - 2) * 4, true}};
  api.expect_ranges(stream, 2, ranges);
  CHECK(api.driver.LaunchKernel(f, BLOCKS, 1, 1, 128, 1, 1, 0, stream, arguments, NULL) == CUDA_ERROR_ILLEGAL_ADDRESS,
        "the last element is out of its range");
  CHECK(strstr(nnc_emu_last_error(), "'x' + 3992 (of 3992 bytes)"), "%s", nnc_emu_last_error());
  CHECK(api.driver.StreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS, "the context is broken from then on");
  nnc_emu_reset();
  OK(api.driver.StreamSynchronize(stream));
  OK(api.driver.StreamDestroy(stream));
  OK(api.driver.MemFree(dx));
  OK(api.driver.MemFree(dout));
  OK(api.driver.MemFreeHost(x));
  OK(api.driver.MemFreeHost(out));
  OK(api.driver.ModuleUnload(module));
  emulate_free(e);
}

static void test_dynamic_shared(void) {
  Emulated *e = compile(emulate_read("mma_bf16.ll"));
  CUmodule module;
  CUfunction f;
  CUfunction again;
  int value = 0;
  OK(api.driver.ModuleLoadDataEx(&module, emulate_module(e), 0, NULL, NULL));
  OK(api.driver.ModuleGetFunction(&f, module, "mma_bf16"));
  OK(api.driver.ModuleGetFunction(&again, module, "mma_bf16"));
  CHECK(f == again, "two handles of one function");
  uint16_t a[256] = {0}, b[128] = {0};
  float c[128];
  CUdeviceptr da = upload(a, sizeof a), db = upload(b, sizeof b), dc = upload(NULL, sizeof c);
  void *arguments[] = {&da, &db, &dc};
  OK(api.driver.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
  CHECK(value == 256, "static shared memory %d", value);
  enum { UNASKED = (48 << 10) - 256, MOST = (227 << 10) - 256 };
  OK(api.driver.FuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
  CHECK(value == UNASKED, "dynamic shared memory %d", value);
  OK(api.driver.LaunchKernel(f, 1, 1, 1, 32, 1, 1, UNASKED, NULL, arguments, NULL));
  CHECK(api.driver.LaunchKernel(f, 1, 1, 1, 32, 1, 1, UNASKED + 1, NULL, arguments, NULL) == CUDA_ERROR_INVALID_VALUE,
        "more than 48 KiB less the static part without asking");
  CHECK(api.driver.FuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, MOST + 1) ==
            CUDA_ERROR_INVALID_VALUE,
        "more than there is");
  OK(api.driver.FuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, MOST));
  OK(api.driver.FuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
  OK(api.driver.LaunchKernel(f, 1, 1, 1, 32, 1, 1, 60000, NULL, arguments, NULL));
  OK(api.driver.MemcpyDtoH(c, dc, sizeof c));
  CHECK(c[0] == 0 && c[127] == 0, "the product of zeros");
  OK(api.driver.MemFree(da));
  OK(api.driver.MemFree(db));
  OK(api.driver.MemFree(dc));
  OK(api.driver.ModuleUnload(module));
  emulate_free(e);
}

static void test_memory(void) {
  size_t free_bytes, total;
  CUdeviceptr p;
  OK(api.driver.MemGetInfo(&free_bytes, &total));
  CHECK(free_bytes == total, "nothing is allocated");
  nnc_emu_set_memory(1 << 20);
  CHECK(api.driver.MemAlloc(&p, (1 << 20) + 1) == CUDA_ERROR_OUT_OF_MEMORY, "more than the device has");
  OK(api.driver.MemAlloc(&p, 1000));
  CHECK(nnc_emu_allocated_bytes() == 1024, "%lld", (long long)nnc_emu_allocated_bytes());
  uint32_t words[250];
  OK(api.driver.MemcpyDtoH(words, p, sizeof words));
  CHECK(words[0] == 0xffffffffu && words[249] == 0xffffffffu, "fresh memory is poisoned");
  OK(api.driver.MemsetD32Async(p, 7, 250, NULL));
  OK(api.driver.MemsetD8Async(p, 1, 4, NULL));
  OK(api.driver.MemcpyDtoH(words, p, sizeof words));
  CHECK(words[0] == 0x01010101u && words[1] == 7 && words[249] == 7, "%x %x", words[0], words[249]);
  CHECK(api.driver.MemcpyHtoD(p + 8, words, sizeof words) == CUDA_ERROR_ILLEGAL_ADDRESS, "a copy past the end");
  nnc_emu_reset();
  CHECK(api.driver.MemFree(p + 1) == CUDA_ERROR_INVALID_VALUE, "not the start of an allocation");
  OK(api.driver.MemFree(p));
  CUmodule module;
  char log[100] = "";
  CHECK(api.driver.ModuleLoadDataEx(&module, ".version 8.0\n", 2,
                                    (int[]){CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES},
                                    (void *[]){log, (void *)sizeof log}) == CUDA_ERROR_INVALID_IMAGE,
        "PTX is no module here");
  CHECK(*log, "no log");
}

enum { GEMM_M = 5, GEMM_N = 7, GEMM_K = 11, GEMM_LD = 13, GEMM_BATCH = 2, GEMM_SIZE = GEMM_LD * 13 * GEMM_BATCH };

// A product of A, B and C, numbers that are exact in every type, on the device and in doubles.
typedef struct Gemm {
  cublasHandle_t handle;
  int type, compute;
  size_t element;
  double a[GEMM_SIZE], b[GEMM_SIZE], c[GEMM_SIZE];
  CUdeviceptr da, db, dc;
} Gemm;

static void store(void *data, size_t element, int i, double v) {
  if (element == 8) ((double *)data)[i] = v;
  else if (element == 4) ((float *)data)[i] = (float)v;
  else ((uint16_t *)data)[i] = emulate_to_bf16((float)v);
}

static double load(const void *data, size_t element, int i) {
  if (element == 8) return ((const double *)data)[i];
  return element == 4 ? (double)((const float *)data)[i] : (double)emulate_from_bf16(((const uint16_t *)data)[i]);
}

static CUdeviceptr upload_numbers(const Gemm *g, const double *numbers) {
  double data[GEMM_SIZE];   // large enough for every type
  for (int i = 0; i < GEMM_SIZE; i++) store(data, g->element, i, numbers[i]);
  return upload(data, GEMM_SIZE * g->element);
}

// C = A B / 2 + 2 C; bit 0 of op: A is transposed, bit 1: B is. Rows of A are a_ld apart; of one product, or with
// `batch` of so many.
static cublasStatus_t multiply(const Gemm *g, int op, int k, int a_ld, int b_ld, int batch) {
  double wide[] = {0.5, 2};
  float narrow[] = {0.5f, 2};
  bool is_wide = g->compute == CUBLAS_COMPUTE_64F;
  void *alpha = is_wide ? (void *)&wide[0] : &narrow[0], *beta = is_wide ? (void *)&wide[1] : &narrow[1];
  void *a = (void *)(uintptr_t)g->da, *b = (void *)(uintptr_t)g->db, *c = (void *)(uintptr_t)g->dc;
  int type = g->type, apart = GEMM_LD * 13;
  if (!batch)
    return api.cublas.GemmEx(g->handle, op & 1, op >> 1, GEMM_M, GEMM_N, k, alpha, a, type, a_ld, b, type, b_ld, beta,
                             c, type, GEMM_LD, g->compute, CUBLAS_GEMM_DEFAULT);
  return api.cublas.GemmStridedBatchedEx(g->handle, op & 1, op >> 1, GEMM_M, GEMM_N, k, alpha, a, type, a_ld, apart, b,
                                         type, b_ld, apart, beta, c, type, GEMM_LD, apart, batch, g->compute,
                                         CUBLAS_GEMM_DEFAULT);
}

// The element of C at row i, column j of a batch as loops compute it; what lies between the rows stays.
static double expected_element(const Gemm *g, int op, int batch, int j, int i) {
  const double *a = g->a + batch * GEMM_LD * 13, *b = g->b + batch * GEMM_LD * 13, *c = g->c + batch * GEMM_LD * 13;
  double sum = 0;
  if (i >= GEMM_M || j >= GEMM_N) return c[j * GEMM_LD + i];
  for (int k = 0; k < GEMM_K; k++)
    sum += (op & 1 ? a[i * GEMM_LD + k] : a[k * GEMM_LD + i]) * (op >> 1 ? b[k * GEMM_LD + j] : b[j * GEMM_LD + k]);
  return 0.5 * sum + 2 * c[j * GEMM_LD + i];
}

static void check_products(Gemm *g, double tolerance) {
  for (int op = 0; op < 4; op++) {
    g->dc = upload_numbers(g, g->c);
    CHECK(multiply(g, op, GEMM_K, GEMM_LD, GEMM_LD, GEMM_BATCH) == CUBLAS_STATUS_SUCCESS, "op %d", op);
    double out[GEMM_SIZE];
    OK(api.driver.MemcpyDtoH(out, g->dc, GEMM_SIZE * g->element));
    int wrong = 0;
    for (int at = 0; at < GEMM_SIZE; at++) {
      double expected = expected_element(g, op, at / GEMM_LD / 13, at / GEMM_LD % 13, at % GEMM_LD);
      wrong += !(fabs(load(out, g->element, at) - expected) <= tolerance * (1 + fabs(expected)));
    }
    CHECK(wrong == 0, "type %d op %d: %d elements are wrong", g->type, op, wrong);
    OK(api.driver.MemFree(g->dc));
  }
}

// All transpositions, leading dimensions larger than the rows, batches, three types, against loops.
static void test_gemm(int type, int compute, double tolerance) {
  Gemm g = {.type = type, .compute = compute};
  CHECK(api.cublas.Create(&g.handle) == CUBLAS_STATUS_SUCCESS, "create");
  g.element = type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
  double *numbers[] = {g.a, g.b, g.c};
  for (int m = 0; m < 3; m++)
    for (int i = 0; i < GEMM_SIZE; i++) numbers[m][i] = (double)((i * 37 + m * 11) % 23 - 11) / 8;
  g.da = upload_numbers(&g, g.a), g.db = upload_numbers(&g, g.b), g.dc = upload_numbers(&g, g.c);
  // A product with a narrow result is taken only where its sums cannot be narrow.
  cublasStatus_t plain_mode = multiply(&g, 0, GEMM_K, GEMM_LD, GEMM_LD, 0);
  CHECK(plain_mode == (g.element == 2 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS),
        "type %d without a math mode: %d", type, plain_mode);
  CHECK(api.cublas.SetMathMode(g.handle, CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) ==
            CUBLAS_STATUS_SUCCESS,
        "math mode");
  OK(api.driver.MemFree(g.dc));
  check_products(&g, tolerance);
  g.dc = g.da;
  void *at = (void *)(uintptr_t)g.da;
  double one[] = {1};
  int other = type == CUDA_R_32F ? CUDA_R_64F : CUDA_R_32F;
  CHECK(api.cublas.GemmEx(g.handle, 0, 0, 1, 1, 1, one, at, type, 1, at, other, 1, one, at, type, 1, compute,
                          CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_NOT_SUPPORTED,
        "operands of two types");
  CHECK(multiply(&g, 0, GEMM_K, GEMM_M - 1, GEMM_LD, 0) == CUBLAS_STATUS_INVALID_VALUE,
        "a leading dimension below the rows");
  CHECK(multiply(&g, 0, 1000, GEMM_LD, 1000, 0) == CUBLAS_STATUS_EXECUTION_FAILED, "past the end of an operand");
  CHECK(strstr(nnc_emu_last_error(), "operand a") && strstr(nnc_emu_last_error(), "out of bounds"), "%s",
        nnc_emu_last_error());
  nnc_emu_reset();
  OK(api.driver.MemFree(g.da));
  OK(api.driver.MemFree(g.db));
  api.cublas.Destroy(g.handle);
}

// A product may write anything into its workspace, so the emulator does; one that reaches past its memory is refused,
// as is a product after its workspace was freed.
static void test_workspace(void) {
  enum { BYTES = CUBLAS_LEAST_WORKSPACE };
  Gemm g = {.type = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F, .element = 4};
  static unsigned char bytes[BYTES];
  CUdeviceptr memory = upload(bytes, BYTES);
  void *workspace = (void *)(uintptr_t)memory;
  CHECK(api.cublas.Create(&g.handle) == CUBLAS_STATUS_SUCCESS, "create");
  g.da = upload_numbers(&g, g.a), g.db = upload_numbers(&g, g.b), g.dc = upload_numbers(&g, g.c);
  CHECK(api.cublas.SetWorkspace(g.handle, workspace, BYTES + 1) == CUBLAS_STATUS_INVALID_VALUE, "past its memory");
  CHECK(api.cublas.SetWorkspace(g.handle, workspace, BYTES) == CUBLAS_STATUS_SUCCESS, "all of its memory");
  CHECK(multiply(&g, 0, GEMM_K, GEMM_LD, GEMM_LD, 0) == CUBLAS_STATUS_SUCCESS, "a product");
  OK(api.driver.MemcpyDtoH(bytes, memory, BYTES));
  int kept = 0;
  for (int i = 0; i < BYTES; i++) kept += bytes[i] != 0xff;
  CHECK(kept == 0, "%d bytes of the workspace are as they were", kept);
  OK(api.driver.MemFree(memory));
  CHECK(multiply(&g, 0, GEMM_K, GEMM_LD, GEMM_LD, 0) == CUBLAS_STATUS_EXECUTION_FAILED, "a workspace that is gone");
  CHECK(strstr(nnc_emu_last_error(), "workspace"), "%s", nnc_emu_last_error());
  nnc_emu_reset();
  OK(api.driver.MemFree(g.da));
  OK(api.driver.MemFree(g.db));
  OK(api.driver.MemFree(g.dc));
  api.cublas.Destroy(g.handle);
}

// Two streams, work as late as events allow: what waits for nobody comes too early or too late, what waits is in order.
static void test_order(void) {
  CUstream writer, reader;
  CUevent written, read;
  CUdeviceptr memory;
  uint32_t got[2] = {0, 0}, pinned = 5;
  nnc_emu_set_late(~0u);
  OK(api.driver.StreamCreate(&writer, CU_STREAM_NON_BLOCKING));
  OK(api.driver.StreamCreate(&reader, CU_STREAM_NON_BLOCKING));
  OK(api.driver.EventCreate(&written, CU_EVENT_DISABLE_TIMING));
  OK(api.driver.EventCreate(&read, CU_EVENT_DISABLE_TIMING));
  OK(api.driver.MemAlloc(&memory, 4));
  OK(api.driver.StreamWaitEvent(reader, written, 0));   // never recorded: nothing to wait for
  OK(api.driver.MemsetD32Async(memory, 1, 1, writer));
  OK(api.driver.EventRecord(written, writer));
  OK(api.driver.MemcpyDtoHAsync(&got[0], memory, 4, reader));
  OK(api.driver.StreamSynchronize(reader));
  CHECK(got[0] == 0xffffffffu, "nobody waited, but the write was there: %x", got[0]);
  OK(api.driver.StreamWaitEvent(reader, written, 0));
  OK(api.driver.MemcpyDtoHAsync(&got[1], memory, 4, reader));
  OK(api.driver.EventRecord(read, reader));
  OK(api.driver.MemcpyHtoDAsync(memory, &pinned, 4, writer));
  pinned = 6;   // before the copy has run
  OK(api.driver.EventSynchronize(read));
  CHECK(got[1] == 1, "after the event: %x", got[1]);
  OK(api.driver.StreamSynchronize(writer));
  OK(api.driver.MemcpyDtoH(got, memory, 4));
  CHECK(got[0] == 6, "a copy that has not run reads what is there then: %u", got[0]);
  // A copy from pageable memory has read its source when it returns, and arrives with whoever waits for it.
  uint32_t pageable = 7;
  OK(api.driver.MemcpyHtoD(memory, &pageable, 4));
  pageable = 8;
  OK(api.driver.MemcpyDtoHAsync(&got[0], memory, 4, reader));
  OK(api.driver.StreamSynchronize(reader));
  CHECK(got[0] == 6, "nobody waited, but the copy was there: %u", got[0]);
  OK(api.driver.StreamSynchronize(NULL));
  OK(api.driver.MemcpyDtoHAsync(&got[0], memory, 4, reader));
  OK(api.driver.StreamSynchronize(reader));
  CHECK(got[0] == 7, "after the default stream: %u", got[0]);
  // A fault shows where somebody waits, not where the work was submitted.
  OK(api.driver.MemcpyHtoD(memory + 4, &pageable, 4));
  CHECK(api.driver.StreamSynchronize(NULL) == CUDA_ERROR_ILLEGAL_ADDRESS, "a late copy past the end");
  nnc_emu_reset();
  OK(api.driver.MemsetD32Async(memory + 4, 1, 1, writer));
  CHECK(api.driver.StreamSynchronize(writer) == CUDA_ERROR_ILLEGAL_ADDRESS, "a memset past the end");
  nnc_emu_reset();
  OK(api.driver.EventDestroy(written));
  OK(api.driver.EventDestroy(read));
  OK(api.driver.StreamDestroy(writer));
  OK(api.driver.StreamDestroy(reader));
  OK(api.driver.MemFree(memory));
  nnc_emu_set_late(0);
}

enum { FORKED, WRITTEN, COPIED, JOINED, EVENTS };

// Word 0 is written on the first stream, copied to word 1 on the second, and written again. Without the wait for one
// of the events; the fork is always there.
static CUresult capture_two(CUstream *s, CUevent *e, CUdeviceptr memory, int missing, CUgraph *graph) {
  const CudaDriver *d = &api.driver;
  OK(d->StreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(d->EventRecord(e[FORKED], s[0]));
  OK(d->StreamWaitEvent(s[1], e[FORKED], 0));
  OK(d->MemsetD32Async(memory, 1, 1, s[0]));
  OK(d->EventRecord(e[WRITTEN], s[0]));
  if (missing != WRITTEN) OK(d->StreamWaitEvent(s[1], e[WRITTEN], 0));
  OK(d->MemcpyDtoDAsync(memory + 4, memory, 4, s[1]));
  OK(d->EventRecord(e[COPIED], s[1]));
  OK(d->MemsetD32Async(memory + 8, 3, 1, s[1]));
  OK(d->EventRecord(e[JOINED], s[1]));
  if (missing != COPIED) OK(d->StreamWaitEvent(s[0], e[COPIED], 0));
  OK(d->MemsetD32Async(memory, 2, 1, s[0]));
  if (missing != JOINED) OK(d->StreamWaitEvent(s[0], e[JOINED], 0));
  return d->StreamEndCapture(s[0], graph);
}

static void expect_race(CUstream *s, CUevent *e, CUdeviceptr memory, int missing, const char *text) {
  CUgraph graph = NULL;
  CHECK(capture_two(s, e, memory, missing, &graph) == CUDA_ERROR_LAUNCH_FAILED, "event %d is missing", missing);
  CHECK(strstr(nnc_emu_last_error(), text), "%s", nnc_emu_last_error());
  nnc_emu_reset();
  OK(api.driver.GraphDestroy(graph));
}

// A graph of two streams: what events order is the same in all orders that they allow; what they do not is told.
static void test_graph_of_streams(void) {
  CUstream s[2];
  CUevent e[EVENTS];
  CUdeviceptr memory;
  CUgraph graph;
  CUgraphExec exec;
  for (int i = 0; i < 2; i++) OK(api.driver.StreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < EVENTS; i++) OK(api.driver.EventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
  OK(api.driver.MemAlloc(&memory, 12));
  OK(capture_two(s, e, memory, -1, &graph));
  OK(api.driver.GraphInstantiate(&exec, graph, 0));
  for (uint64_t order = 0; order < 6; order++) {
    uint32_t got[3] = {0, 0, 0};
    nnc_emu_set_lanes(order);
    OK(api.driver.MemsetD32Async(memory, 0, 3, s[0]));
    OK(api.driver.GraphLaunch(exec, s[0]));
    OK(api.driver.StreamSynchronize(s[0]));
    OK(api.driver.MemcpyDtoH(got, memory, sizeof got));
    CHECK(got[0] == 2 && got[1] == 1 && got[2] == 3, "order %d: %u %u %u", (int)order, got[0], got[1], got[2]);
  }
  nnc_emu_set_lanes(0);
  OK(api.driver.GraphExecDestroy(exec));
  OK(api.driver.GraphDestroy(graph));
  expect_race(s, e, memory, WRITTEN,
              "race: command 1 of the graph, 'a copy' on stream 1, reads 4 bytes at 0 of device memory, which "
              "command 0, 'a memset' on stream 0, writes, and no event orders them");
  expect_race(s, e, memory, COPIED,
              "'a memset' on stream 0, writes 4 bytes at 0 of device memory, which command 2, 'a copy' on stream 1");
  expect_race(s, e, memory, JOINED, "not joined");
  for (uint64_t n = 1; n <= 3; n++) {   // the same, left out by the emulator
    nnc_emu_set_drop(n);
    CHECK(capture_two(s, e, memory, -1, &graph) == CUDA_ERROR_LAUNCH_FAILED, "wait %d is missing", (int)n);
    nnc_emu_reset();
    OK(api.driver.GraphDestroy(graph));
  }
  nnc_emu_set_drop(0);
  for (int i = 0; i < EVENTS; i++) OK(api.driver.EventDestroy(e[i]));
  for (int i = 0; i < 2; i++) OK(api.driver.StreamDestroy(s[i]));
  OK(api.driver.MemFree(memory));
}

enum { BEGUN, MADE, STORED, FREED, FETCHED, OVER, FAR_EVENTS };

// Word 0 is made on the first stream, stored in page-locked memory on the second, made again, and on the third what was
// stored is fetched to word 1. Without one of the waits; those for BEGUN, by which streams join, are always there.
static CUresult capture_far(CUstream *s, CUevent *e, CUdeviceptr memory, uint32_t *far, int missing, CUgraph *graph) {
  const CudaDriver *d = &api.driver;
  OK(d->StreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(d->EventRecord(e[BEGUN], s[0]));
  for (int i = 1; i < 3; i++) OK(d->StreamWaitEvent(s[i], e[BEGUN], 0));
  OK(d->MemsetD32Async(memory, 1, 1, s[0]));
  OK(d->EventRecord(e[MADE], s[0]));
  if (missing != MADE) OK(d->StreamWaitEvent(s[1], e[MADE], 0));
  OK(d->MemcpyDtoHAsync(far + 1, memory, 4, s[1]));
  OK(d->EventRecord(e[STORED], s[1]));
  if (missing != FREED) OK(d->StreamWaitEvent(s[0], e[STORED], 0));
  OK(d->MemsetD32Async(memory, 2, 1, s[0]));
  if (missing != STORED) OK(d->StreamWaitEvent(s[2], e[STORED], 0));
  OK(d->MemcpyHtoDAsync(memory + 4, far + 1, 4, s[2]));
  OK(d->EventRecord(e[FETCHED], s[2]));
  if (missing != FETCHED) OK(d->StreamWaitEvent(s[1], e[FETCHED], 0));
  OK(d->MemcpyDtoHAsync(far + 1, memory + 4, 4, s[1]));
  OK(d->EventRecord(e[OVER], s[1]));
  if (missing != OVER) OK(d->StreamWaitEvent(s[0], e[OVER], 0));
  return d->StreamEndCapture(s[0], graph);
}

static void fail_far(CUstream *s, CUevent *e, CUdeviceptr memory, uint32_t *far, int missing, const char *text) {
  CUgraph graph = NULL;
  CHECK(capture_far(s, e, memory, far, missing, &graph) == CUDA_ERROR_LAUNCH_FAILED, "event %d is missing", missing);
  CHECK(strstr(nnc_emu_last_error(), text), "%s", nnc_emu_last_error());
  nnc_emu_reset();
  OK(api.driver.GraphDestroy(graph));
}

// Copies to page-locked memory and back on streams of their own: the same words in all orders, each missing wait is
// found, by the bytes of either side, and copies that leave that memory.
static void test_far_copies(void) {
  const CudaDriver *d = &api.driver;
  CUstream s[3];
  CUevent e[FAR_EVENTS];
  CUdeviceptr memory = upload(NULL, 8);
  uint32_t *far = allocate_pinned(8), got[2], pageable = 0;
  CUgraph graph;
  CUgraphExec exec;
  CHECK(far[0] == 0xffffffff && far[1] == 0xffffffff, "fresh page-locked memory is NaN");
  CHECK(d->MemAllocHost((void *[]){NULL}, 0) == CUDA_ERROR_INVALID_VALUE, "page-locked memory of no bytes");
  for (int i = 0; i < 3; i++) OK(d->StreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < FAR_EVENTS; i++) OK(d->EventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
  OK(capture_far(s, e, memory, far, -1, &graph));
  OK(d->GraphInstantiate(&exec, graph, 0));
  for (uint64_t order = 0; order < 8; order++) {
    nnc_emu_set_lanes(order);
    far[1] = 9;
    OK(d->GraphLaunch(exec, s[0]));
    OK(d->StreamSynchronize(s[0]));
    OK(d->MemcpyDtoH(got, memory, 8));
    CHECK(got[0] == 2 && got[1] == 1 && far[1] == 1, "order %d: %u %u %u", (int)order, got[0], got[1], far[1]);
  }
  nnc_emu_set_lanes(0);
  OK(d->GraphExecDestroy(exec));
  OK(d->GraphDestroy(graph));
  fail_far(s, e, memory, far, MADE, "stream 1, reads 4 bytes at 0 of device memory");
  fail_far(s, e, memory, far, FREED, "writes 4 bytes at 0 of device memory");
  fail_far(s, e, memory, far, STORED, "stream 2, reads 4 bytes at 4 of page-locked memory");
  fail_far(s, e, memory, far, FETCHED, "stream 1, writes 4 bytes at 4 of page-locked memory");
  fail_far(s, e, memory, far, OVER, "not joined");
  CHECK(d->MemcpyDtoHAsync(far + 1, memory, 8, s[1]) == CUDA_ERROR_ILLEGAL_ADDRESS, "a copy past the end");
  CHECK(strstr(nnc_emu_last_error(), "copy to the host of 8 bytes"), "%s", nnc_emu_last_error());
  nnc_emu_reset();
  OK(d->MemcpyHtoDAsync(memory, &pageable, 4, s[2]));   // by itself it may come from anywhere
  OK(d->StreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(d->MemcpyHtoDAsync(memory, &pageable, 4, s[0]) == CUDA_ERROR_ILLEGAL_ADDRESS, "a graph of pageable memory");
  CHECK(strstr(nnc_emu_last_error(), "not inside one allocation of page-locked memory"), "%s", nnc_emu_last_error());
  nnc_emu_reset();
  OK(d->StreamEndCapture(s[0], &graph));
  OK(d->GraphDestroy(graph));
  for (int i = 0; i < FAR_EVENTS; i++) OK(d->EventDestroy(e[i]));
  for (int i = 0; i < 3; i++) OK(d->StreamDestroy(s[i]));
  OK(d->MemFree(memory));
  OK(d->MemFreeHost(far));
  CHECK(d->MemFreeHost(&pageable) == CUDA_ERROR_INVALID_VALUE, "memory of others is freed");
}

// Forwards, backwards and at random, every thread once; blocks of four warps and of one and a half.
static void test_thread_order(int block) {
  Emulated *e = compile(emulate_read("order.ll"));
  char message[512] = "";
  enum { BLOCKS = 6, MOST = 128 };
  for (uint64_t order = 0; order < 5; order++) {
    int counter = 0, taken[BLOCKS * MOST], n = BLOCKS * block, descents = 0, seen = 0;
    bool found[BLOCKS * MOST] = {false};
    EmulateArgument arguments[] = {{"counter", &counter, 4}, {"taken", taken, sizeof taken}};
    EmulateLaunch launch = {.grid = {BLOCKS},
                            .block = {(uint32_t)block},
                            .n = 2,
                            .arguments = arguments,
                            .order = order};
    CHECK(emulate_run(e, "order", &launch, message, sizeof message) == EMU_OK, "%s", message);
    for (int i = 0; i < n; i++) {
      descents += i > 0 && taken[i] < taken[i - 1];
      seen += taken[i] >= 0 && taken[i] < n && !found[taken[i]];
      if (taken[i] >= 0 && taken[i] < n) found[taken[i]] = true;
    }
    CHECK(seen == n, "order %d: %d of %d threads", (int)order, seen, n);
    CHECK(order == 0   ? descents == 0
          : order == 1 ? descents == n - 1
                       : descents > n / 8 && descents < n - 1,
          "order %d: %d descents", (int)order, descents);
  }
  emulate_free(e);
}

// What the stand-in for NCCL refuses; of what it takes nothing is passed, since the group does not end.
static void test_nccl(void) {
  CudaApi ours = api;
  ncclUniqueId id;
  ncclComm_t c = NULL;
  CUstream s, t;
  nnc_emu_bind_nccl(&ours);
  const CudaNccl *n = ours.nccl;
  OK(api.driver.StreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(api.driver.StreamCreate(&t, CU_STREAM_NON_BLOCKING));
  float data[2];
  CHECK(!n->GetUniqueId(&id) && !n->CommInitRank(&c, 1, id, 0), "a rank alone");
  CHECK(n->Send(data, 8, ncclUint8, 0, c, s) == ncclInvalidUsage, "to itself, outside of a group");
  CHECK(n->GroupEnd() == ncclInvalidUsage, "a group that did not begin");
  CHECK(!n->GroupStart(), "a group");
  CHECK(n->Send(data, 8, ncclUint8, 0, NULL, s) == ncclInvalidArgument, "no communicator");
  CHECK(n->Send(data, 2, ncclFloat32, 0, c, s) == ncclInvalidArgument, "bytes are sent");
  CHECK(n->AllReduce(data, data, 2, ncclUint8, ncclSum, c, s) == ncclInvalidArgument, "bytes have no sum");
  CHECK(n->Send(data, 0, ncclUint8, 0, c, s) == ncclInvalidArgument, "nothing to send");
  CHECK(n->Send(data, 8, ncclUint8, -1, c, s) == ncclInvalidArgument, "rank -1");
  CHECK(n->Send(data, 8, ncclUint8, 1, c, s) == ncclInvalidArgument, "rank 1 of one");
  CHECK(n->Broadcast(data, data + 1, 4, ncclUint8, 0, c, s) == ncclInvalidUsage, "a broadcast in place");
  CHECK(!n->Send(data, 8, ncclUint8, 0, c, s) && !n->Recv(data, 8, ncclUint8, 0, c, s), "to itself, in a group");
  CHECK(!n->AllReduce(data, data, 2, ncclFloat32, ncclSum, c, s), "a sum");
  CHECK(n->AllReduce(data, data, 2, ncclFloat32, ncclSum, c, t) == ncclInvalidUsage, "two streams");
  CHECK(!n->CommDestroy(c), "the end");
  OK(api.driver.StreamDestroy(s));
  OK(api.driver.StreamDestroy(t));
}

int main(void) {
  nnc_emu_bind(&api);
  int count = 0;
  CHECK(api.driver.DeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED, "before cuInit");
  OK(api.driver.Init(0));
  OK(api.driver.DeviceGetCount(&count));
  CHECK(count == 1, "%d", count);
  CUdevice device;
  CHECK(api.driver.DeviceGet(&device, 1) == CUDA_ERROR_INVALID_DEVICE, "there is one device");
  // Every field of the table is filled, but that of several ranks.
  void *const *fields = (void *const *)(const void *)&api;
  for (size_t i = 0; i < offsetof(CudaApi, nccl) / sizeof *fields; i++) CHECK(fields[i], "field %zu is empty", i);
  CHECK(api.expect_ranges, "ranges of tensors are not judged");
  CHECK(!api.nccl, "one rank has NCCL");
  test_graph();
  test_order();
  test_graph_of_streams();
  test_far_copies();
  test_thread_order(128);
  test_thread_order(48);
  test_dynamic_shared();
  test_gemm(CUDA_R_32F, CUBLAS_COMPUTE_32F, 1e-6);
  test_gemm(CUDA_R_16BF, CUBLAS_COMPUTE_32F, 4e-3);
  test_gemm(CUDA_R_64F, CUBLAS_COMPUTE_64F, 1e-14);
  test_workspace();
  test_memory();
  test_nccl();
  return check_report();
}

// What row and column kernels read and write, counted access by access in the emulator, and moments of numbers whose
// mean is a hundred thousand times their deviation. A kernel that goes through its elements once more than it must
// fails.
#include "test/codegen/cuda_cases.c"

typedef struct Case {
  const char *what;
  double reads, writes;   // times the elements of the first argument, at most
  double tolerance;       // of the far moments: relative error of the variance; 0: random elements
} Case;

enum { MAX_CASES = 32 };
static Case cases[MAX_CASES];
static int n_cases;

static void add_case(const char *what, double reads, double writes, double tolerance) {
  assert(n_cases < MAX_CASES);
  cases[n_cases++] = (Case){what, reads, writes, tolerance};
}

typedef struct Exponentials {
  MlirValue top, value, sum;
} Exponentials;

// Of rows, relative to their largest elements.
static Exponentials exponentials(Fn *f, NnType type) {
  Exponentials e;
  MlirValue x = arg(f, type);
  e.top = nn_reduce(&f->b, NN_OP_reduce_max, x, 1, I64S(1));
  e.value = nn_unary(&f->b, NN_OP_exp, nn_binary(&f->b, NN_OP_sub, x, along(f, e.top, type, 0)));
  e.sum = nn_reduce(&f->b, NN_OP_reduce_sum, e.value, 1, I64S(1));
  return e;
}

static void softmax_rows(MlirModule m, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_F32, rows, columns);
  Exponentials e = exponentials(&f, type);
  finish(&f, "row", type, 1, I64S(1), RESULTS(nn_binary(&f.b, NN_OP_div, e.value, along(&f, e.sum, type, 0))));
}

static void transpose(MlirModule m, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_F32, columns, rows);
  MlirValue x = nn_transpose(&f.b, arg(&f, SHAPE(NN_F32, rows, columns)), I64S(1, 0));
  finish(&f, "map", type, 0, NULL, RESULTS(nn_binary(&f.b, NN_OP_add, x, arg(&f, type))));
}

// The loss: nothing of the domain's shape is written.
static void loss_rows(MlirModule m, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_F32, rows, columns);
  Exponentials e = exponentials(&f, type);
  finish(&f, "row", type, 1, I64S(1), RESULTS(nn_binary(&f.b, NN_OP_add, nn_unary(&f.b, NN_OP_log, e.sum), e.top)));
}

static void loss_rows_bf16(MlirModule m, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_BF16, rows, columns), wide = SHAPE(NN_F32, rows, columns);
  MlirValue x = nn_cast(&f.b, arg(&f, type), NN_F32), top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1));
  MlirValue sum = nn_reduce(&f.b, NN_OP_reduce_sum,
                            nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, along(&f, top, wide, 0))), 1,
                            I64S(1));
  finish(&f, "row", wide, 1, I64S(1), RESULTS(nn_binary(&f.b, NN_OP_add, nn_unary(&f.b, NN_OP_log, sum), top)));
}

static void softmax_rows_bf16(MlirModule m, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_BF16, rows, columns), wide = SHAPE(NN_F32, rows, columns);
  MlirValue x = nn_cast(&f.b, arg(&f, type), NN_F32), top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1));
  MlirValue e = nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, along(&f, top, wide, 0))),
            sum = nn_reduce(&f.b, NN_OP_reduce_sum, e, 1, I64S(1));
  finish(&f, "row", wide, 1, I64S(1),
         RESULTS(nn_cast(&f.b, nn_binary(&f.b, NN_OP_div, e, along(&f, sum, wide, 0)), NN_BF16)));
}

// The loss of a language model and what it gives back to the scores.
static void loss_with_gradient(MlirModule m, NnDtype dtype, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(dtype, rows, columns), wide = SHAPE(NN_F32, rows, columns);
  MlirValue x = arg(&f, type), label = arg(&f, SHAPE(NN_I32, rows));
  if (dtype != NN_F32) x = nn_cast(&f.b, x, NN_F32);
  MlirValue top = nn_reduce(&f.b, NN_OP_reduce_max, x, 1, I64S(1)),
            sum = nn_reduce(&f.b, NN_OP_reduce_sum,
                            nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, along(&f, top, wide, 0))), 1,
                            I64S(1));
  MlirValue all = nn_binary(&f.b, NN_OP_add, nn_unary(&f.b, NN_OP_log, sum), top);
  NnType numbers = SHAPE(NN_I32, rows, columns);
  MlirValue own = nn_cast(&f.b, nn_compare(&f.b, "eq", nn_iota(&f.b, numbers, 1), along(&f, label, numbers, 0)),
                          NN_F32);
  MlirValue score = nn_reduce(&f.b, NN_OP_reduce_sum, nn_binary(&f.b, NN_OP_mul, own, x), 1, I64S(1));
  MlirValue gradient = nn_binary(&f.b, NN_OP_sub,
                                 nn_unary(&f.b, NN_OP_exp, nn_binary(&f.b, NN_OP_sub, x, along(&f, all, wide, 0))),
                                 own);
  finish(&f, "row", wide, 1, I64S(1),
         RESULTS(nn_binary(&f.b, NN_OP_sub, all, score), dtype == NN_F32 ? gradient : nn_cast(&f.b, gradient, dtype)));
}

static void column_sum_bf16(MlirModule m, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_BF16, rows, columns), wide = SHAPE(NN_F32, rows, columns);
  finish(&f, "column", wide, 1, I64S(0),
         RESULTS(nn_reduce(&f.b, NN_OP_reduce_sum, nn_cast(&f.b, arg(&f, type), NN_F32), 1, I64S(0))));
}

static void odd_rows(MlirModule m, int64_t rows, int64_t columns) {
  Fn f = fn_begin(m);
  NnType type = SHAPE(NN_F32, rows, columns);
  MlirValue x = arg(&f, type);
  finish(&f, "map", type, 0, NULL,
         RESULTS(nn_binary(&f.b, NN_OP_sub, x, along(&f, arg(&f, SHAPE(NN_F32, rows)), type, 0))));
}

static void moments(MlirModule m, const char *kind, NnType type, int64_t first, int64_t second) {
  Fn f = fn_begin(m);
  MlirValue x = arg(&f, type);
  NnAttr axes = NN_I64S("axes", I64S(first, second), 2);
  MlirValue mean = build(&f, NN_OP_moments, 1, &x, 1, &axes, NULL, 0);
  finish(&f, kind, type, 2, I64S(first, second), RESULTS(mean, mlirOperationGetResult(nn_value_def(mean), 1)));
}

static void build_cases(MlirModule m) {
  add_case("log-sum-exp of a large vocabulary", 1.01, 0.01, 0), loss_rows(m, 2, 50257);
  add_case("softmax of a large vocabulary", 1.01, 1.01, 0), softmax_rows(m, 2, 50257);
  add_case("softmax of a row that is more than shared memory", 2.01, 1.01, 0), softmax_rows(m, 1, 60000);
  add_case("softmax of a short row", 1.03, 1.01, 0), softmax_rows(m, 8, 1000);
  add_case("far moments of columns", 1.3, 0.1, 1e-3), moments(m, "column", SHAPE(NN_F32, 40, 97, 32), 0, 1);
  add_case("far moments of many columns", 1.3, 0.1, 1e-3), moments(m, "column", SHAPE(NN_F32, 3, 61, 1031), 0, 1);
  add_case("far moments of a long row", 1.3, 0.01, 1e-3), moments(m, "row", SHAPE(NN_F32, 3, 9, 3001), 1, 2);
  add_case("far moments of a short row", 1.3, 0.01, 1e-3), moments(m, "row", SHAPE(NN_F32, 7, 3, 333), 1, 2);
  add_case("far moments of channels in planes", 1.3, 0.1, 1e-3), moments(m, "column", SHAPE(NN_F32, 30, 5, 1500), 0, 2);
  add_case("log-sum-exp of a large vocabulary in bf16, whole lines", 1.01, 0.01, 0), loss_rows_bf16(m, 2, 50304);
  add_case("log-sum-exp in bf16, rows of two and a half turns", 1.01, 0.01, 0), loss_rows_bf16(m, 3, 10240);
  add_case("softmax in bf16", 1.01, 1.01, 0), softmax_rows_bf16(m, 2, 20736);
  add_case("loss and gradient of a large vocabulary", 1.03, 1.01, 0), loss_with_gradient(m, NN_F32, 1, 50257);
  add_case("loss and gradient of a large vocabulary, whole lines", 1.03, 1.01, 0),
      loss_with_gradient(m, NN_F32, 2, 50304);
  add_case("loss and gradient of a large vocabulary in bf16", 1.03, 1.01, 0), loss_with_gradient(m, NN_BF16, 1, 50257);
  add_case("loss and gradient of a large vocabulary in bf16, whole lines", 1.03, 1.01, 0),
      loss_with_gradient(m, NN_BF16, 2, 50304);
  add_case("softmax of a short row in bf16", 1.03, 1.01, 0), softmax_rows_bf16(m, 8, 768);
  add_case("sums of columns in bf16", 1.05, 0.05, 0), column_sum_bf16(m, 401, 512);
  add_case("a map over odd rows, with a number for each", 1.26, 1.01, 0), odd_rows(m, 3, 5001);
  add_case("a transpose and a sum", 2.01, 1.01, 0), transpose(m, 64, 96);
}

static void fill_far(Tensor *t, void *memory) {
  for (int64_t i = 0; i < nn_type_elements(&t->type); i++) {
    double sum = -6;
    for (int k = 0; k < 12; k++) sum += random_unit();
    t->data[i] = (double)(float)(1e4 + 0.1 * sum);
  }
  to_memory(t, memory);
}

static void check_far(const Case *c, const Run *r) {
  const Tensor *mean = &r->expected[0], *var = &r->expected[1];
  for (int64_t i = 0; i < nn_type_elements(&mean->type); i++) {
    double m = element(NN_F32, r->memory[1], i), v = element(NN_F32, r->memory[2], i);
    if (fabs(m - mean->data[i]) <= 2e-3 && fabs(v / var->data[i] - 1) <= c->tolerance) continue;
    failures++;
    fprintf(stderr, "%s: mean %.9g and variance %.9g instead of %.9g and %.9g\n", c->what, m, v, mean->data[i],
            var->data[i]);
    return;
  }
}

static void check_case(CudaCode *code, const EmittedKernel *k, MlirOperation func, const Case *c) {
  Run r = run_new(func, k->workspace_bytes);
  code->traffic = (EmuTraffic){0};
  if (c->tolerance > 0) {
    fill_far(&r.args[0], r.memory[0]);
    for (int i = 0; i < r.n_results; i++) tensor_free(&r.expected[i]);
    reference_run(func, r.args, r.expected, r.n_results);
  }
  if (run_kernel(code, k, &r, (void *const *)r.memory)) {
    if (c->tolerance > 0) check_far(c, &r);
    else compare_results(k, func, &r);
    double bytes = (double)nn_type_bytes(&r.args[0].type), reads = (double)code->traffic.read / bytes,
           writes = (double)code->traffic.written / bytes;
    printf("%s: reads its elements %.3f times, writes %.3f\n", c->what, reads, writes);
    if (reads > c->reads || writes > c->writes) {
      failures++;
      fprintf(stderr, "%s: reads its elements %.3f times and writes %.3f, not %.3f and %.3f\n", c->what, reads, writes,
              c->reads, c->writes);
    }
  }
  check_in_place(k, func, &r, run_kernel, code);
  run_free(&r);
}

int main(void) {
  CudaCases c = cuda_cases_begin(build_cases);
  int i = 0;
  MlirBlock body = mlirModuleGetBody(c.module);
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op) && i < n_cases;
       op = mlirOperationGetNextInBlock(op), i++)
    check_case(&c.code, &c.kernels.items[i], op, &cases[i]);
  return cuda_cases_end(&c);
}

// Attention templates in the emulator against plain loops in double: all types, causal or not, odd lengths, more keys
// than queries and the reverse, packed operands.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/template/template.h"
#include "test/check.h"
#include "test/codegen/emulate.c"

static char message[4096];

static const char *const type_names[] = {"bf16", "f16", "tf32", "f32", "f64"};
// Largest error of a result relative to the largest result, from the precision of the operands and of the
// probabilities.
static const double tolerances[] = {1e-2, 2e-3, 2e-3, 4e-6};

typedef struct Case {
  Attention a;
  // (batch, heads, tokens, head_dim), rounded to the type where they are inputs
  double *q, *k, *v, *o, *dy, *lse, *dq, *dk, *dv;
  float *bias;   // (heads, queries, keys) of all batches; NULL: none
} Case;

__extension__ typedef _Float16 Half;
static uint16_t to_f16(float x) {
  Half h = (Half)x;
  uint16_t bits;
  memcpy(&bits, &h, 2);
  return bits;
}
static float from_f16(uint16_t bits) {
  Half h;
  memcpy(&h, &bits, 2);
  return (float)h;
}

static double rounded(TileType t, double x) {
  float f = (float)x;
  return t == TILE_BF16  ? (double)emulate_from_bf16(emulate_to_bf16(f))
         : t == TILE_F16 ? (double)from_f16(to_f16(f))
                         : (double)f;
}

static int64_t size_of(const Attention *a, int64_t tokens) { return a->batch * a->heads * tokens * a->head_dim; }

static double *random_values(const Attention *a, int64_t tokens, uint32_t seed, double scale) {
  int64_t n = size_of(a, tokens);
  double *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = rounded(a->type, scale * ((double)(seed >> 8) / (1 << 23) - 1));
  }
  return x;
}

static bool is_seen(const Attention *a, int64_t i, int64_t j) {
  int64_t away = i + a->n_keys - a->n_queries - j;
  if (a->causal && away < 0) return false;
  return a->window == 0 || (away < a->window && away > -a->window);
}

// The score of a pair, and its derivative by the product of q and k.
static double score(const Attention *a, const float *bias, const double *q, const double *k, double *slope) {
  double s = 0;
  for (int64_t e = 0; e < a->head_dim; e++) s += q[e] * k[e];
  s *= a->scale;
  *slope = a->scale;
  if (a->softcap > 0) {
    double t = tanh(s / a->softcap);
    s = a->softcap * t;
    *slope *= 1 - t * t;
  }
  return s + (bias ? (double)*bias : 0);
}

// Everything in double.
static void reference_head(const Attention *a, Case *c, int64_t head) {
  int64_t d = a->head_dim, tq = a->n_queries, tk = a->n_keys;
  const double *q = c->q + head * tq * d, *k = c->k + head * tk * d, *v = c->v + head * tk * d,
               *dy = c->dy + head * tq * d;
  double *o = c->o + head * tq * d, *dq = c->dq + head * tq * d, *dk = c->dk + head * tk * d,
         *dv = c->dv + head * tk * d;
  double *p = calloc((size_t)tk, sizeof *p), *slope = calloc((size_t)tk, sizeof *slope);
  const float *bias = c->bias ? c->bias + head % a->heads * tq * tk : NULL;
  for (int64_t i = 0; i < tq; i++) {
    double most = -INFINITY, sum = 0, delta = 0;
    for (int64_t j = 0; j < tk; j++) {
      p[j] = -INFINITY;
      if (is_seen(a, i, j)) p[j] = score(a, bias ? bias + i * tk + j : NULL, q + i * d, k + j * d, &slope[j]);
      most = fmax(most, p[j]);
    }
    bool sees = most > (double)-INFINITY;
    for (int64_t j = 0; j < tk; j++) sum += p[j] = sees ? exp(p[j] - most) : 0;
    c->lse[head * tq + i] = sees ? most + log(sum) : INFINITY;
    for (int64_t e = 0; e < d; e++) o[i * d + e] = 0;
    for (int64_t j = 0; j < tk && sees; j++)
      for (int64_t e = 0; e < d; e++) o[i * d + e] += p[j] / sum * v[j * d + e];
    for (int64_t e = 0; e < d; e++) delta += o[i * d + e] * dy[i * d + e];
    for (int64_t j = 0; j < tk && sees; j++) {
      double dp = 0;
      for (int64_t e = 0; e < d; e++) dp += dy[i * d + e] * v[j * d + e];
      double ds = p[j] / sum * (dp - delta) * slope[j];
      for (int64_t e = 0; e < d; e++) {
        dq[i * d + e] += ds * k[j * d + e];
        dk[j * d + e] += ds * q[i * d + e];
        dv[j * d + e] += p[j] / sum * dy[i * d + e];
      }
    }
  }
  free(p);
  free(slope);
}

// ---------------------------------------------------------------------------------------------------------------------
// Device memory: operands in the type and with the strides of the case

static void *device_alloc(const Attention *a, int64_t tokens, const AttentionStrides *s, uint64_t *bytes) {
  int64_t last = (a->batch - 1) * s->batch + (a->heads - 1) * s->head + (tokens - 1) * s->row + a->head_dim;
  *bytes = (uint64_t)(last * tile_element_bytes(a->type));
  void *p = aligned_alloc(16, (*bytes + 15) / 16 * 16);
  memset(p, 0xff, *bytes);
  return p;
}

static void *place(const Attention *a, void *p, int64_t tokens, const AttentionStrides *s, int64_t i) {
  int64_t e = i % a->head_dim, token = i / a->head_dim % tokens, head = i / a->head_dim / tokens % a->heads,
          batch = i / a->head_dim / tokens / a->heads;
  return (char *)p + (batch * s->batch + head * s->head + token * s->row + e) * tile_element_bytes(a->type);
}

static void *to_device(const Attention *a, const double *x, int64_t tokens, const AttentionStrides *s,
                       uint64_t *bytes) {
  void *p = device_alloc(a, tokens, s, bytes);
  for (int64_t i = 0; i < size_of(a, tokens); i++) {
    void *at = place(a, p, tokens, s, i);
    float f = (float)x[i];
    uint16_t h = a->type == TILE_BF16 ? emulate_to_bf16(f) : to_f16(f);
    if (tile_element_bytes(a->type) == 2) memcpy(at, &h, 2);
    else memcpy(at, &f, 4);
  }
  return p;
}

static void compare(const Attention *a, const char *what, void *p, const double *expected, int64_t tokens,
                    const AttentionStrides *s) {
  double most = 0, worst = 0;
  bool finite = true;
  for (int64_t i = 0; i < size_of(a, tokens); i++) {
    void *at = place(a, p, tokens, s, i);
    float f;
    uint16_t h;
    memcpy(&h, at, 2);
    if (tile_element_bytes(a->type) == 4) memcpy(&f, at, 4);
    else f = a->type == TILE_BF16 ? emulate_from_bf16(h) : from_f16(h);
    finite = finite && isfinite(f);
    most = fmax(most, fabs(expected[i]));
    worst = fmax(worst, fabs((double)f - expected[i]));
  }
  CHECK(finite && worst <= tolerances[a->type] * most,
        "%s of %s, head %d, %lld queries, %lld keys%s: error %.3g of %.3g", what, type_names[a->type], a->head_dim,
        (long long)a->n_queries, (long long)a->n_keys, a->causal ? ", causal" : "", worst, most);
}

static void compare_statistics(const char *what, const float *found, const double *expected, int64_t n,
                               double tolerance) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++)
    if (isinf(expected[i]) ? (double)found[i] != expected[i] : !(fabs((double)found[i] - expected[i]) <= tolerance))
      worst = fmax(worst, fabs((double)found[i] - expected[i]) + 1e-30);
  CHECK(worst == 0, "%s: error %.3g", what, worst);
}

static void launch(Emulated *e, TileType type, const char *kernel, const TemplateLaunch *l, int n,
                   EmulateArgument *arguments) {
  char types[16] = {0};
  for (int i = 0; i < n; i++)
    types[i] = !strcmp(arguments[i].name, "lse") || !strcmp(arguments[i].name, "delta") ? 'f' : "bhff"[type];
  EmulateLaunch el = {.block = {(uint32_t)l->threads},
                      .dynamic_bytes = (uint32_t)l->shared_bytes,
                      .order = emulate_order(),
                      .n = n,
                      .arguments = arguments,
                      .types = types,
                      .tolerance = tolerances[type]};
  for (int i = 0; i < 3; i++) el.grid[i] = (uint32_t)l->grid[i];
  CHECK(emulate_run(e, kernel, &el, message, sizeof message) == EMU_OK, "%s", message);
}

// Operands, and what is to come out.
static Case make_case(Attention a) {
  int64_t nq = size_of(&a, a.n_queries), nk = size_of(&a, a.n_keys), n_bias = a.heads * a.n_queries * a.n_keys;
  Case c = {.a = a,
            .q = random_values(&a, a.n_queries, 1, 3),
            .k = random_values(&a, a.n_keys, 2, 1),
            .v = random_values(&a, a.n_keys, 3, 1),
            .dy = random_values(&a, a.n_queries, 4, 1),
            .o = calloc((size_t)nq, 8),
            .dq = calloc((size_t)nq, 8),
            .dk = calloc((size_t)nk, 8),
            .dv = calloc((size_t)nk, 8),
            .lse = calloc((size_t)(a.batch * a.heads * a.n_queries), 8)};
  if (a.biased) {
    c.bias = malloc((size_t)n_bias * sizeof *c.bias);
    for (int64_t i = 0; i < n_bias; i++) c.bias[i] = (float)sin((double)i);
  }
  for (int64_t h = 0; h < a.batch * a.heads; h++) reference_head(&a, &c, h);
  return c;
}

// What is done to scores beside the scale.
typedef struct Form {
  bool causal, biased;
  int64_t window;
  double softcap;
} Form;

static void test_form(TileType type, int head_dim, int64_t batch, int64_t heads, int64_t n_queries, int64_t n_keys,
                      Form form, bool packed, bool wgmma) {
  Attention a = {.type = type,
                 .batch = batch,
                 .heads = heads,
                 .groups = heads,
                 .n_queries = n_queries,
                 .n_keys = n_keys,
                 .head_dim = head_dim,
                 .causal = form.causal,
                 .biased = form.biased,
                 .bias_head = form.biased ? n_queries * n_keys : 0,
                 .window = form.window,
                 .softcap = form.softcap,
                 .wgmma = wgmma,
                 .scale = 1 / sqrt(head_dim)};
  // Packed: (batch, tokens, heads, head_dim), as a projection leaves it; else (batch, heads, tokens, head_dim).
  AttentionStrides rows = {heads * n_queries * head_dim, packed ? head_dim : n_queries * head_dim,
                           packed ? heads * head_dim : head_dim};
  AttentionStrides columns = {heads * n_keys * head_dim, packed ? head_dim : n_keys * head_dim,
                              packed ? heads * head_dim : head_dim};
  a.q = a.o = rows;
  a.k = a.v = columns;
  a.dq = rows, a.dk = columns;
  CHECK(attention_supported(&a) && (!wgmma || attention_wgmma_supported(&a)), "not supported");
  int64_t n_rows = batch * heads * n_queries, n_bias = heads * n_queries * n_keys;
  Case c = make_case(a);
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("attention", LLVMContextCreate());
  TemplateLaunch forward, backward_q, backward_kv;
  attention_build(module, &a, 0, "forward", &forward);
  a.backward = true;
  attention_build(module, &a, 0, "backward_q", &backward_q);
  attention_build(module, &a, 1, "backward_kv", &backward_kv);
  Emulated *e = emulate_take_module(module, NULL);
  if (!e) exit(1);
  uint64_t bq, bk, bv, bo;
  void *q = to_device(&a, c.q, n_queries, &a.q, &bq), *k = to_device(&a, c.k, n_keys, &a.k, &bk),
       *v = to_device(&a, c.v, n_keys, &a.v, &bv), *o = device_alloc(&a, n_queries, &a.o, &bo);
  float *lse = malloc((size_t)n_rows * 4);
  EmulateArgument bias = {"bias", c.bias, (uint64_t)n_bias * 4};
  EmulateArgument inputs[6] = {{"q", q, bq}, {"k", k, bk}, {"v", v, bv}};
  int n = 3;
  if (form.biased) inputs[n++] = bias;
  inputs[n++] = (EmulateArgument){"o", o, bo};
  inputs[n++] = (EmulateArgument){"lse", lse, (uint64_t)n_rows * 4};
  launch(e, type, "forward", &forward, n, inputs);
  compare(&a, "o", o, c.o, n_queries, &a.o);
  compare_statistics("lse", lse, c.lse, n_rows, type == TILE_TF32 ? 5e-3 : 1e-5);
  uint64_t bytes = (uint64_t)n_rows * 4, bdy, bdq, bdk, bdv;
  float *delta = malloc(bytes);
  void *dy = to_device(&a, c.dy, n_queries, &a.o, &bdy), *dq = device_alloc(&a, n_queries, &a.q, &bdq),
       *dk = device_alloc(&a, n_keys, &a.k, &bdk), *dv = device_alloc(&a, n_keys, &a.v, &bdv);
  EmulateArgument arguments[11] = {{"q", q, bq}, {"k", k, bk},        {"v", v, bv},
                                   {"o", o, bo}, {"lse", lse, bytes}, {"do", dy, bdy}};
  n = 6;
  if (form.biased) arguments[n++] = bias;
  EmulateArgument results[] = {{"dq", dq, bdq}, {"dk", dk, bdk}, {"dv", dv, bdv}, {"delta", delta, bytes}};
  for (int i = 0; i < 4; i++) arguments[n++] = results[i];
  launch(e, type, "backward_q", &backward_q, n, arguments);
  launch(e, type, "backward_kv", &backward_kv, n, arguments);
  compare(&a, "dq", dq, c.dq, n_queries, &a.q);
  compare(&a, "dk", dk, c.dk, n_keys, &a.k);
  compare(&a, "dv", dv, c.dv, n_keys, &a.v);
  emulate_free(e);
  void *memory[] = {dy, dq, dk, dv, delta, q, k, v, o, lse, c.q, c.k, c.v, c.o, c.dy, c.dq, c.dk, c.dv, c.lse, c.bias};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
}

static void test_attention(TileType type, int head_dim, int64_t batch, int64_t heads, int64_t n_queries, int64_t n_keys,
                           bool causal, bool packed, bool wgmma) {
  test_form(type, head_dim, batch, heads, n_queries, n_keys, (Form){.causal = causal}, packed, wgmma);
}

// The three kernels at a training shape as PTX, those of the gradients once more with packed results: accepted by ptxas
// where there is one, without spills.
static void test_ptx_form(TileType type, int head_dim, bool plain, double dropout, Form form, const char *arch) {
  bool wgmma = !plain && tile_element_bytes(type) == 2 && !strcmp(arch, "sm_90a");
  static const char *const names[] = {"forward", "backward_q", "backward_kv", "packed_q", "packed_kv"};
  Attention a = {.type = type,
                 .batch = 4,
                 .heads = 12,
                 .groups = 12,
                 .n_queries = 1024,
                 .n_keys = 1024,
                 .head_dim = head_dim,
                 .causal = true,
                 .biased = form.biased,
                 .bias_head = form.biased ? 1024 * 1024 : 0,
                 .window = form.window,
                 .softcap = form.softcap,
                 .scale = 0.125,
                 .plain = plain,
                 .wgmma = wgmma,
                 .masked = dropout > 0,
                 .dropout = dropout};
  if (dropout > 0) a.groups = 4;
  a.q = a.k = a.v = a.o = a.dq = a.dk = (AttentionStrides){12 * 1024 * head_dim, head_dim, 12 * head_dim};
  for (int i = 0; i < 5; i++) {
    LLVMContextRef llvm = LLVMContextCreate();
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("attention", llvm);
    TemplateLaunch launch;
    a.backward = i > 0;
    a.packed = i > 2;
    attention_build(module, &a, i == 2 || i == 4, names[i], &launch);
    char *ir = LLVMPrintModuleToString(module), *ptx = emulate_ptx(ir, arch);
    int registers = 0, spills = 0;
    CHECK(ptx && emulate_assemble(ptx, arch, &registers, &spills), "%s of %s, head %d, for %s is refused", names[i],
          type_names[type], head_dim, arch);
    CHECK(spills <= 0, "%s of %s, head %d, for %s spills %d bytes", names[i], type_names[type], head_dim, arch, spills);
    CHECK(launch.shared_bytes <= (wgmma ? 227 : 99) * 1024, "%d bytes of shared memory", launch.shared_bytes);
    if (getenv("NNC_TEST_TABLE"))
      printf("%-12s %-5s head %3d %-7s%s%s%s registers %3d, spills %d, shared %d, threads %d\n", names[i],
             type_names[type], head_dim, arch, plain ? " plain" : "", wgmma ? " wgmma" : "",
             dropout > 0 ? " masked, dropout" : "", registers, spills, launch.shared_bytes, launch.threads);
    free(ptx);
    LLVMDisposeMessage(ir);
    LLVMDisposeModule(module);
    LLVMContextDispose(llvm);
  }
}

static void test_ptx(TileType type, int head_dim, bool plain, double dropout, const char *arch) {
  test_ptx_form(type, head_dim, plain, dropout, (Form){0}, arch);
}

int main(void) {
  if (getenv("NNC_TEST_TABLE")) {   // every combination, as in docs/cuda.md; takes a minute
    static const char *const archs[] = {"sm_80", "sm_89", "sm_90a", "sm_100"};
    for (int type = 0; type < 5; type++)
      for (int dim = 64; dim <= 128; dim += 64)
        for (int i = 0; i < 4; i++)
          for (int p = 0; p < 2; p++) test_ptx((TileType)type, dim, type == TILE_F64, 0.1 * p, archs[i]);
    return check_report();
  }
  test_ptx(TILE_BF16, 64, false, 0, "sm_90a");
  test_ptx(TILE_BF16, 128, false, 0, "sm_90a");
  test_ptx(TILE_F16, 128, false, 0.1, "sm_90a");
  test_ptx(TILE_BF16, 64, false, 0.1, "sm_90a");
  Form biased = {.biased = true}, near = {.causal = true, .window = 100, .softcap = 2},
       all = {.biased = true, .window = 40, .softcap = 2};
  test_ptx_form(TILE_BF16, 64, false, 0, biased, "sm_90a");
  test_ptx_form(TILE_BF16, 128, false, 0, near, "sm_90a");
  test_ptx_form(TILE_F16, 128, false, 0.1, all, "sm_90a");
  test_ptx(TILE_BF16, 64, false, 0, "sm_80");
  test_ptx(TILE_F32, 64, false, 0, "sm_80");
  test_ptx(TILE_F32, 64, false, 0.1, "sm_89");
  test_ptx(TILE_F64, 80, true, 0.1, "sm_100");
  test_attention(TILE_BF16, 64, 1, 2, 64, 64, false, false, false);
  test_attention(TILE_BF16, 64, 2, 3, 37, 101, false, true, false);
  test_attention(TILE_BF16, 64, 1, 2, 131, 131, true, true, false);
  test_attention(TILE_BF16, 128, 1, 1, 1, 1, true, false, false);
  test_attention(TILE_BF16, 128, 1, 2, 70, 150, true, true, false);
  test_attention(TILE_F16, 64, 1, 2, 67, 67, true, false, false);
  test_attention(TILE_TF32, 64, 1, 2, 67, 35, false, true, false);
  test_attention(TILE_TF32, 128, 1, 1, 41, 41, true, false, false);
  test_attention(TILE_F32, 64, 1, 2, 67, 67, true, true, false);
  test_attention(TILE_F32, 128, 1, 1, 33, 97, false, false, false);
  test_attention(TILE_BF16, 64, 1, 1, 100, 30, true, false, false);   // the first rows see no key
  test_attention(TILE_BF16, 64, 1, 1, 128, 128, false, false, true);
  test_attention(TILE_BF16, 64, 2, 3, 37, 401, false, true, true);
  test_attention(TILE_BF16, 64, 1, 2, 331, 331, true, true, true);
  test_attention(TILE_BF16, 128, 1, 1, 1, 1, true, false, true);
  test_attention(TILE_BF16, 128, 1, 2, 150, 470, true, true, true);
  test_attention(TILE_F16, 64, 1, 2, 267, 267, true, false, true);
  test_attention(TILE_F16, 128, 1, 1, 129, 257, false, false, true);
  test_attention(TILE_BF16, 64, 1, 1, 300, 140, true, false, true);
  test_form(TILE_BF16, 64, 1, 2, 131, 150, all, true, false);
  test_form(TILE_BF16, 64, 1, 2, 150, 401, biased, false, true);
  test_form(TILE_BF16, 128, 1, 2, 331, 331, near, true, true);
  test_form(TILE_F16, 128, 1, 1, 300, 140, near, false, true);   // the first rows see no key
  test_form(TILE_F16, 64, 2, 2, 267, 300, all, true, true);
  return check_report();
}

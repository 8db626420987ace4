// Convolutions and matrix products of runtime/library.c against plain loops: every pass, layout, stride, padding,
// dilation and group, all float types; weights in the layout the library prefers; the workspace it asked for and not a
// byte more.
#include "runtime/library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "runtime/runtime.h"
#include "test/check.h"
#include "test/runtime/operation.h"

// The shapes that each library op was tried at: six at least, three of them with an odd size.
enum { SHAPES = 6, MOST_SHAPES = 64 };
typedef struct Coverage {
  int n, odd;
  uint64_t seen[MOST_SHAPES];
} Coverage;
static Coverage coverage[NN_OP_COUNT];

static void note_shape(NnOp op, int n, const int64_t *sizes) {
  Coverage *c = &coverage[op];
  uint64_t hash = 17;
  bool odd = false;
  for (int i = 0; i < n; i++) {
    hash = hash * 1000003 + (uint64_t)sizes[i];
    odd |= sizes[i] > 1 && sizes[i] % 2;
  }
  for (int i = 0; i < c->n; i++)
    if (c->seen[i] == hash) return;
  if (c->n == MOST_SHAPES) return;
  c->seen[c->n++] = hash;
  c->odd += odd;
}

static void check_coverage(void) {
  for (int op = 0; op < NN_OP_COUNT; op++) {
    const NnOpInfo *info = nn_op_info((NnOp)op);
    // attention: test/codegen/test_attention.c; what goes along an axis: test_rows.c
    if (info->kind != NN_KIND_LIBRARY || op == NN_OP_attention || op == NN_OP_attention_grad ||
        op == NN_OP_attention_grad_packed || (op >= NN_OP_cumulative && op <= NN_OP_fourier))
      continue;
    CHECK(coverage[op].n >= SHAPES && 2 * coverage[op].odd >= SHAPES, "%s: %d shapes, %d with an odd size", info->name,
          coverage[op].n, coverage[op].odd);
  }
}

// Of bf16 and f16 they are numbers that both hold.
static double *random_values(int64_t n, unsigned seed, NncDtype dtype) {
  double *v = malloc(sizeof *v * (size_t)n);
  for (int64_t i = 0; i < n; i++) {
    unsigned h = ((unsigned)i + seed * 7919u) * 2654435761u;
    h ^= h >> 15;
    h *= 2246822519u;
    v[i] = (double)(int)(h >> 16) / 32768 - 1;
    if (dtype == NNC_BF16 || dtype == NNC_F16) v[i] = floor(v[i] * 64) / 64;
  }
  return v;
}

// Copies into aligned storage of the element type, permuted: out[i] = in[index(i)] when index is given.
static void *to_type(const double *v, int64_t n, NncDtype dtype) {
  size_t bytes = ((size_t)n * 8 + 127) / 64 * 64;
  void *out = aligned_alloc(64, bytes);
  memset(out, 0xff, bytes);   // NaN beyond the end and where nothing is written
  if (v) convert_elements(NNC_F64, v, dtype, out, n);
  return out;
}

static double value_at(const void *p, int64_t i, NncDtype dtype) {
  double v;
  convert_elements(dtype, (const char *)p + i * dtype_bytes(dtype), NNC_F64, &v, 1);
  return v;
}

// Of one rounding to the type, or of the sums.
static double bound(NncDtype dtype, double of_f32) {
  return dtype == NNC_F64 ? 1e-13 : dtype == NNC_BF16 ? 0x1p-8 : dtype == NNC_F16 ? 0x1p-11 : of_f32;
}

#include "test/runtime/library_convolutions.c"

// The same product once more, added to what it has left in C: twice that.
static void check_added(const NncMatmul *product, void *const buffers[3], double bound) {
  NncMatmul d = *product;
  int64_t n = d.m * d.n;
  d.adds = true;
  note_shape(NN_OP_matmul_rows_to, 3, (int64_t[]){d.m, d.n, d.k});
  d.scratch_bytes = nnc_matmul_scratch(&d);
  char error[200] = "";
  NncLibrary *library = nnc_library_open(nnc_library_threads());
  const NncOperation *op = nnc_matmul_prepare(library, &d, error, sizeof error);
  double *before = malloc(sizeof *before * (size_t)n), worst = 0;
  for (int64_t i = 0; i < n; i++) before[i] = value_at(buffers[2], i, d.result);
  run_operation(op, error, buffers, d.scratch_bytes, 1);
  for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs(value_at(buffers[2], i, d.result) - 2 * before[i]));
  CHECK(worst <= bound, "%d: %dx%dx%d (%s): %g", d.dtype, (int)d.m, (int)d.n, (int)d.k, nnc_matmul_implementation(&d),
        worst);
  free(before);
  nnc_library_close(library);
}

// As in a loop: the second time with nothing in B.
static void check_packed_once(const NncMatmul *product, void *const buffers[3], int64_t nb) {
  NncMatmul d = *product;
  size_t c_bytes = (size_t)(d.m * d.c_row * dtype_bytes(d.result)), b_bytes = (size_t)(nb * dtype_bytes(d.dtype));
  d.packs_once = true;
  d.scratch_bytes = nnc_matmul_scratch(&d);
  char error[200] = "";
  NncLibrary *library = nnc_library_open(nnc_library_threads());
  const NncOperation *op = nnc_matmul_prepare(library, &d, error, sizeof error);
  void *once = malloc(c_bytes), *workspace = aligned_alloc(64, (size_t)d.scratch_bytes + 64);
  memcpy(once, buffers[2], c_bytes);
  CHECK(op && nnc_operation_execute(op, buffers, workspace, false), "%s", error);
  bool same = !memcmp(once, buffers[2], c_bytes);
  memset(buffers[1], 0xff, b_bytes);
  memset(buffers[2], 0xff, c_bytes);   // as it was, between the rows
  CHECK(op && nnc_operation_execute(op, buffers, workspace, true), "%s", error);
  CHECK(same && !memcmp(once, buffers[2], c_bytes), "%dx%dx%d: other bits where B is packed once", (int)d.m, (int)d.n,
        (int)d.k);
  free(once);
  free(workspace);
  nnc_library_close(library);
}

static void check_matmul(NncDtype dtype, NncDtype result, int64_t batch, int64_t m, int64_t n, int64_t k, bool ta,
                         bool tb, int64_t slack, bool shared_b) {
  // rows of outer products: a' b
  note_shape(ta && !tb && batch == 1 ? NN_OP_matmul_rows : NN_OP_matmul, 4, (int64_t[]){batch, m, n, k});
  int64_t lda = (ta ? m : k) + slack, ldb = (tb ? k : n) + slack, ldc = n + slack;
  NncMatmul d =
      {.dtype = dtype, .result = result, .batch = batch, .m = m, .n = n, .k = k, .c_row = ldc, .c_batch = m * ldc};
  d.a_row = ta ? 1 : lda, d.a_col = ta ? lda : 1, d.a_batch = (ta ? k : m) * lda;
  d.b_row = tb ? 1 : ldb, d.b_col = tb ? ldb : 1, d.b_batch = shared_b ? 0 : (tb ? n : k) * ldb;
  int64_t na = batch * d.a_batch, nb = shared_b ? (tb ? n : k) * ldb : batch * d.b_batch, nc = batch * d.c_batch;
  double *a = random_values(na, 3, dtype), *b = random_values(nb, 4, dtype);
  void *buffers[3] = {to_type(a, na, dtype), to_type(b, nb, dtype), to_type(NULL, nc, result)};
  d.scratch_bytes = nnc_matmul_scratch(&d);
  char error[200] = "";
  NncLibrary *library = nnc_library_open(nnc_library_threads());
  const NncOperation *op = nnc_matmul_prepare(library, &d, error, sizeof error);
  run_operation(op, error, buffers, d.scratch_bytes, 1);
  double worst = 0, scale = sqrt((double)k);
  bool padding_kept = true;
  for (int64_t g = 0; g < batch; g++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < ldc; j++) {
        double got = value_at(buffers[2], g * d.c_batch + i * d.c_row + j, result), want = 0;
        if (j >= n) {
          padding_kept &= isnan(got);
          continue;
        }
        for (int64_t x = 0; x < k; x++)
          want += a[g * d.a_batch + i * d.a_row + x * d.a_col] * b[g * d.b_batch + x * d.b_row + j * d.b_col];
        if (fabs(want) > scale) scale = fabs(want);
        if (!(fabs(got - want) <= worst) && !isnan(worst)) worst = fabs(got - want);
      }
  CHECK(worst / scale < bound(result, 1e-6) && padding_kept,
        "%d to %d: %dx(%dx%d)x(%dx%d) %d%d slack %d shared %d (%s): %g", dtype, result, (int)batch, (int)m, (int)k,
        (int)k, (int)n, ta, tb, (int)slack, shared_b, nnc_matmul_implementation(&d), worst);
  if (op && ta && !tb && batch == 1 && !slack && (result == NNC_F32 || result == NNC_F64))
    check_added(&d, buffers, bound(result, 1e-6) * scale);
  else if (nnc_matmul_packs_once(&d)) check_packed_once(&d, buffers, nb);
  for (int i = 0; i < 3; i++) free(buffers[i]);
  free(a), free(b);
  nnc_library_close(library);
}

static void check_matmuls(void) {
  static const int64_t shapes[][4] = {{1, 7, 5, 3},      {1, 64, 64, 64}, {1, 1, 10, 84},  {1, 128, 10, 84},
                                      {1, 10, 84, 128},  {1, 33, 1, 65},  {3, 17, 19, 23}, {12, 32, 32, 16},
                                      {1, 200, 130, 70}, {4, 1, 1, 1},    {5, 1, 9, 2},    {1, 5, 130, 33}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int variant = 0; variant < 64; variant++) {
      bool shared = variant & 8;
      if (shared && shapes[s][0] == 1) continue;
      NncDtype dtype = (NncDtype)(variant / 16);
      for (int wide = 0; wide < (dtype == NNC_BF16 || dtype == NNC_F16 ? 2 : 1); wide++)
        check_matmul(dtype, wide ? NNC_F32 : dtype, shapes[s][0], shapes[s][1], shapes[s][2], shapes[s][3], variant & 1,
                     variant & 2, variant & 4 ? 7 : 0, shared);
    }
}

static void check_errors(void) {
  NncConv c = {.pass = NNC_CONV_FORWARD,
               .dtype = NNC_F32,
               .n = 1,
               .c = 64,
               .h = 8,
               .w = 8,
               .o = 64,
               .oh = 8,
               .ow = 8,
               .kh = 3,
               .kw = 3,
               .stride = {1, 1},
               .pad = {1, 1, 1, 1},
               .dilation = {1, 1},
               .groups = 1};
  char error[200];
  int64_t need = nnc_conv_scratch(&c);
  CHECK(need > 0, "blocked weights need room");
  c.scratch_bytes = need - NNC_ALIGN;
  NncLibrary *library = nnc_library_open(nnc_library_threads());
  CHECK(nnc_conv_prepare(library, &c, error, sizeof error) == NULL && strstr(error, "bytes of workspace"), "%s", error);
  c.oh = 9;
  CHECK(nnc_conv_scratch(&c) == -1, "inconsistent height");
  c.oh = 8;
  int64_t *sizes[] = {&c.n, &c.c, &c.o, &c.groups};
  for (int i = 0; i < 4; i++) {
    int64_t size = *sizes[i];
    *sizes[i] = 0;
    CHECK(nnc_conv_scratch(&c) == -1, "size %d is 0", i);
    *sizes[i] = size;
  }
  for (int i = 1; i < 3; i++) {
    int64_t size = *sizes[i];
    c.groups = 2;
    *sizes[i] = 2 * size + 1, *sizes[3 - i] *= 2;
    CHECK(nnc_conv_scratch(&c) == -1, "groups that do not divide size %d", i);
    *sizes[i] = size, *sizes[3 - i] /= 2, c.groups = 1;
  }
  c.depth = (NncConvAxis){.in = 4, .out = 3, .kernel = 3, .stride = 1, .dilation = 1, .before = 1, .after = 1};
  CHECK(nnc_conv_scratch(&c) == -1, "inconsistent depth");
  c.depth = (NncConvAxis){0};
  CHECK(!nnc_library_set_isa("avx1024"), "unknown instruction set");
  CHECK(nnc_library_set_isa(nnc_library_isa()), "the current instruction set");
  nnc_library_close(library);
}

// Every bf16 and f16, and numbers around the ends of their ranges and halfway between two of them.
static void check_conversions(void) {
  for (unsigned i = 0; i < 65536; i++) {
    uint16_t h = (uint16_t)i, back[2];
    float f[2];
    narrow_to_float(NNC_BF16, &h, &f[0], 1);
    narrow_to_float(NNC_F16, &h, &f[1], 1);
    narrow_from_float(&f[0], NNC_BF16, &back[0], 1);
    narrow_from_float(&f[1], NNC_F16, &back[1], 1);
    for (int t = 0; t < 2; t++)
      CHECK(isnan(f[t]) ? (back[t] & 0x7fff) > (t ? 0x7c00 : 0x7f80) : back[t] == h, "%04x -> %g -> %04x", i,
            (double)f[t], back[t]);
    unsigned exponent = i >> 10 & 31;
    double want = exponent == 31 ? (i & 1023 ? NAN : INFINITY)
                  : exponent     ? ldexp(1 + (i & 1023) / 1024.0, (int)exponent - 15)
                                 : ldexp(i & 1023, -24);
    CHECK(isnan(want) ? isnan(f[1]) : fabs((double)f[1]) == want, "f16 %04x is %g", i, (double)f[1]);
  }
  static const struct {
    float x;
    uint16_t bf16, f16;
  } ties[] = {
      {0x1.01p0f, 0x3f80, 0x3c04},    {0x1.03p0f, 0x3f82, 0x3c0c}, {0x1.002p0f, 0x3f80, 0x3c00},
      {0x1.006p0f, 0x3f80, 0x3c02},   {65519, 0x4780, 0x7bff},     {65520, 0x4780, 0x7c00},
      {0x1.fffp127f, 0x7f80, 0x7c00}, {-0x1p-25f, 0xb300, 0x8000}, {0x1.8p-24f, 0x33c0, 0x0002},
      {0x1p-140f, 0x0000, 0x0000},
  };
  for (size_t i = 0; i < sizeof ties / sizeof *ties; i++) {
    uint16_t h[2];
    narrow_from_float(&ties[i].x, NNC_BF16, &h[0], 1);
    narrow_from_float(&ties[i].x, NNC_F16, &h[1], 1);
    CHECK(h[0] == ties[i].bf16 && h[1] == ties[i].f16, "%a: %04x %04x", (double)ties[i].x, h[0], h[1]);
  }
}

// Products of own loops, whatever lies transposed and apart: packed, and read where they lie: short sums and little
// work.
static void check_packed_products(void) {
  if (!has_own_loops()) return;
  static const struct {
    int64_t m, n, k;
    const char *by;
  } shapes[] = {
      {131, 203, 149, "packed"}, {260, 97, 300, "packed"},  {57, 203, 600, "packed"}, {1000, 2048, 8, "plain"},
      {64, 64, 64, "plain"},     {1000, 24, 1000, "plain"}, {17, 3, 5, "plain"},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int which = 0; which < 4; which++) {
      int64_t m = shapes[i].m, n = shapes[i].n, k = shapes[i].k;
      NncMatmul d =
          {.dtype = NNC_F32, .result = NNC_F32, .batch = 1, .m = m, .n = n, .k = k, .c_row = n, .c_batch = m * n};
      d.a_row = which & 1 ? 1 : k, d.a_col = which & 1 ? m : 1, d.b_row = which & 2 ? 1 : n,
      d.b_col = which & 2 ? k : 1;
      CHECK(strcmp(nnc_matmul_implementation(&d), shapes[i].by) == 0, "product %d, operands stored as %d, is %s",
            (int)i, which, nnc_matmul_implementation(&d));
      CHECK(nnc_matmul_packs_once(&d) == (m == 57), "product %d, operands stored as %d, packed once", (int)i, which);
      for (int64_t slack = 0; slack < 6; slack += 5)
        check_matmul(NNC_F32, NNC_F32, 1, m, n, k, which & 1, which & 2, slack, false);
    }
}

// Linear layers of a few records, whose weights lie transposed: by own loops where oneDNN has none for AVX-512.
static void check_few_rows(void) {
  for (int64_t m = 1; m <= 15; m += 7) {
    const int64_t n = 10, k = 64;
    NncMatmul d =
        {.dtype = NNC_F32, .result = NNC_F32, .batch = 1, .m = m, .n = n, .k = k, .c_row = n, .c_batch = m * n};
    d.a_row = k, d.a_col = 1, d.b_row = 1, d.b_col = k;
    if (strcmp(nnc_library_isa(), "avx2") == 0)
      CHECK(strcmp(nnc_matmul_implementation(&d), "dots") == 0, "%lld rows by %s", (long long)m,
            nnc_matmul_implementation(&d));
    check_matmul(NNC_F32, NNC_F32, 1, m, n, k, false, true, 0, false);
  }
}

int main(int argc, char **argv) {
  if (argc > 1) CHECK(nnc_library_set_isa(argv[1]), "%s", argv[1]);   // "avx2": its loops on a machine that has more
  check_conversions();
  check_few_rows();
  check_convs();
  check_winograd();
  check_winograd_groups();
  check_fewer_threads();
  check_packed();
  check_wide_gradient();
  check_packed_windows();
  check_windows_bf16();
  check_skipped();
  check_packed_products();
  check_winograd_parts();
  check_matmuls();
  check_errors();
  check_coverage();
  return check_report();
}

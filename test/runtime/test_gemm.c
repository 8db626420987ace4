// Products by own loops (runtime/gemm.c) against sums in f64: every storage of the operands, odd sizes, several blocks
// and chunks, rows picked from images, in f32 and, where there is AMX, bf16. The same bits on one, two and three
// threads, nothing written outside of C and the workspace.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gemm.h"
#include "runtime/library.h"
#include "runtime/narrow.h"
#include "test/check.h"

enum { GUARD = 64 };

static float value_at(int64_t i) { return (float)((uint32_t)(i + 1) * 2654435761u >> 8) / 16777216.f - .5f; }

static float *numbers(int64_t count, int64_t seed) {
  float *p = aligned_alloc(64, (size_t)(count + GUARD + 15) / 16 * 64);
  if (!p) abort();
  for (int64_t i = 0; i < count + GUARD; i++) p[i] = value_at(i + seed);
  return p;
}

static size_t bytes_of(NncDtype type) { return type == NNC_F32 ? 4 : 2; }

// A buffer of them in this type. Takes `p`.
static void *as_type(float *p, int64_t count, NncDtype type) {
  if (type == NNC_F32) return p;
  uint16_t *narrow = (uint16_t *)(void *)p;
  for (int64_t i = 0; i < count + GUARD; i++) {
    float x = p[i];
    narrow[i] = float_to_bf16(x);
  }
  return p;
}

// Of A or B: not a number behind it.
static void *operand(int64_t count, int64_t seed, NncDtype type) {
  void *p = as_type(numbers(count, seed), count, type);
  memset((char *)p + (size_t)count * bytes_of(type), 0xff, GUARD * bytes_of(type));
  return p;
}

static float number(const void *p, NncDtype type, int64_t i) {
  return type == NNC_F32 ? ((const float *)p)[i] : bf16_to_float(((const uint16_t *)p)[i]);
}

static bool is_untouched(const void *p, NncDtype type, int64_t i) {
  return type == NNC_F32 ? ((const float *)p)[i] == value_at(i + 77)
                         : ((const uint16_t *)p)[i] == float_to_bf16(value_at(i + 77));
}

static int64_t row_at(const GemmRows *r, int64_t i) {
  if (!r->width) return i * r->pixel;
  return i / r->width / r->height * r->image + i / r->width % r->height * r->line + i % r->width * r->pixel;
}

// The elements of a matrix's buffer.
static int64_t extent(const GemmRows *rows, int64_t n_rows, int64_t column, int64_t columns) {
  return row_at(rows, n_rows - 1) + (columns - 1) * column + 1;
}

static int64_t c_size(const Gemm *g) { return g->clears_c ? g->c_elements : extent(&g->c_rows, g->m, 1, g->n); }

static void check_values(const char *name, const Gemm *g, const void *a, const void *b, const void *c) {
  double worst = 0;
  int64_t seen = 0, i = 0, j = 0, samples = g->m * g->n < 4000 ? g->m * g->n : 4000;
  for (int64_t s = 0; s < samples; s++) {
    if (samples == g->m * g->n) i = s / g->n, j = s % g->n;
    else if (s % 2) i = s * 7919 % g->m, j = s * 104729 % g->n;
    else i = g->m - 1 - s * 31 % g->m, j = g->n - 1 - s * 17 % g->n;
    // C begins as product_on makes it
    double sum = g->adds ? value_at(row_at(&g->c_rows, i) + j + 77) : 0, size = fabs(sum);
    for (int64_t k = 0; k < g->k; k++) {
      double x = (double)number(a, g->type, row_at(&g->a_rows, i) + k * g->a_col) *
                 number(b, g->type, row_at(&g->b_rows, k) + j * g->b_col);
      sum += x, size += fabs(x);
    }
    double rounding = g->result == NNC_F32 ? 0 : fabs(sum) * 0x1p-8,
           error = fabs(sum - number(c, g->result, row_at(&g->c_rows, i) + j));
    error = (error > rounding ? error - rounding : error - error) / size;   // also what is not a number
    if (!(error <= worst) && !isnan(worst)) worst = error;                  // also what is not a number
    seen++;
  }
  CHECK(seen > 0 && worst <= 1e-6, "%s: %lld x %lld x %lld: %g", name, (long long)g->m, (long long)g->n,
        (long long)g->k, worst);
}

// C on `threads` threads, with what lies beyond it.
static void *product_on(const char *name, const Gemm *g, int threads, const void *a, const void *b) {
  void *c = as_type(numbers(c_size(g), 77), c_size(g), g->result);
  int64_t bytes = gemm_scratch(g, threads);
  char *workspace = aligned_alloc(NNC_ALIGN, (size_t)bytes + NNC_ALIGN);
  if (!workspace) abort();
  memset(workspace, 0xff, (size_t)bytes + NNC_ALIGN);   // unwritten workspace is not a number
  CHECK(bytes >= 0 && bytes % NNC_ALIGN == 0, "%s: %lld bytes", name, (long long)bytes);
  gemm_execute(g, threads, a, b, c, workspace, false);
  bool whole = true;
  for (int i = 0; i < NNC_ALIGN; i++) whole &= workspace[bytes + i] == (char)0xff;
  for (int64_t i = c_size(g); i < c_size(g) + GUARD; i++) whole &= is_untouched(c, g->result, i);
  CHECK(whole, "%s: %lld x %lld x %lld on %d threads writes outside", name, (long long)g->m, (long long)g->n,
        (long long)g->k, threads);
  free(workspace);
  return c;
}

// What was packed is read again, and not B.
static void check_kept(const char *name, const Gemm *g, int threads, const void *a, const void *b, const void *wanted) {
  Gemm keeps = *g;
  keeps.keeps_b = true;
  int64_t of_b = extent(&g->b_rows, g->k, g->b_col, g->n), bytes = gemm_scratch(&keeps, threads),
          of_c = c_size(g) * bytes_of(g->result);
  char *workspace = aligned_alloc(NNC_ALIGN, (size_t)bytes + NNC_ALIGN);
  void *none = operand(of_b, 3, g->type), *c[2] = {as_type(numbers(c_size(g), 77), c_size(g), g->result),
                                                   as_type(numbers(c_size(g), 77), c_size(g), g->result)};
  if (!workspace) abort();
  memset(workspace, 0xff, (size_t)bytes + NNC_ALIGN);
  memset(none, 0xff, (size_t)(of_b * bytes_of(g->type)));
  CHECK(bytes > gemm_scratch(g, threads), "%s: B takes no bytes", name);
  gemm_execute(&keeps, threads, a, b, c[0], workspace, false);
  gemm_execute(&keeps, threads, a, none, c[1], workspace, true);
  bool whole = true;
  for (int i = 0; i < NNC_ALIGN; i++) whole &= workspace[bytes + i] == (char)0xff;
  CHECK(whole && !memcmp(c[0], wanted, (size_t)of_c) && !memcmp(c[1], wanted, (size_t)of_c),
        "%s: %lld x %lld x %lld on %d threads: other bits where B stays packed", name, (long long)g->m, (long long)g->n,
        (long long)g->k, threads);
  free(c[0]);
  free(c[1]);
  free(none);
  free(workspace);
}

static void check_rows_between(const char *name, const Gemm *g, const void *c) {
  bool *written = calloc((size_t)c_size(g), 1);
  if (!written) abort();
  for (int64_t i = 0; i < g->m; i++) memset(written + row_at(&g->c_rows, i), 1, (size_t)g->n);
  int64_t wrong = 0;
  for (int64_t i = 0; i < c_size(g); i++)
    wrong += !written[i] && !(g->clears_c ? number(c, g->result, i) == 0 : is_untouched(c, g->result, i));
  CHECK(wrong == 0, "%s: %lld elements between the rows", name, (long long)wrong);
  free(written);
}

static void check_product(const char *name, const Gemm *g) {
  int64_t of_a = extent(&g->a_rows, g->m, g->a_col, g->k), of_b = extent(&g->b_rows, g->k, g->b_col, g->n);
  void *a = operand(of_a, 5, g->type), *b = operand(of_b, 3, g->type), *c = product_on(name, g, 1, a, b);
  check_values(name, g, a, b, c);
  check_rows_between(name, g, c);
  static const int counts[] = {2, 3, 16};
  for (int i = 0; i < 3; i++) {
    int threads = counts[i];
    if (threads == 16 && g->m * g->n * g->k > 1 << 24) break;
    CHECK(gemm_scratch(g, threads - 1) <= gemm_scratch(g, threads), "%s: %lld x %lld x %lld: %d threads need less",
          name, (long long)g->m, (long long)g->n, (long long)g->k, threads);
    void *again = product_on(name, g, threads, a, b);
    CHECK(memcmp(c, again, (size_t)c_size(g) * bytes_of(g->result)) == 0,
          "%s: %lld x %lld x %lld: other bits on %d threads", name, (long long)g->m, (long long)g->n, (long long)g->k,
          threads);
    free(again);
    if (gemm_keeps_b(g)) check_kept(name, g, threads, a, b, c);
  }
  free(a);
  free(b);
  free(c);
}

static Gemm stored(int64_t m, int64_t n, int64_t k, bool a_across, bool b_across, int64_t spare) {
  return (Gemm){.m = m,
                .n = n,
                .k = k,
                .a_rows.pixel = a_across ? 1 : k + spare,
                .a_col = a_across ? m + spare : 1,
                .b_rows.pixel = b_across ? 1 : n + spare,
                .b_col = b_across ? k + spare : 1,
                .c_rows.pixel = n + spare};
}

static Gemm typed(Gemm g, NncDtype type, NncDtype result) {
  g.type = type, g.result = result;
  return g;
}

static void check_picked(NncDtype type, NncDtype result) {
  // Every second pixel of a line, every third line: 5 x 7 of an image of 13 x 14 (the last column is not read), 3
  // images.
  enum { IMAGES = 3, HEIGHT = 13, WIDTH = 14, ROWS = 5, COLUMNS = 7 };
  static const int64_t channels[][2] = {{40, 64}, {33, 70}, {272, 37}, {33, 2500}};
  for (size_t s = 0; s < sizeof channels / sizeof *channels; s++) {
    int64_t c = channels[s][0], o = channels[s][1], pixels = IMAGES * ROWS * COLUMNS;
    GemmRows picked = {.pixel = 2 * c,
                       .line = 3 * WIDTH * c,
                       .image = HEIGHT * WIDTH * c,
                       .width = COLUMNS,
                       .height = ROWS};
    Gemm forward = typed(stored(pixels, o, c, false, true, 0), type, result),
         input = typed(stored(pixels, c, o, false, false, 0), type, result),
         weights = typed(stored(o, c, pixels, true, false, 0), type, result);
    forward.a_rows = picked;
    input.c_rows = picked, input.clears_c = true, input.c_elements = IMAGES * HEIGHT * WIDTH * c;
    weights.b_rows = picked;
    check_product("pixels of A", &forward);
    check_product("pixels of C", &input);
    check_product("pixels of B", &weights);
  }
}

// Sums of two numbers, halfway between two of bf16, at its ends and beyond.
static void check_rounding(void) {
  static const float pairs[][2] = {{1, 0x1p-8f},
                                   {0x1.02p0f, 0x1p-8f},
                                   {-1, -0x1p-8f},
                                   {1, 0x1.02p-8f},
                                   {0x1.fep127f, 0x1p119f},
                                   {0x1.fep127f, 0x1p118f},
                                   {INFINITY, 1},
                                   {INFINITY, -INFINITY},
                                   {NAN, 1},
                                   {-0x1.fep127f, -0x1p119f},
                                   {0x1p-100f, 0x1p-108f},
                                   {0, 0}};
  enum { N = 64, PAIRS = sizeof pairs / sizeof *pairs };
  static uint16_t a[N * N], b[N * N];
  for (int i = 0; i < N; i++) {
    a[i * N] = float_to_bf16(pairs[i % PAIRS][0]), a[i * N + 1] = float_to_bf16(pairs[i % PAIRS][1]);
    b[i] = b[N + i] = float_to_bf16(1);
  }
  Gemm g = typed(stored(N, N, N, false, false, 0), NNC_BF16, NNC_BF16);
  uint16_t *c = product_on("rounding", &g, 1, a, b);
  for (int i = 0; i < N * N; i++) {
    const float *x = pairs[i / N % PAIRS], want = bf16_to_float(float_to_bf16(x[0] + x[1])), got = bf16_to_float(c[i]);
    CHECK(isnan(want) ? isnan(got) : got == want, "%a + %a: %a", (double)x[0], (double)x[1], (double)got);
  }
  free(c);
}

// Sizes around the tile (32 rows of two registers), the panel (32), the pair, the block of k (512), both ways of
// sharing work; sums kept between chunks of k and all of k at once.
static void check_bf16(void) {
  Gemm large = typed(stored(512, 512, 512, false, false, 0), NNC_BF16, NNC_BF16);
  CHECK(gemm_fits(&large) == !strcmp(nnc_library_isa(), "avx512_core_amx"), "products of bf16");
  if (!gemm_fits(&large)) return;
  CHECK(!strcmp(gemm_name(&large), "amx"), "their name");
  static const int64_t sizes[][3] = {{16, 2048, 64},   {17, 1300, 97},   {32, 1024, 65},   {33, 1000, 511},
                                     {257, 130, 1101}, {130, 257, 2101}, {1100, 33, 513},  {700, 63, 70},
                                     {40, 60, 9000},   {40, 33, 2001},   {256, 300, 5001}, {300, 256, 5000},
                                     {100, 3000, 4500}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int kind = 0; kind < 16; kind++) {
      Gemm g = typed(stored(sizes[s][0], sizes[s][1], sizes[s][2], kind & 1, kind & 2, kind & 4 ? 5 : 0), NNC_BF16,
                     kind & 8 ? NNC_BF16 : NNC_F32);
      CHECK(gemm_fits(&g), "%lld x %lld x %lld", (long long)g.m, (long long)g.n, (long long)g.k);
      check_product("bf16", &g);
      g.adds = true;
      if (kind & 8) CHECK(!gemm_fits(&g), "adds to bf16");
      else check_product("bf16, added", &g);
    }
  check_picked(NNC_BF16, NNC_F32);
  check_picked(NNC_BF16, NNC_BF16);
  check_rounding();
}

int main(int argc, char **argv) {
  if (argc > 1) nnc_library_set_isa(argv[1]);   // "avx2": these loops on a machine that has more
  Gemm large = stored(512, 512, 512, false, false, 0), tiny = stored(4, 4, 4, false, false, 0);
  if (!gemm_fits(&large)) return check_report();   // another machine: nothing uses these loops
  CHECK(!strcmp(gemm_name(&large), "packed") && !strcmp(gemm_name(&tiny), "plain"), "what is worth packing");
  // What has more rows or columns than an int32 counts goes elsewhere; so do strides that no loop has.
  for (int i = 0; i < 3; i++) {
    Gemm longest = large, longer = large;
    *(i == 0 ? &longest.m : i == 1 ? &longest.n : &longest.k) = INT32_MAX;
    *(i == 0 ? &longer.m : i == 1 ? &longer.n : &longer.k) = INT32_MAX + INT64_C(1);
    CHECK(gemm_fits(&longest) && !gemm_fits(&longer), "the limit of size %d", i);
  }
  Gemm strided = large;
  strided.a_col = 3, strided.a_rows.pixel = 7;
  CHECK(!gemm_fits(&strided), "a strided A");
  strided = large, strided.b_col = 3, strided.b_rows.pixel = 7;
  CHECK(!gemm_fits(&strided), "a strided B");
  Gemm small_rows = tiny;
  small_rows.a_rows.width = small_rows.a_rows.height = 2;
  CHECK(gemm_fits(&tiny) && !gemm_fits(&small_rows), "few rows picked from an image");
  // Sizes around the tile (6 or 14 rows), the panel (16 or 32 columns), the step (8) and the block of k (256), both
  // ways of sharing work, several chunks of k; below and above what is packed.
  static const int64_t sizes[][3] = {{1, 1, 1},        {14, 32, 8},      {13, 31, 7},     {15, 33, 9},
                                     {29, 64, 256},    {31, 97, 257},    {200, 40, 17},   {40, 200, 300},
                                     {257, 130, 1100}, {130, 257, 2100}, {1100, 33, 264}, {154, 224, 64},
                                     {155, 225, 65},   {169, 191, 71},   {1, 200, 530},   {128, 32, 1024}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int kind = 0; kind < 8; kind++) {
      Gemm g = stored(sizes[s][0], sizes[s][1], sizes[s][2], kind & 1, kind & 2, kind & 4 ? 5 : 0);
      check_product("stored", &g);
      g.adds = true;
      check_product("added", &g);
    }
  // Few rows, B transposed: around the tile (3 x 4) and the vector, without and with more columns than threads take.
  static const int64_t few[] = {1, 2, 3, 4, 7, 15}, columns[] = {1, 3, 4, 5, 50, 403},
                       depths[] = {1, 7, 8, 15, 16, 17, 600};
  for (int i = 0; i < 6 * 6 * 7; i++) {
    Gemm g = stored(few[i / 42], columns[i / 7 % 6], depths[i % 7], false, true, i % 2 * 3);
    CHECK(!strcmp(gemm_name(&g), g.b_col == 1 ? "plain" : "dots"), "%d is %s", i, gemm_name(&g));
    check_product("few rows", &g);
    g.adds = true;
    check_product("few rows, added", &g);
  }
  check_picked(NNC_F32, NNC_F32);
  check_bf16();
  return check_report();
}

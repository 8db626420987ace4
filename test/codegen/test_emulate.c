// Correct kernels in the emulator: what they compute equals a plain loop, and the same IR becomes PTX for every
// architecture.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/check.h"
#include "test/codegen/emulate.c"

static char message[4096];

static float value(int i) { return (float)((i * 7919) % 2003 - 1001) / 512.0f; }   // exact sums in any order

static Emulated *load(const char *file) {
  char *text = emulate_read(file);
  Emulated *e = emulate_text(text, NULL);
  free(text);
  if (!e) exit(1);
  return e;
}

static void test_block_sum(int n, uint32_t blocks, uint32_t size, int threads) {
  Emulated *e = load("block_sum.ll");
  float *x = malloc((size_t)n * 4), *out = malloc(blocks * 4), *expected = calloc(blocks, 4);
  for (int i = 0; i < n; i++) {
    x[i] = value(i);
    expected[(uint32_t)i / size % blocks] += x[i];
  }
  EmulateArgument arguments[] = {{"x", x, (uint64_t)n * 4}, {"out", out, blocks * 4}, {"n", &n, 0}};
  EmulateLaunch launch = {.grid = {blocks}, .block = {size}, .n = 3, .arguments = arguments, .threads = threads};
  CHECK(emulate_run(e, "block_sum", &launch, message, sizeof message) == EMU_OK, "%s", message);
  for (uint32_t b = 0; b < blocks; b++)
    CHECK(out[b] == expected[b], "block %u: %g, expected %g", b, (double)out[b], (double)expected[b]);
  free(x);
  free(out);
  free(expected);
  emulate_free(e);
}

static void test_transpose(int rows, int columns) {
  Emulated *e = load("transpose.ll");
  uint64_t bytes = (uint64_t)rows * (uint64_t)columns * 4;
  float *x = malloc(bytes), *out = malloc(bytes);
  for (int i = 0; i < rows * columns; i++) x[i] = value(i);
  EmulateArgument arguments[] = {{"x", x, bytes}, {"out", out, bytes}, {"rows", &rows, 0}, {"columns", &columns, 0}};
  EmulateLaunch launch = {.grid = {(uint32_t)(columns + 31) / 32, (uint32_t)(rows + 31) / 32},
                          .block = {32, 8},
                          .n = 4,
                          .arguments = arguments};
  CHECK(emulate_run(e, "transpose", &launch, message, sizeof message) == EMU_OK, "%s", message);
  int wrong = 0;
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < columns; c++) wrong += out[c * rows + r] != x[r * columns + c];
  CHECK(wrong == 0, "%d by %d: %d elements are wrong", rows, columns, wrong);
  free(x);
  free(out);
  emulate_free(e);
}

static void test_mma_bf16(void) {
  Emulated *e = load("mma_bf16.ll");
  uint16_t a[16][16] __attribute__((aligned(16))), b[16][8] __attribute__((aligned(16)));
  float c[16][8];
  for (int i = 0; i < 256; i++) a[i / 16][i % 16] = emulate_to_bf16(value(i));
  for (int i = 0; i < 128; i++) b[i / 8][i % 8] = emulate_to_bf16(value(3 * i + 1));
  EmulateArgument arguments[] = {{"a", a, sizeof a}, {"b", b, sizeof b}, {"c", c, sizeof c}};
  EmulateLaunch launch = {.block = {32}, .n = 3, .arguments = arguments, .dynamic_bytes = 512};
  CHECK(emulate_run(e, "mma_bf16", &launch, message, sizeof message) == EMU_OK, "%s", message);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      double sum = 0;
      for (int k = 0; k < 16; k++) sum += (double)emulate_from_bf16(a[i][k]) * (double)emulate_from_bf16(b[k][j]);
      CHECK(fabs(sum - (double)c[i][j]) <= 1e-6 * fabs(sum), "(%d, %d): %g, expected %g", i, j, (double)c[i][j], sum);
    }
  emulate_free(e);
}

static double to_tf32(float x) {
  return (double)(float)ldexp(rint(ldexp(frexp((double)x, &(int){0}), 11)), -11) *
         exp2(x == 0 ? 0 : ilogb((double)x) + 1);
}

static void test_mma_tf32(void) {
  Emulated *e = load("mma_tf32.ll");
  float a[16][8], b[8][8], c[16][8];
  for (int i = 0; i < 128; i++) a[i / 8][i % 8] = sinf((float)i);
  for (int i = 0; i < 64; i++) b[i / 8][i % 8] = cosf((float)i);
  EmulateArgument arguments[] = {{"a", a, sizeof a}, {"b", b, sizeof b}, {"c", c, sizeof c}};
  EmulateLaunch launch = {.block = {32}, .n = 3, .arguments = arguments};
  CHECK(emulate_run(e, "mma_tf32", &launch, message, sizeof message) == EMU_OK, "%s", message);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      double sum = 0;
      for (int k = 0; k < 8; k++) sum += to_tf32(a[i][k]) * to_tf32(b[k][j]);
      CHECK(fabs(sum - (double)c[i][j]) <= 1e-6, "(%d, %d): %.9g, expected %.9g", i, j, (double)c[i][j], sum);
    }
  emulate_free(e);
}

static void test_atomics(int threads) {
  Emulated *e = load("atomics.ll");
  enum { N = 1000 };
  int x[N], counts[8] = {0}, expected[8] = {0}, max = -1, tickets = 0, n = N, largest = -1;
  float sum = 0;
  double total = 0;
  for (int i = 0; i < N; i++) {
    x[i] = (i * 7919) % 1009;
    expected[x[i] & 7]++;
    total += x[i];
    if (x[i] > largest) largest = x[i];
  }
  EmulateArgument arguments[] = {{"x", x, sizeof x}, {"counts", counts, sizeof counts}, {"sum", &sum, 4},
                                 {"max", &max, 4},   {"tickets", &tickets, 4},          {"n", &n, 0}};
  EmulateLaunch launch = {.grid = {8}, .block = {128}, .n = 6, .arguments = arguments, .threads = threads};
  CHECK(emulate_run(e, "atomics", &launch, message, sizeof message) == EMU_OK, "%s", message);
  CHECK(!memcmp(counts, expected, sizeof counts), "the histogram is wrong");
  CHECK((double)sum == total && max == largest && tickets == N, "sum %g max %d tickets %d", (double)sum, max, tickets);
  emulate_free(e);
}

static void test_warp_operations(void) {
  Emulated *e = load("warp_operations.ll");
  int out[32][20];
  EmulateArgument arguments[] = {{"out", out, sizeof out}};
  EmulateLaunch launch = {.block = {32}, .n = 1, .arguments = arguments};
  CHECK(emulate_run(e, "warp_operations", &launch, message, sizeof message) == EMU_OK, "%s", message);
  for (int lane = 0; lane < 32; lane++) {
    int expected[] = {lane < 3 ? 100 + lane : 97 + lane,
                      lane > 28 ? 100 + lane : 103 + lane,
                      100 + (lane ^ 5),
                      107,
                      lane % 8 < 6 ? 102 + lane : 100 + lane,
                      lane % 8 < 6,
                      101 + lane / 8 * 8,
                      (int)0xaaaaaaaa,
                      1,
                      0,
                      32 * 100 + 31 * 16,
                      100,
                      -100,
                      -100,
                      31,
                      lane % 2 ? -1 : 240};
    for (int i = 0; i < 16; i++)
      CHECK(out[lane][i] == expected[i], "lane %d, operation %d: %d, expected %d", lane, i, out[lane][i], expected[i]);
  }
  emulate_free(e);
}

static void test_named_barriers(void) {
  Emulated *e = load("named_barriers.ll");
  int out[32], rounds = 5;
  EmulateArgument arguments[] = {{"out", out, sizeof out}, {"rounds", &rounds, 0}};
  EmulateLaunch launch = {.block = {64}, .n = 2, .arguments = arguments};
  CHECK(emulate_run(e, "named_barriers", &launch, message, sizeof message) == EMU_OK, "%s", message);
  for (int lane = 0; lane < 32; lane++) CHECK(out[lane] == 10 + 5 * (31 - lane), "lane %d: %d", lane, out[lane]);
  emulate_free(e);
}

static void test_ptx(void) {
  static const char *const files[] = {"warp_operations.ll", "named_barriers.ll", "block_sum.ll", "transpose.ll",
                                      "mma_bf16.ll",        "mma_tf32.ll",       "atomics.ll"};
  static const char *const archs[] = {"sm_80", "sm_89", "sm_90a", "sm_100"};
  for (size_t f = 0; f < sizeof files / sizeof *files; f++)
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
      char *text = emulate_read(files[f]), *ptx = emulate_ptx(text, archs[a]);
      int spills = 0;
      CHECK(ptx && strstr(ptx, ".entry"), "%s for %s: no PTX", files[f], archs[a]);
      if (ptx)
        CHECK(emulate_assemble(ptx, archs[a], NULL, &spills) && spills <= 0, "%s for %s: refused or spills", files[f],
              archs[a]);
      free(ptx);
      free(text);
    }
}

int main(void) {
  test_block_sum(1, 1, 32, 1);
  test_block_sum(65537, 64, 256, 1);
  test_block_sum(10007, 7, 1024, 2);
  test_transpose(1, 1);
  test_transpose(37, 101);
  test_transpose(64, 96);
  test_mma_bf16();
  test_mma_tf32();
  test_atomics(1);
  test_atomics(3);
  test_warp_operations();
  test_named_barriers();
  test_ptx();
  return check_report();
}

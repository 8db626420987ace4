// Kernels that differ only in numbers become one: which do, what the numbers of each launch are, that division by a
// number is exact, and that LLVM takes the text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_target.h"

#include "codegen/cuda/nvptx.h"
#include "codegen/gpu/schedule.h"
#include "support/alloc.h"
#include "support/text.h"

static int failures;
#define CHECK(condition, ...)                                                        \
  do {                                                                               \
    if (!(condition)) failures++, fprintf(stderr, __VA_ARGS__), fputc('\n', stderr); \
  } while (0)

typedef struct Case {
  const char *name;
  int divisor;
  long long extent;
  int offset;
  const char *splat;
  int threads;
  bool large, with_template;
} Case;

static EmittedKernel *add_kernel(EmittedKernels *kernels, const char *name, int n_launches) {
  kernels->items = reallocate_array(kernels->items, (size_t)kernels->n + 1, sizeof *kernels->items);
  EmittedKernel *k = &kernels->items[kernels->n++];
  *k = (EmittedKernel){.name = copy_string(name),
                       .summary = copy_string("a test's"),
                       .n_launches = n_launches,
                       .launches = allocate_array((size_t)n_launches, sizeof *k->launches)};
  return k;
}

// A map over rows of `divisor` elements; large: what is divided is not known to be below 2^31.
static void add(EmittedKernels *kernels, const Case *c) {
  // The second launch is of a function that is not in the text, as those of templates are.
  EmittedKernel *k = add_kernel(kernels, c->name, c->with_template ? 2 : 1);
  if (c->with_template)
    k->launches[1] = (KernelLaunch){.symbol = copy_string("elsewhere"), .grid = {1, 1, 1}, .block = {32, 1, 1}};
  k->launches[0] = (KernelLaunch){.symbol = copy_string(c->name), .grid = {4, 1, 1}, .block = {c->threads, 1, 1}};
  text_add(&k->comment, "// %s (map)\n", c->name);
  KernelModule m = {.target = schedule_target(&nvptx_family)};
  Emitter e;
  emitter_begin(&e, &m, NULL, c->name, 2);
  e.lanes = 4;
  function_add_array(&e.function, "_shared", 3, 64, "i8");
  Value thread = schedule_number(&e, GPU_THREAD_X), i = c->large ? emit_index(&e, "muli", thread, thread) : thread;
  Value row = emit_index_with(&e, "divui", i, c->divisor), column = emit_index_with(&e, "remui", i, c->divisor),
        within = emit(&e, 0, "arith.cmpi", VALUES(row.id, emit_i64(&e, c->extent).id), "ult, %%, %% : i64");
  uint32_t bits = (uint32_t)strtoul(c->splat, NULL, 16);
  float f;
  memcpy(&f, &bits, sizeof f);
  Value x = emit_splat(&e, NN_F32, f), from = emit_bytes_on(&e, 1, c->offset),
        to = emit(&e, 0, "llvm.getelementptr", VALUES(from.id, column.id), "%%[%%] : (!buffer, i64) -> !buffer, f32");
  if_begin(&e, within);
  emit_effect(&e, "llvm.store", VALUES(x.id, to.id), "%%, %% {alignment = 4 : i64} : vector<4xf32>, !buffer");
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  emitter_end(&e);
  kernel_take(&m, k);
}

static void check_division(const KernelLaunch *l, int divisor) {
  bool found = false;
  for (int i = 0; i + 1 < l->n_numbers && !found; i++) {
    uint64_t factor = (uint32_t)l->numbers[i], shift = (uint32_t)l->numbers[i + 1], seed = 1;
    if (shift < 31 || shift > 62) continue;
    found = true;
    for (int trial = 0; trial < 100000 && found; trial++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      uint64_t n = trial < 1000 ? (uint64_t)trial * (uint64_t)divisor - (trial > 0 && trial % 2) : seed >> 33;
      if (trial == 1000) n = INT32_MAX;
      if (n <= INT32_MAX && n * factor >> shift != n / (uint64_t)divisor) found = false;
    }
  }
  CHECK(found, "%s: no exact reciprocal of %d", l->symbol, divisor);
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *s = text; (s = strstr(s, what)); s++) n++;
  return n;
}

// What adds up parts in its second launch: `parts` rows of `columns`. Where both are the same number it is one
// constant, as the emitter sees to; `blocks` of it. turned: the arguments stand in another order, around one for
// another launch.
static void add_sum(EmittedKernels *kernels, const char *name, int columns, int parts, int blocks, bool turned) {
  EmittedKernel *k = add_kernel(kernels, name, 2);
  KernelModule m = {.target = schedule_target(&nvptx_family)};
  for (int j = 0; j < 2; j++) {
    KernelLaunch *l = &k->launches[j];
    *l = (KernelLaunch){.symbol = text_format("%s_launch%d", name, j),
                        .grid = {j ? blocks : 500, 1, 1},
                        .block = {32, 1, 1}};
    Emitter e;
    TypeName f32 = {"f32"};
    emitter_begin(&e, &m, NULL, l->symbol, turned ? 3 : 2);
    int from = turned ? 2 : 0, to = turned ? 0 : 1;
    Value column = emit_index_with(&e, "remui", schedule_number(&e, GPU_THREAD_X), columns), low = emit_i64(&e, 0),
          high = emit_i64(&e, parts), zero = emit_constant(&e, "0.0 : f32"), so_far, sum;
    Value part = for_begin(&e, low, high, 1, 1, &zero, &f32, &so_far),
          at = emit_index(&e, "addi", emit_index_with(&e, "muli", part, columns), column),
          x = emit(&e, 1, "llvm.load", VALUES(emit_address(&e, from, NN_F32, at).id), "%% : !buffer -> f32");
    sum = emit(&e, 1, "arith.addf", VALUES(so_far.id, x.id), "%%, %% : f32");
    for_end(&e, 1, &sum, &f32, &sum);
    emit_effect(&e, "llvm.store", VALUES(sum.id, emit_address(&e, to, NN_F32, column).id), "%%, %% : f32, !buffer");
    emitter_end(&e);
  }
  kernel_take(&m, k);
}

// The first launches stay three, though they are alike, since there are few; the second ones become one, but for the
// one of many blocks.
static void check_sums(void) {
  EmittedKernels kernels = {0};
  text_add(&kernels.declarations, "!buffer = !llvm.ptr<1>\n");
  static const int columns[] = {7, 9, 24, 7}, parts[] = {5, 9, 13, 5}, blocks[] = {2, 64, 1, 65};
  static const char *const names[] = {"a", "b", "c", "many"}, *const symbols[] = {"a_launch1", "a_launch1", "a_launch1",
                                                                                  "many_launch1"};
  for (int i = 0; i < 4; i++) add_sum(&kernels, names[i], columns[i], parts[i], blocks[i], i == 2);
  gpu_share_kernels(&kernels, 1000, 1000);
  for (int i = 0; i < 4; i++) {
    const KernelLaunch *first = &kernels.items[i].launches[0], *second = &kernels.items[i].launches[1];
    CHECK(!first->n_numbers && first->symbol[0] == names[i][0], "%s: the first launch is shared", names[i]);
    CHECK(!strcmp(second->symbol, symbols[i]), "%s: the second launch is of %s", names[i], second->symbol);
    CHECK(second->n_numbers == (i < 3 ? 4 : 0), "%s: %d numbers", names[i], second->n_numbers);
    if (i < 3 && second->n_numbers == 4)
      CHECK(second->numbers[0] == columns[i] && second->numbers[1] == parts[i], "%s: numbers %d, %d", names[i],
            second->numbers[0], second->numbers[1]);
    if (i < 3) check_division(second, columns[i]);
    if (i < 3)
      CHECK(second->n_buffers == 2 && second->buffers[0] == (i == 2 ? 2 : 0) && second->buffers[1] == (i == 2 ? 0 : 1),
            "%s: other buffers", names[i]);
  }
  Text ptx = {0};
  CHECK(cuda_lower(&kernels, cuda_arch("sm_80"), CUDA_PTX, false, &ptx) &&
            count(text_c_string(&ptx), ".visible .entry") == 6,
        "not the entries expected:\n%s", text_c_string(&ptx));
  text_free(&ptx);
  emitted_kernels_free(&kernels);
}

int main(void) {
  test_target_choose("sm_80", false);   // which sets LLVM up
  check_sums();
  static const Case cases[] = {
      {"a", 7, 100, 64, "3F800000", 256, false, false},
      {"b", 640, 9, 128, "40000000", 256, false, false},
      {"c", 2147483647, 5, 2147483646, "BF800000", 256, false, false},
      {"d", 1, 5, 64, "3F800000", 256, false, true},
      {"threads", 7, 100, 64, "3F800000", 128, false, false},
      {"beyond", 7, 1LL << 33, 64, "3F800000", 256, false, false},
      {"large", 7, 100, 64, "3F800000", 256, true, false},
      {"larger", 8, 100, 64, "3F800000", 256, true, false},
  };
  enum { CASES = sizeof cases / sizeof *cases, ALIKE = 4 };
  EmittedKernels kernels = {0};
  text_add(&kernels.declarations, "!buffer = !llvm.ptr<1>\n");
  for (int i = 0; i < CASES; i++) add(&kernels, &cases[i]);
  gpu_share_kernels(&kernels, CASES + 2, 2);
  for (int i = 0; i < CASES; i++)
    CHECK(kernels.items[i].launches[0].n_numbers == 0, "%s is shared although there are few", cases[i].name);
  gpu_share_kernels(&kernels, CASES, 2);
  for (int i = 0; i < CASES; i++) {
    const EmittedKernel *k = &kernels.items[i];
    const KernelLaunch *l = &k->launches[0];
    bool shared = i < ALIKE;
    CHECK(!strcmp(l->symbol, shared ? "a" : cases[i].name), "%s is launched as %s", cases[i].name, l->symbol);
    CHECK((l->n_numbers > 0) == shared, "%s has %d numbers", cases[i].name, l->n_numbers);
    Text text = {0};
    emitted_kernel_text(k, &text);
    CHECK(count(text.data, "func.func") == (i == 0 || !shared) && count(text.data, "// ") == 1 &&
              count(text.data, "mlir.global") == (i == 0 || !shared),
          "%s:\n%s", cases[i].name, text.data);
    text_free(&text);
    CHECK(l->block[0] == cases[i].threads, "%s: another block", cases[i].name);
    if (k->n_launches > 1)
      CHECK(!strcmp(k->launches[1].symbol, "elsewhere"), "the launch of a template became %s", k->launches[1].symbol);
    if (!shared) continue;
    // In order of the text, then the reciprocal.
    int32_t bits = (int32_t)strtoull(cases[i].splat, NULL, 16),
            expected[] = {cases[i].divisor, (int32_t)cases[i].extent, bits, cases[i].offset};
    CHECK(l->n_numbers == 6 && !memcmp(l->numbers, expected, sizeof expected), "%s: other numbers", cases[i].name);
    check_division(l, cases[i].divisor);
  }
  for (int i = 0; i < CASES; i++)
    if (kernels.items[i].n_launches > 1) free(kernels.items[i].launches[--kernels.items[i].n_launches].symbol);
  Text ptx = {0};
  CHECK(cuda_lower(&kernels, cuda_arch("sm_80"), CUDA_PTX, false, &ptx) &&
            count(ptx.data, ".visible .entry") == 1 + CASES - ALIKE,
        "not the entries expected:\n%s", text_c_string(&ptx));
  CHECK(count(text_c_string(&ptx), "// a (map)") == 1 && count(text_c_string(&ptx), "// d (map)") == 1,
        "the entry lacks the comments of its shapes");
  text_free(&ptx);
  emitted_kernels_free(&kernels);
  if (failures) fprintf(stderr, "%d failures\n", failures);
  return failures != 0;
}

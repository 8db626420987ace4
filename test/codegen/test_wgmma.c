// Products of warpgroups (template_wgmma.c) in the emulator: against plain loops in double, and with planted faults,
// each of which is named. PTX through ptxas where there is one.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/template/template.h"
#include "test/check.h"
#include "test/codegen/emulate.c"

static char message[4096];
__extension__ typedef _Float16 Half;

typedef enum Plant {
  NOTHING,
  NO_ASYNC_FENCE,
  EARLY_ASYNC_FENCE,
  LATE_ASYNC_FENCE,      // of the reading threads: as good as one of the writing
  PARTIAL_ASYNC_FENCE,   // that, without one of the warps
  NO_FENCE,
  NO_WAIT,
  WAIT_TOO_FEW,
  NO_COMMIT,
  NO_COPY_WAIT,
  EARLY_OVERWRITE,
  NO_BARRIER_AFTER,
  MISALIGNED,
  BEYOND,
  BASE_OFFSET,
  DIFFERENT,
  ONE_WARP_ABSENT,
  RESULT_EARLY,
  STALE_SUM,
} Plant;

enum { BLOCK = 64, STAGES = 3 };
typedef struct Product {
  Wgmma form;
  int groups, tiles;   // warpgroups, which have 64 rows each; tiles of depth BLOCK
  Plant plant;
} Product;

typedef struct Builder {
  Build b;
  const Product *p;
  Val a, x, c;   // parameters
  Val base;
  int padded;   // columns of b, to a multiple of 64
  Val sums[128];
} Builder;

static int a_bytes(const Product *p) { return p->groups * 64 * 128; }
static int stage_bytes(const Product *p) { return a_bytes(p) + (p->form.columns + 63) / 64 * 64 * 128; }
static int threads(const Product *p) { return 128 * p->groups; }
static Tile tile(Builder *x, int stage, int place) {
  return (Tile){.type = x->p->form.type,
                .rows = 64,
                .columns = BLOCK,
                .base = build_offset(&x->b, x->base, build_i32(&x->b, stage * stage_bytes(x->p) + place))};
}

// Matrices of which rows are the depth are in panels of 64 columns.
static void copy_matrix(Builder *x, Val from, bool transposed, int n, int t, int place) {
  for (int i = 0; i < n / 64; i++) {
    Tile to = tile(x, t % STAGES, place + i * 64 * 128);
    int64_t stride = transposed ? n : BLOCK * x->p->tiles,
            first = transposed ? (int64_t)t * BLOCK * n + i * 64 : (int64_t)i * 64 * stride + t * BLOCK;
    TileSource source = {.base = build_offset(&x->b, from, build_i32(&x->b, 2 * first)),
                         .row_stride = stride,
                         .first_row = build_i32(&x->b, 0),
                         .n_rows = 64};
    build_copy_tile(&x->b, &to, &source, threads(x->p));
  }
}

static void copy(Builder *x, int t) {
  copy_matrix(x, x->a, x->p->form.a_transposed, 64 * x->p->groups, t, 0);
  copy_matrix(x, x->x, x->p->form.b_transposed, x->padded, t, a_bytes(x->p));
  build_commit(&x->b);
}

static void multiply(Builder *x, int t) {
  Build *b = &x->b;
  const Product *p = x->p;
  Val group = build_div(b, b->tid, 128), on = build_mul(b, group, build_i32(b, 64 * 128));
  Tile a = tile(x, t % STAGES, 0), of_b = tile(x, t % STAGES, a_bytes(p));
  Val address = build_offset(b, of_b.base,
                             build_i32(b, p->plant == MISALIGNED ? 128
                                          : p->plant == BEYOND   ? STAGES * stage_bytes(p)
                                                                 : 0));
  if (p->plant == DIFFERENT)
    address = build_offset(b, address,
                           build_mul(b, build_equal(b, b->tid, build_i32(b, 77)), LLVMConstInt(b->i1, 0, false)));
  Val to_a = build_descriptor(b, build_offset(b, a.base, on), 64 * 128, 1024),
      to_b = build_descriptor(b, address, 64 * 128, 1024);
  if (p->plant == BASE_OFFSET) to_b = build_or(b, to_b, build_i64_constant(b, (int64_t)1 << 50));
  if (p->plant == DIFFERENT)
    to_b = build_add(b, to_b,
                     build_select(b, build_equal(b, b->tid, build_i32(b, 77)), build_i64_constant(b, 64),
                                  build_i64_constant(b, 0)));
  if (p->plant != NO_FENCE && !p->form.a_in_registers) build_wgmma_fence(b);
  for (int step = 0; step < BLOCK / WGMMA_DEPTH; step++) {
    Val fragment[4] = {build_descriptor_on(b, to_a, build_i32(b, step * (p->form.a_transposed ? 2048 : 32)))};
    if (p->form.a_in_registers) {
      build_load_a(b, &a, build_mul(b, b->warp, build_i32(b, 16)), 0, step, fragment);
      if (p->plant != NO_FENCE) build_wgmma_fence(b);
    }
    Val old = x->sums[0];
    build_wgmma(b, &p->form, x->sums, fragment,
                build_descriptor_on(b, to_b, build_i32(b, step * (p->form.b_transposed ? 2048 : 32))),
                t == 0 && step == 0 ? build_i32(b, 0) : NULL);
    if (p->plant == STALE_SUM && t == 1) x->sums[0] = old;
  }
  if (p->plant != NO_COMMIT) build_wgmma_commit(b);
}

static LLVMModuleRef build(const Product *p) {
  Builder x = {.p = p, .padded = (p->form.columns + 63) / 64 * 64};
  Build *b = &x.b;
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("wgmma", LLVMContextCreate());
  build_kernel(b, module, "product", "rrp", threads(p));
  x.base = build_wgmma_base(b);
  x.a = build_parameter(b, 0, "a");
  x.x = build_parameter(b, 1, "b");
  x.c = build_parameter(b, 2, "c");
  int n = p->form.columns / 2;
  for (int i = 0; i < n; i++) x.sums[i] = build_f32(b, 1000);   // the first product ignores them
  copy(&x, 0);
  Branch some;
  if (p->plant == ONE_WARP_ABSENT) build_if(b, &some, build_less(b, b->tid, build_i32(b, 96)));
  for (int t = 0; t < p->tiles; t++) {
    // into the stage that is read now
    if (t + 1 < p->tiles && p->plant == EARLY_OVERWRITE && t > 0) copy(&x, t + 1 - STAGES + 1 < 0 ? t + 1 : t - 1);
    if (p->plant == EARLY_ASYNC_FENCE) build_async_fence(b);
    if (p->plant != NO_COPY_WAIT) build_wait(b, 0);
    if (p->plant < NO_ASYNC_FENCE || p->plant > PARTIAL_ASYNC_FENCE) build_async_fence(b);
    if (t > 0) build_wgmma_wait(b, p->plant == WAIT_TOO_FEW ? 2 : 1, n, x.sums);
    if (p->plant != NO_BARRIER_AFTER || t < 2) build_barrier(b);
    if (p->plant == LATE_ASYNC_FENCE) build_async_fence(b);
    if (p->plant == PARTIAL_ASYNC_FENCE) {
      Branch fences;
      build_if(b, &fences, build_less(b, b->tid, build_i32(b, 96)));
      build_async_fence(b);
      build_if_end(b, &fences);
    }
    if (t + 1 < p->tiles) copy(&x, t + 1);
    multiply(&x, t);
  }
  Val before[2] = {x.sums[0], x.sums[1]};
  if (p->plant != NO_WAIT) build_wgmma_wait(b, 0, n, x.sums);
  if (p->plant == RESULT_EARLY) x.sums[0] = before[0];
  if (p->plant == ONE_WARP_ABSENT) {
    build_if_end(b, &some);
    build_finish(b);
    return module;
  }
  for (int i = 0; i < n; i++) {
    Val row = build_add(b, build_mul(b, b->warp, build_i32(b, 16)),
                        build_add(b, build_div(b, b->lane, 4), build_i32(b, i % 4 / 2 * 8)));
    Val column = build_add(b, build_mul(b, build_mod(b, b->lane, 4), build_i32(b, 2)), build_i32(b, i / 4 * 8 + i % 2));
    Val at = build_add(b, build_mul(b, row, build_i32(b, p->form.columns)), column);
    build_store(b, x.sums[i], build_offset(b, x.c, build_mul(b, at, build_i32(b, 4))), 4);
  }
  build_finish(b);
  return module;
}

static double number(TileType type, void *to, int i, int seed) {
  float f = (float)(((i + seed) * 7919 + i / 13) % 509 - 254) / 64.0f;   // exact in both types
  uint16_t bits = emulate_to_bf16(f);
  Half h = (Half)f;
  if (type == TILE_F16) memcpy(&bits, &h, 2);
  ((uint16_t *)to)[i] = bits;
  return type == TILE_F16 ? (double)(float)h : (double)emulate_from_bf16(bits);
}

static EmuFault run(const Product *p, float *c) {
  int m = 64 * p->groups, k = BLOCK * p->tiles, n = p->form.columns, padded = (n + 63) / 64 * 64;
  uint64_t bytes_a = (uint64_t)m * (uint64_t)k * 2, bytes_b = (uint64_t)padded * (uint64_t)k * 2,
           bytes_c = (uint64_t)m * (uint64_t)n * 4;
  void *a = aligned_alloc(16, bytes_a), *b = aligned_alloc(16, bytes_b);
  double *va = malloc(bytes_a * 4), *vb = malloc(bytes_b * 4);
  for (int i = 0; i < m * k; i++) va[i] = number(p->form.type, a, i, 0);
  for (int i = 0; i < padded * k; i++) vb[i] = number(p->form.type, b, i, 11);
  memset(c, 0xff, bytes_c);
  Emulated *e = emulate_take_module(build(p), NULL);
  if (!e) exit(1);
  EmulateArgument arguments[] = {{"a", a, bytes_a}, {"b", b, bytes_b}, {"c", c, bytes_c}};
  EmulateLaunch launch = {.block = {(uint32_t)threads(p)},
                          .dynamic_bytes = (uint32_t)(STAGES * stage_bytes(p) + WGMMA_PADDING),
                          .n = 3,
                          .arguments = arguments,
                          .types = "--f"};
  EmuFault fault = emulate_run(e, "product", &launch, message, sizeof message);
  double worst = 0;
  for (int i = 0; i < m && fault == EMU_OK; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int d = 0; d < k; d++)
        sum += va[p->form.a_transposed ? d * m + i : i * k + d] * vb[p->form.b_transposed ? d * padded + j : j * k + d];
      double error = fabs((double)c[i * n + j] - sum) / (fabs(sum) + k);
      if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
    }
  if (fault == EMU_OK && !(worst < 1e-5)) fault = (EmuFault)-1;
  free(a);
  free(b);
  free(va);
  free(vb);
  emulate_free(e);
  return fault;
}

static float c[128 * 256];

static void test_product(Product p) {
  strcpy(message, "");
  EmuFault fault = run(&p, c);
  CHECK(fault == EMU_OK, "type %d, %d columns, registers %d, transposed %d %d, %d groups, %d tiles: %d %s",
        (int)p.form.type, p.form.columns, p.form.a_in_registers, p.form.a_transposed, p.form.b_transposed, p.groups,
        p.tiles, (int)fault, message);
}

static void test_fault(Plant plant, bool registers, EmuFault expected, const char *what) {
  Product p = {{.type = TILE_BF16, .columns = 32, .a_in_registers = registers}, 1, 4, plant};
  strcpy(message, "");
  EmuFault fault = run(&p, c);
  CHECK(fault == expected, "plant %d: fault %d, expected %d: %s", (int)plant, (int)fault, (int)expected, message);
  CHECK(strstr(message, what), "plant %d: '%s' is not in: %s", (int)plant, what, message);
}

// Accepted by ptxas, without spills.
static void test_ptx(Product p) {
  LLVMModuleRef module = build(&p);
  LLVMContextRef llvm = LLVMGetModuleContext(module);
  char *ir = LLVMPrintModuleToString(module), *ptx = emulate_ptx(ir, "sm_90a");
  int registers = 0, spills = 0;
  CHECK(ptx && strstr(ptx, "wgmma.mma_async") && !strstr(ptx, "nnc.asm"), "no products in the PTX");
  CHECK(ptx && emulate_assemble(ptx, "sm_90a", &registers, &spills), "refused by ptxas");
  CHECK(spills <= 0, "spills %d bytes", spills);
  if (getenv("NNC_TEST_TABLE"))
    printf("%d columns, a in registers %d, transposed %d %d: %d registers\n%s", p.form.columns, p.form.a_in_registers,
           p.form.a_transposed, p.form.b_transposed, registers, ptx);
  free(ptx);
  LLVMDisposeMessage(ir);
  LLVMDisposeModule(module);
  LLVMContextDispose(llvm);
}

int main(void) {
#define PRODUCT(t, n, r, ta, tb, groups, tiles) \
  { {.type = t, .columns = n, .a_in_registers = r, .a_transposed = ta, .b_transposed = tb}, groups, tiles, NOTHING }
  static const Product products[] = {
      PRODUCT(TILE_BF16, 8, false, false, false, 1, 1),  PRODUCT(TILE_F16, 24, false, false, true, 1, 3),
      PRODUCT(TILE_BF16, 64, true, false, false, 1, 2),  PRODUCT(TILE_F16, 64, true, false, true, 2, 4),
      PRODUCT(TILE_BF16, 128, false, true, true, 2, 4),  PRODUCT(TILE_BF16, 128, false, false, false, 2, 5),
      PRODUCT(TILE_BF16, 256, false, true, false, 1, 3), PRODUCT(TILE_F16, 200, false, true, true, 1, 2),
  };
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) test_product(products[i]), test_ptx(products[i]);
  test_fault(NO_ASYNC_FENCE, false, EMU_UNFENCED, "without a fence.proxy.async");
  test_fault(EARLY_ASYNC_FENCE, false, EMU_UNFENCED, "without a fence.proxy.async");
  test_fault(LATE_ASYNC_FENCE, false, EMU_OK, "");
  test_fault(PARTIAL_ASYNC_FENCE, false, EMU_UNFENCED, "no barrier follows the fence.proxy.async");
  test_fault(NO_FENCE, false, EMU_RACE, "no wgmma.fence");
  test_fault(NO_FENCE, true, EMU_RACE, "no wgmma.fence");
  test_fault(NO_WAIT, false, EMU_PENDING_COPY, "has not waited");
  test_fault(WAIT_TOO_FEW, false, EMU_RACE, "which a wgmma in flight reads");
  test_fault(NO_COMMIT, false, EMU_RACE, "which a wgmma in flight reads");
  test_fault(NO_COPY_WAIT, false, EMU_PENDING_COPY, "cp.async.wait");
  test_fault(EARLY_OVERWRITE, false, EMU_RACE, "which a wgmma in flight reads");
  test_fault(NO_BARRIER_AFTER, false, EMU_RACE, "race: write");
  test_fault(MISALIGNED, false, EMU_MISALIGNED, "no multiple of 1024 bytes");
  test_fault(BEYOND, false, EMU_OUT_OF_BOUNDS, "out of bounds");
  test_fault(BASE_OFFSET, false, EMU_BAD_LAUNCH, "base offset");
  test_fault(DIFFERENT, false, EMU_BAD_LANES, "differ");
  test_fault(ONE_WARP_ABSENT, false, EMU_DIVERGENCE, "divergent");
  // In PTX an accumulator before the wait is the register that has the sum behind it.
  if (!getenv("NNC_TEST_PTX_READER")) test_fault(RESULT_EARLY, false, (EmuFault)-1, "");
  test_fault(STALE_SUM, false, EMU_PENDING_COPY, "as it was before another product");
  return check_report();
}

// The emulator's tensor cores against the published layouts (layouts.h): every element of every operand of mma,
// ldmatrix, stmatrix and wgmma, with all swizzling modes, both orders and several strides. Kernels are C functions that
// call the emulator. Operands are matrices that say where each element stands; what a product with a part of the unit
// matrix returns says where it was read from. Shared memory outside of an operand is never written, so that reading it
// is a fault.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/emulator/emulator.h"
#include "test/check.h"
#include "test/codegen/layouts.c"

// The emulator's functions, as symbols.def lists them.
uint32_t nnc_emu_tid_x(void);
void nnc_emu_barrier_all(uint32_t id, const NncEmuSite *site);
void nnc_emu_async_fence(void);
void nnc_emu_wgmma_fence(void);
void nnc_emu_wgmma_commit(void);
void nnc_emu_wgmma(uint64_t *words, uint32_t n, const NncEmuSite *site);
void nnc_emu_wgmma_wait(uint64_t *words, uint32_t n, const NncEmuSite *site);
#define MMA6(name)                                                                                                     \
  void nnc_emu_mma_##name(uint64_t *out, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1, \
                          float c0, float c1, float c2, float c3, const NncEmuSite *site);
#define MMA3(name)                                                                                            \
  void nnc_emu_mma_##name(uint64_t *out, uint32_t a0, uint32_t a1, uint32_t b0, float c0, float c1, float c2, \
                          float c3, const NncEmuSite *site);
MMA6(bf16_16)
MMA6(f16_16)
MMA6(tf32_8)
MMA3(bf16_8)
MMA3(f16_8)
MMA3(tf32_4)
void nnc_emu_mma_f64(uint64_t *out, double a, double b, double c0, double c1, const NncEmuSite *site);
void nnc_emu_ldmatrix_x4(uint64_t *out, const void *p, const NncEmuSite *site);
void nnc_emu_ldmatrix_x4t(uint64_t *out, const void *p, const NncEmuSite *site);
void nnc_emu_stmatrix_x4(void *p, uint32_t a, uint32_t b, uint32_t c, uint32_t d, const NncEmuSite *site);
void nnc_emu_stmatrix_x4t(void *p, uint32_t a, uint32_t b, uint32_t c, uint32_t d, const NncEmuSite *site);

static const NncEmuSite site = {"test", NULL, 0};
static char message[4096];
__extension__ typedef _Float16 Half;

enum { SHARED_BYTES = 160 * 1024, ADDRESS = 4096, CHUNK = 16 };

// ---------------------------------------------------------------------------------------------------------------------
// Values

typedef enum Type { BF16, F16, TF32, F64 } Type;

// Bits of a number that all types hold.
static uint64_t bits_of(Type type, double x) {
  float f = (float)x;
  Half h = (Half)f;
  uint16_t half;
  uint32_t word;
  uint64_t wide;
  memcpy(&half, &h, 2);
  memcpy(&word, &f, 4);
  memcpy(&wide, &x, 8);
  return type == BF16 ? word >> 16 : type == F16 ? half : type == TF32 ? word : wide;
}

static float float_of(uint64_t bits) {
  float f;
  uint32_t word = (uint32_t)bits;
  memcpy(&f, &word, 4);
  return f;
}

// Runs `entry` by so many threads, with all of shared memory.
static EmuFault launch(void (*entry)(void **arguments), uint32_t threads) {
  NncEmuKernel kernel = {.name = "layout", .entry = entry, .granule = 2};
  EmuLaunch l = {.kernel = &kernel,
                 .grid = {1, 1, 1},
                 .block = {threads, 1, 1},
                 .dynamic_bytes = SHARED_BYTES,
                 .threads = 1};
  message[0] = 0;
  return emu_launch(&l, message, sizeof message);
}

static char image[SHARED_BYTES];
static bool image_written[SHARED_BYTES / CHUNK];

static void image_clear(void) { memset(image_written, 0, sizeof image_written); }
static void image_set(uint64_t address, uint16_t bits) {
  if (address + 2 > SHARED_BYTES) abort();
  memcpy(image + address, &bits, 2);
  image_written[address / CHUNK] = true;
}

static void copy_image(uint32_t threads) {
  char *shared = nnc_emu_dynamic_base();
  for (uint32_t i = nnc_emu_tid_x(); i < SHARED_BYTES / CHUNK; i += threads) {
    if (!image_written[i]) continue;
    nnc_emu_check_shared(shared + i * CHUNK, CHUNK, CHUNK, EMU_WRITE, &site);
    memcpy(shared + i * CHUNK, image + i * CHUNK, CHUNK);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// mma: the registers of one warp

typedef struct Warp {
  const Fragment *f;
  Type type;
  uint64_t a[32][8], b[32][8];   // bits of each value
  double c[32][4], d[32][4];
} Warp;
static Warp warp;

static uint32_t packed(const uint64_t *values, int i) {
  return warp.type == TF32 ? (uint32_t)values[i] : (uint32_t)(values[2 * i] | values[2 * i + 1] << 16);
}

static void mma_entry(void **arguments) {
  (void)arguments;
  uint32_t t = nnc_emu_tid_x();
  const uint64_t *a = warp.a[t], *b = warp.b[t];
  float c[4];
  uint64_t d[4];
  for (int i = 0; i < 4; i++) c[i] = (float)warp.c[t][i];
#define CALL6(name)                                                                                               \
  nnc_emu_mma_##name(d, packed(a, 0), packed(a, 1), packed(a, 2), packed(a, 3), packed(b, 0), packed(b, 1), c[0], \
                     c[1], c[2], c[3], &site)
#define CALL3(name) nnc_emu_mma_##name(d, packed(a, 0), packed(a, 1), packed(b, 0), c[0], c[1], c[2], c[3], &site)
  if (warp.type == F64) {
    double x, y;
    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    nnc_emu_mma_f64(d, x, y, warp.c[t][0], warp.c[t][1], &site);
    memcpy(warp.d[t], d, 16);
    return;
  }
  if (warp.f->k == 16 && warp.type == BF16) CALL6(bf16_16);
  else if (warp.f->k == 16) CALL6(f16_16);
  else if (warp.type == TF32 && warp.f->k == 8) CALL6(tf32_8);
  else if (warp.type == TF32) CALL3(tf32_4);
  else if (warp.type == BF16) CALL3(bf16_8);
  else CALL3(f16_8);
  for (int i = 0; i < 4; i++) warp.d[t][i] = (double)float_of(d[i]);
}

static const LayoutLetters none;

// A matrix in registers: value(row, column) at each place.
static void scatter(const char *text, int rows, uint64_t (*to)[8], Type type, double (*value)(int row, int column)) {
  Layout l = layout_parse(text, &none);
  for (int t = 0; t < 32; t++)
    for (int v = 0; v < layout_size(&l, 1); v++) {
      int at = (int)layout_at(&l, t, v);
      to[t][v] = bits_of(type, value(at % rows, at / rows));
    }
}

static int selected;   // which columns of a (or b) the unit matrix returns: so many further on
static double its_row(int row, int column) { return (void)column, row; }
static double its_column(int row, int column) { return (void)row, column; }
static double unit(int row, int column) { return column == row + selected; }
static double sum_before(int row, int column) { return 1024 + 32 * row + column; }

// d = place + a b where one of a, b is a part of the unit matrix.
static void test_mma_operand(const Fragment *f, Type type, bool of_a, double (*value)(int row, int column)) {
  for (selected = 0; selected < f->k; selected += of_a ? f->n : f->m) {
    warp = (Warp){.f = f, .type = type};
    scatter(f->a, f->m, warp.a, type, of_a ? value : unit);
    scatter(f->b, f->n, warp.b, type, of_a ? unit : value);
    Layout c = layout_parse(f->c, &none);
    for (int t = 0; t < 32; t++)
      for (int v = 0; v < layout_size(&c, 1); v++) {
        int at = (int)layout_at(&c, t, v);
        warp.c[t][v] = sum_before(at % f->m, at / f->m);
      }
    CHECK(launch(mma_entry, 32) == EMU_OK, "%s: %s", f->name, message);
    int wrong = 0;
    for (int t = 0; t < 32; t++)
      for (int v = 0; v < layout_size(&c, 1); v++) {
        int at = (int)layout_at(&c, t, v), row = at % f->m, column = at / f->m;
        int depth = (of_a ? column : row) + selected;
        double read = depth >= f->k ? 0 : of_a ? value(row, depth) : value(column, depth);
        wrong += warp.d[t][v] != sum_before(row, column) + read;
      }
    CHECK(wrong == 0, "%s, type %d, operand %s, depths from %d: %d elements at other places", f->name, (int)type,
          of_a ? "a" : "b", selected, wrong);
  }
}

static void test_mma(const Fragment *f, Type type) {
  for (int of_a = 0; of_a < 2; of_a++) {
    test_mma_operand(f, type, of_a, its_row);
    test_mma_operand(f, type, of_a, its_column);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// ldmatrix, stmatrix

static bool transposed;
static uint32_t registers[32][4];

static int row_address(int row) { return ADDRESS + (row * 7 % 32) * 48; }   // rows in any order and distance

static void load_entry(void **arguments) {
  (void)arguments;
  uint64_t out[4];
  uint32_t t = nnc_emu_tid_x();
  copy_image(32);
  nnc_emu_barrier_all(0, &site);
  char *row = (char *)nnc_emu_dynamic_base() + row_address((int)t);
  (transposed ? nnc_emu_ldmatrix_x4t : nnc_emu_ldmatrix_x4)(out, row, &site);
  for (int i = 0; i < 4; i++) registers[t][i] = (uint32_t)out[i];
}

static void store_entry(void **arguments) {
  (void)arguments;
  uint32_t t = nnc_emu_tid_x(), *r = registers[t];
  char *row = (char *)nnc_emu_dynamic_base() + row_address((int)t);
  (transposed ? nnc_emu_stmatrix_x4t : nnc_emu_stmatrix_x4)(row, r[0], r[1], r[2], r[3], &site);
  nnc_emu_barrier_all(0, &site);
  nnc_emu_check_shared(row, CHUNK, CHUNK, EMU_READ, &site);
  memcpy(image + row_address((int)t), row, CHUNK);
}

// Element i of the four matrices, below each other.
static int element_address(int i) { return row_address(i / 8) + i % 8 * 2; }

static void test_matrices(bool trans) {
  Layout l = layout_parse(trans ? layout_ldmatrix_trans : layout_ldmatrix, &none);
  transposed = trans;
  image_clear();
  for (int i = 0; i < 256; i++) image_set((uint64_t)element_address(i), (uint16_t)(1000 + i));
  CHECK(launch(load_entry, 32) == EMU_OK, "ldmatrix: %s", message);
  int wrong = 0;
  for (int t = 0; t < 32; t++)
    for (int v = 0; v < 8; v++) wrong += (registers[t][v / 2] >> v % 2 * 16 & 0xffff) != 1000 + layout_at(&l, t, v);
  CHECK(wrong == 0, "ldmatrix, transposed %d: %d elements from other places", (int)trans, wrong);

  memset(registers, 0, sizeof registers);
  for (int t = 0; t < 32; t++)
    for (int v = 0; v < 8; v++) registers[t][v / 2] |= (uint32_t)(2000 + layout_at(&l, t, v)) << v % 2 * 16;
  CHECK(launch(store_entry, 32) == EMU_OK, "stmatrix: %s", message);
  wrong = 0;
  for (int i = 0; i < 256; i++) {
    uint16_t stored;
    memcpy(&stored, image + element_address(i), 2);
    wrong += stored != 2000 + i;
  }
  CHECK(wrong == 0, "stmatrix, transposed %d: %d elements at other places", (int)trans, wrong);
}

// ---------------------------------------------------------------------------------------------------------------------
// wgmma

typedef struct Operand {   // in shared memory
  bool mn_major;
  int swizzle;
  uint64_t address, lbo, sbo;   // bytes
  int step;                     // the depth step that is read: 16 elements each
} Operand;

typedef struct Product {
  Type type;
  int columns;
  bool a_in_registers;
  Operand a, b;
  uint64_t a_registers[128][8];
  uint64_t a_descriptor, b_descriptor;
} Product;
static Product product;
static float sums[128][128];

static void wgmma_entry(void **arguments) {
  (void)arguments;
  enum { F16_FORM = 1, REGISTERS = 2, TRANSPOSED_A = 4, TRANSPOSED_B = 8, COLUMNS = 8 };
  const Product *p = &product;
  uint32_t t = nnc_emu_tid_x(), n = (uint32_t)p->columns / 2, results = n;
  uint64_t words[136];
  copy_image(128);
  nnc_emu_async_fence();
  nnc_emu_barrier_all(0, &site);
  for (uint32_t i = 0; i < results; i++) words[i] = bits_of(TF32, (double)sums[t][i]);
  for (int i = 0; p->a_in_registers && i < 4; i++)
    words[n++] = p->a_registers[t][2 * i] | p->a_registers[t][2 * i + 1] << 16;
  if (!p->a_in_registers) words[n++] = p->a_descriptor;
  words[n++] = p->b_descriptor;
  words[n++] = 1;
  words[n++] = (uint64_t)p->columns << COLUMNS | (p->type == F16 ? F16_FORM : 0) | (p->a_in_registers ? REGISTERS : 0) |
               (p->a.mn_major ? TRANSPOSED_A : 0) | (p->b.mn_major ? TRANSPOSED_B : 0);
  nnc_emu_wgmma_fence();
  nnc_emu_wgmma(words, n, &site);
  nnc_emu_wgmma_commit();
  words[results] = 0;
  nnc_emu_wgmma_wait(words, results + 1, &site);
  for (uint32_t i = 0; i < results; i++) sums[t][i] = float_of(words[i]);
}

static Layout canonical(const Operand *o) {
  return layout_parse(o->mn_major ? canonical_mn_major[o->swizzle] : canonical_k_major[o->swizzle],
                      &(LayoutLetters){.t = CHUNK / 2, .lbo = (int64_t)o->lbo / 2, .sbo = (int64_t)o->sbo / 2});
}

// Writes the operand of so many rows (or columns of b) into the image; returns the descriptor of its step.
static uint64_t place(const Operand *o, int rows, Type type, double (*value)(int row, int column)) {
  Layout l = canonical(o);
  for (int row = 0; row < rows; row++)
    for (int depth = 0; depth < 16; depth++) {
      int64_t at = layout_at(&l, row, depth + 16 * o->step);
      image_set(layout_swizzle(o->swizzle, o->address + (uint64_t)at * 2), (uint16_t)bits_of(type, value(row, depth)));
    }
  return layout_descriptor(o->swizzle, o->address + (uint64_t)layout_at(&l, 0, 16 * o->step) * 2, o->lbo, o->sbo, 0);
}

static const char *described(const Operand *o, char buf[160]) {
  snprintf(buf, 160, "%s major, swizzle %d, leading %d, stride %d, step %d", o->mn_major ? "MN" : "K", o->swizzle,
           (int)o->lbo, (int)o->sbo, o->step);
  return buf;
}

// Row i of b is column i of the product; a's unit matrix returns b's depths as the rows 0 to 15.
static void test_wgmma_operand(Product p, bool of_a, double (*value)(int row, int column)) {
  Layout c = layout_parse(fragment_wgmma.c, &none), a = layout_parse(fragment_wgmma.a, &none);
  selected = 0;
  image_clear();
  for (int t = 0; t < 128; t++)
    for (int v = 0; v < 8; v++) {
      int at = (int)layout_at(&a, t, v);
      p.a_registers[t][v] = bits_of(p.type, (of_a ? value : unit)(at % 64, at / 64));
    }
  if (!p.a_in_registers) p.a_descriptor = place(&p.a, 64, p.type, of_a ? value : unit);
  p.b_descriptor = place(&p.b, p.columns, p.type, of_a ? unit : value);
  for (int t = 0; t < 128; t++)
    for (int v = 0; v < p.columns / 2; v++) sums[t][v] = (float)(1024 + layout_at(&c, t, v));
  product = p;
  EmuFault fault = launch(wgmma_entry, 128);
  int wrong = 0;
  for (int t = 0; t < 128; t++)
    for (int v = 0; v < p.columns / 2; v++) {
      int at = (int)layout_at(&c, t, v), row = at % 64, column = at / 64;
      double read = of_a ? (column < 16 ? value(row, column) : 0) : row < 16 ? value(column, row) : 0;
      wrong += (double)sums[t][v] != 1024 + at + read;
    }
  char of[160];
  CHECK(fault == EMU_OK && wrong == 0, "wgmma, type %d, %d columns, operand %s (%s): %d elements at other places; %s",
        (int)p.type, p.columns, of_a ? "a" : "b",
        of_a && p.a_in_registers ? "registers" : described(of_a ? &p.a : &p.b, of), wrong, message);
}

static void test_wgmma_both(const Product *p, bool of_a) {
  test_wgmma_operand(*p, of_a, its_row);
  test_wgmma_operand(*p, of_a, its_column);
}

static uint64_t pattern_bytes(int swizzle) {   // of 8 rows
  static const uint64_t bytes[SWIZZLES] =
      {[SWIZZLE_NONE] = 128, [SWIZZLE_32] = 256, [SWIZZLE_64] = 512, [SWIZZLE_128] = 1024};
  return bytes[swizzle];
}

// All operands of `rows` rows with this order and swizzle that step through two times 16 depths: one beside the other
// without a gap, and with larger strides.
static int operands_of(bool mn_major, int swizzle, int rows, uint64_t address, Operand out[8]) {
  uint64_t pattern = pattern_bytes(swizzle);
  int n = 0, repeats = mn_major ? (rows * 2 + (int)pattern / 8 - 1) / ((int)pattern / 8) : rows / 8;
  for (int gap = 0; gap < 2; gap++)
    for (int order = 0; order < 2; order++) {   // which of the two strides is the smaller
      // Along the depth there are 4 patterns of 8 where the order is MN, or 4 chunks where nothing is swizzled.
      int along = mn_major || !swizzle ? 4 : 1;
      uint64_t first = pattern + (uint64_t)gap * 1024, second = first * (uint64_t)(order ? along : repeats);
      bool depth_is_leading = mn_major ? !swizzle : true;
      uint64_t of_depth = order ? first : second, of_rows = order ? second : first;
      Operand o =
          {mn_major, swizzle, address, depth_is_leading ? of_depth : of_rows, depth_is_leading ? of_rows : of_depth, 0};
      if (!mn_major && swizzle) o.lbo = gap ? 16 : 0;   // means nothing
      for (o.step = 0; o.step < 2; o.step++)
        if (mn_major || swizzle != SWIZZLE_32 || !o.step) out[n++] = o;   // a row of 32 bytes is one step
    }
  return n;
}

static void test_wgmma(void) {
  static const Type types[] = {BF16, F16};
  Operand operands[8], plain = {false, SWIZZLE_NONE, 0, 128, 256, 0};
  for (int t = 0; t < 2; t++) {
    test_wgmma_both(&(Product){.type = types[t], .columns = 16, .a_in_registers = true, .b = plain}, true);
    for (int mn_major = 0; mn_major < 2; mn_major++)
      for (int swizzle = 0; swizzle < SWIZZLES; swizzle++) {
        for (int i = operands_of(mn_major, swizzle, 64, ADDRESS, operands); i-- > 0;)
          test_wgmma_both(&(Product){.type = types[t], .columns = 16, .a = operands[i], .b = plain}, true);
        for (int columns = 8; columns <= 256; columns += columns < 64 || columns == 248 ? 8 : 23 * 8)
          for (int i = operands_of(mn_major, swizzle, columns, ADDRESS, operands); i-- > 0;)
            test_wgmma_both(&(Product){.type = types[t], .columns = columns, .a_in_registers = true, .b = operands[i]},
                            false);
      }
  }
}

// Bits that the descriptor's fields do not have, and a start between two patterns, are refused.
static void test_refused(void) {
  Product p = {.type = BF16, .columns = 16, .a_in_registers = true};
  image_clear();
  p.b = (Operand){false, SWIZZLE_128, ADDRESS, 16, 1024, 0};
  uint64_t good = place(&p.b, 16, BF16, its_row);
  for (int bit = 0; bit < 64; bit++) {
    bool reserved = (bit >= 14 && bit < 16) || (bit >= 30 && bit < 32) || (bit >= 46 && bit < 49) ||
                    (bit >= 52 && bit < 62),
         base_offset = bit >= 49 && bit < 52, unaligned = bit >= 3 && bit < 6;
    p.b_descriptor = good ^ (uint64_t)1 << bit;
    product = p;
    EmuFault fault = launch(wgmma_entry, 128);
    if (reserved || base_offset || unaligned) CHECK(fault != EMU_OK, "bit %d of a descriptor is not looked at", bit);
  }
}

int main(void) {
  test_mma(&fragment_m16n8k16, BF16);
  test_mma(&fragment_m16n8k16, F16);
  test_mma(&fragment_m16n8k8, BF16);
  test_mma(&fragment_m16n8k8, F16);
  test_mma(&fragment_m16n8k8_tf32, TF32);
  test_mma(&fragment_m16n8k4_tf32, TF32);
  test_mma(&fragment_m8n8k4_f64, F64);
  test_matrices(false);
  test_matrices(true);
  test_wgmma();
  test_refused();
  return check_report();
}

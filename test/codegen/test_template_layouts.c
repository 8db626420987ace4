// What the templates' building blocks (template.h) make of the published layouts (layouts.h): where a tile's elements
// lie in shared memory, the descriptors of wgmma, and which element each register of a fragment holds. Kernels copy a
// matrix whose elements are their own numbers, and write out what they have; the emulator that runs them is held to the
// same layouts by test_layouts.c.
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/template/template.h"
#include "test/check.h"
#include "test/codegen/emulate.c"
#include "test/codegen/layouts.c"

enum { ROWS = 64, MOST = 1 << 20 };
static char message[4096];
static uint8_t matrix[MOST];
static uint32_t out[MOST / 4];
static float sums[32][32][4];   // tile, lane, value
static const LayoutLetters none;

static int columns_of(TileType type, int lines) { return lines * 128 / tile_element_bytes(type); }
static int bits_of(TileType type) { return 8 * tile_element_bytes(type); }

typedef struct Kernel {
  Build b;
  Tile tile;
  Val from, to, sums;
  int n;   // i32 of a thread written so far, of 32 threads
} Kernel;

static void begin(Kernel *k, TileType type, int lines) {
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("layouts", LLVMContextCreate());
  Build *b = &k->b;
  build_kernel(b, module, "layouts", "rrp", 32);
  k->from = build_parameter(b, 0, "from");
  k->sums = build_parameter(b, 1, "sums");
  k->to = build_parameter(b, 2, "to");
  k->n = 0;
  k->tile = (Tile){.type = type, .rows = ROWS, .columns = columns_of(type, lines), .base = build_wgmma_base(b)};
  TileSource source = {.base = k->from, .row_stride = k->tile.columns, .first_row = build_i32(b, 0), .n_rows = ROWS};
  build_copy_tile(b, &k->tile, &source, 32);
  build_commit(b);
  build_wait(b, 0);
  build_barrier(b);
}

static void put(Kernel *k, int n, const Val *values) {
  for (int i = 0; i < n; i++, k->n++) {
    Val at = build_add(&k->b, build_mul(&k->b, k->b.lane, build_i32(&k->b, 4)), build_i32(&k->b, 128 * k->n));
    build_store(&k->b, values[i], build_offset(&k->b, k->to, at), 4);
  }
}
static uint32_t got(int i, int lane) { return out[32 * i + lane]; }

static void finish(Kernel *k) {
  TileType type = k->tile.type;
  for (int i = 0; i < ROWS * k->tile.columns; i++)
    memcpy(matrix + i * bits_of(type) / 8, &i, (size_t)bits_of(type) / 8);
  build_finish(&k->b);
  Emulated *e = emulate_take_module(k->b.module, NULL);
  if (!e) exit(1);
  EmulateArgument arguments[] = {{"from", matrix, sizeof matrix}, {"sums", sums, sizeof sums}, {"to", out, sizeof out}};
  EmulateLaunch launch = {.block = {32},
                          .dynamic_bytes = (uint32_t)tile_bytes(&k->tile) + WGMMA_PADDING,
                          .n = 3,
                          .arguments = arguments,
                          .types = "--i"};
  CHECK(emulate_run(e, "layouts", &launch, message, sizeof message) == EMU_OK, "%s", message);
  emulate_free(e);
}

// ---------------------------------------------------------------------------------------------------------------------
// Tiles and descriptors

// A tile with rows of 128 bytes has both canonical layouts of the 128 byte swizzle: with its rows as rows, and as
// depths.
static void test_tile(TileType type) {
  Kernel k;
  begin(&k, type, 1);
  Build *b = &k.b;
  int per_word = 32 / bits_of(type), words = tile_bytes(&k.tile) / 128;
  for (int i = 0; i < words; i++) {
    Val at = build_add(b, build_mul(b, b->lane, build_i32(b, 4)), build_i32(b, 128 * i));
    put(&k, 1, (Val[]){build_load(b, b->i32, build_offset(b, k.tile.base, at), 4)});
  }
  finish(&k);
  LayoutLetters letters = {.t = tile_chunk(type), .lbo = 0, .sbo = 1024 / tile_element_bytes(type)};
  Layout rows = layout_parse(canonical_k_major[SWIZZLE_128], &letters),
         depths = layout_parse(canonical_mn_major[SWIZZLE_128], &letters);
  int wrong = 0;
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < k.tile.columns; column++)
      for (int order = 0; order < 2; order++) {
        int64_t element = order ? layout_at(&depths, column, row) : layout_at(&rows, row, column);
        int64_t address = (int64_t)layout_swizzle(SWIZZLE_128, (uint64_t)(element * tile_element_bytes(type)));
        uint32_t word = got((int)(address / 128), (int)(address % 128 / 4)),
                 mask = bits_of(type) == 32 ? UINT32_MAX : 0xffff;
        wrong += (word >> address % 4 * 8 & mask) != (uint32_t)(row * k.tile.columns + column);
      }
  CHECK(wrong == 0 && per_word > 0, "tile of type %d: %d elements at other places", (int)type, wrong);
}

static void test_descriptors(void) {
  static const struct {
    int address, leading, stride;
  } cases[] = {{0, 16, 1024},        {1024, 8192, 1024},    {64 * 128, 64 * 128, 1024}, {96 * 1024, 16384, 1024},
               {16384, 32768, 2048}, {196608, 131072, 256}, {225 * 1024, 16, 1024}};
  enum { CASES = sizeof cases / sizeof *cases, STEPS = 4 };
  Kernel k;
  begin(&k, TILE_BF16, 1);
  Build *b = &k.b;
  for (int i = 0; i < CASES; i++)
    for (int transposed = 0; transposed < 2; transposed++)
      for (int step = 0; step < STEPS; step++) {
        Val d = build_descriptor(b, build_offset(b, k.tile.base, build_i32(b, cases[i].address)), cases[i].leading,
                                 cases[i].stride);
        d = build_descriptor_on(b, d, build_i32(b, step * (transposed ? 2048 : 32)));
        Val halves = LLVMBuildBitCast(b->builder, d, LLVMVectorType(b->i32, 2), "");
        for (int j = 0; j < 2; j++)
          put(&k, 1, (Val[]){LLVMBuildExtractElement(b->builder, halves, build_i32(b, j), "")});
      }
  finish(&k);
  // the tile begins at the first multiple: in the emulator dynamic shared memory begins at none
  for (int i = 0, at = 0; i < CASES; i++)
    for (int transposed = 0; transposed < 2; transposed++)
      for (int step = 0; step < STEPS; step++, at += 2) {
        uint64_t lbo = (uint64_t)cases[i].leading, sbo = (uint64_t)cases[i].stride;
        LayoutLetters letters = {.t = 8, .lbo = (int64_t)lbo / 2, .sbo = 1024 / 2};
        Layout l = layout_parse((transposed ? canonical_mn_major : canonical_k_major)[SWIZZLE_128], &letters);
        uint64_t address = WGMMA_ALIGN + (uint64_t)cases[i].address + 2 * (uint64_t)layout_at(&l, 0, 16 * step);
        uint64_t expected = layout_descriptor(SWIZZLE_128, address, lbo, sbo, 0);
        uint64_t made = got(at, 0) | (uint64_t)got(at + 1, 31) << 32;
        CHECK(made == expected, "address %d, leading %d, stride %d, transposed %d, step %d: 0x%016llx, not 0x%016llx",
              cases[i].address, cases[i].leading, cases[i].stride, transposed, step, (unsigned long long)made,
              (unsigned long long)expected);
      }
}

// ---------------------------------------------------------------------------------------------------------------------
// Fragments

static const Fragment *fragment(TileType type) {
  return tile_element_bytes(type) == 2 ? &fragment_m16n8k16 : &fragment_m16n8k8_tf32;
}

// Of 32 bit operands that are transposed or come from accumulators, the depths are in another order, the same for a and
// b: a sum does not depend on it.
static int depth_of(TileType type, int k) {
  return tile_element_bytes(type) == 2 ? k : k < 4 ? 2 * k : 2 * (k - 4) + 1;
}

// Value v of a lane, of registers that begin at i.
static uint32_t value_at(TileType type, int i, int lane, int v) {
  return tile_element_bytes(type) == 4 ? got(i + v, lane) : got(i + v / 2, lane) >> v % 2 * 16 & 0xffff;
}

// Of the values of an a (or b: of so many columns) fragment in the registers from i on how many are not those of these
// rows and depths of the matrix.
static int differences(const Tile *t, bool of_a, int i, int first, int first_depth, bool transposed) {
  const Fragment *f = fragment(t->type);
  Layout l = layout_parse(of_a ? f->a : f->b, &none);
  int rows = of_a ? f->m : f->n, wrong = 0;
  for (int lane = 0; lane < 32; lane++)
    for (int v = 0; v < layout_size(&l, 1); v++) {
      int at = (int)layout_at(&l, lane, v), row = first + at % rows, k = at / rows;
      int expected = transposed ? (first_depth + depth_of(t->type, k)) * t->columns + row
                                : row * t->columns + first_depth + k;
      wrong += value_at(t->type, i, lane, v) != (uint32_t)expected;
    }
  return wrong;
}

static void test_rows(TileType type, int lines) {
  Kernel k;
  begin(&k, type, lines);
  Build *b = &k.b;
  int depth = tile_k(type), steps = k.tile.columns / depth;
  Val r[4];
  for (int row = 0; row < ROWS; row += 16)
    for (int step = 0; step < steps; step++) {
      build_load_a(b, &k.tile, build_i32(b, row / 32 * 32), row % 32, step, r);
      put(&k, 4, r);
      build_load_b(b, &k.tile, row, step, r);
      put(&k, 4, r);
    }
  finish(&k);
  for (int row = 0, i = 0; row < ROWS; row += 16)
    for (int step = 0; step < steps; step++, i += 8) {
      int a = differences(&k.tile, true, i, row, depth * step, false),
          x = differences(&k.tile, false, i + 4, row, depth * step, false) +
              differences(&k.tile, false, i + 6, row + 8, depth * step, false);
      CHECK(a == 0, "type %d, %d columns: a of row %d, step %d: %d", (int)type, k.tile.columns, row, step, a);
      CHECK(x == 0, "type %d, %d columns: b of row %d, step %d: %d", (int)type, k.tile.columns, row, step, x);
    }
}

static void test_transposed(TileType type, int lines) {
  Kernel k;
  begin(&k, type, lines);
  Build *b = &k.b;
  int depth = tile_k(type), line = columns_of(type, 1);
  Val r[4];
  for (int column = 0; column < k.tile.columns; column += 16)
    for (int step = 0; step < ROWS / depth; step++) {
      // The columns of the second line are named by a value, as a template with a warp for each does.
      Val first = column < line ? NULL : build_i32(b, 128);
      build_load_a_transposed(b, &k.tile, step, first, column % line, r);
      put(&k, 4, r);
      build_load_b_transposed(b, &k.tile, step, first, column % line, r);
      put(&k, 4, r);
    }
  finish(&k);
  for (int column = 0, i = 0; column < k.tile.columns; column += 16)
    for (int step = 0; step < ROWS / depth; step++, i += 8) {
      int a = differences(&k.tile, true, i, column, depth * step, true),
          x = differences(&k.tile, false, i + 4, column, depth * step, true) +
              differences(&k.tile, false, i + 6, column + 8, depth * step, true);
      CHECK(a == 0, "type %d, %d columns: a from column %d, step %d: %d", (int)type, k.tile.columns, column, step, a);
      CHECK(x == 0, "type %d, %d columns: b from column %d, step %d: %d", (int)type, k.tile.columns, column, step, x);
    }
}

// Accumulators (16, 64) as the a operand.
static void test_narrowed(TileType type) {
  enum { TILES = 8 };
  const Fragment *f = fragment(type);
  Layout c = layout_parse(f->c, &none), a = layout_parse(f->a, &none);
  for (int tile = 0; tile < TILES; tile++)
    for (int lane = 0; lane < 32; lane++)
      for (int v = 0; v < 4; v++) {
        int at = (int)layout_at(&c, lane, v), row = at % 16, column = 8 * tile + at / 16;
        sums[tile][lane][v] = (float)(row * 16 + column % 16);   // below 256: exact in all types
      }
  Kernel k;
  begin(&k, type, 1);
  Build *b = &k.b;
  Val loaded[TILES][4], r[4];
  for (int tile = 0; tile < TILES; tile++)
    for (int v = 0; v < 4; v++) {
      Val at = build_add(b, build_mul(b, b->lane, build_i32(b, 16)), build_i32(b, tile * 512 + v * 4));
      loaded[tile][v] = build_load(b, b->f32, build_offset(b, k.sums, at), 4);
    }
  int depth = tile_k(type), steps = 8 * TILES / depth;
  for (int step = 0; step < steps; step++) {
    build_narrow_a(b, type, loaded, step, r);
    put(&k, 4, r);
  }
  finish(&k);
  for (int step = 0; step < steps; step++) {
    int wrong = 0;
    for (int lane = 0; lane < 32; lane++)
      for (int v = 0; v < layout_size(&a, 1); v++) {
        int at = (int)layout_at(&a, lane, v), row = at % 16, column = depth * step + depth_of(type, at / 16);
        float expected = (float)(row * 16 + column % 16);
        uint32_t bits = value_at(type, 4 * step, lane, v), word;
        memcpy(&word, &expected, 4);
        if (type == TILE_BF16) word >>= 16;
        if (type == TILE_F16) {
          __extension__ _Float16 half = (_Float16)expected;
          uint16_t short_bits;
          memcpy(&short_bits, &half, 2);
          word = short_bits;
        }
        wrong += bits != word;
      }
    CHECK(wrong == 0, "type %d: accumulators as the operand of step %d: %d", (int)type, step, wrong);
  }
}

int main(void) {
  static const TileType types[] = {TILE_BF16, TILE_F16, TILE_TF32};
  for (int i = 0; i < 3; i++) {
    test_tile(types[i]);
    for (int lines = 1; lines <= 2; lines++) {
      test_rows(types[i], lines);
      test_transposed(types[i], lines);
    }
    test_narrowed(types[i]);
  }
  test_descriptors();
  return check_report();
}

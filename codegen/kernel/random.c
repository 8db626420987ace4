// nn.random_uniform: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011),
// a function of the element's index, so that any part of a tensor can be drawn again at any time and in any order. Key
// row (seed low, seed high, step, stream): counter = (block low, block high, stream, step), key = (seed low, seed
// high). support/draws.h says which words of which block are an element's.
#include <math.h>

#include "codegen/kernel/kernel.h"
#include "support/draws.h"

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

// A word of the key row in each of `blocks` lanes.
static Value key_word(Emitter *e, MlirValue key, int word, int blocks) {
  IndexMap at = {.rank = 1, .term = {{-1, 0, word}}};
  Value splat = expression(e, key, &at);
  if (blocks < e->lanes) splat = emit_take_lanes(e, splat, "i32", e->lanes, 0, blocks, blocks);
  return emit_of(e, "arith.extui", OF(splat), "%% : vector<%dxi32> to vector<%dxi64>", blocks, blocks);
}

// 32-bit words in the low halves of 64-bit lanes: a product of two of them is one multiplication, whose halves are the
// two words that a round needs. The upper halves are rubbish and masked where they would matter.
static Value words(Emitter *e, const char *op, Value a, Value b) {
  return emit_of(e, op, OF(a, b), "%%, %% : vector<%dxi64>", e->lanes);
}

static Value word(Emitter *e, uint32_t value) {
  return emit_constant(e, "dense<%u> : vector<%dxi64>", value, e->lanes);
}

static Value narrow(Emitter *e, Value x) {
  return emit_of(e, "arith.trunci", OF(x), "%% : vector<%dxi64> to vector<%dxi32>", e->lanes, e->lanes);
}

static Value low_half(Emitter *e, Value x) { return words(e, "arith.andi", x, word(e, UINT32_MAX)); }
static Value high_half(Emitter *e, Value x) { return words(e, "arith.shrui", x, word(e, 32)); }

// x, the counter, becomes the output.
static void philox(Emitter *e, Value x[4], Value key[2]) {
  Value m0 = word(e, PHILOX_M0), m1 = word(e, PHILOX_M1), w0 = word(e, PHILOX_W0), w1 = word(e, PHILOX_W1);
  for (int round = 0; round < 10; round++) {
    Value p0 = words(e, "arith.muli", low_half(e, x[0]), m0), p1 = words(e, "arith.muli", low_half(e, x[2]), m1);
    Value y0 = words(e, "arith.xori", words(e, "arith.xori", high_half(e, p1), x[1]), key[0]);
    Value y2 = words(e, "arith.xori", words(e, "arith.xori", high_half(e, p0), x[3]), key[1]);
    x[0] = y0, x[1] = p1, x[2] = y2, x[3] = p0;
    key[0] = words(e, "arith.addi", key[0], w0);
    key[1] = words(e, "arith.addi", key[1], w1);
  }
}

// x[w], word w of each of a quarter as many blocks as there are lanes: the words in the order of the elements.
static Value interleave(Emitter *e, const Value x[DRAW_BLOCK]) {
  int half = e->lanes / 2, quarter = half / 2;
  Value even = emit_of(e, "vector.interleave", OF(x[0], x[2]), "%%, %% : vector<%dxi64> -> vector<%dxi64>", quarter,
                       half),
        odd = emit_of(e, "vector.interleave", OF(x[1], x[3]), "%%, %% : vector<%dxi64> -> vector<%dxi64>", quarter,
                      half);
  return emit_of(e, "vector.interleave", OF(even, odd), "%%, %% : vector<%dxi64> -> vector<%dxi64>", half, e->lanes);
}

static Value bit_of(Emitter *e, Value index, uint32_t bit) {
  Value zero = emit_constant(e, "dense<0> : vector<%dxi64>", e->lanes);
  return emit_of(e, "arith.cmpi", OF(words(e, "arith.andi", index, word(e, bit)), zero), "ne, %%, %% : vector<%dxi64>",
                 e->lanes);
}

static Value either(Emitter *e, Value condition, Value yes, Value no) {
  return emit_of(e, "arith.select", OF(condition, yes, no), "%%, %%, %% : vector<%dxi1>, vector<%dxi64>", e->lanes,
                 e->lanes);
}

// Whether the lanes are neighbours and the first of them is that of a block.
static bool lanes_fill_blocks(const Emitter *e, const Access *a, int64_t stride) {
  if (stride != 1 || e->lanes % DRAW_BLOCK || a->offset % DRAW_BLOCK) return false;
  for (int g = 0; g < e->nest.n; g++)
    if (g != e->vector_group && a->stride[e->nest.axis[g]] % DRAW_BLOCK) return false;
  return true;
}

// A word for each lane. bits: of the block's high word.
static Value drawn_word(Emitter *e, MlirOperation op, const Access *a, uint32_t bits) {
  MlirValue key = nn_operand(op, 0);
  bool vary;
  int64_t stride;
  Value first = emit_offset(e, a, &vary, &stride), index = first, block, k[4];
  int n = e->lanes;
  bool fill = lanes_fill_blocks(e, a, stride);
  int blocks = fill ? n / DRAW_BLOCK : n;
  for (int i = 0; i < 4; i++) k[i] = key_word(e, key, i, blocks);
  e->lanes = blocks;
  if (fill) {
    block = emit_lane_indices(e, emit_index_with(e, "shrui", first, 2), 1, true);
  } else {
    index = emit_lane_indices(e, first, stride, true);
    block = words(e, "arith.shrui", index, word(e, 2));
  }
  Value top = high_half(e, block);
  if (bits) top = words(e, "arith.ori", top, word(e, bits));
  Value x[DRAW_BLOCK] = {block, top, k[3], k[2]};
  philox(e, x, k);
  e->lanes = n;
  if (fill) return interleave(e, x);
  Value odd = bit_of(e, index, 1);
  return either(e, bit_of(e, index, 2), either(e, odd, x[3], x[2]), either(e, odd, x[1], x[0]));
}

Value emit_random(Emitter *e, MlirOperation op, NnType type, const IndexMap *map) {
  Layout own = layout_row_major(&type);
  Access a = access_compose(&own, map);
  uint32_t bits_of_draw = nn_attr_bool(op, "second", false) ? DRAW_SECOND : 0;
  Value drawn = drawn_word(e, op, &a, bits_of_draw);
  int n = e->lanes;
  if (type.dtype != NN_F64) {
    int digits = type.dtype == NN_BF16 ? 8 : type.dtype == NN_F16 ? 11 : 24;   // as many as all values below 1 have
    Value bits = words(e, "arith.shrui", low_half(e, drawn), word(e, (uint32_t)(32 - digits)));
    return emit_binary(e, NN_OP_mul, NN_F32, emit_cast(e, narrow(e, bits), NN_I32, NN_F32),
                       emit_splat(e, NN_F32, ldexp(1, -digits)));
  }
  Value low = drawn_word(e, op, &a, bits_of_draw | DRAW_LOWER_HALF);
  Value all = words(e, "arith.ori", words(e, "arith.shli", drawn, word(e, 32)), low_half(e, low)),
        bits = words(e, "arith.shrui", all, word(e, 11));
  Value f = emit_of(e, "arith.sitofp", OF(bits), "%% : vector<%dxi64> to vector<%dxf64>", n, n);
  return emit_binary(e, NN_OP_mul, NN_F64, f, emit_splat(e, NN_F64, 0x1p-53));
}

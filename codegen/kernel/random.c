// nn.random_uniform: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011),
// one counter per element, so that any part of a tensor can be drawn again at any time and in any order. Key row (seed
// low, seed high, step, stream): counter = (index low, index high, stream, step), key = (seed low, seed high).
#include <math.h>

#include "codegen/kernel/kernel.h"

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

static Value key_word(Emitter *e, MlirValue key, int word) {
  IndexMap at = {.rank = 1, .term = {{-1, 0, word}}};
  return expression(e, key, &at);
}

// 32-bit words in the low halves of 64-bit lanes: a product of two of them is one multiplication, whose halves are the
// two words that a round needs. The upper halves are rubbish and masked where they would matter.
static Value words(Emitter *e, const char *op, Value a, Value b) {
  return emit_of(e, op, OF(a, b), "%%, %% : vector<%dxi64>", e->lanes);
}

static Value word(Emitter *e, uint32_t value) {
  return emit_constant(e, "dense<%u> : vector<%dxi64>", value, e->lanes);
}

static Value widen(Emitter *e, Value x) {
  return emit_of(e, "arith.extui", OF(x), "%% : vector<%dxi32> to vector<%dxi64>", e->lanes, e->lanes);
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

Value emit_random(Emitter *e, MlirOperation op, NnType type, const IndexMap *map) {
  MlirValue key = nn_operand(op, 0);
  Layout own = layout_row_major(&type);
  Access a = access_compose(&own, map);
  bool vary;
  int64_t stride;
  Value first = emit_offset(e, &a, &vary, &stride), index = emit_lane_indices(e, first, stride, true);
  Value k[2] = {widen(e, key_word(e, key, 0)), widen(e, key_word(e, key, 1))};
  Value x[4] = {index, high_half(e, index), widen(e, key_word(e, key, 3)), widen(e, key_word(e, key, 2))};
  philox(e, x, k);
  const Value *drawn = nn_attr_bool(op, "second", false) ? x + 2 : x;
  int n = e->lanes;
  if (type.dtype != NN_F64) {
    int digits = type.dtype == NN_BF16 ? 8 : type.dtype == NN_F16 ? 11 : 24;   // as many as all values below 1 have
    Value bits = words(e, "arith.shrui", low_half(e, drawn[0]), word(e, (uint32_t)(32 - digits)));
    return emit_binary(e, NN_OP_mul, NN_F32, emit_cast(e, narrow(e, bits), NN_I32, NN_F32),
                       emit_splat(e, NN_F32, ldexp(1, -digits)));
  }
  Value all = words(e, "arith.ori", words(e, "arith.shli", drawn[0], word(e, 32)), low_half(e, drawn[1])),
        bits = words(e, "arith.shrui", all, word(e, 11));
  Value f = emit_of(e, "arith.sitofp", OF(bits), "%% : vector<%dxi64> to vector<%dxf64>", n, n);
  return emit_binary(e, NN_OP_mul, NN_F64, f, emit_splat(e, NN_F64, 0x1p-53));
}

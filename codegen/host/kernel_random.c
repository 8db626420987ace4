// nn.random_uniform: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011), one counter
// per element, so that any part of a tensor can be drawn again at any time and in any order.
// Key row (seed low, seed high, step, stream): counter = (index low, index high, stream, step), key = (seed low, seed high).
#include "codegen/host/kernel.h"

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

static Value key_word(Emitter *e, MlirValue key, int word) {
  IndexMap at = {.rank = 1, .term = {{-1, 0, word}}};
  return expression(e, key, &at);
}

static Value integers(Emitter *e, const char *op, Value a, Value b) {
  Value v = emit(e, depth_max(a, b), "arith.%s %%v%d, %%v%d : vector<%dxi32>", op, a.id, b.id, e->lanes);
  v.varies = a.varies || b.varies;
  return v;
}

static Value splat_word(Emitter *e, uint32_t word) { return emit_constant(e, "dense<%d> : vector<%dxi32>", (int)word, e->lanes); }

// counter[2] of the index, low and high word, of the lanes' elements in a tensor of `elements`.
static void index_words(Emitter *e, const Access *a, int64_t elements, Value counter[2]) {
  bool vary;
  int64_t stride;
  Value first = emit_offset(e, a, &vary, &stride);
  if (elements < INT32_MAX) {
    counter[0] = emit_lane_indices(e, first, stride, false);
    counter[1] = splat_word(e, 0);
    return;
  }
  Value wide = emit_lane_indices(e, first, stride, true), shift = emit_constant(e, "dense<32> : vector<%dxi64>", e->lanes);
  Value upper = emit(e, wide.depth, "arith.shrui %%v%d, %%v%d : vector<%dxi64>", wide.id, shift.id, e->lanes);
  for (int i = 0; i < 2; i++) {
    Value from = i ? upper : wide;
    counter[i] = emit(e, wide.depth, "arith.trunci %%v%d : vector<%dxi64> to vector<%dxi32>", from.id, e->lanes, e->lanes);
    counter[i].varies = wide.varies;
  }
}

// x[0] of the last round needs x[1] and x[3] of the round before, so all four words go through the rounds.
static void philox(Emitter *e, Value x[4], Value key[2]) {
  Value m0 = splat_word(e, PHILOX_M0), m1 = splat_word(e, PHILOX_M1), w0 = splat_word(e, PHILOX_W0), w1 = splat_word(e, PHILOX_W1);
  for (int round = 0; round < 10; round++) {
    Value low0, high0, low1, high1;
    emit_multiply_wide(e, x[0], m0, &low0, &high0);
    emit_multiply_wide(e, x[2], m1, &low1, &high1);
    Value y0 = integers(e, "xori", integers(e, "xori", high1, x[1]), key[0]);
    Value y2 = integers(e, "xori", integers(e, "xori", high0, x[3]), key[1]);
    x[0] = y0, x[1] = low1, x[2] = y2, x[3] = low0;
    key[0] = integers(e, "addi", key[0], w0);
    key[1] = integers(e, "addi", key[1], w1);
  }
}

Value emit_random(Emitter *e, MlirValue key, NnType type, const IndexMap *map) {
  Layout own = layout_row_major(&type);
  Access a = access_compose(&own, map);
  Value words[2], x[4], k[2] = {key_word(e, key, 0), key_word(e, key, 1)};
  index_words(e, &a, nn_type_elements(&type), words);
  x[0] = words[0], x[1] = words[1], x[2] = key_word(e, key, 3), x[3] = key_word(e, key, 2);
  philox(e, x, k);
  int n = e->lanes;
  if (type.dtype == NN_F32) {
    Value bits = integers(e, "shrui", x[0], splat_word(e, 8));
    Value f = emit(e, bits.depth, "arith.sitofp %%v%d : vector<%dxi32> to vector<%dxf32>", bits.id, n, n);
    f.varies = bits.varies;
    return emit_binary(e, NN_OP_mul, NN_F32, f, emit_splat(e, NN_F32, 0x1p-24));
  }
  // 53 bits of (word 0 : word 1).
  Value wide[2];
  for (int i = 0; i < 2; i++) {
    wide[i] = emit(e, x[i].depth, "arith.extui %%v%d : vector<%dxi32> to vector<%dxi64>", x[i].id, n, n);
    wide[i].varies = x[i].varies;
  }
  Value up = emit_constant(e, "dense<32> : vector<%dxi64>", n), down = emit_constant(e, "dense<11> : vector<%dxi64>", n);
  int depth = depth_max(wide[0], wide[1]);
  Value high = emit(e, depth, "arith.shli %%v%d, %%v%d : vector<%dxi64>", wide[0].id, up.id, n);
  Value all = emit(e, depth, "arith.ori %%v%d, %%v%d : vector<%dxi64>", high.id, wide[1].id, n);
  Value bits = emit(e, depth, "arith.shrui %%v%d, %%v%d : vector<%dxi64>", all.id, down.id, n);
  Value f = emit(e, depth, "arith.sitofp %%v%d : vector<%dxi64> to vector<%dxf64>", bits.id, n, n);
  f.varies = wide[0].varies || wide[1].varies;
  return emit_binary(e, NN_OP_mul, NN_F64, f, emit_splat(e, NN_F64, 0x1p-53));
}

// Random numbers inside of templates: the same draws as random_uniform makes, computed where they are needed (Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Key row (seed low, seed high, step, stream): counter =
// (block low, block high, stream, step), key = (seed low, seed high); support/draws.h says which words are whose.
#include <math.h>

#include "codegen/cuda/template/template.h"

RandomKey build_random_key(Build *b, Val row) {
  RandomKey key;
  for (int i = 0; i < 4; i++) key.word[i] = build_load(b, b->i32, build_offset(b, row, build_i32(b, 4 * i)), 4);
  return key;
}

static Val low(Build *b, Val x) { return LLVMBuildTrunc(b->builder, x, b->i32, ""); }
static Val high(Build *b, Val x) { return low(b, LLVMBuildLShr(b->builder, x, LLVMConstInt(b->i64, 32, false), "")); }
static Val wide(Build *b, Val x) { return LLVMBuildZExt(b->builder, x, b->i64, ""); }

// The four words of a block, whose number may be an i32. bits: of its high word.
static void philox(Build *b, const RandomKey *key, Val block, uint32_t bits, Val c[DRAW_BLOCK]) {
  Val k[2] = {key->word[0], key->word[1]};
  bool narrow = LLVMTypeOf(block) == b->i32;
  c[0] = narrow ? block : low(b, block), c[1] = narrow ? build_i32(b, 0) : high(b, block), c[2] = key->word[3],
  c[3] = key->word[2];
  if (bits) c[1] = build_or(b, c[1], build_i32(b, (int32_t)bits));
  for (int round = 0; round < 10; round++) {
    Val p0 = build_mul(b, wide(b, c[0]), LLVMConstInt(b->i64, 0xD2511F53u, false)),
        p1 = build_mul(b, wide(b, c[2]), LLVMConstInt(b->i64, 0xCD9E8D57u, false));
    c[0] = build_xor(b, build_xor(b, high(b, p1), c[1]), k[0]);
    c[1] = low(b, p1);
    c[2] = build_xor(b, build_xor(b, high(b, p0), c[3]), k[1]);
    c[3] = low(b, p0);
    k[0] = build_add(b, k[0], build_i32(b, (int32_t)0x9E3779B9u));
    k[1] = build_add(b, k[1], build_i32(b, (int32_t)0xBB67AE85u));
  }
}

// i1. Uniform numbers are compared as the integers that they are made of: `digits` highest bits of a word.
static Val is_kept(Build *b, Val word, int digits, double p, LLVMTypeRef type) {
  LLVMTypeRef integer = LLVMTypeOf(word);
  int unused = (int)LLVMGetIntTypeWidth(integer) - digits;
  double limit = ceil(ldexp(type == b->f64 ? p : (double)(float)p, digits));
  Val drawn = LLVMBuildLShr(b->builder, word, LLVMConstInt(integer, (unsigned)unused, false), "");
  return LLVMBuildICmp(b->builder, LLVMIntUGE, drawn, LLVMConstInt(integer, (uint64_t)limit, false), "");
}

static Val keeps(Build *b, Val word, int digits, double p, LLVMTypeRef type) {
  return build_select(b, is_kept(b, word, digits, p, type), LLVMConstReal(type, 1 / (1 - p)), LLVMConstReal(type, 0));
}

Val build_keep_block(Build *b, const RandomKey *key, Val block, double p, Val word, int bit) {
  Val drawn[DRAW_BLOCK];
  philox(b, key, block, 0, drawn);
  for (int i = 0; i < DRAW_BLOCK; i++) {
    Val set = build_i32(b, (int32_t)(1u << (bit + i)));
    word = build_or(b, word, build_select(b, is_kept(b, drawn[i], 24, p, b->f32), set, build_i32(b, 0)));
  }
  return word;
}

static Val has_bit(Build *b, Val index, int bit) {
  return LLVMBuildICmp(b->builder, LLVMIntNE, build_and(b, low(b, index), build_i32(b, bit)), build_i32(b, 0), "");
}

static Val word_of(Build *b, const RandomKey *key, Val index, uint32_t bits) {
  Val c[DRAW_BLOCK], odd = has_bit(b, index, 1);
  philox(b, key, LLVMBuildLShr(b->builder, index, LLVMConstInt(b->i64, 2, false), ""), bits, c);
  return build_select(b, has_bit(b, index, 2), build_select(b, odd, c[3], c[2]), build_select(b, odd, c[1], c[0]));
}

Val build_keep(Build *b, const RandomKey *key, Val index, double p, LLVMTypeRef type) {
  Val upper = word_of(b, key, index, 0);
  if (type != b->f64) return keeps(b, upper, 24, p, type);
  Val lower = wide(b, word_of(b, key, index, DRAW_LOWER_HALF));
  upper = LLVMBuildShl(b->builder, wide(b, upper), LLVMConstInt(b->i64, 32, false), "");
  return keeps(b, build_or(b, upper, lower), 53, p, type);
}

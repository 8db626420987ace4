// Random numbers inside of templates: the same draws as random_uniform makes, computed where they are needed (Salmon et
// al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Key row (seed low, seed high, step, stream): counter =
// (index low, index high, stream, step), key = (seed low, seed high).
#include "codegen/cuda/template/template.h"

RandomKey build_random_key(Build *b, Val row) {
  RandomKey key;
  for (int i = 0; i < 4; i++) key.word[i] = build_load(b, b->i32, build_offset(b, row, build_i32(b, 4 * i)), 4);
  return key;
}

static Val low(Build *b, Val x) { return LLVMBuildTrunc(b->builder, x, b->i32, ""); }
static Val high(Build *b, Val x) { return low(b, LLVMBuildLShr(b->builder, x, LLVMConstInt(b->i64, 32, false), "")); }
static Val wide(Build *b, Val x) { return LLVMBuildZExt(b->builder, x, b->i64, ""); }
static Val scaled(Build *b, Val integer, LLVMTypeRef type, double factor) {
  return LLVMBuildFMul(b->builder, LLVMBuildSIToFP(b->builder, integer, type, ""), LLVMConstReal(type, factor), "");
}

Val build_keep(Build *b, const RandomKey *key, Val index, double p, LLVMTypeRef type) {
  Val c[4] = {low(b, index), high(b, index), key->word[3], key->word[2]}, k[2] = {key->word[0], key->word[1]};
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
  Val u;
  if (type == b->f64) {
    Val all = build_or(b, LLVMBuildShl(b->builder, wide(b, c[0]), LLVMConstInt(b->i64, 32, false), ""), wide(b, c[1]));
    u = scaled(b, LLVMBuildLShr(b->builder, all, LLVMConstInt(b->i64, 11, false), ""), type, 0x1p-53);
  } else {
    u = scaled(b, LLVMBuildLShr(b->builder, c[0], build_i32(b, 8), ""), type, 0x1p-24);
  }
  Val kept = LLVMBuildFCmp(b->builder, LLVMRealOGE, u, LLVMConstReal(type, type == b->f64 ? p : (float)p), "");
  return build_select(b, kept, LLVMConstReal(type, 1 / (1 - p)), LLVMConstReal(type, 0));
}

// Tiles in shared memory and the operands of mma.sync. Rows are 16 byte chunks permuted by exclusive or; ldmatrix reads
// 8 rows by one chunk, which is 8 elements of 16 bits or 4 of 32 bits: the same loads serve m16n8k16 and, on f32
// operands, m16n8k8.
#include <stddef.h>

#include "codegen/cuda/template/template.h"
#include "support/alloc.h"

Val build_tile_chunk(Build *b, const Tile *t, Val row, Val chunk) {
  int row_bytes = t->columns * tile_element_bytes(t->type);
  Val place = build_xor(b, chunk, build_and(b, row, build_i32(b, 7)));
  return build_offset(b, t->base,
                      build_add(b, build_mul(b, row, build_i32(b, row_bytes)), build_mul(b, place, build_i32(b, 16))));
}

void build_copy_tile(Build *b, const Tile *t, const TileSource *from, int threads) {
  int chunks = t->columns / tile_chunk(t->type), total = t->rows * chunks;
  require_promise(total % threads == 0 && chunks % 8 == 0, "a tile that the threads of the block do not divide");
  for (int i = 0; i < total / threads; i++) {
    Val index = build_add(b, b->tid, build_i32(b, i * threads)), row = build_div(b, index, chunks),
        chunk = build_mod(b, index, chunks);
    Val source_row = build_add(b, from->first_row, row);
    Val inside = build_less(b, source_row, build_i32(b, from->n_rows));
    Val offset = build_add(b,
                           build_mul(b, build_i64(b, source_row),
                                     LLVMConstInt(b->i64, (uint64_t)(from->row_stride * tile_element_bytes(t->type)),
                                                  true)),
                           build_mul(b, build_i64(b, chunk), LLVMConstInt(b->i64, 16, false)));
    Val arguments[] = {build_tile_chunk(b, t, row, chunk), build_offset(b, from->base, offset),
                       build_select(b, inside, build_i32(b, 16), build_i32(b, 0))};
    build_intrinsic(b, "llvm.nvvm.cp.async.cg.shared.global.16.s", NULL, 3, arguments);
  }
}

void build_commit(Build *b) { build_intrinsic(b, "llvm.nvvm.cp.async.commit.group", NULL, 0, NULL); }
void build_wait(Build *b, int groups_pending) {
  build_intrinsic(b, "llvm.nvvm.cp.async.wait.group", NULL, 1, (Val[]){build_i32(b, groups_pending)});
}

// ---------------------------------------------------------------------------------------------------------------------

static Val xor_address(Build *b, Val pointer, int bits) {
  if (!bits) return pointer;
  Val number = LLVMBuildPtrToInt(b->builder, pointer, b->i64, "");
  return LLVMBuildIntToPtr(b->builder, build_xor(b, number, build_i64_constant(b, bits)), LLVMTypeOf(pointer), "");
}

// The lane gives the address of row `row`, chunk 2 step + second (0 or 1). Chunk numbers are powers of two apart, so
// that the step can be joined to the lane's own offset by an exclusive or with a constant: one register serves all
// steps.
static void load_matrices(Build *b, const Tile *t, Val row, int first_row, Val second, Val first, int step,
                          bool transposed, Val out[4]) {
  int row_bytes = t->columns * tile_element_bytes(t->type);
  Val place = build_xor(b, second, build_and(b, row, build_i32(b, 7)));
  Val lane_offset = build_add(b, build_mul(b, row, build_i32(b, row_bytes)), build_mul(b, place, build_i32(b, 16)));
  if (first) lane_offset = build_xor(b, lane_offset, first);
  Val address = t->moved ? xor_address(b, build_offset(b, build_offset(b, t->base, lane_offset), t->moved), 32 * step)
                         : build_offset(b, t->base, build_xor(b, lane_offset, build_i32(b, 32 * step)));
  address = build_offset(b, address, build_i32(b, first_row * row_bytes));
  Val r = build_intrinsic(b,
                          transposed ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                                     : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16",
                          LLVMTypeOf(address), 1, &address);
  for (unsigned i = 0; i < 4; i++) out[i] = LLVMBuildExtractValue(b->builder, r, i, "");
}

void build_load_a(Build *b, const Tile *t, Val row, int rows_on, int step, Val a[4]) {
  // Lanes 0-15 address the rows at the first chunk of the step, lanes 16-31 at the second.
  load_matrices(b, t, build_add(b, row, build_mod(b, b->lane, 16)), rows_on, build_div(b, b->lane, 16), NULL, step,
                false, a);
}

void build_load_b(Build *b, const Tile *t, int row, int step, Val pair[4]) {
  Val matrix = build_div(b, b->lane, 8);
  Val at = build_add(b, build_mul(b, build_div(b, matrix, 2), build_i32(b, 8)), build_mod(b, b->lane, 8));
  load_matrices(b, t, at, row, build_mod(b, matrix, 2), NULL, step, false, pair);
}

// Of 32 bit elements there is no transposing load: each lane reads its own four. Row 2 p of the step's eight stands for
// depth p, row 2 p + 1 for depth p + 4 (p: lane mod 4), which is how build_narrow_a orders the other operand.
static void load_b_words(Build *b, const Tile *t, int step, Val first, int column, Val pair[4]) {
  int row_bytes = t->columns * tile_element_bytes(t->type);
  Val group = build_div(b, b->lane, 4), place = build_mod(b, b->lane, 4);
  for (int i = 0; i < 4; i++) {
    Val row = build_add(b, build_mul(b, place, build_i32(b, 2)), build_i32(b, i % 2));
    Val own = build_xor(b, build_div(b, group, 4), row);   // row is below 8
    Val lane_offset = build_add(b,
                                build_add(b, build_mul(b, row, build_i32(b, row_bytes)),
                                          build_mul(b, own, build_i32(b, 16))),
                                build_mul(b, build_mod(b, group, 4), build_i32(b, 4)));
    if (first) lane_offset = build_xor(b, lane_offset, first);
    Val offset = build_xor(b, lane_offset, build_i32(b, 4 * (column + 8 * (i / 2))));
    pair[i] = build_load(b, b->i32,
                         build_offset(b, build_offset(b, t->base, offset), build_i32(b, 8 * step * row_bytes)), 4);
  }
}

void build_load_b_transposed(Build *b, const Tile *t, int step, Val first, int column, Val pair[4]) {
  if (tile_element_bytes(t->type) == 4) {
    load_b_words(b, t, step, first, column, pair);
    return;
  }
  Val matrix = build_div(b, b->lane, 8);
  Val row = build_add(b, build_mul(b, build_mod(b, matrix, 2), build_i32(b, 8)), build_mod(b, b->lane, 8));
  load_matrices(b, t, row, 16 * step, build_div(b, matrix, 2), first, column / 16, true, pair);
}

void build_load_a_transposed(Build *b, const Tile *t, int step, Val first, int column, Val a[4]) {
  Val pair[4];
  build_load_b_transposed(b, t, step, first, column, pair);
  a[0] = pair[0], a[1] = pair[2], a[2] = pair[1], a[3] = pair[3];
}

void build_narrow_a(Build *b, TileType t, Val (*c)[4], int step, Val a[4]) {
  if (tile_element_bytes(t) == 4) {   // columns 2 p and 2 p + 1 as depths p and p + 4
    static const int order[4] = {0, 2, 1, 3};
    for (int i = 0; i < 4; i++) a[i] = LLVMBuildBitCast(b->builder, c[step][order[i]], b->i32, "");
    return;
  }
  for (int i = 0; i < 4; i++) {
    Val *from = c[2 * step + i / 2] + i % 2 * 2;
    a[i] = build_narrow(b, t, from[0], from[1]);
  }
}

// ---------------------------------------------------------------------------------------------------------------------

static Val round_tf32(Build *b, Val bits) {
  Val x = LLVMBuildBitCast(b->builder, bits, b->f32, "");
  return build_intrinsic(b, "llvm.nvvm.f2tf32.rna", NULL, 1, &x);
}

// What rounding to tf32 leaves of it.
static Val remainder_tf32(Build *b, Val bits, Val rounded) {
  Val x = LLVMBuildFSub(b->builder, LLVMBuildBitCast(b->builder, bits, b->f32, ""),
                        LLVMBuildBitCast(b->builder, rounded, b->f32, ""), "");
  return build_intrinsic(b, "llvm.nvvm.f2tf32.rna", NULL, 1, &x);
}

static void multiply(Build *b, const char *intrinsic, LLVMTypeRef operand, Val c[4], const Val x[4], const Val y[2]) {
  Val arguments[10];
  for (int i = 0; i < 4; i++) arguments[i] = x[i];
  for (int i = 0; i < 2; i++) arguments[4 + i] = y[i];
  for (int i = 0; i < 6 && operand; i++) arguments[i] = LLVMBuildBitCast(b->builder, arguments[i], operand, "");
  for (int i = 0; i < 4; i++) arguments[6 + i] = c[i];
  Val d = build_intrinsic(b, intrinsic, NULL, 10, arguments);
  for (unsigned i = 0; i < 4; i++) c[i] = LLVMBuildExtractValue(b->builder, d, i, "");
}

void build_mma(Build *b, TileType t, Val c[4], const Val a[4], const Val b_pair[2]) {
  if (t == TILE_BF16) {
    multiply(b, "llvm.nvvm.mma.m16n8k16.row.col.bf16", NULL, c, a, b_pair);
    return;
  }
  if (t == TILE_F16) {
    multiply(b, "llvm.nvvm.mma.m16n8k16.row.col.f32.f32", LLVMVectorType(LLVMHalfTypeInContext(b->llvm), 2), c, a,
             b_pair);
    return;
  }
  const char *tf32 = "llvm.nvvm.mma.m16n8k8.row.col.tf32";
  Val high_a[4], high_b[2];
  for (int i = 0; i < 4; i++) high_a[i] = round_tf32(b, a[i]);
  for (int i = 0; i < 2; i++) high_b[i] = round_tf32(b, b_pair[i]);
  if (t == TILE_F32) {   // the small products first
    Val low_a[4], low_b[2];
    for (int i = 0; i < 4; i++) low_a[i] = remainder_tf32(b, a[i], high_a[i]);
    for (int i = 0; i < 2; i++) low_b[i] = remainder_tf32(b, b_pair[i], high_b[i]);
    multiply(b, tf32, NULL, c, low_a, high_b);
    multiply(b, tf32, NULL, c, high_a, low_b);
  }
  multiply(b, tf32, NULL, c, high_a, high_b);
}

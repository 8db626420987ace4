// Convolutions as tiled products: a block of 256 threads makes 64 x 64 elements of C from 64 x 16 pieces of both
// operands in shared memory; a thread makes 4 x 4 of them. The pieces are stored with k outermost, so that a thread
// reads its four rows and columns with one load each.
#include <stdio.h>

#include "codegen/cuda/conv.h"
#include "support/integers.h"

enum { TILE = 64, DEPTH = 16, THREADS = 256, PITCH = TILE + 4, EACH = TILE * DEPTH / THREADS, OWN = 4 };

typedef struct Tiled {
  Code *c;
  const ConvProduct *p;
  int thread, tx, ty, m0, n0, group, part, k_low, k_high;
  int pad[2];   // addresses of the pieces in shared memory
  int a_group, b_group;
} Tiled;

// One operand's piece: which elements this thread fetches. Neighbouring threads fetch neighbours in memory.
typedef struct Piece {
  const ConvOperand *o;
  int outer[EACH], inner[EACH];   // indices within the piece
  CodePlace place[EACH];          // of the outer index
  int inside[EACH];               // outer index < extent; -1: always
  int group_offset;
} Piece;

static int remainder_of(Code *c, int index, int64_t n) { return code_op_with(c, "remui", index, n); }

static void piece_begin(Tiled *t, Piece *piece, const ConvOperand *o, int first, int64_t extent, int group_offset) {
  Code *c = t->c;
  *piece = (Piece){.o = o, .group_offset = group_offset};
  for (int i = 0; i < EACH; i++) {
    if (o->outer_is_contiguous) {
      piece->outer[i] = i ? piece->outer[0] : remainder_of(c, t->thread, TILE);
      int row = i ? -1 : code_op_with(c, "divui", t->thread, TILE);
      piece->inner[i] = i ? code_op_with(c, "addi", piece->inner[0], i * (THREADS / TILE)) : row;
    } else {
      piece->inner[i] = i ? piece->inner[0] : remainder_of(c, t->thread, DEPTH);
      int row = i ? -1 : code_op_with(c, "divui", t->thread, DEPTH);
      piece->outer[i] = i ? code_op_with(c, "addi", piece->outer[0], i * (THREADS / DEPTH)) : row;
    }
    if (i && piece->outer[i] == piece->outer[i - 1]) {
      piece->place[i] = piece->place[i - 1];
      piece->inside[i] = piece->inside[i - 1];
      continue;
    }
    int index = code_op(c, "addi", first, piece->outer[i]);
    piece->inside[i] = extent % TILE ? code(c, "arith.cmpi", VALUES(index, code_index(c, extent)), "ult, %%, %% : i%d",
                                            t->p->index_bits)
                                     : -1;
    piece->place[i] = code_place(c, &o->outer, index);
  }
}

static void piece_fetch(Tiled *t, const Piece *piece, int k0, int value[EACH]) {
  Code *c = t->c;
  bool whole = t->p->k % DEPTH == 0 && t->p->splits == 1;
  CodePlace place = {0};
  int inside = -1;
  for (int i = 0; i < EACH; i++) {
    if (!i || piece->inner[i] != piece->inner[i - 1]) {
      int k = code_op(c, "addi", k0, piece->inner[i]);
      inside = whole ? -1 : code(c, "arith.cmpi", VALUES(k, t->k_high), "slt, %%, %% : i%d", t->p->index_bits);
      place = code_place(c, &piece->o->inner, k);
    }
    value[i] = code_element(c, piece->o, piece->group_offset, &piece->place[i], &place,
                            code_and(c, piece->inside[i], inside));
  }
}

static int shared_address(Tiled *t, int pad, int index) {
  return code(t->c, "llvm.getelementptr", VALUES(pad, index), "%%[%%] : (!llvm.ptr<3>, i%d) -> !llvm.ptr<3>, %s",
              t->p->index_bits, t->p->element);
}

static void piece_keep(Tiled *t, const Piece *piece, int pad, const int value[EACH]) {
  for (int i = 0; i < EACH; i++) {
    int at = code_op(t->c, "addi", code_op_with(t->c, "muli", piece->inner[i], PITCH), piece->outer[i]);
    emit_effect(&t->c->e, "llvm.store", VALUES(value[i], shared_address(t, pad, at)),
                "%%, %% {alignment = %d : i64} : %s, !llvm.ptr<3>", (int)t->p->element_bytes, t->p->element);
  }
}

// acc[i] += a[i] b for the four rows i; b: four columns.
static void multiply(Tiled *t, int acc[OWN]) {
  Code *c = t->c;
  const char *e = t->p->element;
  int a_first = code_op_with(c, "muli", t->ty, OWN), b_first = code_op_with(c, "muli", t->tx, OWN);
  for (int k = 0; k < DEPTH; k++) {
    int operand[2];
    for (int side = 0; side < 2; side++) {
      int at = code_op_with(c, "addi", side ? b_first : a_first, (int64_t)k * PITCH);
      operand[side] = code(c, "llvm.load", VALUES(shared_address(t, t->pad[side], at)),
                           "%% {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4x%s>", e);
    }
    for (int i = 0; i < OWN; i++) {
      int one = code(c, "vector.extract", VALUES(operand[0]), "%%[%d] : %s from vector<4x%s>", i, e, e);
      int row = code(c, "vector.broadcast", VALUES(one), "%% : %s to vector<4x%s>", e, e);
      acc[i] = code(c, "math.fma", VALUES(row, operand[1], acc[i]), "%%, %%, %% : vector<4x%s>", e);
    }
  }
}

static void main_loop(Tiled *t, Piece pieces[2], int acc[OWN]) {
  Emitter *e = &t->c->e;
  TypeName types[OWN];
  Value values[OWN], args[OWN];
  int value[2][EACH];
  for (int i = 0; i < OWN; i++) {
    snprintf(types[i].text, sizeof types[i].text, "vector<4x%s>", t->p->element);
    values[i] = emit_constant(e, "dense<0.0> : %s", types[i].text);
  }
  int k = for_begin(e, (Value){.id = t->k_low}, (Value){.id = t->k_high}, DEPTH, OWN, values, types, args).id;
  for (int side = 0; side < 2; side++) piece_fetch(t, &pieces[side], k, value[side]);
  schedule_barrier(e);   // the last piece has been used up
  for (int side = 0; side < 2; side++) piece_keep(t, &pieces[side], t->pad[side], value[side]);
  schedule_barrier(e);
  for (int i = 0; i < OWN; i++) acc[i] = args[i].id;
  multiply(t, acc);
  for (int i = 0; i < OWN; i++) values[i].id = acc[i];
  for_end(e, OWN, values, types, values);
  for (int i = 0; i < OWN; i++) acc[i] = values[i].id;
}

// Partial products lie row-major, one after the other; the result where c_rows and c_cols say.
static int element_offset(Tiled *t, int row, int column) {
  const ConvProduct *p = t->p;
  Code *c = t->c;
  if (p->splits == 1) return code_result_offset(c, t->group, row, column);
  int slice = code_op(c, "addi", code_op_with(c, "muli", t->part, p->groups), t->group);
  int at = code_op(c, "addi", code_op_with(c, "muli", slice, p->m), row);
  return code_op(c, "addi", code_op_with(c, "muli", at, p->n), column);
}

static void write_results(Tiled *t, const int acc[OWN]) {
  const ConvProduct *p = t->p;
  Code *c = t->c;
  const char *e = p->element;
  int row0 = code_op(c, "addi", t->m0, code_op_with(c, "muli", t->ty, OWN)),
      column0 = code_op(c, "addi", t->n0, code_op_with(c, "muli", t->tx, OWN));
  int buffer = p->splits > 1 ? 3 : 2;
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      int row = code_op_with(c, "addi", row0, i), column = code_op_with(c, "addi", column0, j);
      int inside = code_and(c,
                            code(c, "arith.cmpi", VALUES(row, code_index(c, p->m)), "ult, %%, %% : i%d", p->index_bits),
                            code(c, "arith.cmpi", VALUES(column, code_index(c, p->n)), "ult, %%, %% : i%d",
                                 p->index_bits));
      if_begin(&c->e, (Value){.id = inside});
      int offset = element_offset(t, row, column);
      code_store(c, buffer, offset,
                 code(c, "vector.extract", VALUES(acc[i]), "%%[%d] : %s from vector<4x%s>", j, e, e));
      if_end(&c->e, 0, NULL, NULL, NULL, NULL);
    }
}

static void begin_tiled(Tiled *t, KernelModule *module, const char *symbol) {
  Code *c = t->c;
  const ConvProduct *p = t->p;
  code_begin(c, module, p, symbol, p->splits > 1 ? 4 : 3);
  for (int side = 0; side < 2; side++)
    function_add_array(&c->e.function, side ? "_b" : "_a", 3, DEPTH * PITCH, p->element);
  for (int side = 0; side < 2; side++)
    t->pad[side] = code(c, "llvm.mlir.addressof", NO_VALUES, "$_%c : !llvm.ptr<3>", "ab"[side]);
  t->thread = code_number(c, GPU_THREAD_X);
  t->tx = code_op_with(c, "remui", t->thread, TILE / OWN);
  t->ty = code_op_with(c, "divui", t->thread, TILE / OWN);
  t->m0 = code_op_with(c, "muli", code_number(c, GPU_BLOCK_X), TILE);
  t->n0 = code_op_with(c, "muli", code_number(c, GPU_BLOCK_Y), TILE);
  int z = code_number(c, GPU_BLOCK_Z);
  t->group = code_op_with(c, "remui", z, p->groups);
  t->part = code_op_with(c, "divui", z, p->groups);
  t->k_low = code_op_with(c, "muli", t->part, p->split_size);
  t->k_high = code_op(c, "minsi", code_op_with(c, "addi", t->k_low, p->split_size), code_index(c, p->k));
  t->a_group = code_op_with(c, "muli", t->group, p->a.group_stride);
  t->b_group = code_op_with(c, "muli", t->group, p->b.group_stride);
}

void conv_emit_tiled(KernelModule *module, const ConvProduct *p, const char *symbol, EmittedKernel *out) {
  Code c;
  Tiled t = {.c = &c, .p = p};
  begin_tiled(&t, module, symbol);
  Piece pieces[2];
  piece_begin(&t, &pieces[0], &p->a, t.m0, p->m, t.a_group);
  piece_begin(&t, &pieces[1], &p->b, t.n0, p->n, t.b_group);
  int acc[OWN];
  main_loop(&t, pieces, acc);
  write_results(&t, acc);
  emitter_end(&c.e);
  gpu_add_launch(out, symbol, divide_up(p->m, TILE), divide_up(p->n, TILE), p->groups * p->splits, THREADS);
}

// Convolutions as tiled products: a block of 256 threads makes 64 x 64 elements of C from 64 x 16 pieces of both
// operands in shared memory; a thread makes 4 x 4 of them. The pieces are stored with k outermost, so that a thread
// reads its four rows and columns with one load each.
#include "codegen/cuda/conv.h"
#include "support/text.h"

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
    piece->inside[i] = extent % TILE
                           ? code(c, "arith.cmpi ult, %%v%d, %%v%d : %s", index, code_index(c, extent), t->p->index)
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
      inside = whole ? -1 : code(c, "arith.cmpi slt, %%v%d, %%v%d : %s", k, t->k_high, t->p->index);
      place = code_place(c, &piece->o->inner, k);
    }
    value[i] = code_element(c, piece->o, piece->group_offset, &piece->place[i], &place,
                            code_and(c, piece->inside[i], inside));
  }
}

static int shared_address(Tiled *t, int pad, int index) {
  return code(t->c, "llvm.getelementptr %%v%d[%%v%d] : (!llvm.ptr<3>, %s) -> !llvm.ptr<3>, %s", pad, index, t->p->index,
              t->p->element);
}

static void piece_keep(Tiled *t, const Piece *piece, int pad, const int value[EACH]) {
  for (int i = 0; i < EACH; i++) {
    int at = code_op(t->c, "addi", code_op_with(t->c, "muli", piece->inner[i], PITCH), piece->outer[i]);
    code_line(t->c, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr<3>", value[i],
              shared_address(t, pad, at), (int)t->p->element_bytes, t->p->element);
  }
}

static void barrier(Code *c) {
  int zero = code(c, "arith.constant 0 : i32");
  code_line(c, "llvm.call_intrinsic \"llvm.nvvm.barrier.cta.sync.aligned.all\"(%%v%d) : (i32) -> ()", zero);
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
      operand[side] = code(c, "llvm.load %%v%d {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4x%s>",
                           shared_address(t, t->pad[side], at), e);
    }
    for (int i = 0; i < OWN; i++) {
      int one = code(c, "vector.extract %%v%d[%d] : %s from vector<4x%s>", operand[0], i, e, e);
      int row = code(c, "vector.broadcast %%v%d : %s to vector<4x%s>", one, e, e);
      acc[i] = code(c, "math.fma %%v%d, %%v%d, %%v%d : vector<4x%s>", row, operand[1], acc[i], e);
    }
  }
}

static void list(Text *t, const char *format, int n, const int *id) {
  for (int i = 0; i < n; i++) {
    if (i) text_add(t, ", ");
    text_add(t, format, id[i]);
  }
}

static void main_loop(Tiled *t, Piece pieces[2], int acc[OWN]) {
  Code *c = t->c;
  const char *e = t->p->element;
  int zero = code(c, "arith.constant dense<0.0> : vector<4x%s>", e), step = code_index(c, DEPTH), k = c->next++,
      args[OWN], results[OWN];
  for (int i = 0; i < OWN; i++) args[i] = c->next++;
  for (int i = 0; i < OWN; i++) results[i] = c->next++;
  text_add(c->text, "  ");
  list(c->text, "%%v%d", OWN, results);
  text_add(c->text, " = scf.for %%v%d = %%v%d to %%v%d step %%v%d iter_args(", k, t->k_low, t->k_high, step);
  for (int i = 0; i < OWN; i++) text_add(c->text, "%s%%v%d = %%v%d", i ? ", " : "", args[i], zero);
  text_add(c->text, ") -> (vector<4x%s>, vector<4x%s>, vector<4x%s>, vector<4x%s>) : %s {\n", e, e, e, e, t->p->index);
  int value[2][EACH];
  for (int side = 0; side < 2; side++) piece_fetch(t, &pieces[side], k, value[side]);
  barrier(c);   // the last piece has been used up
  for (int side = 0; side < 2; side++) piece_keep(t, &pieces[side], t->pad[side], value[side]);
  barrier(c);
  multiply(t, args);
  text_add(c->text, "  scf.yield ");
  list(c->text, "%%v%d", OWN, args);
  text_add(c->text, " : vector<4x%s>, vector<4x%s>, vector<4x%s>, vector<4x%s>\n  }\n", e, e, e, e);
  for (int i = 0; i < OWN; i++) acc[i] = results[i];
}

// Partial products lie row-major, one after the other; the result where c_rows and c_cols say.
static int element_offset(Tiled *t, int row, int column) {
  const ConvProduct *p = t->p;
  Code *c = t->c;
  if (p->splits == 1) {
    int offset = code_op_with(c, "muli", t->group, p->c_group_stride);
    CodePlace r = code_place(c, &p->c_rows, row), s = code_place(c, &p->c_cols, column);
    if (r.offset >= 0) offset = code_op(c, "addi", offset, r.offset);
    return s.offset >= 0 ? code_op(c, "addi", offset, s.offset) : offset;
  }
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
      int inside = code_and(c, code(c, "arith.cmpi ult, %%v%d, %%v%d : %s", row, code_index(c, p->m), p->index),
                            code(c, "arith.cmpi ult, %%v%d, %%v%d : %s", column, code_index(c, p->n), p->index));
      code_line(c, "scf.if %%v%d {", inside);
      int offset = element_offset(t, row, column);
      code_store(c, buffer, offset, code(c, "vector.extract %%v%d[%d] : %s from vector<4x%s>", acc[i], j, e, e));
      code_line(c, "}");
    }
}

static void begin(Tiled *t, const char *symbol, EmittedKernel *out) {
  Code *c = t->c;
  const ConvProduct *p = t->p;
  int buffers = p->splits > 1 ? 4 : 3;
  // Shared memory is a global of each kernel.
  for (int side = 0; side < 2; side++)
    text_add(&out->text,
             "llvm.mlir.global internal @%s_%c() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<%d x %s>\n",
             symbol, "ab"[side], DEPTH * PITCH, p -> element);
  text_add(&out->text, "func.func @%s(", symbol);
  for (int i = 0; i < buffers; i++) text_add(&out->text, "%s%%v%d: !buffer", i ? ", " : "", i);
  text_add(&out->text, ") {\n");
  c->next = buffers;
  for (int side = 0; side < 2; side++)
    t->pad[side] = code(c, "llvm.mlir.addressof @%s_%c : !llvm.ptr<3>", symbol, "ab"[side]);
  t->thread = code_thread(c, "tid.x");
  t->tx = code_op_with(c, "remui", t->thread, TILE / OWN);
  t->ty = code_op_with(c, "divui", t->thread, TILE / OWN);
  t->m0 = code_op_with(c, "muli", code_thread(c, "ctaid.x"), TILE);
  t->n0 = code_op_with(c, "muli", code_thread(c, "ctaid.y"), TILE);
  int z = code_thread(c, "ctaid.z");
  t->group = code_op_with(c, "remui", z, p->groups);
  t->part = code_op_with(c, "divui", z, p->groups);
  t->k_low = code_op_with(c, "muli", t->part, p->split_size);
  t->k_high = code_op(c, "minsi", code_op_with(c, "addi", t->k_low, p->split_size), code_index(c, p->k));
  t->a_group = code_op_with(c, "muli", t->group, p->a.group_stride);
  t->b_group = code_op_with(c, "muli", t->group, p->b.group_stride);
}

void conv_emit_tiled(const ConvProduct *p, const char *symbol, EmittedKernel *out) {
  Code c = {.text = &out->text, .p = p};
  Tiled t = {.c = &c, .p = p};
  begin(&t, symbol, out);
  Piece pieces[2];
  piece_begin(&t, &pieces[0], &p->a, t.m0, p->m, t.a_group);
  piece_begin(&t, &pieces[1], &p->b, t.n0, p->n, t.b_group);
  int acc[OWN];
  main_loop(&t, pieces, acc);
  write_results(&t, acc);
  text_add(&out->text, "  return\n}\n\n");
  cuda_add_launch(out, symbol, (p->m + TILE - 1) / TILE, (p->n + TILE - 1) / TILE, p->groups * p->splits, THREADS);
}

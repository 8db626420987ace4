// Moves on a GPU: a thread makes 16 bytes of the result where the innermost elements allow it, neighbours in memory by
// neighbouring threads. Scatters are by owner: a block owns some rows of the table and goes through all indices, so
// that each row is summed in the order of its indices and by one thread for each column.
#include <math.h>
#include <stdlib.h>

#include "codegen/gpu/schedule.h"
#include "codegen/kernel/move.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

enum { THREADS = 256, WARP = 32, ENOUGH_BLOCKS = 1056, LEAST_PARTS = 4 };

// Seconds from the address to the value where many are on their way; about the same on all GPUs.
#define MEMORY_LATENCY 0.7e-6

static NnDtype as_bytes(NnDtype t) { return t == NN_I1 ? NN_U8 : t; }   // copied as they are

// Elements of 16 bytes, if all `n` numbers (extents, offsets) are multiples of that and every buffer begins at one.
static int move_lanes(const GpuModule *m, const Kernel *k, NnDtype dtype, int n, const int64_t *multiples) {
  int lanes = (int)(16 / nn_dtype_bytes(dtype));
  for (int i = 0; i < n; i++)
    if (multiples[i] % lanes) return 1;
  for (int i = 0; i < k->n_args + k->n_results; i++)
    if (m->aligned && !m->aligned[i]) return 1;
  return lanes;
}

static void begin_function(Emitter *e, GpuModule *m, const Kernel *k, const char *symbol, int lanes) {
  schedule_begin(e, m, k, symbol, k->n_args + k->n_results + (schedule_move_workspace(k) > 0));
  schedule_forget(e, lanes);
  e->align = lanes > 1 ? 16 : 0;
}

// A thread for each of `threads` vectors: its number.
static Value begin_move_kernel(Emitter *e, GpuModule *m, const Kernel *k, char *symbol, int lanes, int64_t threads,
                               EmittedKernel *out) {
  int64_t blocks = divide_up(threads, THREADS);
  char *space = text_format("%s: grid %lld x %d threads, %d elements a thread of %lld", symbol, (long long)blocks,
                            THREADS, lanes, (long long)(threads * lanes));
  if (!out->n_launches) kernel_comment(&m->m, k, space);
  else text_add(&m->m.comment, "// %s\n", space);
  free(space);
  begin_function(e, m, k, symbol, lanes);
  Value p = schedule_linear(e, THREADS, threads);
  if_begin(e, emit_index_compare_with(e, "ult", p, threads));
  schedule_launch(out, symbol, blocks, THREADS, 1);
  return p;
}

static void end_move_kernel(Emitter *e) {
  if_end(e, 0, NULL, NULL, NULL, NULL);
  emitter_end(e);
}

// p = *row * extent + remainder
static Value split(Emitter *e, Value p, int64_t extent, Value *row) {
  *row = emit_index_with(e, "divui", p, extent);
  return emit_index_with(e, "remui", p, extent);
}

static Value scaled(Emitter *e, Value a, int64_t by) { return by == 1 ? a : emit_index_with(e, "muli", a, by); }
static Value sum(Emitter *e, Value a, Value b) { return emit_index(e, "addi", a, b); }

// ---------------------------------------------------------------------------------------------------------------------

// Where an axis has gaps between its elements the vectors run inside it, else along it, too.
static void move_pad(GpuModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Emitter e;
  Pad pad = pad_read(k, op);
  NnDtype dtype = as_bytes(pad.y->dtype);
  bool gaps = pad.interior[pad.axis] > 0;
  // elements of a step of `at`, and those inside of one
  int64_t unit = gaps ? 1 : pad.inner, inner = gaps ? pad.inner : 1;
  int64_t x = pad.x->dim[pad.axis] * unit, y = pad.y->dim[pad.axis] * unit, low = pad.low[pad.axis] * unit,
          step = pad.interior[pad.axis] + 1;
  int lanes = gaps ? move_lanes(m, k, dtype, 1, &inner) : move_lanes(m, k, dtype, 3, (int64_t[]){x, y, low});
  int64_t rows = move_product(pad.y->dim, 0, pad.axis), along = gaps ? y : y / lanes, inside = gaps ? inner / lanes : 1;
  Value p = begin_move_kernel(&e, m, k, copy_string(k->name), lanes, rows * along * inside, out), row, at,
        within = emit_i64(&e, 0), valid;
  if (gaps) within = scaled(&e, split(&e, p, inside, &row), lanes);
  else row = p;
  at = split(&e, row, along, &row);
  at = emit_index_with(&e, "subi", gaps ? at : scaled(&e, at, lanes), low);
  Value from = pad_source_row(&e, &pad, row, &valid);
  valid = emit_and(&e, valid, emit_index_compare_with(&e, "sge", at, 0));
  if (gaps) {
    valid = emit_and(&e, valid, emit_index_compare_with(&e, "eq", emit_index_with(&e, "remui", at, step), 0));
    at = emit_index_with(&e, "divui", at, step);
  }
  valid = emit_and(&e, valid, emit_index_compare_with(&e, "slt", at, x));
  TypeName type = vector_type(&e, dtype);
  Value outside = emit_splat(&e, dtype, nn_attr_f64(op, "value", 0)), v;
  if_begin(&e, valid);
  Value inside_value = emit_load_at(&e, 0, dtype, sum(&e, sum(&e, from, scaled(&e, at, inner)), within));
  if_end(&e, 1, &inside_value, &outside, &type, &v);
  emit_store_at(&e, k->n_args, dtype, scaled(&e, p, lanes), v, false);
  end_move_kernel(&e);
}

typedef struct Concat {
  int n, arg[16];                // operands: which buffers
  int64_t run[16], row, outer;   // elements of each that lie together, of the result, how often
  NnDtype dtype;
  bool at_once;   // few operands of whole 16 bytes: one launch, in which a thread looks for its own
} Concat;

static Concat concat_read(const Kernel *k, MlirOperation op) {
  enum { FEW = 4 };
  const NnType *y = &k->result_type[0];
  int axis = (int)nn_attr_i64(op, "axis", 0);
  int64_t inner = move_product(y->dim, axis + 1, y->rank);
  Concat c = {.n = (int)mlirOperationGetNumOperands(op),
              .row = y->dim[axis] * inner,
              .outer = move_product(y->dim, 0, axis),
              .dtype = as_bytes(y->dtype)};
  c.at_once = c.n <= FEW;
  for (int i = 0; i < c.n; i++) {
    c.arg[i] = nn_value_index(mlirOperationGetOperand(op, i));
    c.run[i] = k->arg[c.arg[i]].dim[axis] * inner;
    c.at_once &= c.run[i] * nn_dtype_bytes(c.dtype) % 16 == 0;
  }
  return c;
}

static void concat_at_once(GpuModule *m, const Kernel *k, const Concat *c, EmittedKernel *out) {
  Emitter e;
  int lanes = move_lanes(m, k, c->dtype, 1, &c->row);
  Value r, p = begin_move_kernel(&e, m, k, copy_string(k->name), lanes, c->outer * (c->row / lanes), out),
           within = scaled(&e, split(&e, p, c->row / lanes, &r), lanes), v = emit_splat(&e, c->dtype, 0);
  TypeName type = vector_type(&e, c->dtype);
  int64_t at = 0;
  for (int i = 0; i < c->n; i++) {
    Value inside = emit_index_with(&e, "subi", within, at), before = v;
    if_begin(&e, emit_index_compare_with(&e, "ult", inside, c->run[i]));
    Value own = emit_load_at(&e, c->arg[i], c->dtype, sum(&e, scaled(&e, r, c->run[i]), inside));
    if_end(&e, 1, &own, &before, &type, &v);
    at += c->run[i];
  }
  emit_store_at(&e, k->n_args, c->dtype, scaled(&e, p, lanes), v, false);
  end_move_kernel(&e);
}

static void move_concat(GpuModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Concat c = concat_read(k, op);
  if (c.at_once) {
    concat_at_once(m, k, &c, out);
    return;
  }
  int64_t at = 0;
  for (int i = 0; i < c.n; i++) {   // a launch for each
    Emitter e;
    int lanes = move_lanes(m, k, c.dtype, 3, (int64_t[]){c.run[i], c.row, at});
    Value p = begin_move_kernel(&e, m, k, i ? text_format("%s_launch%d", k->name, i) : copy_string(k->name), lanes,
                                c.outer * (c.run[i] / lanes), out),
          r;
    Value within = scaled(&e, split(&e, p, c.run[i] / lanes, &r), lanes);
    Value v = emit_load_at(&e, c.arg[i], c.dtype, scaled(&e, p, lanes));
    emit_store_at(&e, k->n_args, c.dtype, emit_index_with(&e, "addi", sum(&e, scaled(&e, r, c.row), within), at), v,
                  false);
    end_move_kernel(&e);
    at += c.run[i];
  }
}

static void move_gather(GpuModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Emitter e;
  int table = nn_value_index(mlirOperationGetOperand(op, 0)), indices = nn_value_index(mlirOperationGetOperand(op, 1));
  const NnType *t = &k->arg[table];
  NnDtype dtype = as_bytes(t->dtype);
  int64_t row = move_product(t->dim, 1, t->rank), n = nn_type_elements(&k->arg[indices]);
  int lanes = move_lanes(m, k, dtype, 1, &row);
  Value p = begin_move_kernel(&e, m, k, copy_string(k->name), lanes, n * (row / lanes), out), i;
  Value within = scaled(&e, split(&e, p, row / lanes, &i), lanes);
  i.depth = e.depth;   // read only by threads that have an index
  Value index = move_load_index(&e, indices, k->arg[indices].dtype, i);
  index = emit_index_with(&e, "minsi", emit_index_with(&e, "maxsi", index, 0), t->dim[0] - 1);
  Value v = emit_load_at(&e, table, dtype, sum(&e, scaled(&e, index, row), within));
  emit_store_at(&e, k->n_args, dtype, scaled(&e, p, lanes), v, false);
  end_move_kernel(&e);
}

static void move_pool(GpuModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Emitter e;
  Pool pool = pool_read(k, op);
  int lanes = move_lanes(m, k, pool.dtype, 1, &pool.c);
  int64_t height = pool.input ? pool.h : pool.oh, width = pool.input ? pool.w : pool.ow;
  Value p = begin_move_kernel(&e, m, k, copy_string(k->name), lanes, pool.n * height * width * (pool.c / lanes), out),
        rest;
  Point at;
  at.channel = scaled(&e, split(&e, p, pool.c / lanes, &rest), lanes);
  at.column = split(&e, rest, width, &rest);
  at.row = split(&e, rest, height, &at.image);
  pool_point(&e, &pool, &at);
  end_move_kernel(&e);
}

// ---------------------------------------------------------------------------------------------------------------------
// Scatters

// A block owns some rows of the table, a part of their columns and a part of the indices. A thread has 16 bytes of
// them, and of the row that it adds to the sum so far in registers: a row that many indices name in turn is one chain
// of additions. Where all indices fall into few rows they are cut into parts, whose sums lie in the workspace until a
// second launch adds them up in order.
typedef struct Scatter {
  Emitter *e;
  int source, indices, base;   // buffers; base: of scatter_add_to, else -1
  NnDtype dtype, index_dtype;
  int64_t rows, row, n;                // of the table, elements of one, indices
  int64_t owned, row_blocks, slices;   // rows of a block; how many blocks for all rows, and for all columns
  int64_t parts, part_size;            // of the indices
  int lanes;
  int team, teams;           // threads that share a row
  Value tid, first, count;   // of the block's rows
  Value from, to;            // of its indices
  // of the thread: which rows of the block's (number modulo teams), where in them, whether that is inside
  Value team_number, column, active;
  TypeName types[2];   // of its state: the sums of a row, which row that is (-1: none; a block's only row: not told)
} Scatter;

static int n_state(const Scatter *s) { return s->owned > 1 ? 2 : 1; }

// Words of 32 bits: a ballot of each warp, then a row for each thread.
static Value shared_word(Scatter *s, Value index) { return schedule_shared(s->e, "_shared", index, "i32"); }

static void store_word(Scatter *s, Value index, Value word) {
  emit_effect(s->e, "llvm.store", VALUES(word.id, shared_word(s, index).id),
              "%%, %% {alignment = 4 : i64} : i32, !llvm.ptr<3>");
}

static Value load_word(Scatter *s, Value index) {
  return emit(s->e, s->e->depth, "llvm.load", VALUES(shared_word(s, index).id),
              "%% {alignment = 4 : i64} : !llvm.ptr<3> -> i32");
}

static Value word_to_i64(Scatter *s, Value word) {
  return emit(s->e, s->e->depth, "arith.extui", VALUES(word.id), "%% : i32 to i64");
}

static Value place_in_row(Scatter *s, Value r) {
  return sum(s->e, scaled(s->e, sum(s->e, s->first, r), s->row), s->column);
}

// What row r is before anything is added.
static Value first_value(Scatter *s, bool max, Value r) {
  if (max) return emit_splat(s->e, s->dtype, -INFINITY);
  if (s->base < 0 || s->parts > 1) return emit_splat(s->e, s->dtype, 0);
  return emit_load_at(s->e, s->base, s->dtype, place_in_row(s, r));
}

// What it is in the end: no row has the lowest number by itself.
static Value last_value(Scatter *s, bool max, Value v) {
  if (!max) return v;
  Value lowest = emit_splat(s->e, s->dtype, -INFINITY);
  return emit_select(s->e, emit_compare(s->e, "eq", v, lowest, s->dtype), emit_splat(s->e, s->dtype, 0), v, s->dtype);
}

// Each of the thread's rows in turn: without a value of its own, what it is before, else after.
static void own_rows(Scatter *s, bool max, bool after) {
  Emitter *e = s->e;
  Value r = for_begin(e, s->team_number, s->count, s->teams, 0, NULL, NULL, NULL);
  if_begin(e, s->active);
  Value at = place_in_row(s, r),
        v = after ? last_value(s, max, emit_load_at(e, e->k->n_args, s->dtype, at)) : first_value(s, max, r);
  emit_store_at(e, e->k->n_args, s->dtype, at, v, false);
  if_end(e, 0, NULL, NULL, NULL, NULL);
  for_end(e, 0, NULL, NULL, NULL);
}

// Which of THREADS indices fall into the block's rows.
static void share_matches(Scatter *s, Value chunk) {
  Emitter *e = s->e;
  Value i = sum(e, chunk, s->tid), in_range = emit_index_compare(e, "ult", i, s->to),
        at = emit_index_with(e, "minui", i, s->n - 1);
  Value within = emit_index(e, "subi", move_load_index(e, s->indices, s->index_dtype, at), s->first);
  Value mine = emit_index_compare(e, "ult", within, s->count);
  mine = emit_and(e, mine, in_range);
  Value ballot = schedule_basic(e, e->depth, GPU_BALLOT, VALUES(mine.id));
  Value word = emit(e, e->depth, "arith.trunci", VALUES(within.id), "%% : i64 to i32");
  schedule_barrier(e);   // the words before have been read
  store_word(s, emit_index_with(e, "addi", s->tid, THREADS / WARP), word);
  if_begin(e, emit_index_compare_with(e, "eq", emit_index_with(e, "remui", s->tid, WARP), 0));
  store_word(s, emit_index_with(e, "divui", s->tid, WARP), ballot);
  if_end(e, 0, NULL, NULL, NULL, NULL);
  schedule_barrier(e);
}

static void write_row(Scatter *s, const Value *state) {
  Emitter *e = s->e;
  if_begin(e, emit_and(e, s->active, emit_index_compare_with(e, "sge", state[1], 0)));
  emit_store_at(e, e->k->n_args, s->dtype, place_in_row(s, state[1]), state[0], false);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

// Vector v of row r on top of what the thread has of that row; of another row, that goes to memory first.
static void keep(Scatter *s, bool max, Value r, Value v, Value *state) {
  Emitter *e = s->e;
  if (s->owned > 1) {
    Value now[2], before[2] = {state[0], state[1]};
    if_begin(e, emit_index_compare(e, "ne", r, state[1]));
    write_row(s, state);
    now[0] = emit_load_at(e, e->k->n_args, s->dtype, place_in_row(s, r));
    now[1] = r;
    if_end(e, 2, now, before, s->types, state);
  }
  state[0] = emit_binary(e, max ? NN_OP_max : NN_OP_add, s->dtype, state[0], v);
}

// The matches of a warp, in order: the lowest bit of what is left of its ballot. `deep` of them are read before the
// first is added, where all threads read them.
static void add_matches(Scatter *s, bool max, Value chunk, Value *state) {
  enum { DEEP = 4 };
  Emitter *e = s->e;
  TypeName types[3] = {s->types[0], s->types[1]}, i32 = {"i32"};
  int n = n_state(s), deep = s->teams == 1 || s->owned == 1 ? DEEP : 1;
  types[n] = i32;
  Value carried[3], warp = for_begin(e, emit_i64(e, 0), emit_i64(e, THREADS / WARP), 1, n, state, types, carried);
  Value ballot = load_word(s, warp), one = emit_i32(e, 1),
        matches = word_to_i64(s, emit(e, e->depth, "math.ctpop", VALUES(ballot.id), "%% : i32"));
  carried[n] = ballot;
  Value inner[3], i = for_begin(e, emit_i64(e, 0), matches, deep, n + 1, carried, types, inner), v[DEEP], r[DEEP],
                  mine[DEEP], left = inner[n];
  for (int j = 0; j < deep; j++) {
    Value bit = word_to_i64(s, emit(e, e->depth, "math.cttz", VALUES(left.id), "%% : i32"));
    bit = emit_index_with(e, "minui", bit, WARP - 1);   // 32: none is left
    Value slot = sum(e, scaled(e, warp, WARP), bit);
    r[j] = word_to_i64(s, load_word(s, emit_index_with(e, "addi", slot, THREADS / WARP)));
    mine[j] = deep > 1 ? emit_index_compare(e, "ult", emit_index_with(e, "addi", i, j), matches)
                       : emit_index_compare(e, "eq", emit_index_with(e, "remui", r[j], s->teams), s->team_number);
    v[j] = sum(e, scaled(e, emit_index_with(e, "minui", sum(e, chunk, slot), s->n - 1), s->row), s->column);
    if (deep > 1) v[j] = emit_load_at(e, s->source, s->dtype, v[j]);
    Value minus = emit(e, e->depth, "arith.subi", VALUES(left.id, one.id), "%%, %% : i32");
    left = emit(e, e->depth, "arith.andi", VALUES(left.id, minus.id), "%%, %% : i32");
  }
  for (int j = 0; j < deep; j++) {
    Value before[2] = {inner[0], inner[1]}, now[2] = {inner[0], inner[1]};
    if_begin(e, mine[j]);
    keep(s, max, r[j], deep > 1 ? v[j] : emit_load_at(e, s->source, s->dtype, v[j]), now);
    if_end(e, n, now, before, types, inner);
  }
  inner[n] = left;
  for_end(e, n + 1, inner, types, carried);
  for_end(e, n, carried, types, state);
}

static void emit_scatter(Scatter *s, bool max) {
  Emitter *e = s->e;
  bool several = s->owned > 1;
  Value state[2], carried[2];
  s->types[0] = vector_type(e, s->dtype);
  s->types[1] = (TypeName){"i64"};
  if (!several) {
    state[0] = first_value(s, max, emit_i64(e, 0));
  } else if (s->base < 0) {
    own_rows(s, max, false);
  } else {   // the result may lie over it
    Value to = emit(e, 0, "llvm.ptrtoint", VALUES(e->buffer[e->k->n_args]), "%% : !buffer to i64"),
          from = emit(e, 0, "llvm.ptrtoint", VALUES(e->buffer[s->base]), "%% : !buffer to i64");
    if_begin(e, emit_index_compare(e, "ne", to, from));
    own_rows(s, max, false);
    if_end(e, 0, NULL, NULL, NULL, NULL);
  }
  if (several) state[0] = emit_splat(e, s->dtype, 0), state[1] = emit_i64(e, -1);
  Value chunk = for_begin(e, s->from, s->to, THREADS, n_state(s), state, s->types, carried);
  share_matches(s, chunk);
  add_matches(s, max, chunk, carried);
  for_end(e, n_state(s), carried, s->types, state);
  if (several) {
    write_row(s, state);
    if (max) own_rows(s, max, true);
    return;
  }
  if_begin(e, emit_and(e, s->active, emit_index_compare_with(e, "eq", s->team_number, 0)));
  Value at = place_in_row(s, emit_i64(e, 0));
  if (s->parts > 1) at = sum(e, at, scaled(e, emit_index_with(e, "divui", s->from, s->part_size), s->rows * s->row));
  emit_store_at(e, e->k->n_args + (s->parts > 1), s->dtype, at, last_value(s, max, state[0]), false);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

static Scatter scatter_plan(const GpuModule *m, const Kernel *k, MlirOperation op) {
  const NnType *t = &k->result_type[0];
  Scatter s = {.source = nn_value_index(mlirOperationGetOperand(op, 0)),
               .indices = nn_value_index(mlirOperationGetOperand(op, 1)),
               .base = -1,
               .dtype = t->dtype,
               .rows = t->dim[0],
               .row = move_product(t->dim, 1, t->rank),
               .team = 1};
  if (nn_op_of(op) == NN_OP_scatter_add_to) s.base = nn_value_index(mlirOperationGetOperand(op, 2));
  s.index_dtype = k->arg[s.indices].dtype;
  s.n = nn_type_elements(&k->arg[s.indices]);
  s.lanes = move_lanes(m, k, s.dtype, 1, &s.row);
  while (s.team < THREADS && s.team * s.lanes < s.row) s.team *= 2;
  s.teams = THREADS / s.team;
  s.owned = divide_up(s.rows, ENOUGH_BLOCKS);
  s.row_blocks = divide_up(s.rows, s.owned);
  s.slices = divide_up(s.row, (int64_t)s.team * s.lanes);
  // at least THREADS indices each, and no more sums than an eighth of what is added
  s.parts = smaller(divide_up(s.n, THREADS), smaller(ENOUGH_BLOCKS / s.row_blocks, s.n / 8 / s.rows));
  if (s.parts < LEAST_PARTS || nn_op_of(op) == NN_OP_scatter_max) s.parts = 1;
  s.part_size = round_up(divide_up(s.n, s.parts), THREADS);
  s.parts = divide_up(s.n, s.part_size);
  return s;
}

int64_t schedule_move_workspace(const Kernel *k) {
  MlirOperation op = move_op(k);
  if (nn_op_of(op) != NN_OP_scatter_add && nn_op_of(op) != NN_OP_scatter_add_to) return 0;
  Scatter s = scatter_plan(&(GpuModule){0}, k, op);
  return s.parts > 1 ? s.parts * s.rows * s.row * nn_dtype_bytes(s.dtype) : 0;
}

// A block looks at its indices, THREADS at a time, and adds its rows one after the other: as many as fall to each block
// where all rows are named as often. Warps whose teams have other rows do not wait. Of a block's only row four are on
// their way; of several, each is read from memory first.
static double scatter_seconds(const Scatter *s) {
  double chunks = (double)divide_up(s->part_size, THREADS), added = (double)s->n / (double)(s->row_blocks * s->parts),
         beside = s->owned > 1 ? (double)smaller(s->teams, THREADS / WARP) : 4;
  return MEMORY_LATENCY * (chunks + added / beside + (s->parts > 1 ? (double)s->parts / 4 : 0));
}

// The parts of each row, in order, behind what the table has.
static void add_parts(GpuModule *m, const Kernel *k, const Scatter *s, EmittedKernel *out) {
  Emitter e;
  int64_t table = s->rows * s->row;
  Value p = begin_move_kernel(&e, m, k, text_format("%s_parts", k->name), s->lanes, table / s->lanes, out),
        at = scaled(&e, p, s->lanes), v = emit_splat(&e, s->dtype, 0);
  if (s->base >= 0) v = emit_load_at(&e, s->base, s->dtype, at);
  TypeName type = vector_type(&e, s->dtype);
  Value so_far, part = for_begin(&e, emit_i64(&e, 0), emit_i64(&e, s->parts), 1, 1, &v, &type, &so_far);
  Value more = emit_load_at(&e, k->n_args + 1, s->dtype, sum(&e, scaled(&e, part, table), at));
  more = emit_binary(&e, NN_OP_add, s->dtype, so_far, more);
  for_end(&e, 1, &more, &type, &v);
  emit_store_at(&e, k->n_args, s->dtype, at, v, false);
  end_move_kernel(&e);
}

static void move_scatter(GpuModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Emitter e;
  Scatter s = scatter_plan(m, k, op);
  int64_t blocks = s.row_blocks * s.slices * s.parts;
  s.e = &e;
  char *space = text_format("grid %lld x %d threads, a block owns %lld rows and goes through %lld of %lld indices, %d "
                            "threads a row, %d elements a thread",
                            (long long)blocks, THREADS, (long long)s.owned, (long long)smaller(s.part_size, s.n),
                            (long long)s.n, s.team, s.lanes);
  kernel_comment(&m->m, k, space);
  free(space);
  begin_function(&e, m, k, k->name, s.lanes);
  function_add_array(&e.function, "_shared", 3, THREADS + THREADS / WARP, "i32");
  s.tid = schedule_number(&e, GPU_THREAD_X);
  Value rest, part, slice = split(&e, schedule_number(&e, GPU_BLOCK_X), s.slices, &rest),
                    own = split(&e, rest, s.row_blocks, &part);
  s.from = scaled(&e, part, s.part_size);
  s.to = emit_index_with(&e, "minui", emit_index_with(&e, "addi", s.from, s.part_size), s.n);
  s.first = scaled(&e, own, s.owned);
  s.count = emit_index_with(&e, "minsi", emit_index(&e, "subi", emit_i64(&e, s.rows), s.first), s.owned);
  s.column = sum(&e, scaled(&e, slice, (int64_t)s.team * s.lanes),
                 scaled(&e, split(&e, s.tid, s.team, &s.team_number), s.lanes));
  s.active = emit_index_compare_with(&e, "ult", s.column, s.row);
  s.column = emit_index_with(&e, "minui", s.column, s.row - s.lanes);
  emit_scatter(&s, nn_op_of(op) == NN_OP_scatter_max);
  emitter_end(&e);
  schedule_launch(out, copy_string(k->name), blocks, THREADS, 1);
  if (s.parts > 1) add_parts(m, k, &s, out);
  out->workspace_bytes = schedule_move_workspace(k);
}

// ---------------------------------------------------------------------------------------------------------------------
// argmax

// A warp for each row. The first of equal elements wins: within a lane by order, between lanes and threads by the
// smaller index.
static void argmax_rows(GpuModule *m, const Kernel *k, const Argmax *a, EmittedKernel *out) {
  Emitter e;
  int lanes = move_lanes(m, k, a->dtype, 1, &a->reduced);
  if (lanes > 4) lanes = 4;
  int64_t teams = THREADS / WARP, blocks = divide_up(a->outer, teams);
  char *space = text_format("grid %lld x %d threads, a warp for each row of %lld, %d elements a thread at once",
                            (long long)blocks, THREADS, (long long)a->reduced, lanes);
  kernel_comment(&m->m, k, space);
  free(space);
  begin_function(&e, m, k, k->name, lanes);
  block_begin(&e);
  Value tid = schedule_number(&e, GPU_THREAD_X), warp, lane = split(&e, tid, WARP, &warp);
  Value row = sum(&e, scaled(&e, schedule_number(&e, GPU_BLOCK_X), teams), warp),
        start = scaled(&e, emit_index_with(&e, "minui", row, a->outer - 1), a->reduced), own = scaled(&e, lane, lanes);
  TypeName types[2] = {vector_type(&e, a->dtype), vector_type(&e, NN_I32)};
  Value best[2] = {emit_lowest(&e, a->dtype), emit_lane_indices(&e, own, 1, false)}, args[2];
  Value i = for_begin(&e, own, emit_i64(&e, a->reduced), (int64_t)WARP * lanes, 2, best, types, args);
  argmax_keep_better(&e, a->dtype, emit_load_at(&e, 0, a->dtype, sum(&e, start, i)), emit_lane_indices(&e, i, 1, false),
                     args);
  for_end(&e, 2, args, types, best);
  Value top = emit_horizontal(&e, NN_OP_max, a->dtype, best[0]);
  Value place = emit_select(&e, argmax_equal(&e, a->dtype, best[0], top), best[1], emit_splat(&e, NN_I32, INT32_MAX),
                            NN_I32);
  place = emit_horizontal(&e, NN_OP_min, NN_I32, place);
  if (lanes > 1) {
    top = emit_take_lanes(&e, top, a->dtype == NN_I1 ? "i1" : element_type(nn_dtype_wide(a->dtype)), lanes, 0, 1, 1);
    place = emit_take_lanes(&e, place, "i32", lanes, 0, 1, 1);
  }
  schedule_forget(&e, 1);
  e.align = 0;
  for (int distance = WARP / 2; distance > 0; distance /= 2) {
    Value other = schedule_shuffle_xor(&e, a->dtype, top, distance),
          other_place = schedule_shuffle_xor(&e, NN_I32, place, distance);
    Value higher = argmax_above(&e, a->dtype, other, top), equal = argmax_equal(&e, a->dtype, other, top),
          earlier = emit_compare(&e, "lt", other_place, place, NN_I32);
    Value wins = emit_binary(&e, NN_OP_or, NN_I1, higher, emit_binary(&e, NN_OP_and, NN_I1, equal, earlier));
    top = emit_select(&e, wins, other, top, a->dtype);
    place = emit_select(&e, wins, other_place, place, NN_I32);
  }
  if_begin(&e,
           emit_and(&e, emit_index_compare_with(&e, "eq", lane, 0), emit_index_compare_with(&e, "ult", row, a->outer)));
  emit_store_at(&e, k->n_args, NN_I32, row, place, true);
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  block_end(&e);
  emitter_end(&e);
  schedule_launch(out, copy_string(k->name), blocks, THREADS, 1);
}

static void move_argmax(GpuModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Argmax a = argmax_read(k, op);
  if (a.inner == 1) {
    argmax_rows(m, k, &a, out);
    return;
  }
  Emitter e;
  int lanes = (int)smaller(move_lanes(m, k, a.dtype, 1, &a.inner), 4);
  Value p = begin_move_kernel(&e, m, k, copy_string(k->name), lanes, a.outer * (a.inner / lanes), out), outer;
  Value column = scaled(&e, split(&e, p, a.inner / lanes, &outer), lanes);
  argmax_columns(&e, &a, outer, column);
  end_move_kernel(&e);
}

void schedule_move(GpuModule *m, const Kernel *k, EmittedKernel *out) {
  MlirOperation op = move_op(k);
  switch (nn_op_of(op)) {
  case NN_OP_pad: move_pad(m, k, op, out); break;
  case NN_OP_concat: move_concat(m, k, op, out); break;
  case NN_OP_gather: move_gather(m, k, op, out); break;
  case NN_OP_scatter_add:
  case NN_OP_scatter_add_to:
  case NN_OP_scatter_max: move_scatter(m, k, op, out); break;
  case NN_OP_argmax: move_argmax(m, k, op, out); break;
  default: move_pool(m, k, op, out); break;
  }
}

void schedule_move_work(const Kernel *k, double *launches, double *serial) {
  MlirOperation op = move_op(k);
  switch (nn_op_of(op)) {
  case NN_OP_concat: {
    Concat c = concat_read(k, op);
    *launches = c.at_once ? 1 : c.n;
    break;
  }
  case NN_OP_scatter_add:
  case NN_OP_scatter_add_to:
  case NN_OP_scatter_max: {
    Scatter s = scatter_plan(&(GpuModule){0}, k, op);
    *serial = scatter_seconds(&s);
    *launches = s.parts > 1 ? 2 : 1;
    break;
  }
  default: break;
  }
}

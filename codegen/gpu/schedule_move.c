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

enum { THREADS = 256, WARP = 32, ENOUGH_BLOCKS = 1056 };

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
  schedule_begin(e, m, k, symbol, k->n_args + k->n_results);
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

// One launch per operand.
static void move_concat(GpuModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  const NnType *y = &k->result_type[0];
  NnDtype dtype = as_bytes(y->dtype);
  int axis = (int)nn_attr_i64(op, "axis", 0);
  int64_t inner = move_product(y->dim, axis + 1, y->rank), outer = move_product(y->dim, 0, axis),
          row = y->dim[axis] * inner, at = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    Emitter e;
    int arg = nn_value_index(mlirOperationGetOperand(op, i));
    int64_t run = k->arg[arg].dim[axis] * inner;
    int lanes = move_lanes(m, k, dtype, 3, (int64_t[]){run, row, at});
    Value p = begin_move_kernel(&e, m, k, i ? text_format("%s_launch%d", k->name, (int)i) : copy_string(k->name), lanes,
                                outer * (run / lanes), out),
          r;
    Value within = scaled(&e, split(&e, p, run / lanes, &r), lanes);
    Value v = emit_load_at(&e, arg, dtype, scaled(&e, p, lanes));
    emit_store_at(&e, k->n_args, dtype, emit_index_with(&e, "addi", sum(&e, scaled(&e, r, row), within), at), v, false);
    end_move_kernel(&e);
    at += run;
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

typedef struct Scatter {
  Emitter *e;
  int source, indices, base;   // buffers; base: of scatter_add_to, else -1
  NnDtype dtype, index_dtype;
  int64_t rows, row, n;    // of the table, elements of one, indices
  int64_t owned, blocks;   // rows of a block; how many there are
  int lanes;
  int team, teams;           // threads that share a row
  Value tid, first, count;   // of the block's rows
  // of the thread: which rows of the block's (number modulo teams), which vectors of them
  Value team_number, column;
} Scatter;

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

// One step on this thread's vectors of the row at `to`.
static void step_columns(Scatter *s, RowStep step, Value to, Value from) {
  Emitter *e = s->e;
  Value c = for_begin(e, s->column, emit_i64(e, s->row), (int64_t)s->team * e->lanes, 0, NULL, NULL, NULL),
        at = sum(e, to, c);
  emit_store_at(e, e->k->n_args, s->dtype, at, row_value(e, step, s->source, s->dtype, at, sum(e, from, c)), false);
  for_end(e, 0, NULL, NULL, NULL);
}

// What the thread's rows are before anything is added, or after.
typedef void (*RowFn)(Scatter *s, Value to);
static void set_lowest(Scatter *s, Value to) { step_columns(s, ROW_LOWEST, to, to); }
static void lowest_to_zero(Scatter *s, Value to) { step_columns(s, ROW_LOWEST_TO_ZERO, to, to); }
static void set_base(Scatter *s, Value to) {
  Emitter *e = s->e;
  Value c = for_begin(e, s->column, emit_i64(e, s->row), (int64_t)s->team * e->lanes, 0, NULL, NULL, NULL),
        at = sum(e, to, c);
  emit_store_at(e, e->k->n_args, s->dtype, at,
                s->base < 0 ? emit_splat(e, s->dtype, 0) : emit_load_at(e, s->base, s->dtype, at), false);
  for_end(e, 0, NULL, NULL, NULL);
}

static void own_rows(Scatter *s, RowFn body) {
  Emitter *e = s->e;
  Value r = for_begin(e, s->team_number, s->count, s->teams, 0, NULL, NULL, NULL);
  body(s, scaled(e, sum(e, s->first, r), s->row));
  for_end(e, 0, NULL, NULL, NULL);
}

// Which of THREADS indices fall into the block's rows.
static void share_matches(Scatter *s, Value chunk) {
  Emitter *e = s->e;
  Value i = sum(e, chunk, s->tid), in_range = emit_index_compare_with(e, "ult", i, s->n),
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

// The matches of a warp, in order: the lowest bit of what is left of its ballot.
static void add_matches(Scatter *s, RowStep step, Value chunk) {
  Emitter *e = s->e;
  TypeName i32 = {"i32"};
  Value warp = for_begin(e, emit_i64(e, 0), emit_i64(e, THREADS / WARP), 1, 0, NULL, NULL, NULL);
  Value ballot = load_word(s, warp), left, rest;
  Value matches = word_to_i64(s, emit(e, e->depth, "math.ctpop", VALUES(ballot.id), "%% : i32"));
  for_begin(e, emit_i64(e, 0), matches, 1, 1, &ballot, &i32, &left);
  Value bit = word_to_i64(s, emit(e, e->depth, "math.cttz", VALUES(left.id), "%% : i32")),
        slot = sum(e, scaled(e, warp, WARP), bit);
  Value r = word_to_i64(s, load_word(s, emit_index_with(e, "addi", slot, THREADS / WARP)));
  if_begin(e, emit_index_compare(e, "eq", emit_index_with(e, "remui", r, s->teams), s->team_number));
  step_columns(s, step, scaled(e, sum(e, s->first, r), s->row), scaled(e, sum(e, chunk, slot), s->row));
  if_end(e, 0, NULL, NULL, NULL, NULL);
  Value one = emit_i32(e, 1), minus = emit(e, e->depth, "arith.subi", VALUES(left.id, one.id), "%%, %% : i32");
  rest = emit(e, e->depth, "arith.andi", VALUES(left.id, minus.id), "%%, %% : i32");
  for_end(e, 1, &rest, &i32, &rest);
  for_end(e, 0, NULL, NULL, NULL);
}

static void emit_scatter(Scatter *s, bool max) {
  Emitter *e = s->e;
  if (max) {
    own_rows(s, set_lowest);
  } else if (s->base < 0) {
    own_rows(s, set_base);
  } else {   // the result may lie over it
    Value to = emit(e, 0, "llvm.ptrtoint", VALUES(e->buffer[e->k->n_args]), "%% : !buffer to i64"),
          from = emit(e, 0, "llvm.ptrtoint", VALUES(e->buffer[s->base]), "%% : !buffer to i64");
    if_begin(e, emit_index_compare(e, "ne", to, from));
    own_rows(s, set_base);
    if_end(e, 0, NULL, NULL, NULL, NULL);
  }
  Value chunk = for_begin(e, emit_i64(e, 0), emit_i64(e, s->n), THREADS, 0, NULL, NULL, NULL);
  share_matches(s, chunk);
  add_matches(s, max ? ROW_MAX : ROW_ADD, chunk);
  for_end(e, 0, NULL, NULL, NULL);
  if (max) own_rows(s, lowest_to_zero);
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
  s.blocks = divide_up(s.rows, s.owned);
  return s;
}

// A block looks at all indices, THREADS at a time, and adds its rows one after the other: as many as fall to each block
// where all rows are named as often. Warps whose teams have other rows do not wait.
static double scatter_seconds(const Scatter *s) {
  double chunks = (double)divide_up(s->n, THREADS), added = (double)s->n / (double)s->blocks,
         turns = (double)divide_up(s->row, (int64_t)s->team * s->lanes),
         beside = (double)smaller(s->teams, THREADS / WARP);
  return MEMORY_LATENCY * (chunks + added * turns / beside);
}

static void move_scatter(GpuModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Emitter e;
  Scatter s = scatter_plan(m, k, op);
  int lanes = s.lanes;
  int64_t blocks = s.blocks;
  s.e = &e;
  char *space = text_format("grid %lld x %d threads, a block owns %lld rows and goes through all %lld indices, %d "
                            "threads a row, %d elements a thread",
                            (long long)blocks, THREADS, (long long)s.owned, (long long)s.n, s.team, lanes);
  kernel_comment(&m->m, k, space);
  free(space);
  begin_function(&e, m, k, k->name, lanes);
  function_add_array(&e.function, "_shared", 3, THREADS + THREADS / WARP, "i32");
  s.tid = schedule_number(&e, GPU_THREAD_X);
  s.first = scaled(&e, schedule_number(&e, GPU_BLOCK_X), s.owned);
  s.count = emit_index_with(&e, "minsi", emit_index(&e, "subi", emit_i64(&e, s.rows), s.first), s.owned);
  s.column = scaled(&e, split(&e, s.tid, s.team, &s.team_number), lanes);
  emit_scatter(&s, nn_op_of(op) == NN_OP_scatter_max);
  emitter_end(&e);
  schedule_launch(out, copy_string(k->name), blocks, THREADS, 1);
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
  Value best[2] = {argmax_lowest(&e, a->dtype), emit_lane_indices(&e, own, 1, false)}, args[2];
  Value i = for_begin(&e, own, emit_i64(&e, a->reduced), (int64_t)WARP * lanes, 2, best, types, args);
  argmax_keep_better(&e, a->dtype, emit_load_at(&e, 0, a->dtype, sum(&e, start, i)), emit_lane_indices(&e, i, 1, false),
                     args);
  for_end(&e, 2, args, types, best);
  Value top = emit_horizontal(&e, NN_OP_max, a->dtype, best[0]);
  Value place = emit_select(&e, emit_compare(&e, "eq", best[0], top, a->dtype), best[1],
                            emit_splat(&e, NN_I32, INT32_MAX), NN_I32);
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
    Value higher = emit_compare(&e, "gt", other, top, a->dtype), equal = emit_compare(&e, "eq", other, top, a->dtype),
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
  case NN_OP_concat: *launches = (double)mlirOperationGetNumOperands(op); break;
  case NN_OP_scatter_add:
  case NN_OP_scatter_add_to:
  case NN_OP_scatter_max: {
    Scatter s = scatter_plan(&(GpuModule){0}, k, op);
    *serial = scatter_seconds(&s);
    break;
  }
  default: break;
  }
}

// Row and column kernels on a GPU. The threads that share the reduced elements of one kept element are a team: where
// those elements are neighbours in memory, a warp or a block (values meet by shuffles, then through shared memory);
// where kept elements are, the threads of a block that differ in threadIdx.y (through shared memory). The order of
// additions is fixed by the shape.
//
// Where there are too few teams for a GPU, the reduced elements are cut into chunks: blocks leave partial results in
// the workspace, and the last one combines them (schedule_reduce_chunks.c). A short row is read once: its elements stay
// in registers from pass to pass, those of a longer one in shared memory if there is room (schedule_reduce_stash.c). Of
// longer ones mean and squared differences come from one pass, as do the maximum and the sum of exponentials of a
// softmax (Milakov and Gimelshein, 2018): a thread keeps moments about the first element that it sees, or the sum for
// the largest one so far. Moments of threads and chunks are joined by the formula of Chan, Golub and LeVeque (1979), as
// differences from one element.
#include <stdlib.h>

#include "codegen/gpu/schedule_reduce.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

// ---------------------------------------------------------------------------------------------------------------------
// One launch

static bool all_active(const Plan *p) {
  return p->columns ? p->width % p->per_block == 0 : p->teams % p->per_block == 0;
}

void launch_begin(Launch *l, Emitter *e, GpuModule *m, const Plan *p, const char *what, int index, int64_t chunks,
                  EmittedKernel *out) {
  const Kernel *k = p->r.k;
  *l = (Launch){.e = e, .p = p, .symbol = index ? text_format("%s_launch%d", k->name, index) : copy_string(k->name)};
  l->stash = (Stash){.p = p};
  Text *t = &m->m.comment;
  int64_t x = p->columns ? p->per_block : p->team * p->per_block, y = p->columns ? p->team : 1;
  int64_t tiles = p->columns ? divide_up(p->width, p->per_block) : 1,
          blocks = (p->columns ? p->r.outer_extent * tiles : divide_up(p->teams, p->per_block)) * chunks;
  if (index == 0) {
    char *space = text_format(
        "grid %lld x %lld threads, teams of %d for %lld elements%s, %d elements a thread at once%s", (long long)blocks,
        (long long)(x * y), p->team, (long long)(p->r.row_extent * (p->columns ? 1 : p->r.vector_extent)),
        p->resident ? " kept in registers" : "", p->lanes, p->n_stashed ? "; row kept in shared memory" : "");
    kernel_comment(&m->m, k, space);
    free(space);
  }
  text_add(t, "// launch %d: %s, %lld blocks of %lld x %lld threads\n", index, what, (long long)blocks, (long long)x,
           (long long)y);
  schedule_begin(e, m, k, l->symbol, k->n_args + k->n_results + (p->bytes > 0));
  if (p->columns || p->team > WARP)
    function_add_array(&e->function, "_shared", 3,
                       p->columns ? p->team * p->per_block * p->lanes * 8 : p->team / WARP * 8, "i8");
  if (p->n_stashed) function_add_array(&e->function, "_row", 3, 0, "i8");
  schedule_forget(e, p->lanes);
  e->nest = p->r.nest;
  e->vector_group = p->r.vector_group;
  Value block = schedule_number(e, GPU_BLOCK_X), tx = schedule_number(e, GPU_THREAD_X);
  if (chunks > 1) {
    l->chunk = emit_index_with(e, "remui", block, chunks);
    block = emit_index_with(e, "divui", block, chunks);
  }
  l->active = (Value){-1, 0, false};
  if (p->columns) {
    l->rank = p->team > 1 ? schedule_number(e, GPU_THREAD_Y) : emit_i64(e, 0);
    l->column = tx;
    l->outer = block;
    Value tile = emit_i64(e, 0);
    if (tiles > 1) {
      tile = emit_index_with(e, "remui", block, tiles);
      l->outer = emit_index_with(e, "divui", block, tiles);
    }
    Value at = emit_index(e, "addi", emit_index_with(e, "muli", tile, p->per_block), tx);
    if (!all_active(p)) {
      l->active = emit_index_compare_with(e, "ult", at, p->width);
      at = emit_index_with(e, "minui", at, p->width - 1);   // the others do the last one's work in vain
    }
    e->vector_index[0] = (p->lanes > 1 ? emit_index_with(e, "muli", at, p->lanes) : at).id;
    e->index_depth[p->r.vector_group] = 0;
  } else {
    l->rank = tx;
    l->outer = block;
    if (p->per_block > 1) {
      l->rank = emit_index_with(e, "remui", tx, p->team);
      l->outer = emit_index(e, "addi", emit_index_with(e, "muli", block, p->per_block),
                            emit_index_with(e, "divui", tx, p->team));
      if (!all_active(p)) {
        l->active = emit_index_compare_with(e, "ult", l->outer, p->teams);
        l->outer = emit_index_with(e, "minui", l->outer, p->teams - 1);
      }
    }
  }
  emit_split_index(e, l->outer, p->r.n_outer, p->r.outer);
  schedule_launch(out, l->symbol, blocks, x, y);
  out->launches[out->n_launches - 1].shared_bytes = p->stash_bytes;
  out->launches[out->n_launches - 1].alone = p->alone;
}

// ---------------------------------------------------------------------------------------------------------------------
// Meeting of a team

static void shared_store(Launch *l, NnDtype dtype, Value index, Value v) {
  schedule_shared_store(l->e, "_shared", dtype, index, v);
}

static Value shared_load(Launch *l, NnDtype dtype, Value index) {
  return schedule_shared_load(l->e, "_shared", dtype, index);
}

static NnOp operation(const Unit *u) { return u->kind == UNIT_MAX ? NN_OP_max : NN_OP_add; }

static Value combine_columns(Launch *l, const Unit *u, Value x) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  if (p->team == 1) return x;
  Value mine = emit_index_with(e, "muli",
                               emit_index(e, "addi", emit_index_with(e, "muli", l->rank, p->per_block), l->column),
                               p->lanes);
  schedule_barrier(e);   // what was there has been read
  shared_store(l, u->dtype, mine, x);
  schedule_barrier(e);
  // Halves, until one is left.
  for (int half = p->team / 2; half > 0; half /= 2) {
    if_begin(e, emit_index_compare_with(e, "ult", l->rank, half));
    Value other = shared_load(l, u->dtype, emit_index_with(e, "addi", mine, (int64_t)half * p->per_block * p->lanes));
    shared_store(l, u->dtype, mine, emit_binary(e, operation(u), u->dtype, shared_load(l, u->dtype, mine), other));
    if_end(e, 0, NULL, NULL, NULL, NULL);
    schedule_barrier(e);
  }
  return shared_load(l, u->dtype, emit_index_with(e, "muli", l->column, p->lanes));
}

static Value combine_row(Launch *l, const Unit *u, Value x) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  const char *element = u->dtype == NN_I1 ? "i1" : element_type(u->dtype);
  if (p->lanes > 1) {
    x = emit_horizontal(e, operation(u), u->dtype, x);
    x = emit_take_lanes(e, x, element, p->lanes, 0, 1, 1);
  }
  e->lanes = 1;
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    x = emit_binary(e, operation(u), u->dtype, x, schedule_shuffle_xor(e, u->dtype, x, distance));
  if (p->team > WARP) {
    Value lane = emit_index_with(e, "remui", l->rank, WARP), warp = emit_index_with(e, "divui", l->rank, WARP),
          first = emit_index_compare_with(e, "eq", lane, 0);
    schedule_barrier(e);
    if_begin(e, first);
    shared_store(l, u->dtype, warp, x);
    if_end(e, 0, NULL, NULL, NULL, NULL);
    schedule_barrier(e);
    for (int i = 0; i < p->team / WARP; i++) {
      Value other = shared_load(l, u->dtype, emit_i64(e, i));
      x = i ? emit_binary(e, operation(u), u->dtype, x, other) : other;
    }
  }
  if (p->lanes > 1) x = emit_take_lanes(e, x, element, 1, 0, 1, p->lanes);
  e->lanes = p->lanes;
  x.depth = e->depth;
  return x;
}

// The value of the whole team, in all of its threads and, in rows, lanes.
Value launch_combine(Launch *l, const Unit *u, Value x) {
  Value v = l->p->columns ? combine_columns(l, u, x) : combine_row(l, u, x);
  v.varies = false;
  return v;
}

// ---------------------------------------------------------------------------------------------------------------------
// A pass over the elements

static Value term(Launch *l, const Unit *u) { return reduce_term(l->e, u, &l->value[u->mean]); }

// Values that a loop carries, `first` those of each unit: one, or more where another unit is joined to it.
// the first element, sums of differences from it and of their squares, how many
enum { MOMENT_VALUES = 4, MAX_CARRIED = MOMENT_VALUES * MAX_UNITS };
typedef struct Pass {
  int n, unit[MAX_UNITS], first[MAX_UNITS], n_carried;
  TypeName types[MAX_CARRIED];
  bool write;
} Pass;

static Value add(Launch *l, const Unit *u, Value a, Value b) { return emit_binary(l->e, NN_OP_add, u->dtype, a, b); }
static Value sub(Launch *l, const Unit *u, Value a, Value b) { return emit_binary(l->e, NN_OP_sub, u->dtype, a, b); }
static Value mul(Launch *l, const Unit *u, Value a, Value b) { return emit_binary(l->e, NN_OP_mul, u->dtype, a, b); }

static void visit_moments(Launch *l, const Unit *u, Value *acc) {
  Emitter *e = l->e;
  Value x = term(l, u), none = emit_splat(e, u->dtype, 0);
  acc[0] = emit_select(e, emit_compare(e, "eq", acc[3], none, u->dtype), x, acc[0], u->dtype);
  Value d = sub(l, u, x, acc[0]);
  acc[1] = add(l, u, acc[1], d);
  acc[2] = add(l, u, acc[2], mul(l, u, d, d));
  acc[3] = add(l, u, acc[3], emit_splat(e, u->dtype, 1));
}

// Minus infinity, the maximum of nothing and of masked elements, would make the difference of two of them NaN.
static Value finite_maximum(Launch *l, const Unit *u, Value m) {
  return emit_binary(l->e, NN_OP_max, u->dtype, m,
                     emit_splat(l->e, u->dtype, u->dtype == NN_F32 ? -0x1.fffffep127 : -0x1.fffffffffffffp1023));
}

// The largest of the lanes' elements and of those before, the same in all lanes, and the sum of exponentials for it.
static void visit_softmax(Launch *l, const Unit *u, Value *acc) {
  Emitter *e = l->e;
  Value x = term(l, u), old = acc[0], largest = x;
  if (e->lanes > 1) {
    largest = emit_horizontal(e, NN_OP_max, u->dtype, x);
    old = emit_take_lanes(e, old, element_type(u->dtype), e->lanes, 0, 1, e->lanes);
  }
  acc[0] = emit_binary(e, NN_OP_max, u->dtype, old, largest);
  Value to = finite_maximum(l, u, acc[0]),
        scale = emit_exponential(e, sub(l, u, finite_maximum(l, u, old), to), u->dtype);
  Value difference = sub(l, u, x, to);
  acc[1] = add(l, u, mul(l, u, acc[1], scale),
               u->dtype == NN_F32 ? gpu_exp_of_sum(e, difference) : emit_exponential(e, difference, u->dtype));
}

static void visit(Launch *l, const Pass *pass, Value *acc) {
  const Reduce *r = &l->p->r;
  for (int i = 0; i < pass->n; i++) {
    const Unit *u = &r->units[pass->unit[i]];
    Value *own = acc + pass->first[i];
    if (plan_companion(l->p, pass->unit[i]) < 0) *own = reduce_combine(l->e, u, *own, term(l, u));
    else if (u->kind == UNIT_MEAN) visit_moments(l, u, own);
    else visit_softmax(l, u, own);
  }
  if (!pass->write) return;
  if (l->active.id >= 0) if_begin(l->e, l->active);
  kernel_emit_point(l->e);
  if (l->active.id >= 0) if_end(l->e, 0, NULL, NULL, NULL, NULL);
}

static Value splat_bit(Emitter *e, Value bit) {
  return emit(e, e->depth, "vector.broadcast", VALUES(bit.id), "%% : i1 to vector<%dxi1>", e->lanes);
}

static void visit_resident(Launch *l, const Pass *pass, Value *acc) {
  Emitter *e = l->e;
  const Reduce *r = &l->p->r;
  for (int j = 0; j < l->p->resident; j++) {
    e->tile = j;
    for (int i = 0; i < pass->n; i++) {
      const Unit *u = &r->units[pass->unit[i]];
      Value x = term(l, u);
      if (u->kind == UNIT_MEAN) x = sub(l, u, x, l->origin[pass->unit[i]]);
      if (l->valid[j].id >= 0) x = emit_select(e, splat_bit(e, l->valid[j]), x, reduce_identity(e, u), u->dtype);
      acc[i] = reduce_combine(e, u, acc[i], x);
    }
  }
  for (int j = 0; pass->write && j < l->p->resident; j++) {
    e->tile = j;
    if (l->active.id >= 0) if_begin(e, l->active);
    if (l->valid[j].id >= 0) if_begin(e, l->valid[j]);
    kernel_emit_point(e);
    if (l->valid[j].id >= 0) if_end(e, 0, NULL, NULL, NULL, NULL);
    if (l->active.id >= 0) if_end(e, 0, NULL, NULL, NULL, NULL);
  }
  e->tile = 0;
}

static void bind_resident(Launch *l) {
  const Plan *p = l->p;
  Emitter *e = l->e;
  int64_t vectors = p->r.vector_extent / p->lanes;
  for (int j = 0; j < p->resident; j++) {
    Value at = j ? emit_index_with(e, "addi", l->rank, (int64_t)j * p->team) : l->rank;
    l->valid[j] = (Value){-1, 0, false};
    if ((int64_t)(j + 1) * p->team > vectors) {
      l->valid[j] = emit_index_compare_with(e, "ult", at, vectors);
      at = emit_index_with(e, "minui", at, vectors - 1);
    }
    e->vector_index[j] = (p->lanes > 1 ? emit_index_with(e, "muli", at, p->lanes) : at).id;
  }
  e->index_depth[p->r.vector_group] = 0;
}

// What `visit` computes of the elements themselves. Done for several vectors before the first of them is visited, their
// loads do not wait for each other.
static void visit_ahead(Launch *l, const Pass *pass) {
  IndexMap domain = index_map_domain(l->p->r.k);
  const Kernel *k = l->p->r.k;
  for (int i = 0; i < pass->n; i++) expression(l->e, l->p->r.units[pass->unit[i]].operand, &domain);
  for (int i = 0; pass->write && i < k->n_results; i++)
    if (!kernel_is_kept_shaped(k, &k->result_type[i])) expression(l->e, k->result[i], &domain);
}

// From `low` on: `count` vectors in each turn.
static void vector_turns(Launch *l, const Pass *pass, Value low, Value high, int count, Value *acc) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  int64_t step = (int64_t)p->team * p->lanes;
  Value args[MAX_CARRIED];
  Value i = for_begin(e, low, high, count * step, pass->n_carried, acc, pass->types, args);
  e->index_depth[p->r.vector_group] = e->depth;
  for (int j = 0; j < count; j++) e->vector_index[j] = j ? emit_index_with(e, "addi", i, j * step).id : i.id;
  if (p->n_stashed) stash_turn_begin(e, &l->stash, count);
  for (e->tile = 0; pass->write && count > 1 && e->tile < count; e->tile++) visit_ahead(l, pass);
  for (e->tile = 0; e->tile < count; e->tile++) visit(l, pass, args);
  e->tile = 0;
  if (p->n_stashed) stash_turn_end(e);
  for_end(e, pass->n_carried, args, pass->types, acc);
}

static void vector_loop(Launch *l, const Pass *pass, Value *acc) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  Value first = emit_index(e, "addi", l->from, emit_index_with(e, "muli", l->rank, p->lanes));
  int64_t done = 0, elements = p->n_stashed ? p->r.vector_extent : p->unrolled;
  // What is left of a stashed row has turns of fewer vectors.
  for (int count = p->n_stashed ? p->stash_turn[l->stash.pass] : p->unroll; count > 1; count /= count > 4 ? 4 : 2) {
    int64_t turn = (int64_t)p->team * count * p->lanes, here = (elements - done) / turn * turn;
    if (!here) continue;
    Value rest = emit_index_with(e, "addi", first, here);
    vector_turns(l, pass, first, rest, count, acc);
    first = rest;
    done += here;
  }
  if (done < p->r.vector_extent) vector_turns(l, pass, first, l->to, 1, acc);
}

// The first of the elements of which the team adds up all or some, in all lanes of a row. As a tile of its own: the
// others' values are other elements.
static Value first_element(Launch *l, const Unit *u) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  int column = e->vector_index[0], depth = e->index_depth[p->r.vector_group];
  block_begin(e);
  e->tile = MAX_TILE - 1;
  e->vector_index[e->tile] = column;
  if (p->r.n_rows) {
    Value row = emit_i64(e, 0);
    row.depth = e->depth;
    emit_split_index(e, row, p->r.n_rows, p->r.rows);
  }
  if (!p->columns) {
    e->vector_index[e->tile] = emit_i64(e, 0).id;
    e->index_depth[p->r.vector_group] = e->depth;
  }
  Value x = term(l, u);
  if (!p->columns && p->lanes > 1) x = emit_take_lanes(e, x, element_type(u->dtype), p->lanes, 0, 1, p->lanes);
  e->tile = 0;
  block_end(e);
  e->index_depth[p->r.vector_group] = depth;
  x.depth = e->depth;
  x.varies = false;
  return x;
}

// Mean and M2 of the team; count: how many elements it has gone through.
static void finish_moments(Launch *l, int mean, const Value *acc, Value count) {
  Emitter *e = l->e;
  const Unit *u = &l->p->r.units[mean];
  int squares = plan_companion(l->p, mean);
  Value zero = emit_splat(e, u->dtype, 0), n = emit_binary(e, NN_OP_max, u->dtype, acc[3], emit_splat(e, u->dtype, 1));
  Value shift = emit_binary(e, NN_OP_div, u->dtype, acc[1], n),
        own = add(l, u, sub(l, u, acc[0], l->origin[mean]), shift);
  // a thread without elements
  own = emit_select(e, emit_compare(e, "eq", acc[3], zero, u->dtype), zero, own, u->dtype);
  Value between = emit_binary(e, NN_OP_div, u->dtype, launch_combine(l, u, mul(l, u, acc[3], own)), count),
        d = sub(l, u, own, between);
  Value within = sub(l, u, acc[2], mul(l, u, acc[1], shift));
  l->value[mean] = l->p->relative ? between : add(l, u, l->origin[mean], between);
  l->value[squares] = launch_combine(l, &l->p->r.units[squares], add(l, u, within, mul(l, u, acc[3], mul(l, u, d, d))));
}

static void finish_softmax(Launch *l, int maximum, const Value *acc) {
  const Unit *u = &l->p->r.units[maximum];
  int sum = plan_companion(l->p, maximum);
  l->value[maximum] = launch_combine(l, u, acc[0]);
  Value scale = emit_exponential(l->e, sub(l, u, finite_maximum(l, u, acc[0]), l->value[maximum]), u->dtype);
  l->value[sum] = launch_combine(l, &l->p->r.units[sum], mul(l, u, acc[1], scale));
}

static void carry(Launch *l, Pass *pass, int unit, Value *acc) {
  const Unit *u = &l->p->r.units[unit];
  int n = plan_companion(l->p, unit) < 0 ? 1 : u->kind == UNIT_MEAN ? MOMENT_VALUES : 2;
  pass->unit[pass->n] = unit;
  pass->first[pass->n++] = pass->n_carried;
  for (int i = 0; i < n; i++) {
    acc[pass->n_carried] = i ? emit_splat(l->e, u->dtype, 0) : reduce_identity(l->e, u);
    acc[pass->n_carried].varies = true;
    pass->types[pass->n_carried++] = vector_type(l->e, u->dtype);
  }
}

static void pass_loops(Launch *l, const Pass *pass, Value *acc) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  const Reduce *r = &p->r;
  Value args[MAX_CARRIED];
  if (p->resident) {
    visit_resident(l, pass, acc);
  } else if (!p->columns && r->row_extent == 1) {
    vector_loop(l, pass, acc);
  } else {
    Value low = p->columns ? emit_index(e, "addi", l->low, l->rank) : l->low;
    Value row = for_begin(e, low, l->high, p->columns ? p->team : 1, pass->n_carried, acc, pass->types, args);
    emit_split_index(e, row, r->n_rows, r->rows);
    if (p->columns) visit(l, pass, args);
    else vector_loop(l, pass, args);
    for_end(e, pass->n_carried, args, pass->types, acc);
  }
}

// The units `active`, with those that are joined to them. count: the elements that the team goes through, of any unit's
// type.
void launch_pass(Launch *l, const bool *active, bool write, Value (*count)(Launch *l, NnDtype dtype)) {
  const Plan *p = l->p;
  const Reduce *r = &p->r;
  Pass pass = {.write = write};
  Value acc[MAX_CARRIED];
  for (int u = 0; u < r->n_units; u++)
    if (active[u] && p->joined[u] < 0) carry(l, &pass, u, acc);
  if (!pass.n && !write) return;   // all is known from the pass before
  for (int i = 0; i < pass.n; i++)
    if (r->units[pass.unit[i]].kind == UNIT_MEAN) l->origin[pass.unit[i]] = first_element(l, &r->units[pass.unit[i]]);
  pass_loops(l, &pass, acc);
  for (int i = 0; i < pass.n; i++) {
    int unit = pass.unit[i];
    const Unit *u = &r->units[unit];
    const Value *own = acc + pass.first[i];
    bool alone = plan_companion(p, unit) < 0;
    if (alone) l->value[unit] = launch_combine(l, u, *own);
    if (alone && u->kind == UNIT_MEAN)
      l->value[unit] = add(l, u, l->origin[unit],
                           emit_binary(l->e, NN_OP_div, u->dtype, l->value[unit], count(l, u->dtype)));
    if (!alone && u->kind == UNIT_MEAN) finish_moments(l, unit, own, count(l, u->dtype));
    if (!alone && u->kind == UNIT_MAX) finish_softmax(l, unit, own);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Direct: everything in one launch

static bool has_kept_results(const Kernel *k) {
  for (int i = 0; i < k->n_results; i++)
    if (kernel_is_kept_shaped(k, &k->result_type[i])) return true;
  return false;
}

void launch_if_first(Launch *l) {
  Emitter *e = l->e;
  Value first = emit_index_compare_with(e, "eq", l->rank, 0);
  if (l->active.id >= 0) first = emit(e, e->depth, "arith.andi", VALUES(first.id, l->active.id), "%%, %% : i1");
  if_begin(e, first);
}

// By the first thread of each team; the others must have read what a result may lie over.
void launch_write_kept_results(Launch *l) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  if (!has_kept_results(p->r.k)) return;
  if (p->columns || p->team > WARP) schedule_barrier(e);
  else schedule_warp_barrier(e);
  launch_if_first(l);
  kernel_emit_kept_results(e, 1);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

void launch_whole_range(Launch *l) {
  l->low = emit_i64(l->e, 0);
  l->high = emit_i64(l->e, l->p->r.row_extent);
  l->from = emit_i64(l->e, 0);
  l->to = emit_i64(l->e, l->p->r.vector_extent);
}

static Value whole_count(Launch *l, NnDtype dtype) {
  const Plan *p = l->p;
  return emit_splat(l->e, dtype, (double)(p->r.row_extent * (p->columns ? 1 : p->r.vector_extent)));
}

static void emit_direct(GpuModule *m, const Plan *p, EmittedKernel *out) {
  Emitter e;
  Launch l;
  const Reduce *r = &p->r;
  int64_t count = r->row_extent * (p->columns ? 1 : r->vector_extent);
  launch_begin(&l, &e, m, p, "all passes", 0, 1, out);
  launch_whole_range(&l);
  block_begin(&e);   // a scope for what depends on the thread, so that nothing is hoisted over a barrier
  if (p->resident) bind_resident(&l);
  IndexMap kept = index_map_kept(r->k);
  for (int pass = 0; pass < r->n_passes; pass++) {
    bool active[MAX_UNITS];
    for (int u = 0; u < r->n_units; u++) active[u] = r->units[u].level == pass;
    l.stash.pass = pass;
    launch_pass(&l, active, pass == r->write_pass, whole_count);
    for (int u = 0; u < r->n_units; u++) {
      if (!active[u]) continue;
      const Unit *unit = &r->units[u];
      if (unit->kind == UNIT_M2) l.value[u] = reduce_divide(&e, unit, l.value[u], count);
      reduce_bind(&e, unit, &kept, l.value[u]);
    }
  }
  launch_write_kept_results(&l);
  block_end(&e);
  emitter_end(&e);
}

void schedule_reduce(GpuModule *m, const Kernel *k, EmittedKernel *out) {
  Plan p;
  plan_reduce(k, &p);
  plan_stash(m->shared, &p);
  out->workspace_bytes = schedule_reduce_workspace(k);
  if (p.chunked) schedule_reduce_chunks(m, &p, out);
  else emit_direct(m, &p, out);
}

// One pass of a row or column kernel over reduced elements: accumulators in vector registers, several side by side.

#include "codegen/host/kernel_reduce.h"
#include "support/alloc.h"

typedef struct Pass {
  Emitter *e;
  const Reduce *r;
  const Range *range;
  int tile;   // vectors side by side
  bool write;
  int n_active, active[MAX_UNITS];
  const PassValues *values;   // means, for M2
  TypeName types[MAX_UNITS * MAX_TILE];
} Pass;

static int slot(const Pass *p, int unit, int tile) { return unit * p->tile + tile; }
static int n_slots(const Pass *p) { return p->n_active * p->tile; }

// Adds the elements at the current point into the accumulators of tile j. With lanes on a reduced axis, masked lanes
// are left alone.
static void accumulate(Pass *p, int j, int into, Value *acc) {
  Emitter *e = p->e;
  e->tile = j;
  for (int a = 0; a < p->n_active; a++) {
    const Unit *u = &p->r->units[p->active[a]];
    Value *x = &acc[slot(p, a, into)];
    Value sum = reduce_combine(e, u, *x, reduce_term(e, u, &p->values->value[u->mean][p->r->lanes_on_reduced ? 0 : j]));
    if (e->mask >= 0 && p->r->lanes_on_reduced) {
      sum = emit(e, e->depth, "arith.select", VALUES(e->mask, sum.id, x->id), "%%, %%, %% : vector<%dxi1>, %s",
                 e->lanes, p->types[slot(p, a, 0)].text);
      sum.varies = true;
    }
    *x = sum;
  }
  if (p->write) kernel_emit_point(e);
  e->tile = 0;
}

static void accumulate_tile(Pass *p, int tile, Value *acc) {
  for (int j = 0; j < tile; j++) accumulate(p, j, j, acc);
}

// Elements [low, high) of the reduced vector axis, `tile` vectors at a time.
static void vector_loop(Pass *p, Value low, Value high, int tile, Value *acc) {
  Emitter *e = p->e;
  int n = n_slots(p), lanes = p->r->lanes;
  Value args[MAX_UNITS * MAX_TILE];
  Value i = for_begin(e, low, high, (int64_t)tile * lanes, n, acc, p->types, args);
  e->index_depth[p->r->vector_group] = e->depth;
  for (int j = 0; j < tile; j++)
    e->vector_index[j] = j ? emit_index(e, "addi", i, emit_i64(e, (int64_t)j * lanes)).id : i.id;
  accumulate_tile(p, tile, args);
  for_end(e, n, args, p->types, acc);
}

// What is left after whole tiles: single vectors, then the masked last one.
static void vector_rest(Pass *p, Value *acc) {
  Emitter *e = p->e;
  const Reduce *r = p->r;
  int64_t step = (int64_t)p->tile * r->lanes, whole = r->vector_extent / r->lanes * r->lanes,
          tiles = r->vector_extent / step * step;
  int rest = (int)(r->vector_extent % r->lanes);
  if (tiles < whole) vector_loop(p, emit_i64(e, tiles), emit_i64(e, whole), 1, acc);
  if (!rest) return;
  block_begin(e);
  emit_set_mask(e, rest);
  Value first = emit(e, e->depth, "arith.constant", NO_VALUES, "%lld : i64", (long long)whole);
  e->index_depth[r->vector_group] = e->depth;
  e->vector_index[0] = first.id;
  accumulate(p, 0, 0, acc);
  emit_set_mask(e, e->lanes);
  block_end(e);
  // The block is only a scope of names; its values stay visible.
  for (int i = 0; i < n_slots(p); i++)
    if (acc[i].depth > e->depth) acc[i].depth = e->depth;
}

static void reduced_lanes(Pass *p, Value *acc) {
  Emitter *e = p->e;
  const Reduce *r = p->r;
  int64_t step = (int64_t)p->tile * r->lanes;
  if (r->vector_extent >= step) vector_loop(p, p->range->from, p->range->to, p->tile, acc);
  if (r->vector_extent % step == 0) return;
  if (!p->range->conditional) {
    vector_rest(p, acc);
    return;
  }
  int n = n_slots(p);
  Value before[MAX_UNITS * MAX_TILE];
  for (int i = 0; i < n; i++) before[i] = acc[i];
  if_begin(e, p->range->is_last);
  vector_rest(p, acc);
  if_end(e, n, acc, before, p->types, acc);
}

// Opens the loop over rows if there are several, runs the inner part, closes it.
static void run_rows(Pass *p, Value *acc) {
  Emitter *e = p->e;
  const Reduce *r = p->r;
  int n = n_slots(p);
  Value args[MAX_UNITS * MAX_TILE];
  bool loop = r->row_extent > 1;
  for (int i = 0; i < n; i++) args[i] = acc[i];
  if (loop) {
    Value row = for_begin(e, p->range->low, p->range->high, 1, n, acc, p->types, args);
    emit_split_index(e, row, r->n_rows, r->rows);
  } else {
    block_begin(e);
  }
  if (r->lanes_on_reduced) reduced_lanes(p, args);
  else accumulate_tile(p, p->tile, args);
  if (loop) {
    for_end(e, n, args, p->types, acc);
    return;
  }
  block_end(e);
  for (int i = 0; i < n; i++) {
    acc[i] = args[i];
    if (acc[i].depth > e->depth) acc[i].depth = e->depth;
  }
}

void reduce_emit_pass(Emitter *e, const Reduce *r, const Range *range, int tile, const bool *active, bool write,
                      PassValues *values) {
  Pass p = {.e = e, .r = r, .range = range, .tile = tile, .write = write, .values = values};
  Value acc[MAX_UNITS * MAX_TILE];
  for (int u = 0; u < r->n_units; u++)
    if (active[u]) p.active[p.n_active++] = u;
  for (int a = 0; a < p.n_active; a++)
    for (int j = 0; j < tile; j++) {
      const Unit *u = &r->units[p.active[a]];
      acc[slot(&p, a, j)] = reduce_identity(e, u);
      acc[slot(&p, a, j)].varies = true;
      p.types[slot(&p, a, j)] = vector_type(e, u->dtype);
    }
  run_rows(&p, acc);
  for (int a = 0; a < p.n_active; a++) {
    const Unit *u = &r->units[p.active[a]];
    Value *x = &acc[slot(&p, a, 0)], *out = values->value[p.active[a]];
    if (!r->lanes_on_reduced) {
      for (int j = 0; j < tile; j++) out[j] = x[j];
      continue;
    }
    for (int width = tile; width > 1; width /= 2)
      for (int j = 0; j < width / 2; j++) x[j] = reduce_combine(e, u, x[j], x[j + width / 2]);
    out[0] = emit_horizontal(e, u->kind == UNIT_MAX ? NN_OP_max : NN_OP_add, u->dtype, x[0]);
  }
}

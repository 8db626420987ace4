// A chunk of a column kernel whose rows are long: row after row, so that memory is read in order, with the partial
// results of the chunk in the workspace, which a block of columns keeps in the cache. Four rows at a time share the
// loads and stores of those. Moments are taken of the differences from a pilot, the mean of the chunk's first rows, so
// that one pass is enough: the sum of squared differences from the mean is then at least a small constant part of that
// from the pilot, and little is lost in subtracting.
#include "codegen/host/kernel_reduce.h"
#include "support/integers.h"

#define PILOT_ROWS 8

typedef struct Stream {
  Emitter *e;
  const Reduce *r;
  const StreamChunk *c;
  // elements of the kept vector axis in this block, whole vectors; whether the masked rest belongs to it
  Value from, to, is_last;
  const bool *active;
  bool pilot;   // this pass adds up the pilot
  bool write;
  Value row;   // first of `rows` rows
  int rows;
} Stream;

typedef void (*VectorFn)(Stream *s);

static void set_vector(Stream *s, Value first) {
  s->e->vector_index[0] = first.id;
  s->e->index_depth[s->r->vector_group] = s->e->depth;
}

// Runs body for every vector of the block.
static void for_vectors(Stream *s, VectorFn body) {
  Emitter *e = s->e;
  int rest = (int)(s->r->vector_extent % s->r->lanes);
  Value i = for_begin(e, s->from, s->to, s->r->lanes, 0, NULL, NULL, NULL);
  set_vector(s, i);
  body(s);
  for_end(e, 0, NULL, NULL, NULL);
  if (!rest) return;
  if_begin(e, s->is_last);
  emit_set_mask(e, rest);
  set_vector(s, emit(e, e->depth, "arith.constant", NO_VALUES, "%lld : i64", (long long)(s->r->vector_extent - rest)));
  body(s);
  emit_set_mask(e, e->lanes);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

static Value position(Stream *s) { return reduce_partial_index(s->e, s->r, s->c->outer, s->c->chunk, 0); }
static Value load(Stream *s, const Unit *u, int64_t slot, Value at) {
  return emit_load_workspace(s->e, u->dtype, slot, at, false);
}
static void store(Stream *s, const Unit *u, int64_t slot, Value at, Value v) {
  emit_store_workspace(s->e, u->dtype, slot, at, v, false);
}

static void clear_vector(Stream *s) {
  Value at = position(s);
  for (int u = 0; u < s->r->n_units; u++)
    if (s->active[u]) store(s, &s->r->units[u], s->r->units[u].partial, at, reduce_identity(s->e, &s->r->units[u]));
}

static void divide_pilot(Stream *s) {
  Value at = position(s), count = emit_index_with(s->e, "minsi", s->c->count, PILOT_ROWS);
  for (int u = 0; u < s->r->n_units; u++) {
    const Unit *unit = &s->r->units[u];
    if (!s->active[u]) continue;
    Value mean = emit_binary(s->e, NN_OP_div, unit->dtype, load(s, unit, unit->partial, at),
                             reduce_splat_count(s->e, unit->dtype, count));
    store(s, unit, unit->pilot, at, mean);
  }
}

// From the sums S and Q of the differences from the pilot P and of their squares: mean = P + S/n, M2 = Q - S S/n.
static void finish_moments(Stream *s) {
  Value at = position(s);
  for (int u = 0; u < s->r->n_units; u++) {
    const Unit *m2 = &s->r->units[u];
    if (!s->active[u] || m2->kind != UNIT_M2) continue;
    const Unit *mean = &s->r->units[m2->mean];
    NnDtype t = mean->dtype;
    Value sum = load(s, mean, mean->partial, at),
          share = emit_binary(s->e, NN_OP_div, t, sum, reduce_splat_count(s->e, t, s->c->count));
    Value squares = emit_binary(s->e, NN_OP_sub, t, load(s, m2, m2->partial, at),
                                emit_binary(s->e, NN_OP_mul, t, sum, share));
    store(s, mean, mean->partial, at, emit_binary(s->e, NN_OP_add, t, load(s, mean, mean->pilot, at), share));
    store(s, m2, m2->partial, at, emit_binary(s->e, NN_OP_max, t, squares, emit_splat(s->e, t, 0)));
  }
}

// The element that a unit adds up, at the current row.
static Value term(Stream *s, const Unit *u, Value at) {
  Emitter *e = s->e;
  IndexMap domain = index_map_domain(s->r->k);
  Value x = expression(e, u->operand, &domain);
  if (s->pilot || (u->kind != UNIT_MEAN && u->kind != UNIT_M2)) return x;
  const Unit *mean = u->kind == UNIT_M2 ? &s->r->units[u->mean] : u;
  Value d = emit_binary(e, NN_OP_sub, u->dtype, x, load(s, mean, mean->pilot, at));
  return u->kind == UNIT_M2 ? emit_binary(e, NN_OP_mul, u->dtype, d, d) : d;
}

// The rows lie in scopes of their own: what depends on a row is forgotten after it, what only depends on the column is
// loaded once.
static void accumulate_vector(Stream *s) {
  Emitter *e = s->e;
  const Reduce *r = s->r;
  Value at = position(s), sum[MAX_UNITS];
  for (int u = 0; u < r->n_units; u++)
    if (s->active[u]) sum[u] = load(s, &r->units[u], r->units[u].partial, at);
  for (int i = 0; i < s->rows; i++) {
    block_begin(e);
    emit_split_index(e, i ? emit_index_with(e, "addi", s->row, i) : s->row, r->n_rows, r->rows);
    for (int g = 0; g < r->n_rows; g++) e->index_depth[r->rows[g]] = e->depth;
    for (int u = 0; u < r->n_units; u++)
      if (s->active[u]) sum[u] = reduce_combine(e, &r->units[u], sum[u], term(s, &r->units[u], at));
    if (s->write) kernel_emit_point(e);
    block_end(e);
    for (int u = 0; u < r->n_units; u++)
      if (s->active[u] && sum[u].depth > e->depth) sum[u].depth = e->depth;
  }
  for (int u = 0; u < r->n_units; u++)
    if (s->active[u]) store(s, &r->units[u], r->units[u].partial, at, sum[u]);
}

static void for_rows(Stream *s, Value low, Value high, int rows) {
  Emitter *e = s->e;
  s->rows = rows;
  s->row = for_begin(e, low, high, rows, 0, NULL, NULL, NULL);
  for_vectors(s, accumulate_vector);
  for_end(e, 0, NULL, NULL, NULL);
}

static void pass(Stream *s, const bool *active, Value high, bool write) {
  s->active = active;
  s->write = write;
  for_vectors(s, clear_vector);
  if (s->r->row_extent % STREAM_ROWS == 0 && !s->pilot) {
    for_rows(s, s->c->low, high, STREAM_ROWS);   // so are the chunks
    return;
  }
  Value whole = s->c->low;
  if (!s->pilot) {
    Value n = emit_index(s->e, "subi", high, s->c->low), rest = emit_index_with(s->e, "remui", n, STREAM_ROWS);
    whole = emit_index(s->e, "subi", high, rest);
    for_rows(s, s->c->low, whole, STREAM_ROWS);
  }
  for_rows(s, whole, high, 1);
}

void reduce_emit_stream(Emitter *e, const Reduce *r, const StreamChunk *c) {
  int64_t whole = r->vector_extent / r->lanes * r->lanes, blocks = divide_up(r->vector_extent, r->block);
  Stream s = {.e = e, .r = r, .c = c};
  s.from = emit_index_with(e, "muli", c->block, r->block);
  s.to = emit_index_with(e, "minsi", emit_index_with(e, "addi", s.from, r->block), whole);
  s.is_last = emit_index_compare_with(e, "eq", c->block, blocks - 1);
  bool moments = false, means[MAX_UNITS] = {false};
  for (int u = 0; u < r->n_units; u++) {
    means[u] = c->units[u] && r->units[u].kind == UNIT_MEAN;
    moments |= means[u];
  }
  if (moments) {
    s.pilot = true;
    pass(&s, means, emit_index(e, "minsi", c->high, emit_index_with(e, "addi", c->low, PILOT_ROWS)), false);
    for_vectors(&s, divide_pilot);
    s.pilot = false;
  }
  pass(&s, c->units, c->high, c->write);
  if (moments) for_vectors(&s, finish_moments);
}

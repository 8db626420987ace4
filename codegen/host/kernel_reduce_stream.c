// A chunk of a column kernel whose rows are long: row after row, so that memory is read in order, with the partial results of the
// chunk in the workspace, which a block of columns keeps in the cache.
#include "codegen/host/kernel_reduce.h"

typedef struct Stream {
  Emitter *e;
  const Reduce *r;
  const StreamChunk *c;
  Value from, to, is_last;    // elements of the kept vector axis in this block, whole vectors; whether the masked rest belongs to it
  const bool *active;
  bool write;
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
  set_vector(s, emit(e, e->depth, "arith.constant %lld : i64", (long long)(s->r->vector_extent - rest)));
  body(s);
  emit_set_mask(e, e->lanes);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

static Value position(Stream *s) { return reduce_partial_index(s->e, s->r, s->c->outer, s->c->chunk, 0); }

static void clear_vector(Stream *s) {
  Value at = position(s);
  for (int u = 0; u < s->r->n_units; u++)
    if (s->active[u]) emit_store_workspace(s->e, s->r->units[u].dtype, s->r->units[u].partial, at, reduce_identity(s->e, &s->r->units[u]), false);
}

static void divide_vector(Stream *s) {
  Value at = position(s);
  for (int u = 0; u < s->r->n_units; u++) {
    const Unit *unit = &s->r->units[u];
    if (!s->active[u] || unit->kind != UNIT_MEAN) continue;
    Value sum = emit_load_workspace(s->e, unit->dtype, unit->partial, at, false);
    Value mean = emit_binary(s->e, NN_OP_div, unit->dtype, sum, reduce_splat_count(s->e, unit->dtype, s->c->count));
    emit_store_workspace(s->e, unit->dtype, unit->partial, at, mean, false);
  }
}

static void accumulate_vector(Stream *s) {
  Emitter *e = s->e;
  IndexMap domain = index_map_domain(s->r->k);
  Value at = position(s);
  for (int u = 0; u < s->r->n_units; u++) {
    const Unit *unit = &s->r->units[u];
    if (!s->active[u]) continue;
    Value x = expression(e, unit->operand, &domain);
    if (unit->kind == UNIT_M2) {
      const Unit *mean = &s->r->units[unit->mean];
      Value d = emit_binary(e, NN_OP_sub, unit->dtype, x, emit_load_workspace(e, mean->dtype, mean->partial, at, false));
      x = emit_binary(e, NN_OP_mul, unit->dtype, d, d);
    }
    Value sum = emit_load_workspace(e, unit->dtype, unit->partial, at, false);
    emit_store_workspace(e, unit->dtype, unit->partial, at, reduce_combine(e, unit, sum, x), false);
  }
  if (s->write) reduce_write_domain_results(e, s->r->k);
}

static void pass(Stream *s, const bool *active, bool write) {
  Emitter *e = s->e;
  s->active = active;
  s->write = write;
  for_vectors(s, clear_vector);
  Value row = for_begin(e, s->c->low, s->c->high, 1, 0, NULL, NULL, NULL);
  emit_split_index(e, row, s->r->n_rows, s->r->rows);
  for_vectors(s, accumulate_vector);
  for_end(e, 0, NULL, NULL, NULL);
}

void reduce_emit_stream(Emitter *e, const Reduce *r, const StreamChunk *c) {
  int64_t whole = r->vector_extent / r->lanes * r->lanes, blocks = (r->vector_extent + r->block - 1) / r->block;
  Stream s = {.e = e, .r = r, .c = c};
  s.from = emit_index_with(e, "muli", c->block, r->block);
  s.to = emit_index_with(e, "minsi", emit_index_with(e, "addi", s.from, r->block), whole);
  s.is_last = emit(e, c->block.depth, "arith.cmpi eq, %%v%d, %%v%d : i64", c->block.id, emit_i64(e, blocks - 1).id);
  pass(&s, c->sums, c->write && !c->any_squares);
  if (!c->any_squares) return;
  for_vectors(&s, divide_vector);
  pass(&s, c->squares, c->write);
}

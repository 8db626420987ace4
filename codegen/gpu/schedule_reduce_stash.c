// Rows that are too long for registers stay in shared memory. The pass that reads an operand first leaves each vector
// in the block's shared memory, at the row's own places; later passes load it from there. A thread reads what it has
// written itself, so that there is no barrier in between, and a result may lie over the operand.
//
// Read again from global memory such rows are DRAM's traffic twice: those that all multiprocessors have on their way at
// once are more than the L2 cache holds, or most of it.
#include <assert.h>
#include <string.h>

#include "codegen/gpu/schedule_reduce.h"
#include "support/text.h"

// ---------------------------------------------------------------------------------------------------------------------
// The plan

enum { MAX_LEAVES = 16 };
// bytes that a pass reads for each lane
typedef struct Leaves {
  const Reduce *r;
  int pass, n;
  Stashed leaf[MAX_LEAVES];
  int64_t bytes[STASH_PASSES];
} Leaves;

// An operand that has another row for other elements: what all rows share is in a cache.
static bool has_own_rows(const Reduce *r, const Access *a) {
  for (int g = 0; g < r->nest.n; g++)
    if (g != r->vector_group && a->stride[r->nest.axis[g]]) return true;
  return r->outer_extent == 1;
}

static void add_leaf(void *user, int arg, MlirValue value, const Access *a) {
  Leaves *l = user;
  NnDtype dtype = nn_value_dtype(value);
  if (arg < 0 || a->stride[l->r->nest.axis[l->r->vector_group]] != 1) return;
  int i = 0;
  while (i < l->n && (l->leaf[i].arg != arg || !access_equal(&l->leaf[i].access, a))) i++;
  if (i == MAX_LEAVES) return;
  Stashed *s = &l->leaf[i];
  if (i == l->n) l->leaf[l->n++] = (Stashed){.arg = arg, .dtype = dtype, .access = *a, .first = l->pass, .last = -1};
  if (s->last < l->pass) l->bytes[l->pass] += nn_dtype_bytes(dtype);
  s->last = l->pass;
}

static void find_leaves(const Plan *p, Leaves *l) {
  const Reduce *r = &p->r;
  const Kernel *k = r->k;
  IndexMap domain = index_map_domain(k);
  *l = (Leaves){.r = r};
  for (l->pass = 0; l->pass < r->n_passes; l->pass++) {
    for (int u = 0; u < r->n_units; u++)
      if (r->units[u].level == l->pass && p->joined[u] < 0)
        kernel_walk_leaves(k, r->units[u].operand, &domain, add_leaf, l);
    for (int i = 0; l->pass == r->write_pass && i < k->n_results; i++)
      if (!kernel_is_kept_shaped(k, &k->result_type[i])) kernel_walk_leaves(k, k->result[i], &domain, add_leaf, l);
  }
}

// All operands that are read in several passes, one behind the other in shared memory; the bytes of all.
static int64_t place_operands(Plan *p, const Leaves *l) {
  int64_t end = 0;
  for (int i = 0; i < l->n; i++) {
    if (l->leaf[i].first == l->leaf[i].last || !has_own_rows(&p->r, &l->leaf[i].access)) continue;
    if (p->n_stashed == MAX_STASHED) return INT64_MAX;
    p->stashed[p->n_stashed] = l->leaf[i];
    p->stashed[p->n_stashed++].offset = end;
    end += (p->r.vector_extent * nn_dtype_bytes(l->leaf[i].dtype) + 15) / 16 * 16;
  }
  return end;
}

// A multiprocessor has 1024 threads with 64 registers each: two teams of 512, one of which reads while the other
// computes or meets, or one of 1024, where a row takes more than half of the shared memory; half as many with 128
// registers where several operands or f64 need them. What they have on its way, four vectors of 16 bytes a thread or
// eight, is 64 KiB; a multiprocessor of an H200 needs some 30 (4.8 TB/s shared by 132, and a latency of 0.8 us) when
// nothing else is in between. So one team alone, which now and then has nothing on its way, should still take no longer
// for what it reads once than others for what they read twice.
void plan_stash(GpuShared shared, Plan *p) {
  const Reduce *r = &p->r;
  if (p->columns || p->chunked || p->resident || p->per_block > 1 || r->row_extent > 1 || r->n_passes > STASH_PASSES)
    return;
  Leaves l;
  find_leaves(p, &l);
  int64_t own = STASH_THREADS / WARP * 8, bytes = place_operands(p, &l);   // own: where warps meet, of all teams
  static_assert(STASH_THREADS / WARP * 8 % GPU_SHARED_ALIGN == 0, "the static part is larger than its array");
  if (bytes > shared.alone - own) p->n_stashed = 0;
  if (!p->n_stashed) return;
  bool wide = false;
  for (int u = 0; u < r->n_units; u++) wide |= r->units[u].dtype == NN_F64;
  p->unrolled = 0;
  p->stash_bytes = bytes;
  p->alone = bytes > shared.paired - own;
  p->team = STASH_THREADS / (p->alone ? 1 : 2) / (wide || l.n > 1 ? 2 : 1);
  for (int pass = 0; pass < r->n_passes; pass++) {
    int *turn = &p->stash_turn[pass];
    for (*turn = 1; *turn < MAX_TILE && 2 * *turn * p->lanes * l.bytes[pass] <= (l.n > 1 ? 2 : 1) * STASH_AHEAD;)
      *turn *= 2;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The code

// Of the current vector; and what an access to it promises.
static Value slot(Emitter *e, const Stashed *o, int *align) {
  Value base = emit(e, 0, "llvm.mlir.addressof", NO_VALUES, "$_row : !llvm.ptr<3>");
  if (o->offset)
    base = emit(e, 0, "llvm.getelementptr", VALUES(base.id), "%%[%lld] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8",
                (long long)o->offset);
  int64_t bytes = e->lanes * nn_dtype_bytes(o->dtype);
  *align = (int)(bytes < 16 ? bytes : 16);
  return emit(e, e->depth, "llvm.getelementptr", VALUES(base.id, e->vector_index[e->tile]),
              "%%[%%] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, %s", element_type(o->dtype));
}

// Emitter.load_tiled
static bool load_stashed(Emitter *e, int buffer, const Access *a, Value *out) {
  const Stash *s = e->tiled;
  for (int i = 0; i < s->p->n_stashed; i++) {
    const Stashed *o = &s->p->stashed[i];
    if (o->arg != buffer || !access_equal(&o->access, a)) continue;
    Value raw = s->loaded[i][e->tile];
    if (s->pass > o->first) {
      int align;
      Value from = slot(e, o, &align);
      raw = emit(e, e->depth, "llvm.load", VALUES(from.id), "%% {alignment = %d : i64} : !llvm.ptr<3> -> %s", align,
                 vector_memory_type(e, o->dtype).text);
      raw.varies = true;
    }
    *out = emit_from_memory(e, o->dtype, raw);
    return true;
  }
  return false;
}

void stash_turn_begin(Emitter *e, Stash *s, int count) {
  const Plan *p = s->p;
  // All loads before the first store: they do not wait for each other.
  for (int i = 0; i < p->n_stashed; i++)
    for (e->tile = 0; p->stashed[i].first == s->pass && e->tile < count; e->tile++)
      s->loaded[i][e->tile] = emit_load_raw(e, p->stashed[i].arg, p->stashed[i].dtype, &p->stashed[i].access);
  for (int i = 0; i < p->n_stashed; i++)
    for (e->tile = 0; p->stashed[i].first == s->pass && e->tile < count; e->tile++) {
      int align;
      Value to = slot(e, &p->stashed[i], &align);
      emit_effect(e, "llvm.store", VALUES(s->loaded[i][e->tile].id, to.id),
                  "%%, %% {alignment = %d : i64} : %s, !llvm.ptr<3>", align,
                  vector_memory_type(e, p->stashed[i].dtype).text);
    }
  e->tile = 0;
  e->tiled = s;
  e->load_tiled = load_stashed;
}

void stash_turn_end(Emitter *e) { e->load_tiled = NULL; }

// Rows that are too long for registers stay in shared memory. The pass that reads an operand first leaves each vector in the block's shared memory, at the row's own
// places; later passes load it from there. A thread reads what it has written itself, so that there is no barrier in between, and a result may lie over the operand.
//
// Read again from global memory such rows are DRAM's traffic twice: those that all multiprocessors have on their way at once are more than the L2 cache holds, or most of it.
#include <string.h>

#include "codegen/cuda/schedule_reduce.h"

static bool access_equal(const Access *a, const Access *b) { return memcmp(a, b, sizeof *a) == 0; }

// ---------------------------------------------------------------------------------------------------------------------
// The plan

enum { MAX_LEAVES = 16 };
typedef struct Leaves { const Reduce *r; int pass, n; Stashed leaf[MAX_LEAVES]; } Leaves;

// An operand that has another row for other elements: what all rows share is in a cache.
static bool has_own_rows(const Reduce *r, const Access *a) {
  for (int g = 0; g < r->nest.n; g++)
    if (g != r->vector_group && a->stride[r->nest.axis[g]]) return true;
  return r->outer_extent == 1;
}

static void add_leaf(void *user, int arg, MlirValue value, const Access *a) {
  Leaves *l = user;
  if (arg < 0 || a->stride[l->r->nest.axis[l->r->vector_group]] != 1 || !has_own_rows(l->r, a)) return;
  for (int i = 0; i < l->n; i++) {
    Stashed *s = &l->leaf[i];
    if (s->arg != arg || !access_equal(&s->access, a)) continue;
    if (l->pass < s->first) s->first = l->pass;
    if (l->pass > s->last) s->last = l->pass;
    return;
  }
  if (l->n < MAX_LEAVES) l->leaf[l->n++] = (Stashed){.arg = arg, .dtype = nn_value_type(value).dtype, .access = *a, .first = l->pass, .last = l->pass};
}

static void find_leaves(const Plan *p, Leaves *l) {
  const Reduce *r = &p->r;
  const Kernel *k = r->k;
  IndexMap domain = index_map_domain(k);
  *l = (Leaves){.r = r};
  for (int u = 0; u < r->n_units; u++) {
    l->pass = r->units[u].level;
    if (p->joined[u] < 0) kernel_walk_leaves(k, r->units[u].operand, &domain, add_leaf, l);
  }
  l->pass = r->write_pass;
  for (int i = 0; l->pass >= 0 && i < k->n_results; i++)
    if (!kernel_is_kept_shaped(k, &k->result_type[i])) kernel_walk_leaves(k, k->result[i], &domain, add_leaf, l);
}

// The threads of a multiprocessor are 1024 either way, with 64 registers each: two teams of 512, one of which reads while the other computes or meets, or one, where a row takes more
// than half of the shared memory. Each thread has four vectors of 16 bytes on their way, which together are 64 KiB; a multiprocessor of an H200 needs some 30 (4.8 TB/s shared by 132,
// and a latency of 0.8 us) when nothing else is in between. So one team alone, which now and then has nothing on its way, is still less traffic for the same time.
void plan_stash(Plan *p) {
  const Reduce *r = &p->r;
  if (p->columns || p->chunked || p->resident || p->per_block > 1 || r->row_extent > 1) return;
  Leaves l;
  find_leaves(p, &l);
  int64_t own = STASH_THREADS / WARP * 8, two = cuda_shared_bytes(2) - own, one = cuda_shared_bytes(1) - own, ahead = 0;   // own: where warps meet
  for (int i = 0; i < l.n && p->n_stashed < MAX_STASHED; i++) {
    Stashed *s = &l.leaf[i];
    int64_t element = nn_dtype_bytes(s->dtype), bytes = (r->vector_extent * element + 15) / 16 * 16;
    if (s->first == s->last || p->stash_bytes + bytes > one) continue;
    s->offset = p->stash_bytes;
    p->stash_bytes += bytes;
    p->stashed[p->n_stashed++] = *s;
    ahead += p->lanes * element;
  }
  if (!p->n_stashed) return;
  p->unrolled = 0;
  p->team = p->stash_bytes <= two ? STASH_THREADS / 2 : STASH_THREADS;
  for (p->unroll = 1; p->unroll < MAX_TILE && 2 * p->unroll * ahead <= STASH_AHEAD;) p->unroll *= 2;
}

// ---------------------------------------------------------------------------------------------------------------------
// The code

void stash_declare(const Stash *s, Text *t) {
  text_add(t, "llvm.mlir.global external @%s_row() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>\n", s->symbol);
}

// Of the current vector; and what an access to it promises.
static Value slot(Emitter *e, const Stash *s, const Stashed *o, int *align) {
  Value base = emit(e, 0, "llvm.mlir.addressof @%s_row : !llvm.ptr<3>", s->symbol);
  if (o->offset) base = emit(e, 0, "llvm.getelementptr %%v%d[%lld] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8", base.id, (long long)o->offset);
  int64_t bytes = e->lanes * nn_dtype_bytes(o->dtype);
  *align = (int)(bytes < 16 ? bytes : 16);
  return emit(e, e->depth, "llvm.getelementptr %%v%d[%%v%d] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, %s", base.id, e->vector_index[e->tile], element_type(o->dtype));
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
      Value from = slot(e, s, o, &align);
      raw = emit(e, e->depth, "llvm.load %%v%d {alignment = %d : i64} : !llvm.ptr<3> -> %s", from.id, align, vector_memory_type(e, o->dtype).text);
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
    for (e->tile = 0; p->stashed[i].first == s->pass && e->tile < count; e->tile++) s->loaded[i][e->tile] = emit_load_raw(e, p->stashed[i].arg, p->stashed[i].dtype, &p->stashed[i].access);
  for (int i = 0; i < p->n_stashed; i++)
    for (e->tile = 0; p->stashed[i].first == s->pass && e->tile < count; e->tile++) {
      int align;
      Value to = slot(e, s, &p->stashed[i], &align);
      emit_effect(e, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr<3>", s->loaded[i][e->tile].id, to.id, align, vector_memory_type(e, p->stashed[i].dtype).text);
    }
  e->tile = 0;
  e->tiled = s;
  e->load_tiled = load_stashed;
}

void stash_turn_end(Emitter *e) { e->load_tiled = NULL; }

// Row and column kernels on a GPU. The threads that share the reduced elements of one kept element are a team: where those elements are
// neighbours in memory, a warp or a block (values meet by shuffles, then through shared memory); where kept elements are, the threads of a block
// that differ in threadIdx.y (through shared memory). The order of additions is fixed by the shape.
//
// Where there are too few teams for a GPU, the reduced elements are cut into chunks: one launch leaves partial results in the workspace, a
// second combines them. Moments are taken in two passes over a chunk, the second out of the cache, and combined by the formula of Chan, Golub and
// LeVeque (1979). A short row is read once: its elements stay in registers from pass to pass.
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/schedule.h"
#include "codegen/host/kernel_reduce.h"

enum { BLOCK = 256, WARP = 32, MAX_RESIDENT = 8, ENOUGH_BLOCKS = 264 };

typedef struct Plan {
  Reduce r;
  int lanes;
  bool columns;                 // teams along threadIdx.y
  int team, per_block;          // threads of a team, teams of a block
  int resident;                 // vectors of a row that a thread keeps; 0: loops
  int64_t width;                // vectors of the kept axis (columns), else 1
  int64_t teams;                // outer x width
  bool chunked, chunk_vector;
  int64_t n_chunks, chunk_size; // of rows, or of elements of the vector axis
  int64_t bytes;                // of the workspace
} Plan;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int power_of_two(int64_t n, int most) {
  int p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

static void plan_teams(Plan *p) {
  const Reduce *r = &p->r;
  p->columns = !r->lanes_on_reduced;
  if (p->columns) {
    p->width = r->vector_extent / p->lanes;
    p->per_block = power_of_two(p->width, WARP);
    p->team = power_of_two(r->row_extent, BLOCK / p->per_block);
    if (p->team * p->per_block < WARP) p->team = WARP / p->per_block;
    return;
  }
  p->width = 1;
  int64_t each = r->row_extent * (r->vector_extent / p->lanes);
  p->team = each <= 8 * WARP ? WARP : BLOCK;
  p->per_block = p->team == WARP ? 4 : 1;
  int64_t vectors = r->vector_extent / p->lanes;
  if (r->row_extent == 1 && ceil_div(vectors, p->team) <= MAX_RESIDENT) p->resident = (int)ceil_div(vectors, p->team);
}

static void plan_chunks(Plan *p) {
  Reduce *r = &p->r;
  int64_t blocks = ceil_div(p->teams, p->per_block), total = p->columns || r->row_extent > 1 ? r->row_extent : r->vector_extent;
  p->chunk_vector = !p->columns && r->row_extent == 1;
  int64_t least = p->columns ? 8 * p->team : p->chunk_vector ? (int64_t)8 * BLOCK * p->lanes : 4;
  int64_t chunks = smaller(ENOUGH_BLOCKS / (blocks > 0 ? blocks : 1), total / least);
  p->chunked = r->k->kind == KERNEL_COLUMN && r->n_units && chunks > 1;
  p->n_chunks = 1;
  p->chunk_size = total;
  if (!p->chunked) return;
  p->resident = 0;
  p->chunk_size = ceil_div(total, chunks);
  if (p->chunk_vector) p->chunk_size = ceil_div(p->chunk_size, p->lanes) * p->lanes;
  p->n_chunks = ceil_div(total, p->chunk_size);
  int64_t kept = r->outer_extent * p->width * (p->columns ? p->lanes : 1);
  for (int i = 0; i < r->n_units; i++) {
    Unit *u = &r->units[i];
    int64_t bytes = kept * nn_dtype_bytes(u->dtype);
    u->partial = p->bytes;
    p->bytes += ceil_div(bytes * p->n_chunks, 64) * 64;
    u->combined = p->bytes;
    p->bytes += ceil_div(bytes, 64) * 64;
  }
}

static void plan(const Kernel *k, Plan *p) {
  *p = (Plan){0};
  reduce_plan_values(k, 1, &p->r);
  Reduce *r = &p->r;
  p->lanes = schedule_lanes(k, &r->nest);
  if (r->vector_extent % p->lanes) p->lanes = 1;
  r->lanes = p->lanes;
  plan_teams(p);
  p->teams = r->outer_extent * p->width;
  plan_chunks(p);
}

int64_t schedule_reduce_workspace(const Kernel *k) {
  Plan p;
  plan(k, &p);
  return p.bytes;
}

// ---------------------------------------------------------------------------------------------------------------------
// One launch

typedef struct Launch {
  Emitter *e;
  const Plan *p;
  char *symbol;                 // Owned by the kernel's launch
  Value rank;                   // of the thread in its team
  Value column;                 // columns: which of the block's
  Value outer, chunk;           // linear; chunk only where chunked
  Value active;                 // i1: this team has an element; {-1}: all do
  Value low, high;              // of rows
  Value from, to;               // of the reduced vector axis
  Value valid[MAX_RESIDENT];    // resident: i1; id -1: always
  Value value[MAX_UNITS];       // combined, of the current stage
} Launch;

static bool all_active(const Plan *p) { return p->columns ? p->width % p->per_block == 0 : p->teams % p->per_block == 0; }

static void begin_launch(Launch *l, Emitter *e, CudaModule *m, const Plan *p, const char *what, int index, int64_t chunks, HostKernel *out) {
  const Kernel *k = p->r.k;
  *l = (Launch){.e = e, .p = p, .symbol = index ? text_format("%s_launch%d", k->name, index) : host_strdup(k->name)};
  Text *t = &m->m.text;
  int64_t x = p->columns ? p->per_block : p->team * p->per_block, y = p->columns ? p->team : 1;
  int64_t tiles = p->columns ? ceil_div(p->width, p->per_block) : 1, blocks = (p->columns ? p->r.outer_extent * tiles : ceil_div(p->teams, p->per_block)) * chunks;
  if (index == 0) {
    char *space = text_format("grid %lld x %lld threads, teams of %d for %lld elements%s, %d elements a thread at once", (long long)blocks, (long long)(x * y), p->team,
                              (long long)(p->r.row_extent * (p->columns ? 1 : p->r.vector_extent)), p->resident ? " kept in registers" : "", p->lanes);
    kernel_comment(&m->m, k, space);
    free(space);
  }
  text_add(t, "// launch %d: %s, %lld blocks of %lld x %lld threads\n", index, what, (long long)blocks, (long long)x, (long long)y);
  if (p->columns || p->team > WARP)
    text_add(t, "llvm.mlir.global internal @%s_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<%d x i8>\n", l->symbol, p->columns ? p->team * p->per_block * p->lanes * 8 : BLOCK / WARP * 8);
  schedule_begin(e, m, k, l->symbol, k->n_args + k->n_results + (p->bytes > 0));
  schedule_forget(e, p->lanes);
  e->nest = p->r.nest;
  e->vector_group = p->r.vector_group;
  Value block = schedule_sreg(e, "ctaid.x"), tx = schedule_sreg(e, "tid.x");
  if (chunks > 1) {
    l->chunk = emit_index_with(e, "remui", block, chunks);
    block = emit_index_with(e, "divui", block, chunks);
  }
  l->active = (Value){-1, 0, false};
  if (p->columns) {
    l->rank = p->team > 1 ? schedule_sreg(e, "tid.y") : emit_i64(e, 0);
    l->column = tx;
    l->outer = block;
    Value tile = emit_i64(e, 0);
    if (tiles > 1) {
      tile = emit_index_with(e, "remui", block, tiles);
      l->outer = emit_index_with(e, "divui", block, tiles);
    }
    Value at = emit_index(e, "addi", emit_index_with(e, "muli", tile, p->per_block), tx);
    if (!all_active(p)) {
      l->active = schedule_compare(e, "ult", at, p->width);
      at = emit_index_with(e, "minui", at, p->width - 1);   // the others do the last one's work in vain
    }
    e->vector_index[0] = (p->lanes > 1 ? emit_index_with(e, "muli", at, p->lanes) : at).id;
    e->index_depth[p->r.vector_group] = 0;
  } else {
    l->rank = tx;
    l->outer = block;
    if (p->per_block > 1) {
      l->rank = emit_index_with(e, "remui", tx, p->team);
      l->outer = emit_index(e, "addi", emit_index_with(e, "muli", block, p->per_block), emit_index_with(e, "divui", tx, p->team));
      if (!all_active(p)) {
        l->active = schedule_compare(e, "ult", l->outer, p->teams);
        l->outer = emit_index_with(e, "minui", l->outer, p->teams - 1);
      }
    }
  }
  emit_split_index(e, l->outer, p->r.n_outer, p->r.outer);
  schedule_launch(out, l->symbol, blocks, x, y);
}

// ---------------------------------------------------------------------------------------------------------------------
// Meeting of a team

static Value shared_slot(Launch *l, NnDtype dtype, Value index) {
  Value base = emit(l->e, 0, "llvm.mlir.addressof @%s_shared : !llvm.ptr<3>", l->symbol);
  return emit(l->e, l->e->depth, "llvm.getelementptr %%v%d[%%v%d] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, %s", base.id, index.id, element_type(dtype));
}

static Value to_bytes(Emitter *e, NnDtype dtype, Value v) {
  return dtype == NN_I1 ? emit(e, e->depth, "arith.extui %%v%d : vector<%dxi1> to vector<%dxi8>", v.id, e->lanes, e->lanes) : v;
}

static void shared_store(Launch *l, NnDtype dtype, Value index, Value v) {
  Emitter *e = l->e;
  Value raw = to_bytes(e, dtype, v), slot = shared_slot(l, dtype, index);
  int64_t bytes = e->lanes * nn_dtype_bytes(dtype);
  emit_effect(e, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !llvm.ptr<3>", raw.id, slot.id, (int)(bytes > 16 ? nn_dtype_bytes(dtype) : bytes), vector_memory_type(e, dtype).text);
}

static Value shared_load(Launch *l, NnDtype dtype, Value index) {
  Emitter *e = l->e;
  Value slot = shared_slot(l, dtype, index);
  int64_t bytes = e->lanes * nn_dtype_bytes(dtype);
  Value raw = emit(e, e->depth, "llvm.load %%v%d {alignment = %d : i64} : !llvm.ptr<3> -> %s", slot.id, (int)(bytes > 16 ? nn_dtype_bytes(dtype) : bytes), vector_memory_type(e, dtype).text);
  return dtype == NN_I1 ? emit(e, e->depth, "arith.trunci %%v%d : vector<%dxi8> to vector<%dxi1>", raw.id, e->lanes, e->lanes) : raw;
}

static NnOp operation(const Unit *u) { return u->kind == UNIT_MAX ? NN_OP_max : NN_OP_add; }

static Value combine_columns(Launch *l, const Unit *u, Value x) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  if (p->team == 1) return x;
  Value mine = emit_index_with(e, "muli", emit_index(e, "addi", emit_index_with(e, "muli", l->rank, p->per_block), l->column), p->lanes);
  schedule_barrier(e);   // what was there has been read
  shared_store(l, u->dtype, mine, x);
  schedule_barrier(e);
  // Halves, until one is left.
  for (int half = p->team / 2; half > 0; half /= 2) {
    if_begin(e, schedule_compare(e, "ult", l->rank, half));
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
  for (int distance = WARP / 2; distance > 0; distance /= 2) x = emit_binary(e, operation(u), u->dtype, x, schedule_shuffle_xor(e, u->dtype, x, distance));
  if (p->team > WARP) {
    Value lane = emit_index_with(e, "remui", l->rank, WARP), warp = emit_index_with(e, "divui", l->rank, WARP), first = schedule_compare(e, "eq", lane, 0);
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
static Value combine(Launch *l, const Unit *u, Value x) {
  Value v = l->p->columns ? combine_columns(l, u, x) : combine_row(l, u, x);
  v.varies = false;
  return v;
}

// ---------------------------------------------------------------------------------------------------------------------
// A pass over the elements

static Value term(Launch *l, const Unit *u) {
  Emitter *e = l->e;
  IndexMap domain = index_map_domain(l->p->r.k);
  Value x = expression(e, u->operand, &domain);
  if (u->kind != UNIT_M2) return x;
  Value d = emit_binary(e, NN_OP_sub, u->dtype, x, l->value[u->mean]);
  return emit_binary(e, NN_OP_mul, u->dtype, d, d);
}

typedef struct Pass { int n, unit[MAX_UNITS]; TypeName types[MAX_UNITS]; bool write; } Pass;

static void visit(Launch *l, const Pass *pass, Value *acc) {
  const Reduce *r = &l->p->r;
  for (int i = 0; i < pass->n; i++) acc[i] = reduce_combine(l->e, &r->units[pass->unit[i]], acc[i], term(l, &r->units[pass->unit[i]]));
  if (!pass->write) return;
  if (l->active.id >= 0) if_begin(l->e, l->active);
  reduce_write_domain_results(l->e, r->k);
  if (l->active.id >= 0) if_end(l->e, 0, NULL, NULL, NULL, NULL);
}

static Value splat_bit(Emitter *e, Value bit) { return emit(e, e->depth, "vector.broadcast %%v%d : i1 to vector<%dxi1>", bit.id, e->lanes); }

static void visit_resident(Launch *l, const Pass *pass, Value *acc) {
  Emitter *e = l->e;
  const Reduce *r = &l->p->r;
  for (int j = 0; j < l->p->resident; j++) {
    e->tile = j;
    for (int i = 0; i < pass->n; i++) {
      const Unit *u = &r->units[pass->unit[i]];
      Value x = term(l, u);
      if (l->valid[j].id >= 0) x = emit_select(e, splat_bit(e, l->valid[j]), x, reduce_identity(e, u), u->dtype);
      acc[i] = reduce_combine(e, u, acc[i], x);
    }
  }
  for (int j = 0; pass->write && j < l->p->resident; j++) {
    e->tile = j;
    if (l->active.id >= 0) if_begin(e, l->active);
    if (l->valid[j].id >= 0) if_begin(e, l->valid[j]);
    reduce_write_domain_results(e, r->k);
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
      l->valid[j] = schedule_compare(e, "ult", at, vectors);
      at = emit_index_with(e, "minui", at, vectors - 1);
    }
    e->vector_index[j] = (p->lanes > 1 ? emit_index_with(e, "muli", at, p->lanes) : at).id;
  }
  e->index_depth[p->r.vector_group] = 0;
}

static void vector_loop(Launch *l, const Pass *pass, Value *acc) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  Value args[MAX_UNITS];
  Value first = emit_index(e, "addi", l->from, emit_index_with(e, "muli", l->rank, p->lanes));
  Value i = for_begin(e, first, l->to, (int64_t)p->team * p->lanes, pass->n, acc, pass->types, args);
  e->vector_index[0] = i.id;
  e->index_depth[p->r.vector_group] = e->depth;
  visit(l, pass, args);
  for_end(e, pass->n, args, pass->types, acc);
}

static void run_pass(Launch *l, const bool *active, bool write) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  const Reduce *r = &p->r;
  Pass pass = {.write = write};
  Value acc[MAX_UNITS], args[MAX_UNITS];
  for (int u = 0; u < r->n_units; u++) {
    if (!active[u]) continue;
    acc[pass.n] = reduce_identity(e, &r->units[u]);
    acc[pass.n].varies = true;
    pass.types[pass.n] = vector_type(e, r->units[u].dtype);
    pass.unit[pass.n++] = u;
  }
  if (p->resident) {
    visit_resident(l, &pass, acc);
  } else if (!p->columns && r->row_extent == 1) {
    vector_loop(l, &pass, acc);
  } else {
    Value low = p->columns ? emit_index(e, "addi", l->low, l->rank) : l->low;
    Value row = for_begin(e, low, l->high, p->columns ? p->team : 1, pass.n, acc, pass.types, args);
    emit_split_index(e, row, r->n_rows, r->rows);
    if (p->columns) visit(l, &pass, args);
    else vector_loop(l, &pass, args);
    for_end(e, pass.n, args, pass.types, acc);
  }
  for (int i = 0; i < pass.n; i++) l->value[pass.unit[i]] = combine(l, &r->units[pass.unit[i]], acc[i]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Direct: everything in one launch

static bool has_kept_results(const Kernel *k) {
  for (int i = 0; i < k->n_results; i++)
    if (kernel_is_kept_shaped(k, &k->result_type[i])) return true;
  return false;
}

// By the first thread of each team; the others must have read what a result may lie over.
static void write_kept_results(Launch *l) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  if (!has_kept_results(p->r.k)) return;
  if (p->columns || p->team > WARP) schedule_barrier(e);
  else schedule_warp_barrier(e);
  Value first = schedule_compare(e, "eq", l->rank, 0);
  if (l->active.id >= 0) first = emit(e, e->depth, "arith.andi %%v%d, %%v%d : i1", first.id, l->active.id);
  if_begin(e, first);
  reduce_emit_kept_results(e, &p->r, 1);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

static void whole_range(Launch *l) {
  l->low = emit_i64(l->e, 0);
  l->high = emit_i64(l->e, l->p->r.row_extent);
  l->from = emit_i64(l->e, 0);
  l->to = emit_i64(l->e, l->p->r.vector_extent);
}

static void emit_direct(CudaModule *m, const Plan *p, HostKernel *out) {
  Emitter e;
  Launch l;
  const Reduce *r = &p->r;
  int64_t count = r->row_extent * (p->columns ? 1 : r->vector_extent);
  begin_launch(&l, &e, m, p, "all passes", 0, 1, out);
  whole_range(&l);
  block_begin(&e);   // a scope for what depends on the thread, so that nothing is hoisted over a barrier
  if (p->resident) bind_resident(&l);
  IndexMap kept = index_map_kept(r->k);
  for (int pass = 0; pass < r->n_passes; pass++) {
    bool active[MAX_UNITS];
    for (int u = 0; u < r->n_units; u++) active[u] = r->units[u].level == pass;
    run_pass(&l, active, pass == r->write_pass);
    for (int u = 0; u < r->n_units; u++) {
      if (!active[u]) continue;
      const Unit *unit = &r->units[u];
      if (unit->kind == UNIT_MEAN || unit->kind == UNIT_M2) l.value[u] = reduce_divide(&e, unit, l.value[u], count);
      reduce_bind(&e, unit, &kept, l.value[u]);
    }
  }
  write_kept_results(&l);
  block_end(&e);
  emitter_end(&e);
}

// ---------------------------------------------------------------------------------------------------------------------
// Chunked: partial results in one launch, their combination in the next

static int workspace_values(const Reduce *r, int stage, WorkspaceValue *out) {
  int n = 0;
  for (int u = 0; u < r->n_units; u++)
    if (r->units[u].stage < stage) out[n++] = (WorkspaceValue){r->units[u].value.ptr, r->units[u].dtype, r->units[u].combined};
  return n;
}

static Value kept_index(Launch *l, Value row) {
  const Plan *p = l->p;
  if (!p->columns) return row;
  Value lane = {l->e->vector_index[0], l->e->index_depth[p->r.vector_group], true};
  return emit_index(l->e, "addi", emit_index_with(l->e, "muli", row, p->r.vector_extent), lane);
}

static Value partial_index(Launch *l, Value chunk) { return kept_index(l, emit_index(l->e, "addi", emit_index_with(l->e, "muli", l->outer, l->p->n_chunks), chunk)); }

static Value chunk_count(Launch *l, Value chunk) {
  const Plan *p = l->p;
  Emitter *e = l->e;
  int64_t total = p->chunk_vector ? p->r.vector_extent : p->r.row_extent, per = p->columns || p->chunk_vector ? 1 : p->r.vector_extent;
  Value start = emit_index_with(e, "muli", chunk, p->chunk_size), end = emit_index_with(e, "minui", emit_index_with(e, "addi", start, p->chunk_size), total);
  return emit_index_with(e, "muli", emit_index(e, "subi", end, start), per);
}

static void emit_partials(CudaModule *m, const Plan *p, int stage, HostKernel *out) {
  Emitter e;
  Launch l;
  const Reduce *r = &p->r;
  WorkspaceValue known[MAX_UNITS];
  bool sums[MAX_UNITS], squares[MAX_UNITS], any_squares = false, write = stage == r->n_stages - 1 && r->has_domain_result;
  begin_launch(&l, &e, m, p, "partial results of chunks", 2 * stage, p->n_chunks, out);
  e.workspace = known;
  e.n_workspace = workspace_values(r, stage, known);
  whole_range(&l);
  block_begin(&e);
  Value start = emit_index_with(&e, "muli", l.chunk, p->chunk_size), end = emit_index_with(&e, "addi", start, p->chunk_size);
  if (p->chunk_vector) l.from = start, l.to = emit_index_with(&e, "minui", end, r->vector_extent);
  else l.low = start, l.high = emit_index_with(&e, "minui", end, r->row_extent);
  for (int u = 0; u < r->n_units; u++) {
    bool here = r->units[u].stage == stage, m2 = r->units[u].kind == UNIT_M2;
    sums[u] = here && !m2;
    squares[u] = here && m2;
    any_squares |= squares[u];
  }
  run_pass(&l, sums, write && !any_squares);
  Value count = chunk_count(&l, l.chunk);
  for (int u = 0; u < r->n_units; u++) {
    if (!sums[u] || r->units[u].kind != UNIT_MEAN) continue;
    l.value[u] = emit_binary(&e, NN_OP_div, r->units[u].dtype, l.value[u], reduce_splat_count(&e, r->units[u].dtype, count));
  }
  if (any_squares) run_pass(&l, squares, write);
  Value first = schedule_compare(&e, "eq", l.rank, 0);
  if (l.active.id >= 0) first = emit(&e, e.depth, "arith.andi %%v%d, %%v%d : i1", first.id, l.active.id);
  if_begin(&e, first);
  Value at = partial_index(&l, l.chunk);
  for (int u = 0; u < r->n_units; u++)
    if (sums[u] || squares[u]) emit_store_workspace(&e, r->units[u].dtype, r->units[u].partial, at, l.value[u], !p->columns);
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  block_end(&e);
  emitter_end(&e);
}

// Sums over the chunks what `part` makes of each; the team shares them out.
static Value over_chunks(Launch *l, int unit, bool square) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  const Unit *u = &p->r.units[unit];
  Value acc = reduce_identity(e, &(Unit){.kind = u->kind == UNIT_MAX ? UNIT_MAX : UNIT_SUM, .dtype = u->dtype}), arg;
  acc.varies = true;
  TypeName type = vector_type(e, u->dtype);
  Value i = for_begin(e, l->rank, emit_i64(e, p->n_chunks), p->team, 1, &acc, &type, &arg);
  Value at = partial_index(l, i), x = emit_load_workspace(e, u->dtype, square ? p->r.units[u->mean].partial : u->partial, at, !p->columns);
  if (square) {
    Value d = emit_binary(e, NN_OP_sub, u->dtype, x, l->value[u->mean]);
    x = emit_binary(e, NN_OP_mul, u->dtype, d, d);
  }
  if (square || u->kind == UNIT_MEAN) x = emit_binary(e, NN_OP_mul, u->dtype, x, reduce_splat_count(e, u->dtype, chunk_count(l, i)));
  // In rows a lane holds a copy: it must count once.
  Value sum = reduce_combine(e, u, arg, x);
  for_end(e, 1, &sum, &type, &acc);
  return acc;
}

static void emit_combination(CudaModule *m, const Plan *whole, int stage, HostKernel *out) {
  Emitter e;
  Launch l;
  Plan p = *whole;
  if (!p.columns) p.lanes = 1, p.r.lanes = 1, p.team = WARP, p.per_block = 4;   // a warp for each kept element
  const Reduce *r = &p.r;
  WorkspaceValue known[MAX_UNITS];
  bool is_last = stage == r->n_stages - 1;
  int64_t count = r->row_extent * (p.columns ? 1 : r->vector_extent);
  begin_launch(&l, &e, m, &p, "combination", 2 * stage + 1, 1, out);
  e.workspace = known;
  e.n_workspace = workspace_values(r, stage, known);
  block_begin(&e);
  IndexMap kept = index_map_kept(r->k);
  for (int u = 0; u < r->n_units; u++) {
    const Unit *unit = &r->units[u];
    if (unit->stage != stage) continue;
    Value x = combine(&l, unit, over_chunks(&l, u, false));
    if (unit->kind == UNIT_M2) x = emit_binary(&e, NN_OP_add, unit->dtype, x, combine(&l, unit, over_chunks(&l, u, true)));
    if (unit->kind == UNIT_MEAN || unit->kind == UNIT_M2) x = reduce_divide(&e, unit, x, count);
    x.depth = e.depth;
    l.value[u] = x;
    reduce_bind(&e, unit, &kept, x);
  }
  if (!is_last) {
    Value first = schedule_compare(&e, "eq", l.rank, 0);
    if (l.active.id >= 0) first = emit(&e, e.depth, "arith.andi %%v%d, %%v%d : i1", first.id, l.active.id);
    if_begin(&e, first);
    Value at = kept_index(&l, l.outer);
    for (int u = 0; u < r->n_units; u++)
      if (r->units[u].stage == stage) emit_store_workspace(&e, r->units[u].dtype, r->units[u].combined, at, l.value[u], !p.columns);
    if_end(&e, 0, NULL, NULL, NULL, NULL);
  } else {
    // Reductions of earlier stages are read from the workspace.
    write_kept_results(&l);
  }
  block_end(&e);
  emitter_end(&e);
}

// ---------------------------------------------------------------------------------------------------------------------
// Only the combination: convolutions leave the partial results

static int64_t plan_combine(Plan *p, const Kernel *k, int64_t rows, int64_t from) {
  plan(k, p);
  host_require(p->columns && p->r.outer_extent == 1 && p->r.n_stages == 1, "sums that are not by channel");
  p->chunked = true;
  p->chunk_size = rows;
  p->n_chunks = ceil_div(p->r.row_extent, rows);
  int64_t pitch = ceil_div(p->r.vector_extent * p->n_chunks * 4, 64) * 64;
  p->team = power_of_two(p->n_chunks, BLOCK / p->per_block);
  if (p->team * p->per_block < WARP) p->team = WARP / p->per_block;
  p->bytes = from;
  for (int i = 0; i < p->r.n_units; i++, p->bytes += pitch) p->r.units[i].partial = p->bytes;
  return pitch;
}

int64_t schedule_combine_plan(const Kernel *k, int64_t rows, int64_t from, int64_t *pitch) {
  Plan p;
  int64_t apart = plan_combine(&p, k, rows, from);
  if (pitch) *pitch = apart;
  return p.bytes;
}

void schedule_combine(CudaModule *m, const Kernel *k, int64_t rows, int64_t from, HostKernel *out) {
  Plan p;
  plan_combine(&p, k, rows, from);
  emit_combination(m, &p, 0, out);
}

void schedule_reduce(CudaModule *m, const Kernel *k, HostKernel *out) {
  Plan p;
  plan(k, &p);
  out->workspace_bytes = p.bytes;
  if (!p.chunked) {
    emit_direct(m, &p, out);
    return;
  }
  for (int stage = 0; stage < p.r.n_stages; stage++) {
    emit_partials(m, &p, stage, out);
    emit_combination(m, &p, stage, out);
  }
}

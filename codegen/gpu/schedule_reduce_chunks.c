// Reductions whose elements are cut into chunks: blocks leave partial results in the workspace, and the last of them
// combines them; or only the combination, where a convolution has left them (see schedule_reduce.c).
#include "codegen/gpu/schedule_reduce.h"
#include "support/integers.h"

static Value kept_index(Launch *l, Value row) {
  const Plan *p = l->p;
  if (!p->columns) return row;
  Value lane = {l->e->vector_index[0], l->e->index_depth[p->r.vector_group], true};
  return emit_index(l->e, "addi", emit_index_with(l->e, "muli", row, p->r.vector_extent), lane);
}

static Value partial_index(Launch *l, Value chunk) {
  return kept_index(l, emit_index(l->e, "addi", emit_index_with(l->e, "muli", l->outer, l->p->n_chunks), chunk));
}

static Value chunk_count(Launch *l, Value chunk) {
  const Plan *p = l->p;
  Emitter *e = l->e;
  int64_t total = p->chunk_vector ? p->r.vector_extent : p->r.row_extent,
          per = p->columns || p->chunk_vector ? 1 : p->r.vector_extent;
  Value start = emit_index_with(e, "muli", chunk, p->chunk_size),
        end = emit_index_with(e, "minui", emit_index_with(e, "addi", start, p->chunk_size), total);
  return emit_index_with(e, "muli", emit_index(e, "subi", end, start), per);
}

static Value own_count(Launch *l, NnDtype dtype) { return reduce_splat_count(l->e, dtype, chunk_count(l, l->chunk)); }

static void emit_partials(Launch *l, int stage) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  const Reduce *r = &p->r;
  bool here[MAX_UNITS], write = stage == r->n_stages - 1 && r->has_domain_result;
  launch_whole_range(l);
  Value start = emit_index_with(e, "muli", l->chunk, p->chunk_size),
        end = emit_index_with(e, "addi", start, p->chunk_size);
  if (p->chunk_vector) l->from = start, l->to = emit_index_with(e, "minui", end, r->vector_extent);
  else l->low = start, l->high = emit_index_with(e, "minui", end, r->row_extent);
  for (int u = 0; u < r->n_units; u++) here[u] = r->units[u].stage == stage;
  launch_pass(l, here, write, own_count);
  launch_if_first(l);
  Value at = partial_index(l, l->chunk);
  for (int u = 0; u < r->n_units; u++)
    if (here[u]) emit_store_workspace(e, r->units[u].dtype, r->units[u].partial, at, l->value[u], !p->columns);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

// Opens an if: the block that is the last of its chunks to come here. Each counts itself when all its threads have
// written, in a counter that lasts from launch to launch and that the last one sets back to zero (as NVIDIA's example
// threadFenceReduction does): launches of a function must follow each other, as those of the one lane that computes do,
// with a module for each instance of a program. A fence on either side: the atomic itself orders nothing.
static void if_last(Launch *l) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  const char *scope = e->module->target.gpu->device_scope;
  function_add_array(&e->function, "_done", 1, ENOUGH_BLOCKS, "i32");
  function_add_array(&e->function, "_last", 3, 1, "i32");
  emit_effect(e, "llvm.fence", NO_VALUES, "syncscope(\"%s\") acq_rel", scope);
  schedule_barrier(e);
  Value most = emit_i32(e, (int32_t)p->n_chunks - 1), zero = emit_i64(e, 0),
        thread = p->columns ? emit_index(e, "ori", l->rank, l->column) : schedule_number(e, GPU_THREAD_X);
  if_begin(e, emit_index_compare_with(e, "eq", thread, 0));
  Value counters = emit(e, 0, "llvm.mlir.addressof", NO_VALUES, "$_done : !llvm.ptr<1>"),
        group = emit_index_with(e, "divui", schedule_number(e, GPU_BLOCK_X), p->n_chunks),
        counter = emit(e, e->depth, "llvm.getelementptr", VALUES(counters.id, group.id),
                       "%%[%%] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32"),
        came = emit(e, e->depth, "llvm.atomicrmw", VALUES(counter.id, most.id),
                    "uinc_wrap %%, %% syncscope(\"%s\") monotonic : !llvm.ptr<1>, i32", scope);
  emit_effect(e, "llvm.store", VALUES(came.id, schedule_shared(e, "_last", zero, "i32").id),
              "%%, %% : i32, !llvm.ptr<3>");
  if_end(e, 0, NULL, NULL, NULL, NULL);
  schedule_barrier(e);
  came = emit(e, e->depth, "llvm.load", VALUES(schedule_shared(e, "_last", zero, "i32").id),
              "%% : !llvm.ptr<3> -> i32");
  if_begin(e, emit(e, e->depth, "arith.cmpi", VALUES(came.id, most.id), "eq, %%, %% : i32"));
  emit_effect(e, "llvm.fence", NO_VALUES, "syncscope(\"%s\") acq_rel", scope);
}
// Which partial results are joined, and of how many elements those are; total 0: `count` says.
typedef struct Parts {
  Value first, end;
  int64_t total;
  Value count;
} Parts;

// Sums over the chunks; the team shares them out. Means are differences from one number, which is `origin` unless they
// were left so: large ones would lose what sets them apart.
static Value over_chunks(Launch *l, const Parts *parts, int unit, bool square, const Value *origin) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  const Unit *u = &p->r.units[unit];
  Value acc = reduce_identity(e, &(Unit){.kind = u->kind == UNIT_MAX ? UNIT_MAX : UNIT_SUM, .dtype = u->dtype}), arg;
  acc.varies = true;
  TypeName type = vector_type(e, u->dtype);
  Value first = parts->total ? l->rank : emit_index(e, "addi", parts->first, l->rank);
  Value i = for_begin(e, first, parts->end, p->team, 1, &acc, &type, &arg);
  Value at = partial_index(l, i),
        x = emit_load_workspace(e, u->dtype, square ? p->r.units[u->mean].partial : u->partial, at, !p->columns);
  if ((u->kind == UNIT_MEAN || square) && !p->relative) x = emit_binary(e, NN_OP_sub, u->dtype, x, *origin);
  if (square) {
    Value d = emit_binary(e, NN_OP_sub, u->dtype, x, l->value[u->mean]);
    x = emit_binary(e, NN_OP_mul, u->dtype, d, d);
  }
  if (square || u->kind == UNIT_MEAN)
    x = emit_binary(e, NN_OP_mul, u->dtype, x, reduce_splat_count(e, u->dtype, chunk_count(l, i)));
  // In rows a lane holds a copy: it must count once.
  Value sum = reduce_combine(e, u, arg, x);
  for_end(e, 1, &sum, &type, &acc);
  return acc;
}

static Value divide_by_count(Launch *l, const Unit *u, Value sum, const Parts *parts) {
  if (parts->total) return reduce_divide(l->e, u, sum, parts->total);
  return emit_binary(l->e, NN_OP_div, u->dtype, sum, reduce_splat_count(l->e, u->dtype, parts->count));
}

// A unit of partial results that are joined: M2 the sum of squared differences, not their mean.
static Value join_parts(Launch *l, const Parts *parts, int unit, const Value *origin) {
  Emitter *e = l->e;
  const Unit *u = &l->p->r.units[unit];
  Value x = launch_combine(l, u, over_chunks(l, parts, unit, false, origin));
  if (u->kind == UNIT_M2)
    x = emit_binary(e, NN_OP_add, u->dtype, x, launch_combine(l, u, over_chunks(l, parts, unit, true, origin)));
  if (u->kind == UNIT_MEAN) x = divide_by_count(l, u, x, parts);
  x.depth = e->depth;
  return l->value[unit] = x;   // M2, which comes next, takes the difference
}

// The parts of a stage become its results, or what the next stage reads. l->origin: of a mean, where parts are
// relative.
static void combine(Launch *l, int stage) {
  Emitter *e = l->e;
  const Plan *p = l->p;
  const Reduce *r = &p->r;
  Value origin = {0}, final[MAX_UNITS];
  bool is_last = stage == r->n_stages - 1;
  Parts all = {.first = emit_i64(e, 0),
               .end = emit_i64(e, p->n_chunks),
               .total = r->row_extent * (p->columns ? 1 : r->vector_extent)};
  all.first.depth = e->depth;   // read here, not before other blocks have written
  IndexMap kept = index_map_kept(r->k);
  for (int u = 0; u < r->n_units; u++) {
    const Unit *unit = &r->units[u];
    if (unit->stage != stage) continue;
    if (unit->kind == UNIT_MEAN)
      origin = p->relative
                   ? l->origin[u]
                   : emit_load_workspace(e, unit->dtype, unit->partial, partial_index(l, all.first), !p->columns);
    final[u] = join_parts(l, &all, u, &origin);
    if (unit->kind == UNIT_M2) final[u] = l->value[u] = divide_by_count(l, unit, final[u], &all);
    if (unit->kind == UNIT_MEAN) final[u] = emit_binary(e, NN_OP_add, unit->dtype, origin, final[u]);
    reduce_bind(e, unit, &kept, final[u]);
  }
  if (is_last) {   // reductions of earlier stages are read from the workspace
    launch_write_kept_results(l);
    return;
  }
  launch_if_first(l);
  Value at = kept_index(l, l->outer);
  for (int u = 0; u < r->n_units; u++)
    if (r->units[u].stage == stage)
      emit_store_workspace(e, r->units[u].dtype, r->units[u].combined, at, final[u], !p->columns);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

// A lane of a row holds a copy of what all have.
static void use_one_lane(Launch *l, Plan *narrow) {
  Emitter *e = l->e;
  int lanes = l->p->lanes;
  if (l->p->columns || lanes == 1) return;
  *narrow = *l->p;
  narrow->lanes = narrow->r.lanes = 1;
  for (int u = 0; u < narrow->r.n_units; u++)
    if (narrow->r.units[u].kind == UNIT_MEAN)
      l->origin[u] = emit_take_lanes(e, l->origin[u], element_type(narrow->r.units[u].dtype), lanes, 0, 1, 1);
  l->p = narrow;
  schedule_forget(e, 1);
}

static void emit_stage(GpuModule *m, const Plan *p, int stage, EmittedKernel *out) {
  Emitter e;
  Launch l;
  Plan narrow;
  WorkspaceValue known[MAX_UNITS];
  launch_begin(&l, &e, m, p, "partial results of chunks, and their combination", stage, p->n_chunks, out);
  e.workspace = known;
  e.n_workspace = reduce_workspace_values(&p->r, stage, known);
  block_begin(&e);
  emit_partials(&l, stage);
  if_last(&l);
  use_one_lane(&l, &narrow);
  combine(&l, stage);
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  block_end(&e);
  emitter_end(&e);
}

void schedule_reduce_chunks(GpuModule *m, const Plan *p, EmittedKernel *out) {
  for (int stage = 0; stage < p->r.n_stages; stage++) emit_stage(m, p, stage, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// Only the combination: convolutions leave the partial results

static int64_t plan_combine(Plan *p, const Kernel *k, int64_t rows, int64_t from) {
  plan_reduce(k, p);
  require_promise(p->columns && p->r.outer_extent == 1 && p->r.n_stages == 1, "sums that are not by channel");
  p->chunked = true;
  p->relative = false;
  p->chunk_size = rows;
  p->n_chunks = divide_up(p->r.row_extent, rows);
  int64_t pitch = divide_up(p->r.vector_extent * p->n_chunks * 4, 64) * 64;
  p->team = plan_power_of_two(p->n_chunks, BLOCK / p->per_block);
  if (p->team * p->per_block < WARP) p->team = WARP / p->per_block;
  p->bytes = from;
  for (int i = 0; i < p->r.n_units; i++, p->bytes += pitch) p->r.units[i].partial = p->bytes;
  return pitch;
}

// Many parts are joined by several blocks, FOLD by each, and what those leave by the last of them.
static bool plan_fold(Plan *folded, const Plan *parts) {
  enum { MANY = 96, FOLD = 64 };
  if (parts->n_chunks <= MANY || divide_up(parts->width, parts->per_block) > ENOUGH_BLOCKS) return false;   // counters
  plan_combine(folded, parts->r.k, parts->chunk_size * FOLD, parts->bytes);
  folded->team = parts->team;
  return true;
}

int64_t schedule_combine_plan(const Kernel *k, int64_t rows, int64_t from, int64_t *pitch) {
  Plan parts, folded;
  int64_t apart = plan_combine(&parts, k, rows, from);
  if (pitch) *pitch = apart;
  return plan_fold(&folded, &parts) ? folded.bytes : parts.bytes;
}

// This block's share of the parts becomes one of `folded`.
static void fold(Launch *l, const Plan *parts, const Plan *folded) {
  Emitter *e = l->e;
  int64_t each = folded->chunk_size / parts->chunk_size;
  Parts share = {.count = chunk_count(l, l->chunk), .first = emit_index_with(e, "muli", l->chunk, each)};
  share.end = emit_index_with(e, "minui", emit_index_with(e, "addi", share.first, each), parts->n_chunks);
  Value origin = {0}, final[MAX_UNITS];
  l->p = parts;
  for (int u = 0; u < parts->r.n_units; u++) {
    const Unit *unit = &parts->r.units[u];
    if (unit->kind == UNIT_MEAN)
      origin = emit_load_workspace(e, unit->dtype, unit->partial, partial_index(l, share.first), false);
    final[u] = join_parts(l, &share, u, &origin);
    if (unit->kind == UNIT_MEAN) final[u] = emit_binary(e, NN_OP_add, unit->dtype, origin, final[u]);
  }
  l->p = folded;
  launch_if_first(l);
  Value at = partial_index(l, l->chunk);
  for (int u = 0; u < folded->r.n_units; u++)
    emit_store_workspace(e, folded->r.units[u].dtype, folded->r.units[u].partial, at, final[u], false);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

void schedule_combine(GpuModule *m, const Kernel *k, int64_t rows, int64_t from, EmittedKernel *out) {
  Plan parts, folded;
  Emitter e;
  Launch l;
  plan_combine(&parts, k, rows, from);
  bool folds = plan_fold(&folded, &parts);
  const Plan *p = folds ? &folded : &parts;
  launch_begin(&l, &e, m, p, "combination", 1, folds ? folded.n_chunks : 1, out);
  block_begin(&e);
  if (folds) {
    fold(&l, &parts, &folded);
    if_last(&l);
  }
  combine(&l, 0);
  if (folds) if_end(&e, 0, NULL, NULL, NULL, NULL);
  block_end(&e);
  emitter_end(&e);
}

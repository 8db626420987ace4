// The plan of a row or column kernel on a GPU: teams, chunks, and which reductions share a pass.
#include "codegen/gpu/schedule_reduce.h"
#include "support/integers.h"

int plan_power_of_two(int64_t n, int most) {
  int p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

static void plan_teams(Plan *p) {
  const Reduce *r = &p->r;
  p->columns = !r->lanes_on_reduced;
  if (p->columns) {
    p->width = r->vector_extent / p->lanes;
    p->per_block = plan_power_of_two(p->width, WARP);
    p->team = plan_power_of_two(r->row_extent, BLOCK / p->per_block);
    if (p->team * p->per_block < WARP) p->team = WARP / p->per_block;
    return;
  }
  p->width = 1;
  int64_t vectors = r->vector_extent / p->lanes, each = r->row_extent * vectors;
  int most = MAX_RESIDENT_ELEMENTS / p->lanes < MAX_RESIDENT ? MAX_RESIDENT_ELEMENTS / p->lanes : MAX_RESIDENT;
  p->team = each <= most * WARP ? WARP : BLOCK;
  p->per_block = p->team == WARP ? 4 : 1;
  if (r->row_extent == 1 && divide_up(vectors, p->team) <= most) p->resident = (int)divide_up(vectors, p->team);
  p->unroll = p->lanes > 1 ? 2 : 4;
  int64_t turn = (int64_t)p->team * p->unroll;
  if (!p->resident && r->row_extent == 1) p->unrolled = vectors / turn * turn * p->lanes;
}

static void plan_chunks(Plan *p) {
  Reduce *r = &p->r;
  int64_t blocks = divide_up(p->teams, p->per_block),
          total = p->columns || r->row_extent > 1 ? r->row_extent : r->vector_extent;
  p->chunk_vector = !p->columns && r->row_extent == 1;
  int64_t least = p->columns ? 8 * p->team : p->chunk_vector ? (int64_t)8 * BLOCK * p->lanes : 4;
  int64_t chunks = smaller(ENOUGH_BLOCKS / (blocks > 0 ? blocks : 1), total / least);
  p->chunked = r->k->kind == KERNEL_COLUMN && r->n_units && chunks > 1;
  p->n_chunks = 1;
  p->chunk_size = total;
  if (!p->chunked) return;
  p->resident = 0;
  p->unrolled = 0;
  p->chunk_size = divide_up(total, chunks);
  if (p->chunk_vector) p->chunk_size = divide_up(p->chunk_size, p->lanes) * p->lanes;
  p->n_chunks = divide_up(total, p->chunk_size);
  int64_t kept = r->outer_extent * p->width * (p->columns ? p->lanes : 1);
  for (int i = 0; i < r->n_units; i++) {
    Unit *u = &r->units[i];
    int64_t bytes = kept * nn_dtype_bytes(u->dtype);
    u->partial = p->bytes;
    p->bytes += divide_up(bytes * p->n_chunks, 64) * 64;
    u->combined = p->bytes;   // for the stages to come
    if (r->n_stages > 1) p->bytes += divide_up(bytes, 64) * 64;
  }
}

static MlirValue behind_views(MlirValue v) {
  while (!mlirValueIsABlockArgument(v) && nn_op_info(nn_op_of(nn_value_def(v)))->kind == NN_KIND_VIEW)
    v = mlirOperationGetOperand(nn_value_def(v), 0);
  return v;
}

static MlirOperation op_behind(MlirValue v, NnOp kind) {
  return mlirValueIsABlockArgument(v) || nn_op_of(nn_value_def(v)) != kind ? nn_null_operation() : nn_value_def(v);
}

// The unit whose maximum m stands in exp(x - m), x being what it is the maximum of; -1: it is no such sum.
static int maximum_of(const Reduce *r, const Unit *u) {
  MlirOperation exp = u->kind == UNIT_SUM && (u->dtype == NN_F32 || u->dtype == NN_F64)
                          ? op_behind(u->operand, NN_OP_exp)
                          : nn_null_operation();
  if (mlirOperationIsNull(exp) || nn_dtype_is_narrow(nn_value_dtype(u->operand))) return -1;
  MlirOperation difference = op_behind(mlirOperationGetOperand(exp, 0), NN_OP_sub);
  if (mlirOperationIsNull(difference)) return -1;
  for (int m = 0; m < r->n_units; m++)
    if (r->units[m].kind == UNIT_MAX && r->units[m].level + 1 == u->level &&
        mlirValueEqual(mlirOperationGetOperand(difference, 0), r->units[m].operand) &&
        mlirValueEqual(behind_views(mlirOperationGetOperand(difference, 1)), r->units[m].value))
      return m;
  return -1;
}

static void join_units(Plan *p) {
  bool taken[MAX_UNITS] = {false};
  for (int i = 0; i < p->r.n_units; i++) {
    const Unit *u = &p->r.units[i];
    int with = p->resident ? -1 : u->kind == UNIT_M2 ? u->mean : p->columns || p->chunked ? -1 : maximum_of(&p->r, u);
    p->joined[i] = with >= 0 && !taken[with] ? with : -1;
    if (p->joined[i] >= 0) taken[with] = true;
  }
}

int plan_companion(const Plan *p, int unit) {
  for (int i = 0; i < p->r.n_units; i++)
    if (p->joined[i] == unit) return i;
  return -1;
}

// Eight elements of two bytes where that leaves no thread without work, and no more sums in registers than four of f32:
// rows, and plain sums of columns.
static int choose_lanes(const Kernel *k, const Reduce *r) {
  int wide = schedule_map_lanes(k, &r->nest), lanes = schedule_lanes(k, &r->nest);
  if (wide <= lanes || r->vector_extent % wide) return lanes;
  if (r->lanes_on_reduced)
    return r->row_extent == 1 && (r->vector_extent % (wide * WARP) == 0 || r->vector_extent >= 8 * wide * WARP) ? wide
                                                                                                                : lanes;
  if (r->has_domain_result || r->n_units > 2 || r->vector_extent % (wide * WARP)) return lanes;
  for (int i = 0; i < r->n_units; i++)
    if (r->units[i].kind == UNIT_MEAN || r->units[i].kind == UNIT_M2 || r->units[i].dtype == NN_F64) return lanes;
  return wide;
}

void plan_reduce(const Kernel *k, Plan *p) {
  *p = (Plan){0};
  reduce_plan_values(k, 1, &p->r);
  Reduce *r = &p->r;
  p->lanes = choose_lanes(k, r);
  if (r->vector_extent % p->lanes) p->lanes = 1;
  r->lanes = p->lanes;
  plan_teams(p);
  p->teams = r->outer_extent * p->width;
  plan_chunks(p);
  join_units(p);
  p->relative = p->chunked;
}

int64_t schedule_reduce_workspace(const Kernel *k) {
  Plan p;
  plan_reduce(k, &p);
  // For the sums of parts of all tensors that are added up along with this one (group.h).
  return p.bytes && schedule_is_total(k) && p.bytes < 8 * GROUP_TOTAL_PARTS ? 8 * GROUP_TOTAL_PARTS : p.bytes;
}

// A row that stays in registers is computed once, one in shared memory read once; a maximum and a sum of exponentials
// are one pass.
CostWork schedule_reduce_work(GpuShared shared, MlirOperation call, const Kernel *k) {
  Plan p;
  plan_reduce(k, &p);
  plan_stash(shared, &p);
  CostRules rules = {.unit = COST_GPU, .computes_once = p.resident, .reads_once = p.resident || p.n_stashed};
  for (int u = 0; u < p.r.n_units && rules.n_joined < 4; u++)
    if (p.joined[u] >= 0 && p.r.units[u].kind == UNIT_SUM) rules.joined[rules.n_joined++] = p.r.units[u].value;
  CostWork w = cost_work(call, k->func, &rules);
  if (!p.chunked) return w;
  w.launches = p.r.n_stages;
  w.bytes += 2 * (double)p.bytes;   // written once and read once
  return w;
}

// Row and column kernels for all targets: the reductions of a body, their levels and axes, and what is done with a sum.
#include <stdlib.h>

#include "codegen/kernel/reduce.h"
#include "support/alloc.h"

typedef struct Level {
  const void *value;
  int level, stage;
} Level;
typedef struct Levels {
  int n;
  Level *items;
} Levels;

static Level level_of(const Levels *l, MlirValue v) {
  for (int i = 0; i < l->n; i++)
    if (l->items[i].value == v.ptr) return l->items[i];
  return (Level){v.ptr, 0, 0};
}

static void level_add(Levels *l, MlirValue v, int level, int stage) {
  *ARRAY_ADD(l->items, l->n) = (Level){v.ptr, level, stage};
}

static void add_unit(Reduce *r, UnitKind kind, MlirOperation op, int result, Level operand) {
  require_promise(r->n_units < MAX_UNITS, "too many reductions in a kernel");
  MlirValue value = mlirOperationGetResult(op, result);
  Unit *u = &r->units[r->n_units++];
  *u = (Unit){.kind = kind,
              .dtype = nn_dtype_wide(nn_value_dtype(value)),
              .value = value,
              .operand = mlirOperationGetOperand(op, 0),
              .level = operand.level,
              .stage = operand.stage};
  if (kind == UNIT_M2) {
    u->level++;
    u->mean = r->n_units - 2;
  }
}

static void find_levels(Reduce *r, Levels *levels) {
  MlirBlock body = nn_function_body(r->k->func);
  NN_FOREACH_OP (op, body) {
    NnOp kind = nn_op_of(op);
    if (kind == NN_OP_NONE) continue;
    Level in = {0};
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
      Level x = level_of(levels, mlirOperationGetOperand(op, i));
      if (x.level > in.level) in.level = x.level;
      if (x.stage > in.stage) in.stage = x.stage;
    }
    if (kind == NN_OP_moments) {
      add_unit(r, UNIT_MEAN, op, 0, in);
      add_unit(r, UNIT_M2, op, 1, in);
      level_add(levels, mlirOperationGetResult(op, 0), in.level + 1, in.stage + 1);
      level_add(levels, mlirOperationGetResult(op, 1), in.level + 2, in.stage + 1);
    } else if (nn_op_info(kind)->kind == NN_KIND_REDUCE) {
      add_unit(r, kind == NN_OP_reduce_max ? UNIT_MAX : UNIT_SUM, op, 0, in);
      level_add(levels, mlirOperationGetResult(op, 0), in.level + 1, in.stage + 1);
    } else {
      level_add(levels, mlirOperationGetResult(op, 0), in.level, in.stage);
    }
  }
}

static void plan_passes(Reduce *r) {
  Levels levels = {0};
  find_levels(r, &levels);
  r->n_passes = 0;
  for (int i = 0; i < r->n_units; i++) {
    if (r->units[i].level + 1 > r->n_passes) r->n_passes = r->units[i].level + 1;
    if (r->units[i].stage + 1 > r->n_stages) r->n_stages = r->units[i].stage + 1;
  }
  int needed = r->n_passes - 1;
  for (int i = 0; i < r->k->n_results; i++) {
    if (kernel_is_kept_shaped(r->k, &r->k->result_type[i])) continue;
    r->has_domain_result = true;
    Level l = level_of(&levels, r->k->result[i]);
    if (l.level > needed) needed = l.level;
  }
  // Written in the last pass: until then the inputs, whose buffers the results may take over, are read again.
  if (needed < 0) needed = 0;
  r->write_pass = r->has_domain_result ? needed : -1;
  if (r->has_domain_result) r->n_passes = needed + 1;
  free(levels.items);
}

static void plan_axes(Reduce *r) {
  Nest *nest = &r->nest;
  nest_build(r->k, nest);
  int last = nest->n - 1;
  AxisClass innermost = nest->n ? nest->klass[last] : AXIS_KEPT;
  r->lanes_on_reduced = innermost != AXIS_INNER;
  if (innermost == AXIS_KEPT) {
    // Every reduced axis has size 1: a group of one element stands for them.
    int axis = 0;
    for (int a = 0; a < r->k->domain.rank; a++)
      if (r->k->reduced[a]) axis = a;
    last = nest->n++;
    nest->extent[last] = 1;
    nest->axis[last] = axis;
    nest->klass[last] = AXIS_REDUCED;
  }
  r->vector_group = last;
  r->vector_extent = nest->extent[last];
  r->outer_extent = r->row_extent = 1;
  for (int g = 0; g < last; g++) {
    if (nest->klass[g] == AXIS_REDUCED) {
      r->rows[r->n_rows++] = g;
      r->row_extent *= nest->extent[g];
    } else {
      r->outer[r->n_outer++] = g;
      r->outer_extent *= nest->extent[g];
    }
  }
}

void reduce_plan_values(const Kernel *k, int lanes, Reduce *r) {
  *r = (Reduce){.k = k, .lanes = lanes};
  plan_passes(r);
  plan_axes(r);
}

Value reduce_identity(Emitter *e, const Unit *u) {
  return u->kind == UNIT_MAX ? emit_lowest(e, u->dtype) : emit_splat(e, u->dtype, 0);
}

Value reduce_term(Emitter *e, const Unit *u, const Value *mean) {
  IndexMap domain = index_map_domain(e->k);
  Value x = expression(e, u->operand, &domain);
  if (u->kind != UNIT_M2) return x;
  Value d = emit_binary(e, NN_OP_sub, u->dtype, x, *mean);
  return emit_binary(e, NN_OP_mul, u->dtype, d, d);
}

Value reduce_combine(Emitter *e, const Unit *u, Value a, Value b) {
  return emit_binary(e, u->kind == UNIT_MAX ? NN_OP_max : NN_OP_add, u->dtype, a, b);
}

Value reduce_divide(Emitter *e, const Unit *u, Value sum, int64_t count) {
  return emit_binary(e, NN_OP_div, u->dtype, sum, emit_splat(e, u->dtype, (double)count));
}

int reduce_workspace_values(const Reduce *r, int stage, WorkspaceValue *out) {
  int n = 0;
  for (int u = 0; u < r->n_units; u++)
    if (r->units[u].stage < stage)
      out[n++] = (WorkspaceValue){r->units[u].value.ptr, r->units[u].dtype, r->units[u].combined};
  return n;
}

void reduce_bind(Emitter *e, const Unit *u, const IndexMap *kept, Value total) {
  expression_bind(e, u->value, kept, emit_round(e, nn_value_dtype(u->value), total));
}

Value reduce_splat_count(Emitter *e, NnDtype dtype, Value count) {
  const char *type = element_type(dtype);
  Value scalar = emit(e, count.depth, "arith.sitofp", VALUES(count.id), "%% : i64 to %s", type);
  return emit(e, scalar.depth, "vector.broadcast", VALUES(scalar.id), "%% : %s to %s", type,
              vector_type(e, dtype).text);
}

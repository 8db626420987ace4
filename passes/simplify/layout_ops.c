// Building the twins of the pass layout: values in permuted order, made from what there is; see layout.h.
#include "passes/simplify/simplify.h"

#include "passes/rewrite.h"
#include "support/alloc.h"

#define MAX_DEPTH 64   // of chains of maps through which a transpose moves up

Permutation permutation_inverse(const Permutation *p) {
  Permutation q = {.rank = p->rank};
  for (int i = 0; i < p->rank; i++) q.axis[p->axis[i]] = i;
  return q;
}

bool permutation_equal(const Permutation *p, const Permutation *q) {
  if (p->rank != q->rank) return false;
  for (int i = 0; i < p->rank; i++)
    if (p->axis[i] != q->axis[i]) return false;
  return true;
}

NnType permutation_apply(const Permutation *p, NnType type) {
  NnType out = type;
  for (int i = 0; i < p->rank; i++) out.dim[i] = type.dim[p->axis[i]];
  return out;
}

// ---------------------------------------------------------------------------------------------------------------------

static bool layout_twin(const Layout *l, MlirValue v, Twin *out) {
  int id = ptr_map_get(&l->id, v.ptr);
  if (id >= 0) *out = l->twin[id];
  return id >= 0;
}

bool layout_replaced(const Layout *l, MlirValue v, Twin *out) { return layout_twin(l, v, out) && out->replaces; }

void layout_set_twin(Layout *l, MlirValue v, MlirValue twin, const Permutation *perm, bool replaces) {
  ptr_map_set(&l->id, v.ptr, l->n);
  *ARRAY_ADD(l->twin, l->n) = (Twin){.value = twin, .perm = *perm, .replaces = replaces, .back = nn_null_value()};
}

void layout_restore_operands(Layout *l, MlirOperation op, int first) {
  for (intptr_t i = first; i < mlirOperationGetNumOperands(op); i++) {
    MlirValue v = mlirOperationGetOperand(op, i);
    int id = ptr_map_get(&l->id, v.ptr);
    if (id < 0 || !l->twin[id].replaces) continue;
    if (nn_value_is_null(l->twin[id].back)) {
      NnBuilder b = rewrite_builder(op);
      b.phase = rewrite_phase(nn_value_def(v));
      Permutation inverse = permutation_inverse(&l->twin[id].perm);
      l->twin[id].back = rewrite_transpose(&b, l->twin[id].value, inverse.axis);
    }
    mlirOperationSetOperand(op, i, l->twin[id].back);
  }
}

MlirOperation layout_clone(MlirOperation op, MlirOperation at, const MlirValue *operands, const NnType *results,
                           int n_attrs, const NnAttr *attrs) {
  MlirContext ctx = mlirOperationGetContext(op);
  MlirOperationState state = mlirOperationStateGet(mlirIdentifierStr(mlirOperationGetName(op)),
                                                   mlirOperationGetLocation(op));
  mlirOperationStateAddOperands(&state, mlirOperationGetNumOperands(op), operands);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    MlirType type = nn_type_to_mlir(ctx, &results[i]);
    mlirOperationStateAddResults(&state, 1, &type);
  }
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(op, i);
    mlirOperationStateAddAttributes(&state, 1, &a);
  }
  MlirOperation clone = mlirOperationCreate(&state);
  for (int i = 0; i < n_attrs; i++) nn_set_attr(clone, &attrs[i]);
  mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(at), at, clone);
  return clone;
}

// ---------------------------------------------------------------------------------------------------------------------
// What can be had in another order

static bool is_map(MlirOperation op) {
  return nn_op_of(op) != NN_OP_NONE && nn_op_info(nn_op_of(op))->kind == NN_KIND_MAP;
}

static bool is_free_at(const Layout *l, MlirValue v, const Permutation *p, int depth) {
  Twin twin;
  MlirOperation def = nn_value_def(v);
  if (layout_twin(l, v, &twin) && permutation_equal(&twin.perm, p)) return true;
  NnType type = nn_value_type(v);
  if (rewrite_moves_only_ones(&type, p->axis)) return !layout_twin(l, v, &twin);
  switch (nn_op_of(def)) {
  case NN_OP_constant:
  case NN_OP_iota: return true;
  // Another order of the elements is another draw, which is as good, provided that nobody else sees the first.
  case NN_OP_random_uniform: return rewrite_has_one_use(v) && !nn_attr_bool(def, "ordered", false);
  case NN_OP_broadcast: {
    NnType small = nn_value_type(mlirOperationGetOperand(def, 0));
    return nn_type_elements(&small) < nn_type_elements(&type);
  }
  default: break;
  }
  if (!is_map(def) || depth == 0 || !rewrite_has_one_use(v)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(def); i++)
    if (!is_free_at(l, mlirOperationGetOperand(def, i), p, depth - 1)) return false;
  return true;
}

bool layout_is_free(const Layout *l, MlirValue v, const Permutation *p) { return is_free_at(l, v, p, MAX_DEPTH); }

// A broadcast into permuted axes. Its operand, the smaller tensor, is transposed where its own axes change places.
static MlirValue permuted_broadcast(Layout *l, NnBuilder *b, MlirOperation def, NnType to, const Permutation *p) {
  MlirValue x = mlirOperationGetOperand(def, 0);
  Twin twin;
  int64_t dims[NN_MAX_RANK], moved[NN_MAX_RANK], order[NN_MAX_RANK];
  int n = nn_attr_i64s(def, "dims", dims, NN_MAX_RANK), k = 0;
  for (int i = 0; i < p->rank; i++)
    for (int j = 0; j < n; j++)
      if (dims[j] == p->axis[i]) moved[k] = i, order[k++] = j;
  if (layout_replaced(l, x, &twin)) {   // order over the original axes becomes order over the twin's
    Permutation inverse = permutation_inverse(&twin.perm);
    for (int i = 0; i < n; i++) order[i] = inverse.axis[order[i]];
    x = twin.value;
  }
  return nn_broadcast(b, rewrite_transpose(b, x, order), to, moved);
}

static MlirValue transposed(Layout *l, NnBuilder *b, MlirValue v, const Permutation *p) {
  Twin twin;
  if (!layout_replaced(l, v, &twin)) return rewrite_transpose(b, v, p->axis);
  Permutation inverse = permutation_inverse(&twin.perm), both = *p;
  for (int i = 0; i < p->rank; i++) both.axis[i] = inverse.axis[p->axis[i]];
  return rewrite_transpose(b, twin.value, both.axis);
}

static MlirValue demand_at(Layout *l, MlirOperation at, MlirValue v, const Permutation *p, int depth);

// The transpose moves above a map when that costs no more: one operand at most needs one, and nobody else reads the
// map's result.
static bool moves_above(const Layout *l, MlirOperation map, MlirValue v, const Permutation *p) {
  int costs = 0;
  if (!is_map(map) || !rewrite_has_one_use(v)) return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(map); i++)
    costs += !layout_is_free(l, mlirOperationGetOperand(map, i), p);
  return costs <= 1;
}

static MlirValue permuted_map(Layout *l, MlirOperation map, MlirOperation at, const Permutation *p, int depth) {
  int n = (int)mlirOperationGetNumOperands(map);
  MlirValue operands[3];
  for (int i = 0; i < n; i++) operands[i] = demand_at(l, at, mlirOperationGetOperand(map, i), p, depth - 1);
  NnType type = permutation_apply(p, nn_value_type(mlirOperationGetResult(map, 0)));
  return mlirOperationGetResult(layout_clone(map, at, operands, &type, 0, NULL), 0);
}

static MlirValue demand_at(Layout *l, MlirOperation at, MlirValue v, const Permutation *p, int depth) {
  Twin twin;
  MlirOperation def = nn_value_def(v);
  bool has_twin = layout_twin(l, v, &twin);
  if (has_twin && permutation_equal(&twin.perm, p)) return twin.value;
  NnBuilder b = rewrite_builder(at);
  if (!mlirOperationIsNull(def)) {
    b.loc = mlirOperationGetLocation(def);
    b.phase = rewrite_phase(def);
  }
  NnType type = nn_value_type(v), to = permutation_apply(p, type);
  MlirValue made = nn_null_value();
  if (!has_twin) switch (nn_op_of(def)) {
    case NN_OP_constant: made = nn_build_like(&b, NN_OP_constant, def, 0, NULL, &to); break;
    case NN_OP_iota: made = nn_iota(&b, to, permutation_inverse(p).axis[nn_attr_i64(def, "axis", 0)]); break;
    case NN_OP_random_uniform:
      if (layout_is_free(l, v, p)) {
        MlirValue key = mlirOperationGetOperand(def, 0);
        made = mlirOperationGetResult(layout_clone(def, at, &key, &to, 0, NULL), 0);
      }
      break;
    case NN_OP_broadcast:
      if (layout_is_free(l, v, p)) made = permuted_broadcast(l, &b, def, to, p);
      break;
    default:
      if (depth > 0 && moves_above(l, def, v, p)) made = permuted_map(l, def, at, p, depth);
    }
  if (nn_value_is_null(made)) made = transposed(l, &b, v, p);
  if (!has_twin) layout_set_twin(l, v, made, p, false);
  return made;
}

MlirValue layout_demand(Layout *l, MlirOperation op, MlirValue v, const Permutation *p) {
  return demand_at(l, op, v, p, MAX_DEPTH);
}

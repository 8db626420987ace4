// A rule of the pass simplify: attention whose queries, keys and values are computed from tensors that were transposed
// for it, heads before tokens, and whose result is transposed back, reads and writes tokens before heads. The
// transposes move up through what is computed between (rotary positions) to those that they take away.
#include <string.h>

#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"

// What is computed between the transposes and the attention; more is not looked at.
enum { MOST_OPS = 96 };

typedef struct Cone {
  MlirOperation attention;
  int n, met;                    // ops; those that are looked at or have been
  MlirOperation ops[MOST_OPS];   // operands before users
  MlirValue made[MOST_OPS];      // their results, tokens before heads
  PtrMap number;                 // of an op
} Cone;

// Axes 1 and 2, of heads and of tokens, change places.
static int64_t swapped(int64_t axis) { return axis == 1 ? 2 : axis == 2 ? 1 : axis; }

static NnType tokens_first(NnType t) {
  int64_t heads = t.dim[1];
  t.dim[1] = t.dim[2];
  t.dim[2] = heads;
  return t;
}

static bool swaps_heads(MlirOperation transpose) {
  int64_t perm[NN_MAX_RANK];
  int rank = nn_attr_i64s(transpose, "perm", perm, NN_MAX_RANK);
  bool swaps = rank >= 4;
  for (int i = 0; i < rank; i++) swaps &= perm[i] == swapped(i);
  return swaps;
}

// Axes of a broadcast's operand in those of its result; false where they would not be in order any more.
static bool swapped_dims(MlirOperation broadcast, int64_t *dims, int *n) {
  bool rising = true;
  *n = nn_attr_i64s(broadcast, "dims", dims, NN_MAX_RANK);
  for (int i = 0; i < *n; i++) {
    dims[i] = swapped(dims[i]);
    rising &= i == 0 || dims[i] > dims[i - 1];
  }
  return rising;
}

// The first three axes are the same before and behind it.
static bool keeps_heads(MlirOperation reshape) {
  NnType from = nn_value_type(nn_operand(reshape, 0)), to = nn_value_type(mlirOperationGetResult(reshape, 0));
  bool keeps = from.rank >= 3 && to.rank >= 3;
  for (int i = 0; i < 3 && keeps; i++) keeps = from.dim[i] == to.dim[i];
  return keeps;
}

static bool add(Cone *c, MlirValue v);

static bool add_operands(Cone *c, MlirOperation op) {
  bool fits = true;
  for (int i = 0; i < (int)mlirOperationGetNumOperands(op) && fits; i++) fits = add(c, nn_operand(op, i));
  return fits;
}

// v and what it is computed from, up to transposes; false where there is something that does not move.
static bool add(Cone *c, MlirValue v) {
  MlirOperation op = nn_value_def(v);
  if (mlirValueIsABlockArgument(v) || nn_op_of(op) == NN_OP_NONE || nn_value_type(v).rank < 4) return false;
  if (ptr_map_get(&c->number, op.ptr) >= 0) return true;
  if (++c->met > MOST_OPS) return false;
  const NnOp kind = nn_op_of(op);
  int64_t dims[NN_MAX_RANK];
  int n;
  bool fits = false;
  switch (kind) {
  case NN_OP_transpose: fits = swaps_heads(op); break;
  case NN_OP_constant:
  case NN_OP_iota: fits = true; break;
  case NN_OP_broadcast: fits = swapped_dims(op, dims, &n); break;
  case NN_OP_reshape: fits = keeps_heads(op) && add(c, nn_operand(op, 0)); break;
  case NN_OP_slice:
  case NN_OP_concat: fits = add_operands(c, op); break;
  default: fits = nn_op_info(kind)->kind == NN_KIND_MAP && add_operands(c, op);
  }
  if (!fits) return false;
  ptr_map_set(&c->number, op.ptr, c->n);
  c->ops[c->n++] = op;
  return true;
}

// All that is computed is for this attention: nothing is computed twice.
static bool is_private(const Cone *c) {
  for (int i = 0; i < c->n; i++) {
    NnOp kind = nn_op_of(c->ops[i]);
    if (kind == NN_OP_transpose || kind == NN_OP_constant || kind == NN_OP_iota || kind == NN_OP_broadcast) continue;
    NN_FOREACH_USE (use, mlirOperationGetResult(c->ops[i], 0)) {
      MlirOperation user = mlirOpOperandGetOwner(use);
      if (ptr_map_get(&c->number, user.ptr) < 0 && !mlirOperationEqual(user, c->attention)) return false;
    }
  }
  return true;
}

static MlirValue moved(Cone *c, MlirValue v) { return c->made[ptr_map_get(&c->number, nn_value_def(v).ptr)]; }

static MlirValue move_slice(NnBuilder *b, MlirOperation op, MlirValue x) {
  int64_t from[3][NN_MAX_RANK], to[3][NN_MAX_RANK];
  static const char *const names[] = {"starts", "sizes", "strides"};
  for (int k = 0; k < 3; k++) {
    int rank = nn_attr_i64s(op, names[k], from[k], NN_MAX_RANK);
    for (int i = 0; i < rank; i++) to[k][i] = from[k][swapped(i)];
  }
  return nn_slice(b, x, to[0], to[1], to[2]);
}

// With the place in the source and the phase that op has.
static MlirValue move(Cone *c, MlirOperation op) {
  NnBuilder at = rewrite_builder(c->attention), *b = &at;
  b->loc = mlirOperationGetLocation(op);
  b->phase = rewrite_phase(op);
  NnOp kind = nn_op_of(op);
  NnType type = nn_value_type(mlirOperationGetResult(op, 0)), to = tokens_first(type);
  int n = (int)mlirOperationGetNumOperands(op);
  int64_t dims[NN_MAX_RANK];
  int n_dims;
  MlirValue operands[NN_MAX_OPERANDS];
  if (kind == NN_OP_transpose) return nn_operand(op, 0);
  if (kind == NN_OP_constant) return nn_build_like(b, kind, op, 0, NULL, &to);
  if (kind == NN_OP_iota) return nn_iota(b, to, swapped(nn_attr_i64(op, "axis", 0)));
  if (kind == NN_OP_broadcast) {
    swapped_dims(op, dims, &n_dims);
    return nn_broadcast(b, nn_operand(op, 0), to, dims);
  }
  for (int i = 0; i < n; i++) operands[i] = moved(c, nn_operand(op, i));
  if (kind == NN_OP_reshape) return nn_reshape(b, operands[0], to.rank, to.dim);
  if (kind == NN_OP_slice) return move_slice(b, op, operands[0]);
  if (kind == NN_OP_concat) return nn_concat(b, n, operands, swapped(nn_attr_i64(op, "axis", 0)));
  return nn_build_like(b, kind, op, n, operands, &to);
}

static MlirValue attend(Cone *c) {
  MlirOperation op = c->attention;
  NnBuilder b = rewrite_builder(op);
  int n = (int)mlirOperationGetNumOperands(op), n_attrs = 4;
  MlirValue operands[NN_MAX_OPERANDS];
  for (int i = 0; i < n; i++) operands[i] = i < 3 ? moved(c, nn_operand(op, i)) : nn_operand(op, i);
  NnAttr attrs[6] = {NN_STR("layout", "bthd"), NN_F64A("scale", nn_attr_f64(op, "scale", 1)),
                     NN_BOOL("causal", nn_attr_bool(op, "causal", false)),
                     NN_F64A("dropout", nn_attr_f64(op, "dropout", 0))};
  if (nn_has_attr(op, "window")) attrs[n_attrs++] = NN_I64("window", nn_attr_i64(op, "window", 0));
  if (nn_has_attr(op, "softcap")) attrs[n_attrs++] = NN_F64A("softcap", nn_attr_f64(op, "softcap", 0));
  return mlirOperationGetResult(nn_build(&b, NN_OP_attention, n, operands, n_attrs, attrs, NULL), 0);
}

MlirValue simplify_attention_layout(MlirOperation op, NnOp kind) {
  MlirOperation attention;
  char layout[8];
  if (kind != NN_OP_transpose || !swaps_heads(op) || !simplify_is(nn_operand(op, 0), NN_OP_attention, &attention))
    return nn_null_value();
  if (strcmp(nn_attr_str(attention, "layout", layout, sizeof layout, "bhtd"), "bhtd") != 0 ||
      !rewrite_has_one_use(nn_operand(op, 0)) ||
      !mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(attention, 1))))
    return nn_null_value();
  Cone c = {.attention = attention};
  bool fits = true;
  for (int i = 0; i < 3 && fits; i++) fits = add(&c, nn_operand(attention, i));
  MlirValue made = nn_null_value();
  if (fits && is_private(&c)) {
    for (int i = 0; i < c.n; i++) c.made[i] = move(&c, c.ops[i]);
    made = attend(&c);
  }
  ptr_map_free(&c.number);
  return made;
}

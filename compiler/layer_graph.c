// Layers for graphs: rows of x belong to segments (the nodes that edges lead to), which are summed, averaged or
// maximised. Built on scatter_add and scatter_max, whose order is that of the rows: the result does not depend on the
// number of threads.
#include "compiler/layer.h"

enum { X, SEGMENTS, COUNT };

// x[E, …] and segments[E] of integers; the result of `op` has COUNT rows.
static MlirValue scatter(LayerCall *c, NnOp op, MlirValue x) {
  NnType t = nn_value_type(x);
  t.dim[0] = layer_int(c, COUNT);
  MlirOperation made = layer_build(c, op, 2, (MlirValue[]){x, layer_tensor(c, SEGMENTS)}, 1, &NN_I64("rows", t.dim[0]),
                                   &t);
  return mlirOperationIsNull(made) ? nn_null_value() : mlirOperationGetResult(made, 0);
}

static bool check(LayerCall *c) {
  NnType x = nn_value_type(layer_tensor(c, X)), s = nn_value_type(layer_tensor(c, SEGMENTS));
  if (nn_dtype_is_float(s.dtype) || s.dtype == NN_I1 || s.rank != 1)
    return layer_arg_error(c, SEGMENTS, "must be one integer per row of x, found %s",
                           value_describe(c->e, c->arg[SEGMENTS]));
  if (x.rank < 1 || x.dim[0] != s.dim[0])
    return layer_arg_error(c, X, "needs one row per segment number: x is %s, segments %s",
                           value_describe(c->e, c->arg[X]), value_describe(c->e, c->arg[SEGMENTS]));
  return layer_int(c, COUNT) > 0 ||
         layer_arg_error(c, COUNT, "must be positive, found %lld", (long long)layer_int(c, COUNT));
}

static bool segment(LayerCall *c, NnOp op, Value *result) {
  if (!check(c)) return false;
  MlirValue y = scatter(c, op, layer_float_tensor(c, X));
  return !nn_value_is_null(y) && layer_return(result, y);
}

bool layer_segment_sum(LayerCall *c, Value *result) { return segment(c, NN_OP_scatter_add, result); }
bool layer_segment_max(LayerCall *c, Value *result) { return segment(c, NN_OP_scatter_max, result); }

// An empty segment has mean zero: its count is taken as one.
bool layer_segment_mean(LayerCall *c, Value *result) {
  if (!check(c)) return false;
  MlirValue x = layer_float_tensor(c, X), sum = scatter(c, NN_OP_scatter_add, x);
  NnType t = nn_value_type(x);
  t.rank = 1;
  MlirValue count = nn_value_is_null(sum) ? sum : scatter(c, NN_OP_scatter_add, nn_constant(c->b, t, 1));
  if (nn_value_is_null(count)) return false;
  MlirValue scale = nn_unary(c->b, NN_OP_recip, nn_binary(c->b, NN_OP_max, count, nn_constant_like(c->b, count, 1)));
  return layer_return(result,
                      nn_binary(c->b, NN_OP_mul, sum, layer_broadcast_along(c->b, scale, nn_value_type(sum), 0)));
}

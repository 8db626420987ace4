// Padding by constants, reflection, repetition and wrapping around.
#include "compiler/layer.h"

#include <math.h>
#include <string.h>

enum { X, LOW, HIGH, VALUE, MODE };

// Elements of an axis from `start` on.
static MlirValue part_of(NnBuilder *b, MlirValue x, int axis, int64_t start, int64_t size) {
  NnType t = nn_value_type(x);
  int64_t starts[NN_MAX_RANK] = {0};
  starts[axis] = start;
  t.dim[axis] = size;
  return nn_slice(b, x, starts, t.dim, NULL);
}

static MlirValue turned(NnBuilder *b, MlirValue x, int axis) {
  int64_t n = nn_value_type(x).dim[axis];
  NnType t = nn_type(NN_I32, 1, &n);
  return layer_take(b, x, axis, nn_binary(b, NN_OP_sub, nn_constant(b, t, (double)(n - 1)), nn_iota(b, t, 0)));
}

static MlirValue repeated(NnBuilder *b, MlirValue x, int axis, int64_t count) {
  NnType t = nn_value_type(x);
  int64_t dims[NN_MAX_RANK];
  for (int i = 0; i < t.rank; i++) dims[i] = i;
  t.dim[axis] = count;
  return nn_broadcast(b, x, t, dims);
}

// The border of an axis before (side 0) or behind it.
static MlirValue border(NnBuilder *b, MlirValue x, int axis, int side, int64_t size, const char *mode) {
  int64_t n = nn_value_type(x).dim[axis];
  if (!strcmp(mode, "reflect")) return turned(b, part_of(b, x, axis, side ? n - 1 - size : 1, size), axis);
  if (!strcmp(mode, "circular")) return part_of(b, x, axis, side ? 0 : n - size, size);
  return repeated(b, part_of(b, x, axis, side ? n - 1 : 0, 1), axis, size);
}

// Without what negative sizes cut off; sizes are then at least 0.
static MlirValue cropped(NnBuilder *b, MlirValue x, int64_t side[2][NN_MAX_RANK]) {
  NnType t = nn_value_type(x);
  int64_t starts[NN_MAX_RANK];
  for (int i = 0; i < t.rank; i++) {
    starts[i] = side[0][i] < 0 ? -side[0][i] : 0;
    t.dim[i] -= starts[i] + (side[1][i] < 0 ? -side[1][i] : 0);
    for (int s = 0; s < 2; s++)
      if (side[s][i] < 0) side[s][i] = 0;
  }
  return nn_slice(b, x, starts, t.dim, NULL);
}

static bool check_sizes(const LayerCall *c, const NnType *t, int64_t side[2][NN_MAX_RANK], const char *mode) {
  for (int s = 0; s < 2; s++) {
    int n = layer_ints(c, LOW + s, side[s], NN_MAX_RANK);
    if (n < 0) return false;
    if (n != t->rank)
      return layer_arg_error(c, LOW + s, "needs one size per axis of %s", value_describe(c->e, c->arg[X]));
  }
  for (int i = 0; i < t->rank; i++) {
    for (int s = 0; s < 2; s++) {
      int64_t most = !strcmp(mode, "reflect")     ? t->dim[i] - 1
                     : !strcmp(mode, "circular")  ? t->dim[i]
                     : !strcmp(mode, "replicate") ? 1 << 20
                                                  : NN_MAX_ELEMENTS;
      if (side[s][i] < -NN_MAX_ELEMENTS || side[s][i] > most)
        return layer_arg_error(c, LOW + s, "must be at most %lld for axis %d of %s, found %lld", (long long)most, i,
                               value_describe(c->e, c->arg[X]), (long long)side[s][i]);
    }
    if ((side[0][i] < 0 ? side[0][i] : 0) + (side[1][i] < 0 ? side[1][i] : 0) + t->dim[i] < 1)
      return layer_arg_error(c, side[0][i] < 0 ? LOW : HIGH, "leaves nothing of axis %d of %s", i,
                             value_describe(c->e, c->arg[X]));
  }
  return true;
}

static bool pad_constant(LayerCall *c, MlirValue x, int64_t side[2][NN_MAX_RANK], Value *result) {
  NnType t = nn_value_type(x);
  int64_t none[NN_MAX_RANK] = {0};
  double value = layer_float(c, VALUE);
  if (!nn_dtype_is_float(t.dtype) && value != floor(value))
    return layer_arg_error(c, VALUE, "must be an integer beside %s, found %g", value_describe(c->e, c->arg[X]), value);
  NnAttr attrs[] = {NN_I64S("low", side[0], t.rank), NN_I64S("high", side[1], t.rank),
                    NN_I64S("interior", none, t.rank), NN_F64A("value", value)};
  MlirOperation op = layer_build(c, NN_OP_pad, 1, &x, 4, attrs, NULL);
  return !mlirOperationIsNull(op) && layer_return(result, mlirOperationGetResult(op, 0));
}

bool layer_pad(LayerCall *c, Value *result) {
  MlirValue x = layer_tensor(c, X);
  NnType t = nn_value_type(x);
  int64_t side[2][NN_MAX_RANK];
  const char *mode = layer_string(c, MODE);
  bool constant = !strcmp(mode, "constant");
  if (!constant && strcmp(mode, "reflect") && strcmp(mode, "replicate") && strcmp(mode, "circular"))
    return layer_arg_error(c, MODE, "must be \"constant\", \"reflect\", \"replicate\" or \"circular\", found \"%s\"",
                           mode);
  if (!check_sizes(c, &t, side, mode)) return false;
  if (constant) return pad_constant(c, cropped(c->b, x, side), side, result);
  NnType made = t;
  for (int i = 0; i < t.rank; i++)
    for (int s = 0; s < 2; s++) made.dim[i] += side[s][i] > 0 ? side[s][i] : 0;
  if (!nn_type_is_representable(&made)) return layer_error(c, "the result would have more than 2^40 elements");
  MlirValue whole = x;
  // Borders of an axis repeat those of the axes before it, as the axis by axis of PyTorch. Cuts come last.
  for (int axis = 0; axis < t.rank; axis++) {
    MlirValue part[3];
    int n = 0;
    if (side[0][axis] > 0) part[n++] = border(c->b, whole, axis, 0, side[0][axis], mode);
    part[n++] = whole;
    if (side[1][axis] > 0) part[n++] = border(c->b, whole, axis, 1, side[1][axis], mode);
    if (n > 1) whole = nn_concat(c->b, n, part, axis);
  }
  return layer_return(result, cropped(c->b, whole, side));
}

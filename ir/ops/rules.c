// What the rules of several families share: checks that word their errors alike, the geometry of windows, and small
// forms for writing gradients.
#include <string.h>

#include "ir/ops/ops.h"

NnTypeText nn_text(const NnType *t) {
  NnTypeText text;
  nn_type_format(t, text.text, sizeof text.text);
  return text;
}

bool nn_need_asked(NnOpCall *c, const NnType *result) {
  return result->rank >= 0 || nn_fail(c, "the result type must be given");
}

static bool refuse(NnOpCall *c, int operand, const char *wanted) {
  return nn_fail(c, "operand %d must be %s, found %s", operand, wanted, nn_text(&c->operand[operand]).text);
}

bool nn_need_float(NnOpCall *c, int i) {
  return nn_dtype_is_float(c->operand[i].dtype) || refuse(c, i, "of a floating-point type");
}
bool nn_need_number(NnOpCall *c, int i) { return c->operand[i].dtype != NN_I1 || refuse(c, i, "of a numeric type"); }
bool nn_need_bool(NnOpCall *c, int i) { return c->operand[i].dtype == NN_I1 || refuse(c, i, "of type i1"); }

bool nn_need_integer(NnOpCall *c, int i) {
  return (!nn_dtype_is_float(c->operand[i].dtype) && c->operand[i].dtype != NN_I1) ||
         refuse(c, i, "of an integer type");
}

bool nn_need_rank(NnOpCall *c, int i, int rank) {
  return c->operand[i].rank == rank ||
         nn_fail(c, "operand %d must have %d axes, found %s", i, rank, nn_text(&c->operand[i]).text);
}

bool nn_need_min_rank(NnOpCall *c, int i, int rank) {
  return c->operand[i].rank >= rank || nn_fail(c, "operand %d must have at least %d %s, found %s", i, rank,
                                               rank == 1 ? "axis" : "axes", nn_text(&c->operand[i]).text);
}

bool nn_need_same_dtype(NnOpCall *c, int i, int j) {
  return c->operand[i].dtype == c->operand[j].dtype ||
         nn_fail(c, "operands differ in element type: %s and %s", nn_text(&c->operand[i]).text,
                 nn_text(&c->operand[j]).text);
}

bool nn_need_i64s(NnOpCall *c, const char *name, int n, int64_t least, int64_t *out) {
  int found = nn_call_i64s(c, name, out, n);
  if (found != n) return nn_fail(c, "'%s' must have %d entries, found %d", name, n, found);
  for (int i = 0; i < n; i++) {
    if (out[i] < least)
      return nn_fail(c, "'%s' must be at least %lld, found %lld", name, (long long)least, (long long)out[i]);
    // Sums and products of two of them then stay within an int64_t.
    if (out[i] > NN_MAX_ELEMENTS) return nn_fail(c, "'%s' is too large: %lld", name, (long long)out[i]);
  }
  return true;
}

bool nn_need_axis(NnOpCall *c, int rank, int64_t *axis) {
  *axis = nn_call_i64(c, "axis", 0);
  return (*axis >= 0 && *axis < rank) || nn_fail(c, "axis %lld is outside a tensor of %d axes", (long long)*axis, rank);
}

// ---------------------------------------------------------------------------------------------------------------------
// Windows

bool nn_window_layout(NnOpCall *c, int axes, NnWindow *w) {
  static const char *const names[][2] = {{"nchw", "nhwc"}, {"ncdhw", "ndhwc"}};
  char text[16];
  const char *const *known = names[axes - 2], *layout = nn_call_str(c, "layout", text, sizeof text, known[0]);
  *w = (NnWindow){.axes = axes, .dilation = {1, 1, 1}};
  if (!strcmp(layout, known[0])) w->channels = 1, w->first = 2;
  else if (!strcmp(layout, known[1])) w->first = 1, w->channels = 1 + axes;
  else return nn_fail(c, "layout must be %s or %s, found '%s'", known[0], known[1], layout);
  return true;
}

bool nn_window_attrs(NnOpCall *c, NnWindow *w) {
  int64_t ignored[NN_WINDOW_AXES];
  return nn_need_i64s(c, "strides", w->axes, 1, w->stride) && nn_need_i64s(c, "padding", 2 * w->axes, 0, w->padding) &&
         (nn_call_i64s(c, "dilation", ignored, w->axes) < 0 || nn_need_i64s(c, "dilation", w->axes, 1, w->dilation));
}

bool nn_window_output(NnOpCall *c, const NnWindow *w, const NnType *x, NnType *y) {
  static const char *const names[] = {"depth", "height", "width"};
  for (int i = 0; i < w->axes; i++) {
    const char *name = names[NN_WINDOW_AXES - w->axes + i];
    int64_t padded = x->dim[w->first + i] + w->padding[2 * i] + w->padding[2 * i + 1];
    int64_t extent = w->kernel[i] > 1 && w->dilation[i] > NN_MAX_ELEMENTS / w->kernel[i]
                         ? INT64_MAX
                         : w->dilation[i] * (w->kernel[i] - 1) + 1;
    if (extent > padded)
      return nn_fail(c, "a window of %s %lld does not fit the input of %s %lld (padding included) of %s", name,
                     (long long)extent, name, (long long)padded, nn_text(x).text);
    y->dim[w->first + i] = (padded - extent) / w->stride[i] + 1;
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Gradients

MlirValue nn_scale(NnBuilder *b, MlirValue x, double factor) {
  return nn_binary(b, NN_OP_mul, x, nn_constant_like(b, x, factor));
}

MlirValue nn_zeros_like(NnBuilder *b, MlirValue x) { return nn_constant_like(b, x, 0); }

bool nn_splat_value(MlirValue v, double *out) {
  for (;;) {
    MlirOperation def = nn_value_def(v);
    switch (nn_op_of(def)) {
    case NN_OP_constant: *out = nn_fill_value(def); return true;
    case NN_OP_broadcast:
    case NN_OP_reshape:
    case NN_OP_transpose:
    case NN_OP_slice: v = mlirOperationGetOperand(def, 0); break;
    default: return false;
    }
  }
}

int nn_axes_except(int rank, int64_t axis, int64_t *out) {
  int n = 0;
  for (int i = 0; i < rank; i++)
    if (i != axis) out[n++] = i;
  return n;
}

MlirValue nn_along_rows(NnBuilder *b, MlirValue v, MlirValue like) {
  NnType to = nn_value_type(like);
  int64_t dims[NN_MAX_RANK];
  for (int i = 0; i < to.rank; i++) dims[i] = i;
  return nn_broadcast(b, v, to, dims);
}

MlirValue nn_along_axis(NnBuilder *b, MlirValue v, MlirValue like, int64_t axis) {
  return nn_broadcast(b, v, nn_value_type(like), &axis);
}

MlirValue nn_sum_last(NnBuilder *b, MlirValue x) {
  int64_t last = nn_value_type(x).rank - 1;
  return nn_reduce(b, NN_OP_reduce_sum, x, 1, &last);
}

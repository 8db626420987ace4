// Pooling over windows of height and width: maxpool2d with the winner's place, avgpool2d, and their gradients. Every
// window must hold at least one real element, which padding below the kernel size ensures.
#include <string.h>

#include "ir/ops/ops.h"

// x to y for the attributes of the call.
static bool pool_output(NnOpCall *c, const NnType *x, NnWindow *w, NnType *y) {
  if (x->rank != 4) return nn_fail(c, "pools over tensors of 4 axes, found %s", nn_text(x).text);
  if (!nn_window_layout(c, 2, w) || !nn_window_attrs(c, w) || !nn_need_i64s(c, "kernel", 2, 1, w->kernel)) return false;
  for (int i = 0; i < 4; i++)
    if (w->padding[i] >= w->kernel[i / 2])
      return nn_fail(c, "padding %lld is not smaller than the kernel size %lld", (long long)w->padding[i],
                     (long long)w->kernel[i / 2]);
  *y = *x;
  return nn_window_output(c, w, x, y);
}

// The operand dy fits the asked shape of x.
static bool pool_gradient(NnOpCall *c, const NnType *x, NnWindow *w) {
  NnType y;
  if (!nn_need_asked(c, x) || !pool_output(c, x, w, &y)) return false;
  return nn_type_equal(&y, &c->operand[0]) ||
         nn_fail(c, "the gradient %s does not fit the input %s, whose output is %s", nn_text(&c->operand[0]).text,
                 nn_text(x).text, nn_text(&y).text);
}

static bool winner_fits(NnOpCall *c, const NnWindow *w) {
  return w->kernel[0] <= 256 && w->kernel[1] <= 256 / w->kernel[0]
             ? true
             : nn_fail(c, "a window of %lld by %lld has more than 256 places", (long long)w->kernel[0],
                       (long long)w->kernel[1]);
}

bool nn_infer_maxpool2d(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnWindow w;
  if (!nn_need_number(c, 0) || !pool_output(c, &c->operand[0], &w, &result[0]) || !winner_fits(c, &w)) return false;
  result[1] = result[0];
  result[1].dtype = NN_U8;
  return true;
}

void nn_vjp_maxpool2d(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  NnType x = nn_value_type(v->operand[0]);
  v->operand_cotangent[0] = nn_build_like(v->b, NN_OP_maxpool2d_grad, v->op, 2,
                                          (MlirValue[]){v->cotangent[0], v->result[1]}, &x);
}

bool nn_infer_maxpool2d_grad(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnWindow w;
  if (!pool_gradient(c, result, &w) || !winner_fits(c, &w)) return false;
  const NnType *winner = &c->operand[1];
  return (winner->dtype == NN_U8 && nn_shape_equal(winner, &c->operand[0])) ||
         nn_fail(c, "the winners must be u8 in the shape of the gradient %s, found %s", nn_text(&c->operand[0]).text,
                 nn_text(winner).text);
}

// index factor + offset along an axis of `type`
static MlirValue place_along(NnBuilder *b, NnType type, int axis, int64_t factor, int64_t offset) {
  MlirValue index = nn_iota(b, type, axis);
  index = nn_scale(b, index, (double)factor);
  return nn_binary(b, NN_OP_add, index, nn_constant_like(b, index, (double)offset));
}

// Which element of x, numbered through, each element of y is.
static MlirValue winner_index(NnBuilder *b, MlirOperation op, MlirValue winner, const NnType *x) {
  NnType at = nn_value_type(winner);
  char layout[16];
  bool last = !strcmp(nn_attr_str(op, "layout", layout, sizeof layout, "nchw"), "nhwc");
  int axis[2] = {last ? 1 : 2, last ? 2 : 3};
  int64_t kernel[2], stride[2], padding[4], unit = 1, size[4];
  nn_attr_i64s(op, "kernel", kernel, 2);
  nn_attr_i64s(op, "strides", stride, 2);
  nn_attr_i64s(op, "padding", padding, 4);
  for (int i = 3; i >= 0; i--) size[i] = unit, unit *= x->dim[i];
  at.dtype = nn_type_elements(x) > INT32_MAX ? NN_I64 : NN_I32;
  MlirValue place = nn_cast(b, winner, at.dtype), width = nn_constant_like(b, place, (double)kernel[1]),
            row = nn_binary(b, NN_OP_div, place, width),
            column = nn_binary(b, NN_OP_sub, place, nn_binary(b, NN_OP_mul, row, width)), index = nn_null_value();
  for (int i = 0; i < 4; i++) {
    bool window = i == axis[0] || i == axis[1];
    int k = i == axis[1];
    MlirValue along = place_along(b, at, i, window ? stride[k] : 1, window ? -padding[2 * k] : 0);
    if (window) along = nn_binary(b, NN_OP_add, along, k ? column : row);
    along = nn_scale(b, along, (double)size[i]);
    index = i == 0 ? along : nn_binary(b, NN_OP_add, index, along);
  }
  return index;
}

// What the winner's place in x was given is dy's cotangent.
void nn_vjp_maxpool2d_grad(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  NnType x = nn_value_type(v->result[0]);
  int64_t all = nn_type_elements(&x);
  v->operand_cotangent[0] = nn_binary(v->b, NN_OP_gather, nn_reshape(v->b, v->cotangent[0], 1, &all),
                                      winner_index(v->b, v->op, v->operand[1], &x));
}

bool nn_infer_avgpool2d(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnWindow w;
  return nn_need_float(c, 0) && pool_output(c, &c->operand[0], &w, result);
}

void nn_vjp_avgpool2d(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  NnType x = nn_value_type(v->operand[0]);
  v->operand_cotangent[0] = nn_build_like(v->b, NN_OP_avgpool2d_grad, v->op, 1, &v->cotangent[0], &x);
}

bool nn_infer_avgpool2d_grad(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnWindow w;
  return nn_need_float(c, 0) && pool_gradient(c, result, &w);
}

// Averaging is linear: the gradient of its gradient is the average again.
void nn_vjp_avgpool2d_grad(NnVjp *v) {
  if (!v->needed[0] || nn_value_is_null(v->cotangent[0])) return;
  v->operand_cotangent[0] = nn_build_like(v->b, NN_OP_avgpool2d, v->op, 1, &v->cotangent[0], NULL);
}

static double window_flops(MlirOperation op, const NnType *y) {
  int64_t kernel[2] = {1, 1};
  nn_attr_i64s(op, "kernel", kernel, 2);
  return (double)nn_type_elements(y) * (double)kernel[0] * (double)kernel[1];
}

double nn_flops_maxpool2d(MlirOperation op) {
  NnType y = nn_result_type(op, 0);
  return window_flops(op, &y);
}

double nn_flops_avgpool2d(MlirOperation op) {
  NnType y = nn_result_type(op, 0);
  return window_flops(op, &y);
}

double nn_flops_avgpool2d_grad(MlirOperation op) {
  NnType dy = nn_operand_type(op, 0);
  return window_flops(op, &dy);
}

// Pooling over windows of height and width: maxpool2d with the winner's place, avgpool2d, and their gradients. Every
// window must hold at least one real element, which padding below the kernel size ensures.
#include "ir/ops/ops.h"

// x to y for the attributes of the call.
static bool pool_output(NnOpCall *c, const NnType *x, NnWindow *w, NnType *y) {
  if (x->rank != 4) return nn_fail(c, "pools over tensors of 4 axes, found %s", nn_text(x).text);
  if (!nn_window_layout(c, w) || !nn_window_attrs(c, w) || !nn_need_i64s(c, "kernel", 2, 1, w->kernel)) return false;
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

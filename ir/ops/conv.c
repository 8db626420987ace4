// Convolution of images and its two gradients. x and y are nchw or nhwc, the weight always [O, I/groups, KH, KW].
// Convolution is linear in x and in w, so the three ops are each other's gradients.
#include "ir/ops/ops.h"

// x, w to y for the attributes of the call.
static bool conv_output(NnOpCall *c, const NnType *x, const NnType *w, NnType *y) {
  NnWindow window;
  if (x->rank != 4) return nn_fail(c, "the image must have 4 axes, found %s", nn_text(x).text);
  if (w->rank != 4) return nn_fail(c, "the weight must have 4 axes, [O, I/groups, KH, KW], found %s", nn_text(w).text);
  if (!nn_window_layout(c, &window) || !nn_window_attrs(c, &window)) return false;
  int64_t groups = nn_call_i64(c, "groups", 1), channels = x->dim[window.channels];
  if (groups < 1) return nn_fail(c, "'groups' must be at least 1, found %lld", (long long)groups);
  if (channels % groups || channels / groups != w->dim[1])
    return nn_fail(c, "image %s has %lld channels in %lld groups, weight %s expects %lld in each group",
                   nn_text(x).text, (long long)channels, (long long)groups, nn_text(w).text, (long long)w->dim[1]);
  if (w->dim[0] % groups)
    return nn_fail(c, "%lld output channels cannot be split into %lld groups", (long long)w->dim[0], (long long)groups);
  window.kernel[0] = w->dim[2];
  window.kernel[1] = w->dim[3];
  *y = *x;
  y->dim[window.channels] = w->dim[0];
  return nn_window_output(c, &window, x, y);
}

static bool fits_output(NnOpCall *c, const NnType *x, const NnType *w, const NnType *dy) {
  NnType y;
  if (!conv_output(c, x, w, &y)) return false;
  return nn_type_equal(&y, dy) || nn_fail(c, "the gradient %s does not fit image %s and weight %s, which give %s",
                                          nn_text(dy).text, nn_text(x).text, nn_text(w).text, nn_text(&y).text);
}

static bool float_pair(NnOpCall *c) { return nn_need_float(c, 0) && nn_need_same_dtype(c, 0, 1); }

bool nn_infer_conv2d(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return float_pair(c) && conv_output(c, &c->operand[0], &c->operand[1], result);
}

bool nn_infer_conv2d_input_grad(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return float_pair(c) && nn_need_asked(c, result) && fits_output(c, result, &c->operand[1], &c->operand[0]);
}

bool nn_infer_conv2d_weight_grad(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  NnDtype dtype;
  return float_pair(c) && nn_need_asked(c, result) && nn_need_product_dtype(c, result, &dtype) &&
         fits_output(c, &c->operand[0], result, &c->operand[1]);
}

// ---------------------------------------------------------------------------------------------------------------------

static MlirValue forward(NnVjp *v, MlirValue x, MlirValue w) {
  return nn_build_like(v->b, NN_OP_conv2d, v->op, 2, (MlirValue[]){x, w}, NULL);
}

static MlirValue input_grad(NnVjp *v, MlirValue dy, MlirValue w, MlirValue like) {
  NnType x = nn_value_type(like);
  return nn_build_like(v->b, NN_OP_conv2d_input_grad, v->op, 2, (MlirValue[]){dy, w}, &x);
}

static MlirValue weight_grad(NnVjp *v, MlirValue x, MlirValue dy, MlirValue like) {
  NnType w = nn_value_type(like);
  return nn_build_like(v->b, NN_OP_conv2d_weight_grad, v->op, 2, (MlirValue[]){x, dy}, &w);
}

void nn_vjp_conv2d(NnVjp *v) {
  MlirValue dy = v->cotangent[0], x = v->operand[0], w = v->operand[1];
  if (nn_value_is_null(dy)) return;
  if (v->needed[0]) v->operand_cotangent[0] = input_grad(v, dy, w, x);
  if (v->needed[1]) v->operand_cotangent[1] = weight_grad(v, x, dy, w);
}

void nn_vjp_conv2d_input_grad(NnVjp *v) {
  MlirValue g = v->cotangent[0], dy = v->operand[0], w = v->operand[1];
  if (nn_value_is_null(g)) return;
  if (v->needed[0]) v->operand_cotangent[0] = forward(v, g, w);
  if (v->needed[1]) v->operand_cotangent[1] = weight_grad(v, g, dy, w);
}

void nn_vjp_conv2d_weight_grad(NnVjp *v) {
  MlirValue g = v->cotangent[0], x = v->operand[0], dy = v->operand[1];
  if (nn_value_is_null(g)) return;
  g = nn_cast(v->b, g, nn_value_type(x).dtype);
  if (v->needed[0]) v->operand_cotangent[0] = input_grad(v, dy, g, x);
  if (v->needed[1]) v->operand_cotangent[1] = forward(v, x, g);
}

// All three multiply and add once per output element and weight of its group.
static double conv_flops(const NnType *y, const NnType *w) {
  return 2.0 * (double)nn_type_elements(y) * (double)w->dim[1] * (double)w->dim[2] * (double)w->dim[3];
}

double nn_flops_conv2d(MlirOperation op) {
  NnType y = nn_result_type(op, 0), w = nn_operand_type(op, 1);
  return conv_flops(&y, &w);
}

double nn_flops_conv2d_input_grad(MlirOperation op) {
  NnType y = nn_operand_type(op, 0), w = nn_operand_type(op, 1);
  return conv_flops(&y, &w);
}

double nn_flops_conv2d_weight_grad(MlirOperation op) {
  NnType y = nn_operand_type(op, 1), w = nn_result_type(op, 0);
  return conv_flops(&y, &w);
}

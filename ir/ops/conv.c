// Convolution of images or volumes and its two gradients. x and y are nchw or nhwc, of volumes ncdhw or ndhwc, the
// weight always [O, I/groups, KH, KW] or [O, I/groups, KD, KH, KW]. Convolution is linear in x and in w, so the three
// ops of a kind are each other's gradients.
#include "ir/ops/ops.h"

// x, w to y for the attributes of the call. axes: 2 of images, 3 of volumes.
static bool conv_output(NnOpCall *c, int axes, const NnType *x, const NnType *w, NnType *y) {
  NnWindow window;
  const char *kind = axes == 3 ? "volume" : "image";
  if (x->rank != 2 + axes) return nn_fail(c, "the %s must have %d axes, found %s", kind, 2 + axes, nn_text(x).text);
  if (w->rank != 2 + axes)
    return nn_fail(c, "the weight must have %d axes, [O, I/groups, %sKH, KW], found %s", 2 + axes,
                   axes == 3 ? "KD, " : "", nn_text(w).text);
  if (!nn_window_layout(c, axes, &window) || !nn_window_attrs(c, &window)) return false;
  int64_t groups = nn_call_i64(c, "groups", 1), channels = x->dim[window.channels];
  if (groups < 1) return nn_fail(c, "'groups' must be at least 1, found %lld", (long long)groups);
  if (channels % groups || channels / groups != w->dim[1])
    return nn_fail(c, "%s %s has %lld channels in %lld groups, weight %s expects %lld in each group", kind,
                   nn_text(x).text, (long long)channels, (long long)groups, nn_text(w).text, (long long)w->dim[1]);
  if (w->dim[0] % groups)
    return nn_fail(c, "%lld output channels cannot be split into %lld groups", (long long)w->dim[0], (long long)groups);
  for (int i = 0; i < axes; i++) window.kernel[i] = w->dim[2 + i];
  *y = *x;
  y->dim[window.channels] = w->dim[0];
  return nn_window_output(c, &window, x, y);
}

static bool fits_output(NnOpCall *c, int axes, const NnType *x, const NnType *w, const NnType *dy) {
  NnType y;
  if (!conv_output(c, axes, x, w, &y)) return false;
  return nn_type_equal(&y, dy) ||
         nn_fail(c, "the gradient %s does not fit %s %s and weight %s, which give %s", nn_text(dy).text,
                 axes == 3 ? "volume" : "image", nn_text(x).text, nn_text(w).text, nn_text(&y).text);
}

static bool float_pair(NnOpCall *c) { return nn_need_float(c, 0) && nn_need_same_dtype(c, 0, 1); }

static bool infer_forward(NnOpCall *c, int axes, NnType *y) {
  return float_pair(c) && conv_output(c, axes, &c->operand[0], &c->operand[1], y);
}

static bool infer_input_grad(NnOpCall *c, int axes, NnType *dx) {
  return float_pair(c) && nn_need_asked(c, dx) && fits_output(c, axes, dx, &c->operand[1], &c->operand[0]);
}

static bool infer_weight_grad(NnOpCall *c, int axes, NnType *dw) {
  NnDtype dtype;
  return float_pair(c) && nn_need_asked(c, dw) && nn_need_product_dtype(c, dw, &dtype) &&
         fits_output(c, axes, &c->operand[0], dw, &c->operand[1]);
}

// ---------------------------------------------------------------------------------------------------------------------

// The three ops of a kind.
typedef struct Family {
  NnOp forward, input_grad, weight_grad;
} Family;

static MlirValue forward(NnVjp *v, Family f, MlirValue x, MlirValue w) {
  return nn_build_like(v->b, f.forward, v->op, 2, (MlirValue[]){x, w}, NULL);
}

static MlirValue input_grad(NnVjp *v, Family f, MlirValue dy, MlirValue w, MlirValue like) {
  NnType x = nn_value_type(like);
  return nn_build_like(v->b, f.input_grad, v->op, 2, (MlirValue[]){dy, w}, &x);
}

static MlirValue weight_grad(NnVjp *v, Family f, MlirValue x, MlirValue dy, MlirValue like) {
  NnType w = nn_value_type(like);
  return nn_build_like(v->b, f.weight_grad, v->op, 2, (MlirValue[]){x, dy}, &w);
}

static void vjp_forward(NnVjp *v, Family f) {
  MlirValue dy = v->cotangent[0], x = v->operand[0], w = v->operand[1];
  if (nn_value_is_null(dy)) return;
  if (v->needed[0]) v->operand_cotangent[0] = input_grad(v, f, dy, w, x);
  if (v->needed[1]) v->operand_cotangent[1] = weight_grad(v, f, x, dy, w);
}

static void vjp_input_grad(NnVjp *v, Family f) {
  MlirValue g = v->cotangent[0], dy = v->operand[0], w = v->operand[1];
  if (nn_value_is_null(g)) return;
  if (v->needed[0]) v->operand_cotangent[0] = forward(v, f, g, w);
  if (v->needed[1]) v->operand_cotangent[1] = weight_grad(v, f, g, dy, w);
}

static void vjp_weight_grad(NnVjp *v, Family f) {
  MlirValue g = v->cotangent[0], x = v->operand[0], dy = v->operand[1];
  if (nn_value_is_null(g)) return;
  g = nn_cast(v->b, g, nn_value_dtype(x));
  if (v->needed[0]) v->operand_cotangent[0] = input_grad(v, f, dy, g, x);
  if (v->needed[1]) v->operand_cotangent[1] = forward(v, f, x, g);
}

// All three multiply and add once per output element and weight of its group.
static double conv_flops(NnType y, NnType w) {
  return 2.0 * (double)nn_type_elements(&y) * (double)nn_type_elements(&w) / (double)w.dim[0];
}

// The rules of one kind of convolution.
#define CONVOLUTION(name, axes)                                                                                        \
  static const Family name##_family = {NN_OP_##name, NN_OP_##name##_input_grad, NN_OP_##name##_weight_grad};           \
  bool nn_infer_##name(NnOpCall *c, int n, NnType *y) { return (void)n, infer_forward(c, axes, y); }                   \
  bool nn_infer_##name##_input_grad(NnOpCall *c, int n, NnType *dx) { return (void)n, infer_input_grad(c, axes, dx); } \
  bool nn_infer_##name##_weight_grad(NnOpCall *c, int n, NnType *dw) {                                                 \
    return (void)n, infer_weight_grad(c, axes, dw);                                                                    \
  }                                                                                                                    \
  void nn_vjp_##name(NnVjp *v) { vjp_forward(v, name##_family); }                                                      \
  void nn_vjp_##name##_input_grad(NnVjp *v) { vjp_input_grad(v, name##_family); }                                      \
  void nn_vjp_##name##_weight_grad(NnVjp *v) { vjp_weight_grad(v, name##_family); }                                    \
  double nn_flops_##name(MlirOperation op) { return conv_flops(nn_result_type(op, 0), nn_operand_type(op, 1)); }       \
  double nn_flops_##name##_input_grad(MlirOperation op) {                                                              \
    return conv_flops(nn_operand_type(op, 0), nn_operand_type(op, 1));                                                 \
  }                                                                                                                    \
  double nn_flops_##name##_weight_grad(MlirOperation op) {                                                             \
    return conv_flops(nn_operand_type(op, 1), nn_result_type(op, 0));                                                  \
  }
CONVOLUTION(conv2d, 2)
CONVOLUTION(conv3d, 3)

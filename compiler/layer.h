// Private to layer*.c: access to bound arguments, and the functions of each family. One row per layer in layer.c's
// table.
#ifndef NNC_COMPILER_LAYER_H
#define NNC_COMPILER_LAYER_H

#include "compiler/elaborate.h"

// Bound arguments by their position in the signature; the binder has checked the kinds.
MlirValue layer_tensor(const LayerCall *c, int i);
int64_t layer_int(const LayerCall *c, int i);
double layer_float(const LayerCall *c, int i);
bool layer_bool(const LayerCall *c, int i);
const char *layer_string(const LayerCall *c, int i);             // NULL when none
bool layer_given(const LayerCall *c, int i);                     // false: VALUE_NONE
void layer_pair(const LayerCall *c, int i, int64_t out[2]);      // 3 or [3, 5]
void layer_padding(const LayerCall *c, int i, int64_t out[4]);   // p, [h, w] or [top, bottom, left, right]
// The same for `axes` axes: one or `axes` integers; of borders also two for each axis. False after reporting.
bool layer_sizes(const LayerCall *c, int i, int axes, int64_t *out);
bool layer_borders(const LayerCall *c, int i, int axes, int64_t *out);
// A list of integers (or one); count, or -1 after reporting.
int layer_ints(const LayerCall *c, int i, int64_t *out, int max);
// A shape of positive sizes, or one size, for a tensor of `dtype`. False after reporting.
bool layer_shape(const LayerCall *c, int i, NnDtype dtype, NnType *out);
// Axes given as one or a list, negative from the end, all when none: sorted and distinct. Count, -1 after reporting.
int layer_axes(const LayerCall *c, int i, const NnType *type, int64_t *out);
bool layer_axis(const LayerCall *c, int i, int rank, int64_t *out);
// At the call, and at an argument: what begins with "must", "is" or "has" is said of it by name.
bool layer_error(const LayerCall *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool layer_arg_error(const LayerCall *c, int i, const char *format, ...) __attribute__((format(printf, 3, 4)));
// Whether a tensor of the type can be made; otherwise reports at the argument that it has too many elements. To be
// asked before anything of a size that the user chose is built by other than layer_build.
bool layer_representable(const LayerCall *c, int i, const NnType *t);
bool layer_not_negative(const LayerCall *c, int i);        // a float argument; reports
bool layer_run(LayerCall *c, int n_args, Value *result);   // info->fn, with narrow arguments as the row says
double layer_number(const LayerCall *c, int i);            // of kind `number`
// The tensor itself, a comparison as i32.
MlirValue layer_number_tensor(const LayerCall *c, int i);
// The tensor as a float; integers become the type that is computed in, or f32 where the row computes in that.
MlirValue layer_float_tensor(const LayerCall *c, int i);
// Builds an op, turning a refusal of its shape rule into a diagnostic. Null operation after reporting.
MlirOperation layer_build(const LayerCall *c, NnOp op, int n, const MlirValue *operands, int n_attrs,
                          const NnAttr *attrs, const NnType *asked);
MlirValue layer_product(const LayerCall *c, MlirValue x, MlirValue weight);   // x weight^T; null after reporting
bool layer_return(Value *result, MlirValue v);
bool layer_is_false(const LayerCall *c, int i);   // an argument of kind `bias`
// A parameter of the layer: its own, made with `init`, where the argument is true or none; the tensor that is given, of
// that shape; or where it is false a constant. Null after reporting.
MlirValue layer_learnt(const LayerCall *c, int i, const char *name, NnType type, const char *init, double otherwise);
// That argument as a tensor of n elements: the one given, or a parameter. Null after reporting.
MlirValue layer_bias(const LayerCall *c, int i, NnDtype dtype, int64_t n, const char *init);
// The initialiser given, or PyTorch's for that many inputs.
const char *layer_init_or_fan_in(const LayerCall *c, int i, int64_t fan_in);
const char *layer_type_text(const LayerCall *c, NnType type);   // "f32[8, 3]"
// x + v with v along `axis` of x.
MlirValue layer_add_along(NnBuilder *b, MlirValue x, MlirValue v, int64_t axis);
MlirValue layer_broadcast_along(NnBuilder *b, MlirValue v, NnType to, int64_t axis);
// Elements of an axis at indices[n] of i32, and x times matrix[m, n] over an axis of n elements: both leave the axis
// where it is.
MlirValue layer_take(NnBuilder *b, MlirValue x, int axis, MlirValue indices);
MlirValue layer_along(NnBuilder *b, MlirValue x, int axis, MlirValue matrix);
// Whether the matrix that makes an axis of x one of o elements, and the result, can be made; reports at an argument.
bool layer_along_fits(const LayerCall *c, int i, MlirValue x, int axis, int64_t o);
// [o, n] for layer_along: means over the windows of adaptive_avgpool.
MlirValue layer_window_means(NnBuilder *b, NnDtype dtype, int64_t n, int64_t o);
// Uniform in [0, 1), of the type: a draw of its own. Null after reporting.
MlirValue layer_draw(LayerCall *c, NnType type);
MlirValue layer_scale(NnBuilder *b, MlirValue x, double factor);
MlirValue layer_mean_of(NnBuilder *b, MlirValue x, int n_axes, const int64_t *axes);

// clang-format off
#define LAYER_FUNCTIONS(X) \
  X(linear) X(conv2d) X(batchnorm) X(layernorm) X(embedding) X(dropout) X(maxpool) X(avgpool) X(relu) X(relu6) \
  X(leaky_relu) X(gelu) X(silu) X(sigmoid) X(tanh) X(exp) X(log) X(sqrt) X(rsqrt) X(abs) X(sin) X(cos) X(erf) \
  X(floor) X(square) X(softplus) X(clamp) X(maximum) X(minimum) X(where) X(stop_gradient) X(grad) X(parameters) \
  X(cast) X(sum) X(mean) X(amax) X(amin) X(var) X(argmax) X(reshape) X(flatten) X(transpose) X(rearrange) X(split) \
  X(concat) X(pad) X(broadcast_to) X(iota) X(tensor_) X(full) X(len) X(dims) X(axes_of) X(is_list) X(contains) \
  X(narrow) X(dtype) X(gather) X(matmul) X(einsum) X(softmax) X(log_softmax) X(causal_mask) X(attention) \
  X(cross_entropy) X(accuracy) X(rmsnorm) X(groupnorm) X(weight_norm) X(rope) X(lstm_cell) X(gru_cell) X(swiglu) \
  X(conv_transpose2d) X(resize) X(segment_sum) X(segment_mean) X(segment_max) X(none) X(training) X(normal) \
  X(uniform) X(bernoulli) X(randint) X(permutation) X(constant) X(zeros) X(ones) X(conv1d) X(conv3d) \
  X(conv_transpose3d) X(conv_transpose1d) X(adaptive_avgpool) X(adaptive_maxpool) X(interpolate) X(unfold) X(fold) \
  X(cumsum) X(cumprod) X(cummax) X(cummin) X(linear_recurrence) X(sort) X(argsort) X(topk) X(kthvalue) X(median) \
  X(take_along) X(scatter) X(scatter_add) X(index_select) X(searchsorted) X(rfft) X(irfft) X(fft)
// clang-format on
#define X(name) bool layer_##name(LayerCall *c, Value *result);
LAYER_FUNCTIONS(X)
#undef X

#endif

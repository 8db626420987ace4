// The built-in functions of the language: their table, and the binding of call arguments to signatures.
// A signature is "name:kind=default, …"; the kinds are those of kinds.c. A default of `none` makes the argument
// optional. A final "..." passes further arguments on to the layer. What is written in the language itself follows
// behind the table (prelude.c).
#include "compiler/layer.h"
#include "compiler/kinds.h"
#include "compiler/prelude.h"
#include "support/names.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ROW(name, signature, parameters, doc) \
  { #name, signature, layer_##name, doc, parameters, LAYER_AS_GIVEN, NULL, NULL }
#define F32_ROW(name, signature, parameters, doc) \
  { #name, signature, layer_##name, doc, parameters, LAYER_IN_F32, NULL, NULL }
#define SCORE(name, signature, parameters, doc) \
  { #name, signature, layer_##name, doc, parameters, LAYER_TO_F32, NULL, NULL }
static const LayerInfo layers[] = {
    ROW(linear, "x:tensor, features:int, bias:bias=true, init:init=none, bias_init:init=none, weight:tensor=none", true,
        "x W^T + b over the last axis."),
    ROW(conv1d,
        "x:tensor, channels:int=none, kernel:ints=none, stride:ints=1, padding:border=0, dilation:ints=1, "
        "groups:int=1, bias:bias=true, init:init=none, bias_init:init=none, weight:tensor=none",
        true, "1-D convolution of x[N, C, W], as conv2d."),
    ROW(conv2d,
        "x:tensor, channels:int=none, kernel:pair=none, stride:pair=1, padding:border=0, dilation:pair=1, "
        "groups:int=1, bias:bias=true, init:init=none, bias_init:init=none, weight:tensor=none",
        true,
        "2-D convolution of x[N, C, H, W]; the kernel is 1 by default. A weight[O, C/groups, KH, KW] that is given is "
        "used in place of a parameter and says what channels and kernel are."),
    ROW(conv_transpose1d,
        "x:tensor, channels:int=none, kernel:ints=none, stride:ints=1, padding:border=0, output_padding:ints=0, "
        "groups:int=1, bias:bias=true, init:init=none, bias_init:init=none, dilation:ints=1, weight:tensor=none",
        true, "Transposed convolution of x[N, C, W], as conv_transpose2d."),
    ROW(conv_transpose2d,
        "x:tensor, channels:int=none, kernel:pair=none, stride:pair=1, padding:border=0, output_padding:pair=0, "
        "groups:int=1, bias:bias=true, init:init=none, bias_init:init=none, dilation:pair=1, weight:tensor=none",
        true,
        "Transposed convolution: makes x[N, C, H, W] larger by the stride. A weight that is given is [C, O/groups, KH, "
        "KW]."),
    ROW(conv3d,
        "x:tensor, channels:int=none, kernel:ints=none, stride:ints=1, padding:border=0, dilation:ints=1, "
        "groups:int=1, bias:bias=true, init:init=none, bias_init:init=none, weight:tensor=none",
        true,
        "3-D convolution of x[N, C, D, H, W], as conv2d; sizes are one integer or [depth, height, width]. The kernel "
        "is at most 64 deep."),
    ROW(conv_transpose3d,
        "x:tensor, channels:int=none, kernel:ints=none, stride:ints=1, padding:border=0, output_padding:ints=0, "
        "groups:int=1, bias:bias=true, init:init=none, bias_init:init=none, dilation:ints=1, weight:tensor=none",
        true, "Transposed convolution of x[N, C, D, H, W], as conv_transpose2d."),
    F32_ROW(batchnorm, "x:tensor, momentum:float=0.1, eps:float=1e-5, axis:int=1, weight:scale=true, bias:bias=true",
            true,
            "Normalises each channel over the batch; keeps running statistics for evaluation. A weight or bias of "
            "false is 1 or 0."),
    F32_ROW(layernorm, "x:tensor, eps:float=1e-5, axes:ints=-1, weight:scale=true, bias:bias=true", true,
            "Normalises over the last axis, or several last ones. A weight or bias of false is 1 or 0."),
    F32_ROW(rmsnorm, "x:tensor, eps:float=1e-6, weight:scale=true", true,
            "x / sqrt(mean(x^2) + eps) over the last axis, times a learnt weight."),
    F32_ROW(groupnorm, "x:tensor, groups:int, eps:float=1e-5, weight:scale=true, bias:bias=true", true,
            "Normalises each record's channels of x[N, C, ...] in groups."),
    F32_ROW(weight_norm, "v:tensor, axis:int=0", true,
            "Weight normalisation: g v / |v|, with |v| over all axes but one and a learnt g for each of its elements, "
            "which begins as |v| where v is a parameter, as PyTorch's weight_norm, else as 1."),
    ROW(embedding, "indices:tensor, rows:int=none, features:int=none, init:init=none, weight:tensor=none", true,
        "Rows of a learnt table, or of a weight[rows, features] that is given."),
    ROW(lstm_cell,
        "x:tensor, h:tensor, c:tensor, bias:bool=true, projected:bool=false, init:init=none, weight_ih:tensor=none, "
        "weight_hh:tensor=none, bias_ih:tensor=none, bias_hh:tensor=none",
        true,
        "One step of an LSTM: the next h and c, each [N, H], from x[N, D], or with projected=true from x W^T + b, [N, "
        "4H]. Gates and parameters are those of PyTorch's LSTMCell."),
    ROW(gru_cell,
        "x:tensor, h:tensor, bias:bool=true, projected:bool=false, init:init=none, weight_ih:tensor=none, "
        "weight_hh:tensor=none, bias_ih:tensor=none, bias_hh:tensor=none",
        true,
        "One step of a GRU: the next h[N, H] from x[N, D], or with projected=true from x W^T + b, [N, 3H]. Gates and "
        "parameters are those of PyTorch's GRUCell."),
    ROW(dropout, "x:tensor, p:float=0.5", false,
        "Zeroes elements with probability p in training, scales the others by 1/(1-p)."),
    ROW(maxpool, "x:tensor, kernel:ints, stride:ints=none, padding:ints=0, dilation:ints=1, ceil_mode:bool=false",
        false,
        "Maximum over windows of x[N, C, H, W], or of one or three axes behind the channels; stride defaults to the "
        "kernel, with ceil_mode a last window may end outside."),
    ROW(avgpool, "x:tensor, kernel:ints, stride:ints=none, padding:ints=0, include_pad:bool=true, ceil_mode:bool=false",
        false, "Mean over windows, as maxpool; with include_pad padding counts."),
    ROW(adaptive_avgpool, "x:tensor, size:ints", false,
        "Mean over windows of x[N, C, H, W], or of one or three axes behind the channels, so that the result has the "
        "size that is asked for."),
    ROW(adaptive_maxpool, "x:tensor, size:ints", false, "Maximum over the windows of adaptive_avgpool."),
    F32_ROW(resize, "x:tensor, factor:pair, mode:str=nearest", false,
            "x[N, C, H, W] larger by whole factors; \"nearest\" or \"bilinear\"."),
    F32_ROW(interpolate,
            "x:tensor, size:ints=none, scale_factor:any=none, mode:str=nearest, align_corners:bool=false, "
            "antialias:bool=false",
            false,
            "x[N, C, H, W], or with one or three axes behind the channels, of another size or by factors: \"nearest\", "
            "\"nearest-exact\", \"linear\" (\"bilinear\", \"trilinear\"), \"bicubic\" or \"area\"."),
    ROW(unfold, "x:tensor, kernel:pair, dilation:pair=1, padding:padding=0, stride:pair=1", false,
        "The windows of x[N, C, H, W] as columns: [N, C KH KW, windows]."),
    ROW(fold, "x:tensor, size:pair, kernel:pair, dilation:pair=1, padding:padding=0, stride:pair=1", false,
        "The inverse of unfold: the sum of what lies in each place of an image of that size."),
    ROW(relu, "x:tensor", false, "max(x, 0)"),
    ROW(relu6, "x:tensor", false, "min(max(x, 0), 6)"),
    F32_ROW(leaky_relu, "x:tensor, slope:float=0.01", false, "x where positive, slope x elsewhere."),
    F32_ROW(gelu, "x:tensor, approximate:bool=false", false, "x Phi(x); approximate: the tanh form."),
    F32_ROW(silu, "x:tensor", false, "x sigmoid(x)"),
    F32_ROW(swiglu, "x:tensor", false, "silu(a) b, with a and b the halves of the last axis."),
    F32_ROW(sigmoid, "x:tensor", false, "1/(1+e^-x)"),
    F32_ROW(tanh, "x:numeric", false, "Hyperbolic tangent."),
    F32_ROW(exp, "x:numeric", false, "e^x"),
    F32_ROW(log, "x:numeric", false, "Natural logarithm."),
    F32_ROW(sqrt, "x:numeric", false, "Square root."),
    F32_ROW(rsqrt, "x:numeric", false, "1/sqrt(x)"),
    ROW(abs, "x:numeric", false, "|x|"),
    F32_ROW(sin, "x:numeric", false, "Sine."),
    F32_ROW(cos, "x:numeric", false, "Cosine."),
    F32_ROW(erf, "x:numeric", false, "Error function."),
    ROW(floor, "x:numeric", false, "Largest integer not above x."),
    ROW(square, "x:numeric", false, "x x"),
    F32_ROW(softplus, "x:tensor", false, "log(1+e^x), without overflow."),
    ROW(clamp, "x:tensor, low:number, high:number", false, "Limits x to [low, high]."),
    ROW(maximum, "x:numeric, y:numeric", false, "Larger of the two."),
    ROW(minimum, "x:numeric, y:numeric", false, "Smaller of the two."),
    ROW(where, "condition:tensor, x:numeric, y:numeric", false, "x where the condition holds, else y."),
    ROW(stop_gradient, "x:numeric", false,
        "x itself, as a constant for the gradient: nothing before it is trained through it."),
    ROW(grad, "y:tensor, x:any", false,
        "The gradient of the sum of y by the tensor x, or by each of a list; can be differentiated again."),
    ROW(parameters, "model:str", false,
        "The parameters of a model that has been called before, as parameters(net), a list in the order of their first "
        "use. net(x, parameters=list) calls it with others in their place."),
    ROW(cast, "x:tensor, dtype:str", false, "To another element type."),
    F32_ROW(sum, "x:tensor, axes:ints=none, keepdims:bool=false", false,
            "Sum over axes, all by default; of integers in i64."),
    F32_ROW(mean, "x:tensor, axes:ints=none, keepdims:bool=false", false, "Mean over axes, all by default."),
    ROW(amax, "x:tensor, axes:ints=none, keepdims:bool=false", false, "Maximum over axes, all by default."),
    ROW(amin, "x:tensor, axes:ints=none, keepdims:bool=false", false, "Minimum over axes, all by default."),
    F32_ROW(var, "x:tensor, axes:ints=none, keepdims:bool=false, correction:float=0", false,
            "Variance over axes, all by default, of a population; of a sample with correction=1."),
    ROW(argmax, "x:tensor, axis:int=-1", false, "Index of the first maximum along an axis; NaN is largest."),
    ROW(reshape, "x:tensor, shape:ints", false, "Same elements in row-major order; one size may be -1."),
    ROW(flatten, "x:tensor, start:int=1", false, "Joins the axes from `start` on."),
    ROW(transpose, "x:tensor, perm:ints=none", false, "Permutes axes; the last two are swapped by default."),
    ROW(rearrange, "x:tensor, pattern:str, ...", false,
        "Splits, permutes and joins axes: \"b t (h d) -> b h t d\", h=8."),
    ROW(narrow, "x:tensor, axis:int, start:int, length:int, step:int=1", false,
        "So many elements of an axis from `start` on; the step may be negative."),
    ROW(split, "x:tensor, parts:int, axis:int=-1", false, "Equal parts along an axis."),
    ROW(concat, "tensors:list, axis:int=-1", false, "Joins tensors along an axis."),
    ROW(pad, "x:tensor, low:ints, high:ints, value:float=0, mode:str=constant", false,
        "Adds elements before and after each axis: a constant, or by \"reflect\", \"replicate\" or \"circular\"; "
        "negative numbers cut off."),
    ROW(broadcast_to, "x:tensor, shape:ints", false, "Stretches axes of size 1 and adds leading ones."),
    ROW(iota, "n:int", false, "0, 1, … n-1 as i32."),
    // layer_tensor is an access to arguments
    {"tensor", "values:list, dtype:str=none", layer_tensor_,
     "A tensor of a list of numbers, or of lists of equal length: floats of the precision around, i32 where all are "
     "integers. At most 4096.",
     false, LAYER_AS_GIVEN, NULL, NULL},
    ROW(full, "shape:ints, value:float", false, "A tensor of one value."),
    ROW(len, "x:any", false, "Length of a list, or of a tensor's first axis."),
    ROW(dims, "x:tensor", false, "The sizes of a tensor, as a list."),
    ROW(axes_of, "x:tensor, axes:ints=none", false,
        "Axes of a tensor as a list in their order, counted from the first; all by default."),
    ROW(is_list, "x:any", false, "Whether x is a list."),
    ROW(contains, "list:list, x:any", false, "Whether a list of numbers or strings has x."),
    ROW(dtype, "x:tensor", false, "The element type of a tensor, as a string: \"f32\"."),
    ROW(gather, "table:tensor, indices:tensor", false, "Rows of the table."),
    ROW(take_along, "x:tensor, indices:tensor, axis:int=-1", false,
        "Elements of x at the indices along an axis; the other axes of both are alike (PyTorch's gather)."),
    ROW(scatter, "x:tensor, indices:tensor, source:tensor, axis:int=-1", false,
        "x with the elements of source at the indices along an axis; of several at one place the last."),
    ROW(scatter_add, "x:tensor, indices:tensor, source:tensor, axis:int=-1", false,
        "x with the elements of source added at the indices along an axis, in their order."),
    ROW(index_select, "x:tensor, indices:tensor, axis:int=0", false,
        "Parts of x along an axis, at one list of indices."),
    ROW(searchsorted, "sorted:tensor, values:tensor, right:bool=false", false,
        "Where in the sorted rows each value would stand: how many elements are below it, or with right not above it."),
    F32_ROW(rfft, "x:tensor", false,
            "The non-negative half of the spectrum of real rows, x[..., n] to [..., n/2 + 1, 2]: PyTorch's rfft, as "
            "view_as_real."),
    F32_ROW(irfft, "x:tensor, n:int=none", false,
            "Real rows of n elements from the half of their spectrum, x[..., n/2 + 1, 2] to [..., n]: PyTorch's irfft; "
            "n is even by default. The imaginary parts of the first number and, of even n, of the last do not count."),
    F32_ROW(fft, "x:tensor, inverse:bool=false", false,
            "The spectrum of complex rows, x[..., n, 2] to [..., n, 2], or with inverse=true back from it: PyTorch's "
            "fft "
            "and ifft."),
    F32_ROW(cumsum, "x:tensor, axis:int=-1", false, "Sums of each element and those before it; of integers in i64."),
    F32_ROW(cumprod, "x:tensor, axis:int=-1", false,
            "Products of each element and those before it; of integers in i64."),
    ROW(cummax, "x:tensor, axis:int=-1", false,
        "The largest of each element and those before it, and its index, of equal ones the last."),
    ROW(cummin, "x:tensor, axis:int=-1", false,
        "The smallest of each element and those before it, and its index, of equal ones the last."),
    F32_ROW(linear_recurrence, "a:tensor, x:tensor, axis:int=-1, reverse:bool=false", false,
            "y[t] = a[t] y[t-1] + x[t] along an axis, from y[-1] = 0; reverse: from the end."),
    ROW(sort, "x:tensor, axis:int=-1, descending:bool=false", false,
        "x sorted along an axis, and the indices of its elements in x; equal ones stay in their order, NaN is "
        "largest."),
    ROW(argsort, "x:tensor, axis:int=-1, descending:bool=false", false, "The indices that sort x along an axis."),
    ROW(topk, "x:tensor, k:int, axis:int=-1, largest:bool=true", false,
        "The k largest elements along an axis in their order, or the smallest, and their indices."),
    ROW(kthvalue, "x:tensor, k:int, axis:int=-1", false,
        "The k-th smallest element along an axis, and its index; the axis is dropped."),
    ROW(median, "x:tensor, axis:int=-1", false,
        "The middle element along an axis, of two the smaller, and its index; the axis is dropped."),
    F32_ROW(segment_sum, "x:tensor, segments:tensor, count:int", false,
            "Row s of the result is the sum of the rows of x whose segment is s."),
    F32_ROW(segment_mean, "x:tensor, segments:tensor, count:int", false,
            "The same with the mean; 0 for an empty segment."),
    ROW(segment_max, "x:tensor, segments:tensor, count:int", false,
        "The same with the maximum; 0 for an empty segment."),
    ROW(matmul, "x:tensor, y:tensor", false,
        "Matrix product over the last two axes; those before are stretched to each other's."),
    ROW(einsum, "pattern:str, ...", false, "Sum of products by index names: \"b i d, b j d -> b i j\"."),
    F32_ROW(softmax, "x:tensor, axis:int=-1", false, "e^x normalised to sum 1 along an axis."),
    F32_ROW(log_softmax, "x:tensor, axis:int=-1", false, "Logarithm of softmax."),
    ROW(causal_mask, "x:tensor", false, "Makes x[.., i, j] with j > i very negative."),
    ROW(attention,
        "q:tensor, k:tensor, v:tensor, heads:int=none, causal:bool=false, mask:tensor=none, scale:float=none, "
        "dropout:float=0, bias:tensor=none, window:int=none, softcap:float=none",
        false,
        "softmax(scale q k' + bias) v over the last two axes of [B, H, T, D], or of [B, T, H D] with heads=H; scale is "
        "1/sqrt(D) by default. mask is 0 for keys not to be seen: [B, T of k], or [B, H, T of q, T of k], where the "
        "first three may be 1, as bias is. window: only keys less than that many positions away. softcap: scores s "
        "become softcap tanh(s/softcap), before the bias. dropout applies to the weights."),
    F32_ROW(rope, "x:tensor, base:float=10000, interleaved:bool=false", false,
            "Rotary positions: turns the pairs of x[..., T, D], of at most 7 axes, by angles that grow with T."),
    SCORE(cross_entropy,
          "logits:tensor, labels:labels, smoothing:float=0, weights:weights=none, class_weights:tensor=none, "
          "ignore_index:int=none, reduction:str=mean",
          false,
          "Mean of -log softmax(logits)[label]; smoothing mixes in that part of all classes alike. weights are those "
          "of labels, class_weights of their classes; labels that are ignore_index do not count."),
    SCORE(accuracy, "logits:tensor, labels:labels, weights:weights=none", false,
          "Part of the records whose largest logit is the label's."),
    ROW(none, "", false, "No value: that of an argument that is left out."),
    ROW(training, "", false, "true while the training step is built, false for evaluation and prediction."),
    ROW(normal, "std:number_or_shape=1, mean:number=0, shape:ints=none", false,
        "Normal distribution: an initialiser, or with a shape a tensor drawn anew in each step: normal([N, D])."),
    ROW(uniform, "low:number_or_shape, high:number=none, shape:ints=none", false,
        "Uniform distribution: an initialiser, or with a shape a tensor drawn in each step, from [0, 1) by default."),
    ROW(bernoulli, "p:numeric, shape:ints=none", false,
        "1 with probability p, else 0, drawn in each step; p is a number beside a shape, or a tensor."),
    ROW(randint, "low:int, high:int, shape:ints", false, "Integers of i32 from low to high - 1, drawn in each step."),
    ROW(permutation, "n:int", false, "The numbers 0 to n - 1 in an order that is drawn in each step, as i32."),
    ROW(constant, "value:number", false, "Initialiser: one value."),
    ROW(zeros, "", false, "Initialiser: zeros."),
    ROW(ones, "", false, "Initialiser: ones."),
};
#undef ROW
#undef F32_ROW
#undef SCORE

enum { IN_C = sizeof layers / sizeof layers[0] };
int layer_count(void) { return IN_C + prelude_count(); }
const LayerInfo *layer_at(int i) { return i < IN_C ? &layers[i] : prelude_at(i - IN_C); }

const LayerInfo *layer_find(const char *name) {
  for (int i = 0; i < IN_C; i++)
    if (strcmp(layers[i].name, name) == 0) return &layers[i];
  return prelude_find(name);
}

// --- Signatures ------------------------------------------------------------------------------------------------------

typedef struct Parameter {
  char name[32], kind[16], fallback[16];
} Parameter;
#define MAX_PARAMETERS 16

static void copy_word(char *to, size_t size, const char *from, size_t n) {
  if (n >= size) n = size - 1;
  memcpy(to, from, n);
  to[n] = 0;
}

// Splits a signature; returns the number of parameters and whether it ends in "...".
static int parse_signature(const char *s, Parameter *out, bool *open) {
  int n = 0;
  *open = false;
  while (*s) {
    s += strspn(s, ", ");
    if (!*s) break;
    if (strncmp(s, "...", 3) == 0) {
      *open = true;
      break;
    }
    size_t name = strcspn(s, ":");
    copy_word(out[n].name, sizeof out[n].name, s, name);
    s += name + 1;
    size_t kind = strcspn(s, "=,");
    copy_word(out[n].kind, sizeof out[n].kind, s, kind);
    s += kind;
    out[n].fallback[0] = 0;
    if (*s == '=') {
      size_t value = strcspn(s + 1, ",");
      copy_word(out[n].fallback, sizeof out[n].fallback, s + 1, value);
      s += value + 1;
    }
    n++;
  }
  return n;
}

static Value default_value(const Parameter *p) {
  if (strcmp(p->fallback, "none") == 0) return (Value){.kind = VALUE_NONE};
  if (strcmp(p->kind, "bool") == 0 || strcmp(p->kind, "bias") == 0 || strcmp(p->kind, "scale") == 0)
    return value_bool(strcmp(p->fallback, "true") == 0);
  bool fraction = strcmp(p->kind, "float") == 0 || p->fallback[strspn(p->fallback, "-0123456789")];
  if (strcmp(p->kind, "str") == 0) return value_string(p->fallback);
  return fraction ? value_float(atof(p->fallback)) : value_int(atoll(p->fallback));
}

static void hint_nearest(Elaborator *e, const LayerInfo *info, const char *name, int n, const Parameter *p) {
  NameSearch nearest = name_search(name);
  for (int i = 0; i < n; i++) name_consider(&nearest, p[i].name);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else elaborator_hint(e, "%s(%s)", info->name, info->signature);
}

typedef struct Binding {
  Parameter parameter[MAX_PARAMETERS];
  Value value[MAX_PARAMETERS];
  AstPos pos[MAX_PARAMETERS];
  bool given[MAX_PARAMETERS];
  int n;
} Binding;

static bool bind_one(Elaborator *e, const LayerInfo *info, Binding *b, int i, const CallArg *arg, bool values) {
  if (b->given[i]) return elaborator_error(e, arg->pos, "'%s' is given twice to %s", b->parameter[i].name, info->name);
  Value v = arg->value;
  b->given[i] = true;   // also when it does not fit: one message is enough
  const Parameter *p = &b->parameter[i];
  bool left_out = v.kind == VALUE_NONE && strcmp(p->fallback, "none") == 0;
  const char *expected = values && !left_out ? kind_convert(p->kind, &v) : NULL;
  if (expected)
    return elaborator_error(e, arg->pos, "%s: '%s' must be %s, found %s", info->name, p->name, expected,
                            value_describe(e, arg->value));
  b->value[i] = v;
  b->pos[i] = arg->pos;
  return true;
}

static int parameter_index(const Binding *b, const char *name) {
  for (int i = 0; i < b->n; i++)
    if (strcmp(b->parameter[i].name, name) == 0) return i;
  return -1;
}

const char *layer_argument_kind(const LayerInfo *info, int place, const char *name) {
  Binding b;
  bool open;
  b.n = parse_signature(info->signature, b.parameter, &open);
  int i = name ? parameter_index(&b, name) : place;
  return i >= 0 && i < b.n ? kind_find(b.parameter[i].kind) : NULL;
}

// Arguments to parameters and, where the signature is open, to `extra`. values false: names and numbers of arguments
// alone.
static bool bind_all(Elaborator *e, const LayerInfo *info, Binding *b, bool values, AstPos pos, int n_args,
                     const CallArg *args, int *n_extra, CallArg *extra) {
  bool open, ok = true;
  int place = 0;
  b->n = parse_signature(info->signature, b->parameter, &open);
  for (int k = 0; k < n_args; k++) {
    int i = args[k].name ? parameter_index(b, args[k].name) : place++;
    if (i >= 0 && i < b->n) {
      ok = bind_one(e, info, b, i, &args[k], values) && ok;
    } else if (open) {
      extra[(*n_extra)++] = args[k];
    } else if (args[k].name) {
      ok = elaborator_error(e, args[k].name_pos, "%s has no argument '%s'", info->name, args[k].name);
      hint_nearest(e, info, args[k].name, b->n, b->parameter);
    } else {
      return elaborator_error(e, args[k].pos, "too many arguments to %s, which takes %d: %s", info->name, b->n,
                              info->signature);
    }
  }
  if (!ok) return false;   // a misspelt argument is not also a missing one
  for (int i = 0; i < b->n; i++) {
    if (b->given[i]) continue;
    b->pos[i] = pos;
    if (!b->parameter[i].fallback[0]) {
      ok = elaborator_error(e, pos, "%s needs '%s'", info->name, b->parameter[i].name);
      elaborator_hint(e, "%s(%s)", info->name, info->signature);
    } else {
      b->value[i] = default_value(&b->parameter[i]);
    }
  }
  return ok;
}

bool layer_call(Elaborator *e, const LayerInfo *info, AstPos pos, int n_args, const CallArg *args, Value *result) {
  Binding b = {0};
  CallArg *extra = elaborator_alloc(e, sizeof *extra * (size_t)(n_args + 1));
  int n_extra = 0;
  if (!bind_all(e, info, &b, true, pos, n_args, args, &n_extra, extra)) return false;
  LayerCall call = {e, elaborator_builder(e), pos, info, b.value, b.pos, n_extra, extra};
  return layer_run(&call, b.n, result);
}

void layer_check_arguments(Elaborator *e, const LayerInfo *info, AstPos pos, int n_args, const CallArg *args) {
  Binding b = {0};
  CallArg *extra = elaborator_alloc(e, sizeof *extra * (size_t)(n_args + 1));
  int n_extra = 0;
  bind_all(e, info, &b, false, pos, n_args, args, &n_extra, extra);
}

// --- Access to bound arguments
// -----------------------------------------------------------------------------------------

MlirValue layer_tensor(const LayerCall *c, int i) { return c->arg[i].tensor; }
int64_t layer_int(const LayerCall *c, int i) { return c->arg[i].i; }
double layer_float(const LayerCall *c, int i) { return c->arg[i].f; }
bool layer_bool(const LayerCall *c, int i) { return c->arg[i].b; }
bool layer_given(const LayerCall *c, int i) { return c->arg[i].kind != VALUE_NONE; }
const char *layer_string(const LayerCall *c, int i) { return layer_given(c, i) ? c->arg[i].s : NULL; }

int layer_ints(const LayerCall *c, int i, int64_t *out, int max) {
  const Value *v = &c->arg[i];
  if (v->kind == VALUE_INT) {
    out[0] = v->i;
    return 1;
  }
  if (v->list.n > max) {
    layer_arg_error(c, i, "at most %d integers are possible here, found %d", max, v->list.n);
    return -1;
  }
  for (int k = 0; k < v->list.n; k++) out[k] = v->list.items[k].i;
  return v->list.n;
}

void layer_pair(const LayerCall *c, int i, int64_t out[2]) {
  if (layer_ints(c, i, out, 2) == 1) out[1] = out[0];
}

void layer_padding(const LayerCall *c, int i, int64_t out[4]) {
  int n = layer_ints(c, i, out, 4);
  if (n == 1) out[1] = out[2] = out[3] = out[0];
  if (n == 2) {
    out[2] = out[3] = out[1];
    out[1] = out[0];
  }
}

bool layer_sizes(const LayerCall *c, int i, int axes, int64_t *out) {
  const Value *v = &c->arg[i];
  if (v->kind == VALUE_LIST && v->list.n != 1 && v->list.n != axes)
    return axes == 1 ? layer_arg_error(c, i, "must be one integer, found %s", value_describe(c->e, *v))
                     : layer_arg_error(c, i, "must be one integer or %d, found %s", axes, value_describe(c->e, *v));
  int n = layer_ints(c, i, out, axes);
  for (int k = n; k < axes; k++) out[k] = out[0];
  return true;
}

bool layer_borders(const LayerCall *c, int i, int axes, int64_t *out) {
  int n = layer_ints(c, i, out, 2 * axes);
  if (n < 0) return false;
  if (n != 1 && n != axes && n != 2 * axes)
    return axes == 1 ? layer_arg_error(c, i, "must be one integer or 2, found %s", value_describe(c->e, c->arg[i]))
                     : layer_arg_error(c, i, "must be one integer, %d or %d, found %s", axes, 2 * axes,
                                       value_describe(c->e, c->arg[i]));
  for (int k = 2 * axes - 1; n < 2 * axes && k >= 0; k--) out[k] = out[n == 1 ? 0 : k / 2];
  return true;
}

bool layer_axis(const LayerCall *c, int i, int rank, int64_t *out) {
  int64_t axis = c->arg[i].i;
  if (axis < -rank || axis >= rank)
    return layer_arg_error(c, i, "axis %lld is outside a tensor of %d axes", (long long)axis, rank);
  *out = axis < 0 ? axis + rank : axis;
  return true;
}

int layer_axes(const LayerCall *c, int i, const NnType *type, int64_t *out) {
  bool used[NN_MAX_RANK] = {false};
  if (!layer_given(c, i)) {
    for (int k = 0; k < type->rank; k++) out[k] = k;
    return type->rank;
  }
  int64_t given[NN_MAX_RANK];
  int n = layer_ints(c, i, given, NN_MAX_RANK), count = 0;
  if (n < 0) return -1;
  for (int k = 0; k < n; k++) {
    int64_t axis = given[k] < 0 ? given[k] + type->rank : given[k];
    if (axis < 0 || axis >= type->rank) {
      layer_arg_error(c, i, "axis %lld is outside a tensor of %d axes", (long long)given[k], type->rank);
      return -1;
    }
    if (used[axis]) {
      layer_arg_error(c, i, "axis %lld is given twice", (long long)given[k]);
      return -1;
    }
    used[axis] = true;
  }
  for (int k = 0; k < type->rank; k++)
    if (used[k]) out[count++] = k;
  return count;
}

// Of argument i, in the signature of the table, "kernel:pair, stride:pair=1".
static const char *argument_name(const LayerCall *c, int i, int *length) {
  const char *name = c->info->signature;
  for (; i > 0; i--) name += strcspn(name, ",") + 1;
  name += strspn(name, " ");
  *length = (int)strcspn(name, ":");
  return name;
}

static bool begins_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

bool layer_error(const LayerCall *c, const char *format, ...) {
  va_list args;
  char text[NN_ERROR_SIZE];
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return elaborator_error(c->e, c->pos, "%s: %s", c->info->name, text);
}

bool layer_arg_error(const LayerCall *c, int i, const char *format, ...) {
  va_list args;
  char text[NN_ERROR_SIZE];
  int length = 0;
  const char *name = argument_name(c, i, &length);
  bool predicate = begins_with(format, "must ") || begins_with(format, "is ") || begins_with(format, "has ");
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return predicate ? elaborator_error(c->e, c->arg_pos[i], "%s: '%.*s' %s", c->info->name, length, name, text)
                   : elaborator_error(c->e, c->arg_pos[i], "%s: %s", c->info->name, text);
}

bool layer_not_negative(const LayerCall *c, int i) {
  return layer_float(c, i) >= 0 || layer_arg_error(c, i, "must not be negative, found %g", layer_float(c, i));
}

// --- Small builders that several layers share -----------------------------------------------------------------------

double layer_number(const LayerCall *c, int i) {
  double x = 0;
  value_as_number(&c->arg[i], &x);
  return x;
}

MlirValue layer_number_tensor(const LayerCall *c, int i) {
  MlirValue x = layer_tensor(c, i);
  return nn_value_dtype(x) == NN_I1 ? nn_cast(c->b, x, NN_I32) : x;
}

MlirValue layer_float_tensor(const LayerCall *c, int i) {
  MlirValue x = layer_tensor(c, i);
  NnDtype dtype = elaborator_dtype(c->e);
  if (nn_dtype_is_float(nn_value_dtype(x))) return x;
  return nn_cast(c->b, x, c->info->arithmetic == LAYER_AS_GIVEN ? dtype : nn_dtype_wide(dtype));
}

bool layer_representable(const LayerCall *c, int i, const NnType *t) {
  return nn_type_is_representable(t) ||
         layer_arg_error(c, i, "%s would have more than 2^40 elements", layer_type_text(c, *t));
}

MlirOperation layer_build(const LayerCall *c, NnOp op, int n, const MlirValue *operands, int n_attrs,
                          const NnAttr *attrs, const NnType *asked) {
  MlirOperation made = nn_build(c->b, op, n, operands, n_attrs, attrs, asked);
  if (mlirOperationIsNull(made)) {
    const char *detail = strstr(c->b->error, ": ");   // after the op's own name
    layer_error(c, "%s", detail ? detail + 2 : c->b->error);
    return made;
  }
  for (intptr_t i = 0; i < mlirOperationGetNumResults(made); i++) {
    NnType t = nn_value_type(mlirOperationGetResult(made, i));
    if (nn_type_is_representable(&t)) continue;
    layer_error(c, "the result %s has more than 2^40 elements",
                value_describe(c->e, value_tensor(mlirOperationGetResult(made, i))));
    return nn_null_operation();
  }
  return made;
}

MlirValue layer_product(const LayerCall *c, MlirValue x, MlirValue weight) {
  NnAttr attrs[] = {NN_BOOL("transpose_a", false), NN_BOOL("transpose_b", true)};
  MlirOperation product = layer_build(c, NN_OP_matmul, 2, (MlirValue[]){x, weight}, 2, attrs, NULL);
  return mlirOperationIsNull(product) ? nn_null_value() : mlirOperationGetResult(product, 0);
}

bool layer_return(Value *result, MlirValue v) {
  *result = value_tensor(v);
  return true;
}

bool layer_is_false(const LayerCall *c, int i) { return c->arg[i].kind == VALUE_BOOL && !c->arg[i].b; }

MlirValue layer_learnt(const LayerCall *c, int i, const char *name, NnType type, const char *init, double otherwise) {
  if (layer_is_false(c, i)) return nn_constant(c->b, type, otherwise);
  if (c->arg[i].kind != VALUE_TENSOR) return elaborator_param(c->e, c->pos, name, type, init);
  MlirValue given = layer_tensor(c, i);
  NnType t = nn_value_type(given);
  if (nn_shape_equal(&t, &type)) return nn_cast(c->b, given, type.dtype);
  type.dtype = t.dtype;
  layer_arg_error(c, i, "must be %s, found %s", strchr(layer_type_text(c, type), '['), value_describe(c->e, c->arg[i]));
  return nn_null_value();
}

MlirValue layer_bias(const LayerCall *c, int i, NnDtype dtype, int64_t n, const char *init) {
  return layer_learnt(c, i, "bias", nn_type(dtype, 1, &n), init, 0);
}

const char *layer_init_or_fan_in(const LayerCall *c, int i, int64_t fan_in) {
  if (layer_given(c, i)) return c->arg[i].s;
  double bound = 1 / sqrt((double)(fan_in > 0 ? fan_in : 1));
  return elaborator_format(c->e, "uniform(%.17g,%.17g)", -bound, bound);
}

const char *layer_type_text(const LayerCall *c, NnType type) {
  char text[256];
  return elaborator_format(c->e, "%s", nn_type_format(&type, text, sizeof text));
}

MlirValue layer_broadcast_along(NnBuilder *b, MlirValue v, NnType to, int64_t axis) {
  to.dtype = nn_value_dtype(v);
  return nn_broadcast(b, v, to, &axis);
}

MlirValue layer_add_along(NnBuilder *b, MlirValue x, MlirValue v, int64_t axis) {
  return nn_binary(b, NN_OP_add, x, layer_broadcast_along(b, v, nn_value_type(x), axis));
}

MlirValue layer_scale(NnBuilder *b, MlirValue x, double factor) {
  return nn_binary(b, NN_OP_mul, x, nn_constant_like(b, x, factor));
}

MlirValue layer_mean_of(NnBuilder *b, MlirValue x, int n_axes, const int64_t *axes) {
  NnType t = nn_value_type(x);
  double count = 1;
  for (int i = 0; i < n_axes; i++) count *= (double)t.dim[axes[i]];
  return layer_scale(b, nn_reduce(b, NN_OP_reduce_sum, x, n_axes, axes), 1 / count);
}

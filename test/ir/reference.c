// The reference interpreter: see reference.h. Ops of one family share a loop; windows, convolutions and composites
// follow their formulas.
#include "test/ir/reference.h"
#include "test/ir/attention_reference.h"
#include "test/ir/rows_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

Tensor tensor_create(NnType type) {
  return (Tensor){.type = type, .data = calloc((size_t)nn_type_elements(&type), sizeof(double))};
}

void tensor_free(Tensor *t) {
  free(t->data);
  t->data = NULL;
}

static int64_t count(const Tensor *t) { return nn_type_elements(&t->type); }

// Linear index to one index per axis, and back.
static void unravel(const NnType *t, int64_t linear, int64_t *index) {
  for (int i = t->rank - 1; i >= 0; i--) {
    index[i] = linear % t->dim[i];
    linear /= t->dim[i];
  }
}

static int64_t ravel(const NnType *t, const int64_t *index) {
  int64_t linear = 0;
  for (int i = 0; i < t->rank; i++) linear = linear * t->dim[i] + index[i];
  return linear;
}

static double round_to(NnDtype dtype, double x) {
  switch (dtype) {
  case NN_F32:
  case NN_BF16:
  case NN_F16: return nn_dtype_round(dtype, x);
  case NN_I32: return (double)(int32_t)(int64_t)x;
  case NN_I64: return (double)(int64_t)x;
  case NN_U8: return (double)(uint8_t)(int64_t)x;
  case NN_I1: return x != 0;
  default: return x;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Maps

static double map1(NnOp op, double x, NnDtype to) {
  switch (op) {
  case NN_OP_neg: return -x;
  case NN_OP_abs: return fabs(x);
  case NN_OP_sign: return x > 0 ? 1 : x < 0 ? -1 : x;
  case NN_OP_exp: return exp(x);
  case NN_OP_log: return log(x);
  case NN_OP_sqrt: return sqrt(x);
  case NN_OP_rsqrt: return 1 / sqrt(x);
  case NN_OP_recip: return 1 / x;
  case NN_OP_sin: return sin(x);
  case NN_OP_cos: return cos(x);
  case NN_OP_tanh: return tanh(x);
  case NN_OP_erf: return erf(x);
  case NN_OP_sigmoid: return 1 / (1 + exp(-x));
  case NN_OP_relu: return x < 0 ? 0 : x;
  case NN_OP_floor: return floor(x);
  case NN_OP_not: return x == 0;
  case NN_OP_cast: return nn_dtype_is_float(to) ? x : to == NN_I1 ? x != 0 : trunc(x);
  default: abort();
  }
}

static double compare(const char *predicate, double x, double y) {
  if (!strcmp(predicate, "eq")) return x == y;
  if (!strcmp(predicate, "ne")) return x != y;
  if (!strcmp(predicate, "lt")) return x < y;
  if (!strcmp(predicate, "le")) return x <= y;
  if (!strcmp(predicate, "gt")) return x > y;
  return x >= y;
}

static double map2(NnOp op, double x, double y, NnDtype dtype, const char *predicate) {
  switch (op) {
  case NN_OP_add: return x + y;
  case NN_OP_sub: return x - y;
  case NN_OP_mul: return x * y;
  case NN_OP_div: return nn_dtype_is_float(dtype) ? x / y : floor(x / y);
  case NN_OP_pow: return pow(x, y);
  case NN_OP_max: return isnan(x) || x > y || (x == y && !signbit(x)) ? x : y;
  case NN_OP_min: return isnan(x) || x < y || (x == y && signbit(x)) ? x : y;
  case NN_OP_and: return x != 0 && y != 0;
  case NN_OP_or: return x != 0 || y != 0;
  case NN_OP_compare: return compare(predicate, x, y);
  default: abort();
  }
}

static void map(MlirOperation operation, NnOp op, const Tensor *const *x, Tensor *y) {
  char predicate[8];
  nn_attr_str(operation, "predicate", predicate, sizeof predicate, "");
  for (int64_t i = 0; i < count(y); i++) {
    if (op == NN_OP_select) y->data[i] = x[0]->data[i] != 0 ? x[1]->data[i] : x[2]->data[i];
    else if (nn_op_info(op)->n_operands == 1) y->data[i] = map1(op, x[0]->data[i], y->type.dtype);
    else y->data[i] = map2(op, x[0]->data[i], x[1]->data[i], x[0]->type.dtype, predicate);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Views and moves: where each result element comes from

static void view(MlirOperation operation, NnOp op, const Tensor *x, Tensor *y) {
  int64_t a[NN_MAX_RANK], b[NN_MAX_RANK], to[NN_MAX_RANK], from[NN_MAX_RANK];
  nn_attr_i64s(operation, op == NN_OP_broadcast ? "dims" : op == NN_OP_transpose ? "perm" : "starts", a, NN_MAX_RANK);
  nn_attr_i64s(operation, "strides", b, NN_MAX_RANK);
  for (int64_t i = 0; i < count(y); i++) {
    unravel(&y->type, i, to);
    for (int k = 0; k < x->type.rank; k++) {
      if (op == NN_OP_broadcast) from[k] = x->type.dim[k] == 1 ? 0 : to[a[k]];
      else if (op == NN_OP_transpose) from[a[k]] = to[k];
      else if (op == NN_OP_slice) from[k] = a[k] + to[k] * b[k];
    }
    y->data[i] = x->data[op == NN_OP_reshape ? i : ravel(&x->type, from)];
  }
}

static void pad(MlirOperation operation, const Tensor *x, Tensor *y) {
  int64_t low[NN_MAX_RANK], interior[NN_MAX_RANK], at[NN_MAX_RANK];
  nn_attr_i64s(operation, "low", low, NN_MAX_RANK);
  nn_attr_i64s(operation, "interior", interior, NN_MAX_RANK);
  for (int64_t i = 0; i < count(y); i++) y->data[i] = nn_attr_f64(operation, "value", 0);
  for (int64_t i = 0; i < count(x); i++) {
    unravel(&x->type, i, at);
    for (int k = 0; k < x->type.rank; k++) at[k] = low[k] + at[k] * (interior[k] + 1);
    y->data[ravel(&y->type, at)] = x->data[i];
  }
}

static void concat(MlirOperation operation, int n, const Tensor *const *x, Tensor *y) {
  int64_t axis = nn_attr_i64(operation, "axis", 0), offset = 0, at[NN_MAX_RANK];
  for (int k = 0; k < n; k++) {
    for (int64_t i = 0; i < count(x[k]); i++) {
      unravel(&x[k]->type, i, at);
      at[axis] += offset;
      y->data[ravel(&y->type, at)] = x[k]->data[i];
    }
    offset += x[k]->type.dim[axis];
  }
}

// An index outside of the table takes its nearest row, and adds nothing.
static void gather(const Tensor *x, const Tensor *indices, Tensor *y) {
  int64_t rows = x->type.dim[0], width = count(x) / rows;
  for (int64_t i = 0; i < count(y); i++) {
    int64_t row = (int64_t)indices->data[i / width];
    y->data[i] = x->data[(row < 0 ? 0 : row >= rows ? rows - 1 : row) * width + i % width];
  }
}

static void scatter_add(const Tensor *x, const Tensor *indices, Tensor *y) {
  int64_t rows = y->type.dim[0], width = count(y) / rows;
  for (int64_t i = 0; i < count(x); i++) {
    int64_t row = (int64_t)indices->data[i / width];
    if (row >= 0 && row < rows) y->data[row * width + i % width] += x->data[i];
  }
}

static void scatter_max(const Tensor *x, const Tensor *indices, Tensor *y) {
  int64_t rows = y->type.dim[0], width = count(y) / rows;
  for (int64_t i = 0; i < count(y); i++) y->data[i] = -INFINITY;
  for (int64_t i = 0; i < count(x); i++) {
    int64_t row = (int64_t)indices->data[i / width];
    if (row >= 0 && row < rows) y->data[row * width + i % width] = fmax(y->data[row * width + i % width], x->data[i]);
  }
  for (int64_t i = 0; i < count(y); i++) y->data[i] = isinf(y->data[i]) ? 0 : y->data[i];
}

static void argmax(MlirOperation operation, const Tensor *x, Tensor *y) {
  int64_t axis = nn_attr_i64(operation, "axis", 0), at[NN_MAX_RANK], full[NN_MAX_RANK];
  for (int64_t i = 0; i < count(y); i++) {
    unravel(&y->type, i, at);
    for (int k = 0, from = 0; k < x->type.rank; k++) full[k] = k == axis ? 0 : at[from++];
    double best = 0;
    for (int64_t j = 0; j < x->type.dim[axis]; j++) {
      full[axis] = j;
      double value = x->data[ravel(&x->type, full)];
      if (j > 0 && (value <= best || isnan(best))) continue;
      best = value;
      y->data[i] = (double)j;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Reductions

// Place in the reduced shape of element i of x.
static int64_t reduced_place(const NnType *x, int n, const int64_t *axes, int64_t i) {
  int64_t at[NN_MAX_RANK], place = 0;
  unravel(x, i, at);
  for (int k = 0, r = 0; k < x->rank; k++) {
    if (r < n && axes[r] == k) r++;
    else place = place * x->dim[k] + at[k];
  }
  return place;
}

static void moments_over(const Tensor *x, int n, const int64_t *axes, double *mean, double *var, int64_t size) {
  double m = (double)(count(x) / size);
  for (int64_t i = 0; i < size; i++) mean[i] = var[i] = 0;
  for (int64_t i = 0; i < count(x); i++) mean[reduced_place(&x->type, n, axes, i)] += x->data[i] / m;
  for (int64_t i = 0; i < count(x); i++) {
    int64_t place = reduced_place(&x->type, n, axes, i);
    var[place] += (x->data[i] - mean[place]) * (x->data[i] - mean[place]) / m;
  }
}

static void reduce(MlirOperation operation, NnOp op, const Tensor *x, Tensor *y) {
  int64_t axes[NN_MAX_RANK];
  int n = nn_attr_i64s(operation, "axes", axes, NN_MAX_RANK);
  if (op == NN_OP_moments) {
    moments_over(x, n, axes, y[0].data, y[1].data, count(y));
    return;
  }
  for (int64_t i = 0; op == NN_OP_reduce_max && i < count(y); i++) y->data[i] = -INFINITY;
  for (int64_t i = 0; i < count(x); i++) {
    double *to = &y->data[reduced_place(&x->type, n, axes, i)];
    *to = op == NN_OP_reduce_sum ? *to + x->data[i] : x->data[i] > *to ? x->data[i] : *to;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Windows: one visitor for pools and convolutions, which differ in what they do at each place of a window

typedef struct Window {
  int axes, first, channel;   // the batch is axis 0
  int64_t stride[3], padding[6], dilation[3], kernel[3];
} Window;

static Window window_of(MlirOperation op) {
  char layout[8];
  NnType x = nn_value_type(mlirOperationGetOperand(op, 0));
  Window w = {.axes = x.rank - 2, .first = 2, .channel = 1, .dilation = {1, 1, 1}};
  nn_attr_str(op, "layout", layout, sizeof layout, "nchw");
  if (layout[strlen(layout) - 1] == 'c') w.first = 1, w.channel = x.rank - 1;
  nn_attr_i64s(op, "strides", w.stride, 3);
  nn_attr_i64s(op, "padding", w.padding, 6);
  nn_attr_i64s(op, "dilation", w.dilation, 3);
  nn_attr_i64s(op, "kernel", w.kernel, 3);
  return w;
}

// Input element under the window of output element `to` at the place that has that number among kernel[], in channel
// `channel`; -1 where padding is.
static int64_t under(const Window *w, const NnType *x, const int64_t *to, int64_t channel, const int64_t *kernel,
                     int64_t place) {
  int64_t at[5];
  at[0] = to[0], at[w->channel] = channel;
  for (int i = w->axes - 1; i >= 0; place /= kernel[i--]) {
    int64_t *a = &at[w->first + i];
    *a = to[w->first + i] * w->stride[i] - w->padding[2 * i] + place % kernel[i] * w->dilation[i];
    if (*a < 0 || *a >= x->dim[w->first + i]) return -1;
  }
  return ravel(x, at);
}

static void maxpool(MlirOperation op, const Tensor *x, Tensor *y, Tensor *winner) {
  Window w = window_of(op);
  for (int64_t i = 0; i < count(y); i++) {
    int64_t to[4];
    unravel(&y->type, i, to);
    bool any = false;
    for (int64_t k = 0; k < w.kernel[0] * w.kernel[1]; k++) {
      int64_t from = under(&w, &x->type, to, to[w.channel], w.kernel, k);
      if (from < 0 || (any && !(x->data[from] > y->data[i]))) continue;
      any = true;
      y->data[i] = x->data[from];
      winner->data[i] = (double)k;
    }
  }
}

static void maxpool_grad(MlirOperation op, const Tensor *dy, const Tensor *winner, Tensor *dx) {
  Window w = window_of(op);
  for (int64_t i = 0; i < count(dy); i++) {
    int64_t to[4], k = (int64_t)winner->data[i];
    unravel(&dy->type, i, to);
    int64_t at = k < w.kernel[0] * w.kernel[1] ? under(&w, &dx->type, to, to[w.channel], w.kernel, k) : -1;
    if (at >= 0) dx->data[at] += dy->data[i];
  }
}

// small is y or dy, large x or dx.
static void avgpool(MlirOperation op, Tensor *small, Tensor *large, bool gradient) {
  Window w = window_of(op);
  bool include_pad = nn_attr_bool(op, "include_pad", false);
  int64_t places = w.kernel[0] * w.kernel[1];
  for (int64_t i = 0; i < count(small); i++) {
    int64_t to[4], real = 0;
    unravel(&small->type, i, to);
    for (int64_t k = 0; k < places; k++) real += under(&w, &large->type, to, to[w.channel], w.kernel, k) >= 0;
    double share = 1.0 / (double)(include_pad ? places : real);
    for (int64_t k = 0; k < places; k++) {
      int64_t from = under(&w, &large->type, to, to[w.channel], w.kernel, k);
      if (from < 0) continue;
      if (gradient) large->data[from] += small->data[i] * share;
      else small->data[i] += large->data[from] * share;
    }
  }
}

// For every product of the convolution: y += x w, or dx += dy w, or dw += x dy, by which of the three is the result.
static void conv(MlirOperation operation, Tensor *result, Tensor *x, Tensor *weight, Tensor *y) {
  Window w = window_of(operation);
  const int64_t *dim = weight->type.dim;
  int64_t outputs = dim[0] / nn_attr_i64(operation, "groups", 1), places = count(weight) / dim[0] / dim[1];
  for (int64_t i = 0; i < count(y); i++) {
    int64_t to[5];
    unravel(&y->type, i, to);
    int64_t o = to[w.channel];
    for (int64_t k = 0; k < dim[1] * places; k++) {
      int64_t c = o / outputs * dim[1] + k / places, at = o * dim[1] * places + k;
      int64_t from = under(&w, &x->type, to, c, dim + 2, k % places);
      if (from < 0) continue;
      if (result == y) y->data[i] += x->data[from] * weight->data[at];
      else if (result == x) x->data[from] += y->data[i] * weight->data[at];
      else weight->data[at] += x->data[from] * y->data[i];
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Products

static void matmul(MlirOperation op, const Tensor *a, const Tensor *b, Tensor *y) {
  bool ta = nn_attr_bool(op, "transpose_a", false), tb = nn_attr_bool(op, "transpose_b", false);
  int ra = a->type.rank, rb = b->type.rank, ry = y->type.rank;
  int64_t m = y->type.dim[ry - 2], n = y->type.dim[ry - 1], inner = a->type.dim[ra - (ta ? 2 : 1)],
          batches = count(y) / (m * n);
  for (int64_t batch = 0; batch < batches; batch++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++)
        for (int64_t k = 0; k < inner; k++) {
          int64_t from_a = batch * m * inner + (ta ? k * m + i : i * inner + k);
          int64_t from_b = (rb == ra ? batch : 0) * n * inner + (tb ? j * inner + k : k * n + j);
          y->data[(batch * m + i) * n + j] += a->data[from_a] * b->data[from_b];
        }
}

static void matmul_rows(const Tensor *a, const Tensor *b, Tensor *y) {
  int64_t m = y->type.dim[0], n = y->type.dim[1];
  for (int64_t row = 0; row < count(a) / m; row++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) y->data[i * n + j] += a->data[row * m + i] * b->data[row * n + j];
}

// ---------------------------------------------------------------------------------------------------------------------
// Composites

static double log_sum_exp(const double *row, int64_t n) {
  double max = row[0], sum = 0;
  for (int64_t i = 1; i < n; i++) max = fmax(max, row[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(row[i] - max);
  return max + log(sum);
}

static void softmax(NnOp op, const Tensor *x, Tensor *y) {
  int64_t n = x->type.dim[x->type.rank - 1];
  for (int64_t i = 0; i < count(x); i++) {
    double log_y = x->data[i] - log_sum_exp(x->data + i / n * n, n);
    y->data[i] = op == NN_OP_softmax ? exp(log_y) : log_y;
  }
}

static void cross_entropy(const Tensor *logits, const Tensor *labels, Tensor *y) {
  int64_t n = logits->type.dim[logits->type.rank - 1];
  for (int64_t row = 0; row < count(labels); row++) {
    double label = labels->data[row];
    y[1].data[row] = log_sum_exp(logits->data + row * n, n);
    y[0].data[row] = label >= 0 && label < (double)n ? y[1].data[row] - logits->data[row * n + (int64_t)label] : 0;
  }
}

static void normalise(MlirOperation operation, NnOp op, const Tensor *const *x, Tensor *y) {
  int rank = x[0]->type.rank, n = 0;
  int64_t axis = op == NN_OP_layernorm ? rank - 1 : nn_attr_i64(operation, "axis", 0), axes[NN_MAX_RANK],
          at[NN_MAX_RANK];
  for (int i = 0; i < rank; i++)
    if ((i == axis) == (op == NN_OP_layernorm)) axes[n++] = i;
  moments_over(x[0], n, axes, y[1].data, y[2].data, count(&y[1]));
  double eps = nn_attr_f64(operation, "eps", 0);
  for (int64_t i = 0; i < count(x[0]); i++) {
    unravel(&x[0]->type, i, at);
    int64_t place = reduced_place(&x[0]->type, n, axes, i);
    double normal = (x[0]->data[i] - y[1].data[place]) / sqrt(y[2].data[place] + eps);
    y[0].data[i] = normal * x[1]->data[at[axis]] + x[2]->data[at[axis]];
  }
  for (int64_t i = 0; op == NN_OP_layernorm && i < count(&y[2]); i++) y[2].data[i] = 1 / sqrt(y[2].data[i] + eps);
}

// ---------------------------------------------------------------------------------------------------------------------

static void source(MlirOperation operation, NnOp op, const Tensor *const *x, Tensor *y) {
  int64_t at[NN_MAX_RANK];
  for (int64_t i = 0; i < count(y); i++) {
    unravel(&y->type, i, at);
    if (op == NN_OP_random_uniform)
      y->data[i] = uniform_of(x[0]->data, (uint64_t)i, y->type.dtype, nn_attr_bool(operation, "second", false));
    else
      y->data[i] = op == NN_OP_constant ? nn_attr_f64(operation, "value", 0)
                                        : (double)at[nn_attr_i64(operation, "axis", 0)];
  }
}

static void move(MlirOperation operation, NnOp op, int n, const Tensor *const *x, Tensor *y) {
  Tensor first = *x[0];
  switch (op) {
  case NN_OP_pad: pad(operation, x[0], y); break;
  case NN_OP_concat: concat(operation, n, x, y); break;
  case NN_OP_gather: gather(x[0], x[1], y); break;
  case NN_OP_scatter_add: scatter_add(x[0], x[1], y); break;
  case NN_OP_scatter_add_to:
    memcpy(y->data, x[2]->data, (size_t)count(y) * sizeof *y->data);
    scatter_add(x[0], x[1], y);
    break;
  case NN_OP_scatter_max: scatter_max(x[0], x[1], y); break;
  case NN_OP_argmax: argmax(operation, x[0], y); break;
  case NN_OP_maxpool2d: maxpool(operation, x[0], &y[0], &y[1]); break;
  case NN_OP_maxpool2d_grad: maxpool_grad(operation, x[0], x[1], y); break;
  case NN_OP_avgpool2d: avgpool(operation, y, &first, false); break;
  case NN_OP_avgpool2d_grad: avgpool(operation, &first, y, true); break;
  default: abort();
  }
}

static void library(MlirOperation operation, NnOp op, const Tensor *const *x, Tensor *y) {
  Tensor first = *x[0], second = mlirOperationGetNumOperands(operation) > 1 ? *x[1] : first;
  switch (op) {
  case NN_OP_matmul: matmul(operation, x[0], x[1], y); break;
  case NN_OP_matmul_rows: matmul_rows(x[0], x[1], y); break;
  case NN_OP_matmul_rows_to:
    memcpy(y->data, x[2]->data, sizeof *y->data * (size_t)count(y));
    matmul_rows(x[0], x[1], y);
    break;
  case NN_OP_attention:
  case NN_OP_attention_grad:
  case NN_OP_attention_grad_packed: attention(operation, x, y); break;
  case NN_OP_cumulative:
  case NN_OP_recurrence:
  case NN_OP_argsort:
  case NN_OP_take_along:
  case NN_OP_scatter_along: rows_reference(operation, op, x, y); break;
  case NN_OP_fourier: fourier_reference(operation, x[0], y); break;
  case NN_OP_conv2d:
  case NN_OP_conv3d: conv(operation, y, &first, &second, y); break;
  case NN_OP_conv2d_input_grad:
  case NN_OP_conv3d_input_grad: conv(operation, y, y, &second, &first); break;
  case NN_OP_conv2d_weight_grad:
  case NN_OP_conv3d_weight_grad: conv(operation, y, &first, y, &second); break;
  default: abort();
  }
}

bool reference_op(MlirOperation operation, const Tensor *const *x, Tensor *y) {
  NnOp op = nn_op_of(operation);
  if (op == NN_OP_NONE) return false;
  const NnOpInfo *info = nn_op_info(op);
  for (int i = 0; i < info->n_results; i++) y[i] = tensor_create(nn_value_type(mlirOperationGetResult(operation, i)));
  switch (info->kind) {
  case NN_KIND_SOURCE: source(operation, op, x, y); break;
  case NN_KIND_MAP: map(operation, op, x, y); break;
  case NN_KIND_VIEW: view(operation, op, x[0], y); break;
  case NN_KIND_REDUCE: reduce(operation, op, x[0], y); break;
  case NN_KIND_MOVE: move(operation, op, (int)mlirOperationGetNumOperands(operation), x, y); break;
  case NN_KIND_LIBRARY: library(operation, op, x, y); break;
  case NN_KIND_TRANSFER: memcpy(y->data, x[0]->data, sizeof *y->data * (size_t)nn_type_elements(&y->type)); break;
  case NN_KIND_MARK: break;
  case NN_KIND_COMPOSITE:
    if (op == NN_OP_stop_gradient) memcpy(y->data, x[0]->data, sizeof *y->data * (size_t)nn_type_elements(&y->type));
    else if (op == NN_OP_softmax || op == NN_OP_log_softmax) softmax(op, x[0], y);
    else if (op == NN_OP_cross_entropy) cross_entropy(x[0], x[1], y);
    else normalise(operation, op, x, y);
    break;
  }
  for (int i = 0; i < info->n_results; i++) {
    NnDtype dtype = y[i].type.dtype;
    if (nn_dtype_is_float(dtype) && !nn_dtype_is_narrow(dtype) && op != NN_OP_constant) continue;
    for (int64_t k = 0; k < count(&y[i]); k++) y[i].data[k] = round_to(dtype, y[i].data[k]);
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions: a list of the values computed so far

typedef struct Bound {
  MlirValue value;
  Tensor tensor;
  bool owned;
} Bound;
typedef struct Environment {
  Bound *at;
  int n, capacity;
} Environment;

static void bind(Environment *e, MlirValue value, Tensor tensor, bool owned) {
  if (e->n == e->capacity) e->at = realloc(e->at, sizeof *e->at * (size_t)(e->capacity = 2 * e->capacity + 16));
  e->at[e->n++] = (Bound){value, tensor, owned};
}

static const Tensor *look_up(const Environment *e, MlirValue value) {
  for (int i = e->n - 1; i >= 0; i--)
    if (mlirValueEqual(e->at[i].value, value)) return &e->at[i].tensor;
  abort();
}

static bool scan(const NnScan *s, const Tensor *const *operand, Tensor *result);

static bool step(Environment *e, MlirOperation op) {
  intptr_t n = mlirOperationGetNumOperands(op);
  const Tensor **operand = calloc((size_t)n + 1, sizeof *operand);
  Tensor *result = calloc((size_t)mlirOperationGetNumResults(op) + NN_MAX_RESULTS, sizeof *result);
  NnScan s;
  for (intptr_t i = 0; i < n; i++) operand[i] = look_up(e, mlirOperationGetOperand(op, i));
  bool is_scan = nn_scan_of(op, &s);
  for (intptr_t i = 0; is_scan && i < mlirOperationGetNumResults(op); i++)
    result[i] = tensor_create(nn_value_type(mlirOperationGetResult(op, i)));
  bool known = is_scan ? scan(&s, operand, result) : reference_op(op, operand, result);
  for (intptr_t i = 0; known && i < mlirOperationGetNumResults(op); i++)
    bind(e, mlirOperationGetResult(op, i), result[i], true);
  free(operand);
  free(result);
  return known;
}

// Row `to` of y = row `from` of x, rows of the size of one of them.
static void copy_row(const Tensor *x, int64_t from, Tensor *y, int64_t to) {
  int64_t size = count(x) < count(y) ? count(x) : count(y);
  memcpy(y->data + to * size, x->data + from * size, (size_t)size * sizeof *y->data);
}

// A loop by its definition (ir.h, Scans). Tied carries are the results themselves.
static bool scan(const NnScan *s, const Tensor *const *operand, Tensor *result) {
  int carries = s->n_stacked + s->n_tied, n_args = s->n_slices + carries + s->n_invariants, n = carries + s->n_outputs;
  Tensor *args = calloc((size_t)n_args + 1, sizeof *args), *made = calloc((size_t)n + 1, sizeof *made);
  for (int i = 0; i < n_args; i++)
    args[i] = tensor_create(nn_value_type(mlirBlockGetArgument(nn_function_body(s->body), i)));
  for (int i = 0; i < carries; i++)
    copy_row(operand[s->n_slices + i], 0, &result[i], i < s->n_stacked && s->reverse ? s->length : 0);
  for (int i = s->n_slices + carries; i < n_args; i++) copy_row(operand[i], 0, &args[i], 0);
  bool known = true;
  for (int64_t t = 0; t < s->length && known; t++) {
    int64_t row = s->reverse ? s->length - 1 - t : t;
    for (int i = 0; i < s->n_slices; i++) copy_row(operand[i], row, &args[i], 0);
    for (int i = 0; i < carries; i++)
      copy_row(&result[i], i < s->n_stacked ? row + s->reverse : 0, &args[s->n_slices + i], 0);
    known = reference_run(s->body, args, made, n) == n;
    for (int i = 0; known && i < n; i++) {
      copy_row(&made[i], 0, &result[i], i < s->n_stacked ? row + !s->reverse : i < carries ? 0 : row);
      tensor_free(&made[i]);
    }
  }
  for (int i = 0; i < n_args; i++) tensor_free(&args[i]);
  free(args);
  free(made);
  return known;
}

int reference_run(MlirOperation func, const Tensor *args, Tensor *results, int max_results) {
  return reference_run_tapped(func, args, results, max_results, NULL, NULL);
}

int reference_run_tapped(MlirOperation func, const Tensor *args, Tensor *results, int max_results,
                         void (*tap)(void *data, MlirOperation op, const Tensor *value), void *data) {
  Environment e = {0};
  MlirBlock body = nn_function_body(func);
  int n = -1;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(body); i++) bind(&e, mlirBlockGetArgument(body, i), args[i], false);
  NN_FOREACH_OP (op, body) {
    if (nn_is(op, "func.return")) {
      n = (int)mlirOperationGetNumOperands(op);
      for (int i = 0; i < n && i < max_results; i++) {
        const Tensor *t = look_up(&e, mlirOperationGetOperand(op, i));
        results[i] = tensor_create(t->type);
        memcpy(results[i].data, t->data, sizeof(double) * (size_t)count(t));
      }
    } else if (!step(&e, op)) {
      break;
    }
    if (tap && nn_op_of(op) == NN_OP_tap) tap(data, op, look_up(&e, mlirOperationGetOperand(op, 0)));
  }
  for (int i = 0; i < e.n; i++)
    if (e.at[i].owned) tensor_free(&e.at[i].tensor);
  free(e.at);
  return n;
}

// See interpret.h.
#include "test/codegen/interpret.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Binding { const void *value; Tensor tensor; } Binding;
typedef struct Scope { int n; Binding *items; } Scope;

static Tensor tensor_new(const NnType *t) {
  Tensor x = {.type = *t, .data = calloc((size_t)nn_type_elements(t), sizeof(double))};
  assert(x.data);
  return x;
}

void tensor_free(Tensor *t) {
  free(t->data);
  t->data = NULL;
}

static const Tensor *lookup(const Scope *s, MlirValue v) {
  for (int i = 0; i < s->n; i++)
    if (s->items[i].value == v.ptr) return &s->items[i].tensor;
  assert(!"value before its definition");
  return NULL;
}

static void bind(Scope *s, MlirValue v, Tensor t) {
  s->items = realloc(s->items, (size_t)(s->n + 1) * sizeof *s->items);
  assert(s->items);
  s->items[s->n++] = (Binding){v.ptr, t};
}

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
    case NN_F32: case NN_BF16: case NN_F16: return nn_dtype_round(dtype, x);
    case NN_I32: return (double)(int32_t)(int64_t)x;
    case NN_I64: return (double)(int64_t)x;
    case NN_U8: return (double)(uint8_t)(int64_t)x;
    case NN_I1: return x != 0;
    default: return x;
  }
}

static bool is_float(NnDtype d) { return nn_dtype_is_float(d); }

static double compare(const char *p, double a, double b) {
  if (!strcmp(p, "eq")) return a == b;
  if (!strcmp(p, "ne")) return a != b;
  if (!strcmp(p, "lt")) return a < b;
  if (!strcmp(p, "le")) return a <= b;
  if (!strcmp(p, "gt")) return a > b;
  return a >= b;
}

static double map(MlirOperation op, NnDtype from, const double *x) {
  char predicate[8];
  switch (nn_op_of(op)) {
    case NN_OP_neg: return -x[0];
    case NN_OP_abs: return fabs(x[0]);
    case NN_OP_sign: return x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0];
    case NN_OP_exp: return exp(x[0]);
    case NN_OP_log: return log(x[0]);
    case NN_OP_sqrt: return sqrt(x[0]);
    case NN_OP_rsqrt: return 1 / sqrt(x[0]);
    case NN_OP_recip: return 1 / x[0];
    case NN_OP_sin: return sin(x[0]);
    case NN_OP_cos: return cos(x[0]);
    case NN_OP_tanh: return tanh(x[0]);
    case NN_OP_erf: return erf(x[0]);
    case NN_OP_sigmoid: return 1 / (1 + exp(-x[0]));
    case NN_OP_relu: return x[0] < 0 ? 0 : x[0];
    case NN_OP_floor: return floor(x[0]);
    case NN_OP_not: return !x[0];
    case NN_OP_add: return x[0] + x[1];
    case NN_OP_sub: return x[0] - x[1];
    case NN_OP_mul: return x[0] * x[1];
    case NN_OP_div: return is_float(from) ? x[0] / x[1] : floor(x[0] / x[1]);
    case NN_OP_pow: return pow(x[0], x[1]);
    case NN_OP_max: return x[0] > x[1] ? x[0] : x[1];
    case NN_OP_min: return x[0] < x[1] ? x[0] : x[1];
    case NN_OP_and: return x[0] && x[1];
    case NN_OP_or: return x[0] || x[1];
    case NN_OP_select: return x[0] ? x[1] : x[2];
    case NN_OP_cast: return x[0];
    case NN_OP_compare: return compare(nn_attr_str(op, "predicate", predicate, sizeof predicate, "eq"), x[0], x[1]);
    default: assert(!"not a map"); return 0;
  }
}

// Philox 4x32-10, straight from the paper.
static double uniform(const double *key, uint64_t index, NnDtype dtype) {
  uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)(int32_t)key[3], (uint32_t)(int32_t)key[2]};
  uint32_t k[2] = {(uint32_t)(int32_t)key[0], (uint32_t)(int32_t)key[1]};
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
    memcpy(c, next, sizeof c);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  int digits = dtype == NN_F32 ? 24 : dtype == NN_BF16 ? 8 : 11;
  if (dtype != NN_F64) return ldexp((double)(c[0] >> (32 - digits)), -digits);
  return (double)((((uint64_t)c[0] << 32) | c[1]) >> 11) * 0x1p-53;
}

static void view(MlirOperation op, const Tensor *x, Tensor *y) {
  int64_t a[NN_MAX_RANK], b[NN_MAX_RANK], at[NN_MAX_RANK], from[NN_MAX_RANK];
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_broadcast) nn_attr_i64s(op, "dims", a, NN_MAX_RANK);
  if (kind == NN_OP_transpose) nn_attr_i64s(op, "perm", a, NN_MAX_RANK);
  if (kind == NN_OP_slice) nn_attr_i64s(op, "starts", a, NN_MAX_RANK), nn_attr_i64s(op, "strides", b, NN_MAX_RANK);
  for (int64_t i = 0; i < nn_type_elements(&y->type); i++) {
    if (kind == NN_OP_reshape) {
      y->data[i] = x->data[i];
      continue;
    }
    unravel(&y->type, i, at);
    for (int d = 0; d < x->type.rank; d++) {
      if (kind == NN_OP_broadcast) from[d] = x->type.dim[d] == 1 ? 0 : at[a[d]];
      if (kind == NN_OP_transpose) from[a[d]] = at[d];
      if (kind == NN_OP_slice) from[d] = a[d] + b[d] * at[d];
    }
    y->data[i] = x->data[ravel(&x->type, from)];
  }
}

static void reduce(MlirOperation op, const Tensor *x, Tensor *y, Tensor *var) {
  int64_t axes[NN_MAX_RANK], at[NN_MAX_RANK], to[NN_MAX_RANK];
  int n = nn_attr_i64s(op, "axes", axes, NN_MAX_RANK);
  int64_t kept = nn_type_elements(&y->type);
  double count = (double)(nn_type_elements(&x->type) / kept);
  NnOp kind = nn_op_of(op);
  for (int64_t i = 0; i < kept; i++) y->data[i] = kind == NN_OP_reduce_max ? -INFINITY : 0;
  for (int round = 0; round < (var ? 2 : 1); round++) {
    for (int64_t i = 0; i < nn_type_elements(&x->type); i++) {
      unravel(&x->type, i, at);
      int rank = 0;
      for (int d = 0; d < x->type.rank; d++) {
        bool dropped = false;
        for (int k = 0; k < n; k++) dropped |= axes[k] == d;
        if (!dropped) to[rank++] = at[d];
      }
      int64_t j = ravel(&y->type, to);
      double v = x->data[i];
      if (round) var->data[j] += (v - y->data[j]) * (v - y->data[j]) / count;
      else if (kind == NN_OP_reduce_max) y->data[j] = v > y->data[j] ? v : y->data[j];
      else y->data[j] += kind == NN_OP_moments ? v / count : v;
    }
  }
}

static int64_t clamp(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

static void pool(MlirOperation op, const Tensor *a, const Tensor *winner, Tensor *out, Tensor *out_winner) {
  char layout[8];
  int64_t kernel[2], stride[2], pad[4];
  nn_attr_i64s(op, "kernel", kernel, 2);
  nn_attr_i64s(op, "strides", stride, 2);
  nn_attr_i64s(op, "padding", pad, 4);
  NnOp kind = nn_op_of(op);
  bool last = !strcmp(nn_attr_str(op, "layout", layout, sizeof layout, "nchw"), "nhwc"), include = nn_attr_bool(op, "include_pad", false);
  bool backward = kind == NN_OP_maxpool2d_grad || kind == NN_OP_avgpool2d_grad;
  const NnType *x = backward ? &out->type : &a->type, *y = backward ? &a->type : &out->type;
  int c = last ? 3 : 1, h = last ? 1 : 2;
  for (int64_t i = 0; i < nn_type_elements(y); i++) {
    int64_t at[4], best = -1;
    unravel(y, i, at);
    double top = -INFINITY, sum = 0, count = 0;
    for (int64_t pass = 0; pass < 2; pass++)
      for (int64_t u = 0; u < kernel[0]; u++)
        for (int64_t v = 0; v < kernel[1]; v++) {
          int64_t from[4] = {at[0]}, row = at[h] * stride[0] - pad[0] + u, column = at[h + 1] * stride[1] - pad[2] + v;
          if (row < 0 || row >= x->dim[h] || column < 0 || column >= x->dim[h + 1]) continue;
          from[c] = at[c], from[h] = row, from[h + 1] = column;
          int64_t j = ravel(x, from);
          if (!pass) {
            count++;
            if (backward) continue;
            sum += a->data[j];
            if (best < 0 || a->data[j] > top) top = a->data[j], best = u * kernel[1] + v;
          } else if (kind == NN_OP_maxpool2d_grad) {
            if (winner->data[i] == (double)(u * kernel[1] + v)) out->data[j] += a->data[i];
          } else if (kind == NN_OP_avgpool2d_grad) {
            out->data[j] += a->data[i] / (include ? (double)(kernel[0] * kernel[1]) : count);
          }
        }
    if (kind == NN_OP_maxpool2d) out->data[i] = top, out_winner->data[i] = (double)best;
    if (kind == NN_OP_avgpool2d) out->data[i] = sum / (include ? (double)(kernel[0] * kernel[1]) : count);
  }
}

static void move(MlirOperation op, int n, const Tensor *const *x, Tensor *y, Tensor *y1) {
  int64_t at[NN_MAX_RANK], low[NN_MAX_RANK], interior[NN_MAX_RANK];
  int64_t total = nn_type_elements(&y->type), axis = nn_attr_i64(op, "axis", 0);
  switch (nn_op_of(op)) {
    case NN_OP_pad:
      nn_attr_i64s(op, "low", low, NN_MAX_RANK), nn_attr_i64s(op, "interior", interior, NN_MAX_RANK);
      for (int64_t i = 0; i < total; i++) y->data[i] = nn_attr_f64(op, "value", 0);
      for (int64_t i = 0; i < nn_type_elements(&x[0]->type); i++) {
        unravel(&x[0]->type, i, at);
        for (int d = 0; d < y->type.rank; d++) at[d] = low[d] + at[d] * (interior[d] + 1);
        y->data[ravel(&y->type, at)] = x[0]->data[i];
      }
      break;
    case NN_OP_concat: {
      int64_t start = 0;
      for (int k = 0; k < n; start += x[k++]->type.dim[axis])
        for (int64_t i = 0; i < nn_type_elements(&x[k]->type); i++) {
          unravel(&x[k]->type, i, at);
          at[axis] += start;
          y->data[ravel(&y->type, at)] = x[k]->data[i];
        }
      break;
    }
    case NN_OP_gather: {
      int64_t rows = x[0]->type.dim[0], row = nn_type_elements(&x[0]->type) / rows;
      for (int64_t i = 0; i < total; i++) y->data[i] = x[0]->data[clamp((int64_t)x[1]->data[i / row], rows) * row + i % row];
      break;
    }
    case NN_OP_scatter_add:
    case NN_OP_scatter_add_to: {
      int64_t rows = y->type.dim[0], row = total / rows;
      if (nn_op_of(op) == NN_OP_scatter_add_to) memcpy(y->data, x[2]->data, (size_t)total * sizeof *y->data);
      for (int64_t i = 0; i < nn_type_elements(&x[0]->type); i++) {
        int64_t r = (int64_t)x[1]->data[i / row];
        if (r >= 0 && r < rows) y->data[r * row + i % row] += x[0]->data[i];
      }
      break;
    }
    case NN_OP_scatter_max: {
      int64_t rows = y->type.dim[0], row = total / rows;
      for (int64_t i = 0; i < total; i++) y->data[i] = -INFINITY;
      for (int64_t i = 0; i < nn_type_elements(&x[0]->type); i++) {
        int64_t r = (int64_t)x[1]->data[i / row];
        if (r >= 0 && r < rows) y->data[r * row + i % row] = fmax(y->data[r * row + i % row], x[0]->data[i]);
      }
      for (int64_t i = 0; i < total; i++) y->data[i] = isinf(y->data[i]) ? 0 : y->data[i];
      break;
    }
    case NN_OP_argmax: {
      int64_t inner = 1, extent = x[0]->type.dim[axis];
      for (int d = (int)axis + 1; d < x[0]->type.rank; d++) inner *= x[0]->type.dim[d];
      for (int64_t i = 0; i < total; i++) {
        const double *row = x[0]->data + i / inner * extent * inner + i % inner;
        for (int64_t r = 1; r < extent; r++)
          if (row[r * inner] > row[(int64_t)y->data[i] * inner]) y->data[i] = (double)r;
      }
      break;
    }
    default: pool(op, x[0], n > 1 ? x[1] : NULL, y, y1); break;
  }
}

// conv2d: a is x, out is y; its input gradient: a is dy, out is dx.
static void convolve(MlirOperation op, const Tensor *a, const Tensor *w, Tensor *out) {
  char layout[8];
  int64_t stride[2] = {1, 1}, pad[4] = {0}, dilation[2] = {1, 1}, groups = nn_attr_i64(op, "groups", 1), p[4], q[4];
  nn_attr_i64s(op, "strides", stride, 2);
  nn_attr_i64s(op, "padding", pad, 4);
  nn_attr_i64s(op, "dilation", dilation, 2);
  bool last = !strcmp(nn_attr_str(op, "layout", layout, sizeof layout, "nchw"), "nhwc"), backward = nn_op_of(op) == NN_OP_conv2d_input_grad;
  const NnType *x = backward ? &out->type : &a->type, *y = backward ? &a->type : &out->type;
  int c = last ? 3 : 1, h = last ? 1 : 2;
  int64_t ci = x->dim[c] / groups, oi = y->dim[c] / groups;
  assert(nn_op_of(op) == NN_OP_conv2d || backward);
  for (int64_t i = 0; i < nn_type_elements(y); i++) {
    unravel(y, i, p);
    for (int64_t j = 0; j < ci * w->type.dim[2] * w->type.dim[3]; j++) {
      int64_t k[4];
      unravel(&w->type, j, k);
      q[0] = p[0], q[c] = p[c] / oi * ci + k[1];
      for (int d = 0; d < 2; d++) q[h + d] = p[h + d] * stride[d] - pad[2 * d] + k[2 + d] * dilation[d];
      if (q[h] < 0 || q[h] >= x->dim[h] || q[h + 1] < 0 || q[h + 1] >= x->dim[h + 1]) continue;
      k[0] = p[c];
      double weight = w->data[ravel(&w->type, k)];
      if (backward) out->data[ravel(x, q)] += a->data[i] * weight;
      else out->data[i] += a->data[ravel(x, q)] * weight;
    }
  }
}

static void run_op(Scope *scope, MlirOperation op) {
  NnOp kind = nn_op_of(op);
  int n = (int)mlirOperationGetNumOperands(op);
  const Tensor *x[16] = {NULL};
  Tensor y[2];
  memset(y, 0, sizeof y);
  assert(n <= 16);
  for (int i = 0; i < n; i++) x[i] = lookup(scope, mlirOperationGetOperand(op, i));
  int results = (int)mlirOperationGetNumResults(op);
  for (int i = 0; i < results; i++) {
    NnType t = nn_value_type(mlirOperationGetResult(op, i));
    y[i] = tensor_new(&t);
  }
  int64_t total = nn_type_elements(&y[0].type), at[NN_MAX_RANK];
  switch (nn_op_info(kind)->kind) {
    case NN_KIND_SOURCE:
      for (int64_t i = 0; i < total; i++) {
        unravel(&y[0].type, i, at);
        if (kind == NN_OP_constant) y[0].data[i] = nn_attr_f64(op, "value", 0);
        else if (kind == NN_OP_iota) y[0].data[i] = (double)at[nn_attr_i64(op, "axis", 0)];
        else y[0].data[i] = uniform(x[0]->data, (uint64_t)i, y[0].type.dtype);
      }
      break;
    case NN_KIND_MAP:
      for (int64_t i = 0; i < total; i++) {
        double in[3];
        for (int k = 0; k < n; k++) in[k] = x[k]->data[i];
        y[0].data[i] = map(op, x[0]->type.dtype, in);
      }
      break;
    case NN_KIND_VIEW: view(op, x[0], &y[0]); break;
    case NN_KIND_REDUCE: reduce(op, x[0], &y[0], results > 1 ? &y[1] : NULL); break;
    case NN_KIND_LIBRARY: convolve(op, x[0], x[1], &y[0]); break;
    default: move(op, n, x, &y[0], &y[1]); break;
  }
  for (int i = 0; i < results; i++) {
    // f32 and f64 keep double precision in between: the reference is better than what it judges. A bf16 or f16 is one wherever it stands.
    if (!is_float(y[i].type.dtype) || nn_dtype_is_narrow(y[i].type.dtype) || kind == NN_OP_constant)
      for (int64_t j = 0; j < nn_type_elements(&y[i].type); j++) y[i].data[j] = round_to(y[i].type.dtype, y[i].data[j]);
    bind(scope, mlirOperationGetResult(op, i), y[i]);
  }
}

void interpret(MlirOperation func, const Tensor *args, Tensor *results) {
  Scope scope = {0};
  MlirBlock body = nn_function_body(func);
  int n_args = (int)mlirBlockGetNumArguments(body);
  for (int i = 0; i < n_args; i++) bind(&scope, mlirBlockGetArgument(body, i), args[i]);
  for (MlirOperation op = mlirBlockGetFirstOperation(body); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
    if (nn_op_of(op) != NN_OP_NONE) {
      run_op(&scope, op);
      continue;
    }
    for (int i = 0; i < mlirOperationGetNumOperands(op); i++) {
      const Tensor *t = lookup(&scope, mlirOperationGetOperand(op, i));
      results[i] = tensor_new(&t->type);
      memcpy(results[i].data, t->data, (size_t)nn_type_elements(&t->type) * sizeof(double));
    }
  }
  for (int i = n_args; i < scope.n; i++) tensor_free(&scope.items[i].tensor);
  free(scope.items);
}

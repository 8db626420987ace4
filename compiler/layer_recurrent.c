// One step of the recurrences that PyTorch has: LSTMCell and GRUCell, with its gates, its order of gates and its names
// of parameters. What goes from step to step is computed in f32 where a block computes in bf16 or f16, and each result
// rounded once.
#include "compiler/layer.h"

#include <math.h>

// Sizes of a step, and its parameters as far as it has some.
typedef struct Step {
  int64_t rows, width;   // of h[rows, width]
  int n_gates;
  bool bias, projected;
  int weights;   // arguments of weight_ih, weight_hh, bias_ih, bias_hh
  const char *init;
  NnDtype wide;   // what gates are computed in
} Step;

static bool read_step(LayerCall *c, int h, int bias, int n_gates, Step *s) {
  MlirValue x = layer_float_tensor(c, 0), hidden = layer_float_tensor(c, h);
  NnType tx = nn_value_type(x), th = nn_value_type(hidden);
  *s = (Step){.n_gates = n_gates,
              .bias = layer_bool(c, bias),
              .weights = bias + 3,
              .projected = layer_bool(c, bias + 1),
              .wide = nn_dtype_wide(th.dtype)};
  if (th.rank != 2) return layer_arg_error(c, h, "needs h[N, H], found %s", value_describe(c->e, c->arg[h]));
  s->rows = th.dim[0];
  s->width = th.dim[1];
  if (tx.rank != 2 || tx.dim[0] != s->rows) {
    layer_arg_error(c, 0, "needs one row for each of the %lld of h, found %s", (long long)s->rows,
                    value_describe(c->e, c->arg[0]));
    if (tx.rank == 3)
      elaborator_hint(c->e, "a sequence is gone over by scan: scan(x over T, init=…) { step, … -> %s(step, …) }",
                      c->info->name);
    return false;
  }
  if (s->projected && tx.dim[1] != n_gates * s->width)
    return layer_arg_error(c, 0, "is projected already: it must be [%lld, %lld], found %s", (long long)s->rows,
                           (long long)(n_gates * s->width), value_describe(c->e, c->arg[0]));
  double bound = 1 / sqrt((double)s->width);
  const char *otherwise = elaborator_format(c->e, "uniform(%.17g,%.17g)", -bound, bound);
  s->init = layer_given(c, bias + 2) ? c->arg[bias + 2].s : otherwise;
  return true;
}

// x W^T + b for all gates; null after reporting.
static MlirValue project(LayerCall *c, const Step *s, MlirValue x, MlirValue weight, int of_h) {
  int64_t n = s->n_gates * s->width;
  MlirValue y = nn_value_is_null(weight) ? nn_null_value() : layer_product(c, x, weight);
  if (nn_value_is_null(y) || !s->bias) return nn_value_is_null(y) ? y : nn_cast(c->b, y, s->wide);
  MlirValue bias = layer_learnt(c, s->weights + 2 + of_h, of_h ? "bias_hh" : "bias_ih", nn_type(s->wide, 1, &n),
                                s->init, 0);
  return nn_value_is_null(bias) ? bias : layer_add_along(c->b, nn_cast(c->b, y, s->wide), bias, 1);
}

static MlirValue weight_of(LayerCall *c, const Step *s, int of_h, MlirValue x) {
  NnType t = nn_value_type(x), w = nn_type(t.dtype, 2, (int64_t[]){s->n_gates * s->width, t.dim[1]});
  if (nn_type_is_representable(&w))
    return layer_learnt(c, s->weights + of_h, of_h ? "weight_hh" : "weight_ih", w, s->init, 0);
  layer_error(c, "the weights would have more than 2^40 elements");
  return nn_null_value();
}

// The gates' sums from x and from h. Parameters are made in PyTorch's order: both weights, then both biases.
static bool make_sums(LayerCall *c, const Step *s, MlirValue hidden, MlirValue out[2]) {
  MlirValue x = layer_float_tensor(c, 0);
  MlirValue w_x = s->projected ? nn_null_value() : weight_of(c, s, 0, x), w_h = weight_of(c, s, 1, hidden);
  if (nn_value_is_null(w_h)) return false;
  out[0] = s->projected ? nn_cast(c->b, x, s->wide) : project(c, s, x, w_x, 0);
  out[1] = project(c, s, hidden, w_h, 1);
  return !nn_value_is_null(out[0]) && !nn_value_is_null(out[1]);
}

static MlirValue gate(const LayerCall *c, const Step *s, MlirValue sums, int i) {
  int64_t starts[2] = {0, i * s->width}, sizes[2] = {s->rows, s->width};
  return nn_slice(c->b, sums, starts, sizes, NULL);
}

bool layer_lstm_cell(LayerCall *c, Value *result) {
  enum { X, H, C, BIAS };
  Step s;
  MlirValue sum[2], h = layer_float_tensor(c, H), state = layer_float_tensor(c, C);
  NnType th = nn_value_type(h), tc = nn_value_type(state);
  NnBuilder *b = c->b;
  if (!read_step(c, H, BIAS, 4, &s)) return false;
  if (tc.rank != 2 || tc.dim[0] != s.rows || tc.dim[1] != s.width)
    return layer_arg_error(c, C, "must be [%lld, %lld], as h, found %s", (long long)s.rows, (long long)s.width,
                           value_describe(c->e, c->arg[C]));
  if (!make_sums(c, &s, h, sum)) return false;
  MlirValue sums = nn_binary(b, NN_OP_add, sum[0], sum[1]);
  MlirValue in = nn_unary(b, NN_OP_sigmoid, gate(c, &s, sums, 0)),
            forget = nn_unary(b, NN_OP_sigmoid, gate(c, &s, sums, 1));
  MlirValue candidate = nn_unary(b, NN_OP_tanh, gate(c, &s, sums, 2)),
            out = nn_unary(b, NN_OP_sigmoid, gate(c, &s, sums, 3));
  MlirValue next = nn_binary(b, NN_OP_add, nn_binary(b, NN_OP_mul, forget, nn_cast(b, state, s.wide)),
                             nn_binary(b, NN_OP_mul, in, candidate));
  MlirValue values[2] = {nn_binary(b, NN_OP_mul, out, nn_unary(b, NN_OP_tanh, next)), next};
  Value *items = elaborator_alloc(c->e, sizeof *items * 2);
  items[0] = value_tensor(nn_cast(b, values[0], th.dtype));
  items[1] = value_tensor(nn_cast(b, values[1], tc.dtype));
  *result = (Value){.kind = VALUE_LIST, .list = {items, 2}};
  return true;
}

bool layer_gru_cell(LayerCall *c, Value *result) {
  enum { X, H, BIAS };
  Step s;
  MlirValue sum[2], both[2], h = layer_float_tensor(c, H);
  NnDtype given = nn_value_dtype(h);
  NnBuilder *b = c->b;
  if (!read_step(c, H, BIAS, 3, &s) || !make_sums(c, &s, h, sum)) return false;
  for (int i = 0; i < 2; i++)
    both[i] = nn_unary(b, NN_OP_sigmoid, nn_binary(b, NN_OP_add, gate(c, &s, sum[0], i), gate(c, &s, sum[1], i)));
  MlirValue reset = both[0], update = both[1], before = nn_cast(b, h, s.wide);
  MlirValue candidate = nn_unary(b, NN_OP_tanh,
                                 nn_binary(b, NN_OP_add, gate(c, &s, sum[0], 2),
                                           nn_binary(b, NN_OP_mul, reset, gate(c, &s, sum[1], 2))));
  MlirValue next = nn_binary(b, NN_OP_add, candidate,
                             nn_binary(b, NN_OP_mul, update, nn_binary(b, NN_OP_sub, before, candidate)));
  return layer_return(result, nn_cast(b, next, given));
}

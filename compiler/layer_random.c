// Initialisers, and tensors of random numbers. Elements are a function of the seed, the step (of an evaluation or a
// prediction: the batch), the call and their place alone: the same wherever and how often they are drawn.
#include "compiler/layer.h"

#include <math.h>

// --- Initialisers

static bool init_result(Value *result, const char *text) {
  *result = (Value){.kind = VALUE_INIT, .s = text};
  return true;
}

bool layer_constant(LayerCall *c, Value *result) {
  return init_result(result, elaborator_format(c->e, "constant(%.17g)", layer_number(c, 0)));
}

bool layer_zeros(LayerCall *c, Value *result) {
  (void)c;
  return init_result(result, "zeros");
}
bool layer_ones(LayerCall *c, Value *result) {
  (void)c;
  return init_result(result, "ones");
}

// --- Draws

static MlirValue draw(LayerCall *c, MlirValue key, NnType type, bool second) {
  NnAttr attrs[] = {NN_BOOL("second", second), NN_BOOL("ordered", true)};
  MlirOperation op = layer_build(c, NN_OP_random_uniform, 1, &key, 2, attrs, &type);
  return mlirOperationIsNull(op) ? nn_null_value() : mlirOperationGetResult(op, 0);
}

// The type of a tensor that is drawn, and in `wide` that it is drawn in: the same numbers in every precision.
static bool drawn_types(const LayerCall *c, int shape, NnType *type, NnType *wide) {
  if (!layer_shape(c, shape, elaborator_dtype(c->e), type)) return false;
  *wide = *type;
  wide->dtype = nn_dtype_wide(type->dtype);
  return true;
}

MlirValue layer_draw(LayerCall *c, NnType type) { return draw(c, elaborator_random_key(c->e), type, false); }

static bool is_shape(const Value *v) { return v->kind == VALUE_LIST; }

// scale x + shift, in the precision of the program.
static bool scaled_result(const LayerCall *c, MlirValue x, double scale, double shift, NnDtype dtype, Value *result) {
  if (scale != 1) x = layer_scale(c->b, x, scale);
  if (shift != 0) x = nn_binary(c->b, NN_OP_add, x, nn_constant_like(c->b, x, shift));
  return layer_return(result, nn_cast(c->b, x, dtype));
}

// Box and Muller, A note on the generation of random normal deviates (1958): 1 - u lies in (0, 1], where the logarithm
// is finite.
static MlirValue standard_normal(LayerCall *c, NnType wide) {
  MlirValue key = elaborator_random_key(c->e), u = draw(c, key, wide, false), v = draw(c, key, wide, true);
  if (nn_value_is_null(u) || nn_value_is_null(v)) return nn_null_value();
  MlirValue above = nn_binary(c->b, NN_OP_sub, nn_constant_like(c->b, u, 1), u);
  MlirValue radius = nn_unary(c->b, NN_OP_sqrt, layer_scale(c->b, nn_unary(c->b, NN_OP_log, above), -2));
  return nn_binary(c->b, NN_OP_mul, radius, nn_unary(c->b, NN_OP_cos, layer_scale(c->b, v, 2 * M_PI)));
}

bool layer_normal(LayerCall *c, Value *result) {
  enum { STD, MEAN, SHAPE };
  bool first = is_shape(&c->arg[STD]);
  double mean = layer_number(c, MEAN), std = first ? 1 : layer_number(c, STD);
  if (first && layer_given(c, SHAPE))
    return layer_arg_error(c, SHAPE, "is given twice, first as %s", value_describe(c->e, c->arg[STD]));
  if (std < 0) return layer_arg_error(c, STD, "must not be negative, found %g", std);
  if (!first && !layer_given(c, SHAPE))
    return init_result(result, mean != 0 ? elaborator_format(c->e, "normal(%.17g,%.17g)", mean, std)
                                         : elaborator_format(c->e, "normal(%.17g)", std));
  NnType type, wide;
  if (!drawn_types(c, first ? STD : SHAPE, &type, &wide)) return false;
  MlirValue x = standard_normal(c, wide);
  if (nn_value_is_null(x) || !scaled_result(c, x, std, mean, type.dtype, result)) return false;
  elaborator_note_draw(c->e, result->tensor, elaborator_format(c->e, "normal(%.17g,%.17g)", mean, std));
  return true;
}

bool layer_uniform(LayerCall *c, Value *result) {
  enum { LOW, HIGH, SHAPE };
  bool first = is_shape(&c->arg[LOW]);
  if (first ? layer_given(c, HIGH) || layer_given(c, SHAPE) : !layer_given(c, HIGH)) {
    layer_error(c, first ? "a shape alone is for numbers from 0 to 1" : "needs 'high'");
    elaborator_hint(c->e, first ? "uniform(-1, 1, [N, D])" : "uniform(-0.1, 0.1), or uniform([N, D])");
    return false;
  }
  double low = first ? 0 : layer_number(c, LOW), high = first ? 1 : layer_number(c, HIGH);
  if (low > high) return layer_arg_error(c, HIGH, "must be at least 'low', %g, found %g", low, high);
  if (!first && !layer_given(c, SHAPE))
    return init_result(result, elaborator_format(c->e, "uniform(%.17g,%.17g)", low, high));
  NnType type, wide;
  if (!drawn_types(c, first ? LOW : SHAPE, &type, &wide)) return false;
  MlirValue u = draw(c, elaborator_random_key(c->e), wide, false);
  if (nn_value_is_null(u) || !scaled_result(c, u, high - low, low, type.dtype, result)) return false;
  elaborator_note_draw(c->e, result->tensor, elaborator_format(c->e, "uniform(%.17g,%.17g)", low, high));
  return true;
}

bool layer_bernoulli(LayerCall *c, Value *result) {
  enum { P, SHAPE };
  NnType type, wide;
  MlirValue p = nn_null_value();
  if (c->arg[P].kind == VALUE_TENSOR) {
    if (layer_given(c, SHAPE))
      return layer_arg_error(c, SHAPE, "is that of the probabilities %s and not given beside it",
                             value_describe(c->e, c->arg[P]));
    p = layer_float_tensor(c, P);
    type = wide = nn_value_type(p);
    wide.dtype = nn_dtype_wide(type.dtype);
    p = nn_cast(c->b, p, wide.dtype);
  } else {
    double number = layer_number(c, P);
    if (!(number >= 0 && number <= 1)) return layer_arg_error(c, P, "must be from 0 to 1, found %g", number);
    if (!layer_given(c, SHAPE)) {
      layer_error(c, "needs 'shape'");
      elaborator_hint(c->e, "bernoulli(0.5, [N, D]), or a tensor of probabilities");
      return false;
    }
    if (!drawn_types(c, SHAPE, &type, &wide)) return false;
    p = nn_constant(c->b, wide, number);
  }
  MlirValue u = draw(c, elaborator_random_key(c->e), wide, false);
  return !nn_value_is_null(u) && layer_return(result, nn_cast(c->b, nn_compare(c->b, "lt", u, p), type.dtype));
}

// 53 bits are drawn, so that each number is as likely as another to a part in 2^21 and less.
bool layer_randint(LayerCall *c, Value *result) {
  enum { LOW, HIGH, SHAPE };
  int64_t low = layer_int(c, LOW), high = layer_int(c, HIGH);
  NnType type;
  if (low >= high)
    return layer_arg_error(c, HIGH, "must be above 'low', %lld, found %lld", (long long)low, (long long)high);
  if (low < INT32_MIN || high - 1 > INT32_MAX) return layer_error(c, "numbers of i32 are from -2^31 to 2^31-1");
  if (!layer_shape(c, SHAPE, NN_F64, &type)) return false;
  MlirValue u = draw(c, elaborator_random_key(c->e), type, false);
  if (nn_value_is_null(u)) return false;
  MlirValue place = nn_unary(c->b, NN_OP_floor, layer_scale(c->b, u, (double)(high - low)));
  MlirValue x = nn_binary(c->b, NN_OP_add, place, nn_constant_like(c->b, place, (double)low));
  return layer_return(result, nn_cast(c->b, x, NN_I32));
}

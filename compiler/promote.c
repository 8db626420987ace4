// Which element type values have together: the one table of promotions, for operators and for all functions that take
// several values. A float wins over integers, of two floats the one that holds both, of two integers the wider one. A
// number of the program takes the type of the tensors beside it, but a fraction makes a float of integers.
#include <math.h>

#include "compiler/elaborate_internal.h"

// clang-format off
static const NnDtype together[NN_DTYPE_COUNT][NN_DTYPE_COUNT] = {
    //           f32     f64     bf16     f16     i32      i64      u8       i1
    [NN_F32]  = {NN_F32, NN_F64, NN_F32,  NN_F32, NN_F32,  NN_F32,  NN_F32,  NN_F32},
    [NN_F64]  = {NN_F64, NN_F64, NN_F64,  NN_F64, NN_F64,  NN_F64,  NN_F64,  NN_F64},
    [NN_BF16] = {NN_F32, NN_F64, NN_BF16, NN_F32, NN_BF16, NN_BF16, NN_BF16, NN_BF16},
    [NN_F16]  = {NN_F32, NN_F64, NN_F32,  NN_F16, NN_F16,  NN_F16,  NN_F16,  NN_F16},
    [NN_I32]  = {NN_F32, NN_F64, NN_BF16, NN_F16, NN_I32,  NN_I64,  NN_I32,  NN_I32},
    [NN_I64]  = {NN_F32, NN_F64, NN_BF16, NN_F16, NN_I64,  NN_I64,  NN_I64,  NN_I64},
    [NN_U8]   = {NN_F32, NN_F64, NN_BF16, NN_F16, NN_I32,  NN_I64,  NN_U8,   NN_U8},
    [NN_I1]   = {NN_F32, NN_F64, NN_BF16, NN_F16, NN_I32,  NN_I64,  NN_U8,   NN_I1},
};
// clang-format on

// The scalars of an optimizer are f64 in a program of f32 and take the type of a float beside them.
static bool is_step_scalar(Elaborator *e, const Value *v) {
  return e->dtype != NN_F64 && v->kind == VALUE_TENSOR && nn_value_dtype(v->tensor) == NN_F64;
}

static bool has_other_float(Elaborator *e, int n, const Value *v) {
  bool found = false;
  for (int i = 0; i < n; i++)
    found |= v[i].kind == VALUE_TENSOR && nn_dtype_is_float(nn_value_dtype(v[i].tensor)) && !is_step_scalar(e, &v[i]);
  return found;
}

NnDtype value_common_dtype(Elaborator *e, int n, const Value *v) {
  NnDtype type = NN_I1;
  bool tensors = false, fraction = false, takes = has_other_float(e, n, v);
  NnDtype integers = NN_I1;   // of the numbers among them
  for (int i = 0; i < n; i++) {
    bool counts = v[i].kind == VALUE_TENSOR && !(takes && is_step_scalar(e, &v[i]));
    if (counts) type = together[type][nn_value_dtype(v[i].tensor)];
    tensors |= v[i].kind == VALUE_TENSOR;
    fraction |= v[i].kind == VALUE_FLOAT;
    if (v[i].kind == VALUE_INT) integers = v[i].i == (int32_t)v[i].i && integers != NN_I64 ? NN_I32 : NN_I64;
  }
  if (nn_dtype_is_float(type)) return type;
  if (fraction) return tensors ? nn_dtype_wide(elaborator_dtype(e)) : elaborator_dtype(e);
  return type == NN_I1 ? integers : type;
}

NnDtype value_arithmetic_dtype(Elaborator *e, const Value *x, const Value *y, bool division) {
  NnDtype type = value_common_dtype(e, 2, (Value[]){*x, *y});
  if (division && !nn_dtype_is_float(type)) return nn_dtype_wide(elaborator_dtype(e));
  return type == NN_I1 || type == NN_U8 ? NN_I32 : type;
}

// One f32 among the values of a part that computes in bf16 or f16 makes f32 of all that is computed from them.
static void tell_widening(Elaborator *e, AstPos pos, int n, const Value *v) {
  NnDtype precision = elaborator_dtype(e);
  const Value *narrow = NULL, *wide = NULL;
  for (int i = 0; i < n; i++) {
    NnDtype dtype = v[i].kind == VALUE_TENSOR ? nn_value_dtype(v[i].tensor) : NN_I1;
    if (dtype == precision) narrow = &v[i];
    if (dtype == NN_F32) wide = &v[i];
  }
  if (!narrow || !wide || !nn_dtype_is_narrow(precision)) return;
  elaborator_warning(e, pos, "%s and %s together are f32, and so is what is computed of them",
                     value_describe(e, *narrow), value_describe(e, *wide));
  elaborator_hint(e,
                  "compute the second in a block f(…) precision f32 { … }, whose results are %s again, or write "
                  "cast(…, \"f32\") around the first",
                  nn_dtype_name(precision));
}

// A constant is kept as f64: an integer beyond 2^53 is made of two.
static MlirValue integer_constant(NnBuilder *b, int64_t value) {
  const int64_t part = (int64_t)1 << 32;
  NnType t = nn_scalar(NN_I64);
  if (value >= -((int64_t)1 << 53) && value <= (int64_t)1 << 53) return nn_constant(b, t, (double)value);
  int64_t low = value & (part - 1), high = (value - low) / part;
  MlirValue upper = nn_binary(b, NN_OP_mul, nn_constant(b, t, (double)high), nn_constant(b, t, (double)part));
  return nn_binary(b, NN_OP_add, upper, nn_constant(b, t, (double)low));
}

bool value_to_tensor(Elaborator *e, AstPos pos, Value x, NnDtype dtype, MlirValue *out) {
  double number;
  if (x.kind == VALUE_TENSOR) {
    *out = x.tensor;
    return true;
  }
  if (!value_as_number(&x, &number))
    return elaborator_error(e, pos, "expected a tensor or a number, found %s", value_describe(e, x));
  double low = dtype == NN_U8 ? 0 : dtype == NN_I32 ? -0x1p31 : -0x1p63;
  double end = dtype == NN_U8 ? 256 : dtype == NN_I32 ? 0x1p31 : 0x1p63;
  bool fits = (number >= low && number < end) || (dtype == NN_I64 && x.kind == VALUE_INT);
  if (!nn_dtype_is_float(dtype) && dtype != NN_I1 && !fits)
    return elaborator_error(e, pos, "%s does not fit in %s", value_describe(e, x), nn_dtype_name(dtype));
  NnBuilder *b = elaborator_builder(e);
  *out = dtype == NN_I64 && x.kind == VALUE_INT ? integer_constant(b, x.i) : nn_constant(b, nn_scalar(dtype), number);
  return true;
}

bool value_promote(Elaborator *e, AstPos pos, int n, const Value *v, NnDtype dtype, MlirValue *out) {
  if (dtype == NN_F32) tell_widening(e, pos, n, v);
  for (int i = 0; i < n; i++) {
    if (!value_to_tensor(e, pos, v[i], dtype, &out[i])) return false;
    out[i] = nn_cast(elaborator_builder(e), out[i], dtype);
  }
  return true;
}

// Element types and static tensor types, and their spelling in MLIR. The bottom of ir/: everything above speaks NnType,
// and only this file knows that u8 is ui8 and that a tensor is a ranked tensor without encoding.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/internal.h"
#include "ir/ir.h"
#include "support/alloc.h"

static const struct {
  const char *name;
  int bytes;
  bool is_float;
} dtypes[NN_DTYPE_COUNT] = {
    [NN_F32] = {"f32", 4, true}, [NN_F64] = {"f64", 8, true},  [NN_BF16] = {"bf16", 2, true},
    [NN_F16] = {"f16", 2, true}, [NN_I32] = {"i32", 4, false}, [NN_I64] = {"i64", 8, false},
    [NN_U8] = {"u8", 1, false},  [NN_I1] = {"i1", 1, false},
};

int64_t nn_dtype_bytes(NnDtype dtype) { return dtypes[dtype].bytes; }
const char *nn_dtype_name(NnDtype dtype) { return dtypes[dtype].name; }
bool nn_dtype_is_float(NnDtype dtype) { return dtypes[dtype].is_float; }
bool nn_dtype_is_narrow(NnDtype dtype) { return dtype == NN_BF16 || dtype == NN_F16; }
NnDtype nn_dtype_wide(NnDtype dtype) { return nn_dtype_is_narrow(dtype) ? NN_F32 : dtype; }

NnDtype nn_dtype_common(NnDtype a, NnDtype b) { return a == b ? a : a == NN_F64 || b == NN_F64 ? NN_F64 : NN_F32; }

// To `digits` binary digits with exponents of at least `least`: subnormal numbers have fewer digits.
static double round_to(double x, int digits, int least) {
  int exponent;
  if (x == 0 || !isfinite(x)) return x;
  frexp(x, &exponent);
  int unit = (exponent > least ? exponent : least) - digits;
  return ldexp(nearbyint(ldexp(x, -unit)), unit);
}

double nn_dtype_round(NnDtype dtype, double x) {
  if (dtype == NN_F64) return x;
  // In two steps as kernels do it: to f32, then to the narrow type.
  double single = (double)(float)x, y;
  switch (dtype) {
  case NN_BF16: y = round_to(single, 8, -125); return fabs(y) > 0x1.fep127 ? copysign(INFINITY, x) : y;
  case NN_F16: y = round_to(single, 11, -13); return fabs(y) > 65504 ? copysign(INFINITY, x) : y;
  default: return single;
  }
}

bool nn_dtype_parse(const char *name, NnDtype *out) {
  for (int i = 0; i < NN_DTYPE_COUNT; i++) {
    if (strcmp(name, dtypes[i].name)) continue;
    *out = (NnDtype)i;
    return true;
  }
  return false;
}

NnType nn_type(NnDtype dtype, int rank, const int64_t *dim) {
  if (rank < 0 || rank > NN_MAX_RANK) nn_bug("a tensor type of rank %d", rank);
  NnType t = {.dtype = dtype, .rank = rank};
  for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
  return t;
}

NnType nn_scalar(NnDtype dtype) { return (NnType){.dtype = dtype}; }

bool nn_shape_equal(const NnType *a, const NnType *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

bool nn_type_equal(const NnType *a, const NnType *b) { return a->dtype == b->dtype && nn_shape_equal(a, b); }

void nn_row_major_strides(const NnType *t, int64_t *stride) {
  int64_t n = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    stride[i] = n;
    n *= t->dim[i];
  }
}

// Runs of axes of `from` are matched with runs of `to` of the same size; each run of `from` must be walked in one
// stride.
bool nn_reshape_strides(const NnType *from, const NnType *to, const int64_t *in, int64_t *out) {
  for (int j = 0; j < to->rank; j++) out[j] = 0;
  int i = 0, j = 0;
  while (i < from->rank || j < to->rank) {
    if (i < from->rank && from->dim[i] == 1) {
      i++;
      continue;
    }
    if (j < to->rank && to->dim[j] == 1) {
      j++;
      continue;
    }
    int i0 = i, j0 = j;
    int64_t have = from->dim[i++], want = to->dim[j++];
    while (have != want) {
      if (have < want) have *= from->dim[i++];
      else want *= to->dim[j++];
    }
    for (int a = i - 2, b = i - 1; a >= i0; a--) {
      if (from->dim[a] == 1) continue;
      if (in[a] != in[b] * from->dim[b]) return false;
      b = a;
    }
    int64_t stride = in[i - 1];
    for (int b = j - 1; b >= j0; b--) {
      out[b] = stride;
      stride *= to->dim[b];
    }
  }
  return true;
}

int64_t nn_type_elements(const NnType *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

int64_t nn_type_bytes(const NnType *t) { return nn_type_elements(t) * nn_dtype_bytes(t->dtype); }

bool nn_type_is_representable(const NnType *t) {
  if (t->rank < 0 || t->rank > NN_MAX_RANK) return false;
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->dim[i] < 1 || t->dim[i] > NN_MAX_ELEMENTS / n) return false;
    n *= t->dim[i];
  }
  return true;
}

const char *nn_type_format(const NnType *t, char *buf, size_t size) {
  if (size == 0) return buf;
  size_t used = (size_t)snprintf(buf, size, "%s", nn_dtype_name(t->dtype));
  if (t->rank == 0) return buf;
  for (int i = 0; i < t->rank && used < size; i++)
    used += (size_t)snprintf(buf + used, size - used, "%s%lld", i ? ", " : "[", (long long)t->dim[i]);
  if (used < size) snprintf(buf + used, size - used, "]");
  return buf;
}

static MlirType element_to_mlir(MlirContext ctx, NnDtype dtype) {
  switch (dtype) {
  case NN_F32: return mlirF32TypeGet(ctx);
  case NN_F64: return mlirF64TypeGet(ctx);
  case NN_BF16: return mlirBF16TypeGet(ctx);
  case NN_F16: return mlirF16TypeGet(ctx);
  case NN_I32: return mlirIntegerTypeGet(ctx, 32);
  case NN_I64: return mlirIntegerTypeGet(ctx, 64);
  case NN_U8: return mlirIntegerTypeUnsignedGet(ctx, 8);
  case NN_I1: return mlirIntegerTypeGet(ctx, 1);
  default: nn_bug("element type %d", (int)dtype);
  }
}

MlirType nn_type_to_mlir(MlirContext ctx, const NnType *t) {
  return mlirRankedTensorTypeGet(t->rank, t->dim, element_to_mlir(ctx, t->dtype), mlirAttributeGetNull());
}

static bool element_from_mlir(MlirType type, NnDtype *out) {
  if (mlirTypeIsAF32(type)) *out = NN_F32;
  else if (mlirTypeIsAF64(type)) *out = NN_F64;
  else if (mlirTypeIsABF16(type)) *out = NN_BF16;
  else if (mlirTypeIsAF16(type)) *out = NN_F16;
  else if (!mlirTypeIsAInteger(type)) return false;
  else if (mlirIntegerTypeIsUnsigned(type) && mlirIntegerTypeGetWidth(type) == 8) *out = NN_U8;
  else if (!mlirIntegerTypeIsSignless(type)) return false;
  else if (mlirIntegerTypeGetWidth(type) == 32) *out = NN_I32;
  else if (mlirIntegerTypeGetWidth(type) == 64) *out = NN_I64;
  else if (mlirIntegerTypeGetWidth(type) == 1) *out = NN_I1;
  else return false;
  return true;
}

static bool read_type(MlirType type, NnType *out) {
  if (mlirTypeIsNull(type) || !mlirTypeIsARankedTensor(type) ||
      !mlirAttributeIsNull(mlirRankedTensorTypeGetEncoding(type)))
    return false;
  int64_t rank = mlirShapedTypeGetRank(type);
  NnType t = {.rank = (int)rank};
  if (rank > NN_MAX_RANK || !element_from_mlir(mlirShapedTypeGetElementType(type), &t.dtype)) return false;
  for (int i = 0; i < t.rank; i++) {
    t.dim[i] = mlirShapedTypeGetDimSize(type, i);
    if (mlirShapedTypeIsDynamicSize(t.dim[i])) return false;
  }
  *out = t;
  return true;
}

// Types are few and each is read very often, so MLIR is asked once: by the address, which is the type's own as long as
// the context lives.
static struct {
  PtrMap ids;
  int n;
  NnType **items;   // Owned, each
} known;

void nn_types_forget(void) {
  for (int i = 0; i < known.n; i++) free(known.items[i]);
  free(known.items);
  ptr_map_free(&known.ids);
  known.items = NULL, known.n = 0;
}

// NULL: not a static ranked tensor of a known element type.
static const NnType *find_type(MlirType type) {
  int id = mlirTypeIsNull(type) ? -1 : ptr_map_get(&known.ids, type.ptr);
  if (id >= 0) return known.items[id];
  NnType t;
  if (!read_type(type, &t)) return NULL;
  ptr_map_set(&known.ids, type.ptr, known.n);
  NnType *made = allocate_array(1, sizeof *made);
  *made = t;
  *ARRAY_ADD(known.items, known.n) = made;
  return made;
}

bool nn_type_from_mlir(MlirType type, NnType *out) {
  const NnType *t = find_type(type);
  if (t) *out = *t;
  return t != NULL;
}

const NnType *nn_type_of(MlirValue v) {
  const NnType *t = nn_value_is_null(v) ? NULL : find_type(mlirValueGetType(v));
  if (!t) nn_bug("a value that is no static tensor of a known element type");
  return t;
}

NnType nn_value_type(MlirValue v) { return *nn_type_of(v); }
NnDtype nn_value_dtype(MlirValue v) { return nn_type_of(v)->dtype; }

// Element types, and tensors that lie permuted in the arena (weights packed for the convolutions).
#include <math.h>
#include <string.h>

#include "runtime/narrow.h"
#include "runtime/runtime.h"

// ORDER DTYPE
static const struct {
  const char *name;
  int64_t bytes;
} dtypes[] = {{"f32", 4}, {"f64", 8}, {"bf16", 2}, {"f16", 2}, {"i32", 4}, {"i64", 8},
              {"u8", 1},  {"i1", 1},  {"u16", 2},  {"i8", 1},  {"i16", 2}, {"u32", 4}};

int64_t dtype_bytes(NncDtype t) { return dtypes[t].bytes; }
const char *dtype_name(NncDtype t) { return dtypes[t].name; }
bool dtype_is_float(NncDtype t) { return t == NNC_F32 || t == NNC_F64 || t == NNC_BF16 || t == NNC_F16; }
static bool is_narrow(NncDtype t) { return t == NNC_BF16 || t == NNC_F16; }

int64_t tensor_elements(const NncTensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i];
  return n;
}

int64_t tensor_arena_bytes(const NncTensor *t) { return t->part ? t->part * dtype_bytes(t->dtype) : t->bytes; }

static int64_t rows_in_arena(const NncTensor *t, int64_t columns) {
  return t->rows ? t->rows : tensor_elements(t) / columns;
}

static bool lies_in_rows(const NncTensor *t) { return t->rows > 0 || t->pitch > (t->rank ? t->dim[t->rank - 1] : 1); }

int64_t tensor_span(const NncTensor *t) {
  int64_t columns = t->rank ? t->dim[t->rank - 1] : 1;
  return lies_in_rows(t) && columns > 0
             ? rows_in_arena(t, columns) * (t->pitch > columns ? t->pitch : columns) * dtype_bytes(t->dtype)
             : t->bytes;
}

static void gather_rows(const NncTensor *t, const char *arena, char *logical) {
  int64_t element = dtype_bytes(t->dtype), columns = t->dim[t->rank - 1],
          pitch = t->pitch > columns ? t->pitch : columns;
  logical += t->first_row * columns * element;
  for (int64_t i = 0; i < rows_in_arena(t, columns); i++)
    memcpy(logical + i * columns * element, arena + i * pitch * element, (size_t)(columns * element));
}

void tensor_from_arena(const NncTensor *t, const char *arena, void *logical) {
  if (t->rank && t->bytes && lies_in_rows(t)) gather_rows(t, arena + t->offset, logical);
  else memcpy(logical, arena + t->offset, (size_t)t->bytes);
}

double tensor_scalar(const NncTensor *t, const char *arena) {
  double v;
  convert_elements(t->dtype, arena + t->offset, NNC_F64, &v, 1);
  return v;
}

// The exponent bits of a type, all of them set in what is not finite, and the bits that an infinity has none of.
#define FIND_EXPONENT(T, exponent, fraction)                                                   \
  do {                                                                                         \
    const T *v = values;                                                                       \
    for (int64_t first = 0; first < n; first += CHUNK) {                                       \
      int64_t end = n - first < CHUNK ? n : first + CHUNK;                                     \
      int found = 0;                                                                           \
      for (int64_t i = first; i < end; i++) found |= (v[i] & (exponent)) == (exponent);        \
      for (int64_t i = first; found && i < end; i++)                                           \
        if ((v[i] & (exponent)) == (exponent) && (!nan_only || (v[i] & (fraction)))) return i; \
    }                                                                                          \
  } while (0)

int64_t find_not_finite(NncDtype dtype, const void *values, int64_t n, bool nan_only) {
  enum { CHUNK = 4096 };
  switch (dtype) {
  case NNC_F32: FIND_EXPONENT(uint32_t, 0x7F800000u, 0x007FFFFFu); break;
  case NNC_F64: FIND_EXPONENT(uint64_t, 0x7FF0000000000000u, 0x000FFFFFFFFFFFFFu); break;
  case NNC_BF16: FIND_EXPONENT(uint16_t, 0x7F80, 0x007F); break;
  case NNC_F16: FIND_EXPONENT(uint16_t, 0x7C00, 0x03FF); break;
  default: break;
  }
  return -1;
}

bool dtype_convertible(NncDtype from, NncDtype to) {
  if (from == to) return true;
  return dtype_is_float(from) ? dtype_is_float(to) : to != NNC_U8 && to != NNC_I1;
}

void tensor_bounds(const NncTensor *t, int64_t *low, int64_t *high) {
  bool narrow = t->dtype == NNC_I32;
  *low = t->limit > 0 ? 0 : narrow ? INT32_MIN : INT64_MIN;
  *high = narrow ? INT32_MAX : INT64_MAX;
  if (t->limit > 0 && t->limit - 1 < *high) *high = t->limit - 1;
}

const char *tensor_bounds_text(const NncTensor *t, char *text, size_t size) {
  int64_t low, high;
  tensor_bounds(t, &low, &high);
  int n = snprintf(text, size, "%lld..%lld", (long long)low, (long long)high);
  if (t->besides && n > 0 && (size_t)n < size)
    snprintf(text + n, size - (size_t)n, " and not %lld", (long long)t->besides);
  return text;
}

int64_t tensor_find_outside(const NncTensor *t, NncDtype from, const void *values, int64_t n, int64_t *value) {
  enum { CHUNK = 512 };
  int64_t chunk[CHUNK], low, high;
  bool wraps = t->dtype == NNC_I32 && (from == NNC_I64 || from == NNC_U32);
  if ((t->limit <= 0 && !wraps) || (from == NNC_U8 && t->limit >= 256)) return -1;
  tensor_bounds(t, &low, &high);
  for (int64_t first = 0; first < n; first += CHUNK) {
    int64_t count = n - first < CHUNK ? n - first : CHUNK;
    convert_elements(from, (const char *)values + first * dtype_bytes(from), NNC_I64, chunk, count);
    for (int64_t i = 0; i < count; i++) {
      if ((chunk[i] >= low && chunk[i] <= high) || (t->besides && chunk[i] == t->besides)) continue;
      *value = chunk[i];
      return first + i;
    }
  }
  return -1;
}

void narrow_to_float(NncDtype from, const void *src, float *dst, int64_t n) {
  const uint16_t *s = src;
  if (from == NNC_BF16)
    for (int64_t i = 0; i < n; i++) dst[i] = bf16_to_float(s[i]);
  else
    for (int64_t i = 0; i < n; i++) dst[i] = f16_to_float(s[i]);
}

void narrow_from_float(const float *src, NncDtype to, void *dst, int64_t n) {
  uint16_t *d = dst;
  if (to == NNC_BF16)
    for (int64_t i = 0; i < n; i++) d[i] = float_to_bf16(src[i]);
  else
    for (int64_t i = 0; i < n; i++) d[i] = float_to_f16(src[i]);
}

// The neighbour in f32 with an odd last digit, x itself where f32 holds it. With more than two digits to spare, what is
// rounded from this is what would be rounded from x (Boldo and Melquiond 2008, "Emulation of a FMA and correctly
// rounded sums", theorem 3): rounding to the nearest twice is not.
static float double_to_odd_float(double x) {
  float f = (float)x;
  if ((double)f == x || x != x) return f;
  uint32_t bits = float_bits(f), outwards = fabs((double)f) > fabs(x);   // beyond FLT_MAX, too, which is odd
  return float_from_bits((bits - outwards) | 1);
}

// All conversions of bf16 and f16 go by way of f32, a piece at a time. Of other types each number is rounded once (but
// for integers beyond 2^53).
static void convert_narrow(NncDtype from, const char *src, NncDtype to, char *dst, int64_t n) {
  enum { CHUNK = 1024 };
  float chunk[CHUNK];
  double wide[CHUNK];
  for (int64_t first = 0; first < n; first += CHUNK) {
    int64_t count = n - first < CHUNK ? n - first : CHUNK;
    const void *s = src + first * dtype_bytes(from);
    void *d = dst + first * dtype_bytes(to);
    if (is_narrow(from)) narrow_to_float(from, s, chunk, count);
    else if (from == NNC_F32) memcpy(chunk, s, sizeof *chunk * (size_t)count);
    else {
      convert_elements(from, s, NNC_F64, wide, count);
      for (int64_t i = 0; i < count; i++) chunk[i] = double_to_odd_float(wide[i]);
    }
    if (is_narrow(to)) narrow_from_float(chunk, to, d, count);
    else convert_elements(NNC_F32, chunk, to, d, count);
  }
}

#define CONVERT(S, D)                               \
  do {                                              \
    const S *s = src;                               \
    D *d = dst;                                     \
    for (int64_t i = 0; i < n; i++) d[i] = (D)s[i]; \
  } while (0)
#define CONVERT_FROM(S)                      \
  switch (to) {                              \
  case NNC_F32: CONVERT(S, float); break;    \
  case NNC_F64: CONVERT(S, double); break;   \
  case NNC_I32: CONVERT(S, int32_t); break;  \
  case NNC_I64: CONVERT(S, int64_t); break;  \
  case NNC_U8:                               \
  case NNC_I1: CONVERT(S, uint8_t); break;   \
  case NNC_U16: CONVERT(S, uint16_t); break; \
  case NNC_I8: CONVERT(S, int8_t); break;    \
  case NNC_I16: CONVERT(S, int16_t); break;  \
  case NNC_U32: CONVERT(S, uint32_t); break; \
  case NNC_BF16:                             \
  case NNC_F16: break;                       \
  }                                          \
  break

void convert_elements(NncDtype from, const void *src, NncDtype to, void *dst, int64_t n) {
  if (from == to) {
    memcpy(dst, src, (size_t)(n * dtype_bytes(from)));
    return;
  }
  if (is_narrow(from) || is_narrow(to)) {
    convert_narrow(from, src, to, dst, n);
    return;
  }
  switch (from) {
  case NNC_BF16:
  case NNC_F16: break;
  case NNC_F32: CONVERT_FROM(float);
  case NNC_F64: CONVERT_FROM(double);
  case NNC_I32: CONVERT_FROM(int32_t);
  case NNC_I64: CONVERT_FROM(int64_t);
  case NNC_U8:
  case NNC_I1: CONVERT_FROM(uint8_t);
  case NNC_U16: CONVERT_FROM(uint16_t);
  case NNC_I8: CONVERT_FROM(int8_t);
  case NNC_I16: CONVERT_FROM(int16_t);
  case NNC_U32: CONVERT_FROM(uint32_t);
  }
}

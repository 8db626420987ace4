// What goes along an axis, on the host: rows are shared out over the threads, columns of one row where there is more
// than one beside each other. Every element is computed by one thread in one order.
#include <math.h>
#include <omp.h>
#include <string.h>

#include "runtime/fourier.h"
#include "runtime/library_internal.h"
#include "runtime/rows.h"
#include "runtime/runtime.h"
#include "support/integers.h"

enum { COLUMNS = 64, TAKEN = 4096, TOGETHER = 4, WORTH_THREADS = 1 << 14 };

// The columns [first, end) of a row, whose elements lie r->inner apart. Where that is 1 and one element follows from
// the other: `end` rows, since those of one row wait for each other; and of what is taken, the elements [first, end).
typedef struct Part {
  int64_t outer, first, end;
} Part;

static bool is_together(const NncRows *r) { return r->inner == 1 && r->kind <= NNC_ROWS_ARGSORT; }
static bool is_taken(const NncRows *r) { return r->inner == 1 && r->kind == NNC_ROWS_TAKE; }

static int64_t blocks(const NncRows *r) {
  return is_taken(r) ? divide_up(r->count, TAKEN) : divide_up(r->inner, COLUMNS);
}

static int64_t parts(const NncRows *r) { return is_together(r) ? divide_up(r->outer, TOGETHER) : r->outer * blocks(r); }

static Part part_of(const NncRows *r, int64_t i) {
  if (is_together(r))
    return (Part){i * TOGETHER, 0, i * TOGETHER + TOGETHER < r->outer ? TOGETHER : r->outer - i * TOGETHER};
  int64_t size = is_taken(r) ? TAKEN : COLUMNS, all = is_taken(r) ? r->count : r->inner, first = i % blocks(r) * size;
  return (Part){i / blocks(r), first, first + size < all ? first + size : all};
}

// ---------------------------------------------------------------------------------------------------------------------
// Sums and products; alone in its row an element is added in f64, as a row may be long

#define ACCUMULATE(NAME, T, WIDE, OP)                                                                                \
  static void NAME(const NncRows *r, const Part *p, const void *from, void *to) {                                    \
    int64_t n = r->length, inner = r->inner, base = p->outer * n * inner;                                            \
    const T *x = (const T *)from + base;                                                                             \
    T *y = (T *)to + base;                                                                                           \
    int64_t at = r->backward ? (n - 1) * inner : 0, step = r->backward ? -inner : inner;                             \
    if (inner == 1) {                                                                                                \
      WIDE sum[TOGETHER];                                                                                            \
      for (int64_t c = 0; c < p->end; c++) sum[c] = (WIDE)x[c * n + at], y[c * n + at] = (T)sum[c];                  \
      for (int64_t t = 1; t < n && p->end == TOGETHER; t++) {                                                        \
        at += step;                                                                                                  \
        for (int64_t c = 0; c < TOGETHER; c++) sum[c] = sum[c] OP(WIDE) x[c * n + at], y[c * n + at] = (T)sum[c];    \
      }                                                                                                              \
      for (int64_t c = 0; c < p->end && p->end < TOGETHER; c++)                                                      \
        for (int64_t t = 1, k = c * n + at + step; t < n; t++, k += step)                                            \
          sum[c] = sum[c] OP(WIDE) x[k], y[k] = (T)sum[c];                                                           \
      return;                                                                                                        \
    }                                                                                                                \
    for (int64_t c = p->first; c < p->end; c++) y[at + c] = x[at + c];                                               \
    for (int64_t t = 1; t < n; t++, at += step)                                                                      \
      for (int64_t c = p->first; c < p->end; c++) y[at + step + c] = (T)((WIDE)y[at + c] OP(WIDE) x[at + step + c]); \
  }

ACCUMULATE(sum_f32, float, double, +)
ACCUMULATE(sum_f64, double, double, +)
ACCUMULATE(sum_i32, int32_t, uint32_t, +)
ACCUMULATE(sum_i64, int64_t, uint64_t, +)
ACCUMULATE(product_f32, float, double, *)
ACCUMULATE(product_f64, double, double, *)
ACCUMULATE(product_i32, int32_t, uint32_t, *)
ACCUMULATE(product_i64, int64_t, uint64_t, *)

// The last of equal ones; a NaN is above, or below, all: no number is at least, or at most, one. Of a row alone most
// runs of COLUMNS elements have none that is.
#define EXTREME(NAME, T)                                                                                          \
  static int NAME##_any(const T *x, bool most, T top) {                                                           \
    int any = 0;                                                                                                  \
    for (int i = 0; i < COLUMNS && most; i++) any |= (x[i] >= top) | (x[i] != x[i]);                              \
    for (int i = 0; i < COLUMNS && !most; i++) any |= (x[i] <= top) | (x[i] != x[i]);                             \
    return any;                                                                                                   \
  }                                                                                                               \
  static void NAME##_alone(const NncRows *r, const T *x, int32_t *y) {                                            \
    int64_t n = r->length;                                                                                        \
    bool most = r->kind == NNC_ROWS_ARGMAX;                                                                       \
    int32_t best = (int32_t)(r->backward ? n - 1 : 0);                                                            \
    for (int64_t i = 0; i < n; i += COLUMNS) {                                                                    \
      int64_t run = n - i < COLUMNS ? n - i : COLUMNS, first = r->backward ? n - i - run : i;                     \
      bool none = run == COLUMNS && !NAME##_any(x + first, most, x[best]);                                        \
      for (int64_t k = 0; k < run && none; k++) y[first + k] = best;                                              \
      for (int64_t k = 0; k < run && !none; k++) {                                                                \
        int64_t t = r->backward ? first + run - 1 - k : first + k;                                                \
        T a = x[t], top = x[best];                                                                                \
        if ((most ? a >= top : a <= top) || a != a) best = (int32_t)t;                                            \
        y[t] = best;                                                                                              \
      }                                                                                                           \
    }                                                                                                             \
  }                                                                                                               \
  static void NAME(const NncRows *r, const Part *p, const void *from, void *to) {                                 \
    int64_t n = r->length, inner = r->inner, columns = p->end - p->first, base = p->outer * n * inner + p->first, \
            start = r->backward ? n - 1 : 0;                                                                      \
    const T *x = (const T *)from + base;                                                                          \
    int32_t *y = (int32_t *)to + base;                                                                            \
    bool most = r->kind == NNC_ROWS_ARGMAX;                                                                       \
    T top[COLUMNS];                                                                                               \
    int32_t best[COLUMNS];                                                                                        \
    for (int64_t c = 0; c < columns && inner == 1; c++) NAME##_alone(r, x + c * n, y + c * n);                    \
    if (inner == 1) return;                                                                                       \
    for (int64_t c = 0; c < columns; c++) top[c] = x[start * inner + c], best[c] = (int32_t)start;                \
    for (int64_t i = 0; i < n; i++) {                                                                             \
      int64_t t = r->backward ? n - 1 - i : i;                                                                    \
      for (int64_t c = 0; c < columns; c++) {                                                                     \
        T a = x[t * inner + c];                                                                                   \
        bool wins = (most ? a >= top[c] : a <= top[c]) | (a != a);                                                \
        best[c] = wins ? (int32_t)t : best[c], top[c] = wins ? a : top[c];                                        \
        y[t * inner + c] = best[c];                                                                               \
      }                                                                                                           \
    }                                                                                                             \
  }

EXTREME(extreme_f32, float)
EXTREME(extreme_f64, double)
EXTREME(extreme_i32, int32_t)
EXTREME(extreme_i64, int64_t)

#define RECUR(NAME, T)                                                                                  \
  static void NAME(const NncRows *r, const Part *p, const void *factors, const void *added, void *to) { \
    int64_t n = r->length, inner = r->inner, base = p->outer * n * inner;                               \
    const T *a = (const T *)factors + base, *x = (const T *)added + base;                               \
    T *y = (T *)to + base;                                                                              \
    int64_t at = r->backward ? (n - 1) * inner : 0, step = r->backward ? -inner : inner;                \
    int64_t first = inner == 1 ? 0 : p->first, apart = inner == 1 ? n : 1;                              \
    for (int64_t c = first; c < p->end; c++) y[at + c * apart] = x[at + c * apart];                     \
    for (int64_t t = 1; t < n; t++) {                                                                   \
      at += step;                                                                                       \
      for (int64_t c = first; c < p->end; c++) {                                                        \
        int64_t k = at + c * apart;                                                                     \
        y[k] = a[k] * y[k - step] + x[k];                                                               \
      }                                                                                                 \
    }                                                                                                   \
  }

RECUR(recur_f32, float)
RECUR(recur_f64, double)

// The element that sorts first: the first of equal ones, NaN is the largest. Of a row alone runs are left out as above.
#define LARGER(a, b) ((a > b) | ((a != a) & (b == b)))
#define SMALLER(a, b) ((a < b) | ((a == a) & (b != b)))
#define FIRST(NAME, T, BEFORE)                                                                \
  static int32_t NAME##_alone(const T *x, int64_t n) {                                        \
    T top = x[0];                                                                             \
    int64_t best = 0;                                                                         \
    for (int64_t first = 0; first < n; first += COLUMNS) {                                    \
      int64_t run = n - first < COLUMNS ? n - first : COLUMNS;                                \
      int any = run < COLUMNS;                                                                \
      for (int i = 0; i < COLUMNS && run == COLUMNS; i++) any |= BEFORE(x[first + i], top);   \
      for (int64_t t = first; t < first + run && any; t++)                                    \
        if (BEFORE(x[t], top)) top = x[t], best = t;                                          \
    }                                                                                         \
    return (int32_t)best;                                                                     \
  }                                                                                           \
  static void NAME(const NncRows *r, const Part *p, const void *from, void *to) {             \
    T top[COLUMNS];                                                                           \
    int64_t n = r->length, inner = r->inner, columns = p->end - p->first;                     \
    const T *x = (const T *)from + p->outer * n * inner + p->first;                           \
    int32_t *best = (int32_t *)to + p->outer * inner + p->first;                              \
    for (int64_t c = 0; c < columns && inner == 1; c++) best[c] = NAME##_alone(x + c * n, n); \
    for (int64_t c = 0; c < columns && inner > 1; c++) top[c] = x[c], best[c] = 0;            \
    for (int64_t t = 1; t < n && inner > 1; t++)                                              \
      for (int64_t c = 0; c < columns; c++) {                                                 \
        T a = x[t * inner + c];                                                               \
        bool wins = BEFORE(a, top[c]);                                                        \
        best[c] = wins ? (int32_t)t : best[c], top[c] = wins ? a : top[c];                    \
      }                                                                                       \
  }

FIRST(largest_f32, float, LARGER)
FIRST(largest_f64, double, LARGER)
FIRST(largest_i32, int32_t, LARGER)
FIRST(largest_i64, int64_t, LARGER)
FIRST(smallest_f32, float, SMALLER)
FIRST(smallest_f64, double, SMALLER)
FIRST(smallest_i32, int32_t, SMALLER)
FIRST(smallest_i64, int64_t, SMALLER)

typedef void (*Accumulate)(const NncRows *r, const Part *p, const void *from, void *to);

static int type_number(const NncRows *r) {
  return r->dtype == NNC_F32 ? 0 : r->dtype == NNC_F64 ? 1 : r->dtype == NNC_I32 ? 2 : 3;
}

static Accumulate accumulate_of(const NncRows *r) {
  static const Accumulate table[5][4] = {{sum_f32, sum_f64, sum_i32, sum_i64},
                                         {product_f32, product_f64, product_i32, product_i64},
                                         {extreme_f32, extreme_f64, extreme_i32, extreme_i64},
                                         {smallest_f32, smallest_f64, smallest_i32, smallest_i64},
                                         {largest_f32, largest_f64, largest_i32, largest_i64}};
  int row = r->kind == NNC_ROWS_SUM ? 0 : r->kind == NNC_ROWS_PRODUCT ? 1 : r->kind < NNC_ROWS_RECURRENCE ? 2 : 3;
  return table[row == 3 && r->backward ? 4 : row][type_number(r)];
}

// ---------------------------------------------------------------------------------------------------------------------
// Elements by indices

#define TAKE(NAME, T, INDEX)                                                                           \
  static void NAME(const NncRows *r, const Part *p, const void *from, const void *indices, void *to) { \
    int64_t base = p->outer * r->count * r->inner, n = r->length, inner = r->inner;                    \
    const T *x = (const T *)from + p->outer * n * inner;                                               \
    const INDEX *index = (const INDEX *)indices + base;                                                \
    T *y = (T *)to + base;                                                                             \
    for (int64_t t = p->first; t < p->end && inner == 1; t++) {                                        \
      int64_t i = index[t];                                                                            \
      y[t] = x[i < 0 ? 0 : i < n ? i : n - 1];                                                         \
    }                                                                                                  \
    for (int64_t t = 0; t < r->count * inner && inner > 1; t += inner)                                 \
      for (int64_t c = p->first; c < p->end; c++) {                                                    \
        int64_t i = index[t + c];                                                                      \
        i = i < 0 ? 0 : i < n ? i : n - 1;                                                             \
        y[t + c] = x[i * inner + c];                                                                   \
      }                                                                                                \
  }

#define TAKE_BOTH(NAME, T)        \
  TAKE(NAME##_by_i32, T, int32_t) \
  TAKE(NAME##_by_i64, T, int64_t)
TAKE_BOTH(take_1, uint8_t)
TAKE_BOTH(take_2, uint16_t)
TAKE_BOTH(take_4, uint32_t)
TAKE_BOTH(take_8, uint64_t)

#define SCATTER(NAME, T, INDEX)                                                                        \
  static void NAME(const NncRows *r, const Part *p, const void *from, const void *indices, void *to) { \
    int64_t base = p->outer * r->length * r->inner, n = r->count, inner = r->inner;                    \
    const T *x = (const T *)from + base;                                                               \
    const INDEX *index = (const INDEX *)indices + base;                                                \
    T *y = (T *)to + p->outer * n * inner;                                                             \
    for (int64_t i = 0; i < n && inner > 1; i++)                                                       \
      memset(y + i * inner + p->first, 0, sizeof(T) * (size_t)(p->end - p->first));                    \
    if (inner == 1) memset(y, 0, sizeof(T) * (size_t)n);                                               \
    for (int64_t t = 0; t < r->length * inner; t += inner)                                             \
      for (int64_t c = p->first; c < p->end; c++) {                                                    \
        int64_t i = index[t + c];                                                                      \
        if (i < 0 || i >= n) continue;                                                                 \
        y[i * inner + c] = r->last ? x[t + c] : y[i * inner + c] + x[t + c];                           \
      }                                                                                                \
  }

#define SCATTER_BOTH(NAME, T)        \
  SCATTER(NAME##_by_i32, T, int32_t) \
  SCATTER(NAME##_by_i64, T, int64_t)
SCATTER_BOTH(scatter_f32, float)
SCATTER_BOTH(scatter_f64, double)
SCATTER_BOTH(scatter_i32, uint32_t)
SCATTER_BOTH(scatter_i64, uint64_t)

typedef void (*Indexed)(const NncRows *r, const Part *p, const void *x, const void *second, void *to);

static Indexed indexed_of(const NncRows *r) {
  static const Indexed takes[4][2] = {{take_1_by_i32, take_1_by_i64},
                                      {take_2_by_i32, take_2_by_i64},
                                      {take_4_by_i32, take_4_by_i64},
                                      {take_8_by_i32, take_8_by_i64}};
  static const Indexed scatters[4][2] = {{scatter_f32_by_i32, scatter_f32_by_i64},
                                         {scatter_f64_by_i32, scatter_f64_by_i64},
                                         {scatter_i32_by_i32, scatter_i32_by_i64},
                                         {scatter_i64_by_i32, scatter_i64_by_i64}};
  int64_t bytes = dtype_bytes(r->dtype);
  bool by_i64 = r->index == NNC_I64;
  if (r->kind == NNC_ROWS_RECURRENCE) return r->dtype == NNC_F32 ? recur_f32 : recur_f64;
  if (r->kind == NNC_ROWS_TAKE) return takes[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3][by_i64];
  return scatters[type_number(r)][by_i64];
}

// ---------------------------------------------------------------------------------------------------------------------

static bool sorts(const NncRows *r) { return r->kind == NNC_ROWS_ARGSORT && r->count > 1; }
static int64_t sort_bytes(const NncRows *r) { return sorts(r) ? library_align(rows_sort_bytes(r)) : 0; }

static bool transforms(const NncRows *r) { return r->kind >= NNC_ROWS_SPECTRUM; }
static int64_t bytes_for(const NncRows *r, int threads) {
  return transforms(r) ? fourier_bytes(r, threads) : threads * sort_bytes(r);
}

int64_t nnc_rows_scratch(const NncRows *r) { return bytes_for(r, nnc_library_threads()); }

static void execute(const void *record, void *const *buffers, void *workspace) {
  const NncRows *r = record;
  if (transforms(r)) {
    fourier_execute(r, buffers[0], buffers[1], workspace);
    return;
  }
  bool sort = sorts(r), two = r->kind >= NNC_ROWS_RECURRENCE && r->kind != NNC_ROWS_ARGSORT;
  int64_t n = sort ? r->outer * r->inner : parts(r), elements = r->outer * r->inner * (r->length + r->count),
          bytes = sort_bytes(r);
  Accumulate accumulate = two || sort ? NULL : accumulate_of(r);
  Indexed indexed = two ? indexed_of(r) : NULL;
#pragma omp parallel for schedule(static) if (elements >= WORTH_THREADS)
  for (int64_t i = 0; i < n; i++) {
    Part p = part_of(r, i);
    if (sort) rows_sort(r, i, buffers[0], buffers[1], (char *)workspace + omp_get_thread_num() * bytes);
    else if (two) indexed(r, &p, buffers[0], buffers[1], buffers[2]);
    else accumulate(r, &p, buffers[0], buffers[1]);
  }
}

const NncOperation *nnc_rows_prepare(Library *lib, const NncRows *r, char *error, size_t size) {
  return library_prepare_loops(lib, execute, r, bytes_for(r, library_threads(lib)), r->scratch_bytes, error, size);
}

const char *nnc_rows_implementation(const NncRows *r) {
  (void)r;
  return "";
}

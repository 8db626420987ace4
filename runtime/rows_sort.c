// Sorting on the host. Numbers become keys, unsigned integers of the same order; where they have 32 bits a key and its
// index are one word of 64, so that equal numbers are sorted by their index. Rows are sorted by digits (least
// significant first), short ones by insertion; of a few smallest elements of a long row a part is kept that shrinks
// whenever it is full (Hoare, Algorithm 65: FIND, 1961).
#include <math.h>
#include <string.h>

#include "runtime/rows.h"
#include "runtime/runtime.h"

enum { FEW = 40, DIGIT = 11, BUCKETS = 1 << DIGIT, SHORT_DIGIT = 8, LONG_ROW = 3000 };

typedef struct Pair {
  uint64_t key, index;
} Pair;

static bool is_wide(const NncRows *r) { return dtype_bytes(r->dtype) == 8; }

int64_t rows_sort_bytes(const NncRows *r) { return 2 * r->length * (is_wide(r) ? (int64_t)sizeof(Pair) : 8); }

// NaN is the largest, -0 is 0.
static uint32_t key_f32(float x) {
  uint32_t u;
  if (x != x) return UINT32_MAX;
  x += 0.0f;
  memcpy(&u, &x, sizeof u);
  return u ^ ((uint32_t)((int32_t)u >> 31) | 0x80000000u);
}

static uint64_t key_f64(double x) {
  uint64_t u;
  if (x != x) return UINT64_MAX;
  x += 0.0;
  memcpy(&u, &x, sizeof u);
  return u ^ ((uint64_t)((int64_t)u >> 63) | 0x8000000000000000u);
}

// ---------------------------------------------------------------------------------------------------------------------
// Words of a key, the upper half, and an index

static void insertion(uint64_t *x, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    uint64_t v = x[i];
    int64_t j = i;
    for (; j > 0 && x[j - 1] > v; j--) x[j] = x[j - 1];
    x[j] = v;
  }
}

// Indices are in order already, so that the digits of the keys are enough. Passes whose digit all have are left out.
static uint64_t *sort_words(uint64_t *x, uint64_t *other, int64_t n) {
  if (n <= FEW) {
    insertion(x, n);
    return x;
  }
  uint32_t count[BUCKETS];
  int digit = n < LONG_ROW ? SHORT_DIGIT : DIGIT;
  for (int shift = 32; shift < 64; shift += digit) {
    int bits = 64 - shift < digit ? 64 - shift : digit, buckets = 1 << bits;
    memset(count, 0, sizeof *count * (size_t)buckets);
    for (int64_t i = 0; i < n; i++) count[x[i] >> shift & (uint64_t)(buckets - 1)]++;
    if (count[x[0] >> shift & (uint64_t)(buckets - 1)] == n) continue;
    uint32_t sum = 0;
    for (int b = 0; b < buckets; b++) {
      uint32_t c = count[b];
      count[b] = sum;
      sum += c;
    }
    for (int64_t i = 0; i < n; i++) other[count[x[i] >> shift & (uint64_t)(buckets - 1)]++] = x[i];
    uint64_t *sorted = other;
    other = x, x = sorted;
  }
  return x;
}

// The k smallest come first, in any order.
static void select_words(uint64_t *x, int64_t n, int64_t k) {
  int64_t low = 0, high = n - 1;
  while (low < high) {
    uint64_t pivot = x[low + (high - low) / 2];
    int64_t i = low, j = high;
    while (i <= j) {
      while (x[i] < pivot) i++;
      while (x[j] > pivot) j--;
      if (i > j) break;
      uint64_t t = x[i];
      x[i++] = x[j], x[j--] = t;
    }
    if (k - 1 <= j) high = j;
    else if (k - 1 >= i) low = i;
    else return;
  }
}

static uint64_t word_of(const NncRows *r, const void *from, int64_t at, int64_t index) {
  uint32_t key = r->dtype == NNC_F32 ? key_f32(((const float *)from)[at])
                                     : (uint32_t)((const int32_t *)from)[at] ^ 0x80000000u;
  return (uint64_t)(r->backward ? ~key : key) << 32 | (uint64_t)index;
}

static void words_of(const NncRows *r, const void *from, int64_t base, uint64_t *x) {
  if (r->dtype == NNC_F32 && r->inner == 1) {   // what a compiler makes vectors of
    const float *row = (const float *)from + base;
    uint32_t flip = r->backward ? UINT32_MAX : 0;
    for (int64_t i = 0; i < r->length; i++) x[i] = (uint64_t)(key_f32(row[i]) ^ flip) << 32 | (uint64_t)i;
    return;
  }
  for (int64_t i = 0; i < r->length; i++) x[i] = word_of(r, from, base + i * r->inner, i);
}

enum { TOGETHER = 64, BESIDE = 16, IN_ORDER = 16 };

// Whether any of n numbers comes before `limit`, which is not NaN: most parts of a long row have none.
static inline bool has_before(const float *x, int n, bool descending, float limit) {
  int any = 0;
  for (int i = 0; i < n && !descending; i++) any |= x[i] < limit;
  for (int i = 0; i < n && descending; i++) any |= !(x[i] <= limit);   // NaN comes first
  return any;
}

// How many numbers from `i` on are known to come behind what `limit` says.
static int64_t count_behind(const NncRows *r, const float *row, int64_t i, uint64_t limit) {
  float last = row[(uint32_t)limit];
  if (last != last) return 0;
  if (i % TOGETHER == 0 && i + TOGETHER <= r->length && !has_before(row + i, TOGETHER, r->backward, last))
    return TOGETHER;
  return i + BESIDE <= r->length && !has_before(row + i, BESIDE, r->backward, last) ? BESIDE : 0;
}

// Few are kept in order, so that the limit is always the last of them; of more, a part that is cut when it is full.
static uint64_t *smallest_words(const NncRows *r, const void *from, int64_t base, uint64_t *x) {
  int64_t k = r->count, room = 2 * k < TOGETHER ? TOGETHER : 2 * k, n = 0;
  uint64_t limit = UINT64_MAX;
  const float *row = r->dtype == NNC_F32 && r->inner == 1 ? (const float *)from + base : NULL;
  for (int64_t i = 0; i < r->length; i++) {
    while (row && i % BESIDE == 0 && i < r->length && limit < UINT64_MAX) {
      int64_t behind = count_behind(r, row, i, limit);
      if (behind == 0) break;
      i += behind;
    }
    if (i >= r->length) break;
    uint64_t w = word_of(r, from, base + i * r->inner, i);
    if (w >= limit) continue;
    if (k <= IN_ORDER) {
      int64_t j = n < k ? n++ : k - 1;
      for (; j > 0 && x[j - 1] > w; j--) x[j] = x[j - 1];
      x[j] = w;
      if (n == k) limit = x[k - 1];
      continue;
    }
    x[n++] = w;
    if (n < room) continue;
    select_words(x, n, k);
    n = k, limit = 0;
    for (int64_t j = 0; j < k; j++) limit = x[j] > limit ? x[j] : limit;
  }
  if (n > k) select_words(x, n, k);
  return x;
}

static void sort_narrow(const NncRows *r, int64_t base, const void *from, int32_t *to, int64_t to_base, uint64_t *x) {
  uint64_t *other = x + r->length;
  // two rooms of 2 k words in a row of 8 k and more; selected ones are not in the order of their indices
  if (r->length >= 1024 && 8 * r->count <= r->length) {
    x = smallest_words(r, from, base, x);
    for (int64_t i = 0; i < r->count; i++) other[i] = x[i] << 32 | x[i] >> 32;   // by index first
    uint64_t *by_index = sort_words(other, other + r->count, r->count);
    uint64_t *second = by_index == other ? other + r->count : other;
    for (int64_t i = 0; i < r->count; i++) by_index[i] = by_index[i] << 32 | by_index[i] >> 32;
    x = sort_words(by_index, second, r->count);
  } else {
    words_of(r, from, base, x);
    x = sort_words(x, other, r->length);
  }
  for (int64_t i = 0; i < r->count; i++) to[to_base + i * r->inner] = (int32_t)(uint32_t)x[i];
}

// ---------------------------------------------------------------------------------------------------------------------

static Pair *sort_pairs(Pair *x, Pair *other, int64_t n) {
  for (int shift = 0; shift < 64; shift += SHORT_DIGIT) {
    enum { MANY = 1 << SHORT_DIGIT };
    uint32_t count[MANY] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) count[x[i].key >> shift & (MANY - 1)]++;
    if (count[x[0].key >> shift & (MANY - 1)] == n) continue;
    for (int b = 0; b < MANY; b++) {
      uint32_t c = count[b];
      count[b] = sum;
      sum += c;
    }
    for (int64_t i = 0; i < n; i++) other[count[x[i].key >> shift & (MANY - 1)]++] = x[i];
    Pair *sorted = other;
    other = x, x = sorted;
  }
  return x;
}

static void sort_wide(const NncRows *r, int64_t base, const void *from, int32_t *to, int64_t to_base, Pair *x) {
  for (int64_t i = 0; i < r->length; i++) {
    int64_t at = base + i * r->inner;
    uint64_t key = r->dtype == NNC_F64 ? key_f64(((const double *)from)[at])
                                       : (uint64_t)((const int64_t *)from)[at] ^ 0x8000000000000000u;
    x[i] = (Pair){r->backward ? ~key : key, (uint64_t)i};
  }
  x = sort_pairs(x, x + r->length, r->length);
  for (int64_t i = 0; i < r->count; i++) to[to_base + i * r->inner] = (int32_t)x[i].index;
}

void rows_sort(const NncRows *r, int64_t i, const void *from, int32_t *to, void *workspace) {
  int64_t outer = i / r->inner, column = i % r->inner, base = outer * r->length * r->inner + column,
          to_base = outer * r->count * r->inner + column;
  if (is_wide(r)) sort_wide(r, base, from, to, to_base, workspace);
  else sort_narrow(r, base, from, to, to_base, workspace);
}

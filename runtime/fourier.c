// Fourier transforms on the host: Stockham's transform by 4, 2 and small odd primes (Cochran et al., 1967; Van Loan,
// 1992). As many rows as vectors have lanes are transformed beside each other; a row alone is a matrix of two lengths.
// Real rows of even length are pairs, complex numbers of half the length.
#include "runtime/fourier.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "runtime/library_internal.h"
#include "runtime/runtime.h"
#include "support/integers.h"

enum { LONGEST_BESIDE = 16384, FEW_ROWS = 4, WORTH_THREADS = 1 << 13 };

// Factors of the roots of unity: number low_count high + low is the product of high[high] and low[low].
typedef struct Roots {
  int64_t n, low_count, high_count;
  double *low, *high;   // pairs; in the workspace
} Roots;

// The factor that is taken of a length, 0: it has none of ours.
static int radix_of(int64_t length) {
  static const int radices[] = {4, 2, 3, 5, 7, 11, 13};
  for (size_t i = 0; i < sizeof radices / sizeof *radices; i++)
    if (length % radices[i] == 0) return radices[i];
  return 0;
}

typedef struct Loops {
  int lanes;
  void (*roots)(const Roots *r, void *out, int64_t begin, int64_t end);
  void (*rows)(const NncRows *r, int64_t high, const void *roots, int64_t first, const void *from, void *to, void *x);
} Loops;

#define LOOPS "runtime/fourier_loops.inc"
#include "runtime/loops.inc"

// ---------------------------------------------------------------------------------------------------------------------

static int64_t complex_length(int64_t n, bool real) { return real && n % 2 == 0 ? n / 2 : n; }

// The rows of the matrix that a row alone is cut into, near the root of its length; 0: vectors do not fit in.
static int64_t cut(int64_t length, NncDtype dtype) {
  const int64_t lanes = dtype == NNC_F64 ? 8 : 16;
  int64_t best = 0;
  for (int64_t high = lanes; high * high <= length; high += lanes)
    if (length % high == 0 && length / high % lanes == 0) best = high;
  return best;
}

bool fourier_fits(int64_t length, NncDtype dtype) {
  int64_t rest = length;
  while (rest > 1 && radix_of(rest)) rest /= radix_of(rest);
  return rest == 1 && (length <= LONGEST_BESIDE || cut(complex_length(length, true), dtype));
}

static int64_t high_of(const NncRows *r) {
  int64_t length = complex_length(r->length, r->kind != NNC_ROWS_FOURIER);
  return r->outer < FEW_ROWS || r->length > LONGEST_BESIDE ? cut(length, r->dtype) : 0;
}

static int64_t low_count(int64_t n) { return (int64_t)ceil(sqrt((double)n)); }
static int64_t roots_bytes(const NncRows *r) { return library_align(2 * r->length * dtype_bytes(r->dtype)); }
static int64_t factors_bytes(const NncRows *r) {
  return library_align(4 * low_count(r->length) * (int64_t)sizeof(double));
}
static int64_t thread_bytes(const NncRows *r) {
  int64_t lanes = high_of(r) ? 1 : loops_for(r->dtype)->lanes;
  int64_t plane = (complex_length(r->length, r->kind != NNC_ROWS_FOURIER) + 1) * lanes;
  return library_align(4 * plane * dtype_bytes(r->dtype));
}

int64_t fourier_bytes(const NncRows *r, int threads) {
  return roots_bytes(r) + factors_bytes(r) + threads * thread_bytes(r);
}

void fourier_execute(const NncRows *r, const void *from, void *to, void *workspace) {
  const double turn = 6.283185307179586476925;
  const Loops *loops = loops_for(r->dtype);
  int64_t n = r->length, high = high_of(r), count = low_count(n), lanes = high ? 1 : loops->lanes;
  char *roots = workspace, *work = roots + roots_bytes(r) + factors_bytes(r);
  double *low = (double *)(void *)(roots + roots_bytes(r));
  Roots f = {.n = n, .low_count = count, .high_count = divide_up(n, count), .low = low, .high = low + 2 * count};
  for (int64_t t = 0; t < count; t++) {
    low[2 * t] = cos(turn * (double)t / (double)n), low[2 * t + 1] = -sin(turn * (double)t / (double)n);
    double angle = turn * (double)(t * count) / (double)n;
    f.high[2 * t] = cos(angle), f.high[2 * t + 1] = -sin(angle);
  }
#pragma omp parallel if (n * r->outer >= WORTH_THREADS)
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < f.high_count; i++) loops->roots(&f, roots, i, i + 1);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < r->outer; i += lanes)
      loops->rows(r, high, roots, i, from, to, work + omp_get_thread_num() * thread_bytes(r));
  }
}

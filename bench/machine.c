// What this machine can do at best, measured: FLOP/s of fused multiply-adds on all cores, FLOP/s of oneDNN's matrix
// product of size 2048, and bytes/s of a large copy (read + written). The other benchmarks are quoted against these,
// from the same run. cc -O3 -march=native -mprefer-vector-width=512 -fopenmp machine.c -ldnnl
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
typedef float Vector __attribute__((vector_size(LANES * 4)));
#define PRODUCT_SIZE 2048
#define CHAINS 12   // enough independent chains to hide the latency of an FMA

static double fma_seconds(long rounds) {
  double start = omp_get_wtime();
  float total = 0;
#pragma omp parallel reduction(+ : total)
  {
    Vector x[CHAINS], a, b;
    for (int l = 0; l < LANES; l++) {
      a[l] = 0.999f;
      b[l] = 1e-3f;
    }
    for (int c = 0; c < CHAINS; c++) x[c] = a * (float)(c + omp_get_thread_num());
    for (long r = 0; r < rounds; r++) {
#pragma GCC unroll 12
      for (int c = 0; c < CHAINS; c++) {
        x[c] = x[c] * a + b;
      }
    }
    Vector sum = x[0];
    for (int c = 1; c < CHAINS; c++) sum += x[c];
    for (int l = 0; l < LANES; l++) total += sum[l];   // every lane counts, or the compiler computes fewer
  }
  double seconds = omp_get_wtime() - start;
  volatile float sink = total;
  (void)sink;
  return seconds;
}

static double product_seconds(float *a) {
  enum { SIZE = PRODUCT_SIZE };
  double start = omp_get_wtime();
  dnnl_sgemm('N', 'N', SIZE, SIZE, SIZE, 1, a, SIZE, a + SIZE * SIZE, SIZE, 0, a + 2 * SIZE * SIZE, SIZE);
  return omp_get_wtime() - start;
}

static double copy_seconds(char *to, const char *from, size_t bytes) {
  double start = omp_get_wtime();
#pragma omp parallel
  {
    size_t n = (size_t)omp_get_num_threads(), t = (size_t)omp_get_thread_num(), part = bytes / n;
    memcpy(to + t * part, from + t * part, part);
  }
  return omp_get_wtime() - start;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(void) {
  enum { TRIES = 9 };
  double flops[TRIES], product[TRIES], copy[TRIES];
  long rounds = 20000000;
  size_t bytes = (size_t)512 << 20;
  char *from = malloc(bytes), *to = malloc(bytes);
  if (!from || !to) return 1;
  // 0 would let the compiler call calloc, whose pages are all one page of zeros until they are written: the copy would
  // read the cache
  memset(from, 1, bytes);
  memset(to, 2, bytes);
  for (int i = 0; i < TRIES; i++) {
    flops[i] = 2.0 * LANES * CHAINS * (double)rounds * omp_get_max_threads() / fma_seconds(rounds);
    product[i] = 2.0 * PRODUCT_SIZE * PRODUCT_SIZE * PRODUCT_SIZE / product_seconds((float *)from);
    copy[i] = 2.0 * (double)bytes / copy_seconds(to, from, bytes);
  }
  qsort(flops, TRIES, sizeof *flops, by_value);
  qsort(product, TRIES, sizeof *product, by_value);
  qsort(copy, TRIES, sizeof *copy, by_value);
  printf("{\"threads\": %d, \"fma_gflops\": %.1f, \"fma_gflops_best\": %.1f, \"product_gflops\": %.1f, "
         "\"copy_gbytes\": %.1f, \"copy_gbytes_best\": %.1f}\n",
         omp_get_max_threads(), flops[TRIES / 2] / 1e9, flops[TRIES - 1] / 1e9, product[TRIES / 2] / 1e9,
         copy[TRIES / 2] / 1e9, copy[TRIES - 1] / 1e9);
  free(from);
  free(to);
  return 0;
}

// c_peer.c: training steps of LeNet and of the perceptron of bench/run as plain C loops, the batch divided among
// OpenMP's threads: what one writes by hand in a day, with the compiler's vectors and four rows at a time in the
// products. usage: c_peer lenet|mlp      answers as pytorch_peer.py does, and with the loss, which falls: data stay the
// same
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BATCH = 128, CLASSES = 10, PIXELS = 784, MOST_PARAMS = 550000, MOST_THREADS = 256, MOST_STEPS = 1000 };

static float params[MOST_PARAMS], first[MOST_PARAMS], second[MOST_PARAMS], images[BATCH * PIXELS];
static float *grads[MOST_THREADS];   // a thread's own sums
static int labels[BATCH], n_params;

static float uniform(unsigned *state) {   // xorshift
  *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
  return (float)(*state >> 8) * 0x1p-24f;
}

// Where `n` parameters begin; filled with numbers from -scale to scale.
static int make(int n, float scale) {
  static unsigned seed = 2463534242u;
  for (int i = 0; i < n; i++) params[n_params + i] = scale * (2 * uniform(&seed) - 1);
  return (n_params += n) - n;
}

typedef struct {
  int in, out, weight, bias;
} Linear;

static Linear make_linear(int in, int out) {
  float scale = 1 / sqrtf((float)in);
  int weight = make(in * out, scale);
  return (Linear){in, out, weight, make(out, scale)};
}

// y[rows, out] = x[rows, in] w[in, out] + b, with ReLU or without
static void linear(const Linear *l, int rows, const float *x, float *y, int relu) {
  const float *w = params + l->weight, *b = params + l->bias;
  for (int r = 0; r < rows; r += 4) {
    float *restrict y0 = y + r * l->out, *restrict y1 = y0 + l->out, *restrict y2 = y1 + l->out,
                    *restrict y3 = y2 + l->out;
    for (int o = 0; o < l->out; o++) y0[o] = y1[o] = y2[o] = y3[o] = b[o];
    for (int i = 0; i < l->in; i++) {
      const float *at = x + r * l->in + i, *row = w + i * l->out;
      float x0 = at[0], x1 = at[l->in], x2 = at[2 * l->in], x3 = at[3 * l->in];
      for (int o = 0; o < l->out; o++)
        y0[o] += x0 * row[o], y1[o] += x1 * row[o], y2[o] += x2 * row[o], y3[o] += x3 * row[o];
    }
  }
  for (int i = 0; relu && i < rows * l->out; i++) y[i] = fmaxf(y[i], 0);
}

// Adds to the parameters' gradients; dx is NULL or takes that of x. y is NULL or what ReLU gave: dy is masked by it.
static void linear_backward(const Linear *l, int rows, const float *x, const float *y, float *dy, float *dx,
                            float *grad) {
  float *restrict dw = grad + l->weight, *restrict db = grad + l->bias;
  for (int i = 0; y && i < rows * l->out; i++) dy[i] = y[i] > 0 ? dy[i] : 0;
  for (int r = 0; r < rows; r += 4) {
    const float *restrict d0 = dy + r * l->out, *restrict d1 = d0 + l->out, *restrict d2 = d1 + l->out,
                          *restrict d3 = d2 + l->out;
    for (int o = 0; o < l->out; o++) db[o] += d0[o] + d1[o] + d2[o] + d3[o];
    for (int i = 0; i < l->in; i++) {
      const float *at = x + r * l->in + i, *w = params + l->weight + i * l->out;
      float x0 = at[0], x1 = at[l->in], x2 = at[2 * l->in], x3 = at[3 * l->in], s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      float *restrict row = dw + i * l->out;
      for (int o = 0; o < l->out; o++) row[o] += x0 * d0[o] + x1 * d1[o] + x2 * d2[o] + x3 * d3[o];
      if (!dx) continue;
      for (int o = 0; o < l->out; o++) s0 += w[o] * d0[o], s1 += w[o] * d1[o], s2 += w[o] * d2[o], s3 += w[o] * d3[o];
      float *to = dx + r * l->in + i;
      to[0] = s0, to[l->in] = s1, to[2 * l->in] = s2, to[3 * l->in] = s3;
    }
  }
}

// 5x5, ReLU and a pool of 2x2, of one image: x [in, size, size], y [out, side, side], pooled [out, side/2, side/2];
// side = size - 4
typedef struct {
  int in, out, size, side, weight, bias;
} Conv;

static Conv make_conv(int in, int out, int size) {
  float scale = 1 / sqrtf(25.0f * (float)in);
  int weight = make(25 * in * out, scale);
  return (Conv){in, out, size, size - 4, weight, make(out, scale)};
}

static void conv(const Conv *c, const float *x, float *restrict y, float *restrict pooled) {
  for (int k = 0; k < c->out; k++) {
    for (int i = 0; i < c->side; i++) {
      float *restrict row = y + (k * c->side + i) * c->side;
      const float *w = params + c->weight + k * c->in * 25;
      for (int j = 0; j < c->side; j++) row[j] = params[c->bias + k];
      for (int ch = 0; ch < c->in; ch++)
        for (int u = 0; u < 5; u++, w += 5) {
          const float *from = x + (ch * c->size + i + u) * c->size;
          for (int j = 0; j < c->side; j++)
            row[j] += w[0] * from[j] + w[1] * from[j + 1] + w[2] * from[j + 2] + w[3] * from[j + 3] +
                      w[4] * from[j + 4];
        }
      for (int j = 0; j < c->side; j++) row[j] = fmaxf(row[j], 0);
    }
    for (int i = 0; i < c->side / 2; i++)
      for (int j = 0; j < c->side / 2; j++) {
        const float *a = y + (k * c->side + 2 * i) * c->side + 2 * j, *b = a + c->side;
        pooled[(k * (c->side / 2) + i) * (c->side / 2) + j] = fmaxf(fmaxf(a[0], a[1]), fmaxf(b[0], b[1]));
      }
  }
}

// dpooled back to y's place (into dy) and from there to the gradients and, if there is room, dx, which it adds to.
static void conv_backward(const Conv *c, const float *x, const float *y, const float *pooled, const float *dpooled,
                          float *dy, float *dx, float *grad) {
  int half = c->side / 2;
  memset(dy, 0, (size_t)(c->out * c->side * c->side) * sizeof *dy);
  for (int p = 0; p < c->out * half * half; p++) {
    int at = (p / half * 2) * c->side + p % half * 2, places[] = {at, at + 1, at + c->side, at + c->side + 1}, best = 0;
    while (y[places[best]] != pooled[p]) best++;
    if (pooled[p] > 0) dy[places[best]] = dpooled[p];
  }
  for (int k = 0; k < c->out; k++) {
    const float *d = dy + k * c->side * c->side, *w = params + c->weight + k * c->in * 25;
    float *dw = grad + c->weight + k * c->in * 25;
    for (int i = 0; i < c->side * c->side; i++) grad[c->bias + k] += d[i];
    for (int ch = 0; ch < c->in; ch++)
      for (int u = 0; u < 5; u++, w += 5, dw += 5)
        for (int i = 0; i < c->side; i++) {
          const float *from = x + (ch * c->size + i + u) * c->size, *row = d + i * c->side;
          float s[5] = {0};
          for (int j = 0; j < c->side; j++)
            for (int v = 0; v < 5; v++) s[v] += row[j] * from[j + v];
          for (int v = 0; v < 5; v++) dw[v] += s[v];
          float *restrict to = dx ? dx + (ch * c->size + i + u) * c->size : NULL;
          for (int v = 0; to && v < 5; v++)
            for (int j = 0; j < c->side; j++) to[j + v] += w[v] * row[j];
        }
  }
}

// The loss of some rows, of a batch's mean; scores become their gradient.
static float cross_entropy(float *scores, int rows, const int *label) {
  float loss = 0;
  for (int r = 0; r < rows; r++, scores += CLASSES) {
    float most = scores[0], sum = 0;
    for (int i = 1; i < CLASSES; i++) most = fmaxf(most, scores[i]);
    for (int i = 0; i < CLASSES; i++) sum += expf(scores[i] - most);
    loss += (logf(sum) + most - scores[label[r]]) / BATCH;
    for (int i = 0; i < CLASSES; i++) scores[i] = (expf(scores[i] - most) / sum - (i == label[r])) / BATCH;
  }
  return loss;
}

static Linear fc[3];
static Conv conv1, conv2;

static float mlp(int begin, int rows, float *grad) {
  static _Thread_local float a[BATCH * 512], b[BATCH * 256], c[BATCH * CLASSES], db[BATCH * 256], da[BATCH * 512];
  static _Thread_local unsigned seed;
  static _Thread_local unsigned char kept[BATCH * 512];
  if (!seed) seed = 88172645u + (unsigned)begin;
  const float *x = images + begin * PIXELS;
  linear(&fc[0], rows, x, a, 1);
  for (int i = 0; i < rows * 512; i++) a[i] = (kept[i] = uniform(&seed) >= 0.2f) ? a[i] / 0.8f : 0;
  linear(&fc[1], rows, a, b, 1);
  linear(&fc[2], rows, b, c, 0);
  float loss = cross_entropy(c, rows, labels + begin);
  linear_backward(&fc[2], rows, b, NULL, c, db, grad);
  linear_backward(&fc[1], rows, a, b, db, da, grad);
  for (int i = 0; i < rows * 512; i++) da[i] = kept[i] ? da[i] / 0.8f : 0;
  linear_backward(&fc[0], rows, x, a, da, NULL, grad);
  return loss;
}

static float lenet(int begin, int rows, float *grad) {
  static _Thread_local float x[BATCH][32 * 32], y1[BATCH][6 * 28 * 28], p1[BATCH][6 * 14 * 14], y2[BATCH][16 * 10 * 10],
      p2[BATCH][400];
  static _Thread_local float dy[6 * 28 * 28], dp1[6 * 14 * 14], dp2[BATCH][400];
  static _Thread_local float a[BATCH * 120], b[BATCH * 84], c[BATCH * CLASSES], da[BATCH * 120], db[BATCH * 84];
  for (int r = 0; r < rows; r++) {
    for (int i = 0; i < 28; i++)
      memcpy(&x[r][(i + 2) * 32 + 2], images + (begin + r) * PIXELS + i * 28, 28 * sizeof(float));
    conv(&conv1, x[r], y1[r], p1[r]);
    conv(&conv2, p1[r], y2[r], p2[r]);
  }
  linear(&fc[0], rows, p2[0], a, 1);
  linear(&fc[1], rows, a, b, 1);
  linear(&fc[2], rows, b, c, 0);
  float loss = cross_entropy(c, rows, labels + begin);
  linear_backward(&fc[2], rows, b, NULL, c, db, grad);
  linear_backward(&fc[1], rows, a, b, db, da, grad);
  linear_backward(&fc[0], rows, p2[0], a, da, dp2[0], grad);
  for (int r = 0; r < rows; r++) {
    memset(dp1, 0, sizeof dp1);
    conv_backward(&conv2, p1[r], y2[r], p2[r], dp2[r], dy, dp1, grad);
    conv_backward(&conv1, x[r], y1[r], p1[r], dp1, dy, NULL, grad);
  }
  return loss;
}

// A step of AdamW behind the slices of the batch, each of a multiple of four rows.
static float step(float (*slice)(int, int, float *), float lr) {
  static int t;
  static float losses[MOST_THREADS];
  int threads = omp_get_max_threads();
  float loss = 0, m_scale = 1 / (1 - powf(0.9f, (float)++t)), v_scale = 1 / (1 - powf(0.999f, (float)t));
#pragma omp parallel
  {
    int me = omp_get_thread_num(), begin = BATCH / 4 * me / threads * 4, end = BATCH / 4 * (me + 1) / threads * 4;
    memset(grads[me], 0, (size_t)n_params * sizeof(float));
    losses[me] = slice(begin, end - begin, grads[me]);
#pragma omp barrier
#pragma omp for
    for (int i = 0; i < n_params; i++) {
      float g = 0;
      for (int k = 0; k < threads; k++) g += grads[k][i];
      first[i] = 0.9f * first[i] + 0.1f * g, second[i] = 0.999f * second[i] + 0.001f * g * g;
      params[i] = params[i] * (1 - lr * 0.01f) - lr * first[i] * m_scale / (sqrtf(second[i] * v_scale) + 1e-8f);
    }
  }
  for (int k = 0; k < threads; k++) loss += losses[k];
  return loss;
}

static int by_size(const void *a, const void *b) {
  return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv) {
  int is_lenet = argc == 2 && !strcmp(argv[1], "lenet"), steps;
  if (!is_lenet && (argc != 2 || strcmp(argv[1], "mlp"))) return fprintf(stderr, "usage: c_peer lenet|mlp\n"), 2;
  if (omp_get_max_threads() > MOST_THREADS) omp_set_num_threads(MOST_THREADS);
  if (is_lenet) conv1 = make_conv(1, 6, 32), conv2 = make_conv(6, 16, 14);
  int widths[] = {is_lenet ? 400 : PIXELS, is_lenet ? 120 : 512, is_lenet ? 84 : 256, CLASSES};
  for (int i = 0; i < 3; i++) fc[i] = make_linear(widths[i], widths[i + 1]);
  unsigned seed = 362436069u;
  for (int i = 0; i < BATCH * PIXELS; i++) images[i] = uniform(&seed);
  for (int i = 0; i < BATCH; i++) labels[i] = (int)(uniform(&seed) * CLASSES);
  for (int k = 0; k < omp_get_max_threads(); k++) grads[k] = malloc(sizeof params);
  float (*slice)(int, int, float *) = is_lenet ? lenet : mlp, lr = is_lenet ? 4e-3f : 1e-3f, loss = 0;
  for (int i = 0; i < 2; i++) step(slice, lr);
  printf("{\"peer\": \"C loops\"}\n"), fflush(stdout);
  while (scanf("%d", &steps) == 1 && steps > 0 && steps <= MOST_STEPS) {
    static double times[MOST_STEPS];
    for (int i = 0; i < steps; i++) {
      double start = omp_get_wtime();
      loss = step(slice, lr);
      times[i] = 1e3 * (omp_get_wtime() - start);
    }
    qsort(times, (size_t)steps, sizeof *times, by_size);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("{\"median\": %.6g, \"least\": %.6g, \"bytes\": %ld, \"loss\": %.6g}\n", times[steps / 2], times[0],
           used.ru_maxrss * 1024, loss),
        fflush(stdout);
  }
  return 0;
}

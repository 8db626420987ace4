// Drawing one of the tokens that a model gives scores to: by temperature, of the likeliest only (top-k), of those that
// make up most of the probability (nucleus sampling: Holtzman et al., "The Curious Case of Neural Text Degeneration",
// 2020).
#include <math.h>
#include <stdlib.h>

#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct Candidate {
  double p;
  int64_t token;
} Candidate;

static int by_falling(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  if (a->p != b->p) return a->p > b->p ? -1 : 1;
  return a->token < b->token ? -1 : 1;
}

// Leaves out all but the likeliest whose probabilities are `share` of `all`. Returns what theirs add up to.
static double keep_nucleus(double *p, int64_t n, double share, double all) {
  Candidate *c = xmalloc(sizeof *c * (size_t)n);
  int64_t count = 0, kept = 0;
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    if (p[i] > 0) c[count++] = (Candidate){p[i], i};
  qsort(c, (size_t)count, sizeof *c, by_falling);
  while (kept < count && sum < share * all) sum += c[kept++].p;
  for (int64_t i = kept; i < count; i++) p[c[i].token] = 0;
  free(c);
  return sum;
}

// Leaves out all but the k likeliest. Returns what theirs add up to.
static double keep_likeliest(double *p, int64_t n, int64_t k) {
  double sum = 0;
  int64_t last = -1;
  for (int64_t i = 0, token = -1; i < k && (token = next_likeliest(p, n, token)) >= 0; i++) sum += p[last = token];
  double least = last >= 0 ? p[last] : 0;
  for (int64_t i = 0; i < n; i++)
    if (!(p[i] > least || (p[i] == least && i <= last))) p[i] = 0;
  return sum;
}

// -1: the scores give no probabilities, as in softmax.
static int64_t likeliest(const double *scores, int64_t n) {
  int64_t best = next_likeliest(scores, n, -1);
  for (int64_t i = 0; i < n; i++)
    if (isnan(scores[i])) return -1;
  return best >= 0 && isfinite(scores[best]) ? best : -1;
}

int64_t draw_token(double *scores, int64_t n, const DrawOptions *o, double uniform) {
  if (o->temperature == 0) return likeliest(scores, n);
  softmax_in_place(scores, n, o->temperature);
  double all = o->top_k > 0 && o->top_k < n ? keep_likeliest(scores, n, o->top_k) : 1;
  if (o->top_p < 1) all = keep_nucleus(scores, n, o->top_p, all);
  double left = all * uniform;
  int64_t chosen = -1;
  for (int64_t i = 0; i < n; i++) {
    if (!(scores[i] > 0)) continue;
    chosen = i;
    if ((left -= scores[i]) < 0) break;
  }
  return chosen;
}

// Beam search: of K texts, each gone on with by all tokens, the K likeliest are kept. Each is a row of the batch.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/sample.h"

typedef struct Candidate {
  double sum;   // of the logarithms of probabilities
  int beam;
  int64_t token;
} Candidate;

static int by_falling(const void *x, const void *y) {
  const Candidate *a = x, *b = y;
  if (a->sum != b->sum) return a->sum > b->sum ? -1 : 1;
  if (a->beam != b->beam) return a->beam - b->beam;
  return a->token < b->token ? -1 : 1;
}

static double log_sum_exp(const double *x, int64_t n) {
  double top = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) top = fmax(top, x[i]);
  for (int64_t i = 0; i < n; i++) sum += exp(x[i] - top);
  return top + log(sum);
}

// The K likeliest of each beam in `c`, the likeliest of all first. How many there are.
static int find_candidates(const Sampler *p, const double *sums, Candidate *c) {
  int n = 0;
  for (int b = 0; b < p->beams; b++) {
    const double *scores = p->scores + b * p->tokens;
    double all = log_sum_exp(scores, p->tokens);
    if (!isfinite(sums[b]) || !isfinite(all)) continue;
    int64_t token = -1;
    for (int k = 0; k < p->beams && (token = next_likeliest(scores, p->tokens, token)) >= 0; k++)
      c[n++] = (Candidate){sums[b] + scores[token] - all, b, token};
  }
  qsort(c, (size_t)n, sizeof *c, by_falling);
  return n;
}

// Row b of the caches becomes that of the beam it goes on with.
static bool move_caches(const Sampler *p, const Candidate *c) {
  const NncFunction *f = executor_function(p->s.decode);
  bool ok = true;
  for (int i = 0; i < f->n_args && ok; i++) {
    const NncTensor *t = &f->args[i];
    if (t->role != NNC_CACHE) continue;
    size_t row = (size_t)(t->bytes / p->input->dim[0]);
    char *at = p->s.arena.base + t->offset, *aside = xmalloc(row * (size_t)p->beams);
    ok = arena_pull(&p->s.arena, t->offset, t->bytes);
    memcpy(aside, at, row * (size_t)p->beams);
    for (int b = 0; b < p->beams; b++) memcpy(at + (size_t)b * row, aside + (size_t)c[b].beam * row, row);
    free(aside);
    ok = ok && arena_push(&p->s.arena, t->offset, t->bytes);
  }
  return ok;
}

static void move_sequences(Sampler *p, const Candidate *c) {
  size_t bytes = sizeof *p->sequence * (size_t)(p->beams * p->capacity);
  int64_t *old = xmalloc(bytes);
  memcpy(old, p->sequence, bytes);
  for (int b = 0; b < p->beams; b++) {
    int64_t *to = p->sequence + b * p->capacity;
    memcpy(to, old + c[b].beam * p->capacity, sizeof *to * (size_t)p->n);
    to[p->n] = c[b].token;
  }
  p->n++;
  free(old);
}

// The beams go on by one token. False after reporting.
static bool step(Sampler *p, double *sums, Candidate *c) {
  if (!sampler_run(p, 0)) return false;
  int n = find_candidates(p, sums, c);
  if (n == 0) {
    report_error("the scores after token %lld are not finite numbers", (long long)p->n);
    return false;
  }
  for (int b = 0; b < p->beams; b++) {
    if (b >= n) c[b] = (Candidate){-INFINITY, c[0].beam, c[0].token};   // fewer texts than beams
    sums[b] = c[b].sum;
  }
  move_sequences(p, c);
  return !p->s.decode || p->n > p->context || move_caches(p, c);
}

bool beam_search(Sampler *p) {
  double *sums = xmalloc(sizeof *sums * (size_t)p->beams);
  Candidate *c = xmalloc(sizeof *c * (size_t)p->beams * (size_t)(p->beams + 1));
  for (int b = 0; b < p->beams; b++) sums[b] = b ? -INFINITY : 0;   // they begin as one text
  bool ok = true;
  for (int64_t i = 0; i < p->o->count && ok; i++) ok = !signals_stop_requested() && step(p, sums, c);
  for (int64_t i = 0; i < p->n && ok; i++) sampler_print(p, p->sequence[i], i == 0);
  if (ok) putchar('\n');
  if (ok) fprintf(stderr, "%s: log probability %.5f\n", report_name(), sums[0]);
  free(sums);
  free(c);
  return ok;
}

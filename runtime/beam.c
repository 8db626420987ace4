// Beam search: of K texts, each gone on with by all tokens, the K likeliest are kept, each in a row of the batch. Those
// that the end token ends are put aside, K at most, by the sum of their logarithms of probabilities divided by their
// length to a power, as `generate` of Hugging Face's transformers does without early stopping: the search ends where K
// are there and none that goes on has a better quotient than the worst of them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/sample.h"

typedef struct Candidate {
  double sum;   // of the logarithms of probabilities
  int beam;
  int64_t token;
} Candidate;

// A text that has ended.
typedef struct Ended {
  double score, sum;
  int64_t n, *tokens;   // Owned
} Ended;

typedef struct Search {
  Sampler *p;
  double *sums;   // Owned: of each beam
  Candidate *c;   // Owned: the likeliest of all, then those that go on
  int n_ended;
  Ended *ended;   // Owned: the best first
} Search;

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

// The 2 K likeliest of each beam in `c`, the likeliest of all first: K of them go on, if all others end. How many there
// are.
static int find_candidates(const Sampler *p, const double *sums, Candidate *c) {
  int n = 0;
  for (int b = 0; b < p->beams; b++) {
    const double *scores = p->scores + b * p->tokens;
    double all = log_sum_exp(scores, p->tokens);
    if (!isfinite(sums[b]) || !isfinite(all)) continue;
    int64_t token = -1;
    for (int k = 0; k < 2 * p->beams && (token = next_likeliest(scores, p->tokens, token)) >= 0; k++)
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
    if (t->role != NNC_CACHE || t->whole) continue;   // what was read is the same for all
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

// Text c ends, with the end token or by its length, after n tokens that were found.
static void end_text(Search *s, const Candidate *c, int64_t n) {
  Sampler *p = s->p;
  double score = c->sum / pow((double)n, p->o->length_penalty);
  int at = s->n_ended;
  while (at > 0 && s->ended[at - 1].score < score) at--;
  if (at == p->beams) return;
  if (s->n_ended == p->beams) free(s->ended[--s->n_ended].tokens);
  memmove(s->ended + at + 1, s->ended + at, sizeof *s->ended * (size_t)(s->n_ended - at));
  s->n_ended++;
  bool told = c->token != p->end;   // the end token is no part of the text
  int64_t *tokens = xmalloc(sizeof *tokens * (size_t)(p->n + 1));
  memcpy(tokens, p->sequence + c->beam * p->capacity, sizeof *tokens * (size_t)p->n);
  tokens[p->n] = c->token;
  s->ended[at] = (Ended){score, c->sum, p->n + told, tokens};
}

// Of the candidates those among the best K that end are put aside, and the best K others go on: how many there are.
static int choose(Search *s, int n, bool last) {
  Sampler *p = s->p;
  int kept = 0;
  for (int i = 0; i < n; i++) {
    bool ends = last || s->c[i].token == p->end;
    if (ends && i < p->beams) end_text(s, &s->c[i], p->n + 1 - p->prompt);
    if (!ends && kept < p->beams) s->c[kept++] = s->c[i];
  }
  return kept;
}

// None that goes on is better than the worst of K that have ended.
static bool is_over(const Search *s) {
  const Sampler *p = s->p;
  double best = s->sums[0] / pow((double)(p->n - p->prompt), p->o->length_penalty);
  return s->n_ended == p->beams && !(best > s->ended[s->n_ended - 1].score);
}

// The beams go on by one token; *over: they need not any more. False after reporting.
static bool step(Search *s, bool last, bool *over) {
  Sampler *p = s->p;
  if (!sampler_run(p, 0)) return false;
  int n = find_candidates(p, s->sums, s->c);
  if (n == 0) {
    report_error("the scores after token %lld are not finite numbers", (long long)p->n);
    return false;
  }
  n = choose(s, n, last);
  if ((*over = n == 0)) return true;
  for (int b = 0; b < p->beams; b++) {
    if (b >= n) s->c[b] = (Candidate){-INFINITY, s->c[0].beam, s->c[0].token};   // fewer texts than beams
    s->sums[b] = s->c[b].sum;
  }
  move_sequences(p, s->c);
  *over = is_over(s);
  return !p->s.decode || p->n > p->context || move_caches(p, s->c);
}

bool beam_search(Sampler *p) {
  size_t beams = (size_t)p->beams;
  Search s = {.p = p,
              .sums = xmalloc(sizeof *s.sums * beams),
              .c = xmalloc(sizeof *s.c * beams * 2 * beams),
              .ended = xcalloc(beams + 1, sizeof *s.ended)};
  for (int b = 0; b < p->beams; b++) s.sums[b] = b ? -INFINITY : 0;   // they begin as one text
  bool ok = true, over = false;
  for (int64_t i = 0; i < p->o->count && ok && !over; i++)
    ok = !signals_stop_requested() && step(&s, i == p->o->count - 1, &over);
  for (int64_t i = 0; ok && i < s.ended[0].n; i++) sampler_print(p, s.ended[0].tokens[i], i == 0);
  if (ok) putchar('\n');
  if (ok) fprintf(stderr, "%s: log probability %.5f\n", report_name(), s.ended[0].sum);
  for (int i = 0; i < s.n_ended; i++) free(s.ended[i].tokens);
  free(s.sums);
  free(s.c);
  free(s.ended);
  return ok;
}

// What the commands share: opening the program on this machine, the arguments of a call, losses and metrics,
// evaluation.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

static bool make_executor(const Arena *arena, const NncFunction *f, bool wanted, Executor **out) {
  if (!wanted) f = NULL;
  *out = f ? executor_create(f, arena) : NULL;
  return !f || *out;
}

static bool is_wanted(const NncFunction *f, const NncFunction *prediction) {
  return prediction ? f == prediction : program_predicts(f);
}

static bool make_predictions(Session *s, const NncFunction *prediction) {
  s->predict = xcalloc((size_t)nnc_program.n_functions, sizeof(Executor *));
  for (int i = 0; i < nnc_program.n_functions; i++) {
    const NncFunction *f = &nnc_program.functions[i];
    if (!is_wanted(f, prediction)) continue;
    if (!make_executor(&s->arena, f, true, &s->predict[s->n_predictions++])) return false;
  }
  return true;
}

static bool make_executors(Session *s, bool train, bool eval, bool decode) {
  for (int i = 0; i < program_phases(); i++)
    if (!make_executor(&s->arena, program_train(i), train, &s->train[i]) ||
        !make_executor(&s->arena, program_accumulate(i), train, &s->accumulate[i]))
      return false;
  return make_executor(&s->arena, program_function("eval"), eval, &s->eval) &&
         make_executor(&s->arena, program_function("decode"), decode, &s->decode);
}

static void need(const NncFunction *f, bool wanted, int64_t *bytes, int64_t *far) {
  if (!wanted) return;
  if (f && f->arena_bytes > *bytes) *bytes = f->arena_bytes;
  if (f && f->far_bytes > *far) *far = f->far_bytes;
}

// A program of which each rank keeps a part runs on as many ranks as it was compiled for.
static bool has_its_ranks(bool trains) {
  const NncProgram *p = &nnc_program;
  if (!p->ranks || p->ranks == ranks.size || (!trains && !ranks_share_parameters())) return true;
  if (ranks.rank == 0)
    report_error("%s is compiled for %d ranks (nnc --shard=%s --ranks=%d), each with a part of the %s, and is run by "
                 "%d",
                 p->model, p->ranks, p->shard, p->ranks, ranks_part(), ranks.size);
  return false;
}

bool session_open(Session *s, int functions, const NncFunction *prediction, const DeviceOptions *device) {
  memset(s, 0, sizeof *s);
  s->seed = s->seed_aside = (uint64_t)nnc_program.seed;
  s->total_steps = 1;
  s->rate = NAN;
  bool train = functions & SESSION_TRAIN, eval = functions & SESSION_EVAL, predict = functions & SESSION_PREDICT,
       decode = functions & SESSION_DECODE;
  if (train && !program_train(0)) {
    report_error("%s has no train section", nnc_program.source);
    return false;
  }
  if (!has_its_ranks(train)) return false;
  int threads;
  if (!nnc_program.device->check(device, &threads) || !program_verify()) return false;
  int64_t bytes = nnc_program.persistent_bytes, far = nnc_program.far_persistent_bytes;
  for (int i = 0; i < program_phases(); i++) {
    need(program_train(i), train, &bytes, &far);
    need(program_accumulate(i), train, &bytes, &far);
  }
  need(program_function("eval"), eval, &bytes, &far);
  for (int i = 0; i < nnc_program.n_functions; i++)
    need(&nnc_program.functions[i], predict && is_wanted(&nnc_program.functions[i], prediction), &bytes, &far);
  need(program_function("decode"), decode, &bytes, &far);
  if (!arena_create(&s->arena, bytes, threads)) return false;
  s->arena.far_bytes = far;
  int64_t spare = functions & SESSION_SPARE ? nnc_program.far_persistent_bytes : 0;
  if (!(nnc_program.device->open ? nnc_program.device->open(&s->arena, device)
                                 : arena_open_far(&s->arena, far, spare, device->far))) {
    session_close(s);
    return false;
  }
  if (nnc_program.device->enter(&s->arena) && make_executors(s, train, eval, decode) &&
      (!predict || make_predictions(s, prediction)))
    return true;
  session_close(s);
  return false;
}

bool session_join(const Session *s) {
  const NncDevice *d = nnc_program.device;
  return ranks.size == 1 || !d->join || d->join(&s->arena);
}

void session_close(Session *s) {
  for (int i = 0; i < NNC_MAX_PHASES; i++) {
    executor_destroy(s->train[i]);
    executor_destroy(s->accumulate[i]);
    s->train[i] = s->accumulate[i] = NULL;   // closed again by who owns the session
  }
  executor_destroy(s->eval);
  for (int i = 0; i < s->n_predictions; i++) executor_destroy(s->predict[i]);
  free(s->predict);
  executor_destroy(s->decode);
  arena_destroy(&s->arena);
  s->eval = s->decode = NULL;
  s->predict = NULL;
  s->n_predictions = 0;
}

static void write_arguments(const Session *s, const NncFunction *f, uint64_t seed, int64_t step, int64_t draw) {
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *t = &f->args[i];
    char *at = s->arena.base + t->offset;
    if (t->role == NNC_HYPER) schedule_fill((double *)at, t->dim[0], program_phase_of(f), step, s->total_steps);
    if (t->role == NNC_HYPER && !isnan(s->rate)) schedule_set_rate((double *)at, s->rate);
    if (t->role != NNC_RNG) continue;
    for (int64_t row = 0; row < t->dim[0]; row++) {
      uint32_t key[4] = {(uint32_t)seed, (uint32_t)(seed >> 32), (uint32_t)draw, (uint32_t)row};
      memcpy(at + row * (int64_t)sizeof key, key, sizeof key);
    }
  }
}

void session_write_arguments(const Session *s, const NncFunction *f, int64_t step, int64_t draw) {
  write_arguments(s, f, s->seed, step, draw);
}

void session_write_aside(const Session *s, const NncFunction *f, int64_t batch) {
  const int64_t first_draw = (int64_t)1 << 31;   // beyond those of a training
  write_arguments(s, f, s->seed_aside, 0, first_draw + batch);
}

bool function_draws(const NncFunction *f) {
  for (int i = 0; i < f->n_args; i++)
    if (f->args[i].role == NNC_RNG) return true;
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// States that go on with a text

static bool push_tensor(const Session *s, const NncTensor *t) {
  return is_far_address(t->offset) || arena_push(&s->arena, t->offset, t->bytes);
}

bool session_save_carried(const Session *s, char **saved) {
  int64_t bytes = 0, at = 0;
  for (int i = 0; i < nnc_program.n_persistent; i++)
    bytes += nnc_program.persistent[i].carried ? nnc_program.persistent[i].bytes : 0;
  *saved = bytes ? xmalloc((size_t)bytes) : NULL;
  bool ok = true;
  for (int i = 0; i < nnc_program.n_persistent && ok; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (!t->carried) continue;
    ok = (is_far_address(t->offset) || arena_pull(&s->arena, t->offset, t->bytes)) &&
         arena_read(&s->arena, t->offset, *saved + at, t->bytes);
    at += t->bytes;
  }
  if (!ok) free(*saved), *saved = NULL;
  return ok;
}

bool session_begin_text(const Session *s, char **saved) {
  if (saved && !session_save_carried(s, saved)) return false;
  bool ok = true;
  for (int i = 0; i < nnc_program.n_persistent && ok; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (t->carried) ok = init_tensor(t, &s->arena, s->seed) && push_tensor(s, t);
  }
  if (!ok && saved) session_restore_carried(s, *saved), *saved = NULL;
  return ok;
}

bool session_clear_caches(const Session *s) {
  const NncFunction *f = executor_function(s->decode);
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *t = &f->args[i];
    if (t->role != NNC_CACHE) continue;
    memset(s->arena.base + t->offset, 0, (size_t)t->bytes);
    if (!arena_push(&s->arena, t->offset, t->bytes)) return false;
  }
  return true;
}

bool session_restore_carried(const Session *s, char *saved) {
  int64_t at = 0;
  bool ok = true;
  for (int i = 0; saved && i < nnc_program.n_persistent; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (!t->carried) continue;
    ok = ok && arena_write(&s->arena, t->offset, saved + at, t->bytes) && push_tensor(s, t);
    at += t->bytes;
  }
  free(saved);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// Metrics

static bool is_measured(const NncTensor *t) { return t->role == NNC_LOSS || t->role == NNC_METRIC; }

static void count_measured(Metrics *m, const NncFunction *f) {
  for (int i = 0; i < f->n_results; i++) m->n += is_measured(&f->results[i]);
}

static void make_room(Metrics *m) {
  m->names = xcalloc((size_t)m->n, sizeof *m->names);
  m->values = xcalloc((size_t)m->n, sizeof *m->values);
  m->weights = xcalloc((size_t)m->n, sizeof *m->weights);
  m->is_loss = xcalloc((size_t)m->n, sizeof *m->is_loss);
}

// Returns the number behind them.
static int name_measured(Metrics *m, int n, const NncFunction *f) {
  for (int i = 0; i < f->n_results; i++) {
    if (!is_measured(&f->results[i])) continue;
    m->names[n] = f->results[i].name;
    m->is_loss[n++] = f->results[i].role == NNC_LOSS;
  }
  return n;
}

void metrics_init(Metrics *m, const NncFunction *f) {
  m->n = 0;
  count_measured(m, f);
  make_room(m);
  name_measured(m, 0, f);
}

void metrics_init_train(Metrics *m) {
  m->n = 0;
  for (int i = 0; i < program_phases(); i++) count_measured(m, program_train(i));
  make_room(m);
  for (int i = 0, n = 0; i < program_phases(); i++) n = name_measured(m, n, program_train(i));
}

void metrics_free(Metrics *m) {
  free(m->names);
  free(m->values);
  free(m->weights);
  free(m->is_loss);
  memset(m, 0, sizeof *m);
}

void metrics_read(Metrics *m, const NncFunction *f, const char *arena, double weight) {
  for (int i = 0, n = 0; i < f->n_results; i++) {
    if (!is_measured(&f->results[i])) continue;
    while (strcmp(m->names[n], f->results[i].name) != 0) n++;   // those of f stand together
    m->weights[n] += weight;
    m->values[n++] += weight * tensor_scalar(&f->results[i], arena);
  }
}

void metrics_add(Metrics *m, const Metrics *other, double weight) {
  for (int i = 0; i < m->n; i++) {
    if (other->weights[i] == 0) continue;
    m->values[i] += weight * other->values[i];
    m->weights[i] += weight;
  }
}

void metrics_reset(Metrics *m) {
  memset(m->values, 0, (size_t)m->n * sizeof *m->values);
  memset(m->weights, 0, (size_t)m->n * sizeof *m->weights);
}

static void metrics_scale(Metrics *m, double factor) {
  for (int i = 0; i < m->n; i++) m->values[i] *= factor;
}

double metrics_loss(const Metrics *m) {
  double sum = 0;
  for (int i = 0; i < m->n; i++)
    if (m->is_loss[i] && m->weights[i] != 0) sum += m->values[i];
  return sum;
}

bool metrics_losses_finite(const Metrics *m) { return isfinite(metrics_loss(m)); }

// ---------------------------------------------------------------------------------------------------------------------
// Evaluation

static bool evaluate_batch(Session *s, const Dataset *d, int64_t first, Metrics *out, double weight) {
  const NncFunction *f = executor_function(s->eval);
  if (!dataset_fill(d, f, first, d->records - 1, s->arena.base)) return false;
  session_write_aside(s, f, first / function_batch(f));
  if (!executor_run(s->eval, NULL, NULL)) return false;
  metrics_read(out, f, s->arena.base, weight);
  return true;
}

// The last batch of r records is filled up with copies of the last record; one more batch of nothing but that record
// tells what a copy contributes to the mean, so that it can be taken out again:
//   sum over the r records = B mean(last batch) - (B - r) mean(copies).
static bool evaluate_all(Session *s, const Dataset *d, Metrics *out) {
  const NncFunction *f = executor_function(s->eval);
  int64_t batch = function_batch(f), full = d->records / batch, rest = d->records % batch;
  for (int64_t i = 0; i < full; i++) {
    if (!evaluate_batch(s, d, i * batch, out, (double)batch)) return false;
    if (signals_stop_requested() && !ranks_share_parameters()) return false;   // else all end after the same step
  }
  if (rest && !(evaluate_batch(s, d, full * batch, out, (double)batch) &&
                evaluate_batch(s, d, d->records, out, -(double)(batch - rest))))
    return false;
  metrics_scale(out, 1 / (double)d->records);
  return true;
}

bool session_evaluate(Session *s, const Dataset *d, Metrics *out) {
  char *saved = NULL;
  metrics_init(out, executor_function(s->eval));
  if (!session_begin_text(s, &saved)) return false;
  bool ok = evaluate_all(s, d, out);
  return session_restore_carried(s, saved) && ok;
}

// The steps of a training, one after the other: which records a step takes, its micro-batches, and what they measured.
// Everything that a step depends on follows from the seed and the number of steps done.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

int64_t trainer_micro_batches(void) { return nnc_program.accumulate > 1 ? nnc_program.accumulate : 1; }

static int64_t all_micro_batches(void) { return trainer_micro_batches() * ranks.size; }   // of a step

static int64_t number_of(int64_t micro) { return micro * ranks.size + ranks.rank; }   // in the step

static bool count_steps(Trainer *t, int64_t steps, double epochs) {
  const NncProgram *p = &nnc_program;
  int64_t batch = function_batch(program_train(0));
  t->one_record = t->data->n_columns == 0 || function_is_whole(program_train(0));
  t->records_per_step = t->one_record ? t->data->records : batch * all_micro_batches();
  t->steps_per_epoch = t->data->records / t->records_per_step;
  if (t->steps_per_epoch == 0) {
    report_error("the train data has %lld records, one step%s takes %lld", (long long)t->data->records,
                 ranks.size > 1 ? " of all ranks" : "", (long long)t->records_per_step);
    return false;
  }
  if (!(epochs > 0)) epochs = steps > 0 || p->steps <= 0 ? p->epochs : 0;
  if (epochs * (double)t->steps_per_epoch > 0x1p53) {
    report_error("%g epochs of %lld steps are more steps than can be counted", epochs, (long long)t->steps_per_epoch);
    return false;
  }
  if (!t->one_record)
    dataset_sequence(t->data, ranks.rank * batch, ranks.size * batch, t->steps_per_epoch * trainer_micro_batches());
  t->total = steps > 0 ? steps : epochs > 0 ? (int64_t)(epochs * (double)t->steps_per_epoch + 0.5) : p->steps;
  return true;
}

// Of a step: each micro-batch's metrics, then whether this rank was asked to end.
static int share_numbers(const Trainer *t) { return (int)trainer_micro_batches() * t->metrics.n + 1; }

bool trainer_open(Trainer *t, Session *s, Dataset *data, int64_t steps, double epochs) {
  *t = (Trainer){.session = s, .data = data, .steps_per_epoch = 1, .total = steps, .shuffled_epoch = -1};
  t->state = (TrainState){.seed = (int64_t)s->seed, .best = INFINITY};
  if (data && !count_steps(t, steps, epochs)) return false;
  if (t->total < 1) t->total = 1;
  t->state.per_epoch = t->steps_per_epoch;
  t->state.records = data ? data->records : 0;
  t->state.micro_batches = all_micro_batches();
  t->state.threads = s->arena.threads;
  trainer_set_total(t, t->total);
  metrics_init_train(&t->metrics);
  t->shares = xcalloc((size_t)(ranks.size * share_numbers(t)), sizeof *t->shares);
  return true;
}

void trainer_set_total(Trainer *t, int64_t total) {
  t->session->total_steps = t->state.total = t->total = t->end = total;
}

void trainer_close(Trainer *t) {
  metrics_free(&t->metrics);
  free(t->shares);
  t->shares = NULL;
}

static Executor *executor_of(const Trainer *t, int phase, int64_t micro) {
  return micro + 1 < trainer_micro_batches() ? t->session->accumulate[phase] : t->session->train[phase];
}

static void write_arguments(const Trainer *t, const NncFunction *f, int64_t step, int64_t micro) {
  session_write_arguments(t->session, f, step, step * all_micro_batches() + number_of(micro));
}

Executor *trainer_write_batch(Trainer *t, int64_t step, int phase, int64_t micro) {
  int64_t epoch = step / t->steps_per_epoch, position = step % t->steps_per_epoch;
  Executor *e = executor_of(t, phase, micro);
  const NncFunction *f = executor_function(e);
  if (epoch != t->shuffled_epoch) {
    dataset_shuffle(t->data, t->session->seed, (uint64_t)epoch);
    t->shuffled_epoch = epoch;
  }
  int64_t first = position * t->records_per_step + number_of(micro) * (t->records_per_step / all_micro_batches());
  if (!dataset_fill(t->data, f, first, first, t->session->arena.base)) return NULL;
  write_arguments(t, f, step, micro);
  return e;
}

// A call of a step: a micro-batch of a phase. All micro-batches of one phase come before those of the next.
typedef struct Call {
  int64_t step, micro;
  int phase;
} Call;

// The first call from there on in a phase whose turn it is.
static Call first_due(Call c) {
  while (c.phase < program_phases() && !phase_is_due(c.phase, c.step)) c.phase++;
  return c;
}

// phase: none behind the last of a step.
static Call call_behind(Call c) {
  if (c.micro + 1 < trainer_micro_batches()) return (Call){c.step, c.micro + 1, c.phase};
  return first_due((Call){c.step, 0, c.phase + 1});
}

static bool is_call(Call c) { return c.phase < program_phases(); }

// While a device works on a batch the next one is made and copied. What goes wrong there is that one's.
static void stage_next(Trainer *t, Call call) {
  Call next = call_behind(call);
  if (!is_call(next)) next = first_due((Call){call.step + 1, 0, 0});
  Executor *e = executor_of(t, next.phase, next.micro);
  t->staged = t->stages && executor_can_stage(e) && next.step < t->end;
  t->stage_failed = t->staged && !(trainer_write_batch(t, next.step, next.phase, next.micro) && executor_stage(e));
}

// The mean over the micro-batches of all ranks, in their order; and whether any rank was asked to end.
static void gather_metrics(Trainer *t) {
  int n = t->metrics.n, numbers = share_numbers(t);
  double weight = 1 / (double)all_micro_batches();
  if (ranks.size > 1) ranks_gather(t->shares + ranks.rank * numbers, numbers, t->shares);
  memset(t->metrics.values, 0, (size_t)n * sizeof *t->metrics.values);
  for (int64_t micro = 0; micro < trainer_micro_batches(); micro++)
    for (int r = 0; r < ranks.size; r++)
      for (int i = 0; i < n; i++) t->metrics.values[i] += weight * t->shares[r * numbers + micro * n + i];
  for (int r = 0; r < ranks.size; r++) t->stop |= t->shares[(r + 1) * numbers - 1] != 0;
}

static bool run_call(Trainer *t, Call c, const Batches *batches) {
  Executor *e = executor_of(t, c.phase, c.micro);
  if (batches) {
    if (!batches->write(batches->context, executor_function(e), c.micro)) return false;
    write_arguments(t, executor_function(e), c.step, c.micro);
    return executor_run(e, batches->tap, batches->context);
  }
  if (t->stage_failed) return false;
  if (!t->staged && !trainer_write_batch(t, c.step, c.phase, c.micro)) return false;
  if (t->tap && c.micro + 1 == trainer_micro_batches()) return executor_run(e, t->tap, t->tap_context);
  if (!executor_start(e)) return false;
  stage_next(t, c);
  return executor_finish(e);
}

static bool run_step(Trainer *t, const Batches *batches) {
  int n = t->metrics.n, numbers = share_numbers(t);
  double *own = t->shares + ranks.rank * numbers;
  memset(own, 0, (size_t)numbers * sizeof *own);
  metrics_reset(&t->metrics);
  for (int i = 0; i < program_phases() && isnan(t->session->rate); i++)
    if (phase_is_due(i, t->state.step) && !schedule_check(i, t->state.step, t->total)) return false;
  for (Call c = first_due((Call){t->state.step, 0, 0}); is_call(c); c = call_behind(c)) {
    if (!run_call(t, c, batches)) return false;
    memset(t->metrics.values, 0, (size_t)n * sizeof *t->metrics.values);   // the weights tell which are known
    metrics_read(&t->metrics, executor_function(executor_of(t, c.phase, c.micro)), t->session->arena.base, 1);
    for (int i = 0; i < n; i++) own[c.micro * n + i] += t->metrics.values[i];
  }
  own[numbers - 1] = signals_stop_requested();
  gather_metrics(t);
  t->state.step++;
  return true;
}

bool trainer_step(Trainer *t) {
  if (t->state.step % t->steps_per_epoch == 0 && !session_begin_text(t->session, NULL)) return false;
  return run_step(t, NULL);
}

bool trainer_step_on(Trainer *t, const Batches *batches) { return run_step(t, batches); }

// `train`: epochs over shuffled records, the schedule, evaluation, checkpoints. Everything that a step depends on
// follows from the checkpoint and the number of steps done, so that a resumed run computes the same bits as an
// uninterrupted one.
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/checksum.h"
#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/output.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct TrainOptions {
  const char *data, *log, *tensorboard, *save, *weights;
  const char *resume;   // "": what --save names; NULL: from the beginning
  double epochs, rank_timeout;
  int64_t steps, stop_at, save_every, keep, print_every, histograms;
  int64_t seed;   // -1: not given
  DeviceOptions device;
  bool find_nan, quiet;
} TrainOptions;

typedef struct Training {
  TrainOptions o;
  Session s;
  Trainer run;
  Dataset train_data, eval_data;
  bool has_eval;
  char *before;   // Owned; with --find-nan the persistent values before the step; NULL: none yet
  CheckpointLock lock;
  KeptCheckpoints kept;
  char *kept_beside;        // Owned
  bool wrote_best;          // some evaluation's weights, as the best
  bool best_failed;         // the last attempt to write the best evaluation's weights
  bool evaluation_failed;   // the last evaluation's loss is no finite number
  int64_t saved_step;       // of the checkpoint that this run last wrote; 0: none yet
  Log log;
  Events events;
  Progress progress;
  double start;
  char *default_path;   // Owned
} Training;

static const Option options[] = {
    OPTION(TrainOptions, data, "data", "DIR", TEXT,
           "folder of the data files (default: $NNC_DATA, the current folder,\n/usr/share/datasets/fashion-mnist)"),
    OPTION(TrainOptions, epochs, "epochs", "N", POSITIVE, "epochs, may be a fraction (default: as the model says)"),
    OPTION(TrainOptions, steps, "steps", "N", INTEGER, "optimizer steps instead of epochs", .least = 1),
    OPTION(TrainOptions, stop_at, "stop-at", "N", INTEGER, "end after step N of these and save; --resume goes on",
           .least = 1),
    OPTION(TrainOptions, seed, "seed", "S", INTEGER,
           "seed of initial values, shuffling and random ops (default {seed})"),
    OPTION(TrainOptions, save, "save", "FILE", TEXT, "checkpoint (default {model}.safetensors)"),
    OPTION(TrainOptions, save_every, "save-every", "N", INTEGER,
           "write the checkpoint every N steps, besides after each epoch and at the end", .least = 1),
    OPTION(TrainOptions, keep, "keep", "K", INTEGER,
           "also keep the last K checkpoints, as {model}.stepN.safetensors, and the weights\nof the best evaluation, "
           "as {model}.best.safetensors",
           .least = 1),
    OPTION(TrainOptions, resume, "resume", "[=FILE]", TEXT, "continue from a checkpoint (default: the --save file)"),
    OPTION(TrainOptions, weights, "weights", "FILE", TEXT, "start from these parameters and states"),
    OPTION(TrainOptions, find_nan, "find-nan", NULL, FLAG,
           "where a step leaves numbers that are not finite, run it again and say what computed the\nfirst (slower, "
           "with a copy of the parameters)"),
    OPTION(TrainOptions, log, "log", "FILE", TEXT, "JSON lines, one per step and evaluation; - for stdout"),
    OPTION(TrainOptions, tensorboard, "tensorboard", "DIR", TEXT,
           "write losses, metrics, learning rate and time of each step for TensorBoard into this folder"),
    OPTION(TrainOptions, histograms, "histograms", "[=N]", INTEGER,
           "every N steps (100) histograms of the gradients there, too", .least = 1, .absent = 100),
    OPTION(TrainOptions, print_every, "print-every", "N", INTEGER,
           "steps between lines when stdout is no terminal (default 100)", .least = 1),
    OPTION(TrainOptions, rank_timeout, "rank-timeout", "S", POSITIVE,
           "with several ranks (nnc --shard, mpirun): end all when one has given no sign of life\nfor S seconds "
           "(default "
           "45)"),
    OPTIONS_OF_DEVICE(TrainOptions),
    OPTION(TrainOptions, quiet, "quiet", NULL, FLAG, "no progress", .letter = 'q'),
};
static const Command command =
    {.usage = "[OPTION]...",
     .after = "Ctrl-C ends after the current step, saves and exits with status 130; a second Ctrl-C ends at once.",
     OPTIONS(options)};

// -1: go on; otherwise the exit status.
static int parse_options(int argc, char **argv, TrainOptions *o) {
  int status = options_parse(&command, argc, argv, o);
  if (status >= 0) return status;
  const char *wrong = o->resume && o->weights            ? "--resume and --weights exclude each other"
                      : o->steps > 0 && o->epochs > 0    ? "--steps and --epochs exclude each other"
                      : o->histograms && !o->tensorboard ? "--histograms goes with --tensorboard"
                                                         : NULL;
  if (optind == argc && !wrong) return -1;
  if (optind < argc) report_error("unexpected argument %s", argv[optind]);
  else report_error("%s", wrong);
  return options_misused(argv[0], NULL);
}

// ---------------------------------------------------------------------------------------------------------------------
// Before the first step

static bool is_first_rank(void) { return ranks.rank == 0; }   // which alone prints and writes

// A resumed run with other options is another run than the one that began.
static void warn_of_differences(const Training *t, const TrainState *saved) {
  const struct {
    const char *what, *effect;
    int64_t before, now;
  } values[] = {{"steps in all", "the schedule of the learning rate differs", saved->total, t->run.state.total},
                {"records", "their order differs", saved->records, t->run.state.records},
                {"steps per epoch", "the order of the records differs", saved->per_epoch, t->run.state.per_epoch},
                {"micro-batches a step", "sums are rounded otherwise", saved->micro_batches,
                 t->run.state.micro_batches},
                {"threads", "sums are rounded otherwise", saved->threads, t->run.state.threads}};
  for (size_t i = 0; i < sizeof values / sizeof *values && is_first_rank(); i++)
    if (values[i].before && values[i].now && values[i].before != values[i].now)
      report_warning("the checkpoint is of a run with %lld %s, this one has %lld: %s", (long long)values[i].before,
                     values[i].what, (long long)values[i].now, values[i].effect);
}

static bool start_values(Training *t) {
  const TrainOptions *o = &t->o;
  t->run.state.best = INFINITY;
  t->run.state.seed = o->seed >= 0 ? o->seed : nnc_program.seed;
  if (o->resume) {
    TrainState saved = t->run.state;
    if (!checkpoint_resume(*o->resume ? o->resume : o->save, &t->s.arena, &saved)) return false;
    warn_of_differences(t, &saved);
    saved.total = t->run.state.total, saved.per_epoch = t->run.state.per_epoch;
    saved.records = t->run.state.records, saved.micro_batches = t->run.state.micro_batches;
    if (!saved.threads) saved.threads = t->run.state.threads;
    t->run.state = saved;
    if (o->seed >= 0 && o->seed != t->run.state.seed) {
      report_error("--seed=%lld, but the checkpoint was trained with seed %lld", (long long)o->seed,
                   (long long)t->run.state.seed);
      return false;
    }
  } else if (!init_persistent(&t->s.arena, (uint64_t)t->run.state.seed) ||
             (o->weights && !weights_load(o->weights, &t->s.arena))) {
    return false;
  }
  t->s.seed = (uint64_t)t->run.state.seed;
  if (!t->has_eval) t->run.state.eval_due = 0;   // the program had one when it was interrupted
  return arena_push_persistent(&t->s.arena);
}

// Owned: path, which is freed; it may be written by this run. Whether the run reads nothing there. read_first: also
// what it reads before it writes.
static bool beside_spares(const Training *t, const char *log, char *path, bool read_first) {
  const TrainOptions *o = &t->o;
  bool spared = checkpoint_unused(path) && dataset_spared(o->data, path) && output_spares(path, log) &&
                (!read_first || (output_spares(path, o->weights) && output_spares(path, o->resume)));
  free(path);
  return spared;
}

// Earlier checkpoints are written and removed: those that are there, and one where the log is to be. A run may go on
// with one of them.
static bool kept_spare(const Training *t, const char *log) {
  const char *save = t->kept_beside;
  KeptCheckpoints kept = {0};
  kept_find(&kept, save, INT64_MAX, false);
  char *real = log ? output_real_name(log) : xstrdup(""), *slash = strrchr(real, '/');
  int64_t logged = kept_step(save, slash ? slash + 1 : real);
  bool spared = logged < 0 || beside_spares(t, log, kept_path(save, logged), false);
  for (int i = 0; i < kept.n && spared; i++) spared = beside_spares(t, log, kept_path(save, kept.steps[i]), false);
  free(kept.steps);
  free(real);
  return spared;
}

static bool best_spares(const Training *t, const char *log) {
  char *best = path_beside(t->o.save, ".best");
  const char *from = t->o.weights ? t->o.weights : t->o.resume;
  bool began = from && *from && output_is_same(best, from);
  if (began)
    report_error("%s: the best weights of this run would go over those that it begins with: give another --save", best);
  free(best);
  return !began && beside_spares(t, log, path_beside(t->o.save, ".best"), true);
}

// A checkpoint may go over the one that it began with.
static bool outputs_spare(const Training *t) {
  const TrainOptions *o = &t->o;
  const char *log = o->log && strcmp(o->log, "-") != 0 ? o->log : NULL;
  bool best = t->has_eval && (o->keep || nnc_program.patience > 0);
  return dataset_spared(o->data, o->save) && dataset_spared(o->data, log) && output_spares(log, o->save) &&
         checkpoint_spared(log) && output_spares(log, o->weights) && output_spares(log, o->resume) &&
         beside_spares(t, log, checkpoint_lock_path(o->save), true) &&
         beside_spares(t, log, path_beside(o->save, ".nan"), true) && (!best || best_spares(t, log)) &&
         (!o->keep || kept_spare(t, log));
}

static bool open_training(Training *t) {
  TrainOptions *o = &t->o;
  if (!o->save) o->save = t->default_path = checkpoint_default_path();
  t->kept_beside = kept_beside(o->save);
  const NncFunction *f = program_train(0);
  if (!f) {
    report_error("%s has no train section", nnc_program.source);
    return false;
  }
  const NncFunction *eval = program_function("eval");
  bool validation = nnc_program.validation > 0 && nnc_program.n_data > 0;
  t->has_eval = eval && (validation || dataset_has_split("eval"));
  if (is_first_rank() && !(output_path_check(o->save) && outputs_spare(t) && checkpoint_lock(o->save, &t->lock)))
    return false;
  // what is resumed is checked when it is read
  bool goes_on = o->resume && (!*o->resume || strcmp(o->resume, o->save) == 0);
  if (is_first_rank() && t->default_path && !goes_on && !checkpoint_may_replace(o->save, false, "--save")) return false;
  if (!dataset_load("train", f, o->data, &t->train_data)) return false;
  if (t->has_eval && !(validation ? dataset_validation(&t->train_data, eval, &t->eval_data)
                                  : dataset_load("eval", eval, o->data, &t->eval_data)))
    return false;
  int functions = SESSION_TRAIN | (t->has_eval ? SESSION_EVAL : 0) | (o->find_nan ? SESSION_SPARE : 0);
  if (!session_open(&t->s, functions, NULL, &o->device)) return false;
  if (!is_first_rank()) o->log = o->tensorboard = NULL, o->quiet = true;
  if (o->find_nan && ranks.size > 1) {
    report_error("--find-nan runs a step op by op, on one rank: start it without mpirun");
    return false;
  }
  if (o->histograms && ranks.size > 1) {
    report_error("--histograms looks at the gradients of one rank: start it without mpirun");
    return false;
  }
  bool counted = trainer_open(&t->run, &t->s, &t->train_data, o->steps, o->epochs);
  t->run.stages = !o->find_nan && !o->histograms;
  if (o->stop_at > 0 && o->stop_at < t->run.total) t->run.end = o->stop_at;
  if (!counted || !start_values(t)) return false;
  int64_t resumed = o->resume ? t->run.state.step : -1;
  if (!log_open(&t->log, o->log, resumed) || !events_open(&t->events, o->tensorboard, resumed)) return false;
  if (o->keep && o->resume && is_first_rank()) kept_find(&t->kept, t->kept_beside, t->run.state.step, goes_on);
  t->start = seconds_now();
  return true;
}

static uint64_t parameter_sum(const Training *t) {
  uint64_t sum = 0;
  for (int i = 0; i < nnc_program.n_persistent; i++) {
    const NncTensor *p = &nnc_program.persistent[i];
    if (!p->part && !is_far_address(p->offset))
      sum = sum * 31 + checksum_of(t->s.arena.base + p->offset, (size_t)p->bytes);
  }
  return sum;
}

// Of the file that training begins with, which parts of the parameters do not tell. 0: there is none.
static uint64_t start_file_sum(const TrainOptions *o) {
  const char *path = !o->resume ? o->weights : *o->resume ? o->resume : o->save;
  return path ? ranks_file_sum(path) : 0;
}

// Ranks that train together have the same program, options, data and values.
static bool ranks_start_alike(const Training *t) {
  if (ranks.size == 1) return true;
  const RankFact facts[] = {
      {"another program", ranks_program_sum(), false},
      {"seed", t->s.seed, true},
      {"train records", (uint64_t)t->train_data.records, true},
      {"eval records", (uint64_t)(t->has_eval ? t->eval_data.records : 0), true},
      {"other train data", ranks_data_sum(&t->train_data), false},
      {"other eval data", ranks_data_sum(&t->eval_data), false},
      {"steps in all", (uint64_t)t->run.total, true},
      {"--stop-at", (uint64_t)t->o.stop_at, true},
      {"--save-every", (uint64_t)t->o.save_every, true},
      {"--keep", (uint64_t)t->o.keep, true},
      {"steps done", (uint64_t)t->run.state.step, true},
      {"another file to begin with", start_file_sum(&t->o), false},
      {"other parameters", parameter_sum(t), false},
  };
  return ranks_compare((int)(sizeof facts / sizeof *facts), facts);
}

static void close_training(Training *t) {
  session_close(&t->s);
  dataset_free(&t->eval_data);   // may borrow from the other
  dataset_free(&t->train_data);
  metrics_free(&t->progress.sum);   // still there after an error
  free(t->kept.steps);
  free(t->kept_beside);
  free(t->before);
  trainer_close(&t->run);
  checkpoint_unlock(&t->lock);
  free(t->default_path);
}

// ---------------------------------------------------------------------------------------------------------------------
// Steps

// The persistent part of the far arena: in its file the copy lies behind it (SESSION_SPARE), else in t->before.
static bool copy_far(const Training *t, bool back) {
  const Arena *a = &t->s.arena;
  int64_t bytes = nnc_program.far_persistent_bytes, n, from = back ? nnc_program.far_bytes : 0,
          to = back ? 0 : nnc_program.far_bytes;
  char *copy = t->before + nnc_program.persistent_bytes;
  if (bytes && !a->far)
    return back ? arena_write(a, FAR_ADDRESS, copy, bytes) : arena_read(a, FAR_ADDRESS, copy, bytes);
  char *piece = xmalloc(ARENA_PIECE);
  bool ok = true;
  for (int64_t at = 0; at < bytes && ok; at += n) {
    n = bytes - at < ARENA_PIECE ? bytes - at : ARENA_PIECE;
    ok = arena_read(a, FAR_ADDRESS + from + at, piece, n) && arena_write(a, FAR_ADDRESS + to + at, piece, n);
  }
  free(piece);
  return ok;
}

// Before a step with --find-nan.
static bool keep_values(Training *t) {
  int64_t far = t->s.arena.far ? 0 : nnc_program.far_persistent_bytes;
  if (!t->before) t->before = xmalloc((size_t)(nnc_program.persistent_bytes + far));
  if (!arena_pull_persistent(&t->s.arena)) return false;
  memcpy(t->before, t->s.arena.base, (size_t)nnc_program.persistent_bytes);
  return copy_far(t, false);
}

// The last step once more, op by op.
static void search_last_step(Training *t) {
  NanSearch search = {.step = t->run.state.step};
  int64_t step = t->run.state.step - 1;
  memcpy(t->s.arena.base, t->before, (size_t)nnc_program.persistent_bytes);
  bool ok = copy_far(t, true) && arena_push_persistent(&t->s.arena) &&
            (step % t->run.steps_per_epoch != 0 || session_begin_text(&t->s, NULL));
  for (int phase = 0; phase < program_phases(); phase++)
    for (int64_t micro = 0; ok && !search.found && micro < trainer_micro_batches(); micro++) {
      Executor *e = phase_is_due(phase, step) ? trainer_write_batch(&t->run, step, phase, micro) : NULL;
      if (phase_is_due(phase, step)) ok = e && find_nan(&search, e, &t->s.arena);
    }
  if (ok && !search.found && search.infinity) fprintf(stderr, "%s: %s\n", report_name(), search.infinity);
  else if (ok && !search.found) fprintf(stderr, "%s: run again, the step leaves finite numbers only\n", report_name());
  free(search.infinity);
}

// Ranks stop together, as they have agreed in a step.
static bool stop_requested(const Training *t) { return ranks.size > 1 ? t->run.stop : signals_stop_requested(); }

static double epoch_of(const Training *t) { return (double)t->run.state.step / (double)t->run.steps_per_epoch; }

// All ranks are told what became of it on the first one, which alone writes: they save again, and end, together.
static bool save(Training *t) {
  bool ok = arena_pull_persistent(&t->s.arena) && checkpoint_save(t->o.save, &t->s.arena, &t->run.state, false);
  if (ok) t->saved_step = t->run.state.step;
  ok = ok && (!t->o.keep || !is_first_rank() || kept_add(&t->kept, t->kept_beside, t->run.state.step, t->o.keep));
  ranks_broadcast(&t->saved_step, sizeof t->saved_step);
  ranks_broadcast(&ok, sizeof ok);
  return ok;
}

// Early stopping, --keep: the weights of the best evaluation go into a file of their own.
static void note_loss(Training *t, const Metrics *m) {
  if (nnc_program.patience <= 0 && !t->o.keep) return;
  double loss = metrics_loss(m);
  if (!(loss < t->run.state.best)) {
    t->run.state.since_best++;
    return;
  }
  char *path = path_beside(t->o.save, ".best");
  t->best_failed = !arena_pull_persistent(&t->s.arena) || !weights_save(path, &t->s.arena);
  ranks_broadcast(&t->best_failed, sizeof t->best_failed);
  free(path);
  if (!t->best_failed) t->run.state.best = loss, t->wrote_best = true;   // else the next better one is tried
  t->run.state.since_best = 0;
}

// Without a better evaluation the best weights are those of the run that this one goes on with, beside its checkpoint.
static void print_out_of_patience(const Training *t) {
  bool own = t->wrote_best || !t->o.resume || !*t->o.resume;
  char *path = path_beside(own ? t->o.save : t->o.resume, ".best");
  bool there = (t->wrote_best || t->o.resume) && access(path, F_OK) == 0;
  printf("stopped after step %lld: no better loss than %.4f in %lld evaluations%s%s\n", (long long)t->run.state.step,
         t->run.state.best, (long long)t->run.state.since_best, there ? "; its weights are in " : "",
         there ? path : "");
  free(path);
}

static bool out_of_patience(const Training *t) {
  return nnc_program.patience > 0 && t->run.state.since_best >= nnc_program.patience;
}

static void print_evaluation(Training *t, const Metrics *m) {
  log_record(&t->log, "eval", t->run.state.step, epoch_of(t), m, NULL, seconds_now() - t->start);
  events_scalars(&t->events, "eval", t->run.state.step, m, NULL, -1);
  report_clear_line();
  printf("eval after step %lld:", (long long)t->run.state.step);
  for (int i = 0; i < m->n; i++) printf("  %s %.4f", m->names[i], m->values[i]);
  printf("  (%lld records)\n", (long long)t->eval_data.records);
  fflush(stdout);
}

// The first rank alone evaluates, where it has all of the parameters; the others take its numbers. True also where it
// was interrupted, and is due.
static bool evaluate(Training *t) {
  Metrics m;
  bool ok = true, stopped = false;
  if (is_first_rank() || ranks_share_parameters()) {
    ok = session_evaluate(&t->s, &t->eval_data, &m);
    if (ranks_share_parameters()) ranks_end_together(ok);   // the others wait for this one in the midst of it
    stopped = !ok && signals_stop_requested();
  } else {
    metrics_init(&m, program_function("eval"));
  }
  ranks_broadcast(&ok, sizeof ok);
  ranks_broadcast(&stopped, sizeof stopped);
  if (ok) {
    ranks_broadcast(m.values, m.n * (int64_t)sizeof *m.values);
    ranks_broadcast(m.weights, m.n * (int64_t)sizeof *m.weights);
    if (is_first_rank()) print_evaluation(t, &m);
    t->evaluation_failed = !metrics_losses_finite(&m);
    note_loss(t, &m);
  }
  metrics_free(&m);
  t->run.state.eval_due = stopped;
  t->run.stop |= stopped;   // ranks end here, before another step
  return ok || stopped;
}

// The device or the data failed, and has said why. What was saved before stays as it is.
static void stop_failed(const Training *t, int64_t step) {
  report_clear_line();
  fprintf(stderr, "%s: stopped in step %lld of %lld", report_name(), (long long)step, (long long)t->run.total);
  if (t->saved_step > 0)
    fprintf(stderr, "; %s holds the state after step %lld: continue with --resume", t->o.save,
            (long long)t->saved_step);
  fputc('\n', stderr);
}

// The last step left no NaN and no infinity, neither in its loss nor, where a file is to be written or evaluated, in
// what it updated. Else the last good checkpoint is kept: the state goes into a file of its own.
static bool step_is_finite(Training *t, bool check_values) {
  const char *broken = metrics_losses_finite(&t->run.metrics) ? NULL : "the loss";
  if (!broken && !check_values) return true;
  const NncTensor *value = NULL;
  if (!arena_pull_persistent(&t->s.arena) || (!broken && !checkpoint_not_finite(&t->s.arena, false, &value))) {
    stop_failed(t, t->run.state.step);
    if (ranks.size > 1) ranks_abort(EXIT_DIAGNOSTIC);   // the others wait for this one
    return false;
  }
  if (ranks_agree(!broken && !value)) return true;
  if (!is_first_rank()) {
    checkpoint_save("", &t->s.arena, &t->run.state, true);   // gives its parts
    return false;
  }
  if (broken)
    report_error("the loss is not a finite number at step %lld (epoch %.3f)", (long long)t->run.state.step,
                 epoch_of(t));
  else if (value)
    report_error("%s holds numbers that are not finite after step %lld (epoch %.3f)", value->name,
                 (long long)t->run.state.step, epoch_of(t));
  char *path = path_beside(t->o.save, ".nan");
  if (checkpoint_save(path, &t->s.arena, &t->run.state, true))
    fprintf(stderr, "%s: the state after that step is in %s\n", report_name(), path);
  free(path);
  if (t->o.find_nan) search_last_step(t);
  else fprintf(stderr, "%s: --find-nan tells what computed the first of them\n", report_name());
  return false;
}

static void put_gradient(void *context, const NncTensor *tensor, const char *arena) {
  static const char prefix[] = "grad.";
  Training *t = context;
  if (strncmp(tensor->name, prefix, strlen(prefix)) != 0) return;
  void *values = xmalloc((size_t)tensor->bytes);
  tensor_from_arena(tensor, arena, values);
  events_histogram(&t->events, "gradients", tensor->name + strlen(prefix), t->run.state.step + 1, tensor, values);
  free(values);
}

// One step, which is logged.
static bool train_step(Training *t) {
  int64_t step = t->run.state.step;
  double rates[NNC_MAX_PHASES];
  for (int i = 0; i < program_phases(); i++)
    rates[i] = nnc_program.n_groups && phase_is_due(i, step) ? schedule_rate(i, step, t->run.total) : -1;
  if (t->o.find_nan && !keep_values(t)) return false;
  t->run.tap = t->o.histograms && (step + 1) % t->o.histograms == 0 ? put_gradient : NULL;
  t->run.tap_context = t;
  double began = seconds_now();
  if (!trainer_step(&t->run)) return false;
  double now = seconds_now();
  log_record(&t->log, "train", step + 1, epoch_of(t), &t->run.metrics, rates, now - t->start);
  events_scalars(&t->events, "train", step + 1, &t->run.metrics, rates, now - began);
  return true;
}

// Nothing is saved then: what is there is as good.
static void print_nothing_left(const Training *t) {
  printf("step %lld of %lld: nothing left to do", (long long)t->run.state.step, (long long)t->run.total);
  bool short_of_all = t->run.state.step < t->run.total && t->run.state.step >= t->o.stop_at;
  if (t->o.stop_at > 0 && short_of_all) printf(" up to step %lld", (long long)t->o.stop_at);
  putchar('\n');
}

static void print_wait(DataWait w, double seconds) {
  printf("waited %.2f s of %.2f s for data, for %lld of %lld batches\n", w.seconds, seconds, (long long)w.waits,
         (long long)w.batches);
}

// The exit status.
static int train_loop(Training *t) {
  double epochs = (double)t->run.total / (double)t->run.steps_per_epoch;
  bool due = t->run.state.eval_due, evaluated = due, saved = false;
  if (due && !evaluate(t)) return EXIT_DIAGNOSTIC;
  progress_start(&t->progress, t->run.state.step, t->run.total, t->o.print_every, t->o.quiet);
  int64_t end = t->run.end;
  while (t->run.state.step < end && !stop_requested(t) && !out_of_patience(t)) {
    if (!train_step(t)) {
      stop_failed(t, t->run.state.step + 1);
      if (ranks.size > 1) ranks_abort(EXIT_DIAGNOSTIC);
      return EXIT_DIAGNOSTIC;
    }
    bool epoch_ends = !t->run.one_record && t->run.state.step % t->run.steps_per_epoch == 0;
    int64_t every = nnc_program.eval_every;
    evaluated = t->has_eval && (every > 0 ? t->run.state.step % every == 0 : epoch_ends);
    saved = epoch_ends || (t->o.save_every > 0 && t->run.state.step % t->o.save_every == 0);
    if (!step_is_finite(t, t->o.find_nan || evaluated || saved || t->run.state.step == end || stop_requested(t)))
      return EXIT_DIAGNOSTIC;
    progress_step(&t->progress, t->run.state.step, epoch_of(t), epochs, &t->run.metrics,
                  (double)t->run.records_per_step, epoch_ends || t->run.state.step == end);
    double paused = seconds_now();
    if (evaluated && !evaluate(t)) return EXIT_DIAGNOSTIC;
    if (saved && !save(t)) {
      if (is_first_rank()) fprintf(stderr, "%s: training goes on; the next save is tried\n", report_name());
      saved = false;
    }
    progress_exclude(&t->progress, seconds_now() - paused);
  }
  progress_end(&t->progress);
  if (!t->o.quiet && t->train_data.ahead) print_wait(ahead_wait(t->train_data.ahead), seconds_now() - t->start);
  if (t->run.state.step == t->run.total && t->has_eval && !evaluated && !evaluate(t)) return EXIT_DIAGNOSTIC;
  bool patient = !out_of_patience(t), interrupted = (t->run.state.step < end || t->run.state.eval_due) && patient;
  // interrupted before the first step: an older checkpoint is worth more
  bool began = t->run.state.step > t->progress.first_step || (due && !t->run.state.eval_due);
  if (began && (!saved || t->run.state.eval_due) && !save(t)) return EXIT_DIAGNOSTIC;
  if (!is_first_rank())
    return !interrupted && t->best_failed ? EXIT_DIAGNOSTIC : interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
  if (!interrupted) {
    if (!patient) print_out_of_patience(t);
    if (t->evaluation_failed) report_error("the loss of the last evaluation is not a finite number");
    if (!began) print_nothing_left(t);
    else if (!t->o.quiet) printf("%lld steps done; saved %s\n", (long long)t->run.state.step, t->o.save);
    return t->evaluation_failed || t->best_failed ? EXIT_DIAGNOSTIC : EXIT_DONE;
  }
  if (began)
    fprintf(stderr, "%s: interrupted after step %lld of %lld; saved %s; continue with --resume\n", report_name(),
            (long long)t->run.state.step, (long long)t->run.total, t->o.save);
  else fprintf(stderr, "%s: interrupted before the first step\n", report_name());
  return EXIT_INTERRUPTED;
}

static int train(Training *t) {
  bool ok = ranks_agree(open_training(t)) && ranks_start_alike(t) && session_join(&t->s);
  if (!ok) return EXIT_DIAGNOSTIC;
  if (t->run.state.step >= t->run.total && !t->run.state.eval_due) {
    if (is_first_rank()) print_nothing_left(t);
    return EXIT_DONE;
  }
  if (ranks.size > 1 && is_first_rank() && !t->o.quiet) printf("%d ranks\n", ranks.size);
  return train_loop(t);
}

int cmd_train(int argc, char **argv) {
  Training t = {.o = {.print_every = 100, .seed = -1, .rank_timeout = 45, .device = {.device = -1}}};
  int status = parse_options(argc, argv, &t.o);
  if (status >= 0) return status;
  status = EXIT_DIAGNOSTIC;
  if (ranks_open(t.o.rank_timeout)) {
    status = train(&t);
    bool logged = log_close(&t.log);
    if (!(events_close(&t.events) && logged) && status == EXIT_DONE) status = EXIT_DIAGNOSTIC;
  }
  close_training(&t);
  return ranks_close(status);
}

// A library's model: making and destroying instances, what all calls have in common, numbers and files. runtime/nnc.h
// says what each function does.
#include "runtime/model.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------------------------------------------------------------
// Calls

// Several messages of a call are lines of one.
static void hear(Listener *l, bool is_error, const char *message) {
  nnc_net *net = (nnc_net *)(void *)((char *)l - offsetof(nnc_net, listener));
  pthread_mutex_lock(&net->hearing);
  size_t n = net->message_size, room = sizeof net->message - n;
  if (is_error && room > 1) {
    int written = snprintf(net->message + n, room, "%s%s", n ? "\n" : "", message);
    net->message_size += written < (int)room ? (size_t)written : room - 1;
  }
  pthread_mutex_unlock(&net->hearing);
  if (net->report) net->report(net->context, is_error, message);
}

static nnc_status work_or_escape(nnc_net *net, ModelWork work, void *arguments) {
  jmp_buf escape, *before = report_give_up_to(&escape);
  nnc_status status;
  if (setjmp(escape)) {
    net->broken = true;
    status = NNC_ERROR_INTERNAL;   // the message's cause may say otherwise
  } else {
    status = work(net, arguments);
  }
  report_give_up_to(before);
  return status;
}

// Begins with a clean message. OpenMP's settings and the locale are the caller's again afterwards.
static nnc_status in_this_thread(nnc_net *net, ModelWork work, void *arguments) {
  Listener *before = report_listen(&net->listener);
  int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
  locale_t locale = uselocale(plain_locale());
  net->listener.cause = NNC_OK;
  net->message_size = 0;
  net->message[0] = 0;
  nnc_status status = work_or_escape(net, work, arguments);
  if (status && net->listener.cause) status = net->listener.cause;
  net->broken |= status == NNC_ERROR_DEVICE || status == NNC_ERROR_INTERNAL;
  omp_set_num_threads(threads);
  omp_set_dynamic(dynamic);
  uselocale(locale);
  report_listen(before);
  return status;
}

typedef struct Call {
  ModelWork work;
  void *arguments;
} Call;

static nnc_status enter_and_work(nnc_net *net, void *call) {
  const Call *c = call;
  if (!nnc_program.device->enter(&net->s.arena)) return NNC_ERROR_DEVICE;
  return c->work(net, c->arguments);
}

nnc_status model_call(nnc_net *net, ModelWork work, void *arguments) {
  if (!net || net->model != &model_table) return NNC_ERROR_ARGUMENT;
  if (atomic_flag_test_and_set(&net->used)) return NNC_ERROR_BUSY;
  Call call = {work, arguments};
  nnc_status status = net->broken ? NNC_ERROR_BROKEN : in_this_thread(net, enter_and_work, &call);
  atomic_flag_clear(&net->used);
  return status;
}

static nnc_status refuse(nnc_net *net, void *why) {
  (void)net;
  return FAIL(NNC_ERROR_ARGUMENT, "%s", (const char *)why);
}

nnc_status model_refuse(nnc_net *net, const char *why) { return model_call(net, refuse, (void *)(uintptr_t)why); }

const char *model_last_error(const nnc_net *net) {
  return net && net->model == &model_table ? net->message : "no instance of this model";
}

// ---------------------------------------------------------------------------------------------------------------------
// Create and destroy

static nnc_status check_options(const nnc_options *o) {
  if (o->threads < 0 || o->device < 0 || o->memory < 0 || o->steps < 0 ||
      o->functions & ~(NNC_TRAINS | NNC_EVALUATES | NNC_PREDICTS))
    return FAIL(NNC_ERROR_ARGUMENT, "create: an option is out of range");
  if (o->weights && o->checkpoint) return FAIL(NNC_ERROR_ARGUMENT, "create: weights and checkpoint exclude each other");
  if (o->functions & NNC_TRAINS && !program_train(0))
    return FAIL(NNC_ERROR_FUNCTION, "%s has no train section", nnc_program.source);
  if (o->functions & NNC_EVALUATES && !program_function("eval"))
    return FAIL(NNC_ERROR_FUNCTION, "%s does not say how to evaluate", nnc_program.source);
  if (o->functions & NNC_PREDICTS && !program_prediction(NULL))
    return FAIL(NNC_ERROR_FUNCTION, "%s has no model to predict with", nnc_program.source);
  return NNC_OK;
}

static int functions_there(int wanted) {
  const NncFunction *functions[] = {program_train(0), program_function("eval"), program_prediction(NULL)};
  int there = 0;
  for (int i = 0; i < 3; i++)
    if (functions[i] && (!wanted || wanted & 1 << i)) there |= 1 << i;
  return there;
}

static nnc_status read_data(nnc_net *net, const char *folder) {
  const NncFunction *train = program_train(0), *eval = program_function("eval");
  bool validation = nnc_program.validation > 0;
  if (!*folder) folder = NULL;
  net->has_data = net->functions & SESSION_TRAIN;
  if (net->has_data && !dataset_load("train", train, folder, &net->train_data)) return NNC_ERROR_DATA;
  bool held_out = validation && net->has_data, evaluates = net->functions & SESSION_EVAL;
  net->has_eval_data = evaluates && (held_out || dataset_has_split("eval"));
  if (net->has_eval_data && !(held_out ? dataset_validation(&net->train_data, eval, &net->eval_data)
                                       : dataset_load("eval", eval, folder, &net->eval_data)))
    return NNC_ERROR_DATA;
  return NNC_OK;
}

static nnc_status check_memory(const nnc_net *net, int64_t limit) {
  char need[32], most[32];
  int64_t bytes = net->train_data.bytes + net->eval_data.bytes, arena = nnc_program.persistent_bytes;
  for (int i = 0; i < nnc_program.n_functions; i++) {
    const NncFunction *f = &nnc_program.functions[i];
    bool steps = !strncmp(f->name, "train", 5) || !strncmp(f->name, "accumulate", 10);
    int of = steps                      ? SESSION_TRAIN
             : !strcmp(f->name, "eval") ? SESSION_EVAL
             : program_predicts(f)      ? SESSION_PREDICT
                                        : 0;
    if (net->functions & of && f->arena_bytes > arena) arena = f->arena_bytes;
  }
  if (!limit || bytes + arena <= limit) return NNC_OK;
  return FAIL(NNC_ERROR_MEMORY, "the model needs %s, the options allow %s; compile with a smaller --memory-budget",
              print_bytes(bytes + arena, need, sizeof need), print_bytes(limit, most, sizeof most));
}

// Of an earlier run: all values, steps done, seed.
static nnc_status resume(nnc_net *net, const char *path) {
  TrainState saved = net->run.state;
  if (!checkpoint_resume(path, &net->s.arena, &saved)) return NNC_ERROR_FILE;
  net->run.state.step = saved.step, net->run.state.seed = saved.seed;
  net->run.state.best = saved.best, net->run.state.since_best = saved.since_best;
  net->s.seed = (uint64_t)saved.seed;
  net->run.shuffled_epoch = -1;
  return NNC_OK;
}

static nnc_status start_values(nnc_net *net, const nnc_options *o) {
  Session *s = &net->s;
  uint64_t seed = s->seed;
  if (!o->checkpoint && !init_persistent(&s->arena, s->seed)) return NNC_ERROR_INTERNAL;
  if (o->weights && !weights_load(o->weights, &s->arena)) return NNC_ERROR_FILE;
  if (o->checkpoint && resume(net, o->checkpoint)) return NNC_ERROR_FILE;
  if (o->seed) s->seed = seed;
  return arena_push_persistent(&s->arena) ? NNC_OK : NNC_ERROR_DEVICE;
}

static nnc_status open_net(nnc_net *net, void *arguments) {
  const nnc_options *o = arguments;
  nnc_status status = check_options(o);
  if (status) return status;
  net->functions = functions_there(o->functions);
  bool draws = net->functions & SESSION_TRAIN && !function_has_inputs(program_train(0));   // what it learns
                                                                                           // from
  const char *data = o->data ? o->data : draws ? "" : NULL;
  if (data && (status = read_data(net, data))) return status;
  if ((status = check_memory(net, o->memory))) return status;
  DeviceOptions device = {.threads = o->threads, .device = o->device, .far = o->far};
  if (!session_open(&net->s, net->functions, NULL, &device)) return NNC_ERROR_MACHINE;
  if (o->seed) net->s.seed = (uint64_t)*o->seed;
  if (net->functions & SESSION_TRAIN) {
    // epochs are of no known length without data: the schedule does not end
    const int64_t endless = (int64_t)1 << 53;
    int64_t unknown = nnc_program.steps > 0 ? nnc_program.steps : endless,
            steps = o->steps || net->has_data ? o->steps : unknown;
    if (!trainer_open(&net->run, &net->s, net->has_data ? &net->train_data : NULL, steps, 0)) return NNC_ERROR_DATA;
    if (!net->has_data) net->run.state.per_epoch = 0;
    if (net->run.total == endless) net->run.state.total = 0;
    if (net->has_data) dataset_shuffle(&net->train_data, net->s.seed, 0);   // takes its memory
  }
  status = start_values(net, o);
  net->host_bytes = (nnc_program.device->open ? 0 : net->s.arena.bytes) + net->train_data.bytes + net->eval_data.bytes;
  if (!status) model_list_tensors(net);
  return status;
}

static nnc_status close_net(nnc_net *net, void *arguments) {
  (void)arguments;
  if (net->s.arena.base) nnc_program.device->enter(&net->s.arena);
  trainer_close(&net->run);
  session_close(&net->s);
  dataset_free(&net->eval_data);   // may borrow from the other
  dataset_free(&net->train_data);
  free(net->tensors);
  return NNC_OK;
}

void model_destroy(nnc_net *net) {
  if (!net || net->model != &model_table) return;
  in_this_thread(net, close_net, NULL);
  pthread_mutex_destroy(&net->hearing);
  free(net);
}

nnc_status model_create(const nnc_options *options, nnc_net **net, char *message, size_t size) {
  static const nnc_options none = {.threads = 0};
  nnc_options o = options ? *options : none;
  if (message && size) *message = 0;
  if (!net) return NNC_ERROR_ARGUMENT;
  nnc_net *made = *net = NULL;
  made = calloc(1, sizeof *made);
  if (!made) {
    if (message) snprintf(message, size, "out of memory");
    return NNC_ERROR_MEMORY;
  }
  made->listener.hear = hear;
  made->model = &model_table;
  atomic_flag_clear(&made->used);
  made->report = o.report, made->context = o.context;
  pthread_mutex_init(&made->hearing, NULL);
  nnc_status status = in_this_thread(made, open_net, &o);
  if (!status) {
    *net = made;
    return NNC_OK;
  }
  if (message && size) snprintf(message, size, "%s", made->message);
  made->report = NULL;
  model_destroy(made);
  return status;
}

// ---------------------------------------------------------------------------------------------------------------------
// What it is

static nnc_status tell_info(nnc_net *net, void *arguments) {
  nnc_info *info = arguments;
  int64_t batch = net->functions & SESSION_TRAIN  ? function_batch(executor_function(net->s.train[0]))
                  : net->functions & SESSION_EVAL ? function_batch(executor_function(net->s.eval))
                                                  : nnc_program.batch;
  *info = (nnc_info){.arena_bytes = net->s.arena.bytes,
                     .far_bytes = net->s.arena.far_bytes,
                     .data_bytes = net->train_data.bytes + net->eval_data.bytes,
                     .host_bytes = net->host_bytes,
                     .batch = batch,
                     .step_records = batch * trainer_micro_batches(),
                     .output_rows = net->s.n_predictions ? function_rows(program_prediction(NULL)) : 0,
                     .tensors = net->n_tensors,
                     .step = net->run.state.step,
                     .threads = net->s.arena.threads,
                     .functions = net->functions};
  return NNC_OK;
}

nnc_status model_info(nnc_net *net, nnc_info *info) {
  return info ? model_call(net, tell_info, info) : model_refuse(net, "info: NULL");
}

typedef struct Number {
  const char *name;
  double value;
  bool set;
} Number;

// A count or a seed.
static bool whole_number(double value, double least) {
  return value >= least && value <= 0x1p53 && value == floor(value);
}

static nnc_status rate_number(nnc_net *net, Number *n) {
  const NncProgram *p = &nnc_program;
  bool trains = net->functions & SESSION_TRAIN;
  if (!trains || !p->n_groups) return FAIL(NNC_ERROR_FUNCTION, "%s does not train with a learning rate", p->source);
  if (!n->set) n->value = isnan(net->s.rate) ? schedule_rate(0, net->run.state.step, net->run.total) : net->s.rate;
  else if (isinf(n->value) || n->value < 0) return FAIL(NNC_ERROR_ARGUMENT, "learning_rate: %g", n->value);
  else net->s.rate = n->value;
  return NNC_OK;
}

static nnc_status number(nnc_net *net, void *arguments) {
  Number *n = arguments;
  TrainState *state = &net->run.state;
  if (!strcmp(n->name, "learning_rate")) return rate_number(net, n);
  bool step = !strcmp(n->name, "step"), steps = !strcmp(n->name, "steps"), seed = !strcmp(n->name, "seed");
  if (!step && !steps && !seed)
    return FAIL(NNC_ERROR_NAME, "no number %s: there are learning_rate, step, steps, seed", n->name);
  if (n->set && !whole_number(n->value, steps)) return FAIL(NNC_ERROR_ARGUMENT, "%s: %g", n->name, n->value);
  if (!n->set) n->value = step ? (double)state->step : steps ? (double)net->run.total : (double)net->s.seed;
  else if (step) state->step = (int64_t)n->value;
  else if (steps && net->functions & SESSION_TRAIN) trainer_set_total(&net->run, (int64_t)n->value);
  else if (seed) {
    net->s.seed = (uint64_t)n->value, state->seed = (int64_t)n->value;
    net->run.shuffled_epoch = -1;   // the rest of this epoch too has the new seed's order, as when it is loaded
  }
  return NNC_OK;
}

nnc_status model_get_number(nnc_net *net, const char *name, double *value) {
  Number n = {.name = name};
  if (!name || !value) return model_refuse(net, "get_number: NULL");
  nnc_status status = model_call(net, number, &n);
  if (!status) *value = n.value;
  return status;
}

nnc_status model_set_number(nnc_net *net, const char *name, double value) {
  if (!name) return model_refuse(net, "set_number: NULL");
  return model_call(net, number, &(Number){name, value, true});
}

// ---------------------------------------------------------------------------------------------------------------------
// Files

typedef struct File {
  const char *path;
  int what;
} File;

static nnc_status save(nnc_net *net, void *arguments) {
  const File *f = arguments;
  const NncTensor *found = NULL;
  bool weights = f->what == NNC_WEIGHTS;
  if (!weights && !(net->functions & SESSION_TRAIN))
    return FAIL(NNC_ERROR_FUNCTION, "without training there is no checkpoint");
  if (!output_path_check(f->path) || !checkpoint_spared(f->path)) return NNC_ERROR_FILE;
  if (!arena_pull_persistent(&net->s.arena)) return NNC_ERROR_DEVICE;
  if (!checkpoint_not_finite(&net->s.arena, weights, &found)) return NNC_ERROR_DEVICE;
  if (found)
    return FAIL(NNC_ERROR_NOT_FINITE, "%s is not written: %s holds numbers that are not finite", f->path, found->name);
  net->run.state.seed = (int64_t)net->s.seed;
  bool ok = weights ? weights_save(f->path, &net->s.arena)
                    : checkpoint_save(f->path, &net->s.arena, &net->run.state, false);
  return ok ? NNC_OK : NNC_ERROR_FILE;
}

static nnc_status load(nnc_net *net, void *arguments) {
  const File *f = arguments;
  Session *s = &net->s;
  if (!arena_pull_persistent(&s->arena)) return NNC_ERROR_DEVICE;   // what the file does not have stays as it is
  if (f->what == NNC_WEIGHTS && !weights_load(f->path, &s->arena)) return NNC_ERROR_FILE;
  if (f->what == NNC_CHECKPOINT && resume(net, f->path)) return NNC_ERROR_FILE;
  return arena_push_persistent(&s->arena) ? NNC_OK : NNC_ERROR_DEVICE;
}

static nnc_status with_file(nnc_net *net, ModelWork work, const char *path, int what) {
  if (!path) return model_refuse(net, "no path");
  if (what != NNC_WEIGHTS && what != NNC_CHECKPOINT) return model_refuse(net, "neither NNC_WEIGHTS nor NNC_CHECKPOINT");
  return model_call(net, work, &(File){path, what});
}

nnc_status model_save(nnc_net *net, const char *path, int what) { return with_file(net, save, path, what); }

nnc_status model_load(nnc_net *net, const char *path, int what) { return with_file(net, load, path, what); }

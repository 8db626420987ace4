// `step`: exactly one training step on given tensors, and everything it computed: the means by which anyone checks a
// model against another implementation.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct StepOptions {
  const char *inputs, *outputs, *weights, *resume;
  int64_t seed, step;   // -1: not given
  int64_t steps;
  DeviceOptions device;
} StepOptions;

typedef struct Tapped {
  const NncTensor *tensor;
  void *values;
} Tapped;   // values Owned, logical order
typedef struct Taps {
  int n, capacity;
  Tapped *items;
} Taps;
typedef struct Run {
  Session s;
  Trainer step;
  Safetensors in;
  Taps taps;
} Run;

static const Option options[] = {
    OPTION(StepOptions, inputs, "inputs", "FILE", TEXT,
           "safetensors with one tensor per input; with gradient accumulation all micro-batches"),
    OPTION(StepOptions, outputs, "outputs", "FILE", TEXT, "safetensors to write"),
    OPTION(StepOptions, weights, "weights", "FILE", TEXT,
           "parameters and states (and optimizer state, where the file has it) to start\nfrom (default: initial "
           "values)"),
    OPTION(StepOptions, resume, "resume", "FILE", TEXT, "everything from a checkpoint: optimizer state, step, seed"),
    OPTION(StepOptions, seed, "seed", "S", INTEGER, "seed of initial values and random ops (default {seed})"),
    OPTION(StepOptions, step, "step", "N", INTEGER,
           "number of steps done before, for schedule, bias correction and random ops (default 0)"),
    OPTION(StepOptions, steps, "steps", "N", INTEGER, "steps of the whole schedule (default: as the model says)",
           .least = 1),
    OPTIONS_OF_DEVICE(StepOptions),
};
static const Command command =
    {.usage = "--inputs=FILE --outputs=FILE [OPTION]...",
     .before = "Runs one training step and writes the loss, metrics, model outputs (output.*), gradients before "
               "clipping\n(grad.*) and all parameters, states and optimizer state after the step, under their names.",
     OPTIONS(options)};

static int parse_options(int argc, char **argv, StepOptions *o) {
  int status = options_parse(&command, argc, argv, o);
  if (status >= 0) return status;
  const NncFunction *f = program_train(0);
  bool reads = !f || function_has_inputs(f), fed = !reads || o->inputs;
  if (optind == argc && fed && o->outputs && !(o->weights && o->resume)) return -1;
  report_error(optind < argc             ? "unexpected argument"
               : o->weights && o->resume ? "--weights and --resume exclude each other"
               : reads                   ? "--inputs and --outputs are needed"
                                         : "--outputs is needed");
  return options_misused(argv[0], NULL);
}

static void keep_tap(void *context, const NncTensor *tensor, const char *arena) {
  Taps *taps = &((Run *)context)->taps;
  int i = 0;
  while (i < taps->n && strcmp(taps->items[i].tensor->name, tensor->name) != 0) i++;
  if (i == taps->n) {
    if (taps->n == taps->capacity) {
      taps->capacity = taps->capacity ? taps->capacity * 2 : 64;
      taps->items = xrealloc(taps->items, sizeof *taps->items * (size_t)taps->capacity);
    }
    taps->items[taps->n++] = (Tapped){tensor, xmalloc((size_t)tensor->bytes)};
  }
  tensor_from_arena(tensor, arena, taps->items[i].values);
}

static bool write_batch(void *context, const NncFunction *f, int64_t micro) {
  Run *r = context;
  if (!function_has_inputs(f)) return true;   // it draws what it learns from
  return inputs_read(&(InputSource){.file = &r->in}, f, micro * function_batch(f), r->s.arena.base);
}

static bool open_inputs(Run *r, const StepOptions *o) {
  const NncFunction *train = executor_function(r->s.train[0]);
  int64_t records, needed = function_batch(train) * trainer_micro_batches();
  if (!safetensors_open(o->inputs, &r->in) || !inputs_check(&(InputSource){.file = &r->in}, train, &records))
    return false;
  if (function_is_whole(train) || records == needed) return true;
  report_error("%s: %lld records, one step takes %lld", o->inputs, (long long)records, (long long)needed);
  return false;
}

static bool run(Run *r, const StepOptions *o) {
  r->step.state.step = o->step;
  bool ok = (!o->inputs || open_inputs(r, o)) &&
            trainer_step_on(&r->step, &(Batches){.write = write_batch, .tap = keep_tap, .context = r});
  safetensors_close(&r->in);
  return ok;
}

// The result that a loss or metric is.
static const NncTensor *measured(const Session *s, const char *name) {
  for (int phase = 0; phase < program_phases(); phase++) {
    const NncFunction *f = executor_function(s->train[phase]);
    for (int i = 0; i < f->n_results; i++)
      if (strcmp(f->results[i].name, name) == 0) return &f->results[i];
  }
  return NULL;
}

static bool put_all(SafetensorsWriter *w, const Session *s, const Taps *taps, const Metrics *m) {
  int index = 0;
  for (int i = 0; i < m->n; i++) {
    const NncTensor *t = measured(s, m->names[i]);
    double value;
    if (m->weights[i] == 0) continue;   // of a phase whose turn it was not
    convert_elements(NNC_F64, &m->values[i], t->dtype, &value, 1);
    if (!safetensors_put(w, index++, 0, &value, dtype_bytes(t->dtype))) return false;
  }
  for (int i = 0; i < taps->n; i++)
    if (!safetensors_put(w, index++, 0, taps->items[i].values, taps->items[i].tensor->bytes)) return false;
  for (int i = 0; i < nnc_program.n_persistent; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    void *logical = xmalloc((size_t)t->bytes);
    bool ok = arena_read(&s->arena, t->offset, logical, t->bytes) && safetensors_put(w, index++, 0, logical, t->bytes);
    free(logical);
    if (!ok) return false;
  }
  return true;
}

static bool write_outputs(const char *path, const Session *s, const Taps *taps, const Metrics *m) {
  SafetensorsWriter *w = safetensors_create(path);
  for (int i = 0; i < m->n; i++) {
    const NncTensor *t = measured(s, m->names[i]);
    if (m->weights[i] != 0) safetensors_declare(w, t->name, t->dtype, t->rank, t->dim);
  }
  for (int i = 0; i < taps->n; i++) {
    const NncTensor *t = taps->items[i].tensor;
    safetensors_declare(w, t->name, t->dtype, t->rank, t->dim);
  }
  for (int i = 0; i < nnc_program.n_persistent; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    safetensors_declare(w, t->name, t->dtype, t->rank, t->dim);
  }
  if (safetensors_begin(w) && put_all(w, s, taps, m)) return safetensors_commit(w);
  safetensors_abandon(w);
  return false;
}

static bool start_values(Session *s, StepOptions *o) {
  if (o->resume) {
    TrainState state;
    if (!checkpoint_resume(o->resume, &s->arena, &state)) return false;
    if (o->step < 0) o->step = state.step;
    s->seed = (uint64_t)(o->seed >= 0 ? o->seed : state.seed);
    return true;
  }
  if (o->step < 0) o->step = 0;
  s->seed = (uint64_t)(o->seed >= 0 ? o->seed : nnc_program.seed);
  return init_persistent(&s->arena, s->seed) && (!o->weights || weights_load(o->weights, &s->arena));
}

int cmd_step(int argc, char **argv) {
  StepOptions o = {.seed = -1, .step = -1};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  Run r = {.in = {.fd = -1}};
  const Metrics *m = &r.step.metrics;
  bool ok = ranks_are_whole("step", true) && output_path_check(o.outputs) && checkpoint_spared(o.outputs) &&
            output_spares(o.outputs, o.inputs) && session_open(&r.s, SESSION_TRAIN, NULL, &o.device) &&
            start_values(&r.s, &o) && arena_push_persistent(&r.s.arena);
  int64_t steps = o.steps ? o.steps : nnc_program.steps > 0 ? nnc_program.steps : o.step + 1;
  ok = ok && trainer_open(&r.step, &r.s, NULL, steps, 0) && run(&r, &o) && arena_pull_persistent(&r.s.arena) &&
       write_outputs(o.outputs, &r.s, &r.taps, m);
  for (int i = 0; ok && i < m->n; i++)
    if (m->weights[i] != 0) printf("%s %.9g\n", m->names[i], m->values[i]);
  for (int i = 0; i < r.taps.n; i++) free(r.taps.items[i].values);
  free(r.taps.items);
  trainer_close(&r.step);
  session_close(&r.s);
  return ok ? EXIT_DONE : EXIT_DIAGNOSTIC;
}

// What an instance computes: steps, evaluations, predictions.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"

typedef struct Inputs {
  int n;
  const nnc_tensor *inputs;
  int64_t records;
  nnc_net *net;
  int n_values;
  const nnc_tensor *values;   // that a step is asked for
} Inputs;

static bool count_is_fine(int n, const nnc_tensor *tensors) { return n >= 0 && (n == 0 || tensors); }

// ---------------------------------------------------------------------------------------------------------------------
// A step

static bool write_batch(void *context, const NncFunction *f, int64_t micro) {
  const Inputs *in = context;
  model_write_inputs(in->net, f, in->n, in->inputs, micro * function_batch(f), in->records);
  return true;
}

// Where it runs the caller's memory, or where the types differ memory of its own, gets the value.
static void keep_value(void *context, const NncTensor *tensor, const char *arena) {
  const Inputs *in = context;
  ModelTensor *t = model_value(in->net, tensor->name);
  if (!t->asked) return;
  tensor_from_arena(tensor, arena, t->unconverted ? t->unconverted : t->asked->data);
  t->known = true;
}

static nnc_status ask_value(nnc_net *net, const nnc_tensor *to) {
  ModelTensor *t = to->name ? model_value(net, to->name) : NULL;
  if (!t) return FAIL(NNC_ERROR_NAME, "a step has no value %s", to->name ? to->name : "without a name");
  if (t->asked) return FAIL(NNC_ERROR_NAME, "%s is asked for twice", to->name);
  nnc_status status = model_check_tensor(to, t->tensor->dtype, t->tensor->rank, t->tensor->dim, false);
  if (status) return status;
  t->asked = to, t->known = false;
  if (t->tensor->dtype != (NncDtype)to->type) t->unconverted = xmalloc((size_t)t->tensor->bytes);
  return NNC_OK;
}

static void give_values(nnc_net *net, bool ok) {
  for (int i = 0; i < net->n_tensors; i++) {
    ModelTensor *t = &net->tensors[i];
    if (ok && t->asked && t->known && t->unconverted)
      convert_elements(t->tensor->dtype, t->unconverted, (NncDtype)t->asked->type, t->asked->data,
                       tensor_elements(t->tensor));
    free(t->unconverted);
    t->unconverted = NULL, t->asked = NULL;
  }
}

static bool run_step(nnc_net *net, Inputs *in) {
  TapFn tap = in->n_values ? keep_value : NULL;
  if (in->n) return trainer_step_on(&net->run, &(Batches){.write = write_batch, .tap = tap, .context = in});
  net->run.tap = tap, net->run.tap_context = in;
  bool ok = trainer_step(&net->run);
  net->run.tap = NULL;
  return ok;
}

static nnc_status step(nnc_net *net, void *arguments) {
  Inputs *in = arguments;
  if (!(net->functions & SESSION_TRAIN)) return FAIL(NNC_ERROR_FUNCTION, "this instance does not train");
  const NncFunction *f = executor_function(net->s.train[0]);
  model_forget_results(net);
  if (!in->n && !net->has_data)
    return FAIL(NNC_ERROR_DATA, "no inputs are given, and create was not told to read the program's data");
  in->records = function_batch(f) * trainer_micro_batches();
  nnc_status status = in->n ? model_check_inputs(net, f, in->n, in->inputs, &in->records) : NNC_OK;
  for (int i = 0; !status && i < in->n_values; i++) status = ask_value(net, &in->values[i]);
  bool ok = !status && run_step(net, in);
  if (in->n_values) give_values(net, ok);
  if (status) return status;
  if (!ok) return NNC_ERROR_DEVICE;
  model_note_results(net, &net->run.metrics);
  if (metrics_losses_finite(&net->run.metrics)) return NNC_OK;
  return FAIL(NNC_ERROR_NOT_FINITE, "the loss is not a finite number at step %lld", (long long)net->run.state.step);
}

nnc_status model_step(nnc_net *net, int n, const nnc_tensor *inputs) {
  if (!count_is_fine(n, inputs)) return model_refuse(net, "step: NULL");
  return model_call(net, step, &(Inputs){.n = n, .inputs = inputs, .net = net});
}

nnc_status model_step_values(nnc_net *net, int n, const nnc_tensor *inputs, int n_values, const nnc_tensor *values) {
  if (!count_is_fine(n, inputs) || !count_is_fine(n_values, values)) return model_refuse(net, "step_values: NULL");
  return model_call(net, step, &(Inputs){.n = n, .inputs = inputs, .net = net, .n_values = n_values, .values = values});
}

static nnc_status begin_text(nnc_net *net, void *arguments) {
  (void)arguments;
  return session_begin_text(&net->s, NULL) ? NNC_OK : NNC_ERROR_DEVICE;
}

nnc_status model_begin_text(nnc_net *net) { return model_call(net, begin_text, NULL); }

// ---------------------------------------------------------------------------------------------------------------------
// An evaluation

static bool run_evaluation(nnc_net *net, const Inputs *in) {
  const NncFunction *f = executor_function(net->s.eval);
  char *saved = NULL;
  if (!session_begin_text(&net->s, &saved)) return false;
  model_write_inputs(net, f, in->n, in->inputs, 0, in->records);
  session_write_aside(&net->s, f, 0);
  bool ok = executor_run(net->s.eval, NULL, NULL);
  for (int i = 0; ok && i < f->n_results; i++) {
    const NncTensor *t = &f->results[i];
    if (t->role == NNC_LOSS || t->role == NNC_METRIC)
      model_tensor(net, t->name)->value = tensor_scalar(t, net->s.arena.base);
  }
  return session_restore_carried(&net->s, saved) && ok;
}

static nnc_status evaluate(nnc_net *net, void *arguments) {
  Inputs *in = arguments;
  if (!(net->functions & SESSION_EVAL)) return FAIL(NNC_ERROR_FUNCTION, "this instance does not evaluate");
  const NncFunction *f = executor_function(net->s.eval);
  model_forget_results(net);
  if (in->n) {
    in->records = function_batch(f);
    nnc_status status = model_check_inputs(net, f, in->n, in->inputs, &in->records);
    if (status) return status;
    return run_evaluation(net, in) ? NNC_OK : NNC_ERROR_DEVICE;
  }
  if (!net->has_eval_data)
    return FAIL(NNC_ERROR_DATA, "no inputs are given, and create was not told to read the program's data");
  Metrics m;
  bool ok = session_evaluate(&net->s, &net->eval_data, &m);
  if (ok) model_note_results(net, &m);
  metrics_free(&m);
  return ok ? NNC_OK : NNC_ERROR_DEVICE;
}

nnc_status model_evaluate(nnc_net *net, int n, const nnc_tensor *inputs) {
  if (!count_is_fine(n, inputs)) return model_refuse(net, "evaluate: NULL");
  return model_call(net, evaluate, &(Inputs){.n = n, .inputs = inputs, .net = net});
}

// ---------------------------------------------------------------------------------------------------------------------
// A prediction

typedef struct Prediction {
  Inputs in;
  int n_outputs;
  const nnc_tensor *outputs;
} Prediction;

static const NncTensor *find_output(const NncFunction *f, const char *name) {
  for (int i = 0; name && i < f->n_results; i++)
    if (f->results[i].role == NNC_OUTPUT && !strcmp(f->results[i].name, name)) return &f->results[i];
  return NULL;
}

static bool has_rows(const NncTensor *t, int64_t batch) { return t->rank > 0 && t->dim[0] == batch; }

static nnc_status check_outputs(const NncFunction *f, const Prediction *p, int64_t batch) {
  for (int i = 0; i < p->n_outputs; i++) {
    const nnc_tensor *to = &p->outputs[i];
    const NncTensor *t = find_output(f, to->name);
    int64_t dim[NNC_MAX_RANK];
    if (!t) return FAIL(NNC_ERROR_NAME, "no output %s", to->name ? to->name : "without a name");
    memcpy(dim, t->dim, sizeof dim);
    if (has_rows(t, batch)) dim[0] = p->in.records;
    else if (p->in.records != batch)
      return FAIL(NNC_ERROR_SHAPE, "output %s has no row per record: give exactly %lld records", t->name,
                  (long long)batch);
    nnc_status status = model_check_tensor(to, t->dtype, t->rank, dim, false);
    if (status) return status;
  }
  return NNC_OK;
}

// The outputs that are asked for tell which model predicts: all are of one.
static nnc_status find_prediction(const nnc_net *net, const Prediction *p, Executor **out) {
  *out = net->s.predict[0];
  for (int i = 0; p->n_outputs && i < net->s.n_predictions; i++)
    if (find_output(executor_function(net->s.predict[i]), p->outputs[0].name)) *out = net->s.predict[i];
  for (int i = 1; i < p->n_outputs; i++)
    if (!find_output(executor_function(*out), p->outputs[i].name))
      for (int k = 0; k < net->s.n_predictions; k++)
        if (find_output(executor_function(net->s.predict[k]), p->outputs[i].name))
          return FAIL(NNC_ERROR_NAME, "%s and %s are outputs of two models: ask for one after the other",
                      p->outputs[0].name, p->outputs[i].name);
  return NNC_OK;
}

static void read_outputs(const Executor *e, const NncFunction *f, const Prediction *p, int64_t first, int64_t batch) {
  int64_t rest = p->in.records - first, n = rest < batch ? rest : batch;
  for (int i = 0; i < p->n_outputs; i++) {
    const nnc_tensor *to = &p->outputs[i];
    const NncTensor *t = find_output(f, to->name);
    bool rows = has_rows(t, batch);
    int64_t elements = tensor_elements(t) / (rows ? batch : 1);
    convert_elements(t->dtype, executor_result(e, t), (NncDtype)to->type,
                     (char *)to->data + (rows ? first * elements * dtype_bytes((NncDtype)to->type) : 0),
                     (rows ? n : 1) * elements);
  }
}

// Each batch begins a text, as in the executable.
static bool run_predictions(nnc_net *net, const Prediction *p, Executor *e, int64_t batch) {
  const NncFunction *f = executor_function(e);
  for (int64_t first = 0; first < p->in.records; first += batch) {
    if (!session_begin_text(&net->s, NULL)) return false;
    model_write_inputs(net, f, p->in.n, p->in.inputs, first, p->in.records);
    session_write_aside(&net->s, f, first / batch);
    if (!executor_run(e, NULL, NULL)) return false;
    read_outputs(e, f, p, first, batch);
  }
  return true;
}

// The model, and how many records it is given.
static nnc_status begin_prediction(nnc_net *net, Prediction *p, Executor **e) {
  if (!(net->functions & SESSION_PREDICT)) return FAIL(NNC_ERROR_FUNCTION, "this instance does not predict");
  nnc_status status = find_prediction(net, p, e);
  if (status) return status;
  const NncFunction *f = executor_function(*e);
  status = model_check_inputs(net, f, p->in.n, p->in.inputs, &p->in.records);
  if (function_is_whole(f)) p->in.records = function_rows(f);
  return status;
}

static nnc_status predict(nnc_net *net, void *arguments) {
  Prediction *p = arguments;
  Executor *e;
  nnc_status status = begin_prediction(net, p, &e);
  if (status) return status;
  const NncFunction *f = executor_function(e);
  int64_t batch = function_rows(f);
  status = check_outputs(f, p, batch);
  if (status) return status;
  char *carried;   // what goes on with the text of a training
  if (!session_save_carried(&net->s, &carried)) return NNC_ERROR_DEVICE;
  bool ok = run_predictions(net, p, e, batch);
  return session_restore_carried(&net->s, carried) && ok ? NNC_OK : NNC_ERROR_DEVICE;
}

nnc_status model_predict(nnc_net *net, int n, const nnc_tensor *inputs, int n_outputs, const nnc_tensor *outputs) {
  if (!count_is_fine(n, inputs) || !count_is_fine(n_outputs, outputs)) return model_refuse(net, "predict: NULL");
  return model_call(net, predict, &(Prediction){{.n = n, .inputs = inputs, .net = net}, n_outputs, outputs});
}

typedef struct Shape {
  Prediction of;
  nnc_tensor *output;
} Shape;

static nnc_status output_shape(nnc_net *net, void *arguments) {
  Shape *s = arguments;
  Executor *e;
  nnc_status status = begin_prediction(net, &s->of, &e);
  if (status) return status;
  const NncFunction *f = executor_function(e);
  const NncTensor *t = find_output(f, s->output->name);
  if (!t) return FAIL(NNC_ERROR_NAME, "no output %s", s->output->name ? s->output->name : "without a name");
  int64_t batch = function_rows(f), elements = tensor_elements(t);
  s->output->role = NNC_ROLE_OUTPUT;
  s->output->type = (nnc_type)t->dtype;
  s->output->rank = t->rank;
  memcpy(s->output->dim, t->dim, sizeof s->output->dim);
  if (has_rows(t, batch)) {
    s->output->dim[0] = s->of.in.records;
    elements = elements / batch * s->of.in.records;
  }
  s->output->bytes = elements * dtype_bytes(t->dtype);
  return NNC_OK;
}

nnc_status model_output_shape(nnc_net *net, int n, const nnc_tensor *inputs, nnc_tensor *output) {
  if (!count_is_fine(n, inputs) || !output) return model_refuse(net, "output_shape: NULL");
  return model_call(net, output_shape, &(Shape){{{.n = n, .inputs = inputs, .net = net}, 1, output}, output});
}

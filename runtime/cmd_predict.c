// `predict`: the model's outputs for any number of records, batch by batch; the last batch is filled up and cut. As
// numbers or, with labels, the likeliest classes of each record; a language model goes on with a text instead
// (sample.c).
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct PredictOptions {
  const char *model, *inputs, *outputs, *weights, *labels;
  int64_t draw;   // records whose inputs are drawn; 0: none
  int64_t classes;
  int64_t seed;   // of the draws; -1: not given
  DeviceOptions device;
  bool json;
  SampleOptions sample;   // temperature -1, length_penalty NaN: not given
} PredictOptions;

static const char *model_of(const NncFunction *f) { return f->name[7] ? f->name + 8 : nnc_program.model; }

static void print_inputs(void) {
  char shape[128];
  for (int k = 0; k < nnc_program.n_functions; k++) {
    const NncFunction *f = &nnc_program.functions[k];
    if (!program_predicts(f)) continue;
    printf("\nInputs of %s:\n", model_of(f));
    for (int i = 0; i < f->n_args; i++)
      if (f->args[i].role == NNC_INPUT)
        printf("  %s  %s%s%s\n", f->args[i].name, dtype_name(f->args[i].dtype),
               format_shape(f->args[i].rank, f->args[i].dim, shape, sizeof shape),
               f->args[i].whole ? "" : ", the first dimension counts records");
  }
}

// The prediction of the model that is asked for; NULL after reporting.
static const NncFunction *find_model(const PredictOptions *o) {
  const NncFunction *found = program_prediction(o->model);
  if (found) return found;
  char *list = NULL;
  for (int i = 0; i < nnc_program.n_functions; i++) {
    if (!program_predicts(&nnc_program.functions[i])) continue;
    char *longer = xasprintf("%s%s%s", list ? list : "", list ? ", " : "", model_of(&nnc_program.functions[i]));
    free(list);
    list = longer;
  }
  if (list) report_error("%s has no model '%s' to predict with: it has %s", nnc_program.source, o->model, list);
  else report_error("%s has no model to predict with", nnc_program.source);
  free(list);
  return NULL;
}

static const char *read_temperature(char *text, void *out) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !(v >= 0 && v <= 1e6)) return "a number from 0 to 1e6";
  *(double *)out = v;
  return NULL;
}

static const char *read_power(char *text, void *out) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !(fabs(v) <= 100)) return "a number from -100 to 100";
  *(double *)out = v;
  return NULL;
}

static const char *read_share(char *text, void *out) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !(v > 0 && v <= 1)) return "a number above 0, at most 1";
  *(double *)out = v;
  return NULL;
}

// What does not go together.
static bool check_options(const PredictOptions *o, const char *extra) {
  const SampleOptions *s = &o->sample;
  const NncFunction *f = program_prediction(o->model);
  bool shown = o->classes || o->labels, sampled = s->count > 0, draws = sampled || o->draw || (f && function_draws(f));
  bool sampling = s->prompt || s->end || s->temperature >= 0 || s->top_k || s->top_p > 0 || s->recompute || s->beams;
  bool drawing = s->temperature >= 0 || s->top_k || s->top_p > 0 || o->seed >= 0;
  const char *fault = extra ? "unexpected argument"
                      : sampled && (o->outputs || o->json || o->classes)
                          ? "--sample goes without --outputs, --classes and --json"
                      : !sampled && sampling
                          ? "--prompt, --end, --temperature, --top-k, --top-p, --beams and --recompute are for "
                            "--sample"
                      : isfinite(s->length_penalty) && !s->beams ? "--length-penalty is for --beams"
                      : s->beams && drawing
                          ? "--beams draws nothing: without --temperature, --top-k, --top-p and --seed"
                      : sampled && (o->model || o->draw) ? "--sample goes without --model and --draw"
                      : !draws && o->seed >= 0 ? "--seed is for --draw, --sample and for models that draw numbers"
                      : !sampled && !o->inputs && !o->draw
                          ? "--inputs is needed, or --draw, or --sample for a language model"
                      : (o->outputs || o->json) && (shown || (o->outputs && o->json))
                          ? "--outputs, --json and --classes or --labels exclude each other"
                          : NULL;
  if (fault) report_error("%s%s%s", fault, extra ? " " : "", extra ? extra : "");
  return !fault;
}

static const Option options[] = {
    OPTION(PredictOptions, model, "model", "NAME", TEXT,
           "of the models of the file (default {model}); those that there are stand below"),
    OPTION(PredictOptions, draw, "draw", "N", INTEGER,
           "N records whose inputs, but those of --inputs, are drawn: as training draws them,\nelse from a standard "
           "normal distribution",
           .least = 1),
    OPTION(PredictOptions, inputs, "inputs", "FILE", TEXT,
           "safetensors with one tensor per input of the model, called as it or as its field in the\ndata section, any "
           "number of records"),
    OPTION(PredictOptions, outputs, "outputs", "FILE", TEXT,
           "safetensors to write (default: one line per record on stdout)"),
    OPTION(PredictOptions, classes, "classes", "[=K]", INTEGER,
           "the K likeliest classes of each record, or node of a graph, with probabilities", .least = 1, .absent = 1),
    OPTION(PredictOptions, labels, "labels", "FILE", TEXT,
           "their names, one on a line (default: as the program says); implies --classes"),
    OPTION(PredictOptions, json, "json", NULL, FLAG,
           "one JSON object per record with the numbers themselves, also where there are labels"),
    OPTION(PredictOptions, sample.count, "sample", "N", INTEGER,
           "N tokens that go on with the prompt, for language models", .least = 1),
    OPTION(PredictOptions, sample.prompt, "prompt", "TEXT", TEXT,
           "the text, or the numbers of tokens where they are not bytes and have no labels"),
    OPTION(PredictOptions, sample.end, "end", "TOKEN", TEXT, "a text ends before it, if it comes within N tokens"),
    OPTION(PredictOptions, sample.temperature, "temperature", "T", READ,
           "of the draws: 1 as the model says, less is safer, 0 always the likeliest (default 1)",
           .read = read_temperature),
    OPTION(PredictOptions, sample.top_k, "top-k", "K", INTEGER, "draw from the K likeliest tokens only", .least = 1),
    OPTION(PredictOptions, sample.top_p, "top-p", "P", READ,
           "draw from the likeliest of these whose probabilities add up to P", .read = read_share),
    OPTION(PredictOptions, sample.beams, "beams", "K", INTEGER,
           "not drawn: the likeliest text that a search finds which goes on with K at once", .least = 1),
    OPTION(PredictOptions, sample.length_penalty, "length-penalty", "A", READ,
           "of texts that have ended the likeliest by log probability / length ** A (default 1)", .read = read_power),
    OPTION(PredictOptions, sample.recompute, "recompute", NULL, FLAG,
           "compute the whole context for each token, also in a program of nnc --kv-cache"),
    OPTION(PredictOptions, seed, "seed", "S", INTEGER, "of the draws (default {seed}; with --sample 0)"),
    OPTION(PredictOptions, weights, "weights", "FILE", TEXT, "checkpoint or weight file (default {model}.safetensors)"),
    OPTIONS_OF_DEVICE(PredictOptions),
};
static const Command command = {.usage = "[--model=NAME] --inputs=FILE [OPTION]...\n[--model=NAME] --draw=N "
                                         "[OPTION]...\n--sample=N [--prompt=TEXT] [--inputs=FILE] [OPTION]...",
                                .print_more = print_inputs,
                                OPTIONS(options)};

static int parse_options(int argc, char **argv, PredictOptions *o) {
  int status = options_parse(&command, argc, argv, o);
  if (status >= 0) return status;
  if (!check_options(o, optind < argc ? argv[optind] : NULL)) return options_misused(argv[0], NULL);
  SampleOptions *s = &o->sample;
  s->labels = o->labels, s->weights = o->weights, s->inputs = o->inputs, s->device = o->device;
  s->seed = o->seed >= 0 ? (uint64_t)o->seed : 0;
  if (s->temperature < 0) s->temperature = 1;
  if (s->top_p == 0) s->top_p = 1;
  if (!isfinite(s->length_penalty)) s->length_penalty = 1;
  return -1;
}

// Outputs must have one row per record, since the last batch is cut.
static bool check_outputs(const NncFunction *f, int64_t records, bool as_lines) {
  int64_t batch = function_rows(f);
  for (int i = 0; i < f->n_results; i++) {
    const NncTensor *t = &f->results[i];
    if (t->role != NNC_OUTPUT || (t->rank > 0 && t->dim[0] == batch)) continue;
    if (as_lines) {
      report_error("output %s has no row per record: write it to a file with --outputs", t->name);
      return false;
    }
    if (records == batch) continue;
    report_error("output %s has no row per record: give exactly %lld records", t->name, (long long)batch);
    return false;
  }
  return true;
}

// With as many digits as give the number back. JSON has no NaN and no infinity.
static void print_number(NncDtype dtype, const char *at) {
  if (!dtype_is_float(dtype)) {
    int64_t v;
    convert_elements(dtype, at, NNC_I64, &v, 1);
    printf("%lld", (long long)v);
    return;
  }
  double v;
  convert_elements(dtype, at, NNC_F64, &v, 1);
  if (v == 0 && signbit(v)) fputs("-0.0", stdout);   // many readers take -0 for an integer
  else if (isfinite(v)) printf("%.*g", dtype == NNC_F64 ? 17 : 9, v);
  else fputs("null", stdout);
}

static void print_json(const Executor *e, int64_t records, int64_t batch) {
  const NncFunction *f = executor_function(e);
  for (int64_t r = 0; r < records; r++) {
    putchar('{');
    for (int i = 0, n = 0; i < f->n_results; i++) {
      const NncTensor *t = &f->results[i];
      if (t->role != NNC_OUTPUT) continue;
      int64_t per_record = tensor_elements(t) / batch, element = dtype_bytes(t->dtype);
      printf("%s\"%s\":[", n++ ? "," : "", t->name);
      for (int64_t k = 0; k < per_record; k++) {
        if (k) putchar(',');
        print_number(t->dtype, executor_result(e, t) + (r * per_record + k) * element);
      }
      putchar(']');
    }
    puts("}");
  }
}

// The scores of classes: the first output with one row of them for each record. NULL after reporting.
static const NncTensor *find_scores(const NncFunction *f) {
  for (int i = 0; i < f->n_results; i++) {
    const NncTensor *t = &f->results[i];
    if (t->role == NNC_OUTPUT && t->rank == 2 && t->dim[0] == function_rows(f) && t->dim[1] > 1) return t;
  }
  report_error("%s has no output with a row of class scores per record%s", nnc_program.model,
               nnc_program.n_labels ? "; --json prints what it has" : "");
  return NULL;
}

static void print_batch_classes(const PredictOptions *o, const Labels *l, const NncTensor *t, const char *result,
                                int64_t first, int64_t n) {
  double *scores = xmalloc(sizeof *scores * (size_t)t->dim[1]);
  int64_t bytes = t->dim[1] * dtype_bytes(t->dtype);
  for (int64_t r = 0; r < n; r++) {
    convert_elements(t->dtype, result + r * bytes, NNC_F64, scores, t->dim[1]);
    print_classes(l, first + r, scores, t->dim[1], o->classes ? o->classes : 1);
  }
  free(scores);
}

// Files hold f32 where the program computes in bf16 or f16.
static NncDtype written_dtype(const NncTensor *t) {
  return t->dtype == NNC_BF16 || t->dtype == NNC_F16 ? NNC_F32 : t->dtype;
}

static SafetensorsWriter *begin_outputs(const char *path, const NncFunction *f, int64_t records) {
  SafetensorsWriter *w = safetensors_create(path);
  for (int i = 0; i < f->n_results; i++) {
    NncTensor t = f->results[i];
    if (t.role != NNC_OUTPUT) continue;
    if (t.rank > 0) t.dim[0] = t.dim[0] == function_rows(f) ? records : t.dim[0];
    safetensors_declare(w, t.name, written_dtype(&t), t.rank, t.dim);
  }
  if (safetensors_begin(w)) return w;
  safetensors_abandon(w);
  return NULL;
}

static bool put_batch(SafetensorsWriter *w, const Executor *e, int64_t first, int64_t n) {
  const NncFunction *f = executor_function(e);
  int64_t batch = function_rows(f);
  for (int i = 0, index = 0; i < f->n_results; i++) {
    const NncTensor *t = &f->results[i];
    if (t->role != NNC_OUTPUT) continue;
    bool has_rows = t->rank > 0 && t->dim[0] == batch;
    NncDtype dtype = written_dtype(t);
    int64_t elements = has_rows ? tensor_elements(t) / batch : tensor_elements(t), row = elements * dtype_bytes(dtype),
            rows = has_rows ? n : 1;
    void *wide = dtype == t->dtype ? NULL : xmalloc((size_t)(rows * row));
    const void *values = executor_result(e, t);
    if (wide) convert_elements(t->dtype, values, dtype, wide, rows * elements);
    bool ok = safetensors_put(w, index++, has_rows ? first * row : 0, wide ? wide : values, rows * row);
    free(wide);
    if (!ok) return false;
  }
  return true;
}

static bool predict(const PredictOptions *o, const NncFunction *f, const InputSource *in, int64_t records,
                    const Labels *labels) {
  Session s = {0};
  int64_t batch = function_rows(f);
  if (function_is_whole(f)) records = batch;
  bool show = !o->outputs && !o->json && (o->classes || labels->n);
  const NncTensor *scores = show ? find_scores(f) : NULL;
  bool ok = (show ? scores && labels_check(labels, scores->dim[1]) : check_outputs(f, records, !o->outputs)) &&
            session_open(&s, SESSION_PREDICT, f, &o->device) && weights_load_given(o->weights, &s.arena) &&
            arena_push_persistent(&s.arena);
  ok = ranks_begin_together(ok, &s, o->weights, (RankFact){"records", (uint64_t)records, true},
                            (RankFact){"other inputs", o->inputs ? ranks_file_sum(o->inputs) : 0, false});
  if (o->seed >= 0) s.seed_aside = (uint64_t)o->seed;
  InputSource from = *in;
  from.seed = s.seed_aside;
  bool writes = o->outputs && ranks.rank == 0, began = ok;
  SafetensorsWriter *w = ok && writes ? begin_outputs(o->outputs, f, records) : NULL;
  ok = ok && (w || !writes);
  for (int64_t first = 0; first < records && ok; first += batch) {
    int64_t n = records - first < batch ? records - first : batch;
    ok = session_begin_text(&s, NULL) && inputs_read(&from, f, first, s.arena.base);
    if (!ok) break;
    session_write_aside(&s, f, first / batch);
    const Executor *e = s.predict[0];
    ok = executor_run(s.predict[0], NULL, NULL) && !signals_stop_requested();
    if (ok && w) ok = put_batch(w, e, first, n);
    else if (ok && show) print_batch_classes(o, labels, scores, executor_result(e, scores), first, n);
    else if (ok && !o->outputs) print_json(e, n, batch);
  }
  if (w && ok) ok = safetensors_commit(w);
  else if (w) safetensors_abandon(w);
  if (began) ranks_end_together(ok);
  session_close(&s);
  return ok;
}

static bool outputs_spare(const PredictOptions *o) {
  char *weights = o->weights ? xstrdup(o->weights) : checkpoint_default_path();
  bool spared = output_path_check(o->outputs) && checkpoint_spared(o->outputs) &&
                output_spares(o->outputs, o->inputs) && output_spares(o->outputs, weights);
  free(weights);
  return spared;
}

static bool predict_file(const PredictOptions *o, const NncFunction *f) {
  Safetensors in;
  Labels labels;
  int64_t records;
  bool opened = false, own = strcmp(model_of(f), nnc_program.model) == 0;   // the program's labels are its classes
  if (!labels_open(&labels, o->labels)) return ranks_agree(false);
  if (!own && !o->labels) labels_close(&labels);
  if ((o->outputs && !outputs_spare(o)) || (o->inputs && !(opened = safetensors_open(o->inputs, &in)))) {
    labels_close(&labels);
    return ranks_agree(false);
  }
  InputSource from = {.file = opened ? &in : NULL, .drawn = o->draw};
  bool ok = inputs_check(&from, f, &records) ? predict(o, f, &from, records, &labels) : ranks_agree(false);
  labels_close(&labels);
  if (opened) safetensors_close(&in);
  return ok;
}

int cmd_predict(int argc, char **argv) {
  PredictOptions o = {.seed = -1, .sample.temperature = -1, .sample.length_penalty = NAN};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  const NncFunction *f = find_model(&o);
  if (!f) return EXIT_DIAGNOSTIC;
  bool needed,
      ok = ranks_open_together(&needed) && (!needed || (o.sample.count ? sample_text(&o.sample) : predict_file(&o, f)));
  return ranks_close(ok ? EXIT_DONE : signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC);
}

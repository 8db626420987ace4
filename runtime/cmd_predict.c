// `predict`: the model's outputs for any number of records, batch by batch; the last batch is filled up and cut. As
// numbers or, with labels, the likeliest classes of each record; a language model goes on with a text instead
// (sample.c).
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

typedef struct PredictOptions {
  const char *inputs, *outputs, *weights, *labels;
  int64_t classes, seed;
  int threads, device;
  bool json;
  SampleOptions sample;
  bool has_sample, has_sample_option;
} PredictOptions;

static void print_help(void) {
  printf("Usage: %s predict --inputs=FILE [OPTION]...\n"
         "       %s predict --sample=N [--prompt=TEXT] [OPTION]...\n\n"
         "  --inputs=FILE   safetensors with one tensor per input of the model, called as it or as its field in the "
         "data section, any number of records\n"
         "  --outputs=FILE  safetensors to write (default: one line per record on stdout)\n"
         "  --classes[=K]   the K likeliest classes of each record, or node of a graph, with probabilities\n"
         "  --labels=FILE   their names, one on a line (default: as the program says); implies --classes\n"
         "  --json          one JSON object per record with the numbers themselves, also where there are labels\n"
         "  --sample=N      N tokens that go on with the prompt, for language models\n"
         "  --prompt=TEXT   the text, or the numbers of tokens where they are not bytes and have no labels\n"
         "  --temperature=T of the draws: 1 as the model says, less is safer, 0 always the likeliest (default 1)\n"
         "  --top-k=K       draw from the K likeliest tokens only\n"
         "  --seed=S        of the draws (default 0)\n"
         "  --weights=FILE  checkpoint or weight file (default %s.safetensors)\n"
         "  --threads=N, --device=N   threads of the host, number of the GPU\n      --help\n\nInputs:\n",
         report_name(), report_name(), nnc_program.model);
  const NncFunction *f = program_function("predict");
  char shape[128];
  for (int i = 0; f && i < f->n_args; i++)
    if (f->args[i].role == NNC_INPUT)
      printf("  %s  %s%s%s\n", f->args[i].name, dtype_name(f->args[i].dtype),
             format_shape(f->args[i].rank, f->args[i].dim, shape, sizeof shape),
             f->args[i].whole ? "" : ", the first dimension counts records");
}

static bool option_temperature(const char *text, double *out) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !(v >= 0 && v <= 1e6)) {
    report_error("--temperature expects a number of at least 0, not \"%s\"", text);
    return false;
  }
  *out = v;
  return true;
}

// What does not go together.
static bool check_options(const PredictOptions *o, const char *extra) {
  bool shown = o->classes || o->labels;
  const char *fault = extra ? "unexpected argument"
                      : o->has_sample && (o->inputs || o->outputs || o->json || o->classes)
                          ? "--sample goes without --inputs, --outputs, --classes and --json"
                      : !o->has_sample && o->has_sample_option
                          ? "--prompt, --temperature, --top-k and --seed are for --sample"
                      : !o->has_sample && !o->inputs ? "--inputs is needed, or --sample for a language model"
                      : (o->outputs || o->json) && (shown || (o->outputs && o->json))
                          ? "--outputs, --json and --classes or --labels exclude each other"
                          : NULL;
  if (fault) report_error("%s%s%s", fault, extra ? " " : "", extra ? extra : "");
  return !fault;
}

static int parse_options(int argc, char **argv, PredictOptions *o) {
  static const struct option options[] = {
      {"inputs", required_argument, NULL, 'i'},
      {"outputs", required_argument, NULL, 'o'},
      {"weights", required_argument, NULL, 'w'},
      {"classes", optional_argument, NULL, 'c'},
      {"labels", required_argument, NULL, 'l'},
      {"json", no_argument, NULL, 'j'},
      {"sample", required_argument, NULL, 'S'},
      {"prompt", required_argument, NULL, 'p'},
      {"temperature", required_argument, NULL, 'T'},
      {"top-k", required_argument, NULL, 'k'},
      {"seed", required_argument, NULL, 's'},
      {"threads", required_argument, NULL, 't'},
      {"device", required_argument, NULL, 'D'},
      {"help", no_argument, NULL, 'h'},
      {0},
  };
  bool ok = true;
  o->sample.temperature = 1;
  for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    o->has_sample_option |= c == 'p' || c == 'T' || c == 'k' || c == 's';
    switch (c) {
    case 'i': o->inputs = optarg; break;
    case 'o': o->outputs = optarg; break;
    case 'w': o->weights = optarg; break;
    case 'c': o->classes = 1, ok = !optarg || option_integer("classes", optarg, 1, &o->classes); break;
    case 'l': o->labels = optarg; break;
    case 'j': o->json = true; break;
    case 'S': ok = option_integer("sample", optarg, 1, &o->sample.count), o->has_sample = true; break;
    case 'p': o->sample.prompt = optarg; break;
    case 'T': ok = option_temperature(optarg, &o->sample.temperature); break;
    case 'k': ok = option_integer("top-k", optarg, 1, &o->sample.top_k); break;
    case 's': ok = option_integer("seed", optarg, 0, &o->seed); break;
    case 't': ok = option_count("threads", optarg, 1, &o->threads); break;
    case 'D': ok = option_count("device", optarg, 0, &o->device); break;
    case 'h': print_help(); return EXIT_DONE;
    default: ok = false;
    }
  }
  if (!ok || !check_options(o, optind < argc ? argv[optind] : NULL)) return option_unknown("predict");
  o->sample.labels = o->labels, o->sample.weights = o->weights, o->sample.seed = (uint64_t)o->seed;
  o->sample.device = (DeviceOptions){o->threads, o->device};
  return -1;
}

// Records per call. A function of whole inputs, such as one of a graph, has the rows of its first output: the nodes.
static int64_t rows_per_call(const NncFunction *f) {
  for (int i = 0; function_is_whole(f) && i < f->n_results; i++)
    if (f->results[i].role == NNC_OUTPUT && f->results[i].rank > 0) return f->results[i].dim[0];
  return function_batch(f);
}

// Outputs must have one row per record, since the last batch is cut.
static bool check_outputs(const NncFunction *f, int64_t records, bool as_lines) {
  int64_t batch = rows_per_call(f);
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
    if (t->role == NNC_OUTPUT && t->rank == 2 && t->dim[0] == rows_per_call(f) && t->dim[1] > 1) return t;
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
    if (t.rank > 0) t.dim[0] = t.dim[0] == rows_per_call(f) ? records : t.dim[0];
    safetensors_declare(w, t.name, written_dtype(&t), t.rank, t.dim);
  }
  if (safetensors_begin(w)) return w;
  safetensors_abandon(w);
  return NULL;
}

static bool put_batch(SafetensorsWriter *w, const Executor *e, int64_t first, int64_t n) {
  const NncFunction *f = executor_function(e);
  int64_t batch = rows_per_call(f);
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

static bool predict(const PredictOptions *o, const NncFunction *f, const Safetensors *in, int64_t records,
                    const Labels *labels) {
  Session s = {0};
  int64_t batch = rows_per_call(f);
  if (function_is_whole(f)) records = batch;
  bool show = !o->outputs && !o->json && (o->classes || labels->n);
  const NncTensor *scores = show ? find_scores(f) : NULL;
  bool ok = (show ? scores && labels_check(labels, scores->dim[1]) : check_outputs(f, records, !o->outputs)) &&
            session_open(&s, SESSION_PREDICT, &(DeviceOptions){o->threads, o->device}) &&
            weights_load_given(o->weights, s.arena.base) && arena_push_persistent(&s.arena);
  SafetensorsWriter *w = ok && o->outputs ? begin_outputs(o->outputs, f, records) : NULL;
  ok = ok && (w || !o->outputs);
  for (int64_t first = 0; first < records && ok; first += batch) {
    int64_t n = records - first < batch ? records - first : batch;
    ok = session_begin_text(&s, NULL) && inputs_read(in, f, first, s.arena.base);
    if (!ok) break;
    session_write_arguments(&s, f, 0, 0);
    ok = executor_run(s.predict, NULL, NULL) && !signals_stop_requested();
    if (ok && w) ok = put_batch(w, s.predict, first, n);
    else if (ok && show) print_batch_classes(o, labels, scores, executor_result(s.predict, scores), first, n);
    else if (ok) print_json(s.predict, n, batch);
  }
  if (w && ok) ok = safetensors_commit(w);
  else if (w) safetensors_abandon(w);
  session_close(&s);
  return ok;
}

int cmd_predict(int argc, char **argv) {
  PredictOptions o = {0};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  const NncFunction *f = program_function("predict");
  if (!f) {
    report_error("%s has no model to predict with", nnc_program.source);
    return EXIT_DIAGNOSTIC;
  }
  if (o.has_sample)
    return sample_text(&o.sample) ? EXIT_DONE : signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC;
  Safetensors in;
  Labels labels;
  int64_t records;
  if (!labels_open(&labels, o.labels)) return EXIT_DIAGNOSTIC;
  if ((o.outputs && !output_path_check(o.outputs)) || !safetensors_open(o.inputs, &in)) {
    labels_close(&labels);
    return EXIT_DIAGNOSTIC;
  }
  bool ok = inputs_check(&in, f, &records) && predict(&o, f, &in, records, &labels);
  labels_close(&labels);
  safetensors_close(&in);
  if (ok) return EXIT_DONE;
  return signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC;
}

// `predict`: the model's outputs for any number of records, batch by batch; the last batch is filled up and cut.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

typedef struct PredictOptions { const char *inputs, *outputs, *weights; int64_t threads, device; } PredictOptions;

static void print_help(void) {
  printf("Usage: %s predict --inputs=FILE [OPTION]...\n\n"
         "  --inputs=FILE   safetensors with one tensor per input of the model, any number of records\n"
         "  --outputs=FILE  safetensors to write (default: one JSON line per record on stdout)\n"
         "  --weights=FILE  checkpoint or weight file (default %s.safetensors)\n"
         "  --threads=N, --device=N   threads of the host, number of the GPU\n      --help\n\nInputs:\n", report_name(), nnc_program.model);
  const NncFunction *f = program_function("predict");
  char shape[128];
  for (int i = 0; f && i < f->n_args; i++)
    if (f->args[i].role == NNC_INPUT)
      printf("  %s  %s%s, the first dimension counts records\n", f->args[i].name, dtype_name(f->args[i].dtype),
             format_shape(f->args[i].rank, f->args[i].dim, shape, sizeof shape));
}

static int parse_options(int argc, char **argv, PredictOptions *o) {
  static const struct option options[] = {
    {"inputs", required_argument, NULL, 'i'}, {"outputs", required_argument, NULL, 'o'}, {"weights", required_argument, NULL, 'w'},
    {"threads", required_argument, NULL, 't'}, {"device", required_argument, NULL, 'D'}, {"help", no_argument, NULL, 'h'}, {0},
  };
  bool ok = true;
  for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) switch (c) {
    case 'i': o->inputs = optarg; break;
    case 'o': o->outputs = optarg; break;
    case 'w': o->weights = optarg; break;
    case 't': ok = option_integer("threads", optarg, 1, &o->threads); break;
    case 'D': ok = option_integer("device", optarg, 0, &o->device); break;
    case 'h': print_help(); return EXIT_DONE;
    default: ok = false;
    }
  if (ok && (optind < argc || !o->inputs)) {
    report_error(optind < argc ? "unexpected argument" : "--inputs is needed");
    ok = false;
  }
  return ok ? -1 : option_unknown("predict");
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

static void print_json(const NncFunction *f, const char *arena, int64_t records, int64_t batch) {
  for (int64_t r = 0; r < records; r++) {
    putchar('{');
    for (int i = 0, n = 0; i < f->n_results; i++) {
      const NncTensor *t = &f->results[i];
      if (t->role != NNC_OUTPUT) continue;
      int64_t per_record = tensor_elements(t) / batch, element = dtype_bytes(t->dtype);
      printf("%s\"%s\":[", n++ ? "," : "", t->name);
      for (int64_t k = 0; k < per_record; k++) {
        double v;
        convert_elements(t->dtype, arena + t->offset + (r * per_record + k) * element, NNC_F64, &v, 1);
        printf("%s%.9g", k ? "," : "", v);
      }
      putchar(']');
    }
    puts("}");
  }
}

static SafetensorsWriter *begin_outputs(const char *path, const NncFunction *f, int64_t records) {
  SafetensorsWriter *w = safetensors_create(path);
  for (int i = 0; i < f->n_results; i++) {
    NncTensor t = f->results[i];
    if (t.role != NNC_OUTPUT) continue;
    if (t.rank > 0) t.dim[0] = t.dim[0] == rows_per_call(f) ? records : t.dim[0];
    safetensors_declare(w, t.name, t.dtype, t.rank, t.dim);
  }
  if (safetensors_begin(w)) return w;
  safetensors_abandon(w);
  return NULL;
}

static bool put_batch(SafetensorsWriter *w, const NncFunction *f, const char *arena, int64_t first, int64_t n) {
  int64_t batch = rows_per_call(f);
  for (int i = 0, index = 0; i < f->n_results; i++) {
    const NncTensor *t = &f->results[i];
    if (t->role != NNC_OUTPUT) continue;
    bool has_rows = t->rank > 0 && t->dim[0] == batch;
    int64_t row = has_rows ? t->bytes / batch : t->bytes;
    if (!safetensors_put(w, index++, has_rows ? first * row : 0, arena + t->offset, has_rows ? n * row : row)) return false;
  }
  return true;
}

static bool predict(const PredictOptions *o, const NncFunction *f, const Safetensors *in, int64_t records) {
  Session s = {0};
  int64_t batch = rows_per_call(f);
  if (function_is_whole(f)) records = batch;
  char *path = o->weights ? xstrdup(o->weights) : checkpoint_default_path();
  bool ok = check_outputs(f, records, !o->outputs) && session_open(&s, SESSION_PREDICT, &(DeviceOptions){(int)o->threads, (int)o->device}) && weights_load(path, s.arena.base) &&
            arena_push_persistent(&s.arena);
  SafetensorsWriter *w = ok && o->outputs ? begin_outputs(o->outputs, f, records) : NULL;
  ok = ok && (w || !o->outputs);
  for (int64_t first = 0; first < records && ok; first += batch) {
    int64_t n = records - first < batch ? records - first : batch;
    ok = inputs_read(in, f, first, s.arena.base);
    if (!ok) break;
    session_write_arguments(&s, f, 0, 0);
    ok = executor_run(s.predict, NULL, NULL) && !signals_stop_requested();
    if (ok && w) ok = put_batch(w, f, s.arena.base, first, n);
    else if (ok) print_json(f, s.arena.base, n, batch);
  }
  if (w && ok) ok = safetensors_commit(w);
  else if (w) safetensors_abandon(w);
  session_close(&s);
  free(path);
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
  Safetensors in;
  int64_t records;
  if ((o.outputs && !output_path_check(o.outputs)) || !safetensors_open(o.inputs, &in)) return EXIT_DIAGNOSTIC;
  bool ok = inputs_check(&in, f, &records) && predict(&o, f, &in, records);
  safetensors_close(&in);
  if (ok) return EXIT_DONE;
  return signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC;
}

// `eval`: losses and metrics of saved weights, as means over every record of the eval data.
#include <getopt.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct EvalOptions {
  const char *data, *weights;
  DeviceOptions device;
  bool json;
} EvalOptions;

static const Option options[] = {
    OPTION(EvalOptions, weights, "weights", "FILE", TEXT, "checkpoint or weight file (default {model}.safetensors)"),
    OPTION(EvalOptions, data, "data", "DIR", TEXT, "folder of the data files"),
    OPTION(EvalOptions, json, "json", NULL, FLAG, "one JSON object instead of text"),
    OPTIONS_OF_DEVICE(EvalOptions),
};
static const Command command = {.usage = "[OPTION]...", OPTIONS(options)};

static int parse_options(int argc, char **argv, EvalOptions *o) {
  int status = options_parse(&command, argc, argv, o);
  if (status >= 0) return status;
  if (optind == argc) return -1;
  report_error("unexpected argument %s", argv[optind]);
  return options_misused(argv[0], NULL);
}

static bool evaluate(const EvalOptions *o, const NncFunction *f) {
  Dataset train = {0}, d = {0};
  Session s = {0};
  Metrics m = {0};
  bool ok = dataset_has_split("eval") ? dataset_load("eval", f, o->data, &d)
                                      : dataset_load("train", f, o->data, &train);
  if (ok && train.records) ok = dataset_validation(&train, f, &d);
  ok = ok && session_open(&s, SESSION_EVAL, NULL, &o->device) && weights_load_given(o->weights, &s.arena) &&
       arena_push_persistent(&s.arena);
  ok = ranks_begin_together(ok, &s, o->weights, (RankFact){"eval records", (uint64_t)d.records, true},
                            (RankFact){"other eval data", ranks_data_sum(&d), false});
  ok = ok && ranks_end_together(session_evaluate(&s, &d, &m));
  bool measured = ok;
  for (int i = 0; measured && i < m.n; i++) {
    if (isfinite(m.values[i])) continue;
    report_error("%s is not a finite number", m.names[i]);
    ok = false;
  }
  if (measured && o->json) {
    log_evaluation(stdout, &m, d.records);
  } else if (measured) {
    for (int i = 0; i < m.n; i++) printf("%s %.6g\n", m.names[i], m.values[i]);
    printf("records %lld\n", (long long)d.records);
  }
  metrics_free(&m);
  session_close(&s);
  dataset_free(&d);
  dataset_free(&train);
  return ok;
}

int cmd_eval(int argc, char **argv) {
  EvalOptions o = {0};
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  const NncFunction *f = program_function("eval");
  if (!f || (!dataset_has_split("eval") && !(nnc_program.validation > 0))) {
    report_error("%s names no eval data", nnc_program.source);
    return EXIT_DIAGNOSTIC;
  }
  bool needed, ok = ranks_open_together(&needed) && (!needed || evaluate(&o, f));
  return ranks_close(ok ? EXIT_DONE : signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC);
}

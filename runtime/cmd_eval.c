// `eval`: losses and metrics of saved weights, as means over every record of the eval data.
#include <getopt.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/runtime.h"

typedef struct EvalOptions {
  const char *data, *weights;
  int threads, device;
  bool json;
} EvalOptions;

static void print_help(void) {
  printf("Usage: %s eval [OPTION]...\n\n"
         "  --weights=FILE  checkpoint or weight file (default %s.safetensors)\n"
         "  --data=DIR      folder of the data files\n"
         "  --json          one JSON object instead of text\n"
         "  --threads=N, --device=N   threads of the host, number of the GPU\n      --help\n",
         report_name(), nnc_program.model);
}

static int parse_options(int argc, char **argv, EvalOptions *o) {
  static const struct option options[] = {
      {"data", required_argument, NULL, 'd'},
      {"weights", required_argument, NULL, 'w'},
      {"threads", required_argument, NULL, 't'},
      {"device", required_argument, NULL, 'D'},
      {"json", no_argument, NULL, 'j'},
      {"help", no_argument, NULL, 'h'},
      {0},
  };
  bool ok = true;
  for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) switch (c) {
    case 'd': o->data = optarg; break;
    case 'w': o->weights = optarg; break;
    case 't': ok = option_count("threads", optarg, 1, &o->threads); break;
    case 'D': ok = option_count("device", optarg, 0, &o->device); break;
    case 'j': o->json = true; break;
    case 'h': print_help(); return EXIT_DONE;
    default: ok = false;
    }
  if (ok && optind < argc) {
    report_error("unexpected argument %s", argv[optind]);
    ok = false;
  }
  return ok ? -1 : option_unknown("eval");
}

static bool evaluate(const EvalOptions *o, const NncFunction *f) {
  Dataset train = {0}, d = {0};
  Session s = {0};
  Metrics m = {0};
  bool ok = dataset_has_split("eval") ? dataset_load("eval", f, o->data, &d)
                                      : dataset_load("train", f, o->data, &train);
  if (ok && train.records) ok = dataset_validation(&train, f, &d);
  ok = ok && session_open(&s, SESSION_EVAL, &(DeviceOptions){o->threads, o->device}) &&
       weights_load_given(o->weights, s.arena.base) && arena_push_persistent(&s.arena);
  ok = ok && session_evaluate(&s, &d, &m);
  bool measured = ok;
  for (int i = 0; measured && i < m.n; i++) {
    if (isfinite(m.values[i])) continue;
    report_error("%s is not a finite number", m.names[i]);
    ok = false;
  }
  if (measured && o->json) {
    Log log = {.file = stdout};
    log_record(&log, "eval", 0, 0, &m, -1, 0);
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
  if (evaluate(&o, f)) return EXIT_DONE;
  return signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC;
}

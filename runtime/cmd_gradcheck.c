// gradcheck: compares every parameter's gradient with central differences of the loss, (f(x+h) - f(x-h)) / 2h. Meant
// for programs in f64 without data; the random draws of one step are the same in every evaluation, so dropout can be
// checked too.
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static void usage(FILE *out) {
  fprintf(out,
          "usage: %s gradcheck [--elements N] [--bound X] [--seed S] [--threads N] [--device N]\n"
          "Compares gradients with finite differences of the loss.\n"
          "  --elements N   check at most N elements of each parameter, evenly spaced (default 64)\n"
          "  --bound X      largest difference allowed, relative to the parameter's largest gradient (default 1e-6)\n"
          "  --seed S       of the initial parameters and the draws (default: the program's)\n"
          "  --threads N, --device N   threads of the host, number of the GPU\n",
          report_name());
}

typedef struct Gradients {
  int n;
  const NncTensor **parameter;
  double **value;
} Gradients;

// Keeps a copy of each "grad.<parameter>" as it passes.
static void take_gradient(void *context, const NncTensor *tensor, const char *arena) {
  Gradients *g = context;
  if (strncmp(tensor->name, "grad.", 5) != 0) return;
  for (int i = 0; i < g->n; i++) {
    if (strcmp(g->parameter[i]->name, tensor->name + 5) != 0) continue;
    int64_t n = tensor_elements(tensor);
    char *logical = xmalloc((size_t)tensor->bytes);
    tensor_from_arena(tensor, arena, logical);
    g->value[i] = xmalloc((size_t)n * sizeof(double));
    convert_elements(tensor->dtype, logical, NNC_F64, g->value[i], n);
    // With accumulation the gradient is a mean over micro-batches, of which this run is one and the others are zero.
    for (int64_t k = 0; k < n; k++) g->value[i][k] *= (double)nnc_program.accumulate;
    free(logical);
  }
}

// failed: the device has, and said why
typedef struct Check {
  Session *session;
  const NncFunction *f;
  char *saved;
  double *logical;
  void *narrow;
  bool failed;
} Check;

static double loss_at(Check *c, const NncTensor *p) {
  char *base = c->session->arena.base;
  memcpy(base, c->saved, (size_t)nnc_program.persistent_bytes);
  convert_elements(NNC_F64, c->logical, p->dtype, c->narrow, tensor_elements(p));
  tensor_to_arena(p, c->narrow, base);
  session_write_arguments(c->session, c->f, 0, 0);
  if (!arena_push_persistent(&c->session->arena) || !executor_run(c->session->train, NULL, NULL)) {
    c->failed = true;
    return NAN;
  }
  Metrics m;
  metrics_init(&m, c->f);
  metrics_read(&m, c->f, base, 1);
  double loss = metrics_loss(&m, c->f);
  metrics_free(&m);
  return loss;
}

// The largest difference over the checked elements, relative to the largest gradient element.
static double check_parameter(Check *c, const NncTensor *p, const double *gradient, int64_t elements) {
  int64_t n = tensor_elements(p), step = n > elements ? n / elements : 1;
  double worst = 0, scale = 1e-8;
  memcpy(c->session->arena.base, c->saved, (size_t)nnc_program.persistent_bytes);
  c->narrow = xmalloc((size_t)p->bytes);
  c->logical = xmalloc((size_t)n * sizeof(double));
  tensor_from_arena(p, c->session->arena.base, c->narrow);
  convert_elements(p->dtype, c->narrow, NNC_F64, c->logical, n);
  for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(gradient[i]));
  for (int64_t i = 0; i < n && !c->failed && !isnan(worst); i += step) {
    double x = c->logical[i], h = (p->dtype == NNC_F64 ? 1e-5 : 1e-2) * fmax(1, fabs(x));
    c->logical[i] = x + h;
    double above = loss_at(c, p);
    c->logical[i] = x - h;
    double below = loss_at(c, p);
    c->logical[i] = x;
    double difference = fabs((above - below) / (2 * h) - gradient[i]) / scale;
    if (!(difference <= worst)) worst = difference;
  }
  free(c->narrow);
  free(c->logical);
  return worst;
}

static int check_all(Session *s, int64_t elements, double bound) {
  Check c = {.session = s, .f = executor_function(s->train)};
  Gradients g = {0, xcalloc((size_t)nnc_program.n_persistent + 1, sizeof *g.parameter),
                 xcalloc((size_t)nnc_program.n_persistent + 1, sizeof *g.value)};
  int failed = 0, checked = 0;
  for (int i = 0; i < nnc_program.n_persistent; i++)
    if (nnc_program.persistent[i].role == NNC_PARAM) g.parameter[g.n++] = &nnc_program.persistent[i];
  c.saved = xmalloc((size_t)nnc_program.persistent_bytes + 1);
  memcpy(c.saved, s->arena.base, (size_t)nnc_program.persistent_bytes);
  session_write_arguments(s, c.f, 0, 0);
  if (!arena_push_persistent(&s->arena) || !executor_run(s->train, take_gradient, &g)) return EXIT_DIAGNOSTIC;
  for (int i = 0; i < g.n; i++) {
    if (!g.value[i]) continue;   // frozen, or not on the way to the loss
    double worst = c.failed ? NAN : check_parameter(&c, g.parameter[i], g.value[i], elements);
    bool ok = worst <= bound;
    if (!c.failed)
      printf("%-40s largest relative difference %.2e %s\n", g.parameter[i]->name, worst, ok ? "ok" : "TOO FAR");
    failed += !ok;
    checked++;
    free(g.value[i]);
  }
  if (!c.failed) printf("gradcheck: %d passed, %d failed\n", checked - failed, failed);
  free(c.saved);
  free(g.parameter);
  free(g.value);
  return failed || !checked ? EXIT_DIAGNOSTIC : EXIT_DONE;
}

int cmd_gradcheck(int argc, char **argv) {
  static const struct option options[] = {{"elements", required_argument, NULL, 'n'},
                                          {"bound", required_argument, NULL, 'b'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"device", required_argument, NULL, 'D'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  int64_t elements = 64, seed = nnc_program.seed;
  double bound = 1e-6;
  DeviceOptions device = {0};
  for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    switch (c) {
    case 'n':
      if (!option_integer("elements", optarg, 1, &elements)) return EXIT_USAGE;
      break;
    case 'b':
      if (!option_number("bound", optarg, &bound)) return EXIT_USAGE;
      break;
    case 's':
      if (!option_integer("seed", optarg, 0, &seed)) return EXIT_USAGE;
      break;
    case 't':
      if (!option_count("threads", optarg, 1, &device.threads)) return EXIT_USAGE;
      break;
    case 'D':
      if (!option_count("device", optarg, 0, &device.device)) return EXIT_USAGE;
      break;
    case 'h': usage(stdout); return EXIT_DONE;
    default: return option_unknown("gradcheck");
    }
  }
  const NncFunction *f = program_function("train");
  for (int i = 0; f && i < f->n_args; i++) {
    if (f->args[i].role != NNC_INPUT) continue;
    report_error("gradcheck needs a program without data, this one reads '%s'", f->args[i].name);
    return EXIT_DIAGNOSTIC;
  }
  Session s;
  if (!session_open(&s, SESSION_TRAIN, &device)) return EXIT_DIAGNOSTIC;
  s.seed = (uint64_t)seed;
  int status = init_persistent(s.arena.base, s.seed) ? check_all(&s, elements, bound) : EXIT_DIAGNOSTIC;
  session_close(&s);
  return status;
}

// gradcheck: compares every parameter's gradient with central differences of the loss, (f(x+h) - f(x-h)) / 2h. Meant
// for programs in f64 without data; the random draws of one step are the same in every evaluation, so dropout can be
// checked too.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

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
  Executor *e;   // of f
  char *saved;
  double *logical;
  void *narrow;
  bool failed;
} Check;

// Of both arenas, the far one's behind the other.
static bool restore(const Check *c) {
  const Arena *a = &c->session->arena;
  int64_t near = nnc_program.persistent_bytes, far = nnc_program.far_persistent_bytes;
  return arena_write(a, 0, c->saved, near) && (!far || arena_write(a, FAR_ADDRESS, c->saved + near, far));
}

static double loss_at(Check *c, const NncTensor *p) {
  char *base = c->session->arena.base;
  convert_elements(NNC_F64, c->logical, p->dtype, c->narrow, tensor_elements(p));
  session_write_arguments(c->session, c->f, 0, 0);
  if (!restore(c) || !arena_write(&c->session->arena, p->offset, c->narrow, p->bytes) ||
      !arena_push_persistent(&c->session->arena) || !executor_run(c->e, NULL, NULL)) {
    c->failed = true;
    return NAN;
  }
  Metrics m;
  metrics_init(&m, c->f);
  metrics_read(&m, c->f, base, 1);
  double loss = metrics_loss(&m);
  metrics_free(&m);
  return loss;
}

// What two losses, each within two units in the last place, make of a difference quotient over 2 * h: a gradient that
// is zero (a bias in front of a batch norm) cannot be told from it.
static double rounding_of_quotient(double above, double below, double h, bool doubles) {
  return 4 * (doubles ? DBL_EPSILON : FLT_EPSILON) * fmax(fabs(above), fabs(below)) / (2 * h);
}

// The largest difference over the checked elements, beyond rounding, relative to the largest gradient element.
static double check_parameter(Check *c, const NncTensor *p, const double *gradient, int64_t elements) {
  int64_t n = tensor_elements(p), step = n > elements ? n / elements : 1;
  double worst = 0, scale = 1e-8;
  c->failed = !restore(c);
  c->narrow = xmalloc((size_t)p->bytes);
  c->logical = xmalloc((size_t)n * sizeof(double));
  c->failed = c->failed || !arena_read(&c->session->arena, p->offset, c->narrow, p->bytes);
  convert_elements(p->dtype, c->narrow, NNC_F64, c->logical, n);
  for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(gradient[i]));
  for (int64_t i = 0; i < n && !c->failed && !isnan(worst); i += step) {
    bool doubles = p->dtype == NNC_F64;
    double x = c->logical[i], h = (doubles ? 1e-5 : 1e-2) * fmax(1, fabs(x));
    c->logical[i] = x + h;
    double above = loss_at(c, p);
    c->logical[i] = x - h;
    double below = loss_at(c, p);
    c->logical[i] = x;
    double difference = fabs((above - below) / (2 * h) - gradient[i]) - rounding_of_quotient(above, below, h, doubles);
    if (!(difference / scale <= worst)) worst = difference / scale;
  }
  free(c->narrow);
  free(c->logical);
  return worst;
}

// The parameters of a phase, and its loss. False after reporting.
static bool check_phase(Session *s, int phase, int64_t elements, double bound, int *failed, int *checked) {
  Check c = {.session = s, .f = executor_function(s->train[phase]), .e = s->train[phase]};
  Gradients g = {0, xcalloc((size_t)nnc_program.n_persistent + 1, sizeof *g.parameter),
                 xcalloc((size_t)nnc_program.n_persistent + 1, sizeof *g.value)};
  for (int i = 0; i < nnc_program.n_persistent; i++)
    if (nnc_program.persistent[i].role == NNC_PARAM) g.parameter[g.n++] = &nnc_program.persistent[i];
  int64_t near = nnc_program.persistent_bytes, far = nnc_program.far_persistent_bytes;
  c.saved = xmalloc((size_t)(near + far) + 1);
  session_write_arguments(s, c.f, 0, 0);
  if (!arena_read(&s->arena, 0, c.saved, near) || (far && !arena_read(&s->arena, FAR_ADDRESS, c.saved + near, far)))
    return false;
  if (!arena_push_persistent(&s->arena) || !executor_run(c.e, take_gradient, &g)) return false;
  for (int i = 0; i < g.n; i++) {
    if (!g.value[i]) continue;   // frozen, or not on the way to the loss
    double worst = c.failed ? NAN : check_parameter(&c, g.parameter[i], g.value[i], elements);
    bool ok = worst <= bound;
    if (!c.failed)
      printf("%-40s largest relative difference %.2e %s\n", g.parameter[i]->name, worst, ok ? "ok" : "TOO FAR");
    *failed += !ok;
    ++*checked;
    free(g.value[i]);
  }
  c.failed = !restore(&c) || c.failed;
  free(c.saved);
  free(g.parameter);
  free(g.value);
  return !c.failed;
}

static int check_all(Session *s, int64_t elements, double bound) {
  int failed = 0, checked = 0;
  for (int i = 0; i < program_phases(); i++)
    if (!check_phase(s, i, elements, bound, &failed, &checked)) return EXIT_DIAGNOSTIC;
  if (!checked) report_error("gradcheck has no gradients to check: parameters are frozen, or --shard keeps none whole");
  printf("gradcheck: %d passed, %d failed\n", checked - failed, failed);
  return failed || !checked ? EXIT_DIAGNOSTIC : EXIT_DONE;
}

typedef struct GradcheckOptions {
  int64_t elements, seed;
  double bound;
  DeviceOptions device;
} GradcheckOptions;

static const Option options[] = {
    OPTION(GradcheckOptions, elements, "elements", "N", INTEGER,
           "check at most N elements of each parameter, evenly spaced (default 64)", .least = 1),
    OPTION(GradcheckOptions, bound, "bound", "X", POSITIVE,
           "largest difference allowed, relative to the parameter's largest gradient (default 1e-6)"),
    OPTION(GradcheckOptions, seed, "seed", "S", INTEGER, "of the initial parameters and the draws (default {seed})"),
    OPTIONS_OF_DEVICE(GradcheckOptions),
};
static const Command command = {.usage = "[OPTION]...",
                                .before = "Compares gradients with finite differences of the loss.",
                                OPTIONS(options)};

int cmd_gradcheck(int argc, char **argv) {
  GradcheckOptions o = {.elements = 64, .seed = nnc_program.seed, .bound = 1e-6};
  int status = options_parse(&command, argc, argv, &o);
  if (status >= 0) return status;
  const NncFunction *f = program_train(0);
  for (int i = 0; f && i < f->n_args; i++) {
    if (f->args[i].role != NNC_INPUT) continue;
    report_error("gradcheck needs a program without data, this one reads '%s'", f->args[i].name);
    return EXIT_DIAGNOSTIC;
  }
  Session s;
  if (!ranks_are_whole("gradcheck", true) || !session_open(&s, SESSION_TRAIN, NULL, &o.device)) return EXIT_DIAGNOSTIC;
  s.seed = (uint64_t)o.seed;
  status = init_persistent(&s.arena, s.seed) ? check_all(&s, o.elements, o.bound) : EXIT_DIAGNOSTIC;
  session_close(&s);
  return status;
}

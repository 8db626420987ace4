// `bench`: the time of a step and where it goes, and memory planned against memory used.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checksum.h"
#include "runtime/comm/comm.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/training.h"

typedef struct BenchOptions {
  int64_t steps;
  DeviceOptions device;
  bool profile, check;
  const char *function, *costs;
} BenchOptions;

static const Option options[] = {
    OPTION(BenchOptions, steps, "steps", "N", INTEGER, "steps to time, after 3 that are not (default 20)", .least = 1),
    OPTION(BenchOptions, function, "function", "NAME", TEXT,
           "train (default), with phases train.PHASE, eval, predict, predict.MODEL or decode"),
    OPTION(BenchOptions, profile, "profile", NULL, FLAG, "time by step of the program"),
    OPTION(BenchOptions, costs, "costs", "FILE", TEXT, "write the median time of every kernel, for nnc --costs=FILE"),
    OPTION(BenchOptions, check, "check", NULL, FLAG,
           "also fill the arena with a pattern, run, and tell how far it was written"),
    OPTIONS_OF_DEVICE(BenchOptions),
};
static const Command command = {.usage = "[OPTION]...",
                                .before = "Times steps on made-up inputs and initial parameters.",
                                OPTIONS(options)};

static int parse_options(int argc, char **argv, BenchOptions *o) {
  int status = options_parse(&command, argc, argv, o);
  if (status >= 0) return status;
  const char *f = o->function;
  bool known = !f || !strcmp(f, "train") || !strncmp(f, "train.", 6) || !strcmp(f, "eval") ||
               !strncmp(f, "predict", 7) || !strcmp(f, "decode");
  if (optind < argc || !known) {
    report_error(optind < argc ? "unexpected argument"
                               : "--function is train, train.PHASE, eval, predict, predict.MODEL or decode");
    return options_misused(argv[0], NULL);
  }
  const NncFunction *train = program_train(0);
  if (!f || strcmp(f, "train") == 0) o->function = train ? train->name : f ? f : "predict";
  return -1;
}

typedef struct Bench {
  BenchOptions o;
  Session s;
  Executor *main, *earlier;   // with accumulation a step runs `earlier` accumulate - 1 times
  int64_t accumulate;
  bool kept;   // a step leaves its inputs as they are: they are made once
} Bench;

// Adds the seconds of one run without the making of inputs, which a data set would only copy. They are not made between
// steps that need not have it: threads that sleep meanwhile are woken at a step's expense. False after reporting when
// the device failed.
static bool time_run(Bench *b, Executor *e, int64_t step, double *seconds) {
  const NncFunction *f = executor_function(e);
  if (!b->kept) inputs_make(f, b->s.seed, b->s.arena.base);
  session_write_arguments(&b->s, f, step, step);
  double start = seconds_now();
  if (!executor_run(e, NULL, NULL)) return false;
  *seconds += seconds_now() - start;
  return true;
}

static bool time_step(Bench *b, int64_t step, double *seconds) {
  *seconds = 0;
  for (int64_t micro = 0; micro < b->accumulate; micro++)
    if (!time_run(b, micro + 1 < b->accumulate ? b->earlier : b->main, step, seconds)) return false;
  return true;
}

static uint64_t inputs_sum(const Bench *b) {
  const NncFunction *f = executor_function(b->main);
  Checksum *sum = checksum_begin();
  for (int i = 0; i < f->n_args; i++)
    if (f->args[i].role == NNC_INPUT) checksum_add(sum, b->s.arena.base + f->args[i].offset, f->args[i].bytes);
  return checksum_end(sum);
}

// Three steps that are not timed. What they leave of their inputs is what they were given, or buffers were reused.
static bool warm_up(Bench *b) {
  double seconds;
  for (int i = 0; i < 3; i++)
    if (!time_step(b, i, &seconds)) return false;
  uint64_t left = inputs_sum(b);
  inputs_make(executor_function(b->main), b->s.seed, b->s.arena.base);
  b->kept = b->accumulate == 1 && inputs_sum(b) == left;
  return true;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// ---------------------------------------------------------------------------------------------------------------------
// Profile

typedef struct ProfileRow {
  const char *label, *implementation;
  double seconds, least, predicted, flops, bytes;
  int calls;
  bool recomputed;
} ProfileRow;

static int by_seconds(const void *a, const void *b) {
  double x = ((const ProfileRow *)a)->seconds, y = ((const ProfileRow *)b)->seconds;
  return (x < y) - (x > y);
}

static void print_profile(const Executor *e) {
  const NncFunction *f = executor_function(e);
  ProfileRow *rows = xcalloc((size_t)f->n_steps, sizeof *rows);
  int n = 0;
  double total = 0, least = 0, predicted = 0, recomputed = 0;
  for (int i = 0; i < f->n_steps; i++) {
    const NncStep *s = &f->steps[i];
    int64_t runs;
    double seconds = executor_step_seconds(e, i, &runs);
    if (s->kind == NNC_STEP_TAP || runs == 0) continue;
    seconds /= (double)runs;
    const char *label = s->label ? s->label : "", *implementation = executor_step_implementation(e, i);
    int k = 0;
    while (k < n && (strcmp(rows[k].label, label) != 0 || strcmp(rows[k].implementation, implementation) != 0 ||
                     rows[k].recomputed != s->recomputed))
      k++;
    if (k == n) rows[n++] = (ProfileRow){.label = label, .implementation = implementation, .recomputed = s->recomputed};
    rows[k].seconds += seconds, rows[k].least += executor_step_least(e, i), rows[k].predicted += s->seconds,
        rows[k].flops += s->flops, rows[k].bytes += s->bytes, rows[k].calls++;
    total += seconds, least += executor_step_least(e, i), predicted += s->seconds;
    if (s->recomputed) recomputed += seconds;
  }
  qsort(rows, (size_t)n, sizeof *rows, by_seconds);
  printf("\n%9s %6s %9s %9s %5s %8s %7s  step of %s; rates of the quickest run\n", "mean ms", "share", "least ms",
         "predicted", "calls", "GFLOP/s", "GB/s", f->name);
  for (int k = 0; k < n; k++)
    printf("%9.3f %5.1f%% %9.3f %9.3f %5d %8.1f %7.1f  %s%s%s%s\n", rows[k].seconds * 1e3,
           100 * rows[k].seconds / total, rows[k].least * 1e3, rows[k].predicted * 1e3, rows[k].calls,
           rows[k].flops / rows[k].least * 1e-9, rows[k].bytes / rows[k].least * 1e-9, rows[k].label,
           *rows[k].implementation ? "  " : "", rows[k].implementation, rows[k].recomputed ? "  (recomputed)" : "");
  printf("%9.3f 100.0%% %9.3f %9.3f  all, %.1f%% of it recomputed\n", total * 1e3, least * 1e3, predicted * 1e3,
         100 * recomputed / total);
  free(rows);
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory

typedef struct Memory {
  int64_t planned, used, far_planned, far_used;   // bytes; used -1: not told
} Memory;

// Of a step: the most that the functions it runs plan and use.
static Memory step_memory(const Bench *b) {
  Memory m = {0};
  const Executor *runs[] = {b->main, b->earlier};
  for (int i = 0; i < 2 && runs[i]; i++) {
    const NncFunction *f = executor_function(runs[i]);
    int64_t used = function_used_bytes(f), far_used = function_far_used_bytes(f);
    if (f->arena_bytes > m.planned) m.planned = f->arena_bytes;
    if (f->far_bytes > m.far_planned) m.far_planned = f->far_bytes;
    if (far_used > m.far_used) m.far_used = far_used;
    if (m.used >= 0 && (used < 0 || used > m.used)) m.used = used;
  }
  return m;
}

// `taken`: bytes of the device's memory beyond its context, -1: not told.
static void print_memory(const Bench *b, int64_t taken) {
  char text[32];
  Memory m = step_memory(b);
  int64_t peak = resident_peak_bytes();
  printf("arena planned   %lld bytes (%s)\n", (long long)m.planned, print_bytes(m.planned, text, sizeof text));
  if (m.used >= 0) printf("arena used      %lld bytes\n", (long long)m.used);
  if (m.far_planned)
    printf("far arena       %lld bytes (%s) planned, %lld used\n", (long long)m.far_planned,
           print_bytes(m.far_planned, text, sizeof text), (long long)m.far_used);
  if (taken >= 0)
    printf("device memory   %lld bytes beyond the context, %+lld beyond the arena\n", (long long)taken,
           (long long)(taken - b->s.arena.bytes));
  if (nnc_program.budget_bytes > 0)
    printf("budget          %s\n", print_bytes(nnc_program.budget_bytes, text, sizeof text));
  if (peak < 0) return;
  printf("resident peak   %s", print_bytes(peak, text, sizeof text));
  printf(", %s beyond the arena\n", print_bytes(peak - b->s.arena.bytes, text, sizeof text));
}

// How far a run writes, of a far file how far any has. A buffer's last byte may happen to equal one pattern; it cannot
// equal both.
static bool find_reach(Bench *b, Executor *e, int64_t *reached, int64_t *far_reached) {
  static const int patterns[2] = {0x5b, 0xa4};
  double seconds = 0;
  *reached = *far_reached = 0;
  for (int i = 0; i < 2; i++) {
    arena_fill_far(&b->s.arena, nnc_program.far_persistent_bytes, patterns[i]);
    if (!arena_fill(&b->s.arena, nnc_program.persistent_bytes, patterns[i]) || !time_run(b, e, 0, &seconds))
      return false;
    int64_t near = arena_high_water(&b->s.arena, patterns[i]), far = arena_far_high_water(&b->s.arena, patterns[i]);
    if (near < 0) return false;
    *reached = near > *reached ? near : *reached;
    *far_reached = far > *far_reached ? far : *far_reached;
  }
  if (b->s.arena.far) *far_reached = far_written_end(b->s.arena.far);
  return true;
}

// Each function that a step runs keeps to its own plan.
static bool check_arena(Bench *b) {
  Executor *runs[] = {b->main, b->earlier};
  int64_t reached = 0, far_reached = 0;
  bool within = true;
  b->kept = false;
  for (int i = 0; i < 2 && runs[i]; i++) {
    const NncFunction *f = executor_function(runs[i]);
    int64_t near, far;
    if (!find_reach(b, runs[i], &near, &far)) return false;
    within &= near <= f->arena_bytes && (far <= f->far_bytes || b->s.arena.far);
    reached = near > reached ? near : reached;
    far_reached = far > far_reached ? far : far_reached;
  }
  Memory m = step_memory(b);
  printf("arena written   up to byte %lld\n", (long long)reached);
  if (m.far_planned) printf("far arena       written up to byte %lld\n", (long long)far_reached);
  if (within && far_reached <= m.far_planned) return true;
  report_error("a step wrote beyond the planned arena");
  return false;
}

// `seconds` of the timed steps, sorted.
static void print_times(const Bench *b, const double *seconds, int64_t n) {
  const NncFunction *f = executor_function(b->main);
  double median = n % 2 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2;
  double flops = f->flops + (b->earlier ? (double)(b->accumulate - 1) * executor_function(b->earlier)->flops : 0);
  int64_t items = function_batch(f) * b->accumulate;
  char where[256];
  nnc_program.device->describe(where, sizeof where);
  printf("%s on %s\n", f->name, where);
  printf("step time       %.3f ms median of %lld, %.3f least, %.3f most\n", median * 1e3, (long long)n,
         seconds[0] * 1e3, seconds[n - 1] * 1e3);
  printf("items           %.1f per second, %lld per step\n", (double)items / median, (long long)items);
  printf("FLOPs           %.3f GFLOP per step, %.1f GFLOP/s\n", flops * 1e-9, flops / median * 1e-9);
  if (f->recompute_overhead > 0) printf("recomputation   %.1f%% more time predicted\n", 100 * f->recompute_overhead);
}

// Up to `steps` of them, `*n` when the user stops it earlier.
static bool time_steps(Bench *b, double *seconds, int64_t *n) {
  if (!warm_up(b)) return false;
  if (b->o.profile || b->o.costs) executor_profile(b->main, true);
  if (b->o.costs) executor_keep_samples(b->main, b->o.steps);
  if (b->o.costs && b->earlier) {
    executor_profile(b->earlier, true);
    executor_keep_samples(b->earlier, b->o.steps * (b->accumulate - 1));
  }
  for (*n = 0; *n < b->o.steps && !signals_stop_requested(); ++*n)
    if (!time_step(b, 3 + *n, &seconds[*n])) return false;
  return *n > 0;
}

// Nothing is printed or written of a run that failed.
static bool measure(Bench *b) {
  double *seconds = xcalloc((size_t)b->o.steps, sizeof *seconds);
  int64_t n, taken = -1;
  bool ok = time_steps(b, seconds, &n);
  if (ranks.size > 1 && (!ok || signals_stop_requested()))   // the others wait in a step for this one
    ranks_abort(signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC);
  if (ok && nnc_program.device->taken) ok = (taken = nnc_program.device->taken(&b->s.arena)) >= 0;
  if (ok) {
    qsort(seconds, (size_t)n, sizeof *seconds, compare_doubles);
    print_times(b, seconds, n);
    print_memory(b, taken);
    ok = !b->o.check || check_arena(b);
    if (ok && b->o.profile) print_profile(b->main);
    if (ok && b->o.costs) ok = costs_write(b->o.costs, b->earlier ? 2 : 1, (Executor *const[]){b->main, b->earlier});
  }
  free(seconds);
  return ok;
}

static int bench(Bench *b) {
  bool train = strncmp(b->o.function, "train", 5) == 0, eval = strcmp(b->o.function, "eval") == 0;
  if (!program_function(b->o.function)) {
    report_error("%s has no function %s", nnc_program.source, b->o.function);
    return EXIT_DIAGNOSTIC;
  }
  bool decode = strcmp(b->o.function, "decode") == 0;
  int functions = train ? SESSION_TRAIN : eval ? SESSION_EVAL : decode ? SESSION_DECODE : SESSION_PREDICT;
  bool ok = ranks_agree(session_open(&b->s, functions, program_function(b->o.function), &b->o.device)) &&
            session_join(&b->s);
  if (ok) {
    int phase = program_phase_of(program_function(b->o.function));
    b->main = train ? b->s.train[phase] : eval ? b->s.eval : decode ? b->s.decode : b->s.predict[0];
    if (train && nnc_program.accumulate > 1)
      b->accumulate = nnc_program.accumulate, b->earlier = b->s.accumulate[phase];
    b->s.total_steps = b->o.steps + 3;
    ok = init_persistent(&b->s.arena, b->s.seed) && arena_push_persistent(&b->s.arena) && measure(b);
  }
  session_close(&b->s);
  return ok ? EXIT_DONE : signals_stop_requested() ? EXIT_INTERRUPTED : EXIT_DIAGNOSTIC;
}

int cmd_bench(int argc, char **argv) {
  Bench b = {.o = {.steps = 20}, .accumulate = 1};
  int status = parse_options(argc, argv, &b.o);
  if (status >= 0) return status;
  if (!output_spares(b.o.costs, NULL) || !checkpoint_spared(b.o.costs)) return EXIT_DIAGNOSTIC;
  if (!ranks_open(45)) return EXIT_DIAGNOSTIC;
  // all do the same, one tells
  if (ranks.rank > 0 && !freopen("/dev/null", "w", stdout)) return EXIT_DIAGNOSTIC;
  return ranks_close(bench(&b));
}

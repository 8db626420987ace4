// nnc-plan.c: the rematerialization solver and the offset allocator on stand-alone problems: reads a file, calls one
// function of passes/solver, checks its answer with the independent verifier, prints one line of JSON.
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "passes/solver/solver.h"
#include "runtime/output.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/clock.h"
#include "support/input_error.h"
#include "support/options.h"
#include "support/version.h"

enum { EXIT_DONE = 0, EXIT_BAD_INPUT = 1, EXIT_USAGE = 2, EXIT_INTERNAL = 70 };

// Set by the handler of SIGINT: the one thing a handler can reach.
static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal_number) {
  (void)signal_number;
  interrupted = 1;
}

typedef struct Options {
  const char *command, *input, *output, *budget, *policy, *verify, *capacity;
  double time_limit;   // seconds; 0 when not given
  uint64_t seed;
  double start;   // seconds_now
} Options;

// ---- files ----

static int report(const char *path, const InputError *error) {
  const char *name = strcmp(path, "-") == 0 ? "<stdin>" : path;
  if (error->line > 0) fprintf(stderr, "%s:%d:%d: error: %s\n", name, error->line, error->column, error->message);
  else fprintf(stderr, "%s: error: %s\n", name, error->message);
  return EXIT_BAD_INPUT;
}

// Reads all of `path`. Owned by the caller; NULL after a message.
static char *read_file(const char *path, size_t *length) {
  bool is_stdin = strcmp(path, "-") == 0;
  FILE *file = is_stdin ? stdin : fopen(path, "rb");
  char *text = NULL;
  size_t capacity = 0;
  *length = 0;
  while (file && !ferror(file) && !feof(file)) {
    if (*length == capacity) {
      capacity = capacity ? 2 * capacity : 65536;
      text = reallocate_array(text, capacity, 1);
    }
    *length += fread(text + *length, 1, capacity - *length, file);
  }
  bool failed = !file || ferror(file);
  if (failed) fprintf(stderr, "nnc-plan: cannot read '%s': %s\n", path, strerror(errno));
  if (file) fclose(file);
  if (!failed) return text;
  free(text);
  return NULL;
}

// A file that takes its name only once it is complete: written beside it, then renamed. What exists but is not a
// plain file (a device, a pipe) is written directly.
typedef struct OutputFile {
  const char *path;         // Borrowed
  char *real, *temporary;   // Owned; where it goes in the end; temporary is NULL when writing directly
  FILE *file;
} OutputFile;

static bool output_open(OutputFile *output, const char *path) {
  *output = (OutputFile){.path = path};
  if (strcmp(path, "-") == 0) {
    output->file = stdout;
    return true;
  }
  output->real = output_real_name(path);
  if (output_is_special(path)) {
    output->file = fopen(path, "wb");
  } else {
    size_t size = strlen(output->real) + sizeof ".XXXXXX";
    output->temporary = allocate_array(size, 1);
    snprintf(output->temporary, size, "%s.XXXXXX", output->real);
    int descriptor = mkstemp(output->temporary);
    mode_t mask = umask(0);
    umask(mask);
    if (descriptor >= 0 && fchmod(descriptor, 0666 & ~mask) == 0) output->file = fdopen(descriptor, "wb");
  }
  if (output->file) return true;
  fprintf(stderr, "nnc-plan: cannot write '%s': %s\n", path, strerror(errno));
  free(output->temporary);
  free(output->real);
  return false;
}

static bool output_close(OutputFile *output) {
  bool good = fflush(output->file) == 0 && !ferror(output->file);
  if (output->file != stdout) good = fclose(output->file) == 0 && good;
  if (good && output->temporary) good = rename(output->temporary, output->real) == 0;
  if (!good) {
    fprintf(stderr, "nnc-plan: cannot write '%s': %s\n", output->path, strerror(errno));
    if (output->temporary) unlink(output->temporary);
  }
  free(output->temporary);
  free(output->real);
  return good;
}

// With `-o -` the data goes to stdout, and the line of JSON gets out of its way.
static FILE *result_stream(const Options *options) {
  return options->output && strcmp(options->output, "-") == 0 ? stderr : stdout;
}

// ---- remat ----

// A size as everywhere, or, where `whole` is not negative, a percentage of it. Prints what is wrong with the value of
// `option` otherwise.
static bool option_bytes(const char *option, const char *text, int64_t whole, int64_t *bytes) {
  double percent = 0;
  if (!parse_bytes(text, bytes, whole < 0 ? NULL : &percent)) {
    fprintf(stderr, "nnc-plan: %s=%s is not a number of bytes below 4 EiB (512MiB, 4GB, 1000)%s\n", option, text,
            whole < 0 ? "" : " nor a percentage");
    return false;
  }
  double part = floor(percent / 100 * (double)whole);
  if (percent > 0) *bytes = part < 0x1p62 ? (int64_t)part : INT64_MAX / 2;
  return true;
}

// What the line of JSON tells.
typedef struct RematReport {
  double cost, base_cost, lower_bound, seconds, makespan;
  int64_t peak, far_peak, budget, min_budget_found, min_budget_bound;
  bool has_budget, has_far, feasible;
} RematReport;

static void print_report(FILE *file, const RematReport *report) {
  double time = report->has_far ? report->makespan : report->cost;
  double overhead = report->base_cost > 0 ? time / report->base_cost - 1 : 0;
  fprintf(file, "{\"status\":\"%s\",", report->feasible ? "feasible" : "infeasible");
  if (!report->feasible) {
    fprintf(file, "\"min_budget_found\":%lld,", (long long)report->min_budget_found);
    fprintf(file, "\"min_budget_bound\":%lld,\"proved\":%s,", (long long)report->min_budget_bound,
            isfinite(report->lower_bound) ? "false" : "true");
  }
  fprintf(file, "\"cost\":%.12g,\"base_cost\":%.12g,\"overhead\":%.6f,\"peak\":%lld,", report->cost, report->base_cost,
          overhead, (long long)report->peak);
  if (report->has_far)
    fprintf(file, "\"makespan\":%.12g,\"far_peak\":%lld,", report->makespan, (long long)report->far_peak);
  if (report->has_budget) fprintf(file, "\"budget\":%lld,", (long long)report->budget);
  if (isfinite(report->lower_bound)) {
    double gap = report->lower_bound > 0 ? time / report->lower_bound - 1 : 0;
    fprintf(file, "\"lower_bound\":%.12g,", report->lower_bound);
    if (report->feasible) fprintf(file, "\"gap\":%.6f,", gap);
  } else {
    fprintf(file, "\"lower_bound\":null,");
  }
  fprintf(file, "\"seconds\":%.3f}\n", report->seconds);
}

static bool write_schedule(const Options *options, const RematProblem *problem, const RematSchedule *schedule) {
  OutputFile output;
  if (!options->output) return true;
  if (!output_open(&output, options->output)) return false;
  remat_schedule_write(output.file, problem, schedule);
  return output_close(&output);
}

// Checks a schedule of ours with the simulator; a difference is our bug.
static bool is_as_claimed(const RematProblem *problem, const RematSchedule *schedule) {
  RematSimulation simulation;
  InputError error;
  if (!remat_simulate(problem, schedule->exec, schedule->n, &simulation, &error)) {
    fprintf(stderr, "nnc-plan: internal error: %s\n", error.message);
    return false;
  }
  bool same = simulation.peak == schedule->peak && simulation.cost == schedule->cost &&
              simulation.far_peak == schedule->far_peak && simulation.makespan == schedule->makespan;
  if (!same) fprintf(stderr, "nnc-plan: internal error: the simulator disagrees about cost, peaks or makespan\n");
  remat_simulation_free(&simulation);
  return same;
}

// Makes or reads the schedule. Returns an exit status.
static int obtain_schedule(const Options *options, const RematProblem *problem, RematPolicy policy,
                           RematReport *report_out, RematSchedule *schedule) {
  if (options->verify) {
    size_t length;
    InputError error;
    char *text = read_file(options->verify, &length);
    if (!text) return EXIT_BAD_INPUT;
    bool valid = remat_schedule_read(text, length, problem, schedule, &error);
    free(text);
    return valid ? EXIT_DONE : report(options->verify, &error);
  }
  if (policy != REMAT_POLICY_SOLVE) {
    *schedule = remat_policy_run(problem, policy);
    return EXIT_DONE;
  }
  RematOptions search = {.seed = options->seed, .interrupt = &interrupted};
  if (options->time_limit > 0) {
    search.max_moves = INT64_MAX;
    search.time_limit = fmax(options->time_limit * 0.99 - (seconds_now() - options->start), 1e-3);
  }
  struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};   // a second Ctrl-C kills
  sigaction(SIGINT, &action, NULL);
  RematResult result;
  // No schedule of a checked problem needs more than the smaller one.
  int64_t budget = report_out->budget < INT64_MAX / 4 ? report_out->budget : INT64_MAX / 4;
  remat_solve(problem, budget, &search, &result);
  *schedule = result.schedule;
  report_out->min_budget_found = result.min_budget_found;
  report_out->lower_bound = result.lower_bound;
  return EXIT_DONE;
}

// Says in words why there is no schedule, beside the line of JSON.
static void explain_infeasible(const Options *options, const RematReport *report) {
  const char *why = isfinite(report->lower_bound) ? "was found" : "exists";
  if (options->verify)
    fprintf(stderr, "nnc-plan: the schedule needs %lld bytes, the budget is %lld\n", (long long)report->peak,
            (long long)report->budget);
  else
    fprintf(stderr, "nnc-plan: no schedule within %lld bytes %s; the smallest budget found is %lld\n",
            (long long)report->budget, why, (long long)report->min_budget_found);
}

static int plan_remat(const Options *options, const RematProblem *problem, RematPolicy policy) {
  RematSchedule schedule = remat_baseline(problem);
  RematReport result = {.base_cost = schedule.cost, .has_budget = options->budget != NULL, .budget = INT64_MAX};
  bool budget_valid = !options->budget || option_bytes("--budget", options->budget, schedule.peak, &result.budget);
  remat_schedule_free(&schedule);
  if (!budget_valid) return EXIT_BAD_INPUT;
  result.min_budget_found = INT64_MAX;
  if (options->verify || policy != REMAT_POLICY_SOLVE)
    result.lower_bound = remat_lower_bound(problem, result.budget, 0);
  int status = obtain_schedule(options, problem, policy, &result, &schedule);
  if (status != EXIT_DONE) return status;
  result.cost = schedule.cost;
  result.peak = schedule.peak;
  result.has_far = problem->far != NULL;
  result.far_peak = schedule.far_peak;
  result.makespan = schedule.makespan;
  result.feasible = schedule.peak <= result.budget && (!problem->far || schedule.far_peak <= problem->far->budget);
  if (schedule.peak < result.min_budget_found) result.min_budget_found = schedule.peak;
  if (!result.feasible) result.min_budget_bound = remat_min_budget_bound(problem);
  result.seconds = seconds_now() - options->start;
  if (!is_as_claimed(problem, &schedule)) status = EXIT_INTERNAL;
  else if (result.feasible && !write_schedule(options, problem, &schedule)) status = EXIT_BAD_INPUT;
  else print_report(result_stream(options), &result);
  if (status == EXIT_DONE && !result.feasible) {
    explain_infeasible(options, &result);
    status = EXIT_BAD_INPUT;
  }
  remat_schedule_free(&schedule);
  return status;
}

// ---- baselines ----

// The search at the peak of a heuristic, for so many seconds.
static void print_comparison(const RematProblem *problem, const Options *options, int64_t budget, double base_cost) {
  RematOptions search = {.seed = options->seed, .time_limit = options->time_limit, .max_moves = INT64_MAX};
  RematResult result;
  remat_solve(problem, budget, &search, &result);
  double overhead = base_cost > 0 ? result.schedule.cost / base_cost - 1 : 0;
  if (result.feasible) printf(",\"search_cost\":%.12g,\"search_overhead\":%.6f", result.schedule.cost, overhead);
  else printf(",\"search_cost\":null");
  if (isfinite(result.lower_bound)) printf(",\"lower_bound\":%.12g", result.lower_bound);
  remat_result_free(&result);
}

static int print_baseline(const RematProblem *problem, const Options *options, const char *name,
                          const RematSchedule *schedule, double base_cost) {
  if (!is_as_claimed(problem, schedule)) return EXIT_INTERNAL;
  printf("{\"baseline\":\"%s\",\"cost\":%.12g,\"base_cost\":%.12g,\"overhead\":%.6f,\"peak\":%lld", name,
         schedule->cost, base_cost, base_cost > 0 ? schedule->cost / base_cost - 1 : 0, (long long)schedule->peak);
  if (options->time_limit > 0) print_comparison(problem, options, schedule->peak, base_cost);
  puts("}");
  return EXIT_DONE;
}

static int print_baselines(const Options *options, const RematProblem *problem) {
  RematSchedule plain = remat_baseline(problem);
  double base_cost = plain.cost;
  int status = print_baseline(problem, options, "none", &plain, base_cost);
  remat_schedule_free(&plain);
  for (int kind = 0; kind < REMAT_BASELINES && status == EXIT_DONE; kind++) {
    RematSchedule schedule = remat_baseline_policy(problem, (RematBaselineKind)kind, 0);
    status = print_baseline(problem, options, remat_baseline_name((RematBaselineKind)kind), &schedule, base_cost);
    remat_schedule_free(&schedule);
  }
  return status;
}

static int run_remat(const Options *options) {
  RematPolicy policy = REMAT_POLICY_SOLVE;
  bool is_baselines = strcmp(options->command, "baselines") == 0;
  if (options->policy && !remat_policy_parse(options->policy, &policy)) {
    fprintf(stderr, "nnc-plan: unknown policy '%s'\n", options->policy);
    return EXIT_USAGE;
  }
  if (!is_baselines && policy == REMAT_POLICY_SOLVE && !options->budget && !options->verify) {
    fprintf(stderr, "nnc-plan: remat needs --budget, --policy or --verify\n");
    return EXIT_USAGE;
  }
  size_t length;
  InputError error;
  char *text = read_file(options->input, &length);
  if (!text) return EXIT_BAD_INPUT;
  RematProblem *problem = remat_problem_read(text, length, &error);
  free(text);
  if (!problem) return report(options->input, &error);
  if (problem->far && (is_baselines || (policy != REMAT_POLICY_NONE && policy != REMAT_POLICY_SOLVE))) {
    fprintf(stderr, "nnc-plan: %s knows no far tier\n", is_baselines ? "baselines" : "this policy");
    remat_problem_destroy(problem);
    return EXIT_BAD_INPUT;
  }
  int status = is_baselines ? print_baselines(options, problem) : plan_remat(options, problem, policy);
  remat_problem_destroy(problem);
  return status;
}

// ---- offsets ----

static int place_buffers(const Options *options, OffsetBuffer *buffers, int n) {
  OffsetOptions search = {.seed = options->seed, .time_limit = options->time_limit};
  OffsetResult result;
  InputError error;
  if (options->time_limit > 0) search.max_work = INT64_MAX;
  if (options->capacity && !option_bytes("--capacity", options->capacity, -1, &search.capacity)) return EXIT_BAD_INPUT;
  if (!offsets_assign(buffers, n, &search, &result, &error)) return report(options->input, &error);
  if (!offsets_verify(buffers, n, result.arena_bytes, &error)) {
    fprintf(stderr, "nnc-plan: internal error: %s\n", error.message);
    return EXIT_INTERNAL;
  }
  bool fits = !options->capacity || result.arena_bytes <= search.capacity;
  OutputFile output;
  if (fits && options->output) {
    if (!output_open(&output, options->output)) return EXIT_BAD_INPUT;
    offsets_write_csv(output.file, buffers, n);
    if (!output_close(&output)) return EXIT_BAD_INPUT;
  }
  double ratio = result.lower_bound > 0 ? (double)result.arena_bytes / (double)result.lower_bound : 1;
  FILE *file = result_stream(options);
  fprintf(file, "{\"status\":\"%s\",\"buffers\":%d,\"capacity_used\":%lld,", fits ? "feasible" : "infeasible", n,
          (long long)result.arena_bytes);
  if (options->capacity) fprintf(file, "\"capacity\":%lld,", (long long)search.capacity);
  fprintf(file, "\"lower_bound\":%lld,\"ratio\":%.6f,\"seconds\":%.3f}\n", (long long)result.lower_bound, ratio,
          result.seconds);
  return fits ? EXIT_DONE : EXIT_BAD_INPUT;
}

static int run_offsets(const Options *options) {
  size_t length;
  int n;
  InputError error;
  char *text = read_file(options->input, &length);
  if (!text) return EXIT_BAD_INPUT;
  OffsetBuffer *buffers = offsets_read_csv(text, length, &n, &error);
  free(text);
  if (!buffers) return report(options->input, &error);
  int status = place_buffers(options, buffers, n);
  free(buffers);
  return status;
}

// ---- command line ----

static const char *read_seconds(char *text, void *out) {
  char *end;
  double seconds = strtod(text, &end);
  *(double *)out = seconds;
  bool is_number = end != text && !*end && strspn(text, "0123456789.eE+-") == strlen(text);
  return is_number && seconds > 0 && seconds <= 1e9 ? NULL : "a number of seconds above 0, of at most 1e9";
}

static int print_version(const char *none) {
  (void)none;
  puts("nnc-plan " NNC_VERSION);
  return EXIT_DONE;
}

static const Option rows[] = {
    OPTION(Options, budget, "budget", "B", TEXT,
           "bytes (512MiB, 4GB, 1000) or a percentage of the peak of\nthe plain order"),
    OPTION(Options, policy, "policy", "NAME", TEXT, "none, sqrt, speed, manual, recursive or solve (the default)"),
    OPTION(Options, verify, "verify", "FILE", TEXT, "replay a schedule against the problem instead of making one"),
    OPTION(Options, capacity, "capacity", "BYTES", TEXT,
           "stop at an arena of this size; exit status 1 when not reached"),
    OPTION(Options, time_limit, "time-limit", "S", READ,
           "end after S seconds, reading included (default: a fixed number\n"
           "of steps, about a second, so that every run gives the same\n"
           "result). Ctrl-C ends the search of remat with its best so far",
           .read = read_seconds),
    OPTION(Options, seed, "seed", "N", NATURAL, "seed of the search (default 0)"),
    OPTION(Options, output, "output", "FILE", TEXT, "write the schedule or the placed buffers", .letter = 'o'),
    OPTION_THAT_STOPS("version", NULL, print_version, "the version"),
};
static const Command command =
    {.usage = "remat PROBLEM.json --budget=BYTES|PERCENT% [options]\n"
              "remat PROBLEM.json --policy=NAME [options]\n"
              "remat PROBLEM.json --verify=SCHEDULE.json [--budget=...]\n"
              "baselines PROBLEM.json [--time-limit=S]\n"
              "offsets BUFFERS.csv [--capacity=BYTES] [options]",
     .before = "remat finds the cheapest order of executions, in which a node may execute more than\n"
               "once, whose peak fits a budget. baselines runs published heuristics, a line each, and\n"
               "with a time limit the search at the peak each of them reached. offsets places buffers\n"
               "with known lifetimes in one arena.\n"
               "A file named - is standard input or output. One line of JSON tells the result.",
     .after = "Exit status: 0 done, 1 bad input or infeasible, 2 usage, 70 a bug in nnc-plan.",
     OPTIONS(rows)};

static int run(const Options *options) {
  if (strcmp(options->command, "remat") == 0 || strcmp(options->command, "baselines") == 0) return run_remat(options);
  if (strcmp(options->command, "offsets") == 0) return run_offsets(options);
  return options_misused("nnc-plan", "unknown command '%s'", options->command);
}

int main(int argc, char **argv) {
  options_begin();
  Options options = {.start = seconds_now()};
  argv[0] = (char[]){"nnc-plan"};
  int status = options_read(&command, NULL, argc, argv, &options);
  if (status < 0 && argc - optind != 2) status = options_misused(argv[0], "a command and a file are expected");
  if (status < 0) {
    options.command = argv[optind];
    options.input = argv[optind + 1];
    status = run(&options);
  }
  return options_end("nnc-plan", status);
}

// The command line of nnc. docs/nnc.1 says the same at more length.
#include "compiler/options.h"
#include "codegen/codegen.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/elaborate.h"
#include "compiler/layer_help.h"
#include "compiler/names.h"
#include "support/bytes.h"
#include "support/version.h"

static const char usage[] =
    "Usage: nnc [options] MODEL.nn\n"
    "       nnc check [--json] FILE...      mistakes of model files only; 'nnc check --help'\n"
    "       nnc fmt [--check] FILE...       files in their one layout; 'nnc fmt --help'\n"
    "Compiles a network and its training to one native executable. MODEL '-' is standard input.\n"
    "\n"
    "  -o, --output=FILE         the executable (default: the model file's name without .nn), or the\n"
    "                            text of --emit (default: '-', standard output)\n"
    "  -D NAME=VALUE             another value for a 'dim' or 'let' of the model file\n"
    "      --memory-budget=SIZE  arena the step must fit in: 512MiB, 2GB, or 60% of what it would need\n"
    "      --remat=POLICY        what to recompute: auto, none, manual, sqrt, speed or recursive\n"
    "                            (default: auto with a budget, none without)\n"
    "      --max-overhead=N%     added time that recomputation may take; without a budget, the smallest\n"
    "                            arena within it is sought\n"
    "      --remat-time=SECONDS  search that long (default: a fixed number of moves, a few seconds)\n"
    "      --remat-effort=X      X times the default number of moves of the search\n"
    "      --remat-seed=N        random numbers of the search (default: 0)\n"
    "      --inside=WHAT         cheap values that backward kernels compute again instead of keeping\n"
    "                            them: all (default), kernels (only what no library call reads) or none\n"
    "      --dtype=TYPE          f32, f64, bf16 or f16 in place of the file's precision;\n"
    "                            f64 also for parameters and all blocks\n"
    "      --math=TYPE           what f32 products are made of on a GPU: f32 (default), or tf32, which is\n"
    "                            faster and keeps 11 bits of each factor\n"
    "      --target=NAME         host (default), cuda, or cuda-emu: cuda's kernels run by an emulator\n"
    "      --gpu-arch=NAME       architecture of the GPU for cuda (default: sm_80)\n"
    "      --shard=none          a program that several ranks can run (mpirun), each with its own micro-batch\n"
    "                            and all of the parameters: 'none' of the state is shared out\n"
    "      --cpu=NAME            native (default) or an LLVM CPU name\n"
    "      --machine=NAME        rates of the machine the plan is for: a file, or a name of\n"
    "                            share/nnc/machines (default: the host's own)\n"
    "      --costs=FILE          measured times, from MODEL bench --costs=FILE\n"
    "  -O LEVEL                  optimization of the kernels, 0 to 3 (default: 2)\n"
    "\n";
static const char usage_inside[] = "Seeing inside:\n"
                                   "      --emit=WHAT           stop there and print:\n"
#define EMIT(name, doc) "                              " #name "\t" doc "\n"
    OPTIONS_EMIT(EMIT)
#undef EMIT
        "      --report=FILE         also write the memory plan as an HTML page\n"
        "      --sweep               print the predicted time for budgets from 100 % down, as CSV\n"
        "      --print-ir-before=PASS, --print-ir-after=PASS\n"
        "                            print the module on standard error before or after a pass, or 'all'\n"
        "      --verify-each         verify after each pass\n"
        "      --time-passes         times of all stages on standard error\n"
        "      --save-temps          keep the intermediate files of the link\n"
        "  -v, --verbose             say what is run\n"
        "\n"
        "      --color=WHEN          auto (default), always or never\n"
        "  -fmax-errors=N            stop after N errors, 0: never (default: 20)\n"
        "  -MD                       also write OUTPUT.d, the files read, as a make rule\n"
        "      --list-ops            the built-in functions of the language\n"
        "      --help-op=NAME        one of them: arguments, an example, its ops, gradient and FLOPs\n"
        "  -h, --help                this text\n"
        "      --version             the version\n"
        "\n"
        "Exit status: 0 done, 1 diagnostics, 2 wrong usage, 70 a bug of nnc.\n";

int options_usage_error(const char *format, const char *detail) {
  fputs("nnc: ", stderr);
  fprintf(stderr, format, detail);
  fputs("\nTry 'nnc --help'.\n", stderr);
  return NNC_EXIT_USAGE;
}

static int print_and_stop(const char *text) {
  if (fputs(text, stdout) >= 0 && fflush(stdout) == 0) return 0;
  fprintf(stderr, "nnc: error: cannot write to standard output: %s\n", strerror(errno));
  return NNC_EXIT_DIAGNOSTICS;
}

static int list_functions(void) {
  for (int i = 0; i < layer_count(); i++) {
    const LayerInfo *layer = layer_at(i);
    printf("%s(%s)\n    %s\n", layer->name, layer->signature, layer->doc);
  }
  return print_and_stop("");
}

static int help_op(const char *name) {
  if (layer_help_print(stdout, name)) return print_and_stop("");
  NameSearch search = name_search(name);
  for (int i = 0; i < layer_count(); i++) name_consider(&search, layer_at(i)->name);
  fprintf(stderr, "nnc: --help-op: there is no function '%s'", name);
  if (search.best) fprintf(stderr, "; did you mean '%s'?", search.best);
  fputs("\nTry 'nnc --list-ops'.\n", stderr);
  return NNC_EXIT_USAGE;
}

// Finds text among n words; says what there is and what is near when it is none of them.
int options_choose(const char *option, const char *text, int n, const char *const *words, int *chosen) {
  NameSearch search = name_search(text);
  for (int i = 0; i < n; i++) {
    if (strcmp(words[i], text) == 0) {
      *chosen = i;
      return -1;
    }
    name_consider(&search, words[i]);
  }
  fprintf(stderr, "nnc: %s takes ", option);
  for (int i = 0; i < n; i++) fprintf(stderr, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", words[i]);
  fprintf(stderr, ", found '%s'", text);
  if (search.best) fprintf(stderr, "; did you mean '%s'?", search.best);
  fputs("\nTry 'nnc --help'.\n", stderr);
  return NNC_EXIT_USAGE;
}
#define CHOOSE(option, text, words, chosen) \
  options_choose(option, text, (int)(sizeof(words) / sizeof *(words)), words, chosen)

// NAME=VALUE, whose kind is that of the value it replaces; a later one for the same name replaces the earlier.
int options_define(char *text, Options *options) {
  char *equals = strchr(text, '='), *end;
  bool named = equals && equals != text && !isdigit((unsigned char)*text);
  for (const char *c = text; named && c < equals; c++) named = isalnum((unsigned char)*c) || *c == '_';
  if (!named) return options_usage_error("-D takes NAME=VALUE, found '%s'", text);
  if (!equals[1]) return options_usage_error("-D %s: the value is missing", text);
  Define define = {.name = text, .text = equals + 1, .number = strtod(equals + 1, &end)};
  define.is_number = end != equals + 1 && !*end && isfinite(define.number) && !isspace((unsigned char)equals[1]);
  *equals = 0;
  for (int i = 0; i < options->n_defines; i++) {
    if (strcmp(options->defines[i].name, text) != 0) continue;
    options->defines[i] = define;
    return -1;
  }
  Define *defines = realloc(options->defines, (size_t)(options->n_defines + 1) * sizeof *defines);
  if (!defines) abort();
  options->defines = defines;
  options->defines[options->n_defines++] = define;
  return -1;
}

int options_number(const char *text, const char *option, int largest, int *value) {
  char *end;
  errno = 0;
  long number = strtol(text, &end, 10);
  if (!isdigit((unsigned char)*text) || *end || errno || number > largest) {
    fprintf(stderr, "nnc: %s takes a number from 0 to %d, found '%s'\nTry 'nnc --help'.\n", option, largest, text);
    return NNC_EXIT_USAGE;
  }
  *value = (int)number;
  return -1;
}

static int parse_pass(const char *option, const char *name, const char **hook) {
  if (strcmp(name, "all") != 0 && !nn_pass_by_name(name)) {
    fprintf(stderr, "nnc: %s: unknown pass '%s'; the passes are all", option, name);
    for (int i = 0; i < nn_n_passes; i++) fprintf(stderr, ", %s", nn_passes[i].name);
    fputs("\n", stderr);
    return NNC_EXIT_USAGE;
  }
  *hook = name;
  return -1;
}

enum {
  OPTION_TARGET = 256,
  OPTION_CPU,
  OPTION_BUDGET,
  OPTION_REMAT,
  OPTION_OVERHEAD,
  OPTION_REMAT_TIME,
  OPTION_REMAT_EFFORT,
  OPTION_REMAT_SEED,
  OPTION_INSIDE,
  OPTION_SWEEP,
  OPTION_OFFLOAD,
  OPTION_DTYPE,
  OPTION_EMIT,
  OPTION_BEFORE,
  OPTION_AFTER,
  OPTION_VERIFY,
  OPTION_TIME,
  OPTION_COLOR,
  OPTION_TEMPS,
  OPTION_LIST,
  OPTION_HELP_OP,
  OPTION_VERSION,
  OPTION_REPORT,
  OPTION_MACHINE,
  OPTION_COSTS,
  OPTION_ARCH,
  OPTION_MATH,
  OPTION_SHARD
};

static int parse_budget(Options *options) {
  int64_t bytes;
  double percent;
  if (!parse_bytes(optarg, &bytes, &percent) || bytes == 0)
    return options_usage_error("--memory-budget takes a size such as 512MiB or 60%%, found '%s'", optarg);
  options->memory_budget = optarg;
  return -1;
}

static int parse_overhead(Options *options) {
  int64_t bytes;
  double percent;
  bool zero = strcmp(optarg, "0%") == 0;
  if (!zero && (!parse_bytes(optarg, &bytes, &percent) || percent == 0 || percent > 10000))
    return options_usage_error("--max-overhead takes a percentage such as 20%% of at most 10000%%, found '%s'", optarg);
  options->max_overhead = zero ? "0.000001%" : optarg;
  return -1;
}

static int parse_search(int option, Options *options) {
  char *end;
  errno = 0;
  bool digit = isdigit((unsigned char)*optarg) != 0;
  if (option == OPTION_REMAT_SEED) {
    strtoull(optarg, &end, 10);
    if (!digit || *end || errno)
      return options_usage_error("--remat-seed takes a number below 2^64, found '%s'", optarg);
    options->remat_seed = optarg;
    return -1;
  }
  double number = strtod(optarg, &end);
  bool fine = digit && !*end && optarg[1] != 'x' && number >= 0.01 && number <= 1e6;
  if (!fine && option == OPTION_REMAT_TIME)
    return options_usage_error("--remat-time takes a number of seconds from 0.01 to 1000000, found '%s'", optarg);
  if (!fine) return options_usage_error("--remat-effort takes a number from 0.01 to 1000000, found '%s'", optarg);
  if (option == OPTION_REMAT_TIME) options->remat_time = optarg;
  else options->remat_effort = optarg;
  return -1;
}

static int parse_target(Options *options) {
  static const char *const words[] = {
#define CODEGEN_TARGET(name, spelling, doc) spelling,
#include "codegen/targets.def"
#undef CODEGEN_TARGET
  };
  int chosen;
  options->target = optarg;
  return CHOOSE("--target", optarg, words, &chosen);
}

static int parse_arch(Options *options) {
  options->gpu_arch = optarg;
  if (nn_gpu_arch_known(optarg)) return -1;
  fprintf(stderr, "nnc: --gpu-arch takes one of %s, found '%s'\nTry 'nnc --help'.\n", nn_gpu_arch_names(), optarg);
  return NNC_EXIT_USAGE;
}

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"target", required_argument, NULL, OPTION_TARGET},
    {"gpu-arch", required_argument, NULL, OPTION_ARCH},
    {"math", required_argument, NULL, OPTION_MATH},
    {"cpu", required_argument, NULL, OPTION_CPU},
    {"shard", required_argument, NULL, OPTION_SHARD},
    {"memory-budget", required_argument, NULL, OPTION_BUDGET},
    {"remat", required_argument, NULL, OPTION_REMAT},
    {"dtype", required_argument, NULL, OPTION_DTYPE},
    {"max-overhead", required_argument, NULL, OPTION_OVERHEAD},
    {"remat-time", required_argument, NULL, OPTION_REMAT_TIME},
    {"remat-effort", required_argument, NULL, OPTION_REMAT_EFFORT},
    {"remat-seed", required_argument, NULL, OPTION_REMAT_SEED},
    {"sweep", no_argument, NULL, OPTION_SWEEP},
    {"test-offload", required_argument, NULL, OPTION_OFFLOAD},   // for tests: docs/passes.md
    {"inside", required_argument, NULL, OPTION_INSIDE},
    {"emit", required_argument, NULL, OPTION_EMIT},
    {"print-ir-before", required_argument, NULL, OPTION_BEFORE},
    {"print-ir-after", required_argument, NULL, OPTION_AFTER},
    {"verify-each", no_argument, NULL, OPTION_VERIFY},
    {"time-passes", no_argument, NULL, OPTION_TIME},
    {"save-temps", no_argument, NULL, OPTION_TEMPS},
    {"verbose", no_argument, NULL, 'v'},
    {"report", required_argument, NULL, OPTION_REPORT},
    {"machine", required_argument, NULL, OPTION_MACHINE},
    {"costs", required_argument, NULL, OPTION_COSTS},
    {"color", required_argument, NULL, OPTION_COLOR},
    {"list-ops", no_argument, NULL, OPTION_LIST},
    {"help-op", required_argument, NULL, OPTION_HELP_OP},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static int parse_option(int option, Options *options) {
  static const char *const emits[] = {
#define EMIT(name, doc) #name,
      OPTIONS_EMIT(EMIT)
#undef EMIT
  };
  static const char *const policies[] = {"auto", "none", "manual", "sqrt", "speed", "recursive"},
                           *const dtypes[] = {"f32", "f64", "bf16", "f16"},
                           *const insides[] = {"all", "kernels", "none"},
                           // ORDER of DiagColor
                               *const maths[] = {"f32", "tf32"}, *const shards[] = {"none"},
                           *const colors[] = {"auto", "never", "always"};
  int chosen = 0, status = -1;
  switch (option) {
  case 'o':
    free((char *)options->output);
    options->output = strdup(optarg);
    return -1;
  case 'D': return options_define(optarg, options);
  case 'O': return options_number(optarg, "-O", 3, &options->opt_level);
  case 'v': options->verbose = true; return -1;
  case 'h': fputs(usage, stdout); return print_and_stop(usage_inside);
  case 'f':
    if (strncmp(optarg, "max-errors=", 11) != 0) return options_usage_error("unknown option '-f%s'", optarg);
    return options_number(optarg + 11, "-fmax-errors", 1000000, &options->max_errors);
  case 'M':
    if (strcmp(optarg, "D") != 0) return options_usage_error("unknown option '-M%s'", optarg);
    options->write_dependencies = true;
    return -1;
  case OPTION_TARGET: return parse_target(options);
  case OPTION_ARCH: return parse_arch(options);
  case OPTION_MATH: options->math = optarg; return CHOOSE("--math", optarg, maths, &chosen);
  case OPTION_SHARD: options->shard = optarg; return CHOOSE("--shard", optarg, shards, &chosen);
  case OPTION_CPU: options->cpu = optarg; return -1;
  case OPTION_BUDGET: return parse_budget(options);
  case OPTION_OVERHEAD: return parse_overhead(options);
  case OPTION_REMAT_TIME:
  case OPTION_REMAT_EFFORT:
  case OPTION_REMAT_SEED: return parse_search(option, options);
  case OPTION_SWEEP: options->sweep = true; return -1;
  case OPTION_OFFLOAD: return options_number(optarg, "--test-offload", 1000000, &options->offload);
  case OPTION_INSIDE: options->inside = optarg; return CHOOSE("--inside", optarg, insides, &chosen);
  case OPTION_REMAT: options->remat = optarg; return CHOOSE("--remat", optarg, policies, &chosen);
  case OPTION_DTYPE: options->dtype = optarg; return CHOOSE("--dtype", optarg, dtypes, &chosen);
  case OPTION_EMIT:
    status = CHOOSE("--emit", optarg, emits, &chosen);
    options->emit = (Emit)chosen;
    return status;
  case OPTION_BEFORE: return parse_pass("--print-ir-before", optarg, &options->hooks.print_before);
  case OPTION_AFTER: return parse_pass("--print-ir-after", optarg, &options->hooks.print_after);
  case OPTION_REPORT:
    options->report = optarg;
    return *optarg ? -1 : options_usage_error("--report takes a file name%s", "");
  case OPTION_MACHINE:
    options->machine = optarg;
    return *optarg ? -1 : options_usage_error("--machine takes a name or a file%s", "");
  case OPTION_COSTS:
    options->costs = optarg;
    return *optarg ? -1 : options_usage_error("--costs takes a file name%s", "");
  case OPTION_VERIFY: options->hooks.verify_each = true; return -1;
  case OPTION_TIME: options->hooks.time_passes = true; return -1;
  case OPTION_TEMPS: options->keep_temporaries = true; return -1;
  case OPTION_COLOR:
    status = CHOOSE("--color", optarg, colors, &chosen);
    options->color = (DiagColor)chosen;
    return status;
  case OPTION_LIST: return list_functions();
  case OPTION_HELP_OP: return help_op(optarg);
  case OPTION_VERSION: return print_and_stop("nnc " NNC_VERSION "\n");
  default: fputs("Try 'nnc --help'.\n", stderr); return NNC_EXIT_USAGE;   // getopt has said what is wrong
  }
}

// models/lenet.nn -> lenet, in the current folder; what has no ending to take off gets the name that cc gives
static char *default_output(const char *input) {
  const char *slash = strrchr(input, '/'), *name = slash ? slash + 1 : input, *dot = strrchr(name, '.');
  return dot && dot != name ? strndup(name, (size_t)(dot - name)) : strdup("a.out");
}

static bool same_file(const char *x, const char *y) {
  struct stat a, b;
  return stat(x, &a) == 0 && stat(y, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int check(Options *options) {
  bool cuda = strcmp(options->target, "host") != 0;
  if (options->gpu_arch && !cuda)
    return options_usage_error("--gpu-arch=%s goes with --target=cuda", options->gpu_arch);
  if (options->emit == EMIT_ptx && !cuda) return options_usage_error("--emit=ptx goes with --target=cuda%s", "");
  if (options->emit == EMIT_asm && strcmp(options->target, "cuda") == 0)
    return options_usage_error("--emit=asm is for the host; for --target=cuda it is --emit=ptx%s", "");
  if (options->math && !cuda) return options_usage_error("--math=%s goes with --target=cuda", options->math);
  if (options->shard && cuda) return options_usage_error("--shard=%s goes with --target=host only", options->shard);
  if (options->shard && options->emit == EMIT_exe && !codegen_has_ranks())
    return options_usage_error("--shard=%s: this nnc was built without MPI; install one (package libopenmpi-dev) and "
                               "build it again",
                               options->shard);
  if (cuda && !options->gpu_arch) options->gpu_arch = "sm_80";
  if (options->math && !strcmp(options->math, "tf32") && !nn_gpu_arch_has_tf32(options->gpu_arch))
    return options_usage_error("--math=tf32 needs sm_80 or later, not %s", options->gpu_arch);
  bool text = options->emit != EMIT_exe || options->sweep;
  if (options->sweep && (options->emit != EMIT_exe || options->memory_budget || options->max_overhead))
    return options_usage_error(
        "--sweep prints and stops: it goes with neither --emit nor --memory-budget nor --max-overhead%s", "");
  if (!options->output) options->output = text ? strdup("-") : default_output(options->input);
  if (!options->output) abort();
  if (!*options->output) return options_usage_error("-o takes a file name%s", "");
  if (!text && strcmp(options->output, "-") == 0)
    return options_usage_error("an executable cannot be written to standard output%s", "");
  if (strcmp(options->input, "-") != 0 && same_file(options->input, options->output))
    return options_usage_error("'%s' would overwrite the model", options->output);
  if (options->report && (options->emit < EMIT_plan || options->sweep))
    return options_usage_error("--report shows the whole plan: not with --emit of an earlier stage%s", "");
  if (options->report && same_file(options->input, options->report))
    return options_usage_error("'%s' would overwrite the model", options->report);
  if (options->report && strcmp(options->report, options->output) == 0)
    return options_usage_error("--report and -o are both '%s'", options->report);
  if (options->write_dependencies && strcmp(options->output, "-") == 0)
    return options_usage_error("-MD needs an output file: give one with -o%s", "");
  if (options->offload && options->memory_budget)
    return options_usage_error("--test-offload takes more memory than the plan, not %s", options->memory_budget);
  bool policy_has_budget = !options->remat || strcmp(options->remat, "none") != 0;
  if (options->memory_budget && !policy_has_budget && strchr(options->memory_budget, '%'))
    return options_usage_error("--memory-budget=%s has no meaning with --remat=none", options->memory_budget);
  if (options->max_overhead && !policy_has_budget)
    return options_usage_error("--max-overhead=%s has no meaning with --remat=none", options->max_overhead);
  return -1;
}

int options_parse(int argc, char **argv, Options *options) {
  *options =
      (Options){.target = "host", .cpu = "native", .emit = EMIT_exe, .opt_level = 2, .max_errors = DIAG_MAX_ERRORS};
  for (int option; (option = getopt_long(argc, argv, "o:D:O:f:M:vh", long_options, NULL)) != -1;) {
    int status = parse_option(option, options);
    if (status >= 0) return status;
  }
  if (optind == argc) return options_usage_error("no model file%s", "");
  if (argc - optind > 1) return options_usage_error("one model file at a time: '%s' is one more", argv[optind + 1]);
  options->input = argv[optind];
  return check(options);
}

void options_free(Options *options) {
  free((char *)options->output);
  free(options->defines);
}

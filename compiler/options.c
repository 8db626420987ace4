// The command line of nnc. docs/nnc.1 says the same at more length.
#include "compiler/options.h"

#include <ctype.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/library.h"
#include "compiler/cost_files.h"
#include "compiler/elaborate.h"
#include "compiler/layer_help.h"
#include "runtime/output.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/names.h"
#include "support/text.h"
#include "support/version.h"

const char *const options_passes[] = {
    "all",
#define NN_PASS(name, extent, options, doc) #name,
#include "passes/passes.def"
#undef NN_PASS
    NULL,
};

const char *const options_targets[] = {
#define CODEGEN_TARGET(name, spelling, doc) spelling,
#include "codegen/targets.def"
#undef CODEGEN_TARGET
    NULL,
};

static int list_functions(const char *none) {
  (void)none;
  for (int i = 0; i < layer_count(); i++) {
    const LayerInfo *layer = layer_at(i);
    printf("%s(%s)\n    %s\n", layer->name, layer->signature, layer->doc);
  }
  return 0;
}

static int help_op(const char *name) {
  if (layer_help_print(stdout, name)) return 0;
  NameSearch search = name_search(name);
  for (int i = 0; i < layer_count(); i++) name_consider(&search, layer_at(i)->name);
  fprintf(stderr, "nnc: --help-op: there is no function '%s'", name);
  if (search.best) fprintf(stderr, "; did you mean '%s'?", search.best);
  fputs("\nTry 'nnc --list-ops'.\n", stderr);
  return NNC_EXIT_USAGE;
}

static int print_version(const char *none) {
  (void)none;
  puts("nnc " NNC_VERSION);
  return 0;
}

// The kind of a value is that of the one it replaces; a later one for the same name replaces the earlier.
const char *options_define(char *text, void *out) {
  Defines *defines = out;
  char *equals = strchr(text, '='), *end;
  bool named = equals && equals != text && !isdigit((unsigned char)*text);
  for (const char *c = text; named && c < equals; c++) named = isalnum((unsigned char)*c) || *c == '_';
  if (!named) return "NAME=VALUE";
  if (!equals[1]) return "a value behind the '='";
  Define define = {.name = text, .text = equals + 1, .number = strtod(equals + 1, &end)};
  define.is_number = end != equals + 1 && !*end && isfinite(define.number) && !isspace((unsigned char)equals[1]);
  *equals = 0;
  for (int i = 0; i < defines->n; i++) {
    if (strcmp(defines->list[i].name, text) != 0) continue;
    defines->list[i] = define;
    return NULL;
  }
  defines->list = reallocate_array(defines->list, (size_t)(defines->n + 1), sizeof define);
  defines->list[defines->n++] = define;
  return NULL;
}

static const char *read_budget(char *text, void *out) {
  int64_t bytes;
  double percent;
  *(const char **)out = text;
  return parse_bytes(text, &bytes, &percent) && bytes != 0 ? NULL : "a size such as 512MiB or 60%";
}

static const char *read_bucket(char *text, void *out) {
  int64_t bytes;
  double percent;
  *(const char **)out = text;
  return parse_bytes(text, &bytes, &percent) && bytes > 0 && percent == 0 ? NULL : "a size such as 25MiB";
}

static const char *read_overhead(char *text, void *out) {
  int64_t bytes;
  double percent;
  bool zero = strcmp(text, "0%") == 0;
  *(const char **)out = zero ? "0.000001%" : text;
  bool fine = zero || (parse_bytes(text, &bytes, &percent) && percent != 0 && percent <= 10000);
  return fine ? NULL : "a percentage such as 20% of at most 10000%";
}

static const char *read_far(char *text, void *out) {
  *(const char **)out = text;
  bool file = strncmp(text, "file:", 5) == 0 && text[5];
  return file || strcmp(text, "host") == 0 || strcmp(text, "none") == 0 ? NULL : "host, file:PATH or none";
}

static const char *read_far_budget(char *text, void *out) {
  return read_bucket(text, out) ? "a size such as 64GiB" : NULL;
}

static bool read_positive(char *text, void *out) {
  char *end;
  double number = strtod(text, &end);
  *(const char **)out = text;
  return isdigit((unsigned char)*text) && !*end && text[1] != 'x' && number >= 0.01 && number <= 1e6;
}

static const char *read_seconds(char *text, void *out) {
  return read_positive(text, out) ? NULL : "a number of seconds from 0.01 to 1000000";
}

static const char *read_effort(char *text, void *out) {
  return read_positive(text, out) ? NULL : "a number from 0.01 to 1000000";
}

static const char *read_mpi(char *text, void *out) {
  static char expected[256] = "none";
  size_t n = strlen("none");
  *(const char **)out = text;
  if (strcmp(text, "none") == 0) return NULL;
  for (int i = 0; codegen_mpi(i); i++) {
    if (strcmp(text, codegen_mpi(i)) == 0) return NULL;
    n += (size_t)snprintf(expected + n, sizeof expected - n, ", %s", codegen_mpi(i));
  }
  return expected;
}

const char *options_read_arch(char *text, void *out) {
  *(const char **)out = text;
  return nn_gpu_arch_known(text) ? NULL : nn_gpu_arch_names();
}

static const char *read_file_name(char *text, void *out) {
  *(const char **)out = text;
  return *text ? NULL : "a file name";
}

#define EMIT_WORD(name, doc) #name,
#define EMIT_HELP(name, doc) "\n  " #name " - " doc
static const char *const emits[] = {OPTIONS_EMIT(EMIT_WORD) NULL};

static const Option rows[] = {
    OPTION(Options, output, "output", "FILE", READ,
           "the executable (default: the model file's name without .nn), or the\n"
           "text of --emit (default: '-', standard output)",
           .read = read_file_name, .letter = 'o'),
    OPTION_OF_DEFINES(Options),
    OPTION(Options, memory_budget, "memory-budget", "SIZE", READ,
           "arena the step must fit in: 512MiB, 2GB, or 60% of what it would need", .read = read_budget),
    OPTION(Options, far, "far", "WHERE", READ,
           "where values and parameters may wait that the budget has no room for:\n"
           "host (with --target=cuda: the host's memory), file:PATH (on the host: a file\n"
           "in that folder, or of that name), or none (default)",
           .read = read_far),
    OPTION(Options, far_budget, "far-budget", "SIZE", READ, "bytes that may lie there (default: any number)",
           .read = read_far_budget),
    OPTION(Options, remat, "remat", "POLICY", WORD,
           "what to recompute: auto, none, manual, sqrt, speed or recursive\n"
           "(default: auto with a budget, none without)",
           .words = OPTION_WORDS("auto", "none", "manual", "sqrt", "speed", "recursive")),
    OPTION(Options, max_overhead, "max-overhead", "N%", READ,
           "added time that recomputation may take; without a budget, the smallest\n"
           "arena within it is sought",
           .read = read_overhead),
    OPTION(Options, remat_time, "remat-time", "SECONDS", READ,
           "search that long (default: a fixed number of moves, a few seconds)", .read = read_seconds),
    OPTION(Options, remat_effort, "remat-effort", "X", READ, "X times the default number of moves of the search",
           .read = read_effort),
    OPTION(Options, remat_seed, "remat-seed", "N", NATURAL, "random numbers of the search (default: 0)"),
    OPTION(Options, inside, "inside", "WHAT", WORD,
           "cheap values that backward kernels compute again instead of keeping\n"
           "them: all (default), kernels (only what no library call reads) or none",
           .words = OPTION_WORDS("all", "kernels", "none")),
    OPTION(Options, fuse, "fuse", "WHAT", WORD,
           "what becomes one kernel: all that can (default), or none: each operation\n"
           "is a step of its own, for MODEL train --find-nan and bench --profile",
           .words = OPTION_WORDS("all", "none")),
    OPTION_OF_DTYPE(Options, "f32, f64, bf16 or f16 in place of the file's precision;\n"
                             "f64 also for parameters and all blocks"),
    OPTION(Options, math, "math", "TYPE", WORD,
           "what f32 products are made of on a GPU: f32 (default), or tf32, which is\n"
           "faster and keeps 11 bits of each factor",
           .words = OPTION_WORDS("f32", "tf32")),
    OPTIONS_OF_TARGET(Options),
    OPTION(Options, shard, "shard", "WHAT", WORD,
           "a program that several ranks can run (mpirun, torchrun, srun), each with its own\n"
           "micro-batch; each keeps all, but a part of WHAT: none, the optimizer's state, also\n"
           "the gradients, or also the parameters",
           .words = OPTION_WORDS("none", "optimizer", "gradients", "parameters")),
    OPTION(Options, fit, "dim", "NAME", TEXT, "of nnc fit: the dimension that is made as large as fits"),
    OPTION(Options, ranks, "ranks", "K", COUNT,
           "of how many ranks; --shard=none leaves that open but to --emit=prediction and nnc fit", .least = 1,
           .most = MAX_RANKS),
    OPTION(Options, mpi, "mpi", "NAME", READ,
           "with --shard: openmpi or mpich, where nnc was built with both, or none, for\n"
           "ranks that are started with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
           .read = read_mpi),
    OPTION(Options, bucket, "bucket", "SIZE", READ,
           "bytes of gradients that ranks exchange at once, beside the backward pass\n(default: 25MiB)",
           .read = read_bucket),
    OPTION(Options, fast_reduce, "fast-reduce", NULL, FLAG,
           "with --shard: the sums over ranks that MPI or NCCL has itself, in an order of its\n"
           "own: the bits then depend on the number of ranks"),
    OPTION(Options, kv_cache, "kv-cache", NULL, FLAG,
           "also a function that computes the next position of a causal language model from\n"
           "keys and values that are kept: MODEL predict --sample then does that"),
    OPTION(Options, cpu, "cpu", "NAME", TEXT, "native (default) or an LLVM CPU name"),
    OPTION(Options, machine, "machine", "NAME", READ,
           "rates of the machine the plan is for: a file, or a name of\n"
           "share/nnc/machines (default: the host's own)",
           .read = read_file_name),
    OPTION(Options, costs, "costs", "FILE", READ, "measured times, from MODEL bench --costs=FILE",
           .read = read_file_name),
    {.letter = 'O',
     .argument = " LEVEL",
     .kind = OPTION_COUNT,
     .at = offsetof(Options, opt_level),
     .most = 3,
     .help = "optimization of the kernels, 0 to 3 (default: 2)"},
    OPTION(Options, emit, "emit", "WHAT", CHOICE, "stop there and print:" OPTIONS_EMIT(EMIT_HELP), .words = emits,
           .heading = "Seeing inside:"),
    OPTION(Options, model, "model", "NAME", TEXT,
           "with --emit=onnx: of the file's models (default: the first that training calls)"),
    OPTION(Options, weights, "weights", "FILE", READ,
           "with --emit=onnx: the parameters, from MODEL export or train (default: they are\ninputs)",
           .read = read_file_name),
    OPTION(Options, report, "report", "FILE", READ, "also write the memory plan as an HTML page",
           .read = read_file_name),
    OPTION(Options, offload, "test-offload", "N", COUNT, NULL, .most = 1000000),   // for tests: docs/passes.md
    OPTION(Options, homes, "test-homes", "BYTES", COUNT, NULL, .most = 1000000000),
    OPTION(Options, sweep, "sweep", NULL, FLAG, "print the predicted time for budgets from 100 % down, as CSV"),
    OPTIONS_OF_HOOKS(Options),
    OPTION(Options, hooks.verify_each, "verify-each", NULL, FLAG, "verify after each pass"),
    OPTION(Options, keep_temporaries, "save-temps", NULL, FLAG, "keep the intermediate files of the link"),
    OPTION(Options, verbose, "verbose", NULL, FLAG, "say what is run", .letter = 'v'),
    OPTION_OF_COLOR(Options),
    OPTION_OF_MAX_ERRORS(Options),
    {.letter = 'M',
     .argument = "D",
     .kind = OPTION_FLAG,
     .at = offsetof(Options, write_dependencies),
     .help = "also write OUTPUT.d, the files read, as a make rule"},
    OPTION_THAT_STOPS("list-ops", NULL, list_functions, "the built-in functions of the language"),
    OPTION_THAT_STOPS("help-op", "NAME", help_op, "one of them: arguments, an example, its ops, gradient and FLOPs"),
    OPTION_THAT_STOPS("version", NULL, print_version, "the version"),
};
static const Command command =
    {.usage = "[options] MODEL.nn\n"
              "check [--json] FILE...      mistakes of model files only; 'nnc check --help'\n"
              "fmt [--check] FILE...       files in their one layout; 'nnc fmt --help'\n"
              "fit --dim=NAME --memory-budget=SIZE [options] MODEL.nn\n"
              "                            the largest NAME whose step fits SIZE",
     .before = "Compiles a network and its training to one native executable. MODEL '-' is standard input.",
     .after = "Exit status: 0 done, 1 diagnostics, 2 wrong usage, 70 a bug of nnc.",
     OPTIONS(rows)};

bool emits_program(const Options *options) { return options->emit >= EMIT_library; }

// models/lenet.nn -> lenet or liblenet.so, in the current folder; what has no ending to take off gets the name that cc
// gives
static char *default_output(const char *input, bool library) {
  const char *slash = strrchr(input, '/'), *name = slash ? slash + 1 : input, *dot = strrchr(name, '.');
  if (library) return text_format("lib%.*s.so", dot && dot != name ? (int)(dot - name) : (int)strlen(name), name);
  return dot && dot != name ? text_format("%.*s", (int)(dot - name), name) : copy_string("a.out");
}

enum { OUTPUTS = 4 };

// The names of all that is written, NULL for what is not. Owned: free().
static void list_outputs(const Options *options, char *outputs[OUTPUTS]) {
  outputs[0] = strcmp(options->output, "-") ? copy_string(options->output) : NULL;
  outputs[1] = options->report ? copy_string(options->report) : NULL;
  outputs[2] = options->write_dependencies ? text_format("%s.d", options->output) : NULL;
  outputs[3] = options->emit == EMIT_library ? library_header_path(options->output) : NULL;
}

char *options_overwritten(const Options *options, const char *path) {
  char *outputs[OUTPUTS], *found = NULL;
  list_outputs(options, outputs);
  for (int i = 0; i < OUTPUTS; i++)
    if (outputs[i] && !found && output_is_same(path, outputs[i])) found = outputs[i];
    else free(outputs[i]);
  return found;
}

static int check_outputs(const Options *options) {
  static const char *const what[OUTPUTS] = {"-o", "--report", "-MD", "the library's header"};
  char *outputs[OUTPUTS];
  int status = -1;
  list_outputs(options, outputs);
  for (int i = 0; i < OUTPUTS; i++)
    for (int j = 0; j < i && status < 0; j++)
      if (outputs[i] && outputs[j] && output_is_same(outputs[i], outputs[j]))
        status = options_misused("nnc", "%s and %s are both '%s'", what[i], what[j], outputs[i]);
  for (int i = 0; i < OUTPUTS; i++) free(outputs[i]);
  return status;
}

static int check_inputs(const Options *options) {
  const struct {
    const char *path, *what;
  } inputs[] = {{strcmp(options->input, "-") ? options->input : NULL, "the model"},
                {options->weights, "the file of --weights"},
                {options->costs, "the file of --costs"},
                {options->machine && machine_is_file(options->machine) ? options->machine : NULL,
                 "the file of --machine"}};
  int status = -1;
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs && status < 0; i++) {
    char *output = inputs[i].path ? options_overwritten(options, inputs[i].path) : NULL;
    if (output) status = options_misused("nnc", "'%s' would overwrite %s", output, inputs[i].what);
    free(output);
  }
  return status;
}

static bool is_cuda(const char *target) { return strncmp(target, "cuda", strlen("cuda")) == 0; }   // and cuda-emu

static int check_ranks(const Options *options) {
  bool parts = options->shard && strcmp(options->shard, "none") != 0;
  if (options->ranks > 1 && !options->shard)
    return options_misused("nnc", "--ranks=%d goes with --shard", options->ranks);
  if (options->ranks && !parts && options->emit != EMIT_prediction && !options->fit)
    return options_misused("nnc", "--ranks=%d goes with --emit=prediction: with --shard=%s any number runs it",
                           options->ranks, options->shard ? options->shard : "none");
  if (parts && !options->ranks)
    return options_misused("nnc", "--shard=%s needs the number of ranks: --ranks=K", options->shard);
  if (options->bucket && !options->shard)
    return options_misused("nnc", "--bucket=%s goes with --shard", options->bucket);
  if (options->fast_reduce && !options->shard) return options_misused("nnc", "--fast-reduce goes with --shard");
  bool by_mpi = codegen_mpi(0) && (!options->mpi || strcmp(options->mpi, "none") != 0);
  if (options->fast_reduce && !by_mpi && !is_cuda(options->target))
    return options_misused("nnc", "--fast-reduce goes with an MPI or with --target=cuda: TCP has no sums of its own");
  if (options->mpi && !options->shard) return options_misused("nnc", "--mpi=%s goes with --shard", options->mpi);
  return -1;
}

static int check_far(const Options *options) {
  bool cuda = is_cuda(options->target), given = options->far && strcmp(options->far, "none") != 0;
  if (options->far_budget && !given)
    return options_misused("nnc", "--far-budget=%s goes with --far", options->far_budget);
  if (!given) return -1;
  if (!strcmp(options->far, "host") && !cuda)
    return options_misused("nnc", "--far=host is the host's memory beside a GPU: it goes with --target=cuda; on the "
                                  "host there is --far=file:PATH");
  if (strcmp(options->far, "host") != 0 && cuda)
    return options_misused("nnc", "--far=%s is for the host; with --target=%s there is --far=host", options->far,
                           options->target);
  if (options->fit) return options_misused("nnc", "nnc fit plans without --far=%s", options->far);
  if (!options->memory_budget && !options->sweep && options->emit != EMIT_problem)
    return options_misused("nnc", "--far=%s goes with --memory-budget: without a budget everything has room",
                           options->far);
  if (options->remat && strcmp(options->remat, "auto") != 0)
    return options_misused("nnc", "--far=%s goes with --remat=auto, not %s", options->far, options->remat);
  if (options->shard) return options_misused("nnc", "--far=%s does not go with --shard", options->far);
  return -1;
}

// The header lies beside the library.
static int check_header(const Options *options) {
  char *header = library_header_path(options->output);
  int status = -1;
  if (!strcmp(header, options->output))
    status = options_misused("nnc", "'%s' would be both the library and its header", header);
  free(header);
  return status;
}

int options_check_arch(const char *program, const char *target, const char **gpu_arch) {
  if (!is_cuda(target)) {
    if (!*gpu_arch) return -1;
    return options_misused(program, "--gpu-arch=%s goes with --target=cuda", *gpu_arch);
  }
  if (!*gpu_arch) *gpu_arch = "sm_80";
  return -1;
}

static int check(Options *options) {
  bool cuda = is_cuda(options->target);
  int status = options_check_arch("nnc", options->target, &options->gpu_arch);
  if (status >= 0) return status;
  if (options->emit == EMIT_ptx && !cuda) return options_misused("nnc", "--emit=ptx goes with --target=cuda");
  if (options->emit == EMIT_asm && strcmp(options->target, "cuda") == 0)
    return options_misused("nnc", "--emit=asm is for the host; for --target=cuda it is --emit=ptx");
  if (options->model && options->emit != EMIT_onnx)
    return options_misused("nnc", "--model=%s goes with --emit=onnx; a program has all models of its file",
                           options->model);
  if (options->weights && options->emit != EMIT_onnx)
    return options_misused("nnc", "--weights=%s goes with --emit=onnx; a program is given its own", options->weights);
  if (options->kv_cache && (options->shard || (options->far && strcmp(options->far, "none") != 0)))
    return options_misused("nnc", "--kv-cache does not go with %s", options->shard ? "--shard" : "--far");
  if (options->math && !cuda) return options_misused("nnc", "--math=%s goes with --target=cuda", options->math);
  status = check_ranks(options);
  if (status < 0) status = check_far(options);
  if (status >= 0) return status;
  if (options->math && !strcmp(options->math, "tf32") && !nn_gpu_arch_has_tf32(options->gpu_arch))
    return options_misused("nnc", "--math=tf32 needs sm_80 or later, not %s", options->gpu_arch);
  bool library = options->emit == EMIT_library, text = !emits_program(options) || options->sweep;
  if (options->emit == EMIT_library && options->shard)
    return options_misused("nnc", "--emit=library is one process: not with --shard=%s", options->shard);
  if (options->sweep && (options->emit != EMIT_exe || options->memory_budget || options->max_overhead))
    return options_misused("nnc", "--sweep prints and stops: it goes with neither --emit nor --memory-budget nor "
                                  "--max-overhead");
  if (!options->output && text) options->output = "-";
  if (!options->output) options->output = options->default_output = default_output(options->input, library);
  if (!text && strcmp(options->output, "-") == 0)
    return options_misused("nnc", "%s cannot be written to standard output", library ? "a library" : "an executable");
  if ((status = check_inputs(options)) >= 0) return status;
  if (library && (status = check_header(options)) >= 0) return status;
  if ((status = check_outputs(options)) >= 0) return status;
  if (options->report && (options->emit < EMIT_plan || options->sweep))
    return options_misused("nnc", "--report shows the whole plan: not with --emit of an earlier stage");
  if (options->write_dependencies && strcmp(options->output, "-") == 0)
    return options_misused("nnc", "-MD needs an output file: give one with -o");
  if ((options->offload || options->homes) && options->memory_budget)
    return options_misused("nnc", "--test-offload and --test-homes change the plan of %s", options->memory_budget);
  bool policy_has_budget = !options->remat || strcmp(options->remat, "none") != 0;
  if (options->memory_budget && !policy_has_budget && strchr(options->memory_budget, '%'))
    return options_misused("nnc", "--memory-budget=%s has no meaning with --remat=none", options->memory_budget);
  if (options->max_overhead && !policy_has_budget)
    return options_misused("nnc", "--max-overhead=%s has no meaning with --remat=none", options->max_overhead);
  return -1;
}

int options_parse(int argc, char **argv, Options *options) {
  *options =
      (Options){.target = "host", .cpu = "native", .emit = EMIT_exe, .opt_level = 2, .max_errors = DIAG_MAX_ERRORS};
  int status = options_read(&command, NULL, argc, argv, options);
  if (status >= 0) return status;
  if (optind == argc) return options_misused("nnc", "no model file");
  if (argc - optind > 1) return options_misused("nnc", "one model file at a time: '%s' is one more", argv[optind + 1]);
  options->input = argv[optind];
  return check(options);
}

void options_free(Options *options) {
  free(options->default_output);
  free(options->defines.list);
}

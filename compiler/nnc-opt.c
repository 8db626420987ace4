// nnc-opt: reads a module in textual MLIR, runs a textual pipeline of passes on it and prints the result. The tool of
// the pass tests, and of anyone who wants to see what one pass does.
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/output.h"
#include "compiler/compiler.h"
#include "compiler/diagnostics.h"
#include "support/version.h"

static const char usage[] =
    "Usage: nnc-opt [options] FILE.mlir\n"
    "Runs compiler passes on a module of the nn dialect. FILE '-' is standard input.\n"
    "\n"
    "  --passes=PIPELINE         passes with options, e.g. 'simplify,remat{budget=512MiB policy=sqrt}'\n"
    "  -o, --output=FILE         where the module goes; '-', the default, is standard output\n"
    "  --cpu=NAME                the target's CPU (default: native)\n"
    "  --gpu-arch=NAME           the target is CUDA, for this architecture\n"
    "  --print-ir-before=PASS    print the module on standard error before the pass, or before 'all'\n"
    "  --print-ir-after=PASS     the same after\n"
    "  --time-passes             a table of times on standard error\n"
    "  --list-passes             the passes, in the order of the pipeline\n"
    "  --dump-irdl               the definition of the nn dialect, for mlir-opt --irdl-file=…\n"
    "  --color=WHEN              auto, always or never\n"
    "  -h, --help                this text\n"
    "      --version             the version\n"
    "\n"
    "Exit status: 0 done, 1 diagnostics, 2 wrong usage, 70 a bug of nnc-opt.\n";

typedef struct Options {
  const char *passes, *input, *output, *cpu, *gpu_arch;
  DiagColor color;
  NnPipelineHooks hooks;
} Options;

static int usage_error(const char *format, const char *detail) {
  fputs("nnc-opt: ", stderr);
  fprintf(stderr, format, detail);
  fputs("\nTry 'nnc-opt --help'.\n", stderr);
  return NNC_EXIT_USAGE;
}

// ---------------------------------------------------------------------------------------------------------------------
// Command line

static int print_to_stdout(const char *text) {
  if (fputs(text, stdout) >= 0 && fflush(stdout) == 0) return 0;
  fprintf(stderr, "nnc-opt: cannot write to standard output: %s\n", strerror(errno));
  return NNC_EXIT_DIAGNOSTICS;
}

static int list_passes(void) {
  for (int i = 0; i < nn_n_passes; i++) {
    const NnPassInfo *info = &nn_passes[i];
    printf("%-10s  %s\n", info->name, info->doc);
    if (*info->options) printf("            %s\n", info->options);
  }
  return print_to_stdout("");
}

static int dump_irdl(void) {
  char *text = nn_irdl_text();
  int status = print_to_stdout(text);
  free(text);
  return status;
}

enum {
  OPTION_PASSES = 256,
  OPTION_CPU,
  OPTION_GPU_ARCH,
  OPTION_BEFORE,
  OPTION_AFTER,
  OPTION_TIME,
  OPTION_LIST,
  OPTION_IRDL,
  OPTION_COLOR,
  OPTION_VERSION
};

// Returns an exit status to stop with, or -1 to go on.
static int parse_option(int option, Options *options) {
  switch (option) {
  case OPTION_PASSES: options->passes = optarg; return -1;
  case 'o': options->output = optarg; return -1;
  case OPTION_CPU: options->cpu = optarg; return -1;
  case OPTION_GPU_ARCH: options->gpu_arch = optarg; return -1;
  case OPTION_BEFORE:
  case OPTION_AFTER:
    if (strcmp(optarg, "all") != 0 && !nn_pass_by_name(optarg)) return usage_error("unknown pass '%s'", optarg);
    *(option == OPTION_BEFORE ? &options->hooks.print_before : &options->hooks.print_after) = optarg;
    return -1;
  case OPTION_TIME: options->hooks.time_passes = true; return -1;
  case OPTION_LIST: return list_passes();
  case OPTION_IRDL: return dump_irdl();
  case OPTION_COLOR:
    if (strcmp(optarg, "auto") == 0) options->color = DIAG_COLOR_AUTO;
    else if (strcmp(optarg, "always") == 0) options->color = DIAG_COLOR_ALWAYS;
    else if (strcmp(optarg, "never") == 0) options->color = DIAG_COLOR_NEVER;
    else return usage_error("--color takes auto, always or never, found '%s'", optarg);
    return -1;
  case 'h': return print_to_stdout(usage);
  case OPTION_VERSION: return print_to_stdout("nnc-opt " NNC_VERSION "\n");
  default: return usage_error("%s", "bad option");
  }
}

static int parse_options(int argc, char **argv, Options *options) {
  static const struct option names[] = {{"passes", required_argument, NULL, OPTION_PASSES},
                                        {"output", required_argument, NULL, 'o'},
                                        {"cpu", required_argument, NULL, OPTION_CPU},
                                        {"gpu-arch", required_argument, NULL, OPTION_GPU_ARCH},
                                        {"print-ir-before", required_argument, NULL, OPTION_BEFORE},
                                        {"print-ir-after", required_argument, NULL, OPTION_AFTER},
                                        {"time-passes", no_argument, NULL, OPTION_TIME},
                                        {"list-passes", no_argument, NULL, OPTION_LIST},
                                        {"dump-irdl", no_argument, NULL, OPTION_IRDL},
                                        {"color", required_argument, NULL, OPTION_COLOR},
                                        {"help", no_argument, NULL, 'h'},
                                        {"version", no_argument, NULL, OPTION_VERSION},
                                        {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(argc, argv, "o:h", names, NULL)) != -1;) {
    int status = parse_option(option, options);
    if (status >= 0) return status;
  }
  if (argc - optind != 1) return usage_error("expected one input file%s", argc > optind ? ", found several" : "");
  options->input = argv[optind];
  options->hooks.verify_each = true;
  return -1;
}

// ---------------------------------------------------------------------------------------------------------------------
// Input and output

// Diagnostics need the text and MLIR reads the file itself, so standard input is read here and put back as a file.
static bool replace_stdin(const Source *source) {
  FILE *copy = tmpfile();
  bool ok = copy && fwrite(source->text, 1, source->length, copy) == source->length && fflush(copy) == 0 &&
            lseek(fileno(copy), 0, SEEK_SET) == 0 && dup2(fileno(copy), STDIN_FILENO) == STDIN_FILENO;
  if (!ok) fprintf(stderr, "nnc-opt: cannot keep a copy of standard input: %s\n", strerror(errno));
  if (copy) fclose(copy);
  return ok;
}

// MLIR's reader makes room for all results of an operation that a number of one names, `%3#1000000000` too, before it
// knows whether there are so many.
static bool check_result_numbers(Diagnostics *diagnostics, const Source *source) {
  enum { MOST = 1 << 16 };
  int line = 1, column = 1;
  bool in_value = false;
  for (const char *c = source->text; *c; c++, column++) {
    if (*c == '\n') line++, column = 0;
    if (*c == '%') in_value = true;
    else if (*c == '#' && in_value && strtoull(c + 1, NULL, 10) > MOST)
      return diag_error(diagnostics, (AstPos){source, line, column, 1}, "no operation has more than %d results", MOST);
    else if (!isalnum((unsigned char)*c) && !strchr("_.$-", *c)) in_value = false;
  }
  return true;
}

static MlirModule read_module(MlirContext ctx, Diagnostics *diagnostics, const char *path) {
  MlirModule none = {NULL};
  const char *reason = NULL;
  Source *source = source_read(path, &reason);
  if (!source) {
    diag_error(diagnostics, DIAG_COMMAND_LINE, "cannot read '%s': %s", path, reason);
    return none;
  }
  diag_add_source(diagnostics, source);
  if (!check_result_numbers(diagnostics, source)) return none;
  if (strcmp(path, "-") == 0 && !replace_stdin(source)) return none;
  MlirModule module = mlirModuleCreateParseFromFile(ctx, mlirStringRefCreateFromCString(path));
  if (mlirModuleIsNull(module) || nn_verify_module(module)) return module;
  mlirModuleDestroy(module);
  return none;
}

static void write_chunk(MlirStringRef text, void *file) { fwrite(text.data, 1, text.length, file); }

static bool write_module(MlirModule module, const char *path) {
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  mlirOperationPrint(mlirModuleGetOperation(module), write_chunk, out);
  fputc('\n', out);
  fclose(out);
  bool ok = output_write(path, text, length);
  if (!ok) fprintf(stderr, "nnc-opt: error: cannot write '%s': %s\n", path, strerror(errno));
  free(text);
  return ok;
}

static int run(const Options *options) {
  if (options->gpu_arch && !nn_gpu_arch_known(options->gpu_arch))
    return usage_error("--gpu-arch takes one of %s", nn_gpu_arch_names());
  CodegenTarget *target = codegen_target_create(&(CodegenTargetOptions){.name = options->gpu_arch ? "cuda" : "host",
                                                                        .cpu = options->cpu,
                                                                        .gpu_arch = options->gpu_arch});
  if (!target) return NNC_EXIT_DIAGNOSTICS;
  NnPipeline pipeline;
  char error[NN_ERROR_SIZE];
  if (!nn_pipeline_parse(options->passes, codegen_target_facts(target), &pipeline, error)) {
    codegen_target_destroy(target);
    return usage_error("--passes: %s", error);
  }
  Diagnostics *diagnostics = diag_create(stderr, options->color, DIAG_MAX_ERRORS);
  MlirContext ctx = nn_context_create();
  diag_attach(diagnostics, ctx);
  MlirModule module = read_module(ctx, diagnostics, options->input);
  bool ok = !mlirModuleIsNull(module) && nn_pipeline_run(&pipeline, module, &options->hooks) &&
            write_module(module, options->output);
  if (!mlirModuleIsNull(module)) mlirModuleDestroy(module);
  mlirContextDestroy(ctx);
  diag_free(diagnostics);
  nn_pipeline_free(&pipeline);
  codegen_target_destroy(target);
  return ok ? 0 : NNC_EXIT_DIAGNOSTICS;
}

int main(int argc, char **argv) {
  Options options = {.passes = "", .output = "-", .cpu = "native"};
  int status = parse_options(argc, argv, &options);
  return status >= 0 ? status : run(&options);
}

// nnc check: the mistakes of model files and nothing else, for editors and for tests that run before a commit. A file
// goes through the frontend and as far as autodiff, the last stage that can find a mistake of the program's; no code is
// made and nothing is written.
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "compiler/options.h"

static const char usage[] =
    "Usage: nnc check [options] FILE...\n"
    "Says what is wrong with model files; '-' is standard input. Says nothing of a file without mistakes.\n"
    "\n"
    "      --json              the diagnostics as a JSON array on standard output\n"
    "  -D NAME=NUMBER          another value for a 'dim' or 'let' of the files\n"
    "      --dtype=TYPE        f32, f64, bf16 or f16, as of nnc\n"
    "      --color=WHEN        auto (default), always or never\n"
    "  -fmax-errors=N          stop after N errors of a file, 0: never (default: 20)\n"
    "  -h, --help              this text\n"
    "\n"
    "Exit status: 0 no mistakes, 1 mistakes, 2 wrong usage.\n";

static void check_module(const Options *options, const AstFile *file, MlirContext ctx) {
  MlirModule module = elaborate(ctx, file, options->defines, options->n_defines, options->dtype);
  if (mlirModuleIsNull(module)) return;
  if (mlirOperationIsNull(nn_module_function(module, "train"))) {   // without gradients there is nothing more to find
    mlirModuleDestroy(module);
    return;
  }
  NnPipeline pipeline;
  NnPipelineHooks hooks = {0};
  char error[NN_ERROR_SIZE];
  CodegenTarget *target = codegen_target_create(&(CodegenTargetOptions){.name = "host", .cpu = options->cpu});
  if (!target ||
      !nn_pipeline_parse("simplify,layout,simplify,autodiff", codegen_target_facts(target), &pipeline, error))
    abort();
  nn_pipeline_run(&pipeline, module, &hooks);
  nn_pipeline_free(&pipeline);
  codegen_target_destroy(target);
  mlirModuleDestroy(module);
}

static bool check_file(const Options *options, const char *path, bool json, int *written) {
  Diagnostics *d = diag_create(stderr, options->color, options->max_errors);
  if (json) diag_collect_json(d);
  AstFile *file = ast_parse(d, path);
  if (file && diag_error_count(d) == 0) {
    MlirContext ctx = nn_context_create();
    diag_attach(d, ctx);
    for (int i = 0; i < options->n_defines; i++) options->defines[i].used = false;
    check_module(options, file, ctx);
    mlirContextDestroy(ctx);
  }
  ast_free(file);
  if (json) diag_write_json(d, stdout, written);
  bool ok = diag_error_count(d) == 0;
  diag_free(d);
  return ok;
}

enum { OPTION_JSON = 256, OPTION_COLOR, OPTION_DTYPE };
static const struct option long_options[] = {
    {"json", no_argument, NULL, OPTION_JSON},
    {"color", required_argument, NULL, OPTION_COLOR},
    {"dtype", required_argument, NULL, OPTION_DTYPE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int parse_option(int option, Options *options, bool *json) {
  // ORDER of DiagColor
  static const char *const dtypes[] = {"f32", "f64", "bf16", "f16"}, *const colors[] = {"auto", "never", "always"};
  int chosen = 0, status;
  switch (option) {
  case 'D': return options_define(optarg, options);
  case 'f':
    if (strncmp(optarg, "max-errors=", 11) != 0) return options_usage_error("unknown option '-f%s'", optarg);
    return options_number(optarg + 11, "-fmax-errors", 1000000, &options->max_errors);
  case 'h': return fputs(usage, stdout) >= 0 && fflush(stdout) == 0 ? 0 : NNC_EXIT_DIAGNOSTICS;
  case OPTION_JSON: *json = true; return -1;
  case OPTION_DTYPE: options->dtype = optarg; return options_choose("--dtype", optarg, 4, dtypes, &chosen);
  case OPTION_COLOR:
    status = options_choose("--color", optarg, 3, colors, &chosen);
    options->color = (DiagColor)chosen;
    return status;
  default: fputs("Try 'nnc check --help'.\n", stderr); return NNC_EXIT_USAGE;   // getopt has said what is wrong
  }
}

int command_check(int argc, char **argv) {
  Options options = {.cpu = "native", .max_errors = DIAG_MAX_ERRORS};
  bool json = false;
  int status = -1, written = 0;
  argv[0] = (char[]){"nnc check"};
  for (int option; status < 0 && (option = getopt_long(argc, argv, "D:f:h", long_options, NULL)) != -1;)
    status = parse_option(option, &options, &json);
  if (status < 0 && optind == argc) status = options_usage_error("check: no file%s", "");
  if (status < 0) {
    status = 0;
    if (json) putchar('[');
    for (int i = optind; i < argc; i++)
      if (!check_file(&options, argv[i], json, &written)) status = NNC_EXIT_DIAGNOSTICS;
    if (json) puts("]");
    if (fflush(stdout) != 0) {
      fprintf(stderr, "nnc: error: cannot write to standard output: %s\n", strerror(errno));
      status = NNC_EXIT_DIAGNOSTICS;
    }
  }
  options_free(&options);
  return status;
}

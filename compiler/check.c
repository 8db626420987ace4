// nnc check: the mistakes of model files and nothing else, for editors and for tests that run before a commit. A file
// goes through the frontend and as far as autodiff, the last stage that can find a mistake of the program's; no code is
// made and nothing is written.
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "compiler/options.h"

static const Option rows[] = {
    OPTION(Options, json, "json", NULL, FLAG, "the diagnostics as a JSON array on standard output"),
    OPTION_OF_DEFINES(Options),
    OPTION_OF_DTYPE(Options, "f32, f64, bf16 or f16, as of nnc"),
    OPTION_OF_COLOR(Options),
    OPTION_OF_MAX_ERRORS(Options),
};
static const Command command =
    {.usage = "[options] FILE...",
     .before = "Says what is wrong with model files; '-' is standard input. Says nothing of a file without mistakes.",
     .after = "Exit status: 0 no mistakes, 1 mistakes, 2 wrong usage.",
     OPTIONS(rows)};

static void check_module(const Options *options, const AstFile *file, MlirContext ctx) {
  MlirModule module = elaborate(ctx, file, options->defines.list, options->defines.n, options->dtype, false);
  if (mlirModuleIsNull(module)) return;
  // without a loss there is nothing more to find than what grad() is asked for
  const char *passes = mlirOperationIsNull(nn_module_train(module)) ? "gradients"
                                                                    : "gradients,simplify,layout,simplify,autodiff";
  NnPipeline pipeline;
  NnPipelineHooks hooks = {0};
  char error[NN_ERROR_SIZE];
  CodegenTarget *target = codegen_target_create(&(CodegenTargetOptions){.name = "host", .cpu = options->cpu});
  if (!target || !nn_pipeline_parse(passes, codegen_target_facts(target), &pipeline, error)) abort();
  nn_pipeline_run(&pipeline, module, &hooks);
  nn_pipeline_free(&pipeline);
  codegen_target_destroy(target);
  mlirModuleDestroy(module);
}

static bool check_file(const Options *options, const char *path, int *written) {
  Diagnostics *d = diag_create(stderr, options->color, options->max_errors);
  if (options->json) diag_collect_json(d);
  AstFile *file = ast_parse(d, path);
  if (file && diag_error_count(d) == 0) {
    MlirContext ctx = nn_context_create_alone();
    diag_attach(d, ctx);
    for (int i = 0; i < options->defines.n; i++) options->defines.list[i].used = false;
    check_module(options, file, ctx);
    nn_context_destroy(ctx);
  }
  ast_free(file);
  if (options->json) diag_write_json(d, stdout, written);
  bool ok = diag_error_count(d) == 0;
  diag_free(d);
  return ok;
}

int command_check(int argc, char **argv) {
  Options options = {.cpu = "native", .max_errors = DIAG_MAX_ERRORS};
  int written = 0;
  argv[0] = (char[]){"nnc check"};
  int status = options_read(&command, NULL, argc, argv, &options);
  if (status < 0 && optind == argc) status = options_misused(argv[0], "no file");
  if (status < 0) {
    status = 0;
    if (options.json) putchar('[');
    for (int i = optind; i < argc; i++)
      if (!check_file(&options, argv[i], &written)) status = NNC_EXIT_DIAGNOSTICS;
    if (options.json) puts("]");
  }
  options_free(&options);
  return options_end("nnc", status);
}

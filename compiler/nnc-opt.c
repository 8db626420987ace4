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
#include "compiler/options.h"
#include "support/version.h"

typedef struct OptOptions {
  const char *passes, *input, *output, *target, *cpu, *gpu_arch;
  DiagColor color;
  NnPipelineHooks hooks;
} OptOptions;

// ---------------------------------------------------------------------------------------------------------------------
// Command line

static int list_passes(const char *none) {
  (void)none;
  for (int i = 0; i < nn_n_passes; i++) {
    const NnPassInfo *info = &nn_passes[i];
    printf("%-10s  %s\n", info->name, info->doc);
    if (*info->options) printf("            %s\n", info->options);
  }
  return 0;
}

static int dump_irdl(const char *none) {
  (void)none;
  char *text = nn_irdl_text();
  fputs(text, stdout);
  free(text);
  return 0;
}

static int print_version(const char *none) {
  (void)none;
  puts("nnc-opt " NNC_VERSION);
  return 0;
}

static const Option rows[] = {
    OPTION(OptOptions, passes, "passes", "PIPELINE", TEXT,
           "passes with options, e.g. 'simplify,remat{budget=512MiB policy=sqrt}'"),
    OPTION(OptOptions, output, "output", "FILE", TEXT, "where the module goes; '-', the default, is standard output",
           .letter = 'o'),
    OPTION(OptOptions, cpu, "cpu", "NAME", TEXT, "the target's CPU (default: native)"),
    OPTIONS_OF_TARGET(OptOptions),
    OPTIONS_OF_HOOKS(OptOptions),
    OPTION_THAT_STOPS("list-passes", NULL, list_passes, "the passes, in the order of the pipeline"),
    OPTION_THAT_STOPS("dump-irdl", NULL, dump_irdl, "the definition of the nn dialect, for mlir-opt --irdl-file=…"),
    OPTION_OF_COLOR(OptOptions),
    OPTION_THAT_STOPS("version", NULL, print_version, "the version"),
};
static const Command command = {.usage = "[options] FILE.mlir",
                                .before =
                                    "Runs compiler passes on a module of the nn dialect. FILE '-' is standard input.",
                                .after = "Exit status: 0 done, 1 diagnostics, 2 wrong usage, 70 a bug of nnc-opt.",
                                OPTIONS(rows)};

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

static int run(const OptOptions *options) {
  CodegenTarget *target = codegen_target_create(
      &(CodegenTargetOptions){.name = options->target, .cpu = options->cpu, .gpu_arch = options->gpu_arch});
  if (!target) return NNC_EXIT_DIAGNOSTICS;
  NnPipeline pipeline;
  char error[NN_ERROR_SIZE];
  if (!nn_pipeline_parse(options->passes, codegen_target_facts(target), &pipeline, error)) {
    codegen_target_destroy(target);
    return options_misused("nnc-opt", "--passes: %s", error);
  }
  Diagnostics *diagnostics = diag_create(stderr, options->color, DIAG_MAX_ERRORS);
  MlirContext ctx = nn_context_create();
  diag_attach(diagnostics, ctx);
  MlirModule module = read_module(ctx, diagnostics, options->input);
  bool ok = !mlirModuleIsNull(module) && nn_pipeline_run(&pipeline, module, &options->hooks) &&
            write_module(module, options->output);
  if (!mlirModuleIsNull(module)) mlirModuleDestroy(module);
  nn_context_destroy(ctx);
  diag_free(diagnostics);
  nn_pipeline_free(&pipeline);
  codegen_target_destroy(target);
  return ok ? 0 : NNC_EXIT_DIAGNOSTICS;
}

int main(int argc, char **argv) {
  options_begin();
  OptOptions options = {.passes = "", .output = "-", .target = "host", .cpu = "native", .hooks = {.verify_each = true}};
  argv[0] = (char[]){"nnc-opt"};
  int status = options_read(&command, NULL, argc, argv, &options);
  if (status < 0 && argc - optind != 1)
    status = options_misused(argv[0], "expected one input file%s", argc > optind ? ", found several" : "");
  if (status < 0) status = options_check_arch(argv[0], options.target, &options.gpu_arch);
  options.input = argv[optind];
  return options_end("nnc-opt", status >= 0 ? status : run(&options));
}

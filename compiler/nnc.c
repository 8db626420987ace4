// nnc: from a .nn file to an executable that trains it. compile() below is the pipeline, a line a stage.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/onnx/onnx.h"
#include "codegen/output.h"
#include "compiler/compiler.h"
#include "compiler/cost_files.h"
#include "compiler/diagnostics.h"
#include "compiler/fit.h"
#include "compiler/fit_plan.h"
#include "compiler/options.h"
#include "compiler/prediction.h"
#include "compiler/report_output.h"
#include "compiler/summary.h"
#include "passes/decode/decode.h"
#include "passes/passes.h"
#include "passes/remat/remat.h"
#include "support/bytes.h"
#include "support/clock.h"
#include "support/text.h"
#include "support/version.h"

// --- The pipeline
// docs/internals.md tells what each pass promises the next.

static const char *const stages[] = {
    "gradients",    // grad(y, x): before all others, which then see ordinary ops
    "fourier",      // before autodiff, which differentiates products as well
    "simplify",     // what the frontend wrote twice or for nothing goes before it costs anyone time
    "decode",       // with --kv-cache; while positions are an axis that can be followed
    "layout",       // before autodiff, so that gradients are born in the layout their convolutions want
    "simplify",     // transposes that met cancel
    "align",        // before autodiff, so that the gradient of the scores has the rows of the scores
    "chunk",        // before autodiff, which puts each chunk of the scores where its gradient is made
    "autodiff",     // one function becomes the whole step, optimizer included
    "distribute",   // what the ranks of a distributed program exchange; needs to see all gradients
    "decompose",    // after autodiff, because the gradient of a composite is better than those of its parts
    "hoist",        // after autodiff: the gradient of a weight that is cast in a loop is that of the wide one
    "simplify",     // the parts share work
    "recompute",    // what is cheap is not kept from forward to backward; before fuse, which puts it into kernels
    "fuse",         // before remat: what is recomputed is whole kernels, and no budget changes a kernel
    "epilogue",     // kernels around a convolution become part of it, where the target can
    "scan",         // what one step of each loop needs: the workspace of the loop in all that follows
    "schedule",     // the order that remat improves upon
    "fetch",        // when parameters in parts are gathered; on the order, before remat counts their bytes
    "remat",        // the budget pass
    "gather",       // updates side by side where memory allows it: what remat kept to is final, and they are launched
                    // together
    "offload",      // for tests, where --test-offload asks for it: copies on lanes of their own
    "inplace",      // on the final order: who may overwrite whom
    "plan",         // offsets; from here on memory is only numbers
    "check",        // a judge of its own replays the plan before code is made for it
};
#define N_STAGES (int)(sizeof stages / sizeof *stages)

// How many stages have run before what is emitted exists.
static int stages_for(Emit emit, bool sweep) {
  if (sweep) emit = EMIT_problem;   // both are about what remat is given
  if (emit == EMIT_nn) return 0;
  const char *last = emit == EMIT_onnx      ? "simplify"
                     : emit == EMIT_problem ? "fetch"
                     : emit == EMIT_remat   ? "remat"
                                            : NULL;
  if (!last) return N_STAGES;
  int n = 0;
  while (strcmp(stages[n], last) != 0) n++;
  return n + 1;
}

// The stages as a textual pipeline, with the options of remat and plan filled in. Owned: free().
static char *pipeline_text(const Options *options) {
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  const char *budget = options->memory_budget, *policy = options->remat                    ? options->remat
                                                         : budget || options->max_overhead ? "auto"
                                                                                           : "none";
  bool far = options->far && strcmp(options->far, "none") != 0;
  // where nothing may run again the memory plan alone decides whether the budget is met
  bool planned = budget && strcmp(policy, "none") == 0 && stages_for(options->emit, options->sweep) == N_STAGES;
  for (int i = 0; i < stages_for(options->emit, options->sweep); i++) {
    bool alone = options->fuse && strcmp(options->fuse, "none") == 0;
    if (strcmp(stages[i], "offload") == 0 && !options->offload && !options->homes) continue;
    if (strcmp(stages[i], "decode") == 0 && !options->kv_cache) continue;
    if (strcmp(stages[i], "check") == 0 && options->fit) continue;   // compiling for the answer judges its plan
    if (strcmp(stages[i], "epilogue") == 0 && alone) continue;
    fprintf(out, "%s%s", i > 0 ? "," : "", stages[i]);
    if (strcmp(stages[i], "fourier") == 0 && options->emit == EMIT_onnx) fprintf(out, "{keep=none}");
    if (strcmp(stages[i], "offload") == 0) fprintf(out, "{far=%d homes=%d}", options->offload, options->homes);
    if (strcmp(stages[i], "distribute") == 0 && options->bucket)
      fprintf(out, "{bucket=%s fast=%d}", options->bucket, options->fast_reduce);
    else if (strcmp(stages[i], "distribute") == 0 && options->fast_reduce) fprintf(out, "{fast=1}");
    if (strcmp(stages[i], "recompute") == 0 && (alone || options->inside))
      fprintf(out, "{mode=%s}", alone ? "none" : options->inside);
    if (strcmp(stages[i], "fuse") == 0 && alone) fprintf(out, "{mode=none}");
    if (planned && (strcmp(stages[i], "gather") == 0 || strcmp(stages[i], "plan") == 0))
      fprintf(out, "{budget=%s}", budget);
    if (strcmp(stages[i], "remat") == 0) {
      fprintf(out, "{policy=%s", policy);
      if (budget && !planned) fprintf(out, " budget=%s", budget);
      if (far) fprintf(out, " far=%s", options->far_budget ? options->far_budget : "any");
      if (options->max_overhead) fprintf(out, " max-overhead=%s", options->max_overhead);
      if (options->remat_seed) fprintf(out, " seed=%llu", (unsigned long long)options->remat_seed);
      if (options->remat_effort) fprintf(out, " effort=%s", options->remat_effort);
      if (options->remat_time) fprintf(out, " time-limit=%s", options->remat_time);
      fputc('}', out);
    }
  }
  fclose(out);
  return text;
}

// What is done between `schedule` and `remat`, or after `schedule` where nothing follows.
typedef struct Planning {
  const Options *options;
  Diagnostics *d;
  const CodegenTarget *target;
  ReportCapture capture;   // Owned; the step for --report
  CostFile costs;          // Owned; --costs
  bool matched, ok;
} Planning;

static void match_costs(Planning *p, MlirModule module) {
  if (p->options->costs && !p->matched) p->ok = cost_file_match(p->d, p->target, &p->costs, module);
  p->matched = true;
}

static void before_pass(void *context, const NnPassInfo *pass, MlirModule module) {
  Planning *p = context;
  if (strcmp(pass->name, "remat") != 0) return;
  match_costs(p, module);
  if (p->options->report) report_capture(&p->capture, module);
}

static bool run_passes(const Options *options, const NnTarget *target, MlirModule module, Planning *planning) {
  NnPipeline pipeline;
  NnPipelineHooks hooks = options->hooks;
  hooks.before_pass = before_pass;
  hooks.context = planning;
  hooks.verify_never = options->fit != NULL && !hooks.verify_each;
  char error[NN_ERROR_SIZE], *text = pipeline_text(options);
  if (options->verbose) fprintf(stderr, "nnc: passes %s\n", text);
  bool ok = nn_pipeline_parse(text, target, &pipeline, error);
  if (!ok) fprintf(stderr, "nnc: error: %s\n", error);
  ok = ok && nn_pipeline_run(&pipeline, module, &hooks);
  nn_pipeline_free(&pipeline);
  free(text);
  if (ok && stages_for(options->emit, options->sweep) > 0) match_costs(planning, module);
  return ok && planning->ok;
}

// The cache that was asked for cannot be made: the program does without.
static void warn_uncached(Diagnostics *d, MlirModule module) {
  char why[256];
  MlirOperation top = mlirModuleGetOperation(module);
  MlirAttribute at = mlirOperationGetAttributeByName(top, nn_string_ref(ATTR_uncached_at));
  if (!*nn_attr_str(top, ATTR_uncached, why, sizeof why, "")) return;
  AstPos pos = mlirAttributeIsNull(at) ? DIAG_COMMAND_LINE : diag_position(d, mlirLocationFromAttribute(at));
  diag_warning(d, pos, "no cache of keys and values, since %s", why);
  diag_hint(d, "without one predict --sample computes the whole context for each token");
}

// --- Output

static bool write_text(Diagnostics *d, const char *path, const char *text, size_t length) {
  if (output_write(path, text, length)) return true;
  const char *reason = strerror(errno);
  return strcmp(path, "-") == 0 ? diag_error(d, DIAG_COMMAND_LINE, "cannot write to standard output: %s", reason)
                                : diag_error(d, DIAG_COMMAND_LINE, "cannot write '%s': %s", path, reason);
}

static void write_chunk(MlirStringRef text, void *out) { fwrite(text.data, 1, text.length, out); }

// How the pass remat is told to search.
// Bytes that may lie far away; 0: none.
static int64_t far_budget(const Options *options) {
  int64_t bytes = INT64_MAX / 4;
  double percent;
  if (!options->far || strcmp(options->far, "none") == 0) return 0;
  if (options->far_budget) parse_bytes(options->far_budget, &bytes, &percent);
  return bytes;
}

static RematGoal search_goal(const Options *options) {
  return (RematGoal){.seed = options->remat_seed,
                     .seconds = options->remat_time ? strtod(options->remat_time, NULL) : 0,
                     .effort = options->remat_effort ? strtod(options->remat_effort, NULL) : 0,
                     .far_budget = far_budget(options)};
}

static bool can_be_predicted(const Options *options, Diagnostics *d, const CodegenTarget *target) {
  if (codegen_knows_links(target, options->ranks > 1 ? options->ranks : 1)) return true;
  return diag_error(d, DIAG_COMMAND_LINE,
                    "--ranks=%d: %s tells no links between so many ranks: --machine=h100 and others do, or a "
                    "description "
                    "with \"links\"",
                    options->ranks, options->machine ? options->machine : "the host's own description");
}

static const AstItem *find_model(const AstFile *file, const char *name) {
  for (int i = 0; i < file->n_items; i++)
    if (file->items[i]->kind == AST_MODEL && !strcmp(file->items[i]->name.text, name)) return file->items[i];
  return NULL;
}

static bool write_onnx(const Options *options, Diagnostics *d, const AstFile *file, MlirModule module, FILE *out) {
  Text text;
  char main_model[256], function[512];
  nn_attr_str(mlirModuleGetOperation(module), ATTR_model, main_model, sizeof main_model, "");
  const char *model = options->model ? options->model : main_model;
  snprintf(function, sizeof function, strcmp(model, main_model) ? "predict.%s" : "predict", model);
  MlirOperation func = nn_module_function(module, function);
  const AstItem *item = find_model(file, model);
  AstPos at = item ? item->name.pos : options->model ? DIAG_COMMAND_LINE : (AstPos){file->source, 1, 1, 0};
  if (mlirOperationIsNull(func) && !options->model)
    return diag_error(d, at, "--emit=onnx: the file has no model that predicts");
  if (mlirOperationIsNull(func) && item)
    return diag_error(d, at,
                      "--model=%s: training does not call the model, and its signature does not tell all shapes or it "
                      "has parameters that training does not have",
                      model);
  if (mlirOperationIsNull(func)) return diag_error(d, at, "--model=%s: the file has no such model", model);
  bool ok = onnx_write(func, model, options->weights, &text);
  if (ok) fwrite(text.data, 1, text.size, out);
  text_free(&text);
  return ok;
}

static bool emit_text(const Options *options, Diagnostics *d, const AstFile *file, MlirModule module,
                      const CodegenTarget *code) {
  const NnTarget *target = code ? codegen_target_facts(code) : NULL;
  if (options->emit == EMIT_prediction && !can_be_predicted(options, d, code)) return false;
  if ((options->emit == EMIT_problem || options->sweep) && !nn_remat_check_far(module, target, far_budget(options)))
    return false;
  if ((options->emit == EMIT_problem || options->emit == EMIT_prediction || options->sweep) &&
      mlirOperationIsNull(nn_module_train(module)))
    return diag_error(d, DIAG_COMMAND_LINE, "%s: '%s' has no train section",
                      options->sweep                     ? "--sweep"
                      : options->emit == EMIT_prediction ? "--emit=prediction"
                                                         : "--emit=problem",
                      options->input);
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  bool ok = true;
  if (options->emit == EMIT_ast) {
    ast_print(out, file, true);
  } else if (options->sweep) {
    RematSweep sweep;
    RematGoal search = search_goal(options);
    nn_remat_sweep(module, target, &search, NULL, &sweep);
    nn_remat_sweep_print(&sweep, out);
    nn_remat_sweep_free(&sweep);
  } else if (options->emit == EMIT_onnx) {
    ok = write_onnx(options, d, file, module, out);
  } else if (options->emit == EMIT_plan) {
    nn_plan_print(module, out);
  } else if (options->emit == EMIT_prediction) {
    prediction_print(module, code, options->ranks > 1 ? options->ranks : 1, out);
  } else if (options->emit == EMIT_problem) {
    nn_remat_problem_print(module, target, far_budget(options), out);
  } else {
    mlirOperationPrint(mlirModuleGetOperation(module), write_chunk, out);
    fputc('\n', out);
  }
  fclose(out);
  ok = ok && write_text(d, options->output, text, length);
  free(text);
  return ok;
}

// Of the absolute path (FNV-1a), so that the program knows the checkpoints of another file of the same name: the path
// as it was given is the same in every folder. Nothing else in an executable depends on the folder.
static uint64_t source_id(const char *path) {
  uint64_t hash = 0xcbf29ce484222325u;
  char *absolute = realpath(path, NULL);
  for (const char *c = absolute; c && *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  uint64_t id = absolute ? hash : 0;
  free(absolute);
  return id;
}

static bool emit_code(const Options *options, const CodegenTarget *target, MlirModule module) {
  static const CodegenEmit what[] =
      {[EMIT_kernels] = CODEGEN_KERNELS, [EMIT_llvm] = CODEGEN_LLVM,     [EMIT_asm] = CODEGEN_ASM,
       [EMIT_ptx] = CODEGEN_PTX,         [EMIT_tables] = CODEGEN_TABLES, [EMIT_exe] = CODEGEN_EXE,
       [EMIT_library] = CODEGEN_LIBRARY};
  CodegenOptions codegen = {.output = options->output,
                            .source_name = options->input,
                            .source_id = source_id(options->input),
                            .opt_level = options->opt_level,
                            .far_path = options->far && strncmp(options->far, "file:", 5) == 0 ? options->far + 5
                                                                                               : NULL,
                            .ranks = options->shard != NULL,
                            .mpi = !options->mpi                  ? codegen_mpi(0)
                                   : strcmp(options->mpi, "none") ? options->mpi
                                                                  : NULL,
                            .verbose = options->verbose,
                            .time_phases = options->hooks.time_passes,
                            .keep_temporaries = options->keep_temporaries};
  return codegen_emit(target, module, what[options->emit], &codegen);
}

// A make rule: a space in a name is escaped, as make wants it.
static void write_name(FILE *out, const char *name) {
  for (; *name; name++) {
    if (*name == ' ' || *name == '#') fputc('\\', out);
    if (*name == '$') fputc('$', out);
    fputc(*name, out);
  }
}

static bool write_dependencies(const Options *options, Diagnostics *d, const AstFile *file) {
  char *text = NULL, *path = text_format("%s.d", options->output);
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  write_name(out, options->output);
  fputc(':', out);
  for (int i = 0; i < file->n_sources; i++) {
    fputc(' ', out);
    write_name(out, file->sources[i]->name);
  }
  fputc('\n', out);
  fclose(out);
  bool ok = write_text(d, path, text, length);
  free(path);
  free(text);
  return ok;
}

// --- Compilation

static void print_time(const Options *options, const char *stage, double start) {
  if (options->hooks.time_passes) fprintf(stderr, "%-14s %10.4f\n", stage, seconds_now() - start);
}

static bool read_cost_files(const Options *options, CodegenTarget *target, Diagnostics *d, CostFile *costs) {
  Machine machine;
  if (options->machine) {
    if (!machine_read(d, options->machine, &machine)) return false;
    codegen_target_set_machine(target, &machine);
  }
  if (!options->costs) return true;
  if (!cost_file_read(d, options->costs, options->target, costs)) return false;
  codegen_target_set_costs(target, &costs->table);
  return true;
}

static MlirContext context_create(const Options *options) {
  return options->shard || options->ranks ? nn_context_create() : nn_context_create_alone();
}

static void set_ranks(const Options *options, MlirModule module) {
  MlirOperation top = mlirModuleGetOperation(module);
  if (options->shard) nn_set_attr(top, &NN_STR(ATTR_shard, options->shard));
  if (options->ranks) nn_set_attr(top, &NN_I64(ATTR_ranks, options->ranks));
}

// A library's header names its own types nnc_...; another model's table is named after it.
static bool has_free_name(Diagnostics *d, const AstFile *file, MlirModule module) {
  char name[128];
  nn_attr_str(mlirModuleGetOperation(module), ATTR_model, name, sizeof name, "");
  if (strcmp(name, "nnc") != 0 && strcmp(name, "nnc_library") != 0) return true;
  const AstItem *item = find_model(file, name);
  AstPos at = item ? item->name.pos : (AstPos){file->source, 1, 1, 0};
  diag_error(d, at, "the table of a library of the model '%s' would be named %s_model, which nnc's header has", name,
             name);
  diag_hint(d, "give the model another name, or compile it without --emit=library");
  return false;
}

// Homes far away are those of all phases, which a curve over budgets would have to search together for each of its
// points.
static bool phases_can(const Options *options, Diagnostics *d, const AstFile *file, MlirModule module) {
  bool far = options->far && strcmp(options->far, "none") != 0;
  if (!far || !options->sweep || !nn_has_attr(mlirModuleGetOperation(module), ATTR_phases)) return true;
  AstPos at = {file->source, 1, 1, 0};
  for (int i = 0; i < file->n_items; i++)
    for (int k = 0; file->items[i]->kind == AST_TRAIN && k < file->items[i]->body.n; k++)
      if (file->items[i]->body.stmts[k]->kind == AST_PHASE) at = file->items[i]->body.stmts[k]->pos;
  diag_error(d, at, "--sweep with --far plans one step, a training in phases has several");
  diag_hint(d, "--far with a --memory-budget plans them all");
  return false;
}

static bool compile_for(const Options *options, Diagnostics *d, const AstFile *file, MlirContext ctx,
                        CodegenTarget *target) {
  double start = seconds_now();
  MlirModule module = elaborate(ctx, file, options->defines.list, options->defines.n, options->dtype, false);
  print_time(options, "elaborate", start);
  if (mlirModuleIsNull(module)) return false;
  if (mlirOperationIsNull(nn_module_train(module)) && mlirOperationIsNull(nn_module_function(module, "predict"))) {
    mlirModuleDestroy(module);
    return diag_error(d, (AstPos){file->source, 1, 1, 0}, "the file has no model");
  }
  if (options->emit == EMIT_library && !has_free_name(d, file, module)) {
    mlirModuleDestroy(module);
    return false;
  }
  if (!phases_can(options, d, file, module)) {
    mlirModuleDestroy(module);
    return false;
  }
  set_ranks(options, module);
  if (options->emit == EMIT_library) nn_set_unit(mlirModuleGetOperation(module), ATTR_library);
  const NnTarget *facts = codegen_target_facts(target);
  Planning planning = {.options = options, .d = d, .target = target, .ok = true};
  bool ok = read_cost_files(options, target, d, &planning.costs) && run_passes(options, facts, module, &planning);
  if (ok) warn_uncached(d, module);
  start = seconds_now();
  RematGoal search = search_goal(options);
  ok = ok && (!options->report || report_output(d, options->report, &planning.capture, module, facts, &search));
  ok = ok && (options->emit <= EMIT_prediction || options->sweep ? emit_text(options, d, file, module, target)
                                                                 : emit_code(options, target, module));
  print_time(options, "emit", start);
  if (ok && emits_program(options) && !options->sweep) print_summary(options, module);
  mlirModuleDestroy(module);
  codegen_target_set_costs(target, NULL);
  report_capture_free(&planning.capture);
  cost_file_free(&planning.costs);
  return ok;
}

// --- nnc fit

typedef struct Fit {
  const Options *options;
  AstFile *file;
  int64_t bytes;
  Diagnostics *told;   // where no value is a program
  FILE *unheard;
  bool tells;
} Fit;

// Also where it needs more than the budget.
static bool is_planned(MlirModule module) { return nn_has_attr(mlirModuleGetOperation(module), ATTR_arena); }

static bool plan_for_fit(const Options *options, Diagnostics *d, const AstFile *file, MlirContext ctx,
                         CodegenTarget *target, int64_t bytes, FitPlan *plan) {
  MlirModule module = elaborate(ctx, file, options->defines.list, options->defines.n, options->dtype, plan->rough);
  if (mlirModuleIsNull(module)) return false;
  bool ok = !mlirOperationIsNull(nn_module_train(module));
  if (!ok) diag_error(d, DIAG_COMMAND_LINE, "nnc fit: '%s' has no train section", options->input);
  set_ranks(options, module);
  Planning planning = {.options = options, .d = d, .target = target, .ok = true};
  ok = ok && read_cost_files(options, target, d, &planning.costs) && can_be_predicted(options, d, target) &&
       (run_passes(options, codegen_target_facts(target), module, &planning) || is_planned(module));
  if (ok && plan->rough) fit_plan_estimate(module, codegen_target_facts(target), plan);
  else if (ok) {
    int64_t ranks = options->ranks > 1 ? options->ranks : 1;
    bool again = plan->planned;
    fit_plan_read(module, plan);
    bool near = plan->arena <= bytes && plan->arena > bytes / 8 * 7;   // may be the answer
    if (near || again) plan->seconds = prediction_seconds(module, target, ranks);
    plan->items = prediction_items(module, ranks, &plan->tokens);
  }
  mlirModuleDestroy(module);
  codegen_target_set_costs(target, NULL);
  cost_file_free(&planning.costs);
  return ok;
}

static CodegenTarget *create_target(const Options *options);

static bool plan_value(void *context, FitPlan *plan) {
  Fit *fit = context;
  Options o = *fit->options;
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)plan->value);
  o.remat = "none";
  o.defines.list = allocate_array((size_t)o.defines.n + 1, sizeof *o.defines.list);
  if (o.defines.n) memcpy(o.defines.list, fit->options->defines.list, (size_t)o.defines.n * sizeof *o.defines.list);
  o.defines.list[o.defines.n++] =
      (Define){.name = o.fit, .text = text, .number = (double)plan->value, .is_number = true, .of_fit = true};
  if (plan->rough) o.emit = EMIT_problem;   // what is behind the order is left out
  // What is wrong with a value is no mistake of the user's, unless all are.
  Diagnostics *d = fit->tells ? fit->told : diag_create(fit->unheard, o.color, 1);
  AstFile *file = fit->tells ? fit->file : ast_parse(d, o.input);
  MlirContext ctx = context_create(&o);
  diag_attach(d, ctx);
  CodegenTarget *target = create_target(&o);
  bool ok = file && target && plan_for_fit(&o, d, file, ctx, target, fit->bytes, plan);
  codegen_target_destroy(target);
  nn_context_destroy(ctx);
  if (!fit->tells) ast_free(file);
  if (!fit->tells) diag_free(d);
  free(o.defines.list);
  return ok;
}

// B = 57: arena 79.6 GiB (85470347264 bytes) of 80.0 GiB; step 120.3 ms, 486000 tokens a second, predicted
// B = 58: arena 80.9 GiB (86866201600 bytes)
static void print_fit(const Options *options, int64_t bytes, const FitPlan *best, const FitPlan *next) {
  char text[32], all[32];
  printf("%s = %lld: arena %s (%lld bytes) of %s; step %.4g ms, %.6g %s a second, predicted\n", options->fit,
         (long long)best->value, print_bytes(best->arena, text, sizeof text), (long long)best->arena,
         print_bytes(bytes, all, sizeof all), best->seconds * 1e3, best->items / best->seconds,
         best->tokens ? "tokens" : "records");
  if (next->arena)
    printf("%s = %lld: arena %s (%lld bytes)\n", options->fit, (long long)next->value,
           print_bytes(next->arena, text, sizeof text), (long long)next->arena);
  else if (next->value) printf("%s = %lld: no such program\n", options->fit, (long long)next->value);
  else printf("no larger %s is looked for\n", options->fit);
}

// Nearer to the answer than 1, mostly.
static int64_t value_in_file(const AstFile *file, const char *dim) {
  for (int i = 0; i < file->n_items; i++) {
    const AstItem *item = file->items[i];
    if (item->kind == AST_DIM && !strcmp(item->name.text, dim) && item->value->kind == AST_INT &&
        item->value->integer > 0)
      return item->value->integer;
  }
  return 1;
}

static bool is_whole_in_file(const AstFile *file, const char *dim, Diagnostics *d) {
  for (int i = 0; i < file->n_items; i++) {
    const AstItem *item = file->items[i];
    if ((item->kind != AST_DIM && item->kind != AST_LET) || strcmp(item->name.text, dim) != 0) continue;
    AstExprKind kind = item->value->kind;
    if (kind == AST_FLOAT || kind == AST_BOOL || kind == AST_STRING)
      return diag_error(d, item->name.pos, "nnc fit looks for a whole number, which '%s' is not", dim);
  }
  return true;
}

static bool fit_dimension(const Options *options, Diagnostics *d) {
  int64_t bytes = 0;
  double percent = 0;
  parse_bytes(options->memory_budget, &bytes, &percent);
  AstFile *file = ast_parse(d, options->input);
  char *unheard = NULL;   // memory: an open file more, and a plan might lack one
  size_t length;
  Fit fit = {.options = options, .file = file, .bytes = bytes, .told = d, .unheard = open_memstream(&unheard, &length)};
  if (!fit.unheard) abort();
  FitPlan best = {0}, next = {0};
  bool ok = file && diag_error_count(d) == 0 && is_whole_in_file(file, options->fit, d) &&
            fit_search(bytes, value_in_file(file, options->fit), plan_value, &fit, &best, &next) &&
            (best.seconds > 0 || plan_value(&fit, &best));
  char need[32], have[32];
  if (ok) print_fit(options, bytes, &best, &next);
  else if (best.arena)
    diag_error(d, DIAG_COMMAND_LINE, "nnc fit: with %s = %lld the arena takes %s, more than %s", options->fit,
               (long long)best.value, print_bytes(best.arena, need, sizeof need),
               print_bytes(bytes, have, sizeof have));
  else if (best.value) {
    fit.tells = true;
    best.value = value_in_file(file, options->fit);
    plan_value(&fit, &best);
  }
  fclose(fit.unheard);
  free(unheard);
  ast_free(file);
  return ok;
}

// Asked for, without a budget or within one.
static bool recomputes(const Options *options) {
  return options->max_overhead || (options->remat && strcmp(options->remat, "none") != 0);
}

static CodegenTarget *create_target(const Options *options) {
  return codegen_target_create(&(CodegenTargetOptions){.name = options->target,
                                                       .cpu = options->cpu,
                                                       .gpu_arch = options->gpu_arch,
                                                       .tf32 = options->math && strcmp(options->math, "tf32") == 0,
                                                       .saves_memory = options->memory_budget || options->sweep ||
                                                                       options->emit == EMIT_problem ||
                                                                       recomputes(options)});
}

static bool compile_module(const Options *options, Diagnostics *d, const AstFile *file, MlirContext ctx) {
  CodegenTarget *target = create_target(options);
  bool ok = target && compile_for(options, d, file, ctx, target);
  codegen_target_destroy(target);
  return ok;
}

static bool spares_sources(const Options *options, Diagnostics *d, const AstFile *file) {
  bool ok = true;
  for (int i = 0; i < file->n_sources; i++) {
    char *output = options_overwritten(options, file->sources[i]->name);
    if (output)
      ok = diag_error(d, DIAG_COMMAND_LINE, "'%s' would overwrite '%s', which '%s' imports", output,
                      file->sources[i]->name, options->input);
    free(output);
  }
  return ok;
}

static bool compile(const Options *options, Diagnostics *d) {
  double start = seconds_now();
  AstFile *file = ast_parse(d, options->input);
  print_time(options, "parse", start);
  bool ok = file && diag_error_count(d) == 0 && spares_sources(options, d, file);
  if (ok && options->emit == EMIT_ast) {
    ok = emit_text(options, d, file, (MlirModule){NULL}, NULL);
  } else if (ok) {
    MlirContext ctx = context_create(options);
    diag_attach(d, ctx);
    ok = compile_module(options, d, file, ctx);
    nn_context_destroy(ctx);
  }
  ok = ok && (!options->write_dependencies || write_dependencies(options, d, file));
  ast_free(file);
  return ok;
}

// --- Our own mistakes

static void report_bug(int signal_number) {
  static const char head[] = "\nnnc: this is a bug in nnc " NNC_VERSION
                             ", please report it with the .nn file and the command line (",
                    tail[] = ")\n";
  const char *name = signal_number == SIGABRT   ? "abort"
                     : signal_number == SIGSEGV ? "segmentation fault"
                     : signal_number == SIGBUS  ? "bus error"
                     : signal_number == SIGFPE  ? "arithmetic exception"
                                                : "illegal instruction";
  bool said = write(STDERR_FILENO, head, sizeof head - 1) > 0 && write(STDERR_FILENO, name, strlen(name)) > 0 &&
              write(STDERR_FILENO, tail, sizeof tail - 1) > 0;
  (void)said;
  _exit(NNC_EXIT_BUG);
}

// On a stack of its own, because a stack that overflowed cannot hold the handler. AddressSanitizer tells more about all
// but aborts.
static void catch_bugs(void) {
#ifdef __SANITIZE_ADDRESS__
  static const int signals[] = {SIGABRT};
#else
  static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#endif
  static char stack[65536];
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
  struct sigaction action = {.sa_handler = report_bug, .sa_flags = SA_ONSTACK | SA_RESETHAND};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
}

static int check_fit(const Options *options, bool fits) {
  if (!fits) return options->fit ? options_misused("nnc", "--dim=%s goes with nnc fit", options->fit) : -1;
  if (!options->fit) return options_misused("nnc", "nnc fit needs the dimension: --dim=NAME");
  for (int i = 0; i < options->defines.n; i++)
    if (!strcmp(options->defines.list[i].name, options->fit))
      return options_misused("nnc", "-D %s=… and --dim=%s: nnc fit looks for that value itself", options->fit,
                             options->fit);
  int64_t bytes;
  double percent;
  if (!options->memory_budget || !parse_bytes(options->memory_budget, &bytes, &percent) || bytes <= 0)
    return options_misused("nnc", "nnc fit needs the memory: --memory-budget=SIZE, such as 80GB");
  if (strcmp(options->input, "-") == 0) return options_misused("nnc", "nnc fit reads the file several times: not '-'");
  if (options->emit != EMIT_exe || options->sweep || options->report || recomputes(options))
    return options_misused("nnc", "nnc fit plans without recomputation and writes nothing but its answer");
  if (!options->default_output)
    return options_misused("nnc", "nnc fit compiles nothing: -o %s has no meaning", options->output);
  return -1;
}

int main(int argc, char **argv) {
  Options options;
  options_begin();
  catch_bugs();
  if (argc > 1 && strcmp(argv[1], "check") == 0) return command_check(argc - 1, argv + 1);
  if (argc > 1 && strcmp(argv[1], "fmt") == 0) return command_fmt(argc - 1, argv + 1);
  bool fits = argc > 1 && strcmp(argv[1], "fit") == 0;
  argc -= fits, argv += fits;
  argv[0] = (char[]){"nnc"};
  int status = options_parse(argc, argv, &options);
  if (status < 0) status = check_fit(&options, fits);
  if (status < 0) {
    Diagnostics *d = diag_create(stderr, options.color, options.max_errors);
    status = (fits ? fit_dimension : compile)(&options, d) ? 0 : NNC_EXIT_DIAGNOSTICS;
    diag_free(d);
  }
  options_free(&options);
  return options_end("nnc", status);
}

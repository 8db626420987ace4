// The traps of recomputation: a dropout mask drawn again must be the same mask, and a running statistic is updated
// once, also where the kernel that updates it makes an activation that is needed again. Compiles a network with all of
// that, trains it with and without recomputation and compares the saved files; then breaks the recomputing program on
// purpose, in each way, and sees that the comparison notices.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "compiler/compiler.h"
#include "compiler/diagnostics.h"
#include "passes/plan/plan.h"

static const char source[] = "block layer(x: [N, C, H, W]) { x + (x |> batchnorm |> relu |> conv2d(16, 3, padding=1, "
                             "bias=false) |> dropout(0.5)) }\n"
                             "model m(x: f32[8, 4, 12, 12]) {\n"
                             "  x = conv2d(x, 16, 3, padding=1)\n"
                             "  repeat 5 { x = layer(x) }\n"
                             "  linear(mean(x, axes=[2, 3]), 3)\n"
                             "}\n"
                             "train {\n"
                             "  data x = npy(\"x.npy\")\n"
                             "  loss mean(m(x))\n"
                             "  optimizer momentum(lr=0.1)\n"
                             "  steps 3\n"
                             "}\n";

enum { RECORDS = 16, FLOATS = RECORDS * 4 * 12 * 12 };

static const char front[] =
    "simplify,layout,simplify,autodiff,decompose,simplify,recompute,fuse,schedule,remat{policy=%s}";

typedef enum Break { BREAK_NOTHING, BREAK_MASK, BREAK_STATISTIC } Break;

static char folder[] = "/tmp/nnc-traps-XXXXXX";

static void give_up(const char *what) {
  fprintf(stderr, "test_traps: %s\n", what);
  exit(1);
}

static void run_passes(MlirModule module, const NnTarget *target, const char *text) {
  NnPipeline pipeline;
  char error[NN_ERROR_SIZE];
  if (!nn_pipeline_parse(text, target, &pipeline, error)) give_up(error);
  if (!nn_pipeline_run(&pipeline, module, NULL)) give_up("a pass failed");
  nn_pipeline_free(&pipeline);
}

static bool is_key(MlirValue v) {
  NnType t = nn_value_type(v);
  return t.dtype == NN_I32 && t.rank == 1 && t.dim[0] == 4;
}

typedef struct Draw {
  MlirOperation op;
  int operand;
  MlirValue key;
  MlirAttribute row;
} Draw;

// The steps that read a row of the random keys, in order. Owned: free().
static Draw *find_draws(MlirOperation train, int *n) {
  NnStepList list = nn_flatten(train);
  Draw *draws = NULL;
  *n = 0;
  for (int i = 0; i < list.n; i++)
    for (int o = 0; list.items[i].role == NN_STEP_RUN && o < (int)mlirOperationGetNumOperands(list.items[i].op); o++) {
      MlirValue v = mlirOperationGetOperand(list.items[i].op, o);
      if (!is_key(v)) continue;
      // reshape(slice(rng))
      MlirOperation slice = mlirOpResultGetOwner(mlirOperationGetOperand(mlirOpResultGetOwner(v), 0));
      draws = realloc(draws, (size_t)(*n + 1) * sizeof *draws);
      if (!draws) abort();
      draws[(*n)++] = (Draw){list.items[i].op, o, v,
                             mlirOperationGetAttributeByName(slice, mlirStringRefCreateFromCString("starts"))};
    }
  nn_steps_free(&list);
  return draws;
}

// A mask that is drawn for the second time, by a recomputed step or inside a backward kernel, gets the key of another.
// Returns whether there was one.
static bool break_mask(MlirOperation train) {
  int n;
  Draw *draws = find_draws(train, &n);
  bool done = false;
  for (int i = 0; i < n && !done; i++) {
    bool again = false;
    int other = -1;
    for (int k = 0; k < i; k++) {
      if (mlirAttributeEqual(draws[k].row, draws[i].row)) again = true;
      else other = k;
    }
    if (!again || other < 0) continue;
    mlirOperationSetOperand(draws[i].op, draws[i].operand, draws[other].key);
    done = true;
  }
  free(draws);
  return done;
}

// Runs the kernel that updates a running statistic a second time, on what the first made.
static bool break_statistic(MlirOperation train) {
  MlirOperation end = nn_function_return(train);
  for (int r = 0; r < nn_function_n_results(train); r++) {
    int arg = (int)nn_result_i64(train, r, "nn.tied", -1);
    char role[16];
    if (arg < 0 || strcmp(nn_arg_str(train, arg, "nn.role", role, sizeof role, ""), "state") != 0) continue;
    MlirValue updated = mlirOperationGetOperand(end, r), old = mlirBlockGetArgument(nn_function_body(train), arg);
    MlirOperation again = mlirOperationClone(mlirOpResultGetOwner(updated));
    for (int o = 0; o < (int)mlirOperationGetNumOperands(again); o++)
      if (mlirValueEqual(mlirOperationGetOperand(again, o), old)) mlirOperationSetOperand(again, o, updated);
    mlirBlockInsertOwnedOperationBefore(nn_function_body(train), end, again);
    mlirOperationSetOperand(end, r, mlirOperationGetResult(again, mlirOpResultGetResultNumber(updated)));
    return true;
  }
  return false;
}

static bool has_part_kernel(MlirModule module) {
  char name[128];
  NN_FOREACH_OP (op, mlirModuleGetBody(module))
    if (strstr(nn_attr_str(op, "sym_name", name, sizeof name, ""), "_again_")) return true;
  return false;
}

// The bytes of the saved file. Owned: free().
static char *train(const char *policy, Break broken, size_t *size) {
  char path[64], command[256], text[256];
  snprintf(path, sizeof path, "%s/m.nn", folder);
  Diagnostics *d = diag_create(stderr, DIAG_COLOR_NEVER, 0);
  AstFile *file = ast_parse(d, path);
  MlirContext ctx = nn_context_create();
  diag_attach(d, ctx);
  MlirModule module = elaborate(ctx, file, NULL, 0, "f32", false);
  if (mlirModuleIsNull(module)) give_up("the model is not accepted");
  CodegenTarget *codegen = codegen_target_create(&(CodegenTargetOptions){.name = "host"});
  const NnTarget *target = codegen_target_facts(codegen);
  snprintf(text, sizeof text, front, policy);
  run_passes(module, target, text);
  MlirOperation function = nn_module_function(module, "train");
  if (strcmp(policy, "none") != 0 && !has_part_kernel(module))
    give_up("no kernel that updates a statistic runs again in part");
  if (broken == BREAK_MASK && !break_mask(function)) give_up("no mask is drawn twice");
  if (broken == BREAK_STATISTIC && !break_statistic(function)) give_up("there is no running statistic");
  run_passes(module, target, "inplace,plan,check");
  snprintf(path, sizeof path, "%s/program", folder);
  CodegenOptions options = {.output = path, .source_name = "m.nn", .opt_level = 1};
  if (!codegen_emit(codegen, module, CODEGEN_EXE, &options)) give_up("no program");
  snprintf(command, sizeof command, "%s/program train --quiet --seed 7 --data %s --save %s/saved", folder, folder,
           folder);
  if (system(command) != 0) give_up("the program failed");
  mlirModuleDestroy(module);
  codegen_target_destroy(codegen);
  nn_context_destroy(ctx);
  ast_free(file);
  diag_free(d);
  snprintf(path, sizeof path, "%s/saved", folder);
  FILE *saved = fopen(path, "rb");
  char *data = malloc(1 << 20);
  if (!saved || !data) give_up("nothing was saved");
  *size = fread(data, 1, 1 << 20, saved);
  fclose(saved);
  return data;
}

static int expect(const char *what, const char *policy, Break broken, const char *reference, size_t reference_size,
                  bool same) {
  size_t size;
  char *data = train(policy, broken, &size);
  bool is_same = size == reference_size && memcmp(data, reference, size) == 0;
  free(data);
  printf("%s: %s, %s\n", what, is_same ? "the same bits" : "other bits", is_same == same ? "as it must be" : "FAILED");
  return is_same != same;
}

static bool write_data(const char *path) {
  FILE *out = fopen(path, "wb");
  char header[118];
  snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 4, 12, 12), }", RECORDS);
  memset(header + strlen(header), ' ', sizeof header - strlen(header));
  header[sizeof header - 1] = '\n';
  if (!out) return false;
  fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, out);
  fwrite(header, 1, sizeof header, out);
  for (int i = 0; i < FLOATS; i++) fwrite(&(float){(float)(i * 7919 % 1000) / 1000}, sizeof(float), 1, out);
  return fclose(out) == 0;
}

int main(void) {
  char path[64], command[128];
  if (!mkdtemp(folder)) give_up("no folder");
  snprintf(path, sizeof path, "%s/m.nn", folder);
  FILE *out = fopen(path, "w");
  if (!out || fputs(source, out) < 0 || fclose(out) != 0) give_up("the model cannot be written");
  snprintf(path, sizeof path, "%s/x.npy", folder);
  if (!write_data(path)) give_up("the data cannot be written");
  size_t size;
  char *reference = train("none", BREAK_NOTHING, &size);
  int failed = expect("recomputed", "sqrt", BREAK_NOTHING, reference, size, true);
  failed += expect("a mask drawn again with another key", "sqrt", BREAK_MASK, reference, size, false);
  failed += expect("a running statistic updated twice", "sqrt", BREAK_STATISTIC, reference, size, false);
  free(reference);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command) != 0 || failed != 0;
}

// What one training step gives by the reference interpreter: reference_step MODULE.mlir < parameters > taps. The module
// is what a pass before `fuse` prints; a bf16 or f16 in it is rounded where it stands, all else is computed in f64. So
// what differs from the compiled program's results is the program's doing and not that of the narrow types.
//
// Parameters and taps are text, a tensor per line: its name and its elements. Random keys are those of seed 0, step 0;
// other arguments are zero.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/ir/reference.c"

static void give_up(const char *what, const char *name) {
  fprintf(stderr, "reference_step: %s %s\n", what, name);
  exit(1);
}

// Reads one line of the input into the argument of that name.
static void read_parameter(char *line, MlirOperation train, Tensor *args) {
  char name[256], *s = strchr(line, ' ');
  if (!s) give_up("no elements on the line", line);
  *s++ = 0;
  for (int i = 0; i < nn_function_n_args(train); i++) {
    if (strcmp(nn_arg_str(train, i, "nn.name", name, sizeof name, ""), line)) continue;
    for (int64_t k = 0; k < count(&args[i]); k++) {
      char *end;
      args[i].data[k] = strtod(s, &end);
      if (end == s) give_up("too few elements of", line);
      s = end;
    }
    return;
  }
}

static void print_tensor(const char *name, const Tensor *t) {
  printf("%s", name);
  for (int64_t k = 0; k < count(t); k++) printf(" %.17g", t->data[k]);
  printf("\n");
}

static void print_tap(void *data, MlirOperation op, const Tensor *value) {
  (void)data;
  char name[256];
  print_tensor(nn_attr_str(op, "name", name, sizeof name, ""), value);
}

int main(int argc, char **argv) {
  if (argc != 2) give_up("usage:", "reference_step MODULE.mlir < parameters");
  MlirContext ctx = nn_context_create();
  MlirModule module = mlirModuleCreateParseFromFile(ctx, mlirStringRefCreateFromCString(argv[1]));
  if (mlirModuleIsNull(module)) give_up("no module in", argv[1]);
  MlirOperation train = nn_module_function(module, "train");
  if (mlirOperationIsNull(train)) give_up("no @train in", argv[1]);
  int n_args = nn_function_n_args(train), n = nn_function_n_results(train);
  Tensor *args = calloc((size_t)n_args + 1, sizeof *args), *results = calloc((size_t)n + 1, sizeof *results);
  if (!args || !results) abort();
  for (int i = 0; i < n_args; i++) {
    char role[16];
    args[i] = tensor_create(nn_value_type(mlirBlockGetArgument(nn_function_body(train), i)));
    bool rows = !strcmp(nn_arg_str(train, i, "nn.role", role, sizeof role, ""), "rng");
    for (int64_t k = 3; rows && k < count(&args[i]); k += 4) args[i].data[k] = (double)(k / 4);
  }
  char *line = NULL;
  size_t capacity = 0;
  while (getline(&line, &capacity, stdin) > 0) read_parameter(line, train, args);
  free(line);
  if (reference_run_tapped(train, args, results, n, print_tap, NULL) != n) give_up("an op is not known in", argv[1]);
  print_tensor("loss", &results[0]);
  for (int i = 0; i < n_args; i++) tensor_free(&args[i]);
  for (int i = 0; i < n; i++) tensor_free(&results[i]);
  free(args);
  free(results);
  mlirModuleDestroy(module);
  nn_context_destroy(ctx);
  return 0;
}

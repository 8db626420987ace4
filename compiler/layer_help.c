// Help on one function of the language. Everything but the example calls below is read from the tables or from what the
// example builds, so that help cannot say something else than the compiler does.
#include "compiler/layer_help.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/elaborate.h"
#include "compiler/kinds.h"
#include "support/text.h"

// --- Examples

#define IMAGES "x: f32[8, 3, 32, 32]"
#define SIGNALS "x: f32[8, 3, 128]"
#define ROWS "x: f32[8, 64]"
#define PAIR "x: f32[8, 64], y: f32[8, 64]"
#define SCORES "scores: f32[8, 10], label: i32[8]"
#define SEGMENTS "x: f32[32, 64], node: i32[32]"
#define STEP "x: f32[8, 64], h: f32[8, 32]"
static const struct {
  const char *name, *inputs, *call;
} examples[] = {
    {"linear", ROWS, "linear(x, 10)"},
    {"conv2d", IMAGES, "conv2d(x, 16, kernel=3, padding=1)"},
    {"batchnorm", IMAGES, "batchnorm(x)"},
    {"layernorm", ROWS, "layernorm(x)"},
    {"embedding", "tokens: i32[8, 16]", "embedding(tokens, 1000, 64)"},
    {"dropout", ROWS, "dropout(x, 0.1)"},
    {"maxpool", IMAGES, "maxpool(x, 2)"},
    {"avgpool", IMAGES, "avgpool(x, 2)"},
    {"relu", ROWS, "relu(x)"},
    {"relu6", ROWS, "relu6(x)"},
    {"leaky_relu", ROWS, "leaky_relu(x)"},
    {"gelu", ROWS, "gelu(x)"},
    {"silu", ROWS, "silu(x)"},
    {"sigmoid", ROWS, "sigmoid(x)"},
    {"tanh", ROWS, "tanh(x)"},
    {"exp", ROWS, "exp(x)"},
    {"log", ROWS, "log(x)"},
    {"sqrt", ROWS, "sqrt(x)"},
    {"rsqrt", ROWS, "rsqrt(x)"},
    {"abs", ROWS, "abs(x)"},
    {"sin", ROWS, "sin(x)"},
    {"cos", ROWS, "cos(x)"},
    {"erf", ROWS, "erf(x)"},
    {"floor", ROWS, "floor(x)"},
    {"square", ROWS, "square(x)"},
    {"softplus", ROWS, "softplus(x)"},
    {"clamp", ROWS, "clamp(x, -1, 1)"},
    {"maximum", PAIR, "maximum(x, y)"},
    {"minimum", PAIR, "minimum(x, y)"},
    {"where", PAIR, "where(x > 0, x, y)"},
    {"cast", ROWS, "cast(x, \"i32\")"},
    {"sum", ROWS, "sum(x, axes=1)"},
    {"mean", IMAGES, "mean(x, axes=[2, 3])"},
    {"amax", ROWS, "amax(x, axes=1)"},
    {"amin", ROWS, "amin(x, axes=1)"},
    {"var", ROWS, "var(x, axes=1)"},
    {"argmax", ROWS, "argmax(x)"},
    {"reshape", ROWS, "reshape(x, [16, -1])"},
    {"flatten", IMAGES, "flatten(x)"},
    {"transpose", ROWS, "transpose(x)"},
    {"rearrange", "x: f32[2, 16, 64]", "rearrange(x, \"b t (h d) -> b h t d\", h=4)"},
    {"split", ROWS, "split(x, 4)"},
    {"concat", PAIR, "concat([x, y])"},
    {"pad", ROWS, "pad(x, [0, 1], [0, 1])"},
    {"broadcast_to", "x: f32[8, 1]", "broadcast_to(x, [8, 64])"},
    {"iota", ROWS, "iota(64)"},
    {"tensor", "x: f32[8, 3]", "x * tensor([0.5, 1, 2])"},
    {"full", ROWS, "full([8, 64], 0.5)"},
    {"gather", "table: f32[1000, 64], rows: i32[8]", "gather(table, rows)"},
    {"matmul", "x: f32[8, 64], y: f32[64, 32]", "matmul(x, y)"},
    {"einsum", "x: f32[8, 16, 64], y: f32[8, 32, 64]", "einsum(\"b i d, b j d -> b i j\", x, y)"},
    {"softmax", ROWS, "softmax(x)"},
    {"log_softmax", ROWS, "log_softmax(x)"},
    {"causal_mask", "x: f32[2, 4, 16, 16]", "causal_mask(x)"},
    {"attention", "x: f32[2, 16, 64]", "attention(x, x, x, heads=4, causal=true)"},
    {"cross_entropy", SCORES, "cross_entropy(scores, label)"},
    {"accuracy", SCORES, "accuracy(scores, label)"},
    {"adaptive_avgpool", IMAGES, "adaptive_avgpool(x, 7)"},
    {"adaptive_maxpool", IMAGES, "adaptive_maxpool(x, 7)"},
    {"interpolate", IMAGES, "interpolate(x, size=[48, 40], mode=\"bilinear\")"},
    {"unfold", IMAGES, "unfold(x, 3, padding=1)"},
    {"fold", "x: f32[8, 27, 1024]", "fold(x, 32, 3, padding=1)"},
    {"conv3d", "x: f32[2, 3, 8, 16, 16]", "conv3d(x, 16, kernel=3, padding=1)"},
    {"conv_transpose3d", "x: f32[2, 3, 8, 16, 16]", "conv_transpose3d(x, 16, kernel=2, stride=2)"},
    {"conv1d", SIGNALS, "conv1d(x, 16, kernel=3, padding=\"same\")"},
    {"conv_transpose1d", SIGNALS, "conv_transpose1d(x, 16, kernel=2, stride=2)"},
    {"conv_transpose2d", IMAGES, "conv_transpose2d(x, 16, kernel=2, stride=2)"},
    {"rmsnorm", ROWS, "rmsnorm(x)"},
    {"groupnorm", "x: f32[8, 16, 32, 32]", "groupnorm(x, 4)"},
    {"weight_norm", "v: f32[16, 64]", "weight_norm(v)"},
    {"lstm_cell", STEP ", c: f32[8, 32]", "lstm_cell(x, h, c)"},
    {"gru_cell", STEP, "gru_cell(x, h)"},
    {"swiglu", ROWS, "swiglu(x)"},
    {"resize", IMAGES, "resize(x, 2)"},
    {"rope", "x: f32[2, 4, 16, 64]", "rope(x)"},
    {"segment_sum", SEGMENTS, "segment_sum(x, node, 10)"},
    {"segment_mean", SEGMENTS, "segment_mean(x, node, 10)"},
    {"segment_max", SEGMENTS, "segment_max(x, node, 10)"},
    {"permutation", ROWS, "gather(x, permutation(8))"},
    {"take_along", "x: f32[8, 64], best: i32[8, 4]", "take_along(x, best)"},
    {"scatter", "x: f32[8, 64], at: i32[8, 4], y: f32[8, 4]", "scatter(x, at, y)"},
    {"scatter_add", "x: f32[8, 64], at: i32[8, 4], y: f32[8, 4]", "scatter_add(x, at, y)"},
    {"index_select", "x: f32[8, 64], columns: i32[5]", "index_select(x, columns, axis=1)"},
    {"searchsorted", "bounds: f32[10], x: f32[8, 64]", "searchsorted(bounds, x)"},
    {"rfft", ROWS, "rfft(x)"},
    {"irfft", "x: f32[8, 33, 2]", "irfft(x)"},
    {"fft", "x: f32[8, 64, 2]", "fft(x)"},
    {"cumsum", ROWS, "cumsum(x)"},
    {"cumprod", ROWS, "cumprod(x, axis=0)"},
    {"cummax", ROWS, "cummax(x)"},
    {"cummin", ROWS, "cummin(x)"},
    {"linear_recurrence", PAIR, "linear_recurrence(sigmoid(x), y, axis=1)"},
    {"sort", ROWS, "sort(x, descending=true)"},
    {"argsort", ROWS, "argsort(x)"},
    {"topk", ROWS, "topk(x, 4)"},
    {"kthvalue", ROWS, "kthvalue(x, 3)"},
    {"median", ROWS, "median(x)"},
    {"normal", ROWS, "x + normal(dims(x))"},
    {"uniform", ROWS, "x + uniform(-0.5, 0.5, [8, 64])"},
    {"bernoulli", ROWS, "x * bernoulli(0.9, [8, 1])"},
    {"randint", "table: f32[1000, 64]", "gather(table, randint(0, 1000, [8]))"},
};
#define N_EXAMPLES (int)(sizeof examples / sizeof *examples)

static int find_example(const char *name) {
  for (int i = 0; i < N_EXAMPLES; i++)
    if (strcmp(examples[i].name, name) == 0) return i;
  return -1;
}

// Inputs with their parentheses, and the call. False: there is none.
static bool find_call(const char *name, int *n_inputs, const char **inputs, const char **call) {
  const LayerInfo *info = layer_find(name);
  int i = find_example(name);
  if (i >= 0) {
    *n_inputs = (int)strlen(*inputs = examples[i].inputs);
    *call = examples[i].call;
    return true;
  }
  if (!info || !info->example) return false;
  *inputs = info->example + 1;
  *n_inputs = (int)(strstr(*inputs, "): ") - *inputs);
  *call = *inputs + *n_inputs + strlen("): ");
  return true;
}

// As .nn text, NULL when there is none (initialisers; functions of numbers). Owned: free().
static char *layer_example_program(const char *name) {
  const char *inputs, *call;
  int n;
  if (!find_call(name, &n, &inputs, &call)) return NULL;
  return text_format("model example(%.*s) { %s }\n", n, inputs, call);
}

// --- Arguments

// The signature of layer.c, "name:kind=default, …": a line for each argument.
static void print_arguments(FILE *out, const LayerInfo *info) {
  if (*info->signature) fputs("\nArguments\n", out);
  for (const char *s = info->signature + strspn(info->signature, ", "); *s; s += strspn(s, ", ")) {
    size_t length = strcspn(s, ","), name = strcspn(s, ":,");
    if (name == length) {
      fprintf(out, "  %-14.*sfurther arguments\n", (int)length, s);
    } else {
      const char *kind = s + name + 1;
      size_t kind_length = strcspn(kind, "=,");
      fprintf(out, "  %-14.*s%s", (int)name, s, kind_meaning(kind, kind_length));
      const char *value = kind + kind_length;
      if (*value != '=') fputs("; needed", out);
      else if (strncmp(value, "=none", 5) == 0) fputs("; may be left out", out);
      else fprintf(out, "; default %.*s", (int)strcspn(value + 1, ","), value + 1);
      fputc('\n', out);
    }
    s += length;
  }
}

// --- What the example builds
// ---------------------------------------------------------------------------------------------------

static void print_type(FILE *out, MlirValue v) {
  NnType t = nn_value_type(v);
  char text[256];
  fputs(nn_type_format(&t, text, sizeof text), out);
}

static void print_role(FILE *out, MlirOperation function, const char *role, const char *title) {
  char text[256];
  int n = 0;
  for (int i = 0; i < nn_function_n_args(function); i++) {
    if (strcmp(nn_arg_str(function, i, ATTR_role, text, sizeof text, ""), role) != 0) continue;
    const char *name = nn_arg_str(function, i, ATTR_name, text, sizeof text, ""), *dot = strrchr(name, '.');
    fprintf(out, n++ ? ", %s " : title, dot ? dot + 1 : name);
    print_type(out, mlirBlockGetArgument(nn_function_body(function), i));
  }
  if (n) fputc('\n', out);
}

static void print_results(FILE *out, MlirOperation function) {
  MlirOperation end = nn_function_return(function);
  intptr_t n = mlirOperationGetNumOperands(end);
  fputs("  result        ", out);
  for (intptr_t i = 0; i < n; i++) {
    if (i > 0) fputs(", ", out);
    print_type(out, mlirOperationGetOperand(end, i));
  }
  fputc('\n', out);
}

// The ops in the order of their first use, and whether a gradient goes through all that read tensors.
static void print_ops(FILE *out, MlirOperation function) {
  bool seen[NN_OP_COUNT] = {false};
  const char *stop = NULL;
  double flops = 0;
  fputs("  ops           ", out);
  int n = 0;
  NN_FOREACH_OP (op, nn_function_body(function)) {
    NnOp kind = nn_op_of(op);
    if (kind == NN_OP_NONE) continue;
    const NnOpInfo *info = nn_op_info(kind);
    flops += nn_op_flops(op);
    if (!info->vjp && info->kind != NN_KIND_SOURCE && kind != NN_OP_compare) stop = info->name;
    if (!seen[kind]) fprintf(out, "%snn.%s", n++ ? ", " : "", info->name);
    seen[kind] = true;
  }
  fputs(n ? "\n  gradient      " : "none\n  gradient      ", out);
  if (stop) fprintf(out, "none: nn.%s has no gradient rule\n", stop);
  else fputs(n ? "by the rules of these ops\n" : "none\n", out);
  fprintf(out, "  FLOPs         %.0f forward\n", flops);
}

static void print_example(FILE *out, const char *name) {
  const char *inputs, *call;
  int n;
  if (!find_call(name, &n, &inputs, &call)) return;
  fprintf(out, "\nExample\n  %.*s\n  %s\n", n, inputs, call);
  char *text = layer_example_program(name);
  Diagnostics *d = diag_create(stderr, DIAG_COLOR_AUTO, 0);
  const Source *source = diag_add_source(d, source_from_text("<example>", text, strlen(text)));
  AstFile *file = ast_parse_source(d, source, false);
  MlirContext ctx = nn_context_create_alone();
  diag_attach(d, ctx);
  MlirModule module = elaborate(ctx, file, NULL, 0, NULL, false);
  if (!mlirModuleIsNull(module)) {
    MlirOperation function = nn_module_function(module, "predict");
    print_results(out, function);
    print_role(out, function, "param", "  parameters    %s ");
    print_role(out, function, "state", "  state         %s ");
    print_ops(out, function);
    mlirModuleDestroy(module);
  }
  nn_context_destroy(ctx);
  ast_free(file);
  diag_free(d);
  free(text);
}

// --- Ops of the dialect

static void print_op(FILE *out, const NnOpInfo *info) {
  static const char *const families[] = {
      [NN_KIND_SOURCE] = "source",     [NN_KIND_MAP] = "map",
      [NN_KIND_VIEW] = "view",         [NN_KIND_REDUCE] = "reduction",
      [NN_KIND_MOVE] = "move",         [NN_KIND_LIBRARY] = "library call",
      [NN_KIND_TRANSFER] = "transfer", [NN_KIND_COMPOSITE] = "composite, expanded by the pass decompose",
      [NN_KIND_MARK] = "mark",
  };
  fprintf(out, "nn.%s\n    %s\n\n  kind          %s\n  operands      ", info->name, info->doc, families[info->kind]);
  fprintf(out, info->n_operands < 0 ? "any number\n" : "%d\n", info->n_operands);
  fprintf(out, "  results       %d\n  attributes    %s\n", info->n_results, *info->attrs ? info->attrs : "none");
  fprintf(out, "  gradient      %s\n", info->vjp ? "yes" : "none");
  bool free_of_work = info->kind == NN_KIND_SOURCE || info->kind == NN_KIND_VIEW || info->kind == NN_KIND_MOVE ||
                      info->kind == NN_KIND_TRANSFER || info->kind == NN_KIND_MARK;
  fprintf(out, "  FLOPs         %s\n",
          info->flops    ? "by a rule of its own"
          : free_of_work ? "none"
                         : "one per result element");
}

bool layer_help_print(FILE *out, const char *name) {
  bool dialect = strncmp(name, "nn.", 3) == 0;
  const LayerInfo *info = dialect ? NULL : layer_find(name);
  NnOp op = info ? NN_OP_NONE : nn_op_by_name(dialect ? name + 3 : name);
  if (op != NN_OP_NONE) print_op(out, nn_op_info(op));
  if (!info) return op != NN_OP_NONE;
  fprintf(out, "%s(%s)\n    %s\n", info->name, info->signature, info->doc);
  print_arguments(out, info);
  print_example(out, info->name);
  return true;
}

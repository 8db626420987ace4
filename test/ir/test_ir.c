// The nn dialect from C: types, the table of ops, building and its errors, function signatures, text, and costs.
// Gradient rules have their own program, test_gradients. `test_ir --write-ops-page` renews docs/ops.md, which must be
// what the table says.
#include <stdlib.h>
#include <string.h>

#include "mlir-c/Diagnostics.h"
#include "test/check.h"
#include "test/ir/reference.c"
#include "test/ir/wrong_ops.h"

static MlirContext ctx;
static MlirLocation loc;

// ---------------------------------------------------------------------------------------------------------------------
// Text: diagnostics and printed modules are collected in growing strings

typedef struct Text {
  char *data;
  size_t size;
} Text;

static void append(MlirStringRef part, void *to) {
  Text *text = to;
  text->data = realloc(text->data, text->size + part.length + 1);
  memcpy(text->data + text->size, part.data, part.length);
  text->data[text->size += part.length] = 0;
}

static MlirLogicalResult collect(MlirDiagnostic diagnostic, void *to) {
  mlirDiagnosticPrint(diagnostic, append, to);
  append(mlirStringRefCreateFromCString("\n"), to);
  return mlirLogicalResultSuccess();
}

static Text print(MlirModule module) {
  Text text = {0};
  mlirOperationPrint(mlirModuleGetOperation(module), append, &text);
  return text;
}

static MlirModule parse(const char *text) { return mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text)); }

// ---------------------------------------------------------------------------------------------------------------------

static void test_types(void) {
  char buf[64];
  for (int d = 0; d < NN_DTYPE_COUNT; d++) {
    NnDtype parsed;
    NnType t = nn_type((NnDtype)d, 3, (int64_t[]){2, 3, 5}), back;
    CHECK(nn_dtype_parse(nn_dtype_name((NnDtype)d), &parsed) && parsed == (NnDtype)d, "%s", nn_dtype_name((NnDtype)d));
    CHECK(nn_type_from_mlir(nn_type_to_mlir(ctx, &t), &back) && nn_type_equal(&t, &back), "%s",
          nn_type_format(&t, buf, sizeof buf));
    CHECK(nn_type_bytes(&t) == 30 * nn_dtype_bytes((NnDtype)d), "%s", nn_type_format(&t, buf, sizeof buf));
  }
  NnType image = nn_type(NN_F32, 4, (int64_t[]){128, 1, 28, 28}), scalar = nn_scalar(NN_F64),
         huge = nn_type(NN_U8, 2, (int64_t[]){1ll << 40, 2}), empty = nn_type(NN_I32, 1, (int64_t[]){0});
  CHECK(!strcmp(nn_type_format(&image, buf, sizeof buf), "f32[128, 1, 28, 28]"), "%s", buf);
  CHECK(!strcmp(nn_type_format(&scalar, buf, sizeof buf), "f64"), "%s", buf);
  CHECK(!strcmp(nn_type_format(&image, buf, 8), "f32[128"), "%s", buf);
  CHECK(nn_type_is_representable(&image) && nn_type_is_representable(&scalar), "an image and a scalar");
  CHECK(!nn_type_is_representable(&huge) && !nn_type_is_representable(&empty), "2^41 elements, and none");
  NnType t;
  CHECK(!nn_type_from_mlir(mlirTypeParseGet(ctx, mlirStringRefCreateFromCString("tensor<?xf32>")), &t), "dynamic");
  CHECK(!nn_type_from_mlir(mlirTypeParseGet(ctx, mlirStringRefCreateFromCString("tensor<2xi16>")), &t), "i16");
  CHECK(!nn_type_from_mlir(mlirTypeParseGet(ctx, mlirStringRefCreateFromCString("tensor<2xsi32>")), &t), "si32");
  CHECK(!nn_type_from_mlir(mlirTypeParseGet(ctx, mlirStringRefCreateFromCString("i32")), &t), "no tensor");
}

// As many strides as there are axes.
static void test_reshape_strides(void) {
  const NnType from = {.rank = 2, .dim = {6, 4}}, to = {.rank = 3, .dim = {2, 3, 4}};
  int64_t out[] = {-1, -1, -1, -1};
  CHECK(nn_reshape_strides(&from, &to, (const int64_t[]){10, 1}, out) && out[0] == 30 && out[1] == 10 && out[2] == 1 &&
            out[3] == -1,
        "strides of a reshape: %lld %lld %lld %lld", (long long)out[0], (long long)out[1], (long long)out[2],
        (long long)out[3]);
}

static void test_table(void) {
  for (int i = 0; i < NN_OP_COUNT; i++) {
    const NnOpInfo *info = nn_op_info((NnOp)i);
    CHECK(info->name && info->infer && info->doc && *info->doc, "row %d", i);
    CHECK(nn_op_by_name(info->name) == (NnOp)i, "%s", info->name);
    CHECK((info->expand != NULL) == (info->kind == NN_KIND_COMPOSITE && i != NN_OP_gradient), "%s", info->name);
    CHECK(info->n_results >= 0 && info->n_results <= NN_MAX_RESULTS && info->n_operands <= NN_MAX_OPERANDS, "%s",
          info->name);
    CHECK((info->n_results == 0) == (info->kind == NN_KIND_MARK), "%s", info->name);
    if (i != NN_OP_stop_gradient && i != NN_OP_gradient &&
        (info->kind == NN_KIND_LIBRARY || info->kind == NN_KIND_COMPOSITE))
      CHECK((info->vjp || i == NN_OP_attention_grad || i == NN_OP_attention_grad_packed || i == NN_OP_argsort) &&
                info->flops,
            "%s", info->name);
  }
  CHECK(nn_op_by_name("conv4d") == NN_OP_NONE && nn_op_by_name("") == NN_OP_NONE, "unknown names");
  char *page = nn_op_table_markdown(), *irdl = nn_irdl_text();
  CHECK(strstr(page, "| `conv2d` | 2 | 1 |") && strstr(page, "## Composites"), "%s", page);
  CHECK(strstr(irdl, "irdl.operation @concat_3 {") && strstr(irdl, "irdl.operation @and {"), "%s", irdl);
  free(page);
  free(irdl);
}

// ---------------------------------------------------------------------------------------------------------------------
// Errors of the shape rules, as a reader of the text sees them

static int count_types(const char *types) {
  int n = *types != 0;
  for (const char *s = types; (s = strchr(s, ',')); s++) n++;
  return n;
}

// A message of NULL: none.
static void expect_refusal(const Wrong *w) {
  Text module = {0}, found = {0};
  FILE *out = open_memstream(&module.data, &module.size);
  int n = count_types(w->operands);
  fprintf(out, "func.func private @make() -> (%s)\nfunc.func @f() {\n", w->operands);
  if (n) fprintf(out, "  %%a:%d = call @make() : () -> (%s)\n", n, w->operands);
  fprintf(out, "  %%r:%d = \"nn.%s\"(", count_types(w->result), w->op);
  for (int k = 0; k < n; k++) fprintf(out, "%s%%a#%d", k ? ", " : "", k);
  fprintf(out, ") {%s} : (%s) -> (%s)\n  return\n}\n", w->attrs, w->operands, w->result);
  fclose(out);
  MlirDiagnosticHandlerID handler = mlirContextAttachDiagnosticHandler(ctx, collect, &found, NULL);
  MlirModule m = parse(module.data);
  // What IRDL sees is reported by the parser already.
  bool refused = mlirModuleIsNull(m) || !nn_verify_module(m);
  CHECK(refused == (w->message != NULL), "%s(%s) was %s; expected: %s; found: %s", w->op, w->operands,
        refused ? "refused" : "accepted", w->message ? w->message : "nothing", found.data ? found.data : "nothing");
  if (w->message)
    CHECK(strstr(w->message, "attribute 'value'") || (found.data && strstr(found.data, w->message)),
          "expected: %s\nfound: %s", w->message, found.data ? found.data : "nothing");
  mlirContextDetachDiagnosticHandler(ctx, handler);
  if (!mlirModuleIsNull(m)) mlirModuleDestroy(m);
  free(module.data);
  free(found.data);
}

static void test_errors(void) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_refusal(&wrong[i]);
}

// What a map takes: numbers, floats or truth values.
static void test_map_types(void) {
  static const char *const given[] = {"tensor<2xi1>", "tensor<2xi32>", "tensor<2xf32>"};
  static const char *const ops[][3] = {{"of a numeric type", "neg abs sign relu floor", "add sub mul div pow max min"},
                                       {"of a floating-point type", "exp log sqrt rsqrt recip sin cos tanh erf sigmoid",
                                        ""},
                                       {"of type i1", "not", "and or"}};
  for (int kind = 0; kind < 3; kind++)
    for (int n = 1; n <= 2; n++)
      for (const char *at = ops[kind][n]; *at; at += strcspn(at, " "), at += *at == ' ')
        for (int type = 0; type < 3; type++) {
          char op[16] = "", operands[64], message[128];
          snprintf(op, sizeof op, "%.*s", (int)strcspn(at, " "), at);
          snprintf(operands, sizeof operands, n == 1 ? "%s" : "%s, %s", given[type], given[type]);
          snprintf(message, sizeof message, "%s: operand 0 must be %s", op, ops[kind][0]);
          bool fits = kind == 2 ? type == 0 : kind == 1 ? type == 2 : type > 0;
          expect_refusal(&(Wrong){op, operands, given[type], "", fits ? NULL : message});
        }
}

// ---------------------------------------------------------------------------------------------------------------------

static MlirValue input(MlirOperation func, NnDtype dtype, int rank, const int64_t *dim) {
  return nn_function_add_arg(func, nn_type(dtype, rank, dim), loc, 1, &NN_STR("nn.role", "input"));
}

static void test_build(void) {
  MlirModule module = mlirModuleCreateEmpty(loc);
  MlirOperation func = nn_function_create(module, "build", false, loc);
  MlirValue x = input(func, NN_F32, 2, (int64_t[]){2, 3}), y = input(func, NN_F32, 2, (int64_t[]){3, 2});
  NnBuilder b = nn_builder_at_end(nn_function_body(func), loc);
  b.phase = "backward";

  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_add, 2, (MlirValue[]){x, y}, 0, NULL, NULL)) &&
            strstr(b.error, "add: shapes differ"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_add, 1, &x, 0, NULL, NULL)) &&
            strstr(b.error, "takes 2 operands, found 1"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_concat, 0, NULL, 1, &NN_I64("axis", 0), NULL)) &&
            strstr(b.error, "at least one operand"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_iota, 0, NULL, 1, &NN_I64("axis", 0), NULL)) &&
            strstr(b.error, "result type must be given"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(nn_build(&b, NN_OP_transpose, 1, &x, 0, NULL, NULL)) &&
            strstr(b.error, "attribute 'perm' is missing"),
        "%s", b.error);
  CHECK(mlirOperationIsNull(mlirBlockGetFirstOperation(nn_function_body(func))), "a refused op was built");

  // Forms that would change nothing give their operand back.
  CHECK(mlirValueEqual(x, nn_cast(&b, x, NN_F32)) && mlirValueEqual(x, nn_reshape(&b, x, 2, (int64_t[]){2, 3})),
        "cast, reshape");
  CHECK(mlirValueEqual(x, nn_transpose(&b, x, (int64_t[]){0, 1})) && mlirValueEqual(x, nn_concat(&b, 1, &x, 0)),
        "transpose, concat");
  CHECK(mlirValueEqual(x, nn_slice(&b, x, (int64_t[]){0, 0}, (int64_t[]){2, 3}, NULL)), "slice");
  CHECK(mlirValueEqual(x, nn_pad(&b, x, (int64_t[]){0, 0}, (int64_t[]){0, 0}, (int64_t[]){0, 0}, 0)), "pad");
  CHECK(mlirValueEqual(x, nn_reduce(&b, NN_OP_reduce_sum, x, 0, NULL)) &&
            mlirValueEqual(x, nn_broadcast_trailing(&b, x, nn_value_type(x))),
        "reduce, broadcast");

  MlirValue product = nn_matmul(&b, x, y, false, false);
  MlirOperation def = nn_value_def(product);
  char phase[16];
  CHECK(nn_op_of(def) == NN_OP_matmul && nn_is(def, "nn.matmul"), "matmul");
  CHECK(!strcmp(nn_attr_str(def, "nn.phase", phase, sizeof phase, ""), "backward"), "%s", phase);
  CHECK(!nn_attr_bool(def, "transpose_a", true) && nn_has_attr(def, "transpose_b") && !nn_has_attr(def, "axis"),
        "attributes");
  CHECK(mlirOperationIsNull(nn_value_def(x)) && nn_value_index(y) == 1 && nn_value_index(product) == 0, "definitions");
  MlirValue sum = nn_reduce(&b, NN_OP_reduce_sum, product, 2, (int64_t[]){1, 0});
  int64_t axes[2];
  CHECK(nn_attr_i64s(nn_value_def(sum), "axes", axes, 2) == 2 && axes[0] == 0 && axes[1] == 1, "axes are sorted");
  CHECK(nn_attr_i64s(def, "axes", axes, 2) == -1 && nn_attr_i64(def, "axis", 7) == 7 &&
            nn_attr_f64(def, "eps", 0.5) == 0.5,
        "absent attributes");

  NnBuilder before = nn_builder_before(def);
  MlirValue early = nn_unary(&before, NN_OP_exp, x);
  CHECK(mlirOperationEqual(mlirOperationGetNextInBlock(nn_value_def(early)), def) &&
            !nn_has_attr(nn_value_def(early), "nn.phase"),
        "insertion point");
  nn_tap(&b, sum, "grad.x");
  nn_checkpoint(&b, early);

  // More parts than one operation may have: nested, in order.
  enum { PARTS = 40 };
  MlirValue part[PARTS];
  for (int i = 0; i < PARTS; i++) part[i] = nn_constant(&b, nn_type(NN_F64, 1, (int64_t[]){1 + i % 3}), i);
  MlirValue joined = nn_concat(&b, PARTS, part, 0);
  nn_function_set_results(func, 1, &joined, 0);
  CHECK(nn_verify_module(module), "the built module");
  Tensor args[2] = {tensor_create(nn_value_type(x)), tensor_create(nn_value_type(y))}, result;
  CHECK(reference_run(func, args, &result, 1) == 1 && result.type.dim[0] == 79, "%lld elements",
        (long long)result.type.dim[0]);
  for (int i = 0, at = 0; i < PARTS; i++)
    for (int k = 0; k < 1 + i % 3; k++, at++) CHECK(result.data[at] == i, "element %d is %g", at, result.data[at]);
  tensor_free(&args[0]);
  tensor_free(&args[1]);
  tensor_free(&result);
  mlirModuleDestroy(module);
}

static void test_functions(void) {
  MlirModule module = mlirModuleCreateEmpty(loc);
  MlirOperation func = nn_function_create(module, "train", false, loc),
                kernel = nn_function_create(module, "k0", true, loc);
  char buf[32];
  CHECK(mlirOperationEqual(nn_module_function(module, "train"), func) &&
            mlirOperationEqual(nn_module_function(module, "k0"), kernel),
        "lookup");
  CHECK(mlirOperationIsNull(nn_module_function(module, "eval")), "absent function");
  CHECK(mlirOperationIsNull(nn_function_return(func)), "no return yet");
  MlirValue x = nn_function_add_arg(func, nn_scalar(NN_F32), loc, 2,
                                    (NnAttr[]){NN_STR("nn.role", "input"), NN_STR("nn.name", "x")});
  nn_function_add_arg(func, nn_scalar(NN_I32), loc, 0, NULL);
  MlirValue w = nn_function_add_arg(func, nn_scalar(NN_F32), loc, 1, &NN_STR("nn.role", "param"));
  nn_set_arg_attr(func, 2, &NN_I64("nn.group", 3));
  nn_set_arg_attr(func, 2, &NN_STR("nn.role", "state"));
  CHECK(nn_function_n_args(func) == 3 && nn_arg_i64(func, 2, "nn.group", 0) == 3, "arguments");
  CHECK(!strcmp(nn_arg_str(func, 2, "nn.role", buf, sizeof buf, ""), "state"), "an attribute is replaced: %s", buf);
  CHECK(mlirAttributeIsNull(nn_arg_attr(func, 1, "nn.role")) &&
            !strcmp(nn_arg_str(func, 1, "nn.role", buf, sizeof buf, "none"), "none"),
        "no attribute");
  nn_function_remove_arg(func, 1);
  CHECK(nn_function_n_args(func) == 2 && nn_value_index(w) == 1 && nn_arg_i64(func, 1, "nn.group", 0) == 3,
        "after removal");
  nn_function_set_results(func, 2, (MlirValue[]){x, w}, 0);
  nn_set_result_attr(func, 0, &NN_STR("nn.role", "loss"));
  nn_set_result_attr(func, 1, &NN_I64("nn.tied", 1));
  nn_function_set_results(func, 3, (MlirValue[]){w, w, x}, 1);
  CHECK(nn_function_n_results(func) == 3 && !strcmp(nn_result_str(func, 0, "nn.role", buf, sizeof buf, ""), "loss"),
        "kept result attributes");
  CHECK(nn_result_i64(func, 1, "nn.tied", -1) == -1 && mlirAttributeIsNull(nn_result_attr(func, 2, "nn.role")),
        "dropped result attributes");
  CHECK(mlirOperationGetNumOperands(nn_function_return(func)) == 3, "one return");
  nn_function_set_results(kernel, 0, NULL, 0);
  nn_set_unit(kernel, "nn.kernel");
  nn_set_attr(kernel, &NN_STR("nn.kind", "map"));
  CHECK(nn_has_attr(kernel, "nn.kernel") && nn_verify_module(module), "verification");
  Text text = print(module), again;
  MlirModule copy = parse(text.data);
  CHECK(!mlirModuleIsNull(copy), "%s", text.data);
  again = print(copy);
  CHECK(!strcmp(text.data, again.data), "%s\n%s", text.data, again.data);
  free(text.data);
  free(again.data);
  mlirModuleDestroy(copy);
  mlirModuleDestroy(module);
}

static void test_costs(void) {
  MlirModule module = parse(
      "func.func private @k(%x: tensor<8xf32>) -> tensor<8xf32> { %0 = \"nn.exp\"(%x) : (tensor<8xf32>) -> "
      "tensor<8xf32>\n"
      "  %1 = \"nn.neg\"(%0) : (tensor<8xf32>) -> tensor<8xf32>\n return %1 : tensor<8xf32> }\n"
      "func.func @f(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<8xf32>, %r: tensor<2x7xf32>) {\n"
      "  %0 = \"nn.conv2d\"(%x, %w) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>} : "
      "(tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>\n"
      "  %1 = call @k(%v) : (tensor<8xf32>) -> tensor<8xf32>\n"
      "  %2 = scf.execute_region -> tensor<8xf32> no_inline { %3 = func.call @k(%1) : (tensor<8xf32>) -> "
      "tensor<8xf32>\n scf.yield %3 : tensor<8xf32> } {nn.recompute = \"exp\"}\n"
      "  %4 = \"nn.reshape\"(%2) : (tensor<8xf32>) -> tensor<2x4xf32>\n"
      "  %5 = \"nn.fourier\"(%r) {length = 7 : i64, kind = \"real\"} : (tensor<2x7xf32>) -> tensor<2x4x2xf32>\n"
      "  return }");
  double flops[] = {2.0 * 2 * 4 * 64 * 27, 16, 16, 0, 2.5 * (14 + 16) / 2 * 3},
         bytes[] = {4.0 * (384 + 108 + 512), 64, 32, 64, 4.0 * (14 + 16)};
  MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(nn_module_function(module, "f")));
  for (int i = 0; i < 5; i++, op = mlirOperationGetNextInBlock(op)) {
    CHECK(nn_op_flops(op) == flops[i], "operation %d: %g FLOP, expected %g", i, nn_op_flops(op), flops[i]);
    CHECK(nn_op_bytes(op) == bytes[i], "operation %d: %g bytes, expected %g", i, nn_op_bytes(op), bytes[i]);
  }
  mlirModuleDestroy(module);
}

// Counted one by one: with causal, query i of Q sees the keys 0 .. i + K - Q.
static void test_attention_pairs(void) {
  for (int64_t queries = 1; queries <= 5; queries++)
    for (int64_t keys = 1; keys <= 5; keys++)
      for (int causal = 0; causal < 2; causal++) {
        int64_t pairs = 0;
        for (int64_t i = 0; i < queries; i++)
          for (int64_t j = 0; j < keys; j++) pairs += !causal || j <= i + keys - queries;
        NnAttention a = {.batch = 2, .heads = 3, .n_queries = queries, .n_keys = keys, .causal = causal};
        CHECK(nn_attention_pairs(&a) == 6 * (double)pairs, "%lld queries, %lld keys, causal %d: %g pairs of %lld",
              (long long)queries, (long long)keys, causal, nn_attention_pairs(&a), 6 * (long long)pairs);
      }
}

// Values the finite differences of test_gradients cannot see: ties, and powers at zero.
static void gradient_at(NnOp op, int n_operands, const double *x, int64_t n, int64_t axis, double *out) {
  MlirModule module = mlirModuleCreateEmpty(loc);
  MlirOperation func = nn_function_create(module, "f", false, loc);
  MlirValue arg[2], cotangent, result, gradient[2] = {{0}};
  Tensor args[3], found[2];
  for (int i = 0; i < n_operands; i++) {
    arg[i] = input(func, NN_F64, 1, &n);
    args[i] = tensor_create(nn_value_type(arg[i]));
    memcpy(args[i].data, x + i * n, sizeof(double) * (size_t)n);
  }
  NnBuilder b = nn_builder_at_end(nn_function_body(func), loc);
  result = axis >= 0         ? nn_reduce(&b, op, arg[0], 1, &axis)
           : n_operands == 1 ? nn_unary(&b, op, arg[0])
                             : nn_binary(&b, op, arg[0], arg[1]);
  cotangent = nn_constant_like(&b, result, 1);
  NnVjp vjp = {.b = &b,
               .op = nn_value_def(result),
               .n_operands = n_operands,
               .n_results = 1,
               .operand = arg,
               .result = &result,
               .cotangent = &cotangent,
               .needed = (bool[]){true, true},
               .operand_cotangent = gradient};
  nn_op_info(op)->vjp(&vjp);
  nn_function_set_results(func, n_operands, gradient, 0);
  reference_run(func, args, found, 2);
  for (int i = 0; i < n_operands; i++) {
    memcpy(out + i * n, found[i].data, sizeof(double) * (size_t)n);
    tensor_free(&found[i]);
    tensor_free(&args[i]);
  }
  mlirModuleDestroy(module);
}

static void test_gradient_conventions(void) {
  double g[8];
  gradient_at(NN_OP_reduce_max, 1, (double[]){5, 5, 1, 5}, 4, 0, g);
  CHECK(g[0] == 1.0 / 3 && g[1] == 1.0 / 3 && g[2] == 0 && g[3] == 1.0 / 3, "equal maxima share: %g %g %g %g", g[0],
        g[1], g[2], g[3]);
  gradient_at(NN_OP_max, 2, (double[]){1, 2, 2, 1}, 2, -1, g);
  CHECK(g[0] == 0 && g[1] == 1 && g[2] == 1 && g[3] == 0, "maximum");
  gradient_at(NN_OP_max, 2, (double[]){3, 3}, 1, -1, g);
  CHECK(g[0] == 0.5 && g[1] == 0.5, "equals share the gradient: %g %g", g[0], g[1]);
  gradient_at(NN_OP_min, 2, (double[]){3, 3}, 1, -1, g);
  CHECK(g[0] == 0.5 && g[1] == 0.5, "equals share the gradient: %g %g", g[0], g[1]);
  gradient_at(NN_OP_relu, 1, (double[]){0, 2}, 2, -1, g);
  CHECK(g[0] == 0 && g[1] == 1, "relu is flat at 0: %g", g[0]);
  gradient_at(NN_OP_pow, 2, (double[]){0, 0, 3, 0, 2, 2}, 3, -1, g);
  CHECK(g[0] == 0 && g[1] == 0 && g[2] == 6, "base: %g %g %g", g[0], g[1], g[2]);
  CHECK(g[3] == 0 && g[4] == 0, "exponent at base 0: %g %g", g[3], g[4]);
}

static FILE *open_page(const char *mode) { return fopen(NNC_SOURCE_DIR "/docs/ops.md", mode); }

static bool write_page(void) {
  char *page = nn_op_table_markdown();
  FILE *file = open_page("w");
  bool ok = file && fputs(page, file) >= 0;
  if (file && fclose(file)) ok = false;
  free(page);
  return ok;
}

static void test_page(void) {
  char *page = nn_op_table_markdown();
  size_t size = strlen(page);
  char *found = calloc(size + 2, 1);
  FILE *file = open_page("r");
  CHECK(file && fread(found, 1, size + 1, file) == size && !strcmp(page, found),
        "docs/ops.md is not what the table says: run test_ir --write-ops-page");
  if (file) fclose(file);
  free(found);
  free(page);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "--write-ops-page")) return write_page() ? 0 : 1;
  ctx = nn_context_create();
  loc = mlirLocationUnknownGet(ctx);
  test_types();
  test_reshape_strides();
  test_table();
  test_page();
  test_errors();
  test_map_types();
  test_build();
  test_functions();
  test_costs();
  test_attention_pairs();
  test_gradient_conventions();
  nn_context_destroy(ctx);
  return check_report();
}

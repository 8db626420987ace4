// The rules of simplify for maps, one function per form: every map of constants, of a value and a constant on either
// side, of a value twice, of what a negation or the map itself gives. The reference must find the same numbers before
// and after, no more operations, and constants where all was constant.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "test/check.h"
#include "test/ir/reference.c"

enum { VALUES = 6, MAX_CASES = 1024 };

typedef struct Case {
  Tensor before;
  int operations;
  bool folds;
  enum { ANY, STAYS, GOES } quotient;   // what is to become of a division
  char text[800];
} Case;

typedef enum Family { FLOAT, SIGNED, UNSIGNED, TRUTH } Family;

static Case cases[MAX_CASES];
static int n_cases;
static FILE *out;
static char *text;
static size_t size;
static MlirContext ctx;
static const double values[][VALUES] = {[FLOAT] = {-2, -1, -0.5, 0, 0.5, 3},
                                        [SIGNED] = {-7, -1, 0, 1, 2, 5},
                                        [UNSIGNED] = {0, 1, 2, 3, 12, 15},
                                        [TRUTH] = {0, 1, 0, 1, 0, 1}};
static const double constants[][4] =
    {[FLOAT] = {0, 1, -1, 2}, [SIGNED] = {0, 1, -1, 3}, [UNSIGNED] = {0, 1, 2, 3}, [TRUTH] = {0, 1, 0, 1}};

static Family family_of(NnDtype dtype) {
  return nn_dtype_is_float(dtype) ? FLOAT : dtype == NN_I1 ? TRUTH : dtype == NN_U8 ? UNSIGNED : SIGNED;
}

static bool takes(NnOp op, NnDtype dtype) {
  switch (op) {
  case NN_OP_not:
  case NN_OP_and:
  case NN_OP_or: return dtype == NN_I1;
  case NN_OP_exp:
  case NN_OP_log:
  case NN_OP_sqrt:
  case NN_OP_rsqrt:
  case NN_OP_recip:
  case NN_OP_sin:
  case NN_OP_cos:
  case NN_OP_tanh:
  case NN_OP_erf:
  case NN_OP_sigmoid: return nn_dtype_is_float(dtype);
  default: return dtype != NN_I1;
  }
}

// Text of values: x and y are arguments, c and d the constants, n and m the negations of x and y, k the constant -2.
static const char *number(double x, char *text, size_t size) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  snprintf(text, size, "0x%016llX : f64", (unsigned long long)bits);
  return text;
}

static void begin(const char *type, const char *result_type, double c, double d, bool negates) {
  char first[32], second[32];
  fprintf(out,
          "func.func @f%d(%%x: %s, %%y: %s) -> %s {\n"
          "  %%c = \"nn.constant\"() {value = %s} : () -> %s\n"
          "  %%d = \"nn.constant\"() {value = %s} : () -> %s\n",
          n_cases, type, type, result_type, number(c, first, sizeof first), type, number(d, second, sizeof second),
          type);
  if (!negates) return;
  fprintf(out, "  %%n = \"nn.neg\"(%%x) : (%s) -> %s\n  %%m = \"nn.neg\"(%%y) : (%s) -> %s\n", type, type, type, type);
}

static void end(const char *result, const char *type, bool folds) {
  fprintf(out, "  return %s : %s\n}\n", result, type);
  cases[n_cases++].folds = folds;
}

static const char *apply(const char *name, const char *op, int n, const char *a, const char *b, const char *type,
                         const char *attrs, const char *result_type) {
  fprintf(out, "  %s = \"nn.%s\"(%s%s%s) {%s} : (%s%s%s) -> %s\n", name, op, a, n > 1 ? ", " : "", n > 1 ? b : "",
          attrs, type, n > 1 ? ", " : "", n > 1 ? type : "", result_type);
  return name;
}

static void one_operand(NnOp op, const char *type, const double *c, bool negates) {
  static const char *const forms[] = {"%c", "%x", "%n"};
  const char *name = nn_op_info(op)->name;
  for (int i = 0; i < 4; i++)
    for (int form = i ? 2 : 0; form < 3 + (i == 0); form++) {   // constants often, the rest once
      const char *operand = i ? "%c" : form < 3 ? forms[form] : "%r";
      if (!strcmp(operand, "%n") && !negates) continue;
      begin(type, type, c[i], 0, negates);
      if (!strcmp(operand, "%r")) apply("%r", name, 1, "%x", "", type, "", type);
      end(apply("%s", name, 1, operand, "", type, "", type), type, !strcmp(operand, "%c"));
    }
}

static void two_operands(NnOp op, const char *type, const double *c, bool negates, const char *attrs,
                         const char *result_type) {
  static const char *const pairs[][2] = {{"%c", "%d"}, {"%x", "%c"}, {"%c", "%x"}, {"%x", "%x"},
                                         {"%n", "%y"}, {"%x", "%m"}, {"%n", "%m"}, {"%r", "%d"}};
  const char *name = nn_op_info(op)->name;
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 4; k++)
      for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        const char *a = pairs[p][0], *b = pairs[p][1];
        bool negation = strpbrk(a, "nm") || strpbrk(b, "nm"), two = strpbrk(b, "d"),
             none = !strpbrk(a, "c") && !strpbrk(b, "cd");
        if ((negation && !negates) || (k && !two) || (i && none) || (strcmp(result_type, type) && strchr(a, 'r')))
          continue;
        begin(type, result_type, c[i], c[k], negates);
        if (strchr(a, 'r')) apply("%r", name, 2, "%x", "%c", type, attrs, result_type);
        end(apply("%s", name, 2, a, b, type, attrs, result_type), result_type, p == 0);
      }
}

static const char *type_text(int dtype, char *buf, size_t size) {
  snprintf(buf, size, "tensor<%dx%s>", VALUES, dtype == NN_U8 ? "ui8" : nn_dtype_name((NnDtype)dtype));
  return buf;
}

static bool is_integer(int dtype) { return !nn_dtype_is_float((NnDtype)dtype) && dtype != NN_I1; }

static void casts(const char *type, NnDtype from, double c) {
  char middle[32], last[32];
  for (int to = 0; to < NN_DTYPE_COUNT; to++)
    for (int then = 0; then < NN_DTYPE_COUNT; then++)
      for (int constant = 0; constant < 2; constant++) {
        // A negative number has no meaning in u8.
        if (family_of(from) < UNSIGNED && (to == NN_U8 || then == NN_U8)) continue;
        // An infinity and NaN have none in integers.
        bool endless = isnan(c) || (to == NN_F16 && fabs(c) > 65504);
        if (endless && (is_integer(to) || (to != NN_I1 && is_integer(then)))) continue;
        type_text(to, middle, sizeof middle);
        begin(type, type_text(then, last, sizeof last), c, 0, false);
        fprintf(out, "  %%r = \"nn.cast\"(%s) : (%s) -> %s\n", constant ? "%c" : "%x", type, middle);
        fprintf(out, "  %%s = \"nn.cast\"(%%r) : (%s) -> %s\n", middle, last);
        bool truth = to == NN_I1 || then == NN_I1;   // of other numbers than 0 and 1 it is left to run
        end("%s", last, constant && (!truth || c == 0 || c == 1));
      }
}

static void selects(const char *type) {
  for (int form = 0; form < 4; form++) {
    begin(type, type, 1, 0, false);
    fprintf(out,
            "  %%p = \"nn.compare\"(%%x, %%y) {predicate = \"lt\"} : (%s, %s) -> tensor<%dxi1>\n"
            "  %%q = \"nn.not\"(%%p) : (tensor<%dxi1>) -> tensor<%dxi1>\n"
            "  %%t = \"nn.constant\"() {value = 1.0 : f64} : () -> tensor<%dxi1>\n"
            "  %%o = \"nn.constant\"() {value = 0.0 : f64} : () -> tensor<%dxi1>\n",
            type, type, VALUES, VALUES, VALUES, VALUES, VALUES);
    static const char *const conditions[] = {"%p", "%q", "%t", "%o"};
    fprintf(out, "  %%s = \"nn.select\"(%s, %%x, %%y) : (tensor<%dxi1>, %s, %s) -> %s\n", conditions[form], VALUES,
            type, type, type);
    end("%s", type, form > 1);
  }
  begin(type, type, 1, 0, false);
  fprintf(out,
          "  %%p = \"nn.compare\"(%%x, %%y) {predicate = \"lt\"} : (%s, %s) -> tensor<%dxi1>\n"
          "  %%s = \"nn.select\"(%%p, %%x, %%x) : (tensor<%dxi1>, %s, %s) -> %s\n",
          type, type, VALUES, VALUES, type, type, type);
  end("%s", type, true);
}

// By powers of two, of which the inverse is a normal number of the type or is not: 2^top is the largest in it.
static void quotients(const char *type, NnDtype dtype) {
  int top = dtype == NN_F64 ? 1023 : dtype == NN_F16 ? 15 : 127, exponents[] = {-top - 1, -top, -3, top - 1, top};
  for (int i = 0; i < 5; i++) {
    begin(type, type, ldexp(i % 2 ? -1 : 1, exponents[i]), 0, false);
    cases[n_cases].quotient = i == 0 || i == 4 ? STAYS : GOES;
    end(apply("%s", "div", 2, "%x", "%c", type, "", type), type, false);
  }
}

static void print(MlirStringRef part, void *to) {
  Case *c = to;
  size_t used = strlen(c->text);
  snprintf(c->text + used, sizeof c->text - used, "%.*s", (int)part.length, part.data);
}

static Tensor run(MlirOperation func, int *operations) {
  Tensor args[2], result = {0};
  for (int i = 0; i < 2; i++) {
    NnType type = nn_value_type(mlirBlockGetArgument(nn_function_body(func), i));
    args[i] = tensor_create(type);
    for (int k = 0; k < VALUES; k++) args[i].data[k] = values[family_of(type.dtype)][(k + 2 * i) % VALUES];
  }
  CHECK(reference_run(func, args, &result, 1) == 1, "the reference does not know an op");
  *operations = 0;
  NN_FOREACH_OP (op, nn_function_body(func))
    if (nn_op_of(op) != NN_OP_NONE && nn_op_of(op) != NN_OP_constant) ++*operations;
  tensor_free(&args[0]);
  tensor_free(&args[1]);
  return result;
}

static bool same(double a, double b, NnDtype dtype) {
  double digits = dtype == NN_BF16 ? 0x1p-7 : dtype == NN_F16 ? 0x1p-10 : dtype == NN_F32 ? 0x1p-22 : 0x1p-50;
  return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= digits * fabs(a);
}

// Results that a constant cannot be, and quotients and powers whose meaning is left to run.
static bool has_constant(const Case *c, const Tensor *t) {
  bool whole = !nn_dtype_is_float(t->type.dtype);
  if (whole && (strstr(c->text, "nn.pow") || strstr(c->text, "nn.div"))) return false;
  if (t->type.dtype == NN_U8 && (strstr(c->text, "nn.sub") || strstr(c->text, "nn.neg"))) return false;   // below 0
  return isfinite(t->data[0]);
}

static bool has_quotient(MlirOperation func) {
  NN_FOREACH_OP (op, nn_function_body(func))
    if (nn_op_of(op) == NN_OP_div) return true;
  return false;
}

static void judge(MlirModule module, bool after) {
  int i = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module)); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op), i++) {
    Case *c = &cases[i];
    int operations;
    Tensor result = run(op, &operations);
    if (!after) {
      c->before = result, c->operations = operations;
      mlirOperationPrint(op, print, c);
      continue;
    }
    bool equal = true, signs = c->folds && nn_dtype_is_float(result.type.dtype);   // what is folded has that of a zero
    for (int k = 0; k < VALUES; k++) {
      equal &= same(c->before.data[k], result.data[k], result.type.dtype);
      if (signs && result.data[k] == 0) equal &= !signbit(c->before.data[k]) == !signbit(result.data[k]);
    }
    CHECK(equal, "other numbers: %g ... for %g ... of\n%s", result.data[0], c->before.data[0], c->text);
    CHECK(operations <= c->operations, "%d operations for %d of\n%s", operations, c->operations, c->text);
    if (c->quotient != ANY)
      CHECK(has_quotient(op) == (c->quotient == STAYS), "the division %s of\n%s",
            c->quotient == STAYS ? "went" : "stayed", c->text);
    if (c->folds && has_constant(c, &c->before))
      CHECK(operations == 0, "%d operations left of\n%s", operations, c->text);
    tensor_free(&result);
    tensor_free(&c->before);
  }
}

// One module per type and operation, for the time that a pass takes grows with the number of functions.
static void check_module(void) {
  static char error[NN_ERROR_SIZE];
  NnPipeline pipeline;
  fclose(out);
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  judge(module, false);
  CHECK(nn_pipeline_parse("simplify", NULL, &pipeline, error) &&
            nn_pipeline_run(&pipeline, module, &(NnPipelineHooks){0}),
        "simplify");
  judge(module, true);
  nn_pipeline_free(&pipeline);
  mlirModuleDestroy(module);
  free(text);
  memset(cases, 0, sizeof cases);
  n_cases = 0;
  out = open_memstream(&text, &size);
}

static void check_maps(NnDtype dtype, const char *type, const double *c) {
  static const char *const predicates[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  char truth[32], attrs[32];
  type_text(NN_I1, truth, sizeof truth);
  bool negates = family_of(dtype) < UNSIGNED;
  for (int op = 0; op < NN_OP_COUNT; op++) {
    const NnOpInfo *info = nn_op_info((NnOp)op);
    if (info->kind != NN_KIND_MAP || op == NN_OP_cast || op == NN_OP_select || !takes((NnOp)op, dtype)) continue;
    if (info->n_operands == 1) one_operand((NnOp)op, type, c, negates);
    else if (op != NN_OP_compare) two_operands((NnOp)op, type, c, negates, "", type);
    for (int i = 0; op == NN_OP_compare && i < 6; i++) {
      snprintf(attrs, sizeof attrs, "predicate = \"%s\"", predicates[i]);
      two_operands((NnOp)op, type, c, negates, attrs, truth);
    }
    check_module();
  }
}

static void check_numbers(NnDtype dtype, const char *type, const double *c) {
  check_maps(dtype, type, c);
  for (int i = 0; i < 4; i++) {
    casts(type, dtype, c[i]);
    check_module();
  }
}

static void check_type(NnDtype dtype) {
  char type[32];
  type_text(dtype, type, sizeof type);
  const double *c = constants[family_of(dtype)];
  check_maps(dtype, type, c);
  if (nn_dtype_is_float(dtype) && dtype != NN_F64) {
    // Numbers that the type does not hold.
    double other[] = {0.1, 0.1 + 0x1p-30, 1 + 0x1p-30, dtype == NN_F16 ? 2049 : dtype == NN_BF16 ? 257 : 16777217};
    check_numbers(dtype, type, other);
  }
  if (nn_dtype_is_float(dtype)) check_numbers(dtype, type, (double[]){NAN, 1, 0, -0.0});
  casts(type, dtype, c[1]);
  if (dtype != NN_I1) selects(type);
  if (nn_dtype_is_float(dtype)) quotients(type, dtype);
  check_module();
}

int main(void) {
  ctx = nn_context_create();
  out = open_memstream(&text, &size);
  for (int dtype = 0; dtype < NN_DTYPE_COUNT; dtype++) check_type((NnDtype)dtype);
  fclose(out);
  free(text);
  nn_context_destroy(ctx);
  return check_report();
}

// Schedules of the learning rate: which one and its arguments. A schedule is written in the language
// (compiler/library/schedules.nn, or the program's own): of the number of the step, from 1, of the steps in all and of
// the optimizer's rate it computes the factor that the rates of all groups are multiplied by. The `lr` of an optimizer
// or a group may also be the rate itself, an expression of `step` and `steps`. The numbers are computed by the program
// before each step: what is elaborated here, scalars of f64, becomes C.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/elaborate_internal.h"
#include "compiler/methods.h"

static const char *const given[] = {"step", "steps", "lr"};
enum { N_GIVEN = 3 };

// --- Scalars as C

// All values are doubles: what a cast does to one.
static const char *pattern_of_cast(MlirOperation cast) {
  NnDtype from = nn_value_dtype(nn_operand(cast, 0)), to = nn_value_dtype(mlirOperationGetResult(cast, 0));
  if (to == NN_F64) return "$0";
  if (to == NN_F32) return "(float)$0";
  if (to == NN_I32 || to == NN_I64) return nn_dtype_is_float(from) ? "trunc($0)" : "$0";
  return NULL;
}

// The pattern of an op's value; $0, $1, $2 are its operands. NULL: it has none.
static const char *pattern_of(MlirOperation op, char *text, size_t size) {
  char predicate[8];
  static const char *const compared[][2] = {{"eq", "$0 == $1"}, {"ne", "$0 != $1"}, {"lt", "$0 < $1"},
                                            {"le", "$0 <= $1"}, {"gt", "$0 > $1"},  {"ge", "$0 >= $1"}};
  switch (nn_op_of(op)) {
  case NN_OP_constant: snprintf(text, size, "%.17g", nn_fill_value(op)); return text;
  case NN_OP_neg: return "-$0";
  case NN_OP_abs: return "fabs($0)";
  case NN_OP_sign: return "($0 > 0) - ($0 < 0)";
  case NN_OP_exp: return "exp($0)";
  case NN_OP_log: return "log($0)";
  case NN_OP_sqrt: return "sqrt($0)";
  case NN_OP_rsqrt: return "1 / sqrt($0)";
  case NN_OP_recip: return "1 / $0";
  case NN_OP_sin: return "sin($0)";
  case NN_OP_cos: return "cos($0)";
  case NN_OP_tanh: return "tanh($0)";
  case NN_OP_floor: return "floor($0)";
  case NN_OP_not: return "!$0";
  case NN_OP_add: return "$0 + $1";
  case NN_OP_sub: return "$0 - $1";
  case NN_OP_mul: return "$0 * $1";
  case NN_OP_div:   // of integers as in kernels
    return nn_dtype_is_float(nn_value_dtype(mlirOperationGetResult(op, 0))) ? "$0 / $1"
                                                                            : "$1 == 0 ? $0 : floor($0 / $1)";
  case NN_OP_pow: return "pow($0, $1)";
  case NN_OP_max: return "fmax($0, $1)";
  case NN_OP_min: return "fmin($0, $1)";
  case NN_OP_and: return "$0 && $1";
  case NN_OP_or: return "$0 || $1";
  case NN_OP_select: return "$0 ? $1 : $2";
  case NN_OP_cast: return pattern_of_cast(op);
  case NN_OP_reshape:
  case NN_OP_broadcast: return "$0";
  case NN_OP_compare:
    nn_attr_str(op, "predicate", predicate, sizeof predicate, "");
    for (size_t i = 0; i < sizeof compared / sizeof *compared; i++)
      if (strcmp(compared[i][0], predicate) == 0) return compared[i][1];
    return NULL;
  default: return NULL;
  }
}

// v is one of the values that have a name: "v3", of an argument "step" or "steps".
static const char *name_of(Elaborator *e, const Function *f, MlirValue v) {
  for (int i = 0; i < f->n_inputs; i++)
    if (mlirValueEqual(f->inputs[i].value, v)) return f->inputs[i].name;
  int n = 0;
  NN_FOREACH_OP (op, f->block) {
    if (mlirOperationEqual(op, nn_value_def(v))) return elaborator_format(e, "v%d", n);
    n++;
  }
  return NULL;   // made elsewhere
}

static const char *text_of(Elaborator *e, const Function *f, const char *pattern, MlirOperation op) {
  const char *text = "";
  for (const char *at = pattern; *at; at++) {
    if (*at != '$') {
      text = elaborator_format(e, "%s%c", text, *at);
      continue;
    }
    const char *operand = name_of(e, f, nn_operand(op, *++at - '0'));
    if (!operand) return NULL;
    text = elaborator_format(e, "%s%s", text, operand);
  }
  return text;
}

static bool write_function(Elaborator *e, const Function *f, AstPos pos, MlirValue result, const char **out) {
  const char *text = "";
  int n = 0;
  NN_FOREACH_OP (op, f->block) {
    char number[64];
    const char *pattern = pattern_of(op, number, sizeof number), *value = pattern ? text_of(e, f, pattern, op) : NULL;
    if (!value || nn_value_type(mlirOperationGetResult(op, 0)).rank > 0) {
      elaborator_error(e, pos, "a learning rate is a number that follows from step and steps");
      elaborator_hint(e, "operators, where, minimum, maximum, exp, log, sqrt, sin, cos, tanh, abs and floor");
      return false;
    }
    text = elaborator_format(e, "%s  double v%d = %s;\n", text, n++, value);
  }
  const char *value = name_of(e, f, result);
  *out = elaborator_format(e, "%s  return %s;\n", text, value ? value : "1");
  return true;
}

// --- The line

// INFINITY: the optimizer has a mistake.
static double known_rate(double rate) { return isfinite(rate) ? rate : 1; }

static bool call_schedule(Elaborator *e, const AstExpr *x, const AstItem *item, AstPos pos, double rate,
                          Value *result) {
  int n_args = x && x->kind == AST_CALL ? x->call.n_args : 0, n, *place;
  Option *options;
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(n_args + 1)),
          *all = elaborator_alloc(e, sizeof *all * (size_t)(item->n_parameters + 1));
  if (n_args && !eval_args(e, n_args, x->call.args, args)) return false;
  if (!options_of(e, item, 0, N_GIVEN, given, &n, &options, &place)) return false;
  Value *value = elaborator_alloc(e, sizeof *value * (size_t)(n + 1));
  for (int i = 0; i < n; i++) value[i] = options[i].otherwise;
  if (!options_bind(e, pos, item->name.text, n_args, args, n, options, value)) return false;
  for (int i = 0; i < item->n_parameters; i++) {
    const char *name = item->parameters[i].name.text;
    all[i] = (CallArg){.name = name, .pos = pos};
    Variable *v = find_variable(e->frame, name);
    for (int k = 0; k < N_GIVEN; k++)
      if (strcmp(name, given[k]) == 0) all[i].value = k == 2 ? value_float(known_rate(rate)) : v->value;
  }
  for (int i = 0; i < n; i++) all[place[i]].value = value[i];
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n_args && strcmp(options[i].name, "min") == 0 && option_number(value[i]) > rate; k++)
      if (args[k].name && strcmp(args[k].name, "min") == 0)
        return elaborator_error(e, args[k].pos,
                                "%s: 'min' = %g is above the optimizer's lr = %g, from which the schedule comes down",
                                item->name.text, option_number(value[i]), rate);
  int n_all = 0;
  for (int i = 0; i < item->n_parameters; i++)   // the others are defaults that the body computes
    if (all[i].value.kind != VALUE_NONE) all[n_all++] = all[i];
  return call_block(e, item, pos, &(AstName){0}, n_all, all, result);
}

// The schedule that the line names; without a line the factor is 1.
static bool factor_of(Elaborator *e, const AstExpr *x, AstPos pos, double rate, Value *factor) {
  const char *name = !x ? "constant" : x->kind == AST_NAME ? x->text : x->call.callee;
  const AstItem *item = method_named(e, AST_SCHEDULE, x ? x->pos : pos, name);
  return item && call_schedule(e, x, item, pos, rate, factor);
}

static bool is_number(Elaborator *e, AstPos pos, Value v, const char *what) {
  bool scalar = v.kind == VALUE_TENSOR && nn_value_type(v.tensor).rank == 0 && nn_value_dtype(v.tensor) == NN_F64;
  return scalar || v.kind == VALUE_INT || v.kind == VALUE_FLOAT ||
         elaborator_error(e, pos, "%s must be a number, found %s", what, value_describe(e, v));
}

// Constants, which were computed at compile time.
static bool is_finite(Elaborator *e, const Function *f, AstPos pos, const char *what) {
  NN_FOREACH_OP (op, f->block) {
    if (nn_op_of(op) == NN_OP_constant && !isfinite(nn_fill_value(op)))
      return elaborator_error(e, pos, "%s is not a finite number", what);
  }
  return true;
}

// A function of `step` and `steps`, which is only elaborated to be written as C.
typedef struct OfStep {
  Function *function, *outer;
  Frame frame;
  NnDtype dtype;
} OfStep;

// own_first: names of the program come before `step` and `steps`.
static void begin_of_step(Elaborator *e, OfStep *o, AstPos pos, bool own_first) {
  Frame *train = e->frame;
  *o = (OfStep){.outer = e->function, .dtype = e->dtype};
  o->function = function_begin(e, "schedule", MODE_PREDICT);
  frame_push(e, &o->frame, NULL, pos, path_create(e, ""));
  e->dtype = o->frame.precision = NN_F64;
  for (int i = 0; i < train->n; i++)
    set_variable(e, train->variables[i].name, train->variables[i].pos, train->variables[i].value)->broken =
        train->variables[i].broken;
  for (int i = 0; i < 2; i++) {
    MlirValue number = function_add_input(e, given[i], nn_scalar(NN_F64), false, NULL);
    bool own = find_variable(train, given[i]) || find_variable(e->globals, given[i]);
    if (!own || !own_first) set_variable(e, given[i], pos, value_tensor(number));
  }
}

static bool write_of_step(Elaborator *e, const OfStep *o, AstPos pos, Value v, const char *what, const char **text) {
  MlirValue value;
  return is_number(e, pos, v, what) && value_to_tensor(e, pos, v, NN_F64, &value) &&
         is_finite(e, o->function, pos, what) && write_function(e, o->function, pos, value, text);
}

static void end_of_step(Elaborator *e, OfStep *o) {
  frame_pop(e);
  e->dtype = o->dtype;
  function_discard(o->function);
  e->function = o->outer;
}

bool settings_schedule(Elaborator *e, const AstStmt *s, double rate, const char **text) {
  AstPos pos = s ? s->pos : e->train->pos;
  const AstExpr *x = s && s->setting.n_args == 1 && !s->setting.args[0].name.text ? s->setting.args[0].value : NULL;
  if (s && (!x || (x->kind != AST_NAME && x->kind != AST_CALL))) {
    elaborator_error(e, x ? x->pos : s->pos, "'schedule' needs a name and its arguments");
    elaborator_hint(e, "a rate by the number of the step is the optimizer's: lr=1e-3 * minimum(step / 100, 1)");
    return false;
  }
  OfStep of;
  Value factor;
  begin_of_step(e, &of, pos, false);
  bool ok = factor_of(e, x, pos, rate, &factor) && write_of_step(e, &of, x ? x->pos : pos, factor, "a schedule", text);
  end_of_step(e, &of);
  return ok;
}

bool settings_rate(Elaborator *e, const AstExpr *x, Value *value, const char **text) {
  OfStep of;
  begin_of_step(e, &of, x->pos, true);
  bool ok = eval(e, x, value);
  *text = NULL;
  if (ok && value->kind == VALUE_TENSOR) ok = write_of_step(e, &of, x->pos, *value, "'lr'", text);
  end_of_step(e, &of);
  return ok;
}

void schedule_check_line(Elaborator *e, const AstStmt *s, const AstExpr *x) {
  Option *options;
  int n, *place;
  if (x->kind != AST_NAME && x->kind != AST_CALL) return;
  const char *callee = x->kind == AST_NAME ? x->text : x->call.callee;
  const AstItem *item = method_named(e, AST_SCHEDULE, x->pos, callee);
  if (!item || !options_of(e, item, 0, N_GIVEN, given, &n, &options, &place)) return;
  options_check(e, s->pos, callee, x->kind == AST_CALL ? x->call.n_args : 0, x->kind == AST_CALL ? x->call.args : NULL,
                n, options);
}

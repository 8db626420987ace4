// Execution of bodies: assignments, parameters, compile-time if, for and repeat. A statement with a mistake breaks the names it assigns, and
// the statements after it go on, so that one run shows several mistakes.
#include <string.h>

#include "compiler/elaborate_internal.h"

static void break_names(Elaborator *e, const AstStmt *s)
{
  for (int i = 0; i < s->n_names; i++) set_variable(e, s->names[i], s->name_pos[i], (Value){0})->broken = true;
}

// Breaks what a body that cannot be executed would have assigned.
static void break_body(Elaborator *e, const AstBody *body)
{
  for (int i = 0; i < body->n; i++) {
    break_names(e, body->stmt[i]);
    if (!elaborator_stack_ok(e, body->stmt[i]->pos)) return;
    break_body(e, &body->stmt[i]->body);
    break_body(e, &body->stmt[i]->otherwise);
  }
}

static bool assign(Elaborator *e, const AstStmt *s, AstPos pos, Value v)
{
  if (s->n_names == 1) {
    set_variable(e, s->names[0], s->name_pos[0], v);
    return true;
  }
  if (v.kind != VALUE_LIST || v.list.n != s->n_names) {
    break_names(e, s);
    return elaborator_error(e, pos, "%d names are assigned, the value is %s", s->n_names, value_describe(e, v));
  }
  for (int i = 0; i < s->n_names; i++) set_variable(e, s->names[i], s->name_pos[i], v.list.items[i]);
  return true;
}

static bool exec_assign(Elaborator *e, const AstStmt *s)
{
  Value v;
  if (eval(e, s->expr, &v)) return assign(e, s, s->expr->pos, v);
  break_names(e, s);
  return false;
}

// --- Parameters ------------------------------------------------------------------------------------------------------------

static const char *eval_init(Elaborator *e, const AstExpr *x)
{
  Value v;
  double number;
  if (!x) return "zeros";
  if (!eval(e, x, &v)) return NULL;
  if (v.kind == VALUE_INIT) return v.s;
  if (value_as_number(&v, &number)) return elaborator_format(e, "constant(%.17g)", number);
  elaborator_error(e, x->pos, "expected an initialiser such as normal(0.02) or a number, found %s", value_describe(e, v));
  return NULL;
}

static bool declare_param(Elaborator *e, const char *name, AstPos pos, NnType type, const char *init)
{
  Path *path = e->frame->path;
  for (int i = 0; i < path->n; i++)
    if (path->names[i].declared && strcmp(path->names[i].name, name) == 0)
      return elaborator_error(e, pos, "parameter '%s' is declared twice", name);
  PathName declared = {name, 1, true};
  PUSH(e, path->names, path->n, path->capacity, declared);
  const char *outer = e->layer_path;
  e->layer_path = path->text;
  MlirValue v = elaborator_param(e, pos, name, type, init);
  e->layer_path = outer;
  Variable *variable = set_variable(e, name, pos, nn_value_is_null(v) ? (Value){0} : value_tensor(v));
  variable->broken = nn_value_is_null(v);
  return !variable->broken;
}

static bool exec_param(Elaborator *e, const AstStmt *s)
{
  NnType type;
  const char *init = eval_init(e, s->expr);
  bool ok = s->type && eval_type(e, s->type, &type) && init;
  if (ok && !nn_dtype_is_float(type.dtype)) ok = elaborator_error(e, s->type->pos, "a parameter must have a float type");
  if (!ok) break_names(e, s);
  for (int i = 0; ok && i < s->n_names; i++) ok = declare_param(e, s->names[i], s->name_pos[i], type, init);
  return ok;
}

// --- Control flow ----------------------------------------------------------------------------------------------------------

// One round of a loop, with parameter names below <loop>.<round>.
static bool exec_round(Elaborator *e, const AstStmt *s, const Path *loop, int64_t round)
{
  Frame *f = e->frame;
  Path *outer = f->path;
  Value ignored;
  bool has_value;
  if (!function_charge(e, s->pos)) return false;
  f->path = path_create(e, elaborator_format(e, "%s.%lld", loop->text, (long long)round));
  bool ok = exec_body(e, &s->body, &ignored, &has_value);
  f->path = outer;
  return ok;
}

static Path *enter_loop(Elaborator *e, const AstStmt *s, const char *keyword)
{
  return path_enter(e, e->frame->path, s->message ? s->message : keyword, false);
}

static bool exec_repeat(Elaborator *e, const AstStmt *s)
{
  int64_t n;
  bool ok = eval_int(e, s->expr, "the count", &n);
  if (ok && n < 0) ok = elaborator_error(e, s->expr->pos, "the count must not be negative, found %lld", (long long)n);
  if (!ok) {
    break_body(e, &s->body);
    return false;
  }
  Path *loop = enter_loop(e, s, "repeat");
  for (int64_t i = 0; ok && i < n; i++) ok = exec_round(e, s, loop, i);
  return ok;
}

static bool exec_range(Elaborator *e, const AstStmt *s)
{
  int64_t from, to;
  if (s->n_names != 1) return elaborator_error(e, s->name_pos[1], "a range gives one number, %d names are assigned", s->n_names);
  bool ok = eval_int(e, s->expr, "the start of a range", &from);
  if (!eval_int(e, s->expr2, "the end of a range", &to) || !ok) return false;
  Path *loop = enter_loop(e, s, "for");
  for (int64_t i = from; ok && i < to; i++) ok = assign(e, s, s->expr->pos, value_int(i)) && exec_round(e, s, loop, i - from);
  return ok;
}

static bool exec_items(Elaborator *e, const AstStmt *s)
{
  Value v;
  if (!eval(e, s->expr, &v)) return false;
  if (v.kind != VALUE_LIST) {
    elaborator_error(e, s->expr->pos, "'for' goes over a list or a range, found %s", value_describe(e, v));
    if (v.kind == VALUE_INT) elaborator_hint(e, "for i in 0..n");
    return false;
  }
  // One tuple, as in `for a, b in (1, 2)`, is one item.
  bool single = s->n_names > 1 && s->expr->kind == AST_TUPLE && v.list.n == s->n_names;
  for (int i = 0; single && i < v.list.n; i++) single = v.list.items[i].kind != VALUE_LIST;
  Path *loop = enter_loop(e, s, "for");
  if (single) return assign(e, s, s->expr->pos, v) && exec_round(e, s, loop, 0);
  bool ok = true;
  for (int i = 0; ok && i < v.list.n; i++) {
    AstPos pos = (s->expr->kind == AST_TUPLE || s->expr->kind == AST_LIST) && i < s->expr->n_items ? s->expr->items[i]->pos : s->expr->pos;
    ok = assign(e, s, pos, v.list.items[i]) && exec_round(e, s, loop, i);
  }
  return ok;
}

static bool exec_if(Elaborator *e, const AstStmt *s, Value *result, bool *has_result)
{
  bool yes;
  if (eval_condition(e, s->expr, &yes)) return exec_body(e, yes ? &s->body : &s->otherwise, result, has_result);
  break_body(e, &s->body);
  break_body(e, &s->otherwise);
  return false;
}

static bool exec_assert(Elaborator *e, const AstStmt *s)
{
  bool holds;
  if (!eval_condition(e, s->expr, &holds)) return false;
  if (holds) return true;
  if (s->message) return elaborator_error(e, s->pos, "assertion failed: %s", s->message);
  return elaborator_error(e, s->pos, "assertion failed");
}

static bool exec_checkpoint(Elaborator *e, const AstStmt *s)
{
  Value v;
  if (!eval(e, s->expr, &v)) return false;
  if (v.kind != VALUE_TENSOR) return elaborator_error(e, s->expr->pos, "'checkpoint' needs a tensor, found %s", value_describe(e, v));
  NnBuilder *b = elaborator_builder(e);
  b->loc = location_of(e, s->pos);
  if (e->function->mode == MODE_TRAIN) nn_checkpoint(b, v.tensor);
  return function_count_ops(e, s->pos);
}

static bool exec_statement(Elaborator *e, const AstStmt *s, Value *result, bool *has_result)
{
  switch (s->kind) {
    case AST_ASSIGN: return exec_assign(e, s);
    case AST_PARAM: return exec_param(e, s);
    case AST_IF: return exec_if(e, s, result, has_result);
    case AST_REPEAT: return exec_repeat(e, s);
    case AST_CHECKPOINT: return exec_checkpoint(e, s);
    case AST_ASSERT: return exec_assert(e, s);
    case AST_EXPR:
      *has_result = true;
      return eval(e, s->expr, result);
    case AST_FOR: {
      bool ok = s->expr2 ? exec_range(e, s) : exec_items(e, s);
      if (!ok) {
        break_names(e, s);
        break_body(e, &s->body);
      }
      return ok;
    }
  }
  return false;
}

// The value of a body is that of its last statement, when that is an expression (or an if whose branch ends in one).
bool exec_body(Elaborator *e, const AstBody *body, Value *result, bool *has_result)
{
  bool ok = true;
  *has_result = false;
  *result = (Value){0};
  for (int i = 0; i < body->n && !e->gave_up; i++) {
    const AstStmt *s = body->stmt[i];
    if (!elaborator_stack_ok(e, s->pos)) return false;
    Value v = {0};
    bool has_value = false;
    ok = exec_statement(e, s, &v, &has_value) && ok;
    if (i == body->n - 1) {
      *result = v;
      *has_result = has_value;
    } else if (has_value && s->kind == AST_EXPR && ok) {
      ok = elaborator_error(e, s->pos, "the value of this expression is not used");
      elaborator_hint(e, "give it a name, or make it the last statement");
    }
  }
  return ok && !e->gave_up;
}

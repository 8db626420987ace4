// Execution of bodies: assignments, parameters, compile-time if, for and repeat. A statement with a mistake breaks the
// names it assigns, and the statements after it go on, so that one run shows several mistakes.
#include <string.h>

#include "compiler/elaborate_internal.h"

static void break_names(Elaborator *e, int n, const AstName *names) {
  for (int i = 0; i < n; i++) set_variable(e, names[i].text, names[i].pos, (Value){0})->broken = true;
}

void break_body(Elaborator *e, const AstBody *body) {
  for (int i = 0; i < body->n; i++) {
    const AstStmt *s = body->stmts[i];
    switch (s->kind) {
    case AST_ASSIGN: break_names(e, s->assign.n, s->assign.targets); break;
    case AST_PARAM:
    case AST_STATE: break_names(e, 1, &s->param.name); break;
    case AST_REPEAT: break_body(e, &s->repeat.body); break;
    case AST_FOR:
      break_names(e, s->for_.n_names, s->for_.names);
      break_body(e, &s->for_.body);
      break;
    case AST_EXPR:
      if (s->expr->kind != AST_IF) break;
      break_body(e, &s->expr->if_.then);
      break_body(e, &s->expr->if_.otherwise);
      break;
    default: break;
    }
  }
}

static bool assign(Elaborator *e, int n, const AstName *names, AstPos pos, Value v) {
  if (n == 1) {
    set_variable(e, names[0].text, names[0].pos, v);
    return true;
  }
  if (v.kind != VALUE_LIST || v.list.n != n) {
    break_names(e, n, names);
    return elaborator_error(e, pos, "%d names are assigned, the value is %s", n, value_describe(e, v));
  }
  for (int i = 0; i < n; i++) set_variable(e, names[i].text, names[i].pos, v.list.items[i]);
  return true;
}

static bool exec_assign(Elaborator *e, const AstStmt *s) {
  Value v;
  if (eval(e, s->assign.value, &v)) return assign(e, s->assign.n, s->assign.targets, s->assign.value->pos, v);
  break_names(e, s->assign.n, s->assign.targets);
  return false;
}

// --- Parameters

static const char *eval_init(Elaborator *e, const AstExpr *x) {
  Value v;
  double number;
  if (!x) return "zeros";
  if (!eval(e, x, &v)) return NULL;
  if (v.kind == VALUE_INIT) return v.s;
  if (value_as_number(&v, &number)) return elaborator_format(e, "constant(%.17g)", number);
  elaborator_error(e, x->pos, "expected an initialiser such as normal(0.02) or a number, found %s",
                   value_describe(e, v));
  return NULL;
}

// The scope of a declared parameter and its name there; with a path in quotes both are parts of it, and one that is
// given twice is shared.
static const char *declared_name(Elaborator *e, const AstStmt *s, const char **name) {
  *name = s->param.name.text;
  if (!s->param.label.text) return e->frame->path->text;
  const Path *path = path_of_label(e, &s->param.label, NULL);
  const char *dot = path ? strrchr(path->text, '.') : NULL;
  if (path) *name = dot ? dot + 1 : path->text;
  return path ? elaborator_format(e, "%.*s", dot ? (int)(dot - path->text) : 0, path->text) : NULL;
}

static bool declare_param(Elaborator *e, const AstStmt *s, NnType type, const char *init) {
  const char *name = s->param.name.text, *outer = e->layer_path, *last;
  AstPos pos = s->param.name.pos;
  bool is_state = s->kind == AST_STATE;
  if (!s->param.label.text && !path_declare(e, e->frame->path, name))
    return elaborator_error(e, pos, "%s '%s' is declared twice", is_state ? "state" : "parameter", name);
  const char *scope = declared_name(e, s, &last);
  if (scope) e->layer_path = scope;
  MlirValue v = !scope     ? (MlirValue){0}
                : is_state ? elaborator_state(e, pos, last, type, init)
                           : elaborator_param(e, pos, last, type, init);
  Slot *state = is_state && !nn_value_is_null(v) ? function_slot(e, last) : NULL;
  e->layer_path = outer;
  if (state) state->declared = !e->frame->is_prelude;
  if (!nn_value_is_null(v) && type.dtype == e->dtype) v = value_cast(e, value_tensor(v), e->frame->precision).tensor;
  Variable *variable = set_variable(e, name, pos, nn_value_is_null(v) ? (Value){0} : value_tensor(v));
  variable->broken = nn_value_is_null(v);
  variable->state = state ? (int)(state - e->function->slots) + 1 : 0;
  return !variable->broken;
}

static bool exec_param(Elaborator *e, const AstStmt *s) {
  NnType type;
  const AstName *name = &s->param.name;
  const char *init = eval_init(e, s->param.init);
  bool ok = eval_type(e, &s->param.type, &type) && init;
  if (ok && s->kind == AST_PARAM && !nn_dtype_is_float(type.dtype))
    ok = elaborator_error(e, s->param.type.pos, "a parameter must have a float type");
  if (ok && s->kind == AST_PARAM && nn_dtype_is_narrow(type.dtype)) {
    ok = elaborator_error(e, s->param.type.pos, "a parameter is kept in f32, not %s", nn_dtype_name(type.dtype));
    elaborator_hint(e, "write f32; what it is used in is the precision of the block: block f(…) precision %s { … }",
                    nn_dtype_name(type.dtype));
  }
  if (!ok) break_names(e, 1, name);
  return ok && declare_param(e, s, type, init);
}

// The value that a state has from the next step on. Until then its name stands for what it was when the step began.
static bool exec_update(Elaborator *e, const AstStmt *s) {
  Value v;
  const AstName *name = &s->assign.targets[0];
  const Variable *variable = find_variable(e->frame, name->text);
  if (!eval(e, s->assign.value, &v)) return false;
  if (variable && variable->broken) return false;
  Slot *slot = !variable                              ? NULL
               : variable->state                      ? &e->function->slots[variable->state - 1]
               : variable->value.kind == VALUE_TENSOR ? function_state(e, variable->value.tensor)
                                                      : NULL;
  if (!slot) {
    elaborator_error(e, name->pos, "'%s' is not a state", name->text);
    elaborator_hint(e, "declare it with 'state %s: f32[…] = zeros', and do not assign its name again", name->text);
    return false;
  }
  MlirValue value;
  if (!value_to_tensor(e, s->assign.value->pos, v, slot->type.dtype, &value)) return false;
  if (nn_dtype_is_float(slot->type.dtype)) value = value_cast(e, value_tensor(value), slot->type.dtype).tensor;
  NnType t = nn_value_type(value);
  if (!nn_type_equal(&t, &slot->type))
    return elaborator_error(e, s->assign.value->pos, "state '%s' is %s, its new value is %s", name->text,
                            value_describe(e, value_tensor(slot->value)), value_describe(e, value_tensor(value)));
  // phases take turns
  if (!mlirValueEqual(slot->updated, slot->value) && slot->updated_in == e->in_phase)
    return elaborator_error(e, name->pos, "state '%s' is updated twice", name->text);
  slot->updated = value;
  slot->updated_in = e->in_phase;
  return true;
}

// --- Control flow

// One round of a loop, with parameter names below <loop>.<round>.
static bool exec_round(Elaborator *e, const AstBody *body, AstPos pos, const Path *loop, int64_t round) {
  Frame *f = e->frame;
  Path *outer = f->path;
  Value ignored;
  bool has_value;
  if (!function_charge(e, pos)) return false;
  f->path = path_create(e, elaborator_format(e, "%s.%lld", loop->text, (long long)round));
  bool ok = exec_body(e, body, &ignored, &has_value);
  f->path = outer;
  return ok;
}

static Path *enter_loop(Elaborator *e, const AstName *label, const char *keyword) {
  return path_enter(e, e->frame->path, label->text ? label->text : keyword, false);
}

static bool exec_repeat(Elaborator *e, const AstStmt *s) {
  int64_t n;
  bool ok = eval_int(e, s->repeat.count, "the count", &n);
  if (ok && n < 0)
    ok = elaborator_error(e, s->repeat.count->pos, "the count must not be negative, found %lld", (long long)n);
  if (!ok) {
    break_body(e, &s->repeat.body);
    return false;
  }
  Path *loop = enter_loop(e, &s->repeat.label, "repeat");
  for (int64_t i = 0; ok && i < n; i++) ok = exec_round(e, &s->repeat.body, s->pos, loop, i);
  return ok;
}

static bool for_round(Elaborator *e, const AstStmt *s, const Path *loop, AstPos pos, Value item, int64_t round) {
  return assign(e, s->for_.n_names, s->for_.names, pos, item) && exec_round(e, &s->for_.body, s->pos, loop, round);
}

static bool for_range(Elaborator *e, const AstStmt *s, const AstExpr *x, const Path *loop, int64_t *round) {
  int64_t from, to;
  bool ok = eval_int(e, x->range.start, "the start of a range", &from);
  if (!eval_int(e, x->range.stop, "the end of a range", &to) || !ok) return false;
  for (int64_t i = from; ok && i < to; i++) ok = for_round(e, s, loop, x->pos, value_int(i), (*round)++);
  return ok;
}

// One item that is not written as a tuple is a range or a list to go over; several are the rounds themselves.
static bool exec_for(Elaborator *e, const AstStmt *s) {
  Path *loop = enter_loop(e, &s->for_.label, "for");
  int64_t round = 0;
  bool ok = true, over = s->for_.n_items == 1 && s->for_.items[0]->kind != AST_TUPLE;
  for (int i = 0; ok && i < s->for_.n_items; i++) {
    const AstExpr *x = s->for_.items[i];
    Value v;
    if (x->kind == AST_RANGE) {
      ok = for_range(e, s, x, loop, &round);
      continue;
    }
    if (!eval(e, x, &v)) {
      ok = false;
      continue;
    }
    if (!over) {
      ok = for_round(e, s, loop, x->pos, v, round++);
      continue;
    }
    if (v.kind != VALUE_LIST) {
      ok = elaborator_error(e, x->pos, "'for' goes over a list or a range, found %s", value_describe(e, v));
      if (v.kind == VALUE_INT) elaborator_hint(e, "for i in 0..n");
    }
    for (int k = 0; ok && k < v.list.n; k++)
      ok = for_round(e, s, loop, x->kind == AST_LIST ? x->list.items[k]->pos : x->pos, v.list.items[k], round++);
  }
  if (!ok) {
    break_names(e, s->for_.n_names, s->for_.names);
    break_body(e, &s->for_.body);
  }
  return ok;
}

// {name} in the message of an assert is what the name stands for.
static const char *fill_in(Elaborator *e, const char *message) {
  const char *text = "";
  for (const char *brace; (brace = strchr(message, '{')); message = brace + 1) {
    size_t length = strcspn(brace + 1, "}");
    const char *name = elaborator_format(e, "%.*s", (int)length, brace + 1);
    const Variable *v = brace[1 + length] ? visible_variable(e, name) : NULL;
    text = elaborator_format(e, "%s%.*s%s", text, (int)(brace - message), message, v ? value_text(e, v->value) : "{");
    if (v) brace += length + 1;
  }
  return elaborator_format(e, "%s%s", text, message);
}

static bool exec_assert(Elaborator *e, const AstStmt *s) {
  bool holds;
  if (!eval_condition(e, s->assert_.condition, &holds)) return false;
  if (holds) return true;
  if (!s->assert_.message) return elaborator_error(e, s->pos, "assertion failed");
  return elaborator_error(e, s->pos, "%s%s",
                          e->frame->is_prelude ? "" : "assertion failed: ", fill_in(e, s->assert_.message));
}

static bool exec_checkpoint(Elaborator *e, const AstStmt *s) {
  Value v;
  if (!eval(e, s->expr, &v)) return false;
  if (v.kind != VALUE_TENSOR)
    return elaborator_error(e, s->expr->pos, "'checkpoint' needs a tensor, found %s", value_describe(e, v));
  NnBuilder *b = elaborator_builder(e);
  b->loc = location_of(e, s->pos);
  if (e->function->mode == MODE_TRAIN) nn_checkpoint(b, v.tensor);
  return function_count_ops(e, s->pos);
}

static bool exec_statement(Elaborator *e, const AstStmt *s, Value *result, bool *has_result) {
  switch (s->kind) {
  case AST_ASSIGN: return exec_assign(e, s);
  case AST_PARAM:
  case AST_STATE: return exec_param(e, s);
  case AST_UPDATE: return exec_update(e, s);
  case AST_REPEAT: return exec_repeat(e, s);
  case AST_FOR: return exec_for(e, s);
  case AST_CHECKPOINT: return exec_checkpoint(e, s);
  case AST_ASSERT: return exec_assert(e, s);
  case AST_SETTING: return exec_setting(e, s);
  case AST_PHASE: return exec_phase(e, s);
  case AST_EXPR:
    if (s->expr->kind == AST_IF) return eval_if(e, s->expr, result, has_result);
    *has_result = true;
    return eval(e, s->expr, result);
  }
  return false;
}

static bool has_settings(const AstBody *body);

static bool holds_settings(const AstStmt *s) {
  switch (s->kind) {
  case AST_SETTING:
  case AST_PHASE: return true;
  case AST_FOR: return has_settings(&s->for_.body);
  case AST_REPEAT: return has_settings(&s->repeat.body);
  case AST_EXPR:
    return s->expr->kind == AST_IF && (has_settings(&s->expr->if_.then) || has_settings(&s->expr->if_.otherwise));
  default: return false;
  }
}

static bool has_settings(const AstBody *body) {
  for (int i = 0; i < body->n; i++)
    if (holds_settings(body->stmts[i])) return true;
  return false;
}

// Models that a loss calls have parameters from there on; a label without a type stays silent.
static void exec_setting_of_values(Elaborator *e, const AstStmt *s) {
  const char *keyword = s->setting.keyword.text;
  Value ignored;
  if (average_is_ready(e, s)) exec_average(e, s);
  if (strcmp(keyword, "loss") != 0 && strcmp(keyword, "metric") != 0) return;
  for (int i = 0; i < s->setting.n_args; i++) eval(e, s->setting.args[i].value, &ignored);
}

bool exec_definitions(Elaborator *e, const AstBody *body, int n) {
  int errors = e->n_reported;
  Value ignored;
  bool has_result = false;
  for (int i = 0; i < n; i++) {
    const AstStmt *s = body->stmts[i];
    if (s->kind == AST_SETTING) exec_setting_of_values(e, s);
    else if (!holds_settings(s)) exec_statement(e, s, &ignored, &has_result);
  }
  return e->n_reported == errors && !e->gave_up;
}

// The y of a --y as in other languages, or NULL.
static const char *decremented(const AstExpr *x) {
  for (int signs = 0; signs < 2; signs++, x = x->unary.x)
    if (x->kind != AST_UNARY || strcmp(x->unary.op, "-") != 0) return NULL;
  return x->kind == AST_NAME ? x->text : NULL;
}

// The value of a body is that of its last statement, when that is an expression (or an if whose branch ends in one).
bool exec_body(Elaborator *e, const AstBody *body, Value *result, bool *has_result) {
  bool ok = true;
  *has_result = false;
  *result = (Value){0};
  for (int i = 0; i < body->n && !e->gave_up; i++) {
    const AstStmt *s = body->stmts[i];
    if (!elaborator_stack_ok(e, s->pos)) return false;
    Value v = {0};
    bool has_value = false;
    bool fine = exec_statement(e, s, &v, &has_value);
    ok = fine && ok;
    if (!fine && e->frame->is_prelude) return false;   // one mistake of the caller
    if (i == body->n - 1) {
      *result = v;
      *has_result = has_value;
    } else if (fine && has_value && s->expr->kind != AST_IF) {
      ok = elaborator_error(e, s->pos, "the value of this expression is not used");
      const char *name = decremented(s->expr);
      if (name) elaborator_hint(e, "write %.60s = %.60s - 1", name, name);
      else elaborator_hint(e, "give it a name, or make it the last statement of the body");
    }
  }
  return ok && !e->gave_up;
}

// Arguments of what a setting names, such as an optimizer: values with names, defaults and limits.
#include <string.h>

#include "compiler/elaborate_internal.h"

static const char *const option_kinds[] = {"a number", "an integer", "true or false", "text or a list"};

const char *option_kind_name(OptionKind kind) { return option_kinds[kind]; }

static bool has_kind(const Option *o, const Value *v) {
  switch (o->kind) {
  case OPTION_FLAG: return v->kind == VALUE_BOOL;
  case OPTION_OTHER: return v->kind == o->otherwise.kind;
  case OPTION_ANY: return true;
  default: return v->kind == VALUE_INT || (o->kind == OPTION_REAL && v->kind == VALUE_FLOAT);
  }
}

bool option_value(Elaborator *e, const char *of, const Option *o, const CallArg *a, Value *value) {
  const Value *v = &a->value;
  double x = 0;
  // of `clip 1.0` the setting itself
  const char *name = strcmp(of, o->name) == 0 ? elaborator_format(e, "'%s'", of)
                                              : elaborator_format(e, "%s: '%s'", of, o->name);
  *value = *v;
  bool number = o->kind != OPTION_OTHER && o->kind != OPTION_ANY;
  if (!has_kind(o, v) || (number && !value_as_number(v, &x)))
    return elaborator_error(e, a->pos, "%s must be %s, found %s", name, option_kinds[o->kind], value_describe(e, *v));
  if (o->kind == OPTION_REAL) *value = value_float(x);
  if (x >= o->low && x <= o->high) return true;   // which NaN is not
  if (o->high >= OPTION_BIG && x > o->high) return elaborator_error(e, a->pos, "%s is too large: %g", name, x);
  if (o->high >= OPTION_BIG) return elaborator_error(e, a->pos, "%s must be at least %g, found %g", name, o->low, x);
  return elaborator_error(e, a->pos, "%s must be between %g and %g, found %g", name, o->low, o->high, x);
}

static void hint_options(Elaborator *e, const char *of, int n, const Option *options) {
  const char *names = n ? options[0].name : "";
  for (int i = 1; i < n; i++)
    names = elaborator_format(e, "%s%s%s", names, i == n - 1 ? " and " : ", ", options[i].name);
  if (n) elaborator_hint(e, "the arguments of %s are %s", of, names);
  else elaborator_hint(e, "%s has no arguments", of);
}

// The option that an argument names; n after reporting.
static int find_option(Elaborator *e, const char *of, const char *name, AstPos pos, int n, const Option *options) {
  NameSearch nearest = name_search(name);
  for (int i = 0; i < n; i++) {
    if (strcmp(options[i].name, name) == 0) return i;
    name_consider(&nearest, options[i].name);
  }
  elaborator_error(e, pos, "%s has no argument '%s'", of, name);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else hint_options(e, of, n, options);
  return n;
}

bool options_bind(Elaborator *e, AstPos pos, const char *of, int n_args, const CallArg *args, int n,
                  const Option *options, Value *value) {
  bool ok = true, *given = elaborator_alloc(e, sizeof *given * (size_t)(n + 1));
  for (int k = 0, place = 0; k < n_args; k++) {
    if (!args[k].name && place >= n)
      return elaborator_error(e, args[k].pos, "too many arguments to %s, which takes %d", of, n);
    int i = args[k].name ? find_option(e, of, args[k].name, args[k].name_pos, n, options) : place++;
    if (i == n) {
      ok = false;
      continue;
    }
    if (given[i]) {
      ok = elaborator_error(e, args[k].pos, "'%s' is given twice to %s", options[i].name, of);
      continue;
    }
    given[i] = true;
    ok = option_value(e, of, &options[i], &args[k], &value[i]) && ok;
  }
  for (int i = 0; i < n; i++)
    if (!given[i] && value[i].kind == VALUE_NONE && !options[i].computed)
      ok = elaborator_error(e, pos, "%s needs '%s'", of, options[i].name);
  return ok;
}

double option_number(Value v) {
  double x = 0;
  value_as_number(&v, &x);
  return x;
}

// What arguments of these names may be, whatever they are of, unless their signature says otherwise.
static const struct {
  const char *name;
  OptionKind kind;
  double low, high;
} limits[] = {
    {"lr", OPTION_REAL, 0, OPTION_BIG},
    {"momentum", OPTION_REAL, 0, 1},
    {"beta1", OPTION_REAL, 0, 0.9999999},
    {"beta2", OPTION_REAL, 0, 0.9999999},
    {"eps", OPTION_REAL, 0, OPTION_BIG},
    {"weight_decay", OPTION_REAL, 0, OPTION_BIG},
    {"alpha", OPTION_REAL, 0, 0.9999999},
    {"rho", OPTION_REAL, 0, 0.9999999},
    {"warmup", OPTION_COUNT, 0, OPTION_BIG},
    {"decay", OPTION_COUNT, 1, OPTION_BIG},
    {"min", OPTION_REAL, 0, OPTION_BIG},
    {"every", OPTION_COUNT, 1, OPTION_BIG},
    {"T_0", OPTION_COUNT, 1, OPTION_BIG},
    {"T_mult", OPTION_COUNT, 1, OPTION_BIG},
    {"gamma", OPTION_REAL, 0, 1},
    {"pct_start", OPTION_REAL, 0, 1},
};

static bool is_number(const AstParameter *p) {
  return p->kind && (strcmp(p->kind, "float") == 0 || strcmp(p->kind, "number") == 0);
}

// By the signature, or by the default.
static OptionKind kind_of(const AstParameter *p, Value otherwise, bool computed) {
  if (p->kind && strcmp(p->kind, "int") == 0) return OPTION_COUNT;
  if (p->kind && strcmp(p->kind, "bool") == 0) return OPTION_FLAG;
  if (p->kind || p->has_type || computed) return is_number(p) && !computed ? OPTION_REAL : OPTION_ANY;
  switch (otherwise.kind) {
  case VALUE_INT: return OPTION_COUNT;
  case VALUE_BOOL: return OPTION_FLAG;
  case VALUE_FLOAT:
  case VALUE_NONE: return OPTION_REAL;
  default: return OPTION_OTHER;
  }
}

// Where a default is computed: it sees the arguments before it. `broken`: their values are not known here.
static void declare(Elaborator *e, const AstParameter *p, Value value, bool broken) {
  set_variable(e, p->name.text, p->name.pos, value)->broken = broken;
}

static void enter_defaults(Elaborator *e, const AstItem *item, Frame *frame) {
  frame_push(e, frame, item, item->name.pos, path_create(e, ""));
  frame->is_prelude = item->pos.source->is_prelude;
  frame->in_default = true;
}

// The default of p; false after reporting. *computed: it is none, or names an argument whose value is not known here.
static bool eval_constant_default(Elaborator *e, const AstParameter *p, Value *value, bool *computed) {
  int errors = e->n_reported;
  bool ok = eval(e, p->otherwise, value);
  *computed = ok ? value->kind == VALUE_NONE : e->n_reported == errors && !e->gave_up;
  if (!ok) *value = (Value){0};
  return ok || *computed;
}

bool options_of(Elaborator *e, const AstItem *item, int first, int n_given, const char *const *given, int *n,
                Option **options, int **place) {
  Frame frame;
  bool ok = true;
  *n = 0;
  *options = elaborator_alloc(e, sizeof **options * (size_t)(item->n_parameters + 1));
  *place = elaborator_alloc(e, sizeof **place * (size_t)(item->n_parameters + 1));
  enter_defaults(e, item, &frame);
  for (int i = 0; i < item->n_parameters; i++) {
    const AstParameter *p = &item->parameters[i];
    Option option = {.name = p->name.text, .low = -OPTION_BIG, .high = OPTION_BIG};
    bool is_given = i < first;
    for (int k = 0; k < n_given; k++) is_given |= strcmp(given[k], p->name.text) == 0;
    bool known = is_given || !p->otherwise || eval_constant_default(e, p, &option.otherwise, &option.computed);
    declare(e, p, option.otherwise, true);
    ok = known && ok;
    if (is_given || !known) continue;
    option.kind = kind_of(p, option.otherwise, option.computed);
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
      bool open = (is_number(p) || (!p->kind && !p->has_type)) && option.otherwise.kind == VALUE_NONE;
      bool fits = open || option.kind == limits[k].kind || (option.kind == OPTION_COUNT && !p->kind);
      if (strcmp(limits[k].name, option.name) == 0 && fits)
        option.kind = limits[k].kind, option.low = limits[k].low, option.high = limits[k].high;
    }
    (*place)[*n] = i;
    (*options)[(*n)++] = option;
  }
  frame_pop(e);
  return ok;
}

bool options_complete(Elaborator *e, const AstItem *item, int n, const Option *options, const int *place,
                      Value *value) {
  Frame frame;
  bool ok = true;
  enter_defaults(e, item, &frame);
  for (int i = 0, k = 0; i < item->n_parameters; i++) {
    const AstParameter *p = &item->parameters[i];
    bool option = k < n && place[k] == i, of_step = !option || strcmp(p->name.text, "lr") == 0, left = false;
    if (option && options[k].computed && value[k].kind == VALUE_NONE)
      ok = eval_constant_default(e, p, &value[k], &left) && ok;
    declare(e, p, option ? value[k] : (Value){0}, of_step || left);
    k += option;
  }
  frame_pop(e);
  return ok;
}

// --- Lines in branches that are not taken
// ------------------------------------------------------------------------------------

bool option_literal(Elaborator *e, const AstExpr *x, CallArg *arg) {
  Value v;
  *arg = (CallArg){.pos = x->pos};
  switch (x->kind) {
  case AST_INT: v = value_int(x->integer); break;
  case AST_FLOAT: v = value_float(x->number); break;
  case AST_BOOL: v = value_bool(x->boolean); break;
  case AST_STRING: v = value_string(x->text); break;
  case AST_UNARY: {
    CallArg inner;
    if (!option_literal(e, x->unary.x, &inner) || !value_unary(e, x->pos, x->unary.op, inner.value, &v)) return false;
    break;
  }
  default: return false;
  }
  arg->value = v;
  return true;
}

void options_check(Elaborator *e, AstPos pos, const char *of, int n_args, const AstArg *args, int n,
                   const Option *options) {
  bool *given = elaborator_alloc(e, sizeof *given * (size_t)(n + 1));
  Value ignored;
  for (int k = 0, place = 0; k < n_args; k++) {
    CallArg arg;
    int i = args[k].name.text ? find_option(e, of, args[k].name.text, args[k].name.pos, n, options) : place++;
    if (i >= n) {
      if (!args[k].name.text)
        elaborator_error(e, args[k].value->pos, "too many arguments to %s, which takes %d", of, n);
      continue;
    }
    if (given[i]) elaborator_error(e, args[k].value->pos, "'%s' is given twice to %s", options[i].name, of);
    given[i] = true;
    if (option_literal(e, args[k].value, &arg)) option_value(e, of, &options[i], &arg, &ignored);
  }
  for (int i = 0; i < n; i++)
    if (!given[i] && options[i].otherwise.kind == VALUE_NONE && !options[i].computed)
      elaborator_error(e, pos, "%s needs '%s'", of, options[i].name);
}

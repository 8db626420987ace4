// The shapes in signatures: dimensions that an argument binds, or that follow from one by arithmetic ([N, 2*C] of 6
// columns makes C 3), those that it must have, and the conversion of element types.
#include <string.h>

#include "compiler/elaborate_internal.h"
#include "compiler/kinds.h"

static Variable *find_dim(Elaborator *e, const AstExpr *x) {
  return x->kind == AST_NAME ? visible_variable(e, x->text) : NULL;
}

// "[N=8, C, 28]": what the signature asks for, as far as it is known.
static const char *describe_expected(Elaborator *e, const AstType *t) {
  const char *text = elaborator_format(e, "%s[", t->dtype ? t->dtype : "");
  for (int i = 0; i < t->n_dims; i++) {
    const AstExpr *x = t->dims[i];
    Variable *v = find_dim(e, x);
    const char *dim = x->kind == AST_NAME  ? x->text
                      : x->kind == AST_INT ? elaborator_format(e, "%lld", (long long)x->integer)
                                           : "…";
    if (v && v->value.kind == VALUE_INT) dim = elaborator_format(e, "%s=%lld", dim, (long long)v->value.i);
    text = elaborator_format(e, "%s%s%s%s", text, i ? ", " : "", t->has_rest && t->rest == i ? "..., " : "", dim);
  }
  bool ends = t->has_rest && t->rest == t->n_dims;
  return elaborator_format(e, "%s%s%s]", text, ends && t->n_dims ? ", " : "", ends ? "..." : "");
}

// Mistakes in an argument are the caller's: they are reported outside the block that is being entered.
static void argument_error(Elaborator *e, const AstItem *b, const AstParameter *p, AstPos pos, const char *expected,
                           Value found, const char *detail) {
  Frame *inner = e->frame;
  e->frame = inner->caller;
  elaborator_error(e, pos, "'%s' of '%s' must be %s, found %s%s", p->name.text, b->name.text, expected,
                   value_describe(e, found), detail);
  e->frame = inner;
}

// --- Axes

// Names in x that stand for no value yet; the last one found goes to *name.
static int count_unknown(Elaborator *e, const AstExpr *x, const AstExpr **name) {
  switch (x->kind) {
  case AST_NAME:
    if (find_dim(e, x)) return 0;
    *name = x;
    return 1;
  case AST_UNARY: return count_unknown(e, x->unary.x, name);
  case AST_BINARY: return count_unknown(e, x->binary.x, name) + count_unknown(e, x->binary.y, name);
  default: return 0;
  }
}

static bool is_op(const AstExpr *x, const char *op) { return x->kind == AST_BINARY && strcmp(x->binary.op, op) == 0; }

// Sums, differences and products tell the one unknown name in them from the size of the axis; a quotient, which is
// rounded, does not.
static bool can_solve(Elaborator *e, const AstExpr *x) {
  const AstExpr *name;
  if (x->kind == AST_NAME) return true;
  if (!is_op(x, "+") && !is_op(x, "-") && !is_op(x, "*")) return false;
  return can_solve(e, count_unknown(e, x->binary.x, &name) ? x->binary.x : x->binary.y);
}

// x = size for the unknown name in x. *value is at least 1, or 0 where no dimension fits. False after reporting.
static bool solve(Elaborator *e, const AstExpr *x, int64_t size, int64_t *value) {
  const AstExpr *name;
  int64_t known;
  *value = size > 0 ? size : 0;
  if (x->kind == AST_NAME || size <= -NN_MAX_ELEMENTS || size > NN_MAX_ELEMENTS) return true;
  bool left = count_unknown(e, x->binary.x, &name) > 0;
  if (!eval_int(e, left ? x->binary.y : x->binary.x, "a dimension", &known)) return false;
  *value = 0;
  if (known > NN_MAX_ELEMENTS || known < -NN_MAX_ELEMENTS) return true;
  if (is_op(x, "*") && (known == 0 || size % known)) return true;
  int64_t rest = is_op(x, "+") ? size - known : is_op(x, "*") ? size / known : left ? size + known : known - size;
  return solve(e, left ? x->binary.x : x->binary.y, rest, value);
}

// The axis of a tensor that dimension i is.
static int axis_of(const AstType *t, int i, int rank) { return t->has_rest && i >= t->rest ? rank - t->n_dims + i : i; }

// A dimension that the axis tells: its name, or arithmetic with one unknown name. *bound: it did.
static bool bind_unknown(Elaborator *e, const AstItem *b, const AstParameter *p, const CallArg *arg, const AstExpr *x,
                         int axis, int64_t size, bool *bound) {
  const AstExpr *name;
  int64_t value;
  *bound = count_unknown(e, x, &name) == 1 && can_solve(e, x);
  if (!*bound) return true;
  if (!solve(e, x, size, &value)) return false;
  if (value < 1) {
    argument_error(e, b, p, arg->pos, describe_expected(e, &p->type), arg->value,
                   elaborator_format(e, ": axis %d is %lld, which no '%s' gives", axis, (long long)size, name->text));
    elaborator_note(e, x->pos, "expected here");
    return false;
  }
  Variable *v = set_variable(e, name->text, arg->pos, value_int(value));
  v->is_dim = true;
  v->origin = elaborator_format(e, "axis %d of '%s'", axis, p->name.text);
  return true;
}

static void note_origin(Elaborator *e, const Variable *v, const char *what) {
  elaborator_note(e, v->pos, "%s comes from %s", what, v->origin ? v->origin : "here");
}

static bool check_axis(Elaborator *e, const AstItem *b, const AstParameter *p, const CallArg *arg, const AstExpr *x,
                       int axis, int64_t size) {
  Variable *v = find_dim(e, x);
  int64_t expected;
  if (!eval_int(e, x, "a dimension", &expected)) return false;
  if (expected == size) return true;
  const char *name = x->kind == AST_NAME ? elaborator_format(e, "%s = %lld", x->text, (long long)expected)
                                         : elaborator_format(e, "%lld", (long long)expected);
  argument_error(e, b, p, arg->pos, describe_expected(e, &p->type), arg->value,
                 elaborator_format(e, ": axis %d is %lld, not %s", axis, (long long)size, name));
  if (v) note_origin(e, v, name);
  else elaborator_note(e, x->pos, "expected here");
  return false;
}

// The named dimension of this size, of the block if it has one, else of the file; NULL where there is none, or several.
// A size of 1 has no name: any axis may have it.
static const Variable *dim_of_size(const Elaborator *e, int64_t size) {
  const Variable *found = NULL;
  const Frame *frames[] = {e->frame, e->frame == e->globals ? NULL : e->globals};
  for (int f = 0; f < 2 && frames[f] && !found && size > 1; f++)
    for (int i = 0; i < frames[f]->n; i++) {
      const Variable *v = &frames[f]->variables[i];
      if (!v->is_dim || v->value.kind != VALUE_INT || v->value.i != size) continue;
      if (found) return NULL;
      found = v;
    }
  return found;
}

// "f32[N=8, 4]"
static const char *describe_shape(Elaborator *e, const NnType *t) {
  const char *text = elaborator_format(e, "%s[", nn_dtype_name(t->dtype));
  for (int i = 0; i < t->rank; i++) {
    const Variable *v = dim_of_size(e, t->dim[i]);
    text = elaborator_format(e, "%s%s%s%s%lld", text, i ? ", " : "", v ? v->name : "", v ? "=" : "",
                             (long long)t->dim[i]);
  }
  return t->rank ? elaborator_format(e, "%s]", text) : nn_dtype_name(t->dtype);
}

bool shapes_do_not_fit(Elaborator *e, AstPos pos, const char *operator, const NnType * x, const NnType *y) {
  bool fit = true;   // but for the number of elements
  for (int i = 1; i <= x->rank && i <= y->rank; i++) {
    int64_t a = x->dim[x->rank - i], b = y->dim[y->rank - i];
    fit = fit && (a == b || a == 1 || b == 1);
  }
  if (fit)
    return elaborator_error(e, pos, "%s %s %s would have more than 2^40 elements", describe_shape(e, x), operator,
                            describe_shape(e, y));
  elaborator_error(e, pos, "shapes do not fit: %s %s %s", describe_shape(e, x), operator, describe_shape(e, y));
  elaborator_hint(e, "axes align from the right; sizes must be equal or 1");
  for (int i = 1; i <= x->rank && i <= y->rank; i++) {
    int64_t size[2] = {x->dim[x->rank - i], y->dim[y->rank - i]};
    for (int s = 0; s < 2 && size[0] != size[1] && size[0] != 1 && size[1] != 1; s++) {
      const Variable *v = dim_of_size(e, size[s]);
      if (v) note_origin(e, v, elaborator_format(e, "%s = %lld", v->name, (long long)size[s]));
    }
  }
  return false;
}

// Unknown dimensions first, wherever they stand and for as long as one tells another; then all others, which may use
// them.
static bool bind_axes(Elaborator *e, const AstItem *b, const AstParameter *p, const CallArg *arg, const NnType *type) {
  const AstType *t = &p->type;
  bool bound[NN_MAX_RANK] = {false};
  for (bool any = true; any;) {
    any = false;
    for (int i = 0; i < t->n_dims; i++) {
      if (bound[i]) continue;
      int axis = axis_of(t, i, type->rank);
      if (!bind_unknown(e, b, p, arg, t->dims[i], axis, type->dim[axis], &bound[i])) return false;
      any |= bound[i];
    }
  }
  for (int i = 0; i < t->n_dims; i++) {
    int axis = axis_of(t, i, type->rank);
    if (!bound[i] && !check_axis(e, b, p, arg, t->dims[i], axis, type->dim[axis])) return false;
  }
  return true;
}

// --- Element types

// Integers become floats, or integers of another width, where the signature says so; nothing loses a fraction silently.
static bool convert_dtype(Elaborator *e, const AstItem *b, const AstParameter *p, const CallArg *arg, MlirValue *v) {
  NnDtype wanted, found = nn_value_dtype(*v);
  if (!p->type.dtype) return true;
  if (!type_dtype(e, &p->type, &wanted)) return false;
  if (wanted == found || (wanted == e->dtype && found == e->frame->precision)) return true;
  if (nn_dtype_is_float(found) && !nn_dtype_is_float(wanted)) {
    argument_error(e, b, p, arg->pos, describe_expected(e, &p->type), arg->value, "");
    elaborator_hint(e, "cast(x, \"%s\") drops the fraction", nn_dtype_name(wanted));
    return false;
  }
  if (nn_dtype_is_float(found)) {
    argument_error(e, b, p, arg->pos, describe_expected(e, &p->type), value_tensor(*v), "");
    elaborator_hint(e, "'%s' computes in %s; cast(x, \"%s\") changes the type", b->name.text,
                    nn_dtype_name(e->frame->precision), nn_dtype_name(wanted));
    return false;
  }
  elaborator_builder(e)->loc = location_of(e, arg->pos);
  *v = nn_cast(elaborator_builder(e), *v, wanted);
  return true;
}

bool signature_bind(Elaborator *e, const AstItem *b, const AstParameter *p, const CallArg *arg, Value *value) {
  const AstType *t = &p->type;
  double number;
  NnDtype dtype;
  bool optional = p->otherwise && p->otherwise->kind == AST_NAME && strcmp(p->otherwise->text, "none") == 0;
  if (value->kind == VALUE_NONE && optional) return true;
  const char *expected = p->kind ? kind_convert(p->kind, value) : NULL;
  if (expected) argument_error(e, b, p, arg->pos, expected, *value, "");
  if (p->kind) return !expected;
  if (t->n_dims == 0 && value_as_number(value, &number) && type_dtype(e, t, &dtype))
    *value = value_tensor(nn_constant(elaborator_builder(e), nn_scalar(dtype), number));
  if (value->kind != VALUE_TENSOR) {
    argument_error(e, b, p, arg->pos, elaborator_format(e, "a tensor %s", describe_expected(e, t)), *value, "");
    return false;
  }
  NnType type = nn_value_type(value->tensor);
  if (t->has_rest ? type.rank < t->n_dims : type.rank != t->n_dims) {
    argument_error(e, b, p, arg->pos, describe_expected(e, t), *value,
                   elaborator_format(e, ": %d axes, not %s%d", type.rank, t->has_rest ? "at least " : "", t->n_dims));
    elaborator_note(e, t->pos, "declared here");
    return false;
  }
  return bind_axes(e, b, p, arg, &type) && convert_dtype(e, b, p, arg, &value->tensor);
}

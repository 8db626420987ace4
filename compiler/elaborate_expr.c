// Evaluation of expressions: compile-time numbers, lists and strings, and tensors as operations of the function being
// built. Every function here returns false after reporting (or silently where a value that was reported before is used
// again).
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "compiler/elaborate_internal.h"
#include "compiler/elsewhere.h"
#include "compiler/kinds.h"

static void set_location(Elaborator *e, AstPos pos) { elaborator_builder(e)->loc = location_of(e, pos); }

// --- Names

// A dim or let below its use, or one that is missing where only such can stand.
static void hint_declaration(Elaborator *e, const char *name) {
  for (int i = 0; i < e->file->n_items; i++) {
    const AstItem *item = e->file->items[i];
    if ((item->kind != AST_DIM && item->kind != AST_LET) || strcmp(item->name.text, name) != 0) continue;
    elaborator_note(e, item->name.pos, "'%s' is declared here, below its use", name);
    return;
  }
  if (isupper((unsigned char)name[0]) && !name[1])
    elaborator_hint(e, "a size is declared with 'dim %s = …' above, or bound by the signature of a block", name);
}

static void hint_name(Elaborator *e, const char *name) {
  NameSearch nearest = name_search(name);
  for (int i = 0; i < e->frame->n; i++) name_consider(&nearest, e->frame->variables[i].name);
  for (int i = 0; i < e->globals->n; i++) name_consider(&nearest, e->globals->variables[i].name);
  if (find_block(e, name) || function_find(e, name))
    elaborator_hint(e, "'%s' is a function: call it as %s(…)", name, name);
  else if (elsewhere_word(name)) elaborator_hint(e, "%s", elsewhere_word(name));
  else if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else hint_declaration(e, name);
}

const LayerInfo *function_find(const Elaborator *e, const char *name) {
  return *name == '_' && !e->frame->is_prelude ? NULL : layer_find(name);
}

// zeros, ones: functions that are called without parentheses.
static const LayerInfo *constant_find(const char *name) {
  const LayerInfo *info = layer_find(name);
  return info && info->signature[0] == 0 ? info : NULL;
}

bool name_is_known(Elaborator *e, const char *name) { return visible_variable(e, name) || constant_find(name); }

bool report_unknown_name(Elaborator *e, const AstExpr *x) {
  const AstItem *b = e->frame->in_default ? e->frame->block : NULL;
  bool behind = false;
  for (int i = 0; b && i < b->n_parameters; i++) behind |= strcmp(b->parameters[i].name.text, x->text) == 0;
  elaborator_error(e, x->pos, "unknown name '%s'", x->text);
  if (behind) elaborator_hint(e, "a default sees the arguments before it, not those behind it");
  else hint_name(e, x->text);
  return false;
}

static bool eval_name(Elaborator *e, const AstExpr *x, Value *result) {
  Variable *v = visible_variable(e, x->text);
  const LayerInfo *constant = v ? NULL : constant_find(x->text);
  if (constant) return layer_call(e, constant, x->pos, 0, NULL, result);
  if (!v) return report_unknown_name(e, x);
  *result = v->value;
  return !v->broken;
}

// --- Calls

bool eval_args(Elaborator *e, int n, const AstArg *from, CallArg *args) {
  bool ok = true;
  for (int i = 0; i < n; i++) {
    const AstArg *a = &from[i];
    args[i] = (CallArg){.name = a->name.text, .pos = a->value->pos, .name_pos = a->name.pos};
    ok = eval(e, a->value, &args[i].value) && ok;
    if (i && !a->name.text && from[i - 1].name.text)
      ok = elaborator_error(e, a->value->pos, "arguments by position come before those by name");
  }
  return ok;
}

void report_unknown_function(Elaborator *e, const AstExpr *x) {
  NameSearch nearest = name_search(x->call.callee);
  for (int i = 0; i < e->file->n_items; i++)
    if (e->file->items[i]->parameters || e->file->items[i]->kind == AST_BLOCK)
      name_consider(&nearest, e->file->items[i]->name.text);
  for (int i = 0; i < layer_count(); i++) name_consider(&nearest, layer_at(i)->name);
  if (visible_variable(e, x->call.callee)) {
    elaborator_error(e, x->pos, "'%s' is a value: only blocks and functions can be called", x->call.callee);
    elaborator_hint(e, "an element is %s[i], a product %s * y", x->call.callee, x->call.callee);
    return;
  }
  elaborator_error(e, x->pos, "unknown function '%s'", x->call.callee);
  const char *own = elsewhere_function(x->call.callee);
  bool same = nearest.best && strcasecmp(nearest.best, x->call.callee) == 0;   // Linear
  if (own && !same) elaborator_hint(e, "%s", own);
  else if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else
    elaborator_hint(e, "blocks are declared with 'block %s(…) { … }'; nnc --list-ops shows the built-in functions",
                    x->call.callee);
}

static bool takes_tensor_first(const LayerInfo *info) {
  const char *kind = strchr(info->signature, ':');
  return kind && (strncmp(kind, ":tensor", 7) == 0 || strncmp(kind, ":numeric", 8) == 0);
}

// A function of one tensor goes over a list: `split(3) |> relu` is a list of three. Not where it makes parameters:
// which would be shared?
static bool map_layer(Elaborator *e, const LayerInfo *info, AstPos pos, int n, CallArg *args, Value *result) {
  Value list = args[0].value;
  if (n == 0 || args[0].name || list.kind != VALUE_LIST || info->has_parameters || !takes_tensor_first(info))
    return layer_call(e, info, pos, n, args, result);
  Value *items = elaborator_alloc(e, sizeof *items * (size_t)(list.list.n + 1));
  bool ok = true;
  for (int i = 0; ok && i < list.list.n; i++) {
    args[0].value = list.list.items[i];
    ok = layer_call(e, info, pos, n, args, &items[i]);
  }
  args[0].value = list;
  *result = (Value){.kind = VALUE_LIST, .list = {items, list.list.n}};
  return ok;
}

static bool call_layer(Elaborator *e, const LayerInfo *info, AstPos pos, const AstName *label, int n, CallArg *args,
                       Value *result) {
  const char *outer = e->layer_path;
  if (label->text && !info->has_parameters)
    return elaborator_error(e, label->pos, "%s makes no parameters that 'as' could name", info->name);
  const Path *path = info->has_parameters ? path_of_label(e, label, info->name) : NULL;
  if (info->has_parameters && !path) return false;
  if (path) e->layer_path = path->text;
  set_location(e, pos);
  bool ok = map_layer(e, info, pos, n, args, result);
  e->layer_path = outer;
  return ok && function_count_ops(e, pos);
}

const char *model_named(const Elaborator *e, const AstExpr *call) {
  if (strcmp(call->call.callee, "parameters") != 0 || call->call.n_args != 1) return NULL;
  const AstExpr *x = call->call.args[0].value;
  return x->kind == AST_NAME && find_block(e, x->text) ? x->text : NULL;
}

static bool eval_call(Elaborator *e, const AstExpr *x, Value *result) {
  const AstItem *block = find_block(e, x->call.callee);
  const LayerInfo *layer = block ? NULL : function_find(e, x->call.callee);
  int n = x->call.n_args;
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(n + 1));
  const char *model = block ? NULL : model_named(e, x);
  bool ok = model || eval_args(e, n, x->call.args, args);
  if (model) args[0] = (CallArg){.value = value_string(model), .pos = x->call.args[0].value->pos};
  if (!block && !layer) {
    report_unknown_function(e, x);
    return false;
  }
  if (!ok) return false;
  return block ? call_block(e, block, x->pos, &x->call.label, n, args, result)
               : call_layer(e, layer, x->pos, &x->call.label, n, args, result);
}

// --- Subscripts

static bool part_or(Elaborator *e, const AstExpr *x, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  return !x || eval_int(e, x, "an index", out);
}

static bool index_list(Elaborator *e, const AstExpr *x, Value list, Value *result) {
  const AstSlice *s = &x->index.slices[0];
  int64_t n = list.list.n, start, stop;
  if (x->index.n != 1) return elaborator_error(e, x->pos, "a list has one axis, found %d indices", x->index.n);
  if (s->is_rest) return elaborator_error(e, s->pos, "a list has one axis: '...' stands for those of a tensor");
  if (s->is_index) {
    if (!s->start || !eval_int(e, s->start, "an index", &start)) return false;
    if (start < -n || start >= n)
      return elaborator_error(e, s->pos, "index %lld is outside a list of %lld", (long long)start, (long long)n);
    *result = list.list.items[start < 0 ? start + n : start];
    return true;
  }
  if (s->step) return elaborator_error(e, s->pos, "lists are sliced without a step");
  if (!part_or(e, s->start, 0, &start) || !part_or(e, s->stop, n, &stop)) return false;
  if (start < 0) start += n;
  if (stop < 0) stop += n;
  if (start < 0 || stop > n || start > stop)
    return elaborator_error(e, s->pos, "slice %lld:%lld is outside a list of %lld", (long long)start, (long long)stop,
                            (long long)n);
  *result = (Value){.kind = VALUE_LIST, .list = {list.list.items + start, (int)(stop - start)}};
  return true;
}

static bool index_tensor(Elaborator *e, const AstExpr *x, MlirValue v, Value *result) {
  NnType t = nn_value_type(v);
  int64_t start[NN_MAX_RANK], stop[NN_MAX_RANK], step[NN_MAX_RANK];
  bool drop[NN_MAX_RANK];
  int rests = 0, n_indices = 0;
  const AstSlice whole = {.pos = x->pos}, *slices[NN_MAX_RANK];
  for (int i = 0; i < x->index.n; i++) rests += x->index.slices[i].is_rest;
  if (rests > 1) return elaborator_error(e, x->pos, "'...' can stand once in an index");
  if (x->index.n - rests > t.rank)
    return elaborator_error(e, x->pos, "%d indices for %s", x->index.n - rests, value_describe(e, value_tensor(v)));
  for (int i = 0; i < x->index.n; i++) {
    bool rest = x->index.slices[i].is_rest;
    for (int k = rest ? t.rank - x->index.n + 1 : 1; k > 0; k--)
      slices[n_indices++] = rest ? &whole : &x->index.slices[i];
  }
  for (int i = 0; i < n_indices; i++) {
    const AstSlice *s = slices[i];
    int64_t n = t.dim[i];
    drop[i] = s->is_index;
    if (!part_or(e, s->step, 1, &step[i])) return false;
    bool back = step[i] < 0;
    if (!part_or(e, s->start, back ? n - 1 : 0, &start[i]) || !part_or(e, s->stop, back ? -1 : n, &stop[i]))
      return false;
    if (start[i] < 0) start[i] += n;
    if (stop[i] < 0 && s->stop) stop[i] += n;
    if (drop[i]) {
      if (start[i] < 0 || start[i] >= n)
        return elaborator_error(e, s->pos, "index %lld is outside axis %d of %s",
                                (long long)(start[i] < 0 ? start[i] - n : start[i]), i,
                                value_describe(e, value_tensor(v)));
      stop[i] = start[i] + 1;
    }
  }
  set_location(e, x->pos);
  return value_slice(e, x->pos, v, n_indices, start, stop, step, drop, result) && function_count_ops(e, x->pos);
}

// zeros[N, H], ones[N, H]: a tensor of one value.
static bool full_tensor(Elaborator *e, const AstExpr *x, double value, Value *result) {
  NnType t = nn_scalar(elaborator_dtype(e));
  if (x->index.n > NN_MAX_RANK)
    return elaborator_error(e, x->pos, "a tensor has at most %d axes, found %d", NN_MAX_RANK, x->index.n);
  for (int i = 0; i < x->index.n; i++) {
    const AstSlice *s = &x->index.slices[i];
    if (!s->is_index) return elaborator_error(e, s->pos, "expected a size");
    if (!eval_int(e, s->start, "a size", &t.dim[i])) return false;
    if (t.dim[i] < 1) return elaborator_error(e, s->pos, "a size must be positive, found %lld", (long long)t.dim[i]);
  }
  t.rank = x->index.n;
  if (!nn_type_is_representable(&t)) return elaborator_error(e, x->pos, "a tensor has at most 2^40 elements");
  set_location(e, x->pos);
  *result = value_tensor(nn_constant(elaborator_builder(e), t, value));
  return true;
}

static bool eval_index(Elaborator *e, const AstExpr *x, Value *result) {
  Value v;
  if (!eval(e, x->index.x, &v)) return false;
  if (v.kind == VALUE_LIST) return index_list(e, x, v, result);
  if (v.kind == VALUE_TENSOR) return index_tensor(e, x, v.tensor, result);
  if (v.kind == VALUE_INIT && (strcmp(v.s, "zeros") == 0 || strcmp(v.s, "ones") == 0))
    return full_tensor(e, x, v.s[0] == 'o', result);
  return elaborator_error(e, x->pos, "only lists and tensors can be indexed, found %s", value_describe(e, v));
}

// --- Operators

static bool eval_binary(Elaborator *e, const AstExpr *x, Value *result) {
  Value left, right;
  bool ok = eval(e, x->binary.x, &left);
  bool is_and = strcmp(x->binary.op, "and") == 0, is_or = strcmp(x->binary.op, "or") == 0;
  if (ok && left.kind == VALUE_BOOL && ((is_and && !left.b) || (is_or && left.b))) {
    *result = left;
    return true;
  }
  ok = eval(e, x->binary.y, &right) && ok;
  if (!ok) return false;
  set_location(e, x->pos);
  return value_binary(e, x->pos, x->binary.op, left, right, result) && function_count_ops(e, x->pos);
}

static bool eval_items(Elaborator *e, const AstExpr *x, Value *result) {
  Value *items = elaborator_alloc(e, sizeof *items * (size_t)(x->list.n + 1));
  bool ok = true;
  for (int i = 0; i < x->list.n; i++) ok = eval(e, x->list.items[i], &items[i]) && ok;
  *result = (Value){.kind = VALUE_LIST, .list = {items, x->list.n}};
  return ok;
}

bool eval_condition(Elaborator *e, const AstExpr *x, bool *result) {
  Value v;
  if (!eval(e, x, &v)) return false;
  if (v.kind != VALUE_BOOL) {
    elaborator_error(e, x->pos, "a condition must be true or false at compile time, found %s", value_describe(e, v));
    if (v.kind == VALUE_TENSOR) elaborator_hint(e, "where(condition, x, y) chooses element by element");
    return false;
  }
  *result = v.b;
  return true;
}

bool eval_int(Elaborator *e, const AstExpr *x, const char *what, int64_t *result) {
  Value v;
  if (!eval(e, x, &v)) return false;
  if (kind_convert("int", &v))
    return elaborator_error(e, x->pos, "%s must be an integer, found %s", what, value_describe(e, v));
  *result = v.i;
  return true;
}

// An if is an expression when its branches end in one. A branch that is not taken is not executed.
bool eval_if(Elaborator *e, const AstExpr *x, Value *result, bool *has_result) {
  bool yes;
  *has_result = false;
  if (eval_condition(e, x->if_.condition, &yes))
    return exec_body(e, yes ? &x->if_.then : &x->if_.otherwise, result, has_result);
  break_body(e, &x->if_.then);
  break_body(e, &x->if_.otherwise);
  return false;
}

bool eval(Elaborator *e, const AstExpr *x, Value *result) {
  *result = (Value){0};
  if (!elaborator_stack_ok(e, x->pos) || !function_charge(e, x->pos)) return false;
  switch (x->kind) {
  case AST_INT: *result = value_int(x->integer); return true;
  case AST_FLOAT: *result = value_float(x->number); return true;
  case AST_STRING: *result = value_string(x->text); return true;
  case AST_BOOL: *result = value_bool(x->boolean); return true;
  case AST_NAME: return eval_name(e, x, result);
  case AST_CALL: return eval_call(e, x, result);
  case AST_LIST:
  case AST_TUPLE: return eval_items(e, x, result);
  case AST_INDEX: return eval_index(e, x, result);
  case AST_BINARY: return eval_binary(e, x, result);
  case AST_UNARY: {
    Value v;
    if (!eval(e, x->unary.x, &v)) return false;
    set_location(e, x->pos);
    return value_unary(e, x->pos, x->unary.op, v, result) && function_count_ops(e, x->pos);
  }
  case AST_IF: {
    bool has_result;
    if (!eval_if(e, x, result, &has_result)) return false;
    return has_result ||
           elaborator_error(
               e, x->pos, "this 'if' has no value: its branches must end in an expression, and there must be an else");
  }
  case AST_SCAN: return eval_scan(e, x, result);
  case AST_RANGE: return elaborator_error(e, x->pos, "a range can only stand in 'for'");
  }
  return false;
}

// --- Types

bool type_dtype(Elaborator *e, const AstType *t, NnDtype *result) {
  *result = e->dtype;
  if (!t->dtype) return true;
  if (!nn_dtype_parse(t->dtype, result)) {
    elaborator_error(e, t->pos, "unknown element type '%s'", t->dtype);
    elaborator_hint(e, "the element types are f32, f64, bf16, f16, i32, i64 and u8");
    return false;
  }
  *result = elaborator_element_type(e, *result);
  return true;
}

static bool add_dimension(Elaborator *e, const AstType *t, const AstExpr *x, Value size, NnType *type) {
  if (kind_convert("int", &size))
    return elaborator_error(e, x->pos, "a dimension must be an integer, found %s", value_describe(e, size));
  if (size.i < 1) return elaborator_error(e, x->pos, "a dimension must be positive, found %lld", (long long)size.i);
  if (type->rank == NN_MAX_RANK) {
    return elaborator_error(e, t->pos, "a tensor has at most %d axes, found %d", NN_MAX_RANK,
                            t->n_dims > NN_MAX_RANK ? t->n_dims : NN_MAX_RANK + 1);
  }
  type->dim[type->rank++] = size.i;
  return true;
}

bool eval_type(Elaborator *e, const AstType *t, NnType *result) {
  NnDtype dtype;
  if (!type_dtype(e, t, &dtype)) return false;
  if (t->has_rest) return elaborator_error(e, t->pos, "'...' takes its axes from an argument; here all must be given");
  *result = nn_scalar(dtype);
  for (int i = 0; i < t->n_dims; i++) {
    Value v;
    if (!eval(e, t->dims[i], &v)) return false;
    bool several = v.kind == VALUE_LIST;   // f32[dims(x)]
    for (int k = 0; k < (several ? v.list.n : 1); k++)
      if (!add_dimension(e, t, t->dims[i], several ? v.list.items[k] : v, result)) return false;
  }
  return nn_type_is_representable(result) || elaborator_error(e, t->pos, "a tensor has at most 2^40 elements");
}

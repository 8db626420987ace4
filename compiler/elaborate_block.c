// Calls of blocks and models: arguments, parameter names, and the sharing of a model's
// computation between calls with the same arguments (the loss and a metric).
#include <stdio.h>
#include <string.h>

#include "compiler/elaborate_internal.h"

// --- Variables

Variable *find_variable(Frame *f, const char *name) {
  for (int i = f->n - 1; i >= 0 && f->n <= FEW_VARIABLES; i--)
    if (strcmp(f->variables[i].name, name) == 0) return &f->variables[i];
  int place = f->n > FEW_VARIABLES ? name_table_get(&f->places, name) : -1;
  bool current = place >= 0 && place < f->n && strcmp(f->variables[place].name, name) == 0;
  return current ? &f->variables[place] : NULL;
}

Variable *visible_variable(const Elaborator *e, const char *name) {
  Variable *v = find_variable(e->frame, name);
  return v || e->frame->is_prelude ? v : find_variable(e->globals, name);
}

Variable *set_variable(Elaborator *e, const char *name, AstPos pos, Value value) {
  Frame *f = e->frame;
  Variable *v = find_variable(f, name), fresh = {.name = name, .value = value, .pos = pos};
  if (v) {
    *v = fresh;
    return v;
  }
  PUSH(e, f->variables, f->n, f->capacity, fresh);
  int first = f->n == FEW_VARIABLES + 1 ? 0 : f->n - 1;
  for (int i = first; i < f->n && f->n > FEW_VARIABLES; i++)
    name_table_set(e->pool, &f->places, f->variables[i].name, i);
  return &f->variables[f->n - 1];
}

void frame_push(Elaborator *e, Frame *f, const AstItem *block, AstPos pos, Path *path) {
  *f = (Frame){.caller = e->frame,
               .block = block,
               .call_pos = pos,
               .depth = e->frame->depth + 1,
               .path = path,
               .body = path,
               .precision = e->frame->precision};
  e->frame = f;
}

void frame_pop(Elaborator *e) { e->frame = e->frame->caller; }

// --- Parameter names

const char *path_join(Elaborator *e, const char *parent, const char *name) {
  return parent && parent[0] ? elaborator_format(e, "%s.%s", parent, name) : name;
}

Path *path_create(Elaborator *e, const char *text) {
  Path *p = elaborator_alloc(e, sizeof *p);
  p->text = text;
  return p;
}

static void path_add(Elaborator *e, Path *p, PathName name) {
  name_table_set(e->pool, &p->places, name.name, p->n);
  PUSH(e, p->names, p->n, p->capacity, name);
}

Path *path_copy(Elaborator *e, const Path *of) {
  Path *p = path_create(e, of->text);
  for (int i = 0; i < of->n; i++) path_add(e, p, of->names[i]);
  return p;
}

static PathName *path_find(Path *p, const char *name) {
  int place = name_table_get(&p->places, name);
  return place < 0 ? NULL : &p->names[place];
}

bool path_declare(Elaborator *e, Path *p, const char *name) {
  PathName *known = path_find(p, name);
  if (known && known->declared) return false;
  if (known) known->declared = true;
  else path_add(e, p, (PathName){.name = name, .count = 1, .declared = true});
  return true;
}

// A name that was given is taken as it is, so that giving it twice shares the parameters; others are made distinct with
// _2, _3, …
Path *path_enter(Elaborator *e, Path *parent, const char *name, bool explicit_name) {
  PathName *known = path_find(parent, name);
  if (!known) {
    path_add(e, parent, (PathName){.name = name, .count = 1, .automatic = !explicit_name});
  } else if (!explicit_name) {
    const char *base = name;
    do name = elaborator_format(e, "%s_%d", base, ++known->count);
    while (path_find(parent, name));
    path_add(e, parent, (PathName){.name = name, .count = 1, .automatic = true});
  }
  return path_create(e, path_join(e, parent->text, name));
}

// "layer1.{i}" with the integers that its names in braces have; NULL: reported.
static const char *expand_path(Elaborator *e, const AstName *label) {
  const char *text = "";
  for (const char *s = label->text; *s;) {
    const char *open = strchr(s, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!open) return elaborator_format(e, "%s%s", text, s);
    const char *name = elaborator_format(e, "%.*s", close ? (int)(close - open - 1) : 0, open + 1);
    const Variable *v = close ? find_variable(e->frame, name) : NULL;
    if (v && v->broken) return NULL;
    if (!v || v->value.kind != VALUE_INT) {
      elaborator_error(e, label->pos, "'{%s}' in a path must be an integer that has a name here%s%s", name,
                       v ? ", it is " : "", v ? value_describe(e, v->value) : "");
      elaborator_hint(e, "for i in 0..n { x = f(x) as \"layers.{i}\" }");
      return NULL;
    }
    text = elaborator_format(e, "%s%.*s%lld", text, (int)(open - s), s, (long long)v->value.i);
    s = close + 1;
  }
  return text;
}

// Dots divide names that are not empty.
static bool is_path(const char *text) {
  size_t n = strlen(text);
  return n > 0 && text[0] != '.' && text[n - 1] != '.' && !strstr(text, "..");
}

// Where the parameters of a call lie: below the loops around it, or with a path in quotes below the block it stands in.
Path *path_of_label(Elaborator *e, const AstName *label, const char *otherwise) {
  if (!label->is_path) return path_enter(e, e->frame->path, label->text ? label->text : otherwise, label->text != NULL);
  const char *text = expand_path(e, label);
  if (text && !is_path(text)) {
    elaborator_error(e, label->pos, "\"%s\" is not a path of names with dots between them", text);
    return NULL;
  }
  return text ? path_enter(e, e->frame->body, text, true) : NULL;
}

// --- Arguments

typedef struct Call {
  const AstItem *block;
  AstPos pos;
  const CallArg **bound;       // one per parameter, NULL: default
  const CallArg *parameters;   // of a model, what stands in the place of its parameters; NULL: nothing
} Call;

static bool bind_arguments(Elaborator *e, Call *c, int n, const CallArg *args) {
  const AstItem *b = c->block;
  bool ok = true;
  int place = 0;
  c->bound = elaborator_alloc(e, sizeof *c->bound * (size_t)(b->n_parameters + 1));
  for (int k = 0; k < n; k++) {
    int i = 0;
    if (args[k].name)
      while (i < b->n_parameters && strcmp(b->parameters[i].name.text, args[k].name) != 0) i++;
    else i = place++;
    if (i == b->n_parameters && b->kind == AST_MODEL && args[k].name && strcmp(args[k].name, "parameters") == 0) {
      c->parameters = &args[k];
      continue;
    }
    if (i < b->n_parameters && !c->bound[i]) {
      c->bound[i] = &args[k];
      continue;
    }
    if (i < b->n_parameters) {
      ok = elaborator_error(e, args[k].pos, "'%s' is given twice to '%s'", b->parameters[i].name.text, b->name.text);
    } else if (args[k].name) {
      ok = elaborator_error(e, args[k].name_pos, "'%s' has no parameter '%s'", b->name.text, args[k].name);
      NameSearch nearest = name_search(args[k].name);
      for (int j = 0; j < b->n_parameters; j++) name_consider(&nearest, b->parameters[j].name.text);
      if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
    } else {
      ok = elaborator_error(e, args[k].pos, "too many arguments: '%s' takes %d", b->name.text, b->n_parameters);
      elaborator_note(e, b->name.pos, "'%s' is declared here", b->name.text);
      break;
    }
  }
  for (int i = 0; ok && i < b->n_parameters; i++) {
    if (c->bound[i] || b->parameters[i].otherwise) continue;
    ok = elaborator_error(e, c->pos, "'%s' needs '%s'", b->name.text, b->parameters[i].name.text);
    elaborator_note(e, b->parameters[i].name.pos, "'%s' is declared here", b->parameters[i].name.text);
  }
  return ok;
}

void block_check_arguments(Elaborator *e, const AstItem *b, AstPos pos, int n, const CallArg *args) {
  bind_arguments(e, &(Call){.block = b, .pos = pos}, n, args);
}

bool report_no_value(Elaborator *e, const AstItem *b) {
  return elaborator_error(e, b->name.pos, "'%s' has no value: its last statement must be an expression", b->name.text);
}

// --- Values

// `lr`, `step` and `steps` of an optimizer or a schedule, and what is computed of them, are numbers for its signature,
// and tensors in its body.
static bool is_number_of_step(const AstItem *b, const AstParameter *p, Value v) {
  bool method = b->kind == AST_OPTIMIZER || b->kind == AST_SCHEDULE;
  if (!method || !p->kind || v.kind != VALUE_TENSOR || nn_value_type(v.tensor).rank > 0) return false;
  return strcmp(p->kind, "int") == 0 || strcmp(p->kind, "float") == 0 || strcmp(p->kind, "number") == 0;
}

static bool bind_value(Elaborator *e, const Call *c, int i) {
  const AstParameter *p = &c->block->parameters[i];
  Value value = c->bound[i]->value;
  NnDtype inside = e->frame->precision;
  if (inside != e->frame->caller->precision) {
    elaborator_builder(e)->loc = location_of(e, c->bound[i]->pos);
    value = value_cast(e, value, inside);
  }
  bool ok = (!p->has_type && !p->kind) || is_number_of_step(c->block, p, value) ||
            signature_bind(e, c->block, p, c->bound[i], &value);
  set_variable(e, p->name.text, c->bound[i]->pos, value)->broken = !ok;
  return ok;
}

// A default sees the arguments before it; those behind it have no names meanwhile.
static bool eval_default(Elaborator *e, const Call *c, int i, Value *value) {
  const AstParameter *p = c->block->parameters;
  Frame *f = e->frame;
  int n = c->block->n_parameters, *at = NULL;
  for (int k = i + 1; k < n; k++) {
    if (!c->bound[k]) continue;
    if (!at) at = elaborator_alloc(e, sizeof *at * (size_t)n);
    at[k] = (int)(find_variable(f, p[k].name.text) - f->variables);
  }
  for (int k = i + 1; at && k < n; k++)
    if (c->bound[k]) f->variables[at[k]].name = "";
  f->in_default = true;
  bool ok = eval(e, p[i].otherwise, value);
  f->in_default = false;
  for (int k = i + 1; at && k < n; k++)
    if (c->bound[k]) f->variables[at[k]].name = p[k].name.text;
  return ok;
}

// Numbers first, since shapes may use them; then shapes, which bind dimensions; then defaults, which may use both.
static bool bind_parameters(Elaborator *e, const Call *c) {
  bool ok = true;
  for (int shaped = 0; shaped < 2; shaped++)
    for (int i = 0; i < c->block->n_parameters; i++)
      if (c->bound[i] && c->block->parameters[i].has_type == (bool)shaped) ok = bind_value(e, c, i) && ok;
  for (int i = 0; ok && i < c->block->n_parameters; i++) {
    const AstParameter *p = &c->block->parameters[i];
    CallArg arg = {.name = p->name.text, .pos = p->name.pos};
    if (c->bound[i]) continue;
    ok = eval_default(e, c, i, &arg.value);
    c->bound[i] = &arg;
    ok = ok && bind_value(e, c, i);
    c->bound[i] = NULL;
  }
  return ok;
}

// --- Calls

static const ModelCall *find_call(const Function *f, const AstItem *b, const char *path, int n, const CallArg *args) {
  for (int i = 0; i < f->n_calls; i++) {
    const ModelCall *c = &f->calls[i];
    bool same = c->model == b && strcmp(c->path, path) == 0 && c->n_args == n;
    for (int k = 0; same && k < n; k++) {
      const char *x = c->args[k].name, *y = args[k].name;
      same = (x == y || (x && y && strcmp(x, y) == 0)) && values_same(&c->args[k].value, &args[k].value);
    }
    if (same) return c;
  }
  return NULL;
}

// Outputs are kept as the network computes them: the wide copy is made for the loss, and may need no memory.
MlirValue value_before_widening(MlirValue v) {
  MlirOperation cast = nn_value_def(v);
  if (nn_op_of(cast) != NN_OP_cast) return v;
  MlirValue x = mlirOperationGetOperand(cast, 0);
  return nn_dtype_is_narrow(nn_value_dtype(x)) && nn_value_dtype(v) == NN_F32 ? x : v;
}

static const char *output_name(Elaborator *e, const AstItem *model, int i) {
  const char *name = e->only_phase < 0 ? "" : e->phases[e->only_phase].name, *dot = *name ? "." : "";
  return i < 0 ? elaborator_format(e, "output.%s%s%s", name, dot, model->name.text)
               : elaborator_format(e, "output.%s%s%s.%d", name, dot, model->name.text, i);
}

static void tap_outputs(Elaborator *e, const AstItem *b, const Value *result) {
  NnBuilder *builder = elaborator_builder(e);
  builder->loc = location_of(e, b->name.pos);
  if (result->kind == VALUE_TENSOR) nn_tap(builder, value_before_widening(result->tensor), output_name(e, b, -1));
  for (int i = 0; result->kind == VALUE_LIST && i < result->list.n; i++)
    if (result->list.items[i].kind == VALUE_TENSOR)
      nn_tap(builder, value_before_widening(result->list.items[i].tensor), output_name(e, b, i));
}

// What a prediction of the model takes from its first call.
static void remember_use(Elaborator *e, const AstItem *model, int n, const CallArg *args) {
  const Function *f = e->function;
  for (int i = 0; i < e->n_uses; i++)
    if (e->uses[i].model == model) return;
  Input *inputs = elaborator_alloc(e, sizeof *inputs * (size_t)(n + 1));
  for (int k = 0; k < n; k++) {
    MlirValue v = args[k].value.tensor;
    if (args[k].value.kind != VALUE_TENSOR) continue;
    inputs[k] = (Input){.type = nn_value_type(v),
                        .whole = function_reads_whole(f, v),
                        .staging = function_staging(f, v),
                        .drawn = function_drawn(f, v)};
  }
  if (e->n_uses == 0) e->main_model = model;
  PUSH(e, e->uses, e->n_uses, e->cap_uses, ((ModelUse){model, n, args, inputs}));
}

// The slots of the model, which its first call in this function made; from `first` on where it is this one.
static ModelSlots slots_of_model(Elaborator *e, const AstItem *b, int first) {
  Function *f = e->function;
  for (int i = 0; i < f->n_made; i++)
    if (f->made[i].model == b) return f->made[i];
  ModelSlots made = {b, first, f->n_slots};
  PUSH(e, f->made, f->n_made, f->cap_made, made);
  return made;
}

static void remember_call(Elaborator *e, const AstItem *b, const char *path, int n, const CallArg *args, Value result,
                          int first_slot) {
  Function *f = e->function;
  ModelSlots slots = slots_of_model(e, b, first_slot);
  ModelCall call =
      {.model = b, .path = path, .n_args = n, .result = result, .first_slot = slots.first, .end_slot = slots.end};
  call.args = elaborator_alloc(e, sizeof *call.args * (size_t)(n + 1));
  bool first = true;
  memcpy(call.args, args, sizeof *args * (size_t)n);
  for (int i = 0; i < f->n_calls; i++) first = first && f->calls[i].model != b;
  if (first) PUSH(e, e->called, e->n_called, e->cap_called, b);
  PUSH(e, f->calls, f->n_calls, f->cap_calls, call);
  if (e->frame->block || f->mode != MODE_TRAIN) return;
  if (first) tap_outputs(e, b, &result);
  remember_use(e, b, n, call.args);
}

// Where a block computes in another type than its caller, what goes in and what comes out is cast.
static bool exec_block(Elaborator *e, const Call *c, Path *path, Value *result) {
  Frame frame;
  bool has_result = false;
  NnDtype outside = e->frame->precision, inside = c->block->kind == AST_MODEL ? e->precision : outside;
  if (!precision_read(e, &c->block->precision, &inside)) return false;
  frame_push(e, &frame, c->block, c->pos, path);
  frame.precision = inside;
  frame.is_prelude = c->block->pos.source->is_prelude;   // an optimizer
  bool ok = bind_parameters(e, c) && exec_body(e, &c->block->body, result, &has_result);
  frame_pop(e);
  if (ok && has_result && inside != outside) *result = value_cast(e, *result, outside);
  return ok && (has_result || report_no_value(e, c->block));
}

static bool depth_ok(Elaborator *e, AstPos pos, const AstItem *b) {
  if (!elaborator_stack_ok(e, pos)) return false;
  return e->frame->depth < MAX_BLOCK_DEPTH ||
         elaborator_give_up(e, pos, "blocks call each other more than %d deep; does '%s' call itself without end?",
                            MAX_BLOCK_DEPTH, b->name.text);
}

// Its arguments are bound, and converted to the type that it computes in, as those of all layers. What it makes has the
// path of the layer; one without parameters has a node of its own all the same, so that its loops count for themselves.
bool call_prelude(LayerCall *c, Value *result) {
  Elaborator *e = c->e;
  const AstItem *b = c->info->block;
  Call call = {.block = b, .pos = c->pos};
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(b->n_parameters + 1));
  Frame frame;
  bool has_result = false;
  if (!depth_ok(e, c->pos, b)) return false;
  call.bound = elaborator_alloc(e, sizeof *call.bound * (size_t)(b->n_parameters + 1));
  for (int i = 0; i < b->n_parameters; i++) {
    args[i] = (CallArg){.name = b->parameters[i].name.text, .value = c->arg[i], .pos = c->arg_pos[i]};
    call.bound[i] = &args[i];
  }
  NnDtype outside = e->frame->precision;
  frame_push(e, &frame, b, c->pos, path_create(e, c->info->has_parameters ? e->layer_path : e->frame->path->text));
  frame.is_prelude = true;
  frame.precision = c->info->arithmetic == LAYER_AS_GIVEN ? outside : nn_dtype_wide(outside);
  bool ok = bind_parameters(e, &call) && exec_body(e, &b->body, result, &has_result);
  frame_pop(e);
  return ok && (has_result || report_no_value(e, b));
}

// The names of a file's only model have no prefix, nor have those of the train section: its own come behind them, and
// what it has named already may not be one of them. `path`: of the model's body.
static bool note_names_of_model(Elaborator *e, const AstItem *model, AstPos pos, const Path *path) {
  const Frame *f = e->frame;
  while (f && strcmp(f->body->text, path->text) != 0) f = f->caller;
  for (int i = 0; f && i < path->n; i++) {
    const PathName *name = &path->names[i];
    PathName *known = path_find(f->body, name->name);
    if (!known) {
      path_add(e, f->body, *name);
      path_find(f->body, name->name)->of_model = true;
    } else if (!known->of_model && (known->automatic || (known->declared && name->declared))) {
      known->of_model = true;   // said once
      elaborator_error(e, pos, "'%s' is a name of model '%s' and of what stands before this call", name->name,
                       model->name.text);
      elaborator_hint(e, known->declared ? "give the parameter another name"
                                         : "give what stands before it another name: … as head");
      return false;
    }
  }
  return true;
}

bool call_block(Elaborator *e, const AstItem *b, AstPos pos, const AstName *label, int n, const CallArg *args,
                Value *result) {
  Call call = {.block = b, .pos = pos};
  if (!depth_ok(e, pos, b) || !bind_arguments(e, &call, n, args)) return false;
  Path *below = b->kind == AST_BLOCK || label->is_path ? path_of_label(e, label, b->name.text) : NULL;
  if (b->kind == AST_BLOCK) return below && exec_block(e, &call, below, result);
  // what it keeps has no prefix
  if (b->kind == AST_OPTIMIZER || b->kind == AST_SCHEDULE) return exec_block(e, &call, e->frame->path, result);
  if (label->is_path && !below) return false;
  const char *path = below ? below->text : label->text ? label->text : e->n_models > 1 ? b->name.text : "";
  const ModelCall *known = find_call(e->function, b, path, n, args);
  if (known) {
    *result = known->result;
    return true;
  }
  if (e->function->n_calls >= MAX_MODEL_CALLS)
    return elaborator_give_up(e, pos, "models are called more than %d times", MAX_MODEL_CALLS);
  const Replacement *outer = e->replacement;
  Replacement own;
  if (call.parameters && !replacement_read(e, b, call.parameters, &own)) return false;
  int first_slot = e->function->n_slots;
  MlirValue *updated = teacher_begin(e, call.parameters);
  e->replacement = call.parameters ? &own : NULL;
  Path *body = path_create(e, path);
  bool ok = exec_block(e, &call, body, result) && note_names_of_model(e, b, pos, body);
  e->replacement = outer;
  teacher_end(e, updated, first_slot);
  if (ok) remember_call(e, b, path, n, args, *result, first_slot);
  return ok;
}

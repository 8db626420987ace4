// A model as a function of its parameters: parameters(net) is a list of them, net(x, parameters=list) the model with
// others in their place. So a step of training is a part of a program (MAML: Finn et al., 2017), and a moving average
// of a network its teacher (BYOL: Grill et al., 2020).
#include <string.h>

#include "compiler/elaborate_internal.h"

// The first call of the model in this function, whose slots are those between two marks; NULL after reporting.
static const ModelCall *first_call(Elaborator *e, AstPos pos, const char *name) {
  const Function *f = e->function;
  const AstItem *model = find_block(e, name);
  for (int i = 0; i < f->n_calls; i++)
    if (f->calls[i].model == model) return &f->calls[i];
  if (!model || model->kind != AST_MODEL)
    elaborator_error(e, pos, model ? "'%s' is no model" : "there is no model '%s'", name);
  else {
    elaborator_error(e, pos, "'%s' has no parameters here: it has not been called yet", name);
    if (e->in_phase >= 0)
      elaborator_hint(e, "call it in this phase or above the phases, %s(…): a call makes them", name);
    else if (f->mode == MODE_PREDICT && e->train)
      elaborator_hint(e, "`predict` computes each model alone: make this one a block, or call %s(…) in it", name);
    else elaborator_hint(e, "call it first, %s(…): a call makes them", name);
  }
  return NULL;
}

bool elaborator_parameters(Elaborator *e, AstPos pos, const char *name, Value *result) {
  const ModelCall *call = first_call(e, pos, name);
  if (!call) return false;
  const Function *f = e->function;
  Value *items = elaborator_alloc(e, sizeof *items * (size_t)(call->end_slot - call->first_slot + 1));
  int n = 0;
  for (int i = call->first_slot; i < call->end_slot; i++)
    if (f->slots[i].is_parameter) items[n++] = value_tensor(f->slots[i].value);
  *result = (Value){.kind = VALUE_LIST, .list = {items, n}};
  return true;
}

bool replacement_read(Elaborator *e, const AstItem *model, const CallArg *arg, Replacement *out) {
  const ModelCall *call = first_call(e, arg->name_pos, model->name.text);
  Value all;
  if (!call || !elaborator_parameters(e, arg->name_pos, model->name.text, &all)) return false;
  if (arg->value.kind != VALUE_LIST || arg->value.list.n != all.list.n) {
    elaborator_error(e, arg->pos, "'%s' has %d parameters, found %s in their place", model->name.text, all.list.n,
                     value_describe(e, arg->value));
    elaborator_hint(e, "parameters(%s) is the list of them", model->name.text);
    return false;
  }
  *out = (Replacement){.first_slot = call->first_slot, .end_slot = call->end_slot};
  out->value = elaborator_alloc(e, sizeof *out->value * (size_t)(call->end_slot - call->first_slot + 1));
  for (int i = call->first_slot, n = 0; i < call->end_slot; i++) {
    const Slot *s = &e->function->slots[i];
    if (!s->is_parameter) continue;
    Value now = arg->value.list.items[n], was = all.list.items[n];
    n++;
    NnType type = now.kind == VALUE_TENSOR ? nn_value_type(now.tensor) : (NnType){0};
    if (now.kind != VALUE_TENSOR || !nn_type_equal(&type, &s->type))
      return elaborator_error(e, arg->pos, "in the place of '%s', %s, stands %s", s->path, value_describe(e, was),
                              value_describe(e, now));
    out->value[i - call->first_slot] = now.tensor;
  }
  return true;
}

MlirValue replacement_of(const Elaborator *e, const Slot *s) {
  const Replacement *r = e->replacement;
  ptrdiff_t i = s - e->function->slots;
  return r && i >= r->first_slot && i < r->end_slot ? r->value[i - r->first_slot] : s->value;
}

// --- Moving averages

MlirValue *teacher_begin(Elaborator *e, const CallArg *parameters) {
  Function *f = e->function;
  bool list = parameters && parameters->value.kind == VALUE_LIST && parameters->value.list.n > 0;
  const Slot *first = list ? function_state(e, parameters->value.list.items[0].tensor) : NULL;
  if (!first || !first->every) return NULL;
  MlirValue *updated = elaborator_alloc(e, sizeof *updated * (size_t)f->n_slots);
  for (int i = 0; i < f->n_slots; i++) {
    updated[i] = f->slots[i].updated;
    f->slots[i].updated = f->slots[i].value;
  }
  return updated;
}

void teacher_end(Elaborator *e, const MlirValue *updated, int n) {
  for (int i = 0; updated && i < n; i++) e->function->slots[i].updated = updated[i];
}

// The name and the model of `average target = network`; false after reporting.
static bool read_average(Elaborator *e, const AstStmt *s, const ModelCall **call) {
  const AstArg *first = s->setting.n_args ? &s->setting.args[0] : NULL;
  if (!first || !first->name.text || first->value->kind != AST_NAME) {
    elaborator_error(e, s->pos, "'average' needs a name and a model");
    elaborator_hint(e, "average target = network, decay=0.99");
    return false;
  }
  if (optimizer_is_taken(first->name.text))
    return elaborator_error(e, first->name.pos, "'%s' is the name of what training keeps of a parameter",
                            first->name.text);
  *call = first_call(e, first->value->pos, first->value->text);
  return *call != NULL;
}

static bool read_rate(Elaborator *e, const AstStmt *s, double *decay, int64_t *every) {
  static const Option options[] = {{"decay", OPTION_REAL, OPTION_FLOAT(0), 0, 1, false},
                                   {"every", OPTION_COUNT, OPTION_INT(1), 1, OPTION_BIG, false}};
  Value value[2] = {options[0].otherwise, options[1].otherwise};
  int n = s->setting.n_args - 1;
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(n + 1));
  if (n == 0) {
    elaborator_error(e, s->pos, "'average' needs 'decay' or 'every'");
    elaborator_hint(e, "decay=0.99 keeps 0.99 of it in each step; every=1000 copies the parameters each 1000 steps");
    return false;
  }
  if (!eval_args(e, n, s->setting.args + 1, args) || !options_bind(e, s->pos, "average", n, args, 2, options, value))
    return false;
  *decay = option_number(value[0]);
  *every = (int64_t)option_number(value[1]);
  return true;
}

bool average_is_ready(const Elaborator *e, const AstStmt *s) {
  const AstExpr *network = s->setting.n_args ? s->setting.args[0].value : NULL;
  if (strcmp(s->setting.keyword.text, "average") != 0 || !network || network->kind != AST_NAME) return false;
  const AstItem *model = find_block(e, network->text);
  for (int i = 0; i < e->function->n_calls; i++)
    if (e->function->calls[i].model == model) return true;
  return false;
}

bool exec_average(Elaborator *e, const AstStmt *s) {
  const ModelCall *call = NULL;
  double decay = 0;
  int64_t every = 1;
  const AstName *name = s->setting.n_args ? &s->setting.args[0].name : NULL;
  if (!read_average(e, s, &call) || !read_rate(e, s, &decay, &every)) {
    if (name && name->text) set_variable(e, name->text, name->pos, (Value){0})->broken = true;
    return false;
  }
  int first = call->first_slot, end = call->end_slot, n = 0;
  Value *items = elaborator_alloc(e, sizeof *items * (size_t)(end - first + 1));
  for (int i = first; i < end; i++) {
    if (!e->function->slots[i].is_parameter) continue;
    Slot of = e->function->slots[i], *average = function_average(e, name->pos, &of, name->text);
    if (!average) return false;
    if (average->every)
      return elaborator_error(e, name->pos, "'%s' has an average named '%s' already", s->setting.args[0].value->text,
                              name->text);
    average->decay = decay;
    average->every = every;
    items[n++] = value_tensor(average->value);
  }
  set_variable(e, name->text, name->pos, (Value){.kind = VALUE_LIST, .list = {items, n}});
  return true;
}

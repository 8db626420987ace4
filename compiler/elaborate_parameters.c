// A model as a function of its parameters: parameters(net) is a list of them, net(x, parameters=list) the model with
// others in their place. So a step of training is a part of a program (MAML: Finn et al., 2017).
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
    elaborator_hint(e, "call it first, %s(…): a call makes them", name);
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

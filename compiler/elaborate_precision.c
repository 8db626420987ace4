// The type that a part of the program computes in: `precision bf16` for a file, after the signature of a block or model
// for that one. Parameters are kept in f32 whatever the precision. Casts stand where values pass from one precision to
// another and nowhere else, so that each can be told from the text.
#include <string.h>

#include "compiler/elaborate_internal.h"
#include "compiler/layer.h"

bool precision_read(Elaborator *e, const AstName *written, NnDtype *precision) {
  NnDtype dtype;
  if (!written->text) return true;
  bool known = nn_dtype_parse(written->text, &dtype);
  if (!known || (dtype != NN_F32 && !nn_dtype_is_narrow(dtype))) {
    elaborator_error(e, written->pos, "unknown precision '%.60s'", written->text);
    if (known && dtype == NN_F64) elaborator_hint(e, "f64 is of a whole program: --dtype=f64");
    else elaborator_hint(e, "the precisions are f32, bf16 and f16");
    return false;
  }
  *precision = elaborator_element_type(e, dtype);
  return true;
}

Value value_cast(Elaborator *e, Value x, NnDtype dtype) {
  if (x.kind == VALUE_TENSOR && nn_dtype_is_float(nn_value_dtype(x.tensor)))
    return value_tensor(nn_cast(elaborator_builder(e), x.tensor, dtype));
  if (x.kind != VALUE_LIST) return x;
  Value *items = elaborator_alloc(e, sizeof *items * (size_t)(x.list.n + 1));
  for (int i = 0; i < x.list.n; i++) items[i] = value_cast(e, x.list.items[i], dtype);
  x.list.items = items;
  return x;
}

// The type of the narrow tensors among the arguments, f32 where others stand beside them; they become f32.
static NnDtype widen_arguments(LayerCall *c, int n) {
  NnDtype narrow = NN_F32;
  bool wide = false;
  for (int i = 0; i < n; i++) {
    Value *v = &c->arg[i];
    NnDtype dtype = v->kind == VALUE_TENSOR ? nn_value_dtype(v->tensor) : NN_F32;
    if (v->kind != VALUE_TENSOR || !nn_dtype_is_float(dtype)) continue;
    wide = wide || !nn_dtype_is_narrow(dtype) || (narrow != NN_F32 && narrow != dtype);
    if (!nn_dtype_is_narrow(dtype)) continue;
    narrow = dtype;
    *v = value_cast(c->e, *v, NN_F32);
  }
  return wide ? NN_F32 : narrow;
}

static bool has_float(const LayerCall *c, int n) {
  bool found = false;
  for (int i = 0; i < n; i++)
    found |= c->arg[i].kind == VALUE_TENSOR && nn_dtype_is_float(nn_value_dtype(c->arg[i].tensor));
  return found;
}

bool layer_run(LayerCall *c, int n_args, Value *result) {
  if (c->info->arithmetic == LAYER_AS_GIVEN) return c->info->fn(c, result);
  NnDtype narrow = widen_arguments(c, n_args);
  if (narrow == NN_F32 && !has_float(c, n_args)) narrow = elaborator_dtype(c->e);   // integers
  if (!c->info->fn(c, result)) return false;
  if (nn_dtype_is_narrow(narrow) && c->info->arithmetic == LAYER_IN_F32) *result = value_cast(c->e, *result, narrow);
  return true;
}

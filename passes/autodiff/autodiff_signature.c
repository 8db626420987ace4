// The signature of a function while a pass adds arguments and results to it; see autodiff.h.
#include <stdlib.h>

#include "passes/autodiff/autodiff.h"
#include "support/alloc.h"

static MlirAttribute *dictionaries(MlirOperation func, const char *list, int n) {
  MlirAttribute all = nn_attribute(func, list);
  MlirAttribute *out = allocate_array((size_t)(n + 1), sizeof *out);
  for (int i = 0; i < n; i++)
    out[i] = mlirAttributeIsNull(all) ? mlirDictionaryAttrGet(mlirOperationGetContext(func), 0, NULL)
                                      : mlirArrayAttrGetElement(all, i);
  return out;
}

Signature signature_of(MlirOperation func) {
  Signature s = {.func = func, .n_args = nn_function_n_args(func), .n_results = nn_function_n_results(func)};
  s.arg_attrs = dictionaries(func, "arg_attrs", s.n_args);
  s.result_attrs = dictionaries(func, "res_attrs", s.n_results);
  s.results = allocate_array((size_t)(s.n_results + 1), sizeof *s.results);
  MlirOperation end = nn_function_return(func);
  for (int i = 0; i < s.n_results; i++) s.results[i] = mlirOperationGetOperand(end, i);
  return s;
}

static void push(MlirAttribute **array, int n, MlirAttribute value) {
  *array = reallocate_array(*array, (size_t)n + 1, sizeof value);
  (*array)[n] = value;
}

static MlirNamedAttribute named_text(MlirContext ctx, const char *name, const char *text) {
  return nn_named(ctx, name, mlirStringAttrGet(ctx, nn_string_ref(text)));
}

static MlirNamedAttribute named_number(MlirContext ctx, const char *name, int64_t value) {
  return nn_named(ctx, name, mlirIntegerAttrGet(mlirIntegerTypeGet(ctx, 64), value));
}

MlirValue signature_add_arg(Signature *s, NnType type, MlirLocation loc, const char *role, const char *name,
                            const char *init, int64_t group) {
  return signature_add_part(s, type, type, loc, role, name, init, group);
}

MlirValue signature_add_part(Signature *s, NnType part, NnType whole, MlirLocation loc, const char *role,
                             const char *name, const char *init, int64_t group) {
  MlirContext ctx = mlirOperationGetContext(s->func);
  MlirNamedAttribute attrs[5];
  int n = 0;
  attrs[n++] = named_text(ctx, ATTR_role, role);
  attrs[n++] = named_text(ctx, ATTR_name, name);
  if (init) attrs[n++] = named_text(ctx, ATTR_init, init);
  if (group >= 0) attrs[n++] = named_number(ctx, ATTR_group, group);
  if (!nn_type_equal(&part, &whole))
    attrs[n++] = nn_named(ctx, ATTR_shape, mlirDenseI64ArrayGet(ctx, whole.rank, whole.dim));
  push(&s->arg_attrs, s->n_args, mlirDictionaryAttrGet(ctx, n, attrs));
  s->n_args++;
  return mlirBlockAddArgument(nn_function_body(s->func), nn_type_to_mlir(ctx, &part), loc);
}

void signature_set_text(Signature *s, int arg, const char *name, const char *text) {
  enum { MOST = 16 };
  MlirNamedAttribute attrs[MOST];
  int n = (int)mlirDictionaryAttrGetNumElements(s->arg_attrs[arg]);
  if (n >= MOST) abort();
  for (int i = 0; i < n; i++) attrs[i] = mlirDictionaryAttrGetElement(s->arg_attrs[arg], i);
  attrs[n++] = named_text(mlirOperationGetContext(s->func), name, text);
  s->arg_attrs[arg] = mlirDictionaryAttrGet(mlirOperationGetContext(s->func), n, attrs);
}

void signature_add_update(Signature *s, MlirValue value, const char *name, int tied) {
  MlirContext ctx = mlirOperationGetContext(s->func);
  MlirNamedAttribute attrs[] = {named_text(ctx, ATTR_role, "update"), named_text(ctx, ATTR_name, name),
                                named_number(ctx, ATTR_tied, tied)};
  push(&s->result_attrs, s->n_results, mlirDictionaryAttrGet(ctx, 3, attrs));
  s->results = reallocate_array(s->results, (size_t)s->n_results + 1, sizeof *s->results);
  s->results[s->n_results++] = value;
}

void signature_finish(Signature *s) {
  MlirContext ctx = mlirOperationGetContext(s->func);
  MlirBlock body = nn_function_body(s->func);
  MlirType *types = allocate_array((size_t)(s->n_args + s->n_results + 1), sizeof *types), *results = types + s->n_args;
  for (int i = 0; i < s->n_args; i++) types[i] = mlirValueGetType(mlirBlockGetArgument(body, i));
  for (int i = 0; i < s->n_results; i++) results[i] = mlirValueGetType(s->results[i]);
  MlirType type = mlirFunctionTypeGet(ctx, s->n_args, types, s->n_results, results);
  nn_set_attribute(s->func, "function_type", mlirTypeAttrGet(type));
  nn_set_attribute(s->func, "arg_attrs", mlirArrayAttrGet(ctx, s->n_args, s->arg_attrs));
  nn_set_attribute(s->func, "res_attrs", mlirArrayAttrGet(ctx, s->n_results, s->result_attrs));
  mlirOperationSetOperands(nn_function_return(s->func), s->n_results, s->results);
  free(types);
  signature_free(s);
}

void signature_free(Signature *s) {
  free(s->arg_attrs);
  free(s->result_attrs);
  free(s->results);
  *s = (Signature){0};
}

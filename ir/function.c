// Function signatures: creating func.func, growing and shrinking its arguments and results, and the attribute
// dictionaries of both (roles, names; see docs/internals.md). func.func keeps type, arg_attrs and res_attrs apart;
// these functions keep them in step.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/internal.h"
#include "support/alloc.h"

static MlirType function_type(MlirOperation func) { return mlirTypeAttrGetValue(nn_attribute(func, "function_type")); }

int nn_function_n_args(MlirOperation func) { return (int)mlirFunctionTypeGetNumInputs(function_type(func)); }
int nn_function_n_results(MlirOperation func) { return (int)mlirFunctionTypeGetNumResults(function_type(func)); }

MlirBlock nn_function_body(MlirOperation func) { return mlirRegionGetFirstBlock(mlirOperationGetRegion(func, 0)); }

MlirOperation nn_module_function(MlirModule module, const char *name) {
  MlirStringRef wanted = nn_string_ref(name);
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) {
    if (!nn_is(op, "func.func")) continue;
    if (mlirStringRefEqual(mlirStringAttrGetValue(nn_attribute(op, "sym_name")), wanted)) return op;
  }
  return nn_null_operation();
}

// Behind "train" or "accumulate": nothing, or ".<phase>". NULL: the function is another one, such as a scan or its
// step, whose names begin with that of the function around them.
static const char *behind(MlirOperation func, const char *word, char *text, size_t size) {
  size_t n = strlen(word);
  nn_attr_str(func, "sym_name", text, size, "");
  bool named = strncmp(text, word, n) == 0 && (!text[n] || text[n] == '.');
  bool inner = named && (nn_has_attr(func, ATTR_scan_body) || nn_has_attr(func, "sym_visibility"));
  return named && !inner ? text + n : NULL;
}

enum { NAME_SIZE = 256 };

bool nn_is_train(MlirOperation func) {
  char text[NAME_SIZE];
  return behind(func, "train", text, sizeof text);
}

bool nn_is_accumulate(MlirOperation func) {
  char text[NAME_SIZE];
  return behind(func, "accumulate", text, sizeof text);
}

bool nn_is_predict(MlirOperation func) {
  char text[NAME_SIZE];
  return behind(func, "predict", text, sizeof text);
}

NnFunctions nn_public_functions(MlirModule module) {
  NnFunctions found = {0};
  NN_FOREACH_OP (op, mlirModuleGetBody(module)) {
    if (!nn_is(op, "func.func") || nn_has_attr(op, ATTR_kernel) || nn_is_scan_body(op)) continue;
    if (found.n == NN_MAX_FUNCTIONS) nn_bug("more than %d public functions", NN_MAX_FUNCTIONS);
    found.items[found.n++] = op;
  }
  return found;
}

MlirOperation nn_module_train(MlirModule module) {
  NN_FOREACH_OP (op, mlirModuleGetBody(module))
    if (nn_is(op, "func.func") && nn_is_train(op)) return op;
  return nn_null_operation();
}

static MlirOperation other_of(MlirModule module, MlirOperation func, const char *word, const char *other) {
  char text[NAME_SIZE], name[NAME_SIZE + 16];
  const char *phase = behind(func, word, text, sizeof text);
  if (!phase) return nn_null_operation();
  snprintf(name, sizeof name, "%s%s", other, phase);
  return nn_module_function(module, name);
}

MlirOperation nn_accumulate_of(MlirModule module, MlirOperation train) {
  return other_of(module, train, "train", "accumulate");
}

MlirOperation nn_train_of(MlirModule module, MlirOperation accumulate) {
  return other_of(module, accumulate, "accumulate", "train");
}

const char *nn_phase_of(MlirOperation func, char *text, size_t size) {
  char name[NAME_SIZE];
  const char *phase = behind(func, "train", name, sizeof name);
  if (!phase) phase = behind(func, "accumulate", name, sizeof name);
  snprintf(text, size, "%s", phase && *phase ? phase + 1 : "");
  return text;
}

MlirAttribute nn_phase_entry(MlirModule module, MlirOperation func) {
  char name[NAME_SIZE];
  MlirAttribute all = nn_attribute(mlirModuleGetOperation(module), ATTR_phases);
  nn_phase_of(func, name, sizeof name);
  for (intptr_t i = 0; !mlirAttributeIsNull(all) && i < mlirArrayAttrGetNumElements(all); i++) {
    MlirAttribute entry = mlirArrayAttrGetElement(all, i);
    MlirAttribute own = mlirDictionaryAttrGetElementByName(entry, nn_string_ref("name"));
    if (mlirStringRefEqual(mlirStringAttrGetValue(own), nn_string_ref(name))) return entry;
  }
  return mlirAttributeGetNull();
}

// ---------------------------------------------------------------------------------------------------------------------
// Attribute dictionaries of arguments and results. `list` is "arg_attrs" or "res_attrs".

static MlirAttribute dictionary_at(MlirOperation func, const char *list, int i) {
  MlirAttribute all = nn_attribute(func, list);
  if (mlirAttributeIsNull(all) || i >= mlirArrayAttrGetNumElements(all))
    return mlirDictionaryAttrGet(mlirOperationGetContext(func), 0, NULL);
  return mlirArrayAttrGetElement(all, i);
}

static void set_dictionaries(MlirOperation func, const char *list, int n, const MlirAttribute *dictionaries) {
  bool any = false;
  for (int i = 0; i < n; i++) any |= mlirDictionaryAttrGetNumElements(dictionaries[i]) > 0;
  if (any) nn_set_attribute(func, list, mlirArrayAttrGet(mlirOperationGetContext(func), n, dictionaries));
  else mlirOperationRemoveAttributeByName(func, nn_string_ref(list));
}

static MlirAttribute dictionary_with(MlirContext ctx, MlirAttribute dictionary, const NnAttr *attr) {
  intptr_t n = mlirDictionaryAttrGetNumElements(dictionary), used = 0;
  MlirNamedAttribute *entries = allocate_array((size_t)(n + 1), sizeof *entries);
  for (intptr_t i = 0; i < n; i++) {
    MlirNamedAttribute entry = mlirDictionaryAttrGetElement(dictionary, i);
    if (!mlirStringRefEqual(mlirIdentifierStr(entry.name), nn_string_ref(attr->name))) entries[used++] = entry;
  }
  entries[used++] = nn_attr_to_named(ctx, attr);
  MlirAttribute result = mlirDictionaryAttrGet(ctx, used, entries);
  free(entries);
  return result;
}

static void set_in_dictionary(MlirOperation func, const char *list, int n, int at, const NnAttr *attr) {
  if (at < 0 || at >= n) nn_bug("attribute '%s' for entry %d of %d in %s", attr->name, at, n, list);
  MlirAttribute *all = allocate_array((size_t)n, sizeof *all);
  for (int i = 0; i < n; i++) all[i] = dictionary_at(func, list, i);
  all[at] = dictionary_with(mlirOperationGetContext(func), all[at], attr);
  set_dictionaries(func, list, n, all);
  free(all);
}

MlirAttribute nn_arg_attr(MlirOperation func, int arg, const char *name) {
  return mlirDictionaryAttrGetElementByName(dictionary_at(func, "arg_attrs", arg), nn_string_ref(name));
}

MlirAttribute nn_result_attr(MlirOperation func, int result, const char *name) {
  return mlirDictionaryAttrGetElementByName(dictionary_at(func, "res_attrs", result), nn_string_ref(name));
}

void nn_set_arg_attr(MlirOperation func, int arg, const NnAttr *attr) {
  set_in_dictionary(func, "arg_attrs", nn_function_n_args(func), arg, attr);
}

void nn_set_result_attr(MlirOperation func, int result, const NnAttr *attr) {
  set_in_dictionary(func, "res_attrs", nn_function_n_results(func), result, attr);
}

void nn_set_result_attr_where(MlirOperation func, const bool *which, const NnAttr *attr) {
  int n = nn_function_n_results(func);
  MlirAttribute *all = allocate_array((size_t)n + 1, sizeof *all);
  for (int i = 0; i < n; i++) {
    all[i] = dictionary_at(func, "res_attrs", i);
    if (which[i]) all[i] = dictionary_with(mlirOperationGetContext(func), all[i], attr);
  }
  set_dictionaries(func, "res_attrs", n, all);
  free(all);
}

// The readers on a call's dictionary serve here too: a dictionary is a dictionary.
static NnOpCall as_call(MlirOperation func, const char *list, int i) {
  return (NnOpCall){.attrs = dictionary_at(func, list, i)};
}

const char *nn_arg_str(MlirOperation func, int arg, const char *name, char *buf, size_t size, const char *otherwise) {
  NnOpCall c = as_call(func, "arg_attrs", arg);
  return nn_call_str(&c, name, buf, size, otherwise);
}

const char *nn_result_str(MlirOperation func, int result, const char *name, char *buf, size_t size,
                          const char *otherwise) {
  NnOpCall c = as_call(func, "res_attrs", result);
  return nn_call_str(&c, name, buf, size, otherwise);
}

int64_t nn_arg_i64(MlirOperation func, int arg, const char *name, int64_t otherwise) {
  NnOpCall c = as_call(func, "arg_attrs", arg);
  return nn_call_i64(&c, name, otherwise);
}

int64_t nn_result_i64(MlirOperation func, int result, const char *name, int64_t otherwise) {
  NnOpCall c = as_call(func, "res_attrs", result);
  return nn_call_i64(&c, name, otherwise);
}

// ---------------------------------------------------------------------------------------------------------------------
// Building

MlirOperation nn_function_create(MlirModule module, const char *name, bool is_private, MlirLocation loc) {
  MlirContext ctx = mlirModuleGetContext(module);
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, mlirBlockCreate(0, NULL, NULL));
  MlirNamedAttribute attrs[3] = {
      nn_named(ctx, "sym_name", mlirStringAttrGet(ctx, nn_string_ref(name))),
      nn_named(ctx, "function_type", mlirTypeAttrGet(mlirFunctionTypeGet(ctx, 0, NULL, 0, NULL))),
      nn_named(ctx, "sym_visibility", mlirStringAttrGet(ctx, nn_string_ref("private"))),
  };
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("func.func"), loc);
  mlirOperationStateAddAttributes(&state, is_private ? 3 : 2, attrs);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  MlirOperation func = mlirOperationCreate(&state);
  mlirBlockAppendOwnedOperation(mlirModuleGetBody(module), func);
  return func;
}

static void set_type(MlirOperation func, int n_args, const MlirType *args, int n_results, const MlirType *results) {
  MlirType type = mlirFunctionTypeGet(mlirOperationGetContext(func), n_args, args, n_results, results);
  nn_set_attribute(func, "function_type", mlirTypeAttrGet(type));
}

// Makes the argument part of the type what the entry block's arguments are.
static void update_arg_types(MlirOperation func) {
  MlirBlock body = nn_function_body(func);
  MlirType old = function_type(func);
  int n = (int)mlirBlockGetNumArguments(body), n_results = (int)mlirFunctionTypeGetNumResults(old);
  MlirType *types = allocate_array((size_t)(n + n_results + 1), sizeof *types);
  for (int i = 0; i < n; i++) types[i] = mlirValueGetType(mlirBlockGetArgument(body, i));
  for (int i = 0; i < n_results; i++) types[n + i] = mlirFunctionTypeGetResult(old, i);
  set_type(func, n, types, n_results, types + n);
  free(types);
}

MlirValue nn_function_add_arg(MlirOperation func, NnType type, MlirLocation loc, int n_attrs, const NnAttr *attrs) {
  MlirContext ctx = mlirOperationGetContext(func);
  int n = nn_function_n_args(func);
  MlirAttribute *all = allocate_array((size_t)(n + 1), sizeof *all);
  for (int i = 0; i < n; i++) all[i] = dictionary_at(func, "arg_attrs", i);
  all[n] = mlirDictionaryAttrGet(ctx, 0, NULL);
  for (int i = 0; i < n_attrs; i++) all[n] = dictionary_with(ctx, all[n], &attrs[i]);
  MlirValue arg = mlirBlockAddArgument(nn_function_body(func), nn_type_to_mlir(ctx, &type), loc);
  update_arg_types(func);
  set_dictionaries(func, "arg_attrs", n + 1, all);
  free(all);
  return arg;
}

MlirAttribute nn_attr_dictionary(MlirContext ctx, int n, const NnAttr *attrs) {
  MlirNamedAttribute *entries = allocate_array((size_t)n + 1, sizeof *entries);
  for (int i = 0; i < n; i++) entries[i] = nn_attr_to_named(ctx, &attrs[i]);
  MlirAttribute result = mlirDictionaryAttrGet(ctx, n, entries);
  free(entries);
  return result;
}

void nn_function_set_arg_attrs(MlirOperation func, int n, const MlirAttribute *dictionaries) {
  if (n != (int)mlirBlockGetNumArguments(nn_function_body(func))) nn_bug("%d dictionaries for other arguments", n);
  update_arg_types(func);
  set_dictionaries(func, "arg_attrs", n, dictionaries);
}

void nn_function_set_result_attrs(MlirOperation func, int n, const MlirAttribute *dictionaries) {
  if (n != nn_function_n_results(func)) nn_bug("%d dictionaries for %d results", n, nn_function_n_results(func));
  set_dictionaries(func, "res_attrs", n, dictionaries);
}

void nn_function_remove_arg(MlirOperation func, int arg) {
  MlirBlock body = nn_function_body(func);
  int n = nn_function_n_args(func);
  if (arg < 0 || arg >= n) nn_bug("removing argument %d of %d", arg, n);
  if (!mlirOpOperandIsNull(mlirValueGetFirstUse(mlirBlockGetArgument(body, arg))))
    nn_bug("removing argument %d, which has uses", arg);
  MlirAttribute *all = allocate_array((size_t)n, sizeof *all);
  for (int i = 0, k = 0; i < n; i++)
    if (i != arg) all[k++] = dictionary_at(func, "arg_attrs", i);
  mlirBlockEraseArgument(body, (unsigned)arg);
  update_arg_types(func);
  set_dictionaries(func, "arg_attrs", n - 1, all);
  free(all);
}

MlirOperation nn_function_return(MlirOperation func) {
  MlirOperation last = mlirBlockGetTerminator(nn_function_body(func));
  return nn_is(last, "func.return") ? last : nn_null_operation();
}

void nn_function_set_results(MlirOperation func, int n, const MlirValue *values, int keep) {
  MlirContext ctx = mlirOperationGetContext(func);
  MlirOperation old = nn_function_return(func);
  MlirLocation loc = mlirOperationGetLocation(mlirOperationIsNull(old) ? func : old);
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("func.return"), loc);
  mlirOperationStateAddOperands(&state, n, values);
  mlirBlockAppendOwnedOperation(nn_function_body(func), mlirOperationCreate(&state));
  if (!mlirOperationIsNull(old)) mlirOperationDestroy(old);

  MlirType before = function_type(func);
  int n_args = (int)mlirFunctionTypeGetNumInputs(before);
  MlirType *types = allocate_array((size_t)(n_args + n + 1), sizeof *types);
  MlirAttribute *all = allocate_array((size_t)(n + 1), sizeof *all);
  for (int i = 0; i < n_args; i++) types[i] = mlirFunctionTypeGetInput(before, i);
  for (int i = 0; i < n; i++) {
    types[n_args + i] = mlirValueGetType(values[i]);
    all[i] = i < keep ? dictionary_at(func, "res_attrs", i) : mlirDictionaryAttrGet(ctx, 0, NULL);
  }
  set_type(func, n_args, types, n, types + n_args);
  set_dictionaries(func, "res_attrs", n, all);
  free(types);
  free(all);
}

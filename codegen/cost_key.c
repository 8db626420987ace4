// Keys of measured times; cost_key.h.
#include "codegen/cost_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/ptr_map.h"

static uint64_t hash_bytes(uint64_t hash, const char *data, size_t size) {
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3ULL;
  return hash;
}

static void add_chunk(MlirStringRef text, void *hash) {
  *(uint64_t *)hash = hash_bytes(*(uint64_t *)hash, text.data, text.length);
}

static void add_text(uint64_t *hash, const char *text) { *hash = hash_bytes(*hash, text, strlen(text)); }

static void add_number(uint64_t *hash, int64_t number) {
  char digits[20], *end = digits + sizeof digits, *s = end;
  uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
  do *--s = (char)('0' + rest % 10);
  while (rest /= 10);
  if (number < 0) *--s = '-';
  *hash = hash_bytes(*hash, s, (size_t)(end - s));
}

// What is common, as MLIR prints it, which takes ten times as long.
static void add_type(uint64_t *hash, MlirType type) {
  NnType t;
  if (!nn_type_from_mlir(type, &t)) {
    mlirTypePrint(type, add_chunk, hash);
    return;
  }
  add_text(hash, "tensor<");
  for (int i = 0; i < t.rank; i++) {
    add_number(hash, t.dim[i]);
    add_text(hash, "x");
  }
  add_text(hash, t.dtype == NN_U8 ? "ui8" : nn_dtype_name(t.dtype));
  add_text(hash, ">");
}

static void add_attribute(uint64_t *hash, MlirAttribute a) {
  if (!mlirAttributeIsADenseI64Array(a)) {
    mlirAttributePrint(a, add_chunk, hash);
    return;
  }
  intptr_t n = mlirDenseArrayGetNumElements(a);
  add_text(hash, "array<i64");
  for (intptr_t i = 0; i < n; i++) {
    add_text(hash, i ? ", " : ": ");
    add_number(hash, mlirDenseI64ArrayGetElement(a, i));
  }
  add_text(hash, ">");
}

// Attributes that say what is computed: those of the passes (nn.*) do not, a kernel's shape of work does.
static bool counts(MlirStringRef name) {
  static const char *const kept[] = {ATTR_kind, ATTR_domain, ATTR_axes};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (name.length == strlen(kept[i]) && !memcmp(name.data, kept[i], name.length)) return true;
  bool symbol = name.length >= 4 && !memcmp(name.data, "sym_", 4),
       callee = name.length == 6 && !memcmp(name.data, "callee", 6);
  bool args = name.length == 9 && !memcmp(name.data, "arg_attrs", 9);
  return !symbol && !callee && !args && !nn_is_stage_attribute(name);
}

static void add_attributes(uint64_t *hash, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumAttributes(op); i++) {
    MlirNamedAttribute a = mlirOperationGetAttribute(op, i);
    MlirStringRef name = mlirIdentifierStr(a.name);
    if (!counts(name)) continue;
    add_chunk(name, hash);
    add_attribute(hash, a.attribute);
  }
}

static void add_op(uint64_t *hash, MlirOperation op) {
  add_chunk(mlirIdentifierStr(mlirOperationGetName(op)), hash);
  add_attributes(hash, op);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
    add_type(hash, mlirValueGetType(mlirOperationGetResult(op, i)));
}

static void add_body(uint64_t *hash, MlirOperation kernel) {
  PtrMap ids = {0};
  int n = 0;
  MlirBlock block = nn_function_body(kernel);
  for (intptr_t a = 0; a < mlirBlockGetNumArguments(block); a++)
    ptr_map_set(&ids, mlirBlockGetArgument(block, a).ptr, n++);
  NN_FOREACH_OP (op, block) {
    add_op(hash, op);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
      add_number(hash, ptr_map_get(&ids, mlirOperationGetOperand(op, i).ptr));
      add_text(hash, ";");
    }
    for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++)
      ptr_map_set(&ids, mlirOperationGetResult(op, i).ptr, n++);
  }
  ptr_map_free(&ids);
}

static void add_shape(FILE *out, int n, const int64_t *dim) {
  for (int i = 0; i < n; i++) fprintf(out, "%s%lld", i ? "x" : "", (long long)dim[i]);
}

char *cost_key(MlirOperation op, MlirOperation kernel) {
  bool call = !mlirOperationIsNull(kernel);
  NnOp kind = nn_op_of(op);
  if (!call && kind == NN_OP_NONE) return NULL;
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    add_type(&hash, mlirValueGetType(mlirOperationGetOperand(op, i)));
  add_op(&hash, op);
  if (call) {
    add_attributes(&hash, kernel);
    add_body(&hash, kernel);
  }
  char *text = NULL, label[96];
  size_t length;
  int64_t domain[NN_MAX_RANK];
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  if (call) {
    int n = nn_attr_i64s(kernel, ATTR_domain, domain, NN_MAX_RANK);
    fprintf(out, "%s ", nn_attr_str(kernel, ATTR_label, label, sizeof label, "kernel"));
    add_shape(out, n < 0 ? 0 : n, domain);
  } else {
    fprintf(out, "%s", nn_op_info(kind)->name);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op) && i < 2; i++) {
      NnType t = nn_value_type(mlirOperationGetOperand(op, i));
      fputc(' ', out);
      add_shape(out, t.rank, t.dim);
    }
  }
  fprintf(out, " %016llx", (unsigned long long)hash);
  fclose(out);
  return text;
}

// Reading: names, attributes and definitions of operations, for passes and code generators that walk the IR, and the
// same attribute readers on the dictionary of a call, for shape rules that run before the operation exists.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/internal.h"
#include "support/alloc.h"

_Noreturn void nn_bug(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(stderr, "internal error: ");
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
  exit(70);
}

MlirStringRef nn_string_ref(const char *text) { return mlirStringRefCreate(text, strlen(text)); }

// Names of attributes, nearly all of them constants of the compiler, by the addresses of these: their text is compared,
// since a name may have been built where another one stood.
static struct {
  const void *ctx;
  PtrMap ids;
  int n;
  MlirIdentifier *items;   // Owned
} known;

void nn_names_forget(void) {
  free(known.items);
  ptr_map_free(&known.ids);
  known.ctx = NULL, known.items = NULL, known.n = 0;
}

static MlirIdentifier identifier(MlirContext ctx, const char *name) {
  MlirStringRef text = nn_string_ref(name);
  if (known.ctx != ctx.ptr) nn_names_forget();
  known.ctx = ctx.ptr;
  int id = ptr_map_get(&known.ids, name);
  if (id >= 0 && mlirStringRefEqual(mlirIdentifierStr(known.items[id]), text)) return known.items[id];
  if (id < 0) {
    id = known.n;
    ptr_map_set(&known.ids, name, id);
    ARRAY_ADD(known.items, known.n);
  }
  return known.items[id] = mlirIdentifierGet(ctx, text);
}

MlirNamedAttribute nn_named(MlirContext ctx, const char *name, MlirAttribute value) {
  return mlirNamedAttributeGet(identifier(ctx, name), value);
}

MlirAttribute nn_attribute(MlirOperation op, const char *name) {
  return mlirOperationGetAttributeByName(op, nn_string_ref(name));
}

void nn_set_attribute(MlirOperation op, const char *name, MlirAttribute value) {
  mlirOperationSetAttributeByName(op, nn_string_ref(name), value);
}

char *nn_string_copy(MlirStringRef text) {
  char *copy = allocate_array(text.length + 1, 1);
  memcpy(copy, text.data, text.length);
  return copy;
}

MlirValue nn_operand(MlirOperation op, intptr_t i) { return mlirOperationGetOperand(op, i); }

MlirValue nn_result(MlirOperation op, intptr_t i) { return mlirOperationGetResult(op, i); }

bool nn_value_is_null(MlirValue v) { return v.ptr == NULL; }
MlirValue nn_null_value(void) { return (MlirValue){NULL}; }
MlirOperation nn_null_operation(void) { return (MlirOperation){NULL}; }

MlirOperation nn_value_def(MlirValue v) {
  return mlirValueIsAOpResult(v) ? mlirOpResultGetOwner(v) : nn_null_operation();
}

int nn_value_index(MlirValue v) {
  return (int)(mlirValueIsAOpResult(v) ? mlirOpResultGetResultNumber(v) : mlirBlockArgumentGetArgNumber(v));
}

bool nn_is(MlirOperation op, const char *full_name) {
  if (mlirOperationIsNull(op)) return false;
  MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
  return name.length == strlen(full_name) && memcmp(name.data, full_name, name.length) == 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// Attribute values

static int64_t to_i64(MlirAttribute a, int64_t otherwise) {
  return nn_attr_is(a, NN_ATTR_I64) ? mlirIntegerAttrGetValueInt(a) : otherwise;
}

static double to_f64(MlirAttribute a, double otherwise) {
  return nn_attr_is(a, NN_ATTR_F64) ? mlirFloatAttrGetValueDouble(a) : otherwise;
}

static bool to_bool(MlirAttribute a, bool otherwise) {
  return nn_attr_is(a, NN_ATTR_BOOL) ? mlirBoolAttrGetValue(a) : otherwise;
}

static const char *to_str(MlirAttribute a, char *buf, size_t size, const char *otherwise) {
  MlirStringRef text = nn_attr_is(a, NN_ATTR_STR) ? mlirStringAttrGetValue(a) : nn_string_ref(otherwise);
  if (size == 0) return buf;
  size_t n = text.length < size ? text.length : size - 1;
  memcpy(buf, text.data, n);
  buf[n] = 0;
  return buf;
}

static int to_i64s(MlirAttribute a, int64_t *out, int max) {
  if (!nn_attr_is(a, NN_ATTR_I64S)) return -1;
  int n = (int)mlirDenseArrayGetNumElements(a);
  for (int i = 0; i < n && i < max; i++) out[i] = mlirDenseI64ArrayGetElement(a, i);
  return n;
}

bool nn_attr_is(MlirAttribute a, NnAttrKind kind) {
  if (mlirAttributeIsNull(a)) return false;
  switch (kind) {
  case NN_ATTR_BOOL: return mlirAttributeIsABool(a);
  case NN_ATTR_I64: {
    if (!mlirAttributeIsAInteger(a)) return false;
    MlirType t = mlirAttributeGetType(a);
    return mlirTypeIsAInteger(t) && mlirIntegerTypeIsSignless(t) && mlirIntegerTypeGetWidth(t) == 64;
  }
  case NN_ATTR_F64: return mlirAttributeIsAFloat(a);
  case NN_ATTR_STR: return mlirAttributeIsAString(a);
  case NN_ATTR_I64S: return mlirAttributeIsADenseI64Array(a);
  }
  return false;
}

static MlirAttribute op_attr(MlirOperation op, const char *name) { return nn_attribute(op, name); }

bool nn_has_attr(MlirOperation op, const char *name) { return !mlirAttributeIsNull(op_attr(op, name)); }
int64_t nn_attr_i64(MlirOperation op, const char *name, int64_t otherwise) {
  return to_i64(op_attr(op, name), otherwise);
}
double nn_attr_f64(MlirOperation op, const char *name, double otherwise) {
  return to_f64(op_attr(op, name), otherwise);
}
bool nn_attr_bool(MlirOperation op, const char *name, bool otherwise) { return to_bool(op_attr(op, name), otherwise); }
const char *nn_attr_str(MlirOperation op, const char *name, char *buf, size_t size, const char *otherwise) {
  return to_str(op_attr(op, name), buf, size, otherwise);
}
int nn_attr_i64s(MlirOperation op, const char *name, int64_t *out, int max) {
  return to_i64s(op_attr(op, name), out, max);
}

double nn_fill_value(MlirOperation op) {
  double value = nn_attr_f64(op, "value", 0);
  NnDtype dtype = nn_value_dtype(mlirOperationGetResult(op, 0));
  if (nn_dtype_is_float(dtype)) return nn_dtype_round(dtype, value);
  return dtype == NN_I1 ? value != 0 : trunc(value) + 0.0;   // of integers there is one zero
}

static MlirAttribute call_attr(const NnOpCall *c, const char *name) {
  return mlirAttributeIsNull(c->attrs) ? c->attrs : mlirDictionaryAttrGetElementByName(c->attrs, nn_string_ref(name));
}

int64_t nn_call_i64(const NnOpCall *c, const char *name, int64_t otherwise) {
  return to_i64(call_attr(c, name), otherwise);
}
double nn_call_f64(const NnOpCall *c, const char *name, double otherwise) {
  return to_f64(call_attr(c, name), otherwise);
}
bool nn_call_bool(const NnOpCall *c, const char *name, bool otherwise) {
  return to_bool(call_attr(c, name), otherwise);
}
const char *nn_call_str(const NnOpCall *c, const char *name, char *buf, size_t size, const char *otherwise) {
  return to_str(call_attr(c, name), buf, size, otherwise);
}
int nn_call_i64s(const NnOpCall *c, const char *name, int64_t *out, int max) {
  return to_i64s(call_attr(c, name), out, max);
}

bool nn_fail(NnOpCall *c, const char *format, ...) {
  int n = snprintf(c->error, NN_ERROR_SIZE, "%s: ", nn_op_info(c->op)->name);
  va_list args;
  va_start(args, format);
  vsnprintf(c->error + n, (size_t)(NN_ERROR_SIZE - n), format, args);
  va_end(args);
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Setting

static MlirAttribute nn_attr_to_mlir(MlirContext ctx, const NnAttr *attr) {
  switch (attr->kind) {
  case NN_ATTR_I64: return mlirIntegerAttrGet(mlirIntegerTypeGet(ctx, 64), attr->i64);
  case NN_ATTR_I64S: return mlirDenseI64ArrayGet(ctx, attr->i64s.n, attr->i64s.data);
  case NN_ATTR_F64: return mlirFloatAttrDoubleGet(ctx, mlirF64TypeGet(ctx), attr->f64);
  case NN_ATTR_BOOL: return mlirBoolAttrGet(ctx, attr->boolean);
  case NN_ATTR_STR: return mlirStringAttrGet(ctx, nn_string_ref(attr->str));
  }
  nn_bug("attribute '%s' of unknown kind %d", attr->name, (int)attr->kind);
}

MlirNamedAttribute nn_attr_to_named(MlirContext ctx, const NnAttr *attr) {
  return nn_named(ctx, attr->name, nn_attr_to_mlir(ctx, attr));
}

void nn_set_attr(MlirOperation op, const NnAttr *attr) {
  nn_set_attribute(op, attr->name, nn_attr_to_mlir(mlirOperationGetContext(op), attr));
}

void nn_set_unit(MlirOperation op, const char *name) {
  nn_set_attribute(op, name, mlirUnitAttrGet(mlirOperationGetContext(op)));
}

// Verification beyond IRDL: an op against its row (counts, attributes) and its shape rule, before it is built
// (nn_infer, used by the builder) and afterwards (nn_verify_module, run on input and after every pass).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/internal.h"
#include "ir/ops/ops.h"
#include "mlir-c/Diagnostics.h"
#include "support/alloc.h"
#include "support/bytes.h"

static const char *spelled(NnAttrKind kind) {
  switch (kind) {
  case NN_ATTR_I64: return "an i64";
  case NN_ATTR_I64S: return "an array of i64";
  case NN_ATTR_F64: return "a number";
  case NN_ATTR_BOOL: return "true or false";
  default: return "a string";
  }
}

static bool check_attributes(NnOpCall *c) {
  const NnAttrSpec *specs;
  int n = nn_attr_specs(c->op, &specs);
  for (int i = 0; i < n; i++) {
    MlirAttribute a = mlirAttributeIsNull(c->attrs)
                          ? c->attrs
                          : mlirDictionaryAttrGetElementByName(c->attrs, nn_string_ref(specs[i].name));
    if (mlirAttributeIsNull(a)) {
      if (!specs[i].optional) return nn_fail(c, "attribute '%s' is missing", specs[i].name);
    } else if (!nn_attr_is(a, specs[i].kind)) {
      return nn_fail(c, "attribute '%s' must be %s", specs[i].name, spelled(specs[i].kind));
    }
  }
  return true;
}

static bool check_size(NnOpCall *c, const char *what, int i, const NnType *t) {
  for (int k = 0; k < t->rank; k++)
    if (t->dim[k] < 1) return nn_fail(c, "%s %d would be %s, but no size may be below 1", what, i, nn_text(t).text);
  if (!nn_type_is_representable(t))
    return nn_fail(c, "%s %d would be %s, which has more elements than any machine holds", what, i, nn_text(t).text);
  return true;
}

bool nn_infer(NnOpCall *c, int n_results, NnType *result) {
  const NnOpInfo *info = nn_op_info(c->op);
  if (info->n_operands >= 0 && c->n_operands != info->n_operands)
    return nn_fail(c, "takes %d operands, found %d", info->n_operands, c->n_operands);
  if (info->n_operands < 0 && c->n_operands < 1) return nn_fail(c, "needs at least one operand");
  if (n_results != info->n_results) return nn_fail(c, "has %d results, found %d", info->n_results, n_results);
  if (!check_attributes(c)) return false;
  for (int i = 0; i < c->n_operands; i++)
    if (!check_size(c, "operand", i, &c->operand[i])) return false;
  NnType asked[NN_MAX_RESULTS];
  for (int i = 0; i < n_results; i++) {
    asked[i] = result[i];
    if (asked[i].rank >= 0 && !check_size(c, "result", i, &asked[i])) return false;
  }
  if (!info->infer(c, n_results, result)) return false;
  for (int i = 0; i < n_results; i++) {
    if (!check_size(c, "result", i, &result[i])) return false;
    if (asked[i].rank >= 0 && !nn_type_equal(&asked[i], &result[i]))
      return nn_fail(c, "result %d is %s, but the operands give %s", i, nn_text(&asked[i]).text,
                     nn_text(&result[i]).text);
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------

static MlirAttribute own_attributes(MlirOperation op) {
  intptr_t n = mlirOperationGetNumDiscardableAttributes(op);
  MlirNamedAttribute *all = allocate_array((size_t)(n + 1), sizeof *all);
  for (intptr_t i = 0; i < n; i++) all[i] = mlirOperationGetDiscardableAttribute(op, i);
  MlirAttribute result = mlirDictionaryAttrGet(mlirOperationGetContext(op), n, all);
  free(all);
  return result;
}

static bool report(MlirOperation op, const char *message) {
  mlirEmitError(mlirOperationGetLocation(op), message);
  return false;
}

static bool value_types(MlirOperation op, const char *what, intptr_t n, MlirValue (*get)(MlirOperation, intptr_t),
                        NnType *out) {
  char message[NN_ERROR_SIZE];
  for (intptr_t i = 0; i < n; i++) {
    if (nn_type_from_mlir(mlirValueGetType(get(op, i)), &out[i])) continue;
    snprintf(message, sizeof message,
             "%s: %s %d must be a tensor of f32, f64, bf16, f16, i32, i64, ui8 or i1 with known sizes and at most %d "
             "axes",
             nn_op_info(nn_op_of(op))->name, what, (int)i, NN_MAX_RANK);
    return report(op, message);
  }
  return true;
}

// One nn op against its row and shape rule; true for ops of other dialects. Reports at the op's location.
static bool nn_verify_op(MlirOperation op) {
  NnOp kind = nn_op_of(op);
  if (kind == NN_OP_NONE) return true;
  intptr_t n = mlirOperationGetNumOperands(op), n_results = mlirOperationGetNumResults(op);
  if (n_results > NN_MAX_RESULTS) return report(op, "too many results");
  NnType *operand = allocate_array((size_t)(n + 1), sizeof *operand), result[NN_MAX_RESULTS];
  char error[NN_ERROR_SIZE];
  bool ok = value_types(op, "operand", n, mlirOperationGetOperand, operand) &&
            value_types(op, "result", n_results, mlirOperationGetResult, result);
  if (ok) {
    NnOpCall call = {.op = kind, .n_operands = (int)n, .operand = operand, .attrs = own_attributes(op), .error = error};
    if (!nn_infer(&call, (int)n_results, result)) ok = report(op, error);
  }
  free(operand);
  return ok;
}

// What passes take as an index or a number of parts, and a file may hold anything for: which argument a result is the
// new value of, and of how many ranks each has a part.
static bool verify_function(MlirOperation func) {
  if (mlirBlockIsNull(nn_function_body(func))) return true;
  char message[NN_ERROR_SIZE];
  MlirOperation end = nn_function_return(func);
  int n_args = nn_function_n_args(func), n_results = nn_function_n_results(func);
  for (int r = 0; r < n_results; r++) {
    if (mlirAttributeIsNull(nn_result_attr(func, r, ATTR_tied))) continue;
    int64_t tied = nn_result_i64(func, r, ATTR_tied, -1);
    bool known = tied >= 0 && tied < n_args;
    if (known && mlirTypeEqual(mlirValueGetType(mlirOperationGetOperand(end, r)),
                               mlirValueGetType(mlirBlockGetArgument(nn_function_body(func), tied))))
      continue;
    snprintf(message, sizeof message, "result %d is tied to argument %lld, %s", r, (long long)tied,
             known ? "which is of another type" : "which the function does not have");
    return report(func, message);
  }
  return true;
}

// A loop goes over what its step takes: rows of slices, the rest as it is. The step may have more arguments behind
// them.
static bool verify_call(MlirOperation call) {
  NnScan s;
  if (!nn_scan_of(call, &s)) return true;
  char message[NN_ERROR_SIZE];
  int n = (int)mlirOperationGetNumOperands(call);
  if (n != s.n_slices + s.n_stacked + s.n_tied + s.n_invariants || nn_function_n_args(s.body) < n) {
    snprintf(message, sizeof message, "a loop of %d operands, its step of %d arguments", n, nn_function_n_args(s.body));
    return report(call, message);
  }
  for (int i = 0; i < n; i++) {
    NnType given = nn_value_type(mlirOperationGetOperand(call, i)),
           taken = nn_value_type(mlirBlockGetArgument(nn_function_body(s.body), i)), row = given;
    bool fits = i >= s.n_slices || (given.rank > 0 && given.dim[0] == s.length);
    if (i < s.n_slices) row.rank--, memmove(row.dim, row.dim + 1, sizeof row.dim - sizeof *row.dim);
    if (fits && nn_type_equal(&row, &taken)) continue;
    snprintf(message, sizeof message, "operand %d of a loop of %lld steps is %s, its step takes %s", i,
             (long long)s.length, nn_text(&given).text, nn_text(&taken).text);
    return report(call, message);
  }
  return true;
}

static bool verify_top(MlirOperation module) {
  int64_t ranks = nn_attr_i64(module, ATTR_ranks, 1);
  if (ranks >= 1 && ranks <= MAX_RANKS) return true;
  char message[NN_ERROR_SIZE];
  snprintf(message, sizeof message, "expected 1 to %d ranks, found %lld", MAX_RANKS, (long long)ranks);
  return report(module, message);
}

// ---------------------------------------------------------------------------------------------------------------------
// A deep network repeats a few ops thousands of times. What a rule looks at (name, types, attributes) the context holds
// once each, so that ops of which it is the same are known by their pointers, and one of them is verified for all.

typedef struct Verified {
  const void **words;   // Owned. Of all signatures, one behind the other: how many words follow, then they
  size_t n_words;
  size_t *slot;        // Owned. Places in words + 1; 0: free
  size_t n_slots, n;   // a power of two, at most half full
  bool all_well;
} Verified;

static void add_word(Verified *v, const void *word) { *ARRAY_ADD(v->words, v->n_words) = word; }

// Appends the op's signature.
static void add_signature(Verified *v, MlirOperation op) {
  size_t start = v->n_words;
  intptr_t n = mlirOperationGetNumOperands(op), n_results = mlirOperationGetNumResults(op),
           n_attributes = mlirOperationGetNumDiscardableAttributes(op);
  add_word(v, NULL);
  add_word(v, mlirOperationGetName(op).ptr);
  add_word(v, (const void *)n);
  for (intptr_t i = 0; i < n; i++) add_word(v, mlirValueGetType(mlirOperationGetOperand(op, i)).ptr);
  for (intptr_t i = 0; i < n_results; i++) add_word(v, mlirValueGetType(mlirOperationGetResult(op, i)).ptr);
  for (intptr_t i = 0; i < n_attributes; i++) {
    MlirNamedAttribute a = mlirOperationGetDiscardableAttribute(op, i);
    add_word(v, a.name.ptr);
    add_word(v, a.attribute.ptr);
  }
  v->words[start] = (const void *)(v->n_words - start - 1);
}

static size_t signature_words(const Verified *v, size_t at) { return (size_t)v->words[at] + 1; }

// The slot of the signature at `at`, or the free one where it belongs.
static size_t *find_signature(const Verified *v, size_t at) {
  size_t n = signature_words(v, at), hash = n;
  for (size_t i = 0; i < n; i++) hash = (hash ^ (uintptr_t)v->words[at + i]) * 0x9e3779b97f4a7c15u;
  for (size_t s = hash >> 20 & (v->n_slots - 1);; s = (s + 1) & (v->n_slots - 1)) {
    size_t other = v->slot[s] - 1;
    if (!v->slot[s] || !memcmp(v->words + at, v->words + other, n * sizeof *v->words)) return &v->slot[s];
  }
}

static void grow_slots(Verified *v) {
  free(v->slot);
  v->n_slots = v->n_slots ? 2 * v->n_slots : 256;
  v->slot = allocate_array(v->n_slots, sizeof *v->slot);
  for (size_t at = 0; at < v->n_words; at += signature_words(v, at)) *find_signature(v, at) = at + 1;
}

static MlirWalkResult verify_one(MlirOperation op, void *context) {
  Verified *v = context;
  if (nn_op_of(op) == NN_OP_NONE) {
    bool well = nn_is(op, "func.func")        ? verify_function(op)
                : nn_is(op, "builtin.module") ? verify_top(op)
                                              : verify_call(op);
    v->all_well = v->all_well && well;
    return MlirWalkResultAdvance;
  }
  if (2 * v->n >= v->n_slots) grow_slots(v);
  size_t at = v->n_words;
  add_signature(v, op);
  size_t *slot = find_signature(v, at);
  bool known = *slot != 0;
  if (!known && nn_verify_op(op)) {
    *slot = at + 1;
    v->n++;
    return MlirWalkResultAdvance;
  }
  v->all_well = v->all_well && known;
  v->n_words = at;
  return MlirWalkResultAdvance;
}

bool nn_verify_module(MlirModule module) {
  MlirOperation root = mlirModuleGetOperation(module);
  if (!mlirOperationVerify(root)) return false;
  Verified v = {.all_well = true};
  mlirOperationWalk(root, verify_one, &v, MlirWalkPreOrder);
  free(v.words);
  free(v.slot);
  return v.all_well;
}

// The emitter: SSA values, nested scopes, hoisting, masks, loads and stores.
//
// Scope 0 is the function's entry; each loop opens a scope. A value is written into the scope of its depth, the deepest
// index it depends on, and is remembered until that scope closes, so it is computed once however often it is used.
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/kernel.h"
#include "support/alloc.h"
#include "support/text.h"

const char *element_type(NnDtype dtype) {
  static const char *const names[] = {[NN_F32] = "f32", [NN_F64] = "f64", [NN_BF16] = "i16", [NN_F16] = "f16",
                                      [NN_I32] = "i32", [NN_I64] = "i64", [NN_U8] = "i8",    [NN_I1] = "i8"};
  return names[dtype];
}

TypeName vector_memory_type(const Emitter *e, NnDtype dtype) {
  TypeName t;
  snprintf(t.text, sizeof t.text, "vector<%dx%s>", e->lanes, element_type(dtype));
  return t;
}

TypeName vector_type(const Emitter *e, NnDtype dtype) {
  TypeName t = vector_memory_type(e, nn_dtype_wide(dtype));
  if (dtype == NN_I1) snprintf(t.text, sizeof t.text, "vector<%dxi1>", e->lanes);
  return t;
}

int depth_max(Value a, Value b) { return a.depth > b.depth ? a.depth : b.depth; }

static Value new_value(Emitter *e, int depth) { return (Value){e->next_id++, depth, false}; }

Value emitv(Emitter *e, int depth, const char *name, Values operands, const char *rest, va_list args) {
  Value v = new_value(e, depth);
  operations_addv(&e->scope[depth].body, name, depth + 1, VALUES(v.id), operands, rest, args);
  return v;
}

Value emit(Emitter *e, int depth, const char *name, Values operands, const char *rest, ...) {
  va_list args;
  va_start(args, rest);
  Value v = emitv(e, depth, name, operands, rest, args);
  va_end(args);
  return v;
}

Value emit_of(Emitter *e, const char *name, int n, const Value *x, const char *rest, ...) {
  int depth = 0, id[4];
  bool varies = false;
  for (int i = 0; i < n; i++) {
    depth = x[i].depth > depth ? x[i].depth : depth;
    varies |= x[i].varies;
    id[i] = x[i].id;
  }
  va_list args;
  va_start(args, rest);
  Value v = emitv(e, depth, name, (Values){n, id}, rest, args);
  va_end(args);
  v.varies = varies;
  return v;
}

void emit_effect(Emitter *e, const char *name, Values operands, const char *rest, ...) {
  va_list args;
  va_start(args, rest);
  operations_addv(&e->scope[e->depth].body, name, e->depth + 1, NO_VALUES, operands, rest, args);
  va_end(args);
}

// The operation that a value was just written by.
static Operation *last_operation(Emitter *e, int depth) {
  Operations *body = &e->scope[depth].body;
  return &body->items[body->n - 1];
}

// takes rest: "# : i64", or text without a number
static Value constant_once(Emitter *e, Constant c, int bits, char *rest) {
  for (int i = 0; i < e->n_constants; i++) {
    const ConstantMemo *m = &e->constants[i];
    if (m->value == c.value && !strcmp(m->rest, rest)) {
      free(rest);
      return m->result;
    }
  }
  Value v = emit(e, 0, "arith.constant", NO_VALUES, "%s", rest);
  Operation *o = last_operation(e, 0);
  o->constant = c;
  o->bits = bits;
  *ARRAY_ADD(e->constants, e->n_constants) = (ConstantMemo){rest, c.value, v};
  return v;
}

Value emit_constant(Emitter *e, const char *format, ...) {
  Text text = {0};
  va_list args;
  va_start(args, format);
  text_addv(&text, format, args);
  va_end(args);
  return constant_once(e, (Constant){0}, 0, text.data);
}

Value emit_integer(Emitter *e, int bits, int64_t value) {
  return constant_once(e, (Constant){.kind = CONSTANT_INTEGER, .value = value}, bits, text_format("# : i%d", bits));
}

Value emit_i64(Emitter *e, int64_t value) { return emit_integer(e, 64, value); }
Value emit_i32(Emitter *e, int64_t value) { return emit_integer(e, 32, value); }

Value emit_index_with(Emitter *e, const char *op, Value a, int64_t b) { return emit_index(e, op, a, emit_i64(e, b)); }

Value emit_index_compare(Emitter *e, const char *predicate, Value a, Value b) {
  return emit(e, depth_max(a, b), "arith.cmpi", VALUES(a.id, b.id), "%s, %%, %% : i64", predicate);
}

Value emit_index_compare_with(Emitter *e, const char *predicate, Value a, int64_t b) {
  return emit_index_compare(e, predicate, a, emit_i64(e, b));
}

Value emit_and(Emitter *e, Value a, Value b) {
  return emit(e, depth_max(a, b), "arith.andi", VALUES(a.id, b.id), "%%, %% : i1");
}

Value emit_splat(Emitter *e, NnDtype dtype, double value) {
  TypeName type = vector_type(e, dtype);
  if (nn_dtype_wide(dtype) == NN_F32) {
    float f = (float)nn_dtype_round(dtype, value);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return constant_once(e, (Constant){CONSTANT_SPLAT, e->lanes, (int32_t)bits}, 0,
                         text_format("dense<#> : %s", type.text));
  }
  if (dtype == NN_F64) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return emit_constant(e, "dense<0x%016llX> : %s", (unsigned long long)bits, type.text);
  }
  if (dtype == NN_I1) return emit_constant(e, "dense<%s> : %s", value != 0 ? "true" : "false", type.text);
  return emit_constant(e, "dense<%lld> : %s", dtype == NN_U8 ? (long long)(int8_t)(uint8_t)value : (long long)value,
                       type.text);
}

Value emit_integers(Emitter *e, int bits, const char *op, Value a, Value b) {
  char name[32];
  snprintf(name, sizeof name, "arith.%s", op);
  Value v = emit_of(e, name, OF(a, b), "%%, %% : i%d", bits);
  last_operation(e, v.depth)->bits = bits;
  return v;
}

Value emit_index(Emitter *e, const char *op, Value a, Value b) { return emit_integers(e, e->index_bits, op, a, b); }

Value emit_bounded(Emitter *e, Value v) {
  last_operation(e, v.depth)->below_2_31 = true;
  return v;
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions and scopes

void emitter_begin(Emitter *e, KernelModule *module, const Kernel *k, const char *symbol, int n_buffers) {
  *e = (Emitter){.module = module,
                 .k = k,
                 .lanes = k ? kernel_lanes(module, k) : 1,
                 .index_bits = 64,
                 .vector_group = -1,
                 .mask = -1,
                 .next_id = 3};
  if (k) nest_build(k, &e->nest);
  e->function.symbol = copy_string(symbol);
  e->buffer = allocate_array((size_t)n_buffers, sizeof *e->buffer);
  module->target.open(e, n_buffers);
}

int emit_argument(Emitter *e, const char *type) {
  function_add_argument(&e->function, e->next_id, type);
  return e->next_id++;
}

void emitter_end(Emitter *e) { emitter_end_with(e, 0, NULL, NULL); }

static void add_types(Text *t, int n, const TypeName *types) {
  for (int i = 0; i < n; i++) text_add(t, "%s%s", i ? ", " : "", types[i].text);
}

// "%, % : type, type", of n values
static char *list_of(int n, const TypeName *types) {
  Text t = {0};
  for (int i = 0; i < n; i++) text_add(&t, "%s%%", i ? ", " : "");
  if (n) text_add(&t, " : ");
  add_types(&t, n, types);
  return t.data ? t.data : copy_string("");
}

// scf.yield or return
static void hand_back(Operations *body, const char *name, int indent, int n, const Value *v, const TypeName *types) {
  int *id = allocate_array((size_t)n, sizeof *id);
  for (int i = 0; i < n; i++) id[i] = v[i].id;
  char *rest = list_of(n, types);
  operations_add(body, name, indent, NO_VALUES, (Values){n, id}, "%s", rest);
  free(rest);
  free(id);
}

void emitter_end_with(Emitter *e, int n, const Value *values, const TypeName *types) {
  assert(e->depth == 0);
  Text results = {0};
  add_types(&results, n, types);
  e->function.results = results.data;
  hand_back(&e->scope[0].body, "return", 1, n, values, types);
  e->function.body = e->scope[0].body;
  functions_add(&e->module->functions, e->function);
  for (int i = 1; i < MAX_SCOPES; i++) operations_free(&e->scope[i].body);
  for (int i = 0; i < e->n_constants; i++) free(e->constants[i].rest);
  free(e->constants);
  free(e->memo);
  free(e->offsets);
  free(e->buffer);
}

void block_begin(Emitter *e) {
  require_promise(e->depth + 1 < MAX_SCOPES, "loops nested too deeply");
  e->depth++;
}

void block_end(Emitter *e) {
  int depth = e->depth--;
  operations_move(&e->scope[depth].body, &e->scope[depth - 1].body);
  int n = 0;
  for (int i = 0; i < e->n_memo; i++)
    if (e->memo[i].result.depth < depth) e->memo[n++] = e->memo[i];
  e->n_memo = n;
  n = 0;
  for (int i = 0; i < e->n_offsets; i++)
    if (e->offsets[i].result.depth < depth) e->offsets[n++] = e->offsets[i];
  e->n_offsets = n;
}

// Opens a region: its operation is written into the scope outside of it now, and gets its results when it is closed.
static void region_begin(Emitter *e, const char *name, Values operands, const char *rest) {
  block_begin(e);
  operations_add(&e->scope[e->depth].body, name, e->depth, NO_VALUES, operands, "%s", rest);
}

// The results of the region that is open vary where its values do.
static void region_results(Emitter *e, int n, const Value *values, Value *results) {
  int *id = allocate_array((size_t)n, sizeof *id);
  for (int i = 0; i < n; i++) {
    bool varies = values[i].varies;
    results[i] = new_value(e, e->depth - 1);
    results[i].varies = varies;
    id[i] = results[i].id;
  }
  operation_set_results(&e->scope[e->depth].body.items[0], (Values){n, id});
  free(id);
}

static void region_end(Emitter *e) {
  block_end(e);
  emit_effect(e, "}", NO_VALUES, "%s", "");
}

Value for_begin(Emitter *e, Value low, Value high, int64_t step, int n, const Value *init, const TypeName *types,
                Value *args) {
  Value by = emit_integer(e, e->index_bits, step), index = new_value(e, e->depth + 1);
  int *id = allocate_array(4 + 2 * (size_t)n, sizeof *id);
  memcpy(id, (const int[]){index.id, low.id, high.id, by.id}, 4 * sizeof *id);
  Text rest = {0};
  text_add(&rest, "%% = %% to %% step %%");
  for (int i = 0; i < n; i++) {
    args[i] = new_value(e, e->depth + 1);
    args[i].varies = init[i].varies;
    id[4 + 2 * i] = args[i].id;
    id[5 + 2 * i] = init[i].id;
    text_add(&rest, "%s%% = %%", i ? ", " : " iter_args(");
  }
  if (n) {
    text_add(&rest, ") -> (");
    add_types(&rest, n, types);
    text_add(&rest, ")");
  }
  text_add(&rest, " : i%d {", e->index_bits);
  region_begin(e, "scf.for", (Values){4 + 2 * n, id}, rest.data);
  text_free(&rest);
  free(id);
  return index;
}

void for_end(Emitter *e, int n, const Value *yield, const TypeName *types, Value *results) {
  if (n) {
    hand_back(&e->scope[e->depth].body, "scf.yield", e->depth + 1, n, yield, types);
    region_results(e, n, yield, results);
  }
  region_end(e);
}

void if_begin(Emitter *e, Value condition) { region_begin(e, "scf.if", VALUES(condition.id), "% {"); }

void if_end(Emitter *e, int n, const Value *then_values, const Value *else_values, const TypeName *types,
            Value *results) {
  Operations *body = &e->scope[e->depth].body;
  if (n) {
    Text rest = {0};
    text_add(&rest, "%% -> (");
    add_types(&rest, n, types);
    text_add(&rest, ") {");
    free(body->items[0].rest);
    body->items[0].rest = rest.data;
    hand_back(body, "scf.yield", 0, n, then_values, types);
    operations_add(body, "} else {", 0, NO_VALUES, NO_VALUES, "%s", "");
    hand_back(body, "scf.yield", 0, n, else_values, types);
    region_results(e, n, then_values, results);
  }
  region_end(e);
}

void emit_set_mask(Emitter *e, int valid) {
  e->valid = valid;
  e->mask = -1;
  if (valid >= e->lanes) return;
  Text t = {0};
  text_add(&t, "dense<[");
  for (int i = 0; i < e->lanes; i++) text_add(&t, "%s%s", i ? "," : "", i < valid ? "true" : "false");
  text_add(&t, "]> : vector<%dxi1>", e->lanes);
  e->mask = emit_constant(e, "%s", t.data).id;
  text_free(&t);
}

void emit_split_index(Emitter *e, Value linear, int n, const int *groups) {
  for (int i = n - 1; i >= 0; i--) {
    int g = groups[i];
    Value extent = emit_i64(e, e->nest.extent[g]);
    Value index = linear;
    if (i) {
      index = emit_index(e, "remui", linear, extent);
      linear = emit_index(e, "divui", linear, extent);
    }
    e->index_id[g] = index.id;
    e->index_depth[g] = index.depth;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory

static Value group_index(const Emitter *e, int g) {
  if (g == e->vector_group) return (Value){e->vector_index[e->tile], e->index_depth[g], true};
  return (Value){e->index_id[g], e->index_depth[g], false};
}

// What was made with these indices: tiles that are transposed give an axis one index where they are filled and another
// where they are read.
Value emit_offset(Emitter *e, const Access *a, bool *lanes_vary, int64_t *lane_stride) {
  int64_t s = e->vector_group >= 0 ? a->stride[e->nest.axis[e->vector_group]] : 0;
  *lane_stride = s;
  *lanes_vary = s != 0;
  OffsetMemo wanted = {.access = *a, .lanes = s != 0};
  for (int g = 0; g < NN_MAX_RANK; g++)
    wanted.index[g] = g < e->nest.n && a->stride[e->nest.axis[g]] ? group_index(e, g).id : -1;
  for (int i = 0; i < e->n_offsets; i++) {
    const OffsetMemo *m = &e->offsets[i];
    if (m->lanes == wanted.lanes && !memcmp(&m->access, a, sizeof *a) &&
        !memcmp(m->index, wanted.index, sizeof wanted.index))
      return m->result;
  }
  Value sum = emit_i64(e, a->offset);
  bool is_constant = true;
  // Terms in order of depth, so that partial sums are hoisted with the loops that leave them unchanged.
  for (int depth = 0; depth <= e->depth; depth++) {
    for (int g = 0; g < e->nest.n; g++) {
      int64_t stride = a->stride[e->nest.axis[g]];
      Value index = group_index(e, g);
      if (!stride || index.depth != depth) continue;
      Value term = stride == 1 ? index : emit_index(e, "muli", index, emit_i64(e, stride));
      sum = is_constant && a->offset == 0 ? term : emit_index(e, "addi", sum, term);
      is_constant = false;
    }
  }
  sum.varies = s != 0;
  wanted.result = sum;
  *ARRAY_ADD(e->offsets, e->n_offsets) = wanted;
  return sum;
}

Value emit_lane_indices(Emitter *e, Value first, int64_t stride, bool wide) {
  const char *type = wide ? "i64" : "i32";
  Value scalar = wide ? first : emit(e, first.depth, "arith.trunci", VALUES(first.id), "%% : i64 to i32");
  Value splat = emit(e, first.depth, "vector.broadcast", VALUES(scalar.id), "%% : %s to vector<%dx%s>", type, e->lanes,
                     type);
  splat.varies = first.varies;
  if (!stride) return splat;
  Text t = {0};
  for (int i = 0; i < e->lanes; i++) text_add(&t, "%s%lld", i ? "," : "", (long long)(i * stride));
  Value steps = emit_constant(e, "dense<[%s]> : vector<%dx%s>", t.data, e->lanes, type);
  text_free(&t);
  Value v = emit(e, first.depth, "arith.addi", VALUES(splat.id, steps.id), "%%, %% : vector<%dx%s>", e->lanes, type);
  v.varies = true;
  return v;
}

static Value all_lanes(Emitter *e) {
  return e->mask >= 0 ? (Value){e->mask, 0, false} : emit_constant(e, "dense<true> : vector<%dxi1>", e->lanes);
}

static Value gep(Emitter *e, int buffer, NnDtype dtype, Value offset) {
  return emit(e, offset.depth, "llvm.getelementptr", VALUES(e->buffer[buffer], offset.id),
              "%%[%%] : (!buffer, i64) -> !buffer, %s", element_type(dtype));
}

static Value gep_lanes(Emitter *e, int buffer, NnDtype dtype, Value first, int64_t stride) {
  Value indices = emit_lane_indices(e, first, stride, true);
  return emit(e, indices.depth, "llvm.getelementptr", VALUES(e->buffer[buffer], indices.id),
              "%%[%%] : (!buffer, vector<%dxi64>) -> vector<%dx!buffer>, %s", e->lanes, e->lanes, element_type(dtype));
}

// Vectors of 32-bit words: a bf16 is the upper half of an f32.
static Value bits(Emitter *e, const char *op, Value a, Value b) {
  return emit_of(e, op, OF(a, b), "%%, %% : vector<%dxi32>", e->lanes);
}

static Value bits_with(Emitter *e, const char *op, Value a, uint32_t b) {
  return bits(e, op, a, emit_constant(e, "dense<0x%08X> : vector<%dxi32>", b, e->lanes));
}

static Value convert(Emitter *e, const char *op, Value x, const char *from, const char *to) {
  return emit_of(e, op, OF(x), "%% : vector<%dx%s> to vector<%dx%s>", e->lanes, from, e->lanes, to);
}

Value emit_round(Emitter *e, NnDtype dtype, Value x) {
  if (dtype == NN_F16) return convert(e, "arith.extf", convert(e, "arith.truncf", x, "f32", "f16"), "f16", "f32");
  if (dtype != NN_BF16) return x;
  if (e->module->target.round_bf16) return e->module->target.round_bf16(e, x);
  // In integers: not every machine has instructions for it, and those of some flush subnormal numbers.
  Value whole = convert(e, "arith.bitcast", x, "f32", "i32"),
        odd = bits_with(e, "arith.andi", bits_with(e, "arith.shrui", whole, 16), 1);
  Value rounded = bits_with(e, "arith.andi", bits(e, "arith.addi", bits_with(e, "arith.addi", whole, 0x7fff), odd),
                            0xffff0000u);
  Value nan = emit_compare(e, "ne", x, x, NN_F32);   // rounding up could run over
  return emit_select(e, nan, emit_splat(e, NN_F32, NAN), convert(e, "arith.bitcast", rounded, "i32", "f32"), NN_F32);
}

Value emit_from_memory(Emitter *e, NnDtype dtype, Value raw) {
  switch (dtype) {
  case NN_I1: return emit_of(e, "arith.cmpi", OF(raw, emit_splat(e, NN_U8, 0)), "ne, %%, %% : vector<%dxi8>", e->lanes);
  case NN_BF16:
    return convert(e, "arith.bitcast", bits_with(e, "arith.shli", convert(e, "arith.extui", raw, "i16", "i32"), 16),
                   "i32", "f32");
  case NN_F16: return convert(e, "arith.extf", raw, "f16", "f32");
  default: return raw;
  }
}

Value emit_to_memory(Emitter *e, NnDtype dtype, Value v) {
  switch (dtype) {
  case NN_I1: return convert(e, "arith.extui", v, "i1", "i8");
  case NN_BF16:
    return convert(e, "arith.trunci", bits_with(e, "arith.shrui", convert(e, "arith.bitcast", v, "f32", "i32"), 16),
                   "i32", "i16");
  case NN_F16: return convert(e, "arith.truncf", v, "f32", "f16");
  default: return v;
  }
}

// What masked lanes of a load hold.
static Value memory_zero(Emitter *e, NnDtype dtype) {
  if (!nn_dtype_is_narrow(dtype)) return emit_splat(e, dtype == NN_I1 ? NN_U8 : dtype, 0);
  return emit_constant(e, "dense<%s> : %s", dtype == NN_F16 ? "0.0" : "0", vector_memory_type(e, dtype).text);
}

// Bytes that an access along the lanes is a multiple of. The first lane's index is a multiple of the lanes wherever
// `aligned` is set.
static int access_align(const Emitter *e, int buffer, NnDtype dtype, const Access *a) {
  int64_t bytes = e->lanes * nn_dtype_bytes(dtype);
  if (!e->aligned || !e->aligned[buffer] || e->lanes == 1 || a->offset % e->lanes) return 0;
  for (int g = 0; g < e->nest.n; g++)
    if (g != e->vector_group && a->stride[e->nest.axis[g]] % e->lanes) return 0;
  return bytes < 16 ? (int)bytes : 16;
}

// Bytes that an access of all lanes promises.
static int vector_align(const Emitter *e, NnDtype dtype) {
  int own = (int)nn_dtype_bytes(dtype), all = e->lanes * own;
  return !e->align ? own : e->align < all ? e->align : all;
}

// A memory vector at an address, all lanes or those under the mask.
static Value load_vector(Emitter *e, NnDtype dtype, Value address) {
  TypeName type = vector_memory_type(e, dtype);
  int align = vector_align(e, dtype);
  Value raw;
  if (e->mask < 0) {
    raw = emit(e, address.depth, "llvm.load", VALUES(address.id), "%% {alignment = %d : i64} : !buffer -> %s", align,
               type.text);
  } else {
    Value zero = memory_zero(e, dtype);
    raw = emit(e, address.depth, "llvm.intr.masked.load", VALUES(address.id, e->mask, zero.id),
               "%%, %%, %% {alignment = %d : i32} : (!buffer, vector<%dxi1>, %s) -> %s", align, e->lanes, type.text,
               type.text);
  }
  raw.varies = true;
  return raw;
}

static void store_vector(Emitter *e, NnDtype dtype, Value address, Value v) {
  TypeName type = vector_memory_type(e, dtype);
  int align = vector_align(e, dtype);
  if (e->mask < 0)
    emit_effect(e, "llvm.store", VALUES(v.id, address.id), "%%, %% {alignment = %d : i64} : %s, !buffer", align,
                type.text);
  else
    emit_effect(e, "llvm.intr.masked.store", VALUES(v.id, address.id, e->mask),
                "%%, %%, %% {alignment = %d : i32} : %s, vector<%dxi1> into !buffer", align, type.text, e->lanes);
}

static Value load_splat(Emitter *e, NnDtype dtype, Value address) {
  Value scalar = emit(e, address.depth, "llvm.load", VALUES(address.id), "%% {alignment = %d : i64} : !buffer -> %s",
                      (int)nn_dtype_bytes(dtype), element_type(dtype));
  return emit(e, scalar.depth, "vector.broadcast", VALUES(scalar.id), "%% : %s to %s", element_type(dtype),
              vector_memory_type(e, dtype).text);
}

// A core that is told where it will read next waits less for memory than with its own prefetcher alone: AdamW took 14 %
// less. Worth it for buffers that no cache near the core holds; an address behind the buffer does no harm.
static void fetch_ahead(Emitter *e, NnDtype dtype, const Access *a, Value address) {
  enum { AHEAD = 4096, LARGE = 2 << 20 };
  int64_t dense = 1;
  for (int g = e->nest.n - 1; g >= 0; g--) {
    if (a->stride[e->nest.axis[g]] != dense) return;
    dense *= e->nest.extent[g];
  }
  if (!e->fetch_ahead || dense * nn_dtype_bytes(dtype) < LARGE) return;
  Value next = emit(e, address.depth, "llvm.getelementptr", VALUES(address.id), "%%[%d] : (!buffer) -> !buffer, i8",
                    AHEAD);
  emit_effect(e, "\"llvm.intr.prefetch\"", VALUES(next.id),
              "(%%) <{rw = 0 : i32, hint = 3 : i32, cache = 1 : i32}> : (!buffer) -> ()");
}

Value emit_load_raw(Emitter *e, int buffer, NnDtype dtype, const Access *a) {
  bool vary;
  int64_t stride;
  Value offset = emit_offset(e, a, &vary, &stride);
  Value raw;
  if (!vary) {
    raw = load_splat(e, dtype, gep(e, buffer, dtype, offset));
  } else if (stride == 1) {
    e->align = access_align(e, buffer, dtype, a);
    Value address = gep(e, buffer, dtype, offset);
    raw = load_vector(e, dtype, address);
    e->align = 0;
    fetch_ahead(e, dtype, a, address);
  } else {
    TypeName type = vector_memory_type(e, dtype);
    Value addresses = gep_lanes(e, buffer, dtype, offset, stride), mask = all_lanes(e), zero = memory_zero(e, dtype);
    raw = emit(e, addresses.depth, "llvm.intr.masked.gather", VALUES(addresses.id, mask.id, zero.id),
               "%%, %%, %% {alignment = %d : i32} : (vector<%dx!buffer>, vector<%dxi1>, %s) -> %s",
               (int)nn_dtype_bytes(dtype), e->lanes, e->lanes, type.text, type.text);
    raw.varies = true;
  }
  return raw;
}

Value emit_load(Emitter *e, int buffer, NnDtype dtype, const Access *a) {
  Value tiled;
  if (e->load_tiled && e->load_tiled(e, buffer, a, &tiled)) return tiled;
  return emit_from_memory(e, dtype, emit_load_raw(e, buffer, dtype, a));
}

void emit_store(Emitter *e, int buffer, NnDtype dtype, const Access *a, Value v) {
  bool vary;
  int64_t stride;
  Value offset = emit_offset(e, a, &vary, &stride);
  require_promise(!vary || stride == 1, "a kernel result that is not contiguous along its lanes");
  e->align = vary ? access_align(e, buffer, dtype, a) : 0;
  emit_store_at(e, buffer, dtype, offset, v, !vary);
  e->align = 0;
}

Value emit_address(Emitter *e, int buffer, NnDtype dtype, Value offset) { return gep(e, buffer, dtype, offset); }

static Value load_address(Emitter *e, NnDtype dtype, Value address, bool one_lane) {
  return emit_from_memory(e, dtype, one_lane ? load_splat(e, dtype, address) : load_vector(e, dtype, address));
}

static void store_address(Emitter *e, NnDtype dtype, Value address, Value v, bool one_lane) {
  Value raw = emit_to_memory(e, dtype, v);
  // A mask of one lane is a scalar store: LLVM 22 writes too many bytes for a truncated vector stored under a constant
  // mask of one lane.
  if (!one_lane && !(e->mask >= 0 && e->valid == 1)) {
    store_vector(e, dtype, address, raw);
    return;
  }
  Value lane = emit(e, e->depth, "vector.extract", VALUES(raw.id), "%%[0] : %s from %s", element_type(dtype),
                    vector_memory_type(e, dtype).text);
  emit_effect(e, "llvm.store", VALUES(lane.id, address.id), "%%, %% {alignment = %d : i64} : %s, !buffer",
              (int)nn_dtype_bytes(dtype), element_type(dtype));
}

Value emit_load_at(Emitter *e, int buffer, NnDtype dtype, Value offset) {
  offset.depth = e->depth;   // not hoisted: the address may hold only under the conditions of this scope
  return load_address(e, dtype, gep(e, buffer, dtype, offset), false);
}

void emit_store_at(Emitter *e, int buffer, NnDtype dtype, Value offset, Value v, bool one_lane) {
  store_address(e, dtype, gep(e, buffer, dtype, offset), v, one_lane);
}

Value emit_bytes_on(Emitter *e, int buffer, int64_t bytes) {
  Value v = emit(e, 0, "llvm.getelementptr", VALUES(e->buffer[buffer]), "%%[#] : (!buffer) -> !buffer, i8");
  last_operation(e, 0)->constant = (Constant){.kind = CONSTANT_OFFSET, .value = bytes};
  return v;
}

static Value workspace_address(Emitter *e, NnDtype dtype, int64_t byte_offset, Value element) {
  Value base = emit_bytes_on(e, e->k->n_args + e->k->n_results, byte_offset);
  return emit(e, element.depth, "llvm.getelementptr", VALUES(base.id, element.id),
              "%%[%%] : (!buffer, i64) -> !buffer, %s", element_type(dtype));
}

Value emit_load_workspace(Emitter *e, NnDtype dtype, int64_t byte_offset, Value element, bool one_lane) {
  return load_address(e, dtype, workspace_address(e, dtype, byte_offset, element), one_lane);
}

void emit_store_workspace(Emitter *e, NnDtype dtype, int64_t byte_offset, Value element, Value v, bool one_lane) {
  store_address(e, dtype, workspace_address(e, dtype, byte_offset, element), v, one_lane);
}

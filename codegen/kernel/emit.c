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

static Value new_value(Emitter *e, int depth) { return (Value){e->next_id++, depth, false, false}; }

static void add_line(Emitter *e, int depth) {
  Text *t = &e->scope[depth].text;
  for (int i = 0; i <= depth; i++) text_append(t, "  ", 2);
}

Value emit(Emitter *e, int depth, const char *format, ...) {
  Value v = new_value(e, depth);
  add_line(e, depth);
  Text *t = &e->scope[depth].text;
  text_add(t, "%%v%d = ", v.id);
  va_list args;
  va_start(args, format);
  text_addv(t, format, args);
  va_end(args);
  text_append(t, "\n", 1);
  return v;
}

void emit_effect(Emitter *e, const char *format, ...) {
  add_line(e, e->depth);
  Text *t = &e->scope[e->depth].text;
  va_list args;
  va_start(args, format);
  text_addv(t, format, args);
  va_end(args);
  text_append(t, "\n", 1);
}

Value emit_constant(Emitter *e, const char *format, ...) {
  Text text = {0};
  va_list args;
  va_start(args, format);
  text_addv(&text, format, args);
  va_end(args);
  for (int i = 0; i < e->n_constants; i++)
    if (!strcmp(e->constants[i].text, text.data)) {
      text_free(&text);
      return e->constants[i].result;
    }
  if (e->n_constants == e->constant_capacity) {
    e->constant_capacity = e->constant_capacity ? 2 * e->constant_capacity : 16;
    e->constants = reallocate_array(e->constants, (size_t)e->constant_capacity, sizeof *e->constants);
  }
  Value v = emit(e, 0, "arith.constant %s", text.data);
  e->constants[e->n_constants++] = (ConstantMemo){text.data, v};
  return v;
}

Value emit_i64(Emitter *e, int64_t value) { return emit_constant(e, "%lld : i64", (long long)value); }

Value emit_index_with(Emitter *e, const char *op, Value a, int64_t b) { return emit_index(e, op, a, emit_i64(e, b)); }

Value emit_splat(Emitter *e, NnDtype dtype, double value) {
  TypeName type = vector_type(e, dtype);
  if (nn_dtype_wide(dtype) == NN_F32) {
    float f = (float)nn_dtype_round(dtype, value);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return emit_constant(e, "dense<0x%08X> : %s", bits, type.text);
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

Value emit_index(Emitter *e, const char *op, Value a, Value b) {
  Value v = emit(e, depth_max(a, b), "arith.%s %%v%d, %%v%d : i64", op, a.id, b.id);
  v.varies = a.varies || b.varies;
  return v;
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions and scopes

void emitter_begin(Emitter *e, KernelModule *module, const Kernel *k, const char *symbol, int n_buffers) {
  *e = (Emitter){
      .module = module, .k = k, .lanes = kernel_lanes(module, k), .vector_group = -1, .mask = -1, .next_id = 3};
  nest_build(k, &e->nest);
  e->buffer = allocate_array((size_t)n_buffers, sizeof *e->buffer);
  module->target.open(e, symbol, n_buffers);
}

void emitter_end(Emitter *e) { emitter_end_with(e, 0, NULL, NULL); }

void emitter_end_with(Emitter *e, int n, const Value *values, const TypeName *types) {
  assert(e->depth == 0);
  Text *out = &e->module->text;
  text_append(out, e->scope[0].head.data, e->scope[0].head.size);
  text_append(out, e->scope[0].text.data, e->scope[0].text.size);
  text_add(out, "  return");
  for (int i = 0; i < n; i++) text_add(out, "%s%%v%d", i ? ", " : " ", values[i].id);
  for (int i = 0; i < n; i++) text_add(out, "%s%s", i ? ", " : " : ", types[i].text);
  text_add(out, "\n}\n\n");
  for (int i = 0; i < MAX_SCOPES; i++) {
    text_free(&e->scope[i].head);
    text_free(&e->scope[i].text);
  }
  for (int i = 0; i < e->n_constants; i++) free(e->constants[i].text);
  free(e->constants);
  free(e->memo);
  free(e->offsets);
  free(e->buffer);
}

void block_begin(Emitter *e) {
  require_promise(e->depth + 1 < MAX_SCOPES, "loops nested too deeply");
  e->depth++;
  e->scope[e->depth].head.size = e->scope[e->depth].text.size = 0;
}

void block_end(Emitter *e) {
  int depth = e->depth--;
  Scope *inner = &e->scope[depth], *outer = &e->scope[depth - 1];
  text_append(&outer->text, inner->head.data, inner->head.size);
  text_append(&outer->text, inner->text.data, inner->text.size);
  int n = 0;
  for (int i = 0; i < e->n_memo; i++)
    if (e->memo[i].result.depth < depth) e->memo[n++] = e->memo[i];
  e->n_memo = n;
  n = 0;
  for (int i = 0; i < e->n_offsets; i++)
    if (e->offsets[i].result.depth < depth) e->offsets[n++] = e->offsets[i];
  e->n_offsets = n;
}

static void add_ids(Text *t, int n, const Value *v) {
  for (int i = 0; i < n; i++) text_add(t, "%s%%v%d", i ? ", " : "", v[i].id);
}

static void add_types(Text *t, int n, const TypeName *types) {
  for (int i = 0; i < n; i++) text_add(t, "%s%s", i ? ", " : "", types[i].text);
}

Value for_begin(Emitter *e, Value low, Value high, int64_t step, int n, const Value *init, const TypeName *types,
                Value *args) {
  Value by = emit_i64(e, step);
  block_begin(e);
  Value index = new_value(e, e->depth);
  Text *t = &e->scope[e->depth].head;
  text_add(t, "scf.for %%v%d = %%v%d to %%v%d step %%v%d", index.id, low.id, high.id, by.id);
  if (n) {
    text_add(t, " iter_args(");
    for (int i = 0; i < n; i++) {
      args[i] = new_value(e, e->depth);
      args[i].varies = init[i].varies;
      text_add(t, "%s%%v%d = %%v%d", i ? ", " : "", args[i].id, init[i].id);
    }
    text_add(t, ") -> (");
    add_types(t, n, types);
    text_add(t, ")");
  }
  text_add(t, " : i64 {\n");
  return index;
}

void for_end(Emitter *e, int n, const Value *yield, const TypeName *types, Value *results) {
  int depth = e->depth;
  if (n) {
    add_line(e, depth);
    Text *t = &e->scope[depth].text;
    text_add(t, "scf.yield ");
    add_ids(t, n, yield);
    text_add(t, " : ");
    add_types(t, n, types);
    text_add(t, "\n");
    add_line(e, depth - 1);
    for (int i = 0; i < n; i++) {
      bool varies = yield[i].varies;
      results[i] = new_value(e, depth - 1);
      results[i].varies = varies;
    }
    add_ids(&e->scope[depth - 1].text, n, results);
    text_add(&e->scope[depth - 1].text, " = ");
  } else {
    add_line(e, depth - 1);
  }
  block_end(e);
  add_line(e, e->depth);
  text_add(&e->scope[e->depth].text, "}\n");
}

void if_begin(Emitter *e, Value condition) {
  block_begin(e);
  text_add(&e->scope[e->depth].head, "scf.if %%v%d", condition.id);
}

void if_end(Emitter *e, int n, const Value *then_values, const Value *else_values, const TypeName *types,
            Value *results) {
  int depth = e->depth;
  Text *outer = &e->scope[depth - 1].text, *head = &e->scope[depth].head, *t = &e->scope[depth].text;
  add_line(e, depth - 1);
  if (n) {
    text_add(head, " -> (");
    add_types(head, n, types);
    text_add(head, ")");
    for (int branch = 0; branch < 2; branch++) {
      text_add(t, "%sscf.yield ", branch ? "} else {\n" : "");
      add_ids(t, n, branch ? else_values : then_values);
      text_add(t, " : ");
      add_types(t, n, types);
      text_add(t, "\n");
    }
    for (int i = 0; i < n; i++) {
      bool varies = then_values[i].varies;
      results[i] = new_value(e, depth - 1);
      results[i].varies = varies;
    }
    add_ids(outer, n, results);
    text_add(outer, " = ");
  }
  text_add(head, " {\n");
  block_end(e);
  add_line(e, e->depth);
  text_add(&e->scope[e->depth].text, "}\n");
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
  if (g == e->vector_group) return (Value){e->vector_index[e->tile], e->index_depth[g], true, false};
  return (Value){e->index_id[g], e->index_depth[g], false, false};
}

Value emit_offset(Emitter *e, const Access *a, bool *lanes_vary, int64_t *lane_stride) {
  int64_t s = e->vector_group >= 0 ? a->stride[e->nest.axis[e->vector_group]] : 0;
  *lane_stride = s;
  *lanes_vary = s != 0;
  for (int i = 0; i < e->n_offsets; i++) {
    const OffsetMemo *m = &e->offsets[i];
    if (memcmp(&m->access, a, sizeof *a) == 0 && (!m->lanes || m->tile == e->tile)) return m->result;
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
  if (e->n_offsets == e->offset_capacity) {
    e->offset_capacity = e->offset_capacity ? 2 * e->offset_capacity : 16;
    e->offsets = reallocate_array(e->offsets, (size_t)e->offset_capacity, sizeof *e->offsets);
  }
  e->offsets[e->n_offsets++] = (OffsetMemo){*a, e->tile, s != 0, sum};
  return sum;
}

Value emit_lane_indices(Emitter *e, Value first, int64_t stride, bool wide) {
  const char *type = wide ? "i64" : "i32";
  Value scalar = wide ? first : emit(e, first.depth, "arith.trunci %%v%d : i64 to i32", first.id);
  Value splat = emit(e, first.depth, "vector.broadcast %%v%d : %s to vector<%dx%s>", scalar.id, type, e->lanes, type);
  splat.varies = first.varies;
  if (!stride) return splat;
  Text t = {0};
  for (int i = 0; i < e->lanes; i++) text_add(&t, "%s%lld", i ? "," : "", (long long)(i * stride));
  Value steps = emit_constant(e, "dense<[%s]> : vector<%dx%s>", t.data, e->lanes, type);
  text_free(&t);
  Value v = emit(e, first.depth, "arith.addi %%v%d, %%v%d : vector<%dx%s>", splat.id, steps.id, e->lanes, type);
  v.varies = true;
  return v;
}

static Value all_lanes(Emitter *e) {
  return e->mask >= 0 ? (Value){e->mask, 0, false, false} : emit_constant(e, "dense<true> : vector<%dxi1>", e->lanes);
}

static Value gep(Emitter *e, int buffer, NnDtype dtype, Value offset) {
  return emit(e, offset.depth, "llvm.getelementptr %%v%d[%%v%d] : (!buffer, i64) -> !buffer, %s", e->buffer[buffer],
              offset.id, element_type(dtype));
}

static Value gep_lanes(Emitter *e, int buffer, NnDtype dtype, Value first, int64_t stride) {
  Value indices = emit_lane_indices(e, first, stride, true);
  return emit(e, indices.depth, "llvm.getelementptr %%v%d[%%v%d] : (!buffer, vector<%dxi64>) -> vector<%dx!buffer>, %s",
              e->buffer[buffer], indices.id, e->lanes, e->lanes, element_type(dtype));
}

// Vectors of 32-bit words: a bf16 is the upper half of an f32.
static Value bits(Emitter *e, const char *op, Value a, Value b) {
  Value v = emit(e, depth_max(a, b), "arith.%s %%v%d, %%v%d : vector<%dxi32>", op, a.id, b.id, e->lanes);
  v.varies = a.varies || b.varies;
  return v;
}

static Value bits_with(Emitter *e, const char *op, Value a, uint32_t b) {
  return bits(e, op, a, emit_constant(e, "dense<0x%08X> : vector<%dxi32>", b, e->lanes));
}

static Value convert(Emitter *e, const char *op, Value x, const char *from, const char *to) {
  Value v = emit(e, x.depth, "arith.%s %%v%d : vector<%dx%s> to vector<%dx%s>", op, x.id, e->lanes, from, e->lanes, to);
  v.varies = x.varies;
  return v;
}

Value emit_round(Emitter *e, NnDtype dtype, Value x) {
  if (dtype == NN_F16) return convert(e, "extf", convert(e, "truncf", x, "f32", "f16"), "f16", "f32");
  if (dtype != NN_BF16) return x;
  if (e->module->target.round_bf16) return e->module->target.round_bf16(e, x);
  // In integers: not every machine has instructions for it, and those of some flush subnormal numbers.
  Value whole = convert(e, "bitcast", x, "f32", "i32"), odd = bits_with(e, "andi", bits_with(e, "shrui", whole, 16), 1);
  Value rounded = bits_with(e, "andi", bits(e, "addi", bits_with(e, "addi", whole, 0x7fff), odd), 0xffff0000u);
  Value nan = emit_compare(e, "ne", x, x, NN_F32);   // rounding up could run over
  return emit_select(e, nan, emit_splat(e, NN_F32, NAN), convert(e, "bitcast", rounded, "i32", "f32"), NN_F32);
}

Value emit_from_memory(Emitter *e, NnDtype dtype, Value raw) {
  switch (dtype) {
  case NN_I1: {
    Value zero = emit_splat(e, NN_U8, 0);
    Value v = emit(e, raw.depth, "arith.cmpi ne, %%v%d, %%v%d : vector<%dxi8>", raw.id, zero.id, e->lanes);
    v.varies = raw.varies;
    return v;
  }
  case NN_BF16:
    return convert(e, "bitcast", bits_with(e, "shli", convert(e, "extui", raw, "i16", "i32"), 16), "i32", "f32");
  case NN_F16: return convert(e, "extf", raw, "f16", "f32");
  default: return raw;
  }
}

Value emit_to_memory(Emitter *e, NnDtype dtype, Value v) {
  switch (dtype) {
  case NN_I1: return convert(e, "extui", v, "i1", "i8");
  case NN_BF16:
    return convert(e, "trunci", bits_with(e, "shrui", convert(e, "bitcast", v, "f32", "i32"), 16), "i32", "i16");
  case NN_F16: return convert(e, "truncf", v, "f32", "f16");
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
    raw = emit(e, address.depth, "llvm.load %%v%d {alignment = %d : i64} : !buffer -> %s", address.id, align,
               type.text);
  } else {
    Value zero = memory_zero(e, dtype);
    raw = emit(e, address.depth,
               "llvm.intr.masked.load %%v%d, %%v%d, %%v%d {alignment = %d : i32} : (!buffer, vector<%dxi1>, %s) -> %s",
               address.id, e->mask, zero.id, align, e->lanes, type.text, type.text);
  }
  raw.varies = true;
  return raw;
}

static void store_vector(Emitter *e, NnDtype dtype, Value address, Value v) {
  TypeName type = vector_memory_type(e, dtype);
  int align = vector_align(e, dtype);
  if (e->mask < 0)
    emit_effect(e, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !buffer", v.id, address.id, align, type.text);
  else
    emit_effect(e, "llvm.intr.masked.store %%v%d, %%v%d, %%v%d {alignment = %d : i32} : %s, vector<%dxi1> into !buffer",
                v.id, address.id, e->mask, align, type.text, e->lanes);
}

static Value load_splat(Emitter *e, NnDtype dtype, Value address) {
  Value scalar = emit(e, address.depth, "llvm.load %%v%d {alignment = %d : i64} : !buffer -> %s", address.id,
                      (int)nn_dtype_bytes(dtype), element_type(dtype));
  return emit(e, scalar.depth, "vector.broadcast %%v%d : %s to %s", scalar.id, element_type(dtype),
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
  Value next = emit(e, address.depth, "llvm.getelementptr %%v%d[%d] : (!buffer) -> !buffer, i8", address.id, AHEAD);
  emit_effect(e, "\"llvm.intr.prefetch\"(%%v%d) <{rw = 0 : i32, hint = 3 : i32, cache = 1 : i32}> : (!buffer) -> ()",
              next.id);
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
    raw = emit(e, addresses.depth,
               "llvm.intr.masked.gather %%v%d, %%v%d, %%v%d {alignment = %d : i32} : (vector<%dx!buffer>, "
               "vector<%dxi1>, %s) -> %s",
               addresses.id, mask.id, zero.id, (int)nn_dtype_bytes(dtype), e->lanes, e->lanes, type.text, type.text);
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
  Value lane = emit(e, e->depth, "vector.extract %%v%d[0] : %s from %s", raw.id, element_type(dtype),
                    vector_memory_type(e, dtype).text);
  emit_effect(e, "llvm.store %%v%d, %%v%d {alignment = %d : i64} : %s, !buffer", lane.id, address.id,
              (int)nn_dtype_bytes(dtype), element_type(dtype));
}

Value emit_load_at(Emitter *e, int buffer, NnDtype dtype, Value offset, bool one_lane) {
  offset.depth = e->depth;   // not hoisted: the address may hold only under the conditions of this scope
  return load_address(e, dtype, gep(e, buffer, dtype, offset), one_lane);
}

void emit_store_at(Emitter *e, int buffer, NnDtype dtype, Value offset, Value v, bool one_lane) {
  store_address(e, dtype, gep(e, buffer, dtype, offset), v, one_lane);
}

static Value workspace_address(Emitter *e, NnDtype dtype, int64_t byte_offset, Value element) {
  int buffer = e->k->n_args + e->k->n_results;
  Value base = emit(e, 0, "llvm.getelementptr %%v%d[%lld] : (!buffer) -> !buffer, i8", e->buffer[buffer],
                    (long long)byte_offset);
  return emit(e, element.depth, "llvm.getelementptr %%v%d[%%v%d] : (!buffer, i64) -> !buffer, %s", base.id, element.id,
              element_type(dtype));
}

Value emit_load_workspace(Emitter *e, NnDtype dtype, int64_t byte_offset, Value element, bool one_lane) {
  return load_address(e, dtype, workspace_address(e, dtype, byte_offset, element), one_lane);
}

void emit_store_workspace(Emitter *e, NnDtype dtype, int64_t byte_offset, Value element, Value v, bool one_lane) {
  store_address(e, dtype, workspace_address(e, dtype, byte_offset, element), v, one_lane);
}

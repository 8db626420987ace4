// What the schedules of kernels on a GPU share: functions, indices of threads, barriers and shuffles.
#include <stdlib.h>

#include "codegen/gpu/schedule.h"
#include "support/alloc.h"
#include "support/text.h"

static void open_function(Emitter *e, int n_buffers) {
  for (int i = 0; i < n_buffers; i++) e->buffer[i] = emit_argument(e, "!buffer");
}

KernelTarget schedule_target(const GpuFamily *family) {
  return (KernelTarget){.pointer = family->pointer, .gpu = family, .vector_bytes = 4, .open = open_function};
}

void schedule_begin(Emitter *e, GpuModule *m, const Kernel *k, const char *symbol, int n_buffers) {
  emitter_begin(e, &m->m, k, symbol, n_buffers);
  e->aligned = m->aligned;
  e->valid = e->lanes;
}

// What stands behind the operation's name in a call of a basic, and its operands.
typedef struct Call {
  char *rest;   // Owned
  int n, id[8];
} Call;

static Call call_of(Emitter *e, GpuBasic which, Values operands) {
  const GpuFamily *gpu = e->module->target.gpu;
  const GpuIntrinsic *i = &gpu->basic[which];
  require_promise(i->name, "a basic that the GPU's family lacks");
  Call c = {0};
  Text t = {0};
  text_add(&t, "\"%s\"(", i->name);
  for (const char *o = i->operands; *o; o++) {
    text_add(&t, "%s%%", c.n ? ", " : "");
    c.id[c.n++] = *o == 'a'   ? emit_i32(e, -1).id
                  : *o == 'z' ? emit_i32(e, 0).id
                  : *o == 'l' ? emit_i32(e, gpu->last_lane).id
                              : operands.id[*o - '0'];
  }
  text_add(&t, ") : %s", i->type);
  c.rest = t.data;
  return c;
}

Value schedule_basic(Emitter *e, int depth, GpuBasic which, Values operands) {
  Call c = call_of(e, which, operands);
  Value v = emit(e, depth, "llvm.call_intrinsic", (Values){c.n, c.id}, "%s", c.rest);
  free(c.rest);
  return v;
}

static void basic_effect(Emitter *e, GpuBasic which) {
  Call c = call_of(e, which, NO_VALUES);
  emit_effect(e, "llvm.call_intrinsic", (Values){c.n, c.id}, "%s", c.rest);
  free(c.rest);
}

void schedule_barrier(Emitter *e) { basic_effect(e, GPU_BARRIER); }
void schedule_warp_barrier(Emitter *e) { basic_effect(e, GPU_WARP_BARRIER); }

Value schedule_number32(Emitter *e, GpuBasic which) { return emit_bounded(e, schedule_basic(e, 0, which, NO_VALUES)); }

Value schedule_number(Emitter *e, GpuBasic which) {
  return emit(e, 0, "arith.extui", VALUES(schedule_number32(e, which).id), "%% : i32 to i64");
}

// In 32 bits where that is enough: divisions of it by constants are then 32-bit ones too.
Value schedule_linear(Emitter *e, int64_t threads, int64_t total) {
  int bits = total < INT32_MAX - threads ? 32 : 64;
  Value thread = schedule_number32(e, GPU_THREAD_X), block = schedule_number32(e, GPU_BLOCK_X);
  if (bits == 64) {
    thread = emit(e, 0, "arith.extui", VALUES(thread.id), "%% : i32 to i64");
    block = emit(e, 0, "arith.extui", VALUES(block.id), "%% : i32 to i64");
  }
  Value first = emit_integers(e, bits, "muli", block, emit_integer(e, bits, threads)),
        p = emit_integers(e, bits, "addi", first, thread);
  return bits == 64 ? p : emit(e, 0, "arith.extui", VALUES(p.id), "%% : i32 to i64");
}

void schedule_launch(EmittedKernel *out, char *symbol, int64_t blocks, int64_t x, int64_t y) {
  *ARRAY_ADD(out->launches,
             out->n_launches) = (KernelLaunch){.symbol = symbol, .grid = {blocks, 1, 1}, .block = {x, y, 1}};
}

void schedule_forget(Emitter *e, int lanes) {
  e->n_memo = e->n_offsets = 0;
  e->lanes = e->valid = lanes;
}

// ---------------------------------------------------------------------------------------------------------------------

// n_uneven: accesses whose rows do not begin at multiples of 8 elements
typedef struct LaneCheck {
  int axis;
  bool ok;
  int64_t widest;
  const Nest *nest;
  bool narrow;
  int n_uneven;
} LaneCheck;

static void check_access(void *user, int arg, MlirValue value, const Access *a) {
  LaneCheck *c = user;
  int64_t stride = a->stride[c->axis], bytes = nn_dtype_bytes(nn_value_dtype(value));
  if (arg >= 0 && stride != 0 && stride != 1) c->ok = false;
  bool uneven = a->offset % 8, again = false;
  for (int g = 0; g + 1 < c->nest->n; g++) {
    int64_t outer = a->stride[c->nest->axis[g]];
    uneven |= outer % 8 != 0;
    again |= outer == 0 && c->nest->extent[g] > 1;
  }
  if (stride && !(again && c->narrow) && bytes > c->widest) c->widest = bytes;
  c->n_uneven += stride && uneven;
}

// At most 4 or, for elements of two bytes (`narrow`), 8. Wider operands that are read again for every row, such as one
// for each channel, do not count then: they are in a cache.
static int lanes_of(const Kernel *k, const Nest *nest, bool narrow) {
  if (!nest->n) return 1;
  LaneCheck c = {.axis = nest->axis[nest->n - 1], .ok = true, .widest = narrow ? 2 : 4, .nest = nest, .narrow = narrow};
  kernel_walk_all_leaves(k, check_access, &c);
  int64_t extent = nest->extent[nest->n - 1];
  int lanes = (int)(16 / c.widest);
  if (!c.ok || (lanes > 4 && c.n_uneven)) return 1;
  return extent % lanes == 0 || (nest->n == 1 && extent > 4 * lanes) ? lanes : 1;
}

int schedule_lanes(const Kernel *k, const Nest *nest) { return lanes_of(k, nest, false); }

int schedule_map_lanes(const Kernel *k, const Nest *nest) {
  int lanes = lanes_of(k, nest, true);
  return lanes > 4 ? lanes : lanes_of(k, nest, false);
}

// ---------------------------------------------------------------------------------------------------------------------

static Value shuffle_word(Emitter *e, Value word, int distance) {
  return schedule_basic(e, e->depth, GPU_SHUFFLE_XOR, VALUES(word.id, emit_i32(e, distance).id));
}

// As words of 32 bits.
Value schedule_shuffle_xor(Emitter *e, NnDtype dtype, Value x, int distance) {
  int bytes = (int)nn_dtype_bytes(nn_dtype_wide(dtype));
  TypeName type = vector_type(e, dtype);
  if (bytes < 4) {
    const char *element = dtype == NN_I1 ? "i1" : "i8";
    Value scalar = emit(e, e->depth, "vector.extract", VALUES(x.id), "%%[0] : %s from %s", element, type.text);
    Value wide = shuffle_word(e, emit(e, e->depth, "arith.extui", VALUES(scalar.id), "%% : %s to i32", element),
                              distance);
    return emit(e, e->depth, "vector.broadcast",
                VALUES(emit(e, e->depth, "arith.trunci", VALUES(wide.id), "%% : i32 to %s", element).id),
                "%% : %s to %s", element, type.text);
  }
  int words = bytes / 4;
  Value bits = emit(e, e->depth, "vector.bitcast", VALUES(x.id), "%% : %s to vector<%dxi32>", type.text, words),
        out = bits;
  for (int i = 0; i < words; i++) {
    Value word = emit(e, e->depth, "vector.extract", VALUES(bits.id), "%%[%d] : i32 from vector<%dxi32>", i, words);
    out = emit(e, e->depth, "vector.insert", VALUES(shuffle_word(e, word, distance).id, out.id),
               "%%, %% [%d] : i32 into vector<%dxi32>", i, words);
  }
  return emit(e, e->depth, "vector.bitcast", VALUES(out.id), "%% : vector<%dxi32> to %s", words, type.text);
}

// ---------------------------------------------------------------------------------------------------------------------
// Arrays in shared memory

Value schedule_shared(Emitter *e, const char *array, Value index, const char *element) {
  Value base = emit(e, 0, "llvm.mlir.addressof", NO_VALUES, "$%s : !llvm.ptr<3>", array);
  return emit(e, e->depth, "llvm.getelementptr", VALUES(base.id, index.id),
              "%%[%%] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, %s", element);
}

static int alignment(const Emitter *e, NnDtype dtype) {
  int bytes = e->lanes * (int)nn_dtype_bytes(dtype);
  return bytes > 16 ? 16 : bytes;
}

void schedule_shared_store(Emitter *e, const char *array, NnDtype dtype, Value index, Value v) {
  if (dtype == NN_I1)
    v = emit(e, e->depth, "arith.extui", VALUES(v.id), "%% : vector<%dxi1> to vector<%dxi8>", e->lanes, e->lanes);
  Value at = schedule_shared(e, array, index, element_type(dtype));
  emit_effect(e, "llvm.store", VALUES(v.id, at.id), "%%, %% {alignment = %d : i64} : %s, !llvm.ptr<3>",
              alignment(e, dtype), vector_memory_type(e, dtype).text);
}

Value schedule_shared_load(Emitter *e, const char *array, NnDtype dtype, Value index) {
  Value at = schedule_shared(e, array, index, element_type(dtype));
  Value raw = emit(e, e->depth, "llvm.load", VALUES(at.id), "%% {alignment = %d : i64} : !llvm.ptr<3> -> %s",
                   alignment(e, dtype), vector_memory_type(e, dtype).text);
  return dtype == NN_I1 ? emit(e, e->depth, "arith.trunci", VALUES(raw.id), "%% : vector<%dxi8> to vector<%dxi1>",
                               e->lanes, e->lanes)
                        : raw;
}

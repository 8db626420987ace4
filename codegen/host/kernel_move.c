// Move kernels: one op each, an own loop nest. Here pad, concat, gather and scatter_add, which copy runs of elements.
#include <math.h>

#include "codegen/host/host.h"
#include "codegen/kernel/move.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

#define COPY_BLOCK 16384

static Value begin_move_kernel(Emitter *e, KernelModule *m, const Kernel *k, const char *symbol) {
  emitter_begin(e, m, k, symbol, k->n_args + k->n_results);
  e->valid = e->lanes;
  return for_begin(e, (Value){1, 0, false}, (Value){2, 0, false}, 1, 0, NULL, NULL, NULL);
}

static void end_move_kernel(Emitter *e) {
  for_end(e, 0, NULL, NULL, NULL);
  emitter_end(e);
}

static void copy_bytes(Emitter *e, int to, Value to_offset, int from, Value from_offset, NnDtype dtype, Value bytes) {
  Value d = emit_address(e, to, dtype, to_offset), s = emit_address(e, from, dtype, from_offset);
  emit_effect(e, "\"llvm.intr.memcpy\"", VALUES(d.id, s.id, bytes.id),
              "(%%, %%, %%) <{isVolatile = false}> : (!buffer, !buffer, i64) -> ()");
}

static void copy_run(Emitter *e, int to, Value to_offset, int from, Value from_offset, NnDtype dtype, int64_t count) {
  if (count > 0) copy_bytes(e, to, to_offset, from, from_offset, dtype, emit_i64(e, count * nn_dtype_bytes(dtype)));
}

// Stores v into `count` elements from `offset` on.
static void fill_run(Emitter *e, int buffer, Value offset, NnDtype dtype, int64_t count, Value v) {
  int rest = (int)(count % e->lanes);
  if (count >= e->lanes) {
    Value i = for_begin(e, emit_i64(e, 0), emit_i64(e, count - rest), e->lanes, 0, NULL, NULL, NULL);
    emit_store_at(e, buffer, dtype, emit_index(e, "addi", offset, i), v, false);
    for_end(e, 0, NULL, NULL, NULL);
  }
  if (rest <= 0) return;
  emit_set_mask(e, rest);
  emit_store_at(e, buffer, dtype, emit_index_with(e, "addi", offset, count - rest), v, false);
  emit_set_mask(e, e->lanes);
}

static void pad_copy_row(Emitter *e, const Pad *pad, Value to, Value from) {
  NnDtype dtype = pad->y->dtype;
  int a = pad->axis;
  int64_t x = pad->x->dim[a], y = pad->y->dim[a], step = pad->interior[a] + 1, low = pad->low[a];
  if (step == 1) {
    int64_t first = larger(0, -low), at = larger(0, low), n = larger(0, smaller(x - first, y - at));
    copy_run(e, 0 + e->k->n_args, emit_index_with(e, "addi", to, at * pad->inner), 0,
             emit_index_with(e, "addi", from, first * pad->inner), dtype, n * pad->inner);
    return;
  }
  int64_t first = low >= 0 ? 0 : divide_up(-low, step),
          last = y - 1 - low >= 0 ? smaller(x - 1, (y - 1 - low) / step) : -1;
  if (last < first) return;
  Value i = for_begin(e, emit_i64(e, first), emit_i64(e, last + 1), 1, 0, NULL, NULL, NULL);
  Value at = emit_index_with(e, "addi", emit_index_with(e, "muli", i, step), low);
  copy_run(e, e->k->n_args, emit_index(e, "addi", to, emit_index_with(e, "muli", at, pad->inner)), 0,
           emit_index(e, "addi", from, emit_index_with(e, "muli", i, pad->inner)), dtype, pad->inner);
  for_end(e, 0, NULL, NULL, NULL);
}

static void emit_pad(KernelModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Pad pad = pad_read(k, op);
  NnDtype dtype = pad.y->dtype;
  int64_t rows = move_product(pad.y->dim, 0, pad.axis), row = pad.y->dim[pad.axis] * pad.inner;
  kernel_comment(m, k, "outer loop: rows of the last padded axis");
  Emitter e;
  Value p = begin_move_kernel(&e, m, k, k->name);
  Value to = emit_index_with(&e, "muli", p, row), valid, from = pad_source_row(&e, &pad, p, &valid);
  fill_run(&e, k->n_args, to, dtype, row, emit_splat(&e, dtype, nn_attr_f64(op, "value", 0)));
  if_begin(&e, valid);
  pad_copy_row(&e, &pad, to, from);
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  end_move_kernel(&e);
  kernel_add_launch(out, copy_string(k->name), rows, (double)row);
}

// concat: one launch per operand, which copies its runs.
static void emit_concat(KernelModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  const NnType *y = &k->result_type[0];
  int axis = (int)nn_attr_i64(op, "axis", 0);
  int64_t inner = move_product(y->dim, axis + 1, y->rank), outer = move_product(y->dim, 0, axis),
          row = y->dim[axis] * inner, at = 0;
  kernel_comment(m, k, "one launch per operand; outer loop: rows x blocks of the joined axis");
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    int arg = nn_value_index(mlirOperationGetOperand(op, i));
    int64_t run = k->arg[arg].dim[axis] * inner, blocks = divide_up(run, COPY_BLOCK);
    char *symbol = i ? text_format("%s_launch%d", k->name, (int)i) : copy_string(k->name);
    Emitter e;
    Value p = begin_move_kernel(&e, m, k, symbol), bytes = emit_i64(&e, run * nn_dtype_bytes(y->dtype));
    Value r = emit_index_with(&e, "divui", p, blocks), block = emit_index_with(&e, "remui", p, blocks);
    Value first = emit_index_with(&e, "muli", block, COPY_BLOCK);
    if (blocks > 1) {
      Value count = emit_index_with(&e, "minsi", emit_index(&e, "subi", emit_i64(&e, run), first), COPY_BLOCK);
      bytes = emit_index_with(&e, "muli", count, nn_dtype_bytes(y->dtype));
    }
    Value to = emit_index_with(&e, "addi", emit_index(&e, "addi", emit_index_with(&e, "muli", r, row), first), at);
    copy_bytes(&e, k->n_args, to, arg, emit_index(&e, "addi", emit_index_with(&e, "muli", r, run), first), y->dtype,
               bytes);
    end_move_kernel(&e);
    kernel_add_launch(out, symbol, outer * blocks, (double)smaller(run, COPY_BLOCK));
    at += run;
  }
}

static void emit_gather(KernelModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  int table = nn_value_index(mlirOperationGetOperand(op, 0)), indices = nn_value_index(mlirOperationGetOperand(op, 1));
  const NnType *t = &k->arg[table];
  int64_t row = move_product(t->dim, 1, t->rank), n = nn_type_elements(&k->arg[indices]);
  kernel_comment(m, k, "outer loop: indices, clamped to the table");
  Emitter e;
  Value p = begin_move_kernel(&e, m, k, k->name);
  Value index = move_load_index(&e, indices, k->arg[indices].dtype, p);
  index = emit_index_with(&e, "minsi", emit_index_with(&e, "maxsi", index, 0), t->dim[0] - 1);
  copy_run(&e, k->n_args, emit_index_with(&e, "muli", p, row), table, emit_index_with(&e, "muli", index, row), t->dtype,
           row);
  end_move_kernel(&e);
  kernel_add_launch(out, copy_string(k->name), n, (double)row);
}

static void step_row(Emitter *e, RowStep step, int source, Value to, Value from, NnDtype dtype, int64_t count) {
  int rest = (int)(count % e->lanes);
  for (int part = 0; part < 2; part++) {
    if (part ? !rest : count < e->lanes) continue;
    Value i = emit_i64(e, count - rest);
    if (part) emit_set_mask(e, rest);
    else i = for_begin(e, emit_i64(e, 0), i, e->lanes, 0, NULL, NULL, NULL);
    Value d = emit_index(e, "addi", to, i);
    emit_store_at(e, e->k->n_args, dtype, d, row_value(e, step, source, dtype, d, emit_index(e, "addi", from, i)),
                  false);
    if (part) emit_set_mask(e, e->lanes);
    else for_end(e, 0, NULL, NULL, NULL);
  }
}

// The same on all rows [first, first + count) that an outer iteration owns.
static void step_rows(Emitter *e, RowStep step, Value first, Value count, NnDtype dtype, int64_t row) {
  Value r = for_begin(e, emit_i64(e, 0), count, 1, 0, NULL, NULL, NULL);
  Value to = emit_index_with(e, "muli", emit_index(e, "addi", first, r), row);
  step_row(e, step, 0, to, to, dtype, row);
  for_end(e, 0, NULL, NULL, NULL);
}

// The rows that an outer iteration owns, before anything is added: zero, or those of operand 2 unless the result lies
// over it.
static void emit_first_rows(Emitter *e, const Kernel *k, MlirOperation op, NnDtype dtype, Value element, Value bytes) {
  Value to = emit_address(e, k->n_args, dtype, element);
  if (nn_op_of(op) == NN_OP_scatter_add) {
    Value zero = emit_constant(e, "0 : i8");
    emit_effect(e, "\"llvm.intr.memset\"", VALUES(to.id, zero.id, bytes.id),
                "(%%, %%, %%) <{isVolatile = false}> : (!buffer, i8, i64) -> ()");
    return;
  }
  Value from = emit_address(e, nn_value_index(mlirOperationGetOperand(op, 2)), dtype, element);
  Value to_number = emit(e, e->depth, "llvm.ptrtoint", VALUES(to.id), "%% : !buffer to i64"),
        from_number = emit(e, e->depth, "llvm.ptrtoint", VALUES(from.id), "%% : !buffer to i64");
  if_begin(e, emit_index_compare(e, "ne", to_number, from_number));
  emit_effect(e, "\"llvm.intr.memcpy\"", VALUES(to.id, from.id, bytes.id),
              "(%%, %%, %%) <{isVolatile = false}> : (!buffer, !buffer, i64) -> ()");
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

// scatter_add, scatter_add_to and scatter_max: an outer iteration owns a range of the table's rows: it sets them, then
// goes through all indices in order and adds what falls into its range, so that the order of additions is that of the
// indices. A maximum starts from the lowest number.
static void emit_scatter_add(KernelModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  int source = nn_value_index(mlirOperationGetOperand(op, 0)), indices = nn_value_index(mlirOperationGetOperand(op, 1));
  const NnType *t = &k->result_type[0];
  int64_t rows = t->dim[0], row = move_product(t->dim, 1, t->rank), n = nn_type_elements(&k->arg[indices]);
  int64_t ranges = smaller(rows, row < 64 ? 8 : 32), size = divide_up(rows, ranges);
  ranges = divide_up(rows, size);
  kernel_comment(m, k, "outer loop: ranges of the table's rows; each goes through all indices");
  Emitter e;
  Value p = begin_move_kernel(&e, m, k, k->name);
  Value first = emit_index_with(&e, "muli", p, size),
        count = emit_index_with(&e, "minsi", emit_index(&e, "subi", emit_i64(&e, rows), first), size);
  bool max = nn_op_of(op) == NN_OP_scatter_max;
  if (max) step_rows(&e, ROW_LOWEST, first, count, t->dtype, row);
  else
    emit_first_rows(&e, k, op, t->dtype, emit_index_with(&e, "muli", first, row),
                    emit_index_with(&e, "muli", count, row * nn_dtype_bytes(t->dtype)));
  Value i = for_begin(&e, emit_i64(&e, 0), emit_i64(&e, n), 1, 0, NULL, NULL, NULL);
  Value index = move_load_index(&e, indices, k->arg[indices].dtype, i), within = emit_index(&e, "subi", index, first);
  Value mine = emit_index_compare(&e, "ult", within, count);
  if_begin(&e, mine);
  Value target = emit_index_with(&e, "muli", index, row), from = emit_index_with(&e, "muli", i, row);
  step_row(&e, max ? ROW_MAX : ROW_ADD, source, target, from, t->dtype, row);
  if_end(&e, 0, NULL, NULL, NULL, NULL);
  for_end(&e, 0, NULL, NULL, NULL);
  if (max) step_rows(&e, ROW_LOWEST_TO_ZERO, first, count, t->dtype, row);
  end_move_kernel(&e);
  kernel_add_launch(out, copy_string(k->name), ranges, (double)(size * row) + (double)n);
}

void kernel_emit_move(KernelModule *m, const Kernel *k, EmittedKernel *out) {
  MlirOperation op = move_op(k);
  switch (nn_op_of(op)) {
  case NN_OP_pad: emit_pad(m, k, op, out); break;
  case NN_OP_concat: emit_concat(m, k, op, out); break;
  case NN_OP_gather: emit_gather(m, k, op, out); break;
  case NN_OP_scatter_add:
  case NN_OP_scatter_add_to:
  case NN_OP_scatter_max: emit_scatter_add(m, k, op, out); break;
  case NN_OP_argmax: kernel_emit_argmax(m, k, op, out); break;
  default: kernel_emit_pool(m, k, op, out); break;
  }
}

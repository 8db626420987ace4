// Move kernels over windows: pooling and its gradients; and argmax.
//
// Channels run over the lanes when they are innermost; in nchw the kernel is the same with one lane and a channel per
// image. The gradients gather: every input element visits the windows that cover it, in a fixed order.
#include <math.h>
#include <string.h>

#include "codegen/kernel/move.h"
#include "support/alloc.h"

static int result_buffer(const Kernel *k, MlirOperation op, int result) {
  for (int i = 0; i < k->n_results; i++)
    if (mlirValueEqual(k->result[i], mlirOperationGetResult(op, result))) return k->n_args + i;
  return -1;
}

Pool pool_read(const Kernel *k, MlirOperation op) {
  char layout[8];
  Pool p = {.op = nn_op_of(op), .include_pad = nn_attr_bool(op, "include_pad", false)};
  bool backward = p.op == NN_OP_maxpool2d_grad || p.op == NN_OP_avgpool2d_grad;
  NnType in = nn_value_type(mlirOperationGetOperand(op, 0)), result = nn_value_type(mlirOperationGetResult(op, 0));
  p.input = backward;
  const NnType *x = backward ? &result : &in, *y = backward ? &in : &result;
  for (int i = 0; i < 2; i++) {
    p.in[i] = i < mlirOperationGetNumOperands(op) ? nn_value_index(mlirOperationGetOperand(op, i)) : -1;
    p.out[i] = i < mlirOperationGetNumResults(op) ? result_buffer(k, op, i) : -1;
  }
  bool last = !strcmp(nn_attr_str(op, "layout", layout, sizeof layout, "nchw"), "nhwc");
  int h = last ? 1 : 2;
  p.n = last ? x->dim[0] : x->dim[0] * x->dim[1];
  p.c = last ? x->dim[3] : 1;
  p.h = x->dim[h], p.w = x->dim[h + 1], p.oh = y->dim[h], p.ow = y->dim[h + 1];
  p.dtype = x->dtype;
  nn_attr_i64s(op, "kernel", p.kernel, 2);
  nn_attr_i64s(op, "strides", p.stride, 2);
  nn_attr_i64s(op, "padding", p.padding, 4);
  return p;
}

static Value at_least(Emitter *e, Value a, int64_t b) { return emit_index_with(e, "maxsi", a, b); }
static Value at_most(Emitter *e, Value a, int64_t b) { return emit_index_with(e, "minsi", a, b); }

// Bounds [low, high) of the window's own rows (d = 0) or columns (d = 1) that fall inside the input, for the window at
// `o`.
static void window_bounds(Emitter *e, const Pool *p, int d, Value o, Value *low, Value *high) {
  int64_t pad = p->padding[2 * d], extent = d ? p->w : p->h;
  Value start = emit_index_with(e, "subi", emit_index_with(e, "muli", o, p->stride[d]), pad), zero = emit_i64(e, 0);
  *low = at_least(e, emit_index(e, "subi", zero, start), 0);
  *high = at_most(e, emit_index(e, "subi", emit_i64(e, extent), start), p->kernel[d]);
}

// Windows [low, high) that cover the input row or column i.
static void covering_windows(Emitter *e, const Pool *p, int d, Value i, Value *low, Value *high) {
  int64_t pad = p->padding[2 * d], count = d ? p->ow : p->oh;
  Value shifted = emit_index_with(e, "addi", i, pad);
  Value first = at_least(e, emit_index_with(e, "addi", shifted, 1 - p->kernel[d]), 0);
  *low = emit_index_with(e, "divui", emit_index_with(e, "addi", first, p->stride[d] - 1), p->stride[d]);
  *high = at_most(e, emit_index_with(e, "addi", emit_index_with(e, "divui", shifted, p->stride[d]), 1), count);
}

// ((image * height + row) * width + column) * channels + channel
static Value position(Emitter *e, const Pool *p, bool input, Value image, Value row, Value column, Value channel) {
  Value at = emit_index(e, "addi", emit_index_with(e, "muli", image, input ? p->h : p->oh), row);
  at = emit_index(e, "addi", emit_index_with(e, "muli", at, input ? p->w : p->ow), column);
  return emit_index(e, "addi", emit_index_with(e, "muli", at, p->c), channel);
}

static Value splat_i64(Emitter *e, Value scalar) {
  Value narrow = emit(e, scalar.depth, "arith.trunci", VALUES(scalar.id), "%% : i64 to i32");
  return emit(e, scalar.depth, "vector.broadcast", VALUES(narrow.id), "%% : i32 to %s", vector_type(e, NN_I32).text);
}

// 1 / number of elements that the window at (oh, ow) averages.
static Value window_share(Emitter *e, const Pool *p, Value oh, Value ow) {
  NnDtype wide = nn_dtype_wide(p->dtype);
  if (p->include_pad) return emit_splat(e, wide, 1.0 / (double)(p->kernel[0] * p->kernel[1]));
  Value low[2], high[2];
  window_bounds(e, p, 0, oh, &low[0], &high[0]);
  window_bounds(e, p, 1, ow, &low[1], &high[1]);
  Value count = emit_index(e, "muli", emit_index(e, "subi", high[0], low[0]), emit_index(e, "subi", high[1], low[1]));
  Value lanes = emit_cast(e, splat_i64(e, count), NN_I32, wide);
  return emit_binary(e, NN_OP_div, wide, emit_splat(e, wide, 1), lanes);
}

// Element (i, j) of the point's window.
static Value load_of_window(Emitter *e, const Pool *p, const Point *at, Value i, Value j) {
  Value y = emit_index_with(e, "subi", emit_index(e, "addi", emit_index_with(e, "muli", at->row, p->stride[0]), i),
                            p->padding[0]);
  Value x = emit_index_with(e, "subi", emit_index(e, "addi", emit_index_with(e, "muli", at->column, p->stride[1]), j),
                            p->padding[2]);
  return emit_load_at(e, p->in[0], p->dtype, position(e, p, true, at->image, y, x, at->channel));
}

static void max_forward(Emitter *e, const Pool *p, const Point *at) {
  Value low[2], high[2];
  window_bounds(e, p, 0, at->row, &low[0], &high[0]);
  window_bounds(e, p, 1, at->column, &low[1], &high[1]);
  TypeName types[2] = {vector_type(e, p->dtype), vector_type(e, NN_I32)};
  Value first = emit_index(e, "addi", emit_index_with(e, "muli", low[0], p->kernel[1]), low[1]);
  Value init[2] = {emit_splat(e, p->dtype, -INFINITY), splat_i64(e, first)}, rows[2], columns[2], next[2], done[2];
  Value i = for_begin(e, low[0], high[0], 1, 2, init, types, rows);
  Value j = for_begin(e, low[1], high[1], 1, 2, rows, types, columns);
  Value v = load_of_window(e, p, at, i, j);
  Value place = splat_i64(e, emit_index(e, "addi", emit_index_with(e, "muli", i, p->kernel[1]), j));
  Value nan = emit_compare(e, "ne", v, v, p->dtype);   // wins, and nothing is above it
  Value better = emit_binary(e, NN_OP_or, NN_I1, nan, emit_compare(e, "gt", v, columns[0], p->dtype));
  next[0] = emit_select(e, better, v, columns[0], p->dtype);
  next[1] = emit_select(e, better, place, columns[1], NN_I32);
  for_end(e, 2, next, types, next);
  for_end(e, 2, next, types, done);
  Value to = position(e, p, false, at->image, at->row, at->column, at->channel);
  if (p->out[0] >= 0) emit_store_at(e, p->out[0], p->dtype, to, done[0], false);
  if (p->out[1] >= 0) emit_store_at(e, p->out[1], NN_U8, to, emit_cast(e, done[1], NN_I32, NN_U8), false);
}

static void average_forward(Emitter *e, const Pool *p, const Point *at) {
  Value low[2], high[2];
  window_bounds(e, p, 0, at->row, &low[0], &high[0]);
  window_bounds(e, p, 1, at->column, &low[1], &high[1]);
  TypeName type = vector_type(e, p->dtype);
  Value init = emit_splat(e, p->dtype, 0), rows, columns, sum;
  Value i = for_begin(e, low[0], high[0], 1, 1, &init, &type, &rows);
  Value j = for_begin(e, low[1], high[1], 1, 1, &rows, &type, &columns);
  Value v = load_of_window(e, p, at, i, j);
  sum = emit_binary(e, NN_OP_add, p->dtype, columns, v);
  for_end(e, 1, &sum, &type, &sum);
  for_end(e, 1, &sum, &type, &sum);
  Value mean = emit_binary(e, NN_OP_mul, p->dtype, sum, window_share(e, p, at->row, at->column));
  emit_store_at(e, p->out[0], p->dtype, position(e, p, false, at->image, at->row, at->column, at->channel),
                emit_round(e, p->dtype, mean), false);
}

static void backward(Emitter *e, const Pool *p, const Point *at) {
  Value low[2], high[2];
  covering_windows(e, p, 0, at->row, &low[0], &high[0]);
  covering_windows(e, p, 1, at->column, &low[1], &high[1]);
  TypeName type = vector_type(e, p->dtype);
  Value init = emit_splat(e, p->dtype, 0), rows, columns, sum;
  Value i = for_begin(e, low[0], high[0], 1, 1, &init, &type, &rows);
  Value j = for_begin(e, low[1], high[1], 1, 1, &rows, &type, &columns);
  Value from = position(e, p, false, at->image, i, j, at->channel), dy = emit_load_at(e, p->in[0], p->dtype, from),
        part;
  if (p->op == NN_OP_maxpool2d_grad) {
    Value y = emit_index(e, "subi", emit_index_with(e, "addi", at->row, p->padding[0]),
                         emit_index_with(e, "muli", i, p->stride[0]));
    Value x = emit_index(e, "subi", emit_index_with(e, "addi", at->column, p->padding[2]),
                         emit_index_with(e, "muli", j, p->stride[1]));
    Value place = splat_i64(e, emit_index(e, "addi", emit_index_with(e, "muli", y, p->kernel[1]), x));
    Value winner = emit_cast(e, emit_load_at(e, p->in[1], NN_U8, from), NN_U8, NN_I32);
    part = emit_select(e, emit_compare(e, "eq", winner, place, NN_I32), dy, init, p->dtype);
  } else {
    part = emit_binary(e, NN_OP_mul, p->dtype, dy, window_share(e, p, i, j));
  }
  sum = emit_binary(e, NN_OP_add, p->dtype, columns, part);
  for_end(e, 1, &sum, &type, &sum);
  for_end(e, 1, &sum, &type, &sum);
  emit_store_at(e, p->out[0], p->dtype, position(e, p, true, at->image, at->row, at->column, at->channel),
                emit_round(e, p->dtype, sum), false);
}

void pool_point(Emitter *e, const Pool *p, const Point *at) {
  if (p->op == NN_OP_maxpool2d) max_forward(e, p, at);
  else if (p->op == NN_OP_avgpool2d) average_forward(e, p, at);
  else backward(e, p, at);
}

// ---------------------------------------------------------------------------------------------------------------------
// argmax

// x is the larger one: a NaN is larger than all numbers.
Value argmax_above(Emitter *e, NnDtype dtype, Value x, Value y) {
  Value above = emit_compare(e, "gt", x, y, dtype);
  if (!nn_dtype_is_float(dtype)) return above;
  Value only = emit_binary(e, NN_OP_and, NN_I1, emit_compare(e, "ne", x, x, dtype), emit_compare(e, "eq", y, y, dtype));
  return emit_binary(e, NN_OP_or, NN_I1, above, only);
}

// Elements that are the largest, `top`: the NaN where that is one.
Value argmax_equal(Emitter *e, NnDtype dtype, Value x, Value top) {
  Value equal = emit_compare(e, "eq", x, top, dtype);
  return nn_dtype_is_float(dtype) ? emit_binary(e, NN_OP_or, NN_I1, equal, emit_compare(e, "ne", x, x, dtype)) : equal;
}

void argmax_keep_better(Emitter *e, NnDtype dtype, Value x, Value index, Value best[2]) {
  Value better = argmax_above(e, dtype, x, best[0]);
  if (e->mask >= 0)
    better = emit(e, better.depth, "arith.andi", VALUES(better.id, e->mask), "%%, %% : vector<%dxi1>", e->lanes);
  best[0] = emit_select(e, better, x, best[0], dtype);
  best[1] = emit_select(e, better, index, best[1], NN_I32);
}

void argmax_columns(Emitter *e, const Argmax *a, Value outer, Value column) {
  TypeName types[2] = {vector_type(e, a->dtype), vector_type(e, NN_I32)};
  Value best[2] = {emit_lowest(e, a->dtype), emit_splat(e, NN_I32, 0)}, args[2];
  Value i = for_begin(e, emit_i64(e, 0), emit_i64(e, a->reduced), 1, 2, best, types, args);
  Value at = emit_index(e, "addi", emit_index_with(e, "muli", outer, a->reduced), i);
  at = emit_index(e, "addi", emit_index_with(e, "muli", at, a->inner), column);
  argmax_keep_better(e, a->dtype, emit_load_at(e, 0, a->dtype, at), splat_i64(e, i), args);
  for_end(e, 2, args, types, best);
  emit_store_at(e, e->k->n_args, NN_I32, emit_index(e, "addi", emit_index_with(e, "muli", outer, a->inner), column),
                best[1], false);
}

Argmax argmax_read(const Kernel *k, MlirOperation op) {
  const NnType *x = &k->arg[0];
  int axis = (int)nn_attr_i64(op, "axis", 0);
  Argmax a = {.dtype = x->dtype, .outer = 1, .reduced = x->dim[axis], .inner = 1};
  for (int i = 0; i < axis; i++) a.outer *= x->dim[i];
  for (int i = axis + 1; i < x->rank; i++) a.inner *= x->dim[i];
  return a;
}

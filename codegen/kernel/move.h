// Private to the targets' code for moves: how the ops are read, and what is done at one point of them (move.c, pool.c).
#ifndef NNC_CODEGEN_KERNEL_MOVE_H
#define NNC_CODEGEN_KERNEL_MOVE_H

#include "codegen/kernel/kernel.h"

int64_t move_product(const int64_t *dim, int from, int to);
MlirOperation move_op(const Kernel *k);                                       // the kernel's only op
Value move_load_index(Emitter *e, int buffer, NnDtype dtype, Value offset);   // an index operand's integer, as i64

typedef struct Pad {
  const NnType *x, *y;
  int64_t low[NN_MAX_RANK], high[NN_MAX_RANK], interior[NN_MAX_RANK];
  int axis;        // the last padded one
  int64_t inner;   // elements inside it
} Pad;
Pad pad_read(const Kernel *k, MlirOperation op);
// Offset of the operand's row that falls on result row p, a row being the last padded axis and everything inside it,
// and whether there is one.
Value pad_source_row(Emitter *e, const Pad *pad, Value p, Value *valid);

// What is done to each vector of a row of a scatter's table.
typedef enum RowStep { ROW_ADD, ROW_MAX, ROW_LOWEST, ROW_LOWEST_TO_ZERO } RowStep;
Value row_value(Emitter *e, RowStep step, int source, NnDtype dtype, Value to, Value from);

// argmax over [outer, reduced, inner]
typedef struct Argmax {
  NnDtype dtype;
  int64_t outer, reduced, inner;
} Argmax;
Argmax argmax_read(const Kernel *k, MlirOperation op);
Value argmax_above(Emitter *e, NnDtype dtype, Value x, Value y);
Value argmax_equal(Emitter *e, NnDtype dtype, Value x, Value top);
void argmax_keep_better(Emitter *e, NnDtype dtype, Value x, Value index, Value best[2]);   // best: value, index (i32)
void argmax_columns(Emitter *e, const Argmax *a, Value outer, Value column);               // lanes on the inner axis

typedef struct Pool {
  NnOp op;
  bool include_pad, input;      // input: the result has the pixels of the input (gradients)
  int64_t n, h, w, c, oh, ow;   // x: n h w c, y: n oh ow c
  int64_t kernel[2], stride[2], padding[4];
  NnDtype dtype;
  int in[2], out[2];   // buffers of the op's operands and results; -1: not returned
} Pool;
Pool pool_read(const Kernel *k, MlirOperation op);
typedef struct Point {
  Value image, row, column, channel;
} Point;                                                       // of the result
void pool_point(Emitter *e, const Pool *p, const Point *at);   // a vector of channels

#endif

// Private to ir/: the rules of every op and what they share. One file per family in this folder holds, for each op X of
// the family, nn_infer_X (shape rule), nn_vjp_X (gradient rule), nn_flops_X and, for composites, nn_expand_X;
// ir/table.c ties them to the rows.
#ifndef NNC_IR_OPS_OPS_H
#define NNC_IR_OPS_OPS_H

#include "ir/ir.h"

// Prototypes for all; those that ir/table.c declares absent are never defined.
#define NN_OP(op, op_kind, op_operands, op_results, op_attrs, op_class, op_cpu, op_gpu, op_doc) \
  bool nn_infer_##op(NnOpCall *call, int n_results, NnType *result);                            \
  void nn_vjp_##op(NnVjp *vjp);                                                                 \
  double nn_flops_##op(MlirOperation operation);                                                \
  void nn_expand_##op(NnBuilder *b, MlirOperation operation, MlirValue *results);
#include "ir/ops.def"
#undef NN_OP
// attention_grad and attention_grad_packed in ops that have gradient rules (ops/attention_expand.c)
// The gradient of attention's bias, from that of its result; the scores exist as a tensor (ops/attention_expand.c).
MlirValue nn_attention_bias_grad(NnBuilder *b, MlirOperation op, MlirValue dy);
void nn_differentiable_attention_grad(NnBuilder *b, MlirOperation op, MlirValue *results);

// --- Shape rules (ops/rules.c). Each check writes the error and returns false. ---------------------------------------

// A type as text, usable inside one expression: nn_fail(c, "… %s", nn_text(&t).text).
typedef struct NnTypeText {
  char text[192];
} NnTypeText;
NnTypeText nn_text(const NnType *t);

bool nn_need_asked(NnOpCall *c, const NnType *result);   // the result type must have been given
bool nn_need_float(NnOpCall *c, int operand);
bool nn_need_number(NnOpCall *c, int operand);   // anything but i1
bool nn_need_bool(NnOpCall *c, int operand);
bool nn_need_integer(NnOpCall *c, int operand);   // i32, i64 or u8
bool nn_need_rank(NnOpCall *c, int operand, int rank);
bool nn_need_min_rank(NnOpCall *c, int operand, int rank);
bool nn_need_same_dtype(NnOpCall *c, int operand, int other);
// The attribute has exactly n entries, each at least `least`; copies them.
bool nn_need_i64s(NnOpCall *c, const char *name, int n, int64_t least, int64_t *out);
// The type of a product's elements: the operands', or where the result is asked for in it the wide one in which it is
// summed.
bool nn_need_product_dtype(NnOpCall *c, const NnType *asked, NnDtype *dtype);
bool nn_need_axis(NnOpCall *c, int rank, int64_t *axis);   // attribute `axis` in 0..rank-1

// Spatial geometry shared by convolutions and pools: where channels, the axes of an image (height, width) or a volume
// (depth, height, width) stand, and the sizes of windows.
enum { NN_WINDOW_AXES = 3 };
typedef struct NnWindow {
  int axes;              // of the window, 2 or 3
  int channels, first;   // axes of x and y: the channels, the first one of the window
  int64_t kernel[NN_WINDOW_AXES], stride[NN_WINDOW_AXES], dilation[NN_WINDOW_AXES],
      padding[2 * NN_WINDOW_AXES];   // before and behind each axis: top, bottom, left, right
} NnWindow;
// reads `layout`: nchw when absent, of volumes ncdhw
bool nn_window_layout(NnOpCall *c, int axes, NnWindow *w);
// strides, padding and, where present, dilation; not the kernel
bool nn_window_attrs(NnOpCall *c, NnWindow *w);
// fills the window's axes of y from those of x
bool nn_window_output(NnOpCall *c, const NnWindow *w, const NnType *x, NnType *y);

// --- Gradient rules and expansions (ops/rules.c) ---------------------------------------------------------------------

MlirValue nn_scale(NnBuilder *b, MlirValue x, double factor);
MlirValue nn_zeros_like(NnBuilder *b, MlirValue x);
bool nn_splat_value(MlirValue v, double *out);   // v is a constant, or a broadcast or reshape of one
// Axes 0..rank-1 without `axis`; returns the count.
int nn_axes_except(int rank, int64_t axis, int64_t *out);
// v without the last axis of `to` (a row statistic), repeated along it.
MlirValue nn_along_rows(NnBuilder *b, MlirValue v, MlirValue like);
// v of one axis, which becomes `axis` of the result, repeated along all others.
MlirValue nn_along_axis(NnBuilder *b, MlirValue v, MlirValue like, int64_t axis);
MlirValue nn_sum_last(NnBuilder *b, MlirValue x);   // over the last axis
// Indices of `rows` rows (ops/index.c): where they name one, null where all are known to; and the rows that are read.
MlirValue nn_index_inside(NnBuilder *b, MlirValue indices, int64_t rows);
MlirValue nn_index_clamped(NnBuilder *b, MlirValue indices, int64_t rows);

// --- Costs -----------------------------------------------------------------------------------------------------------

NnType nn_operand_type(MlirOperation op, int i);
NnType nn_result_type(MlirOperation op, int i);

#endif

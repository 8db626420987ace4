// Convolutions, matrix products and attention as step records for the runtime's library, and the scratch they need.
#include <string.h>

#include "codegen/op_records.h"
#include "support/alloc.h"

static NnType operand(MlirOperation op, int i) { return nn_value_type(mlirOperationGetOperand(op, i)); }
static NnType result(MlirOperation op) { return nn_value_type(mlirOperationGetResult(op, 0)); }

// Names of weight layouts live as long as the process: there are a handful.
static const char *weights_layout(MlirOperation op) {
  static char *names[16];
  char buf[64];
  const char *name = nn_attr_str(op, "weights_layout", buf, sizeof buf, "");
  if (!*name) return "";
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!names[i]) names[i] = copy_string(name);
    if (!strcmp(names[i], name)) return names[i];
  }
  return "";
}

bool op_conv_record(MlirOperation op, NncConv *out) {
  NnType x, w, y;
  NncConvPass pass;
  switch (nn_op_of(op)) {
  case NN_OP_conv2d: pass = NNC_CONV_FORWARD, x = operand(op, 0), w = operand(op, 1), y = result(op); break;
  case NN_OP_conv2d_input_grad:
    pass = NNC_CONV_INPUT_GRAD, y = operand(op, 0), w = operand(op, 1), x = result(op);
    break;
  case NN_OP_conv2d_weight_grad:
    pass = NNC_CONV_WEIGHT_GRAD, x = operand(op, 0), y = operand(op, 1), w = result(op);
    break;
  default: return false;
  }
  char layout[8];
  bool last = !strcmp(nn_attr_str(op, "layout", layout, sizeof layout, "nchw"), "nhwc");
  int c = last ? 3 : 1, h = last ? 1 : 2;
  *out = (NncConv){.pass = pass,
                   .dtype = (NncDtype)x.dtype,
                   .result = (NncDtype)result(op).dtype,
                   .channels_last = last,
                   .n = x.dim[0],
                   .c = x.dim[c],
                   .h = x.dim[h],
                   .w = x.dim[h + 1],
                   .o = y.dim[c],
                   .oh = y.dim[h],
                   .ow = y.dim[h + 1],
                   .kh = w.dim[2],
                   .kw = w.dim[3],
                   .dilation = {1, 1},
                   .stride = {1, 1},
                   .groups = nn_attr_i64(op, "groups", 1),
                   .weights_layout = weights_layout(op)};
  nn_attr_i64s(op, "strides", out->stride, 2);
  nn_attr_i64s(op, "padding", out->pad, 4);
  nn_attr_i64s(op, "dilation", out->dilation, 2);
  return true;
}

static int64_t leading(const NnType *t, int trailing) {
  int64_t n = 1;
  for (int i = 0; i < t->rank - trailing; i++) n *= t->dim[i];
  return n;
}

static void product_of_matrices(MlirOperation op, const NnType *a, const NnType *b, NncMatmul *out) {
  bool ta = nn_attr_bool(op, "transpose_a", false), tb = nn_attr_bool(op, "transpose_b", false);
  int64_t a0 = a->dim[a->rank - 2], a1 = a->dim[a->rank - 1], b0 = b->dim[b->rank - 2], b1 = b->dim[b->rank - 1];
  out->m = ta ? a1 : a0, out->k = ta ? a0 : a1, out->n = tb ? b0 : b1;
  out->a_row = ta ? 1 : a1, out->a_col = ta ? a1 : 1;
  out->b_row = tb ? 1 : b1, out->b_col = tb ? b1 : 1;
  out->c_row = out->n;
  out->batch = leading(a, 2);
  out->a_batch = a0 * a1, out->b_batch = b0 * b1, out->c_batch = out->m * out->n;
  if (b->rank == 2) {
    // One matrix for all leading axes, which are rows then.
    out->m *= out->batch;
    out->batch = 1;
  }
}

bool op_matmul_record(MlirOperation op, NncMatmul *out) {
  NnOp kind = nn_op_of(op);
  if (kind != NN_OP_matmul && kind != NN_OP_matmul_rows && kind != NN_OP_matmul_rows_to) return false;
  NnType a = operand(op, 0), b = operand(op, 1);
  *out = (NncMatmul){.dtype = (NncDtype)a.dtype,
                     .result = (NncDtype)result(op).dtype,
                     .batch = 1,
                     .adds = kind == NN_OP_matmul_rows_to};
  if (kind == NN_OP_matmul) {
    product_of_matrices(op, &a, &b, out);
  } else {
    // C[m, n] = sum over rows r of A[r, m] B[r, n].
    out->m = a.dim[a.rank - 1], out->n = b.dim[b.rank - 1], out->k = leading(&a, 1);
    out->a_row = 1, out->a_col = out->m, out->b_row = out->n, out->b_col = 1, out->c_row = out->n;
  }
  return true;
}

bool op_is_attention(MlirOperation op) {
  NnOp kind = nn_op_of(op);
  return kind == NN_OP_attention || kind == NN_OP_attention_grad || kind == NN_OP_attention_grad_packed;
}

NncAttention op_attention_record(MlirOperation op) {
  NnAttention a = nn_attention_of(op);
  return (NncAttention){.dtype = (NncDtype)a.dtype,
                        .backward = a.backward,
                        .packed = a.packed,
                        .causal = a.causal,
                        .heads_last = a.heads_last,
                        .masked = a.mask >= 0,
                        .batch = a.batch,
                        .heads = a.heads,
                        .groups = a.groups,
                        .n_queries = a.n_queries,
                        .n_keys = a.n_keys,
                        .head_dim = a.head_dim,
                        .scale = a.scale,
                        .dropout = a.dropout};
}

// Convolutions, matrix products, attention and what goes along an axis as step records for the runtime's library: what
// of an op a record holds, and a record as text.
#include <string.h>

#include "codegen/op_records.h"
#include "support/alloc.h"

static NnType operand_type(MlirOperation op, int i) { return nn_value_type(mlirOperationGetOperand(op, i)); }
static NnType result_type(MlirOperation op) { return nn_value_type(mlirOperationGetResult(op, 0)); }

static NncConvPass conv_pass(NnOp op) {
  switch (op) {
  case NN_OP_conv2d:
  case NN_OP_conv3d: return NNC_CONV_FORWARD;
  case NN_OP_conv2d_input_grad:
  case NN_OP_conv3d_input_grad: return NNC_CONV_INPUT_GRAD;
  default: return NNC_CONV_WEIGHT_GRAD;
  }
}

static void read_conv(MlirOperation op, NncConv *out) {
  NncConvPass pass = conv_pass(nn_op_of(op));
  NnType first = operand_type(op, 0), second = operand_type(op, 1), made = result_type(op),
         x = pass == NNC_CONV_INPUT_GRAD ? made : first, w = pass == NNC_CONV_WEIGHT_GRAD ? made : second,
         y = pass == NNC_CONV_FORWARD      ? made
             : pass == NNC_CONV_INPUT_GRAD ? first
                                           : second;
  char layout[8];
  int axes = w.rank - 2, d = axes - 2;   // d: where height stands among them
  bool last = nn_attr_str(op, "layout", layout, sizeof layout, "nchw")[1] != 'c';
  int c = last ? 1 + axes : 1, h = (last ? 1 : 2) + d;
  int64_t stride[NNC_CONV_AXES], pad[2 * NNC_CONV_AXES], dilation[NNC_CONV_AXES] = {1, 1, 1};
  nn_attr_i64s(op, "strides", stride, axes);
  nn_attr_i64s(op, "padding", pad, 2 * axes);
  nn_attr_i64s(op, "dilation", dilation, axes);
  *out = (NncConv){.pass = pass,
                   .dtype = (NncDtype)x.dtype,
                   .result = (NncDtype)made.dtype,
                   .channels_last = last,
                   .n = x.dim[0],
                   .c = x.dim[c],
                   .h = x.dim[h],
                   .w = x.dim[h + 1],
                   .o = y.dim[c],
                   .oh = y.dim[h],
                   .ow = y.dim[h + 1],
                   .kh = w.dim[2 + d],
                   .kw = w.dim[3 + d],
                   .stride = {stride[d], stride[d + 1]},
                   .pad = {pad[2 * d], pad[2 * d + 1], pad[2 * d + 2], pad[2 * d + 3]},
                   .dilation = {dilation[d], dilation[d + 1]},
                   .groups = nn_attr_i64(op, "groups", 1)};
  if (d > 0) out->depth = (NncConvAxis){x.dim[h - 1], y.dim[h - 1], w.dim[2], stride[0], dilation[0], pad[0], pad[1]};
}

// "3x3/2 56x56x64 to 28x28x128", of volumes the depth in front
static void write_conv(const NncConv *c, int64_t scratch, Text *fields, Text *label) {
  text_add(fields,
           "%d,%d,%d,%d, %lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld, "
           "{%lld,%lld},{%lld,%lld,%lld,%lld},{%lld,%lld},%lld, %lld",
           c->pass, c->dtype, c->result, c->channels_last, (long long)c->n, (long long)c->c, (long long)c->h,
           (long long)c->w, (long long)c->o, (long long)c->oh, (long long)c->ow, (long long)c->kh, (long long)c->kw,
           (long long)c->stride[0], (long long)c->stride[1], (long long)c->pad[0], (long long)c->pad[1],
           (long long)c->pad[2], (long long)c->pad[3], (long long)c->dilation[0], (long long)c->dilation[1],
           (long long)c->groups, (long long)scratch);
  const NncConvAxis *d = &c->depth;
  bool deep = nnc_conv_is_3d(c);
  if (deep)
    text_add(fields, ", {%lld,%lld,%lld,%lld,%lld,%lld,%lld}", (long long)d->in, (long long)d->out,
             (long long)d->kernel, (long long)d->stride, (long long)d->dilation, (long long)d->before,
             (long long)d->after);
  if (deep) text_add(label, "%lldx", (long long)d->kernel);
  text_add(label, "%lldx%lld", (long long)c->kh, (long long)c->kw);
  if (c->stride[0] > 1) text_add(label, "/%lld", (long long)c->stride[0]);
  text_add(label, " ");
  if (deep) text_add(label, "%lldx", (long long)d->in);
  text_add(label, "%lldx%lldx%lld to ", (long long)c->h, (long long)c->w, (long long)c->c);
  if (deep) text_add(label, "%lldx", (long long)d->out);
  text_add(label, "%lldx%lldx%lld", (long long)c->oh, (long long)c->ow, (long long)c->o);
}

// ---------------------------------------------------------------------------------------------------------------------

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

static void read_matmul(MlirOperation op, NncMatmul *out) {
  NnType a = operand_type(op, 0), b = operand_type(op, 1);
  *out = (NncMatmul){.dtype = (NncDtype)a.dtype,
                     .result = (NncDtype)result_type(op).dtype,
                     .batch = 1,
                     .adds = nn_op_adds_to(nn_op_of(op)) >= 0,
                     .packs_once = nn_has_attr(op, ATTR_packs_once)};
  if (nn_op_of(op) == NN_OP_matmul) {
    product_of_matrices(op, &a, &b, out);
  } else {
    // C[m, n] = sum over rows r of A[r, m] B[r, n].
    out->m = a.dim[a.rank - 1], out->n = b.dim[b.rank - 1], out->k = leading(&a, 1);
    out->a_row = 1, out->a_col = out->m, out->b_row = out->n, out->b_col = 1, out->c_row = out->n;
  }
}

// "12 of 256x64x256": rows, columns, summed
static void write_matmul(const NncMatmul *m, int64_t scratch, Text *fields, Text *label) {
  text_add(fields, "%d,%d, %lld,%lld,%lld,%lld, %lld,%lld,%lld, %lld,%lld,%lld, %lld,%lld, %lld,%d,%d", m->dtype,
           m->result, (long long)m->batch, (long long)m->m, (long long)m->n, (long long)m->k, (long long)m->a_batch,
           (long long)m->a_row, (long long)m->a_col, (long long)m->b_batch, (long long)m->b_row, (long long)m->b_col,
           (long long)m->c_batch, (long long)m->c_row, (long long)scratch, m->adds, m->packs_once);
  if (m->batch > 1) text_add(label, "%lld of ", (long long)m->batch);
  text_add(label, "%lldx%lldx%lld", (long long)m->m, (long long)m->n, (long long)m->k);
}

// ---------------------------------------------------------------------------------------------------------------------

static void read_attention(MlirOperation op, NncAttention *out) {
  NnAttention a = nn_attention_of(op);
  *out = (NncAttention){.dtype = (NncDtype)a.dtype,
                        .backward = a.backward,
                        .packed = a.packed,
                        .joined = a.joined,
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
                        .dropout = a.dropout,
                        .biased = a.bias >= 0,
                        .window = a.window,
                        .softcap = a.softcap};
  if (a.bias < 0) return;
  NnType bias = operand_type(op, a.bias);
  if (bias.dim[1] > 1) out->bias_head = a.n_queries * a.n_keys;
  if (bias.dim[0] > 1) out->bias_batch = bias.dim[1] * a.n_queries * a.n_keys;
}

// "12 of 256x256x64": heads, queries, keys, head dimension
static void write_attention(const NncAttention *a, int64_t scratch, Text *fields, Text *label) {
  text_add(fields, "%d,%d,%d,%d,%d,%d, %lld,%lld,%lld,%lld,%lld,%lld, %.17g,%.17g, %lld", a->dtype, a->backward,
           a->packed, a->causal, a->heads_last, a->masked, (long long)a->batch, (long long)a->heads,
           (long long)a->groups, (long long)a->n_queries, (long long)a->n_keys, (long long)a->head_dim, a->scale,
           a->dropout, (long long)scratch);
  if (a->biased || a->window > 0 || a->softcap > 0 || a->joined)
    text_add(fields, ", %d,%lld,%lld, %lld,%.17g,%d", a->biased, (long long)a->bias_batch, (long long)a->bias_head,
             (long long)a->window, a->softcap, a->joined);
  text_add(label, "%lld of %lldx%lldx%lld", (long long)(a->batch * a->heads), (long long)a->n_queries,
           (long long)a->n_keys, (long long)a->head_dim);
}

// ---------------------------------------------------------------------------------------------------------------------

static NncRowsKind rows_kind(MlirOperation op) {
  char text[16];
  switch (nn_op_of(op)) {
  case NN_OP_recurrence: return NNC_ROWS_RECURRENCE;
  case NN_OP_argsort: return NNC_ROWS_ARGSORT;
  case NN_OP_take_along: return NNC_ROWS_TAKE;
  case NN_OP_scatter_along: return NNC_ROWS_SCATTER;
  case NN_OP_fourier:
    nn_attr_str(op, "kind", text, sizeof text, "");
    return !strcmp(text, "real") ? NNC_ROWS_SPECTRUM : !strcmp(text, "half") ? NNC_ROWS_OF_SPECTRUM : NNC_ROWS_FOURIER;
  default: break;
  }
  const char *kind = nn_attr_str(op, "kind", text, sizeof text, "");
  return !strcmp(kind, "sum")       ? NNC_ROWS_SUM
         : !strcmp(kind, "product") ? NNC_ROWS_PRODUCT
         : !strcmp(kind, "argmax")  ? NNC_ROWS_ARGMAX
                                    : NNC_ROWS_ARGMIN;
}

static void read_rows(MlirOperation op, NncRows *out) {
  NnType x = operand_type(op, 0), made = result_type(op);
  if (nn_op_of(op) == NN_OP_fourier) {
    int64_t length = nn_attr_i64(op, "length", 1);
    NncRowsKind kind = rows_kind(op);
    *out = (NncRows){.kind = kind,
                     .dtype = (NncDtype)x.dtype,
                     .index = NNC_I32,
                     .outer = nn_type_elements(&x) / (kind == NNC_ROWS_SPECTRUM      ? length
                                                      : kind == NNC_ROWS_OF_SPECTRUM ? 2 * (length / 2 + 1)
                                                                                     : 2 * length),
                     .length = length,
                     .inner = 1,
                     .count = length,
                     .backward = nn_attr_bool(op, "inverse", false)};
    return;
  }
  int64_t axis = nn_attr_i64(op, "axis", 0);
  bool indexed = nn_op_of(op) == NN_OP_take_along || nn_op_of(op) == NN_OP_scatter_along;
  *out = (NncRows){.kind = rows_kind(op),
                   .dtype = (NncDtype)x.dtype,
                   .index = indexed ? (NncDtype)operand_type(op, 1).dtype : NNC_I32,
                   .outer = 1,
                   .length = x.dim[axis],
                   .inner = 1,
                   .count = made.dim[axis],
                   .backward = nn_attr_bool(op, "reverse", false) || nn_attr_bool(op, "descending", false),
                   .unique = nn_attr_bool(op, "unique", false),
                   .last = nn_attr_bool(op, "last", false)};
  for (int i = 0; i < x.rank; i++)
    if (i != axis) *(i < axis ? &out->outer : &out->inner) *= x.dim[i];
}

// "12 of 1000": rows, elements of each
static void write_rows(const NncRows *r, int64_t scratch, Text *fields, Text *label) {
  text_add(fields, "%d,%d,%d, %lld,%lld,%lld,%lld, %d,%d,%d, %lld", r->kind, r->dtype, r->index, (long long)r->outer,
           (long long)r->length, (long long)r->inner, (long long)r->count, r->backward, r->unique, r->last,
           (long long)scratch);
  text_add(label, "%lld of %lld", (long long)(r->outer * r->inner), (long long)r->length);
}

// ---------------------------------------------------------------------------------------------------------------------

// Of the op's record, without what it holds.
static NncStepKind op_record_kind(MlirOperation op) {
  switch (nn_op_of(op)) {
#define NN_LIBRARY_OP(name, record, ...) \
  case NN_OP_##name:                     \
    return NNC_STEP_##record;
#include "ir/library.def"
#undef NN_LIBRARY_OP
  default: return NNC_STEP_KERNEL;
  }
}

static int collective_kind(NnOp op) {
  switch (op) {
  case NN_OP_all_reduce: return NNC_ALL_REDUCE;
  case NN_OP_rank_receive: return NNC_RANK_RECEIVE;
  case NN_OP_rank_send: return NNC_RANK_SEND;
  case NN_OP_reduce_scatter: return NNC_REDUCE_SCATTER;
  case NN_OP_all_gather: return NNC_ALL_GATHER;
  case NN_OP_rank_part: return NNC_RANK_PART;
  default: return -1;
  }
}

static bool read_collective(MlirOperation op, NncCollective *out) {
  int kind = collective_kind(nn_op_of(op));
  if (kind < 0) return false;
  NnType t = nn_value_type(mlirOperationGetResult(op, 0));
  *out = (NncCollective){.kind = (NncCollectiveKind)kind,
                         .dtype = (NncDtype)t.dtype,
                         .elements = nn_type_elements(&t),
                         .from = (NncDtype)nn_value_dtype(mlirOperationGetOperand(op, 0)),
                         .ranks = (int)nn_attr_i64(op, "ranks", 0),
                         .adds = nn_attr_bool(op, "adds", false),
                         .fast = nn_attr_bool(op, "fast", false) && (t.dtype == NN_F32 || t.dtype == NN_F64)};
  return true;
}

OpRecord op_record(MlirOperation op) {
  OpRecord r = {.kind = op_record_kind(op)};
  switch (r.kind) {
#define READ(KIND, name, Record, gpu) \
  case NNC_STEP_##KIND: read_##name(op, &r.name); break;
    NNC_LIBRARY_RECORDS(READ)
#undef READ
  default:
    if (read_collective(op, &r.collective)) r.kind = NNC_STEP_COLLECTIVE;
  }
  return r;
}

bool op_conv_record(MlirOperation op, NncConv *out) {
  bool is_conv = op_record_kind(op) == NNC_STEP_CONV;
  if (is_conv) read_conv(op, out);
  return is_conv;
}

void op_record_text(const OpRecord *r, int64_t scratch, Text *fields, Text *label) {
  switch (r->kind) {
#define WRITE(KIND, name, Record, gpu) \
  case NNC_STEP_##KIND: write_##name(&r->name, scratch, fields, label); break;
    NNC_LIBRARY_RECORDS(WRITE)
#undef WRITE
  case NNC_STEP_COLLECTIVE:
    text_add(fields, "%d,%d,%lld,%lld,%d,%d,%d,%d", r->collective.kind, r->collective.dtype,
             (long long)r->collective.elements, (long long)scratch, r->collective.from, r->collective.ranks,
             r->collective.adds, r->collective.fast);
    text_add(label, "%lld %s", (long long)r->collective.elements, nn_dtype_name((NnDtype)r->collective.dtype));
    break;
  default: require_promise(false, "an op that is neither a kernel nor the library's");
  }
}

OpRecordNames op_record_names(NncStepKind kind) {
  switch (kind) {
#define NAMES(KIND, name, Record, gpu) \
  case NNC_STEP_##KIND: return (OpRecordNames){"NNC_STEP_" #KIND, #Record, #name};
    NNC_LIBRARY_RECORDS(NAMES)
#undef NAMES
  case NNC_STEP_COLLECTIVE: return (OpRecordNames){"NNC_STEP_COLLECTIVE", "NncCollective", "collective"};
  default: return (OpRecordNames){0};
  }
}

// The roofline and what it counts; cost_model.h. Roofline: Williams, Waterman and Patterson, "Roofline: an insightful
// visual performance model", CACM 2009. Weights of functions are in additions, estimated from a few kernels on the
// host.
#include "codegen/cost_model.h"

#include <stdlib.h>
#include <string.h>

#include "passes/ptr_map.h"

static double larger(double a, double b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// ---------------------------------------------------------------------------------------------------------------------
// Kernels

static int64_t elements(MlirValue v) {
  NnType t = nn_value_type(v);
  return nn_type_elements(&t);
}

// Work of a body. A row kernel goes through its row once for each level of reduction and computes again what it needs,
// so a value costs as often as there are levels that use it: bit l of `used` is level l.
typedef struct Body {
  int n;
  MlirOperation *ops;   // Owned
  PtrMap ids;           // result -> op
  int *level;           // Owned; reductions: the level that makes them; others: the level that they can be computed in
  uint64_t *used;       // Owned
} Body;

static bool is_reduction(MlirOperation op) {
  NnOp kind = nn_op_of(op);
  return kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_REDUCE;
}

static int operand_op(const Body *b, MlirOperation op, intptr_t i) {
  return ptr_map_get(&b->ids, mlirOperationGetOperand(op, i).ptr);
}

static void body_build(Body *b, MlirOperation kernel) {
  *b = (Body){0};
  MlirBlock block = nn_function_body(kernel);
  size_t capacity = 1;
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    capacity++;
  b->ops = calloc(capacity, sizeof *b->ops);
  b->level = calloc(capacity, sizeof *b->level);
  b->used = calloc(capacity, sizeof *b->used);
  if (!b->ops || !b->level || !b->used) abort();
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    int id = b->n++;
    b->ops[id] = op;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
      int from = operand_op(b, op, i);
      if (from < 0) continue;
      int level = b->level[from] + is_reduction(b->ops[from]);
      if (level > b->level[id]) b->level[id] = level;
    }
    for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
      ptr_map_set(&b->ids, mlirOperationGetResult(op, r).ptr, id);
  }
  for (int id = b->n - 1; id >= 0; id--) {
    bool sink = is_reduction(b->ops[id]) || nn_is(b->ops[id], "func.return");
    if (sink) b->used[id] = 1ULL << (b->level[id] < 63 ? b->level[id] : 63);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(b->ops[id]); i++) {
      int from = operand_op(b, b->ops[id], i);
      if (from >= 0 && !is_reduction(b->ops[from])) b->used[from] |= b->used[id];
    }
  }
}

static void body_free(Body *b) {
  free(b->ops);
  free(b->level);
  free(b->used);
  ptr_map_free(&b->ids);
}

// Innermost loops over a few elements do not fill a vector: each costs as much as this many additions. Only where a
// broadcast of more than a scalar keeps the axes from being joined.
static double short_rows(const Body *b, const int64_t *domain, int rank) {
  enum { ROW = 400, LONG = 64 };
  bool broadcasts = false;
  double n = 1;
  for (int id = 0; id < b->n; id++)
    broadcasts |= nn_op_of(b->ops[id]) == NN_OP_broadcast && elements(mlirOperationGetOperand(b->ops[id], 0)) > 1;
  for (int i = 0; i + 1 < rank; i++) n *= (double)domain[i];
  return broadcasts && rank > 1 && domain[rank - 1] > 1 && domain[rank - 1] < LONG ? ROW * n : 0;
}

static void add_conv(CostWork *work, MlirOperation op);

static void add_kernel(CostWork *work, MlirOperation kernel) {
  char kind[16];
  int64_t domain[NN_MAX_RANK];
  int rank = nn_attr_i64s(kernel, "nn.domain", domain, NN_MAX_RANK);
  nn_attr_str(kernel, "nn.kind", kind, sizeof kind, "map");
  Body b;
  body_build(&b, kernel);
  bool again = !strcmp(kind, "row");
  work->class = COST_elementwise;
  for (int id = 0; id < b.n; id++) {
    NnOp op = nn_op_of(b.ops[id]);
    if (op == NN_OP_NONE) continue;
    bool reduction = is_reduction(b.ops[id]);
    if (nn_op_info(op)->cost_class < work->class) work->class = nn_op_info(op)->cost_class;
    double n = (double)elements(reduction ? mlirOperationGetOperand(b.ops[id], 0)
                                          : mlirOperationGetResult(b.ops[id], 0));
    int times = again && !reduction ? __builtin_popcountll(b.used[id]) : 1;
    bool library = nn_op_info(op)->kind == NN_KIND_LIBRARY;
    work->flops += library ? nn_op_flops(b.ops[id]) : nn_op_info(op)->additions * n * times;
    // Of a table that is read by index, only what is read.
    if (op == NN_OP_gather && mlirOperationGetNumOperands(b.ops[id]) > 0)
      work->bytes -= larger(0, (double)(elements(mlirOperationGetOperand(b.ops[id], 0)) -
                                        elements(mlirOperationGetResult(b.ops[id], 0))) *
                                   4);
  }
  int conv = 0;
  while (conv < b.n &&
         (nn_op_of(b.ops[conv]) == NN_OP_NONE || nn_op_info(nn_op_of(b.ops[conv]))->kind != NN_KIND_LIBRARY))
    conv++;
  if (conv < b.n) add_conv(work, b.ops[conv]);   // the rest is done while its operand or its results are at hand
  else work->flops += short_rows(&b, domain, rank);
  body_free(&b);
}

// ---------------------------------------------------------------------------------------------------------------------
// Library ops

// Products run at the rate of their operands' type, whatever they are summed in.
static NnDtype product_dtype(MlirOperation op, NnDtype dtype) {
  NnDtype operand = nn_value_type(mlirOperationGetOperand(op, 0)).dtype;
  return nn_dtype_is_narrow(operand) ? operand : dtype;
}

static void add_matmul(CostWork *work, MlirOperation op) {
  NnType b = nn_value_type(mlirOperationGetOperand(op, 1)), c = nn_value_type(mlirOperationGetResult(op, 0));
  int64_t rows = c.rank > 1 ? c.dim[c.rank - 2] : 1, columns = c.dim[c.rank - 1];
  if (nn_op_of(op) == NN_OP_matmul && b.rank == 2)
    for (int i = 0; i < c.rank - 2; i++) rows *= c.dim[i];
  double summed = nn_type_elements(&c) > 0 ? nn_op_flops(op) / 2 / (double)nn_type_elements(&c) : 0;
  work->class = COST_matmul;
  work->smallest = smaller(rows, smaller(columns, summed < 1 ? 1 : (int64_t)summed));
}

// Products of tiles, and one exponential for each pair of query and key; with dropout a random number.
static void add_attention(CostWork *work, MlirOperation op) {
  NnAttention a = nn_attention_of(op);
  work->class = COST_matmul;
  work->smallest = a.head_dim;
  work->flops += nn_attention_pairs(&a) * (nn_op_info(nn_op_of(op))->additions +
                                           (a.dropout > 0 ? nn_op_info(NN_OP_random_uniform)->additions : 0));
}

// times the bytes of the weights: they are brought into the library's layout in each call, in short pieces
enum { REORDER = 8 };

// As the matrix product of outputs x channels x window that it is.
static void add_conv(CostWork *work, MlirOperation op) {
  NnOp kind = nn_op_of(op);
  bool forward = kind == NN_OP_conv2d, input = kind == NN_OP_conv2d_input_grad;
  NnType y = nn_value_type(forward ? mlirOperationGetResult(op, 0) : mlirOperationGetOperand(op, input ? 0 : 1));
  NnType w = nn_value_type(kind == NN_OP_conv2d_weight_grad ? mlirOperationGetResult(op, 0)
                                                            : mlirOperationGetOperand(op, 1));
  int64_t groups = nn_attr_i64(op, "groups", 1), channels = w.dim[0] / (groups > 0 ? groups : 1);
  work->class = COST_conv;
  work->copied = REORDER * (double)nn_type_bytes(&w);
  work->smallest = smaller(nn_type_elements(&y) / (w.dim[0] > 0 ? w.dim[0] : 1),
                           smaller(channels, w.dim[1] * w.dim[2] * w.dim[3]));
}

CostWork cost_work(MlirOperation op, MlirOperation kernel) {
  CostWork work = {.class = COST_move, .bytes = nn_op_bytes(op)};
  NnType t;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nn_type_from_mlir(mlirValueGetType(mlirOperationGetOperand(op, i)), &t) && t.rank > 0 && t.dtype == NN_F64 &&
        nn_type_elements(&t) > 8)
      work.dtype = NN_F64;
  if (!mlirOperationIsNull(kernel)) {
    add_kernel(&work, kernel);
    return work;
  }
  work.flops = nn_op_flops(op);
  switch (nn_op_of(op)) {
  case NN_OP_matmul:
  case NN_OP_matmul_rows:
  case NN_OP_matmul_rows_to: add_matmul(&work, op); break;
  case NN_OP_attention:
  case NN_OP_attention_grad:
  case NN_OP_attention_grad_packed: add_attention(&work, op); break;
  case NN_OP_conv2d:
  case NN_OP_conv2d_input_grad:
  case NN_OP_conv2d_weight_grad: add_conv(&work, op); break;
  default: return work;
  }
  work.dtype = product_dtype(op, work.dtype);
  return work;
}

double machine_seconds(const Machine *machine, const CostWork *work) {
  double peak = machine->flops_per_second[work->dtype], half = machine->share[work->class].half_size;
  if (peak <= 0) peak = machine->flops_per_second[NN_F32];
  if (work->dtype == NN_F32 && machine->tf32_flops_per_second > 0 &&
      (work->class == COST_matmul || work->class == COST_conv))
    peak = machine->tf32_flops_per_second;
  double share = machine->share[work->class].flops;
  if (half > 0 && work->smallest > 0) share *= (double)work->smallest / ((double)work->smallest + half);
  bool cached = work->bytes <= machine->cache_bytes;
  double bandwidth = (cached ? machine->cache_bytes_per_second : machine->bytes_per_second) *
                     machine->share[work->class].bytes;
  return machine->launch_seconds + larger(work->flops / (peak * share), work->bytes / bandwidth) +
         work->copied / machine->bytes_per_second;
}

// The roofline and what it counts; cost_model.h. Roofline: Williams, Waterman and Patterson, "Roofline: an insightful
// visual performance model", CACM 2009.
#include "codegen/cost_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/op_records.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/ptr_map.h"

static double lesser(double a, double b) { return a < b ? a : b; }

static int64_t elements(MlirValue v) {
  NnType t = nn_value_type(v);
  return nn_type_elements(&t);
}

static double additions_of(NnOp op, const CostRules *rules) { return nn_op_info(op)->additions[rules->unit]; }

// ---------------------------------------------------------------------------------------------------------------------
// Bodies of kernels

// A row kernel goes through its row once for each level of reduction and may compute again what it needs, so a value
// costs as often as there are levels that use it: bit l of `used` is level l.
typedef struct Body {
  int n, n_args;
  MlirOperation *ops;   // Owned
  PtrMap ids;           // result -> op
  int *level;           // Owned; reductions: the level that makes them; others: the level that they can be computed in
  uint64_t *used;       // Owned; of n ops
  uint64_t *arg_used;   // Owned; of the arguments
} Body;

static bool is_reduction(MlirOperation op) {
  NnOp kind = nn_op_of(op);
  return kind != NN_OP_NONE && nn_op_info(kind)->kind == NN_KIND_REDUCE;
}

static bool is_joined(MlirOperation op, const CostRules *rules) {
  for (int i = 0; i < rules->n_joined; i++)
    if (mlirOperationEqual(nn_value_def(rules->joined[i]), op)) return true;
  return false;
}

static int operand_op(const Body *b, MlirOperation op, intptr_t i) {
  return ptr_map_get(&b->ids, mlirOperationGetOperand(op, i).ptr);
}

static void add_op(Body *b, MlirOperation op, const CostRules *rules) {
  int id = b->n++;
  b->ops[id] = op;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    int from = operand_op(b, op, i);
    if (from < 0) continue;
    int level = b->level[from] + is_reduction(b->ops[from]);
    if (level > b->level[id]) b->level[id] = level;
  }
  if (b->level[id] > 0 && is_joined(op, rules)) b->level[id]--;
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
    ptr_map_set(&b->ids, mlirOperationGetResult(op, r).ptr, id);
}

static void find_uses(Body *b) {
  for (int id = b->n - 1; id >= 0; id--) {
    bool sink = is_reduction(b->ops[id]) || nn_is(b->ops[id], "func.return");
    if (sink) b->used[id] = 1ULL << smaller(b->level[id], 63);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(b->ops[id]); i++) {
      MlirValue v = mlirOperationGetOperand(b->ops[id], i);
      int from = operand_op(b, b->ops[id], i);
      if (from >= 0 && !is_reduction(b->ops[from])) b->used[from] |= b->used[id];
      if (mlirValueIsABlockArgument(v)) b->arg_used[mlirBlockArgumentGetArgNumber(v)] |= b->used[id];
    }
  }
}

static void body_build(Body *b, MlirOperation kernel, const CostRules *rules) {
  MlirBlock block = nn_function_body(kernel);
  *b = (Body){.n_args = (int)mlirBlockGetNumArguments(block)};
  size_t capacity = 1;
  NN_FOREACH_OP (op, block) capacity++;
  b->ops = allocate_array(capacity, sizeof *b->ops);
  b->level = allocate_array(capacity, sizeof *b->level);
  b->used = allocate_array(capacity, sizeof *b->used);
  b->arg_used = allocate_array((size_t)b->n_args + 1, sizeof *b->arg_used);
  NN_FOREACH_OP (op, block) add_op(b, op, rules);
  find_uses(b);
}

static void body_free(Body *b) {
  free(b->ops);
  free(b->level);
  free(b->used);
  free(b->arg_used);
  ptr_map_free(&b->ids);
}

// ---------------------------------------------------------------------------------------------------------------------
// Traffic of kernels

// Bytes that memory moves at least for an element with gaps around it.
static double piece_bytes(const CostRules *rules) { return rules->unit == COST_GPU ? 32 : 64; }

static double bytes_read(MlirValue v, const CostRules *rules);

// Of a strided part of it.
static double bytes_of_slice(MlirOperation slice, const CostRules *rules) {
  MlirValue part = mlirOperationGetResult(slice, 0);
  NnType t = nn_value_type(part);
  int64_t strides[NN_MAX_RANK];
  int rank = nn_attr_i64s(slice, "strides", strides, NN_MAX_RANK);
  double gaps = rank > 0 && t.dim[rank - 1] > 1 ? (double)strides[rank - 1] : 1,
         most = piece_bytes(rules) / (double)nn_dtype_bytes(t.dtype);
  return bytes_read(part, rules) * fmax(1, lesser(gaps, most));
}

// What a user reads of operand i.
static double bytes_of_use(MlirOperation user, int i, double whole, const CostRules *rules) {
  switch (nn_op_of(user)) {
  case NN_OP_slice: return bytes_of_slice(user, rules);
  case NN_OP_gather:
    if (i == 0) {   // of a table the rows that indices name
      NnType rows = nn_value_type(mlirOperationGetResult(user, 0));
      return (double)nn_type_bytes(&rows);
    }
    return whole;
  case NN_OP_scatter_add_to:   // of a table the rows that indices name, in place
    return i == 2 ? (double)elements(mlirOperationGetOperand(user, 0)) /
                        (double)elements(mlirOperationGetOperand(user, 2)) * whole
                  : whole;
  default: return whole;
  }
}

// All uses of v together, at most all of it.
static double bytes_read(MlirValue v, const CostRules *rules) {
  NnType t = nn_value_type(v);
  double whole = (double)nn_type_bytes(&t), sum = 0;
  NN_FOREACH_USE (use, v)
    sum += bytes_of_use(mlirOpOperandGetOwner(use), (int)mlirOpOperandGetOperandNumber(use), whole, rules);
  return lesser(whole, sum);
}

// Each argument as often as there are levels that go through memory for it.
static double kernel_bytes(const Body *b, MlirOperation kernel, bool row, const CostRules *rules) {
  MlirBlock block = nn_function_body(kernel);
  MlirOperation ret = nn_function_return(kernel);
  double sum = 0;
  for (int a = 0; a < b->n_args; a++) {
    int times = row && !rules->reads_once ? __builtin_popcountll(b->arg_used[a]) : 1;
    sum += bytes_read(mlirBlockGetArgument(block, a), rules) * fmax(1, times);
  }
  for (intptr_t r = 0; r < mlirOperationGetNumOperands(ret); r++) {
    NnType t = nn_value_type(mlirOperationGetOperand(ret, r));
    sum += (double)nn_type_bytes(&t);
  }
  return sum;
}

// A row that is added to a table is read there and written, each time.
static void add_scatter(CostWork *work, MlirOperation op, const CostRules *rules) {
  NnType rows = nn_value_type(mlirOperationGetOperand(op, 0)), table = nn_value_type(mlirOperationGetResult(op, 0));
  double touched = lesser((double)nn_type_bytes(&rows), (double)nn_type_bytes(&table));
  bool in_place = nn_op_of(op) == NN_OP_scatter_add_to;
  // in place the result's other rows are not written, and those that are were counted when they were read
  work->bytes += in_place ? touched - (double)nn_type_bytes(&table) : touched;
  work->additions += (double)nn_type_elements(&rows) * additions_of(nn_op_of(op), rules);
}

// ---------------------------------------------------------------------------------------------------------------------
// Kernels

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

static void add_library(CostWork *work, MlirOperation op, const CostRules *rules);

static void add_kernel(CostWork *work, MlirOperation kernel, const CostRules *rules) {
  char kind[16];
  int64_t domain[NN_MAX_RANK];
  int rank = nn_attr_i64s(kernel, ATTR_domain, domain, NN_MAX_RANK);
  nn_attr_str(kernel, ATTR_kind, kind, sizeof kind, "map");
  Body b;
  body_build(&b, kernel, rules);
  bool row = !strcmp(kind, "row");
  work->class = COST_elementwise;
  work->bytes = kernel_bytes(&b, kernel, row, rules);
  for (int id = 0; id < b.n; id++) {
    NnOp op = nn_op_of(b.ops[id]);
    if (op == NN_OP_NONE) continue;
    bool reduction = is_reduction(b.ops[id]), library = nn_op_info(op)->kind == NN_KIND_LIBRARY;
    if (nn_op_info(op)->cost_class < work->class) work->class = nn_op_info(op)->cost_class;
    double n = (double)elements(reduction ? mlirOperationGetOperand(b.ops[id], 0)
                                          : mlirOperationGetResult(b.ops[id], 0));
    int times = row && !reduction && !rules->computes_once ? __builtin_popcountll(b.used[id]) : 1;
    if (library) add_library(work, b.ops[id], rules);
    else work->additions += additions_of(op, rules) * n * times;
    if (op == NN_OP_scatter_add || op == NN_OP_scatter_add_to || op == NN_OP_scatter_max)
      add_scatter(work, b.ops[id], rules);
  }
  if (rules->unit == COST_CPU && work->products == 0) work->additions += short_rows(&b, domain, rank);
  body_free(&b);
}

// ---------------------------------------------------------------------------------------------------------------------
// Library ops

static void add_matmul(CostWork *work, const NncMatmul *m) { work->smallest = smaller(m->m, smaller(m->n, m->k)); }

// Products of tiles, and for each pair of query and key what its row says, with dropout a random number besides.
static void add_attention(CostWork *work, MlirOperation op, const CostRules *rules) {
  NnAttention a = nn_attention_of(op);
  double pairs = nn_attention_pairs(&a);
  work->smallest = a.head_dim;
  work->products = pairs * (double)a.head_dim * (a.backward ? 10 : 4);
  work->additions += pairs * (additions_of(nn_op_of(op), rules) +
                              (a.dropout > 0 ? additions_of(NN_OP_random_uniform, rules) : 0));
}

// As the matrix product of outputs x channels x window that it is.
static void add_conv(CostWork *work, const NncConv *c) {
  NncConvAxis size = nnc_conv_sizes(c);
  work->smallest = smaller(c->n * size.out, smaller(c->o / c->groups, c->c / c->groups * size.kernel));
}

// Products run at the rate of their operands' type, whatever they are summed in.
static void add_library(CostWork *work, MlirOperation op, const CostRules *rules) {
  work->class = nn_op_info(nn_op_of(op))->cost_class;
  work->product_dtype = nn_value_dtype(mlirOperationGetOperand(op, 0));
  work->products = nn_op_flops(op);
  OpRecord r = op_record(op);
  switch (r.kind) {
  case NNC_STEP_MATMUL: add_matmul(work, &r.matmul); break;
  case NNC_STEP_ATTENTION: add_attention(work, op, rules); break;
  case NNC_STEP_CONV: add_conv(work, &r.conv); break;
  default: break;
  }
}

CostWork cost_work(MlirOperation op, MlirOperation kernel, const CostRules *rules) {
  CostWork work = {.class = COST_move, .bytes = nn_op_bytes(op), .launches = 1};
  NnType t;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nn_type_from_mlir(mlirValueGetType(mlirOperationGetOperand(op, i)), &t) && t.rank > 0 && t.dtype == NN_F64 &&
        nn_type_elements(&t) > 8)
      work.dtype = NN_F64;
  if (!mlirOperationIsNull(kernel)) add_kernel(&work, kernel, rules);
  else if (nn_op_of(op) != NN_OP_NONE && nn_op_info(nn_op_of(op))->kind == NN_KIND_LIBRARY)
    add_library(&work, op, rules);
  return work;
}

// ---------------------------------------------------------------------------------------------------------------------
// Seconds

static double rate(const Machine *machine, NnDtype dtype) {
  double own = machine->flops_per_second[dtype];
  return own > 0 ? own : machine->flops_per_second[NN_F32];
}

static double product_rate(const Machine *machine, const CostWork *work) {
  double half = machine->share[work->class].half_size, share = machine->share[work->class].flops,
         tf32 = machine->tf32_flops_per_second > 0 ? machine->tf32_flops_per_second : rate(machine, NN_F32);
  if (half > 0 && work->smallest > 0) share *= (double)work->smallest / ((double)work->smallest + half);
  switch (work->engine) {
  case COST_TF32: return tf32 * share;
  case COST_TF32_PARTS: return tf32 / 3 * share;
  case COST_LOOPS: return rate(machine, nn_dtype_wide(work->product_dtype)) * machine->share[COST_elementwise].flops;
  case COST_OWN_RATE: break;
  }
  return rate(machine, work->product_dtype) * share;
}

double machine_seconds(const Machine *machine, const CostWork *work) {
  bool cached = work->bytes <= machine->cache_bytes, library = work->products > 0;
  double bandwidth = (cached ? machine->cache_bytes_per_second : machine->bytes_per_second) *
                     machine->share[work->class].bytes;
  double arithmetic = work->additions /
                      (rate(machine, work->dtype) * machine->share[library ? COST_elementwise : work->class].flops);
  if (library) arithmetic += work->products / product_rate(machine, work);
  return work->launches * machine->launch_seconds + fmax(work->serial, fmax(arithmetic, work->bytes / bandwidth)) +
         work->copied / machine->bytes_per_second;
}

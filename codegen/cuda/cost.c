// What a step takes on a GPU: which units make its products, how many launches it is, what goes through memory besides
// operands and results, what cannot be done side by side.
#include "codegen/cuda/conv.h"
#include "codegen/cuda/template/template.h"
#include "codegen/cuda/template/template_conv.h"
#include "codegen/cuda/template/template_depthwise.h"
#include "codegen/op_records.h"
#include "support/integers.h"

static double through_memory(int64_t workspace) { return 2 * (double)workspace; }   // written once and read once

// Own loops over tiles of 64 x 64, or a thread for each result where there are fewer rows or columns than 8.
static void price_product(CostWork *w, const NncConv *c) {
  enum { TILE = 64, FEW = 8 };
  ConvProduct p;
  conv_product(c, &p);
  int64_t rows = round_up(p.m, TILE), columns = round_up(p.n, TILE);
  if (p.m >= FEW && p.n >= FEW) w->products *= (double)(rows * columns) / (double)(p.m * p.n);
  w->engine = COST_LOOPS;
  w->launches = p.splits > 1 ? 2 : 1;
}

void cuda_price_conv(const CudaTarget *target, const NncConv *c, CostWork *w) {
  ConvShape shape;
  // products with the zeros between the pixels of a stride, too
  if (c->pass == NNC_CONV_INPUT_GRAD)
    w->products = 2 * (double)(c->n * c->h * c->w) * (double)(c->c * (c->o / c->groups) * c->kh * c->kw);
  w->bytes += through_memory(conv_workspace_bytes(target, c));
  if (depthwise_supported(c)) {
    w->engine = COST_LOOPS;
    w->launches = depthwise_launches(c);
  } else if (conv_uses_template(target, c, &shape)) {
    w->engine = shape.type == TILE_TF32 ? COST_TF32 : shape.type == TILE_F32 ? COST_TF32_PARTS : COST_OWN_RATE;
    w->launches = conv_template_launches(&shape);
    if (c->pass != NNC_CONV_WEIGHT_GRAD) {   // a step has the channels of one tap, or zeros
      int64_t depth = (c->pass == NNC_CONV_FORWARD ? c->c : c->o) / c->groups;
      w->products *= (double)round_up(depth, conv_depth_block(&shape)) / (double)depth;
    }
  } else if (conv_grouped_shape(c, cuda_wide_blocks(target), &shape)) {
    w->engine = COST_LOOPS;
    w->launches = conv_template_launches(&shape);
  } else {
    price_product(w, c);
  }
}

static CostWork library_work(const CudaTarget *target, MlirOperation op) {
  CostWork w = cost_work(op, nn_null_operation(), &(CostRules){.unit = COST_GPU});
  OpRecord r = op_record(op);
  const CudaLibrary *kernel = cuda_library(r.kind);
  if (kernel) kernel->price(target, op, &r, &w);
  else if (w.product_dtype == NN_F32 && target->base.tf32) w.engine = COST_TF32;
  return w;
}

static CostWork kernel_work(const CudaTarget *target, MlirOperation call, const Kernel *k) {
  if (mlirOperationIsNull(k->library) && (k->kind == KERNEL_ROW || k->kind == KERNEL_COLUMN))
    return schedule_reduce_work(cuda_shared(target), call, k);
  CostWork w = cost_work(call, k->func, &(CostRules){.unit = COST_GPU});
  NncConv c;
  if (!mlirOperationIsNull(k->library) && op_conv_record(k->library, &c)) {
    cuda_price_conv(target, &c, &w);
    w.launches = conv_kernel_launches(target, k);
    w.bytes += through_memory(conv_kernel_workspace(target, k) - conv_workspace_bytes(target, &c));
  } else if (k->kind == KERNEL_MOVE) {
    schedule_move_work(k, &w.launches, &w.serial);
    w.bytes += through_memory(schedule_move_workspace(k));
  }
  return w;
}

CostWork cuda_work(const CudaTarget *target, MlirOperation op, MlirOperation kernel) {
  if (mlirOperationIsNull(kernel)) return library_work(target, op);
  Kernel k;
  kernel_read(kernel, &k);
  CostWork w = kernel_work(target, op, &k);
  w.launches *= gpu_group_share(op, kernel);
  kernel_free(&k);
  return w;
}

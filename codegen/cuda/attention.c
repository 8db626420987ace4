// Attention and its gradients as kernels: which family, their names, launches and workspace.
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template.h"
#include "codegen/gpu/schedule.h"
#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

static AttentionStrides strides(const NncAttention *a, int64_t heads, int64_t tokens) {
  int64_t d = a->head_dim;
  return a->heads_last ? (AttentionStrides){tokens * heads * d, d, heads * d}
                       : (AttentionStrides){heads * tokens * d, tokens * d, d};
}

// Of a tensor in which each token has all heads of q, then those of k and v: as many queries as keys.
static AttentionStrides packed_strides(const NncAttention *a) {
  int64_t row = (a->heads + 2 * a->groups) * a->head_dim;
  return (AttentionStrides){a->n_queries * row, a->head_dim, row};
}

// Bytes from the start of its buffer, where it is an alias.
static int64_t operand_shift(MlirValue v) {
  int64_t shift = 0;
  for (;;) {
    MlirOperation op = nn_value_def(v);
    if (mlirOperationIsNull(op)) return shift;
    if (nn_is(op, "scf.execute_region")) {
      v = mlirOperationGetOperand(mlirBlockGetTerminator(mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0))),
                                  nn_value_index(v));
      continue;
    }
    NnOp kind = nn_op_of(op);
    if (kind == NN_OP_NONE || nn_op_info(kind)->kind != NN_KIND_VIEW) return shift;
    shift += nn_alias_shift(op);
    v = mlirOperationGetOperand(op, 0);
  }
}

static bool is_aligned(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (nn_dtype_is_float(nn_value_dtype(mlirOperationGetOperand(op, i))) &&
        operand_shift(mlirOperationGetOperand(op, i)) % 16 != 0)
      return false;
  return true;
}

static TileType type_of(const CudaTarget *target, NncDtype dtype) {
  switch (dtype) {
  case NNC_F64: return TILE_F64;
  case NNC_BF16: return TILE_BF16;
  case NNC_F16: return TILE_F16;
  default: return target->base.tf32 ? TILE_TF32 : TILE_F32;
  }
}

// Tensor cores where they fit: f32 as three products of tf32 parts, or as one of what tf32 keeps.
static Attention attention_of(const CudaTarget *target, MlirOperation op, const OpRecord *record) {
  const NncAttention r = record->attention;
  Attention a = {.type = type_of(target, r.dtype),
                 .batch = r.batch,
                 .heads = r.heads,
                 .groups = r.groups,
                 .n_queries = r.n_queries,
                 .n_keys = r.n_keys,
                 .head_dim = (int)r.head_dim,
                 .backward = r.backward,
                 .packed = r.packed,
                 .joined = r.joined,
                 .causal = r.causal,
                 .masked = r.masked,
                 .biased = r.biased,
                 .bias_batch = r.bias_batch,
                 .bias_head = r.bias_head,
                 .window = r.window,
                 .softcap = r.softcap,
                 .scale = r.scale,
                 .dropout = r.dropout};
  a.q = a.o = strides(&r, r.heads, r.n_queries);
  a.k = a.v = strides(&r, r.groups, r.n_keys);
  a.dq = a.q, a.dk = a.k;
  if (r.packed) a.dq = a.dk = packed_strides(&r);
  if (r.joined) a.q = a.k = a.v = packed_strides(&r);
  a.plain = !cuda_has_tensor_cores(target) || !attention_supported(&a) || !is_aligned(op);
  if (a.plain && a.type == TILE_TF32) a.type = TILE_F32;
  a.wgmma = cuda_has_wgmma(target) && attention_wgmma_supported(&a);
  return a;
}

static unsigned long long bits(double x) {
  unsigned long long u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static char *symbol_of(const Attention *a) {
  char *more = !a->biased && a->window == 0 && a->softcap <= 0
                   ? copy_string("")
                   : text_format("%s%lldx%lld_w%lld_c%016llx_", a->biased ? "b" : "", (long long)a->bias_batch,
                                 (long long)a->bias_head, (long long)a->window, bits(a->softcap));
  char *symbol = text_format("attention%s_%s_%lldx%lldx%lldx%lldx%lldx%d_%s%s%s%s%s%s%s_%ss%016llx_p%016llx",
                             a->backward ? "_grad" : "", tile_name(a->type), (long long)a->batch, (long long)a->heads,
                             (long long)a->groups, (long long)a->n_queries, (long long)a->n_keys, a->head_dim,
                             a->o.row == a->head_dim ? "bhtd" : "bthd", a->causal ? "_causal" : "",
                             a->joined ? "_joined" : "", a->masked ? "_masked" : "", a->packed ? "_packed" : "",
                             a->plain ? "_plain" : "", a->wgmma ? "_wgmma" : "", more, bits(a->scale),
                             bits(a->dropout));
  free(more);
  return symbol;
}

static char *name_of(const CudaTarget *target, MlirOperation op, const OpRecord *r) {
  Attention a = attention_of(target, op, r);
  return symbol_of(&a);
}

static int64_t workspace(const CudaTarget *target, MlirOperation op, const OpRecord *r) {
  Attention a = attention_of(target, op, r);
  return round_up(attention_workspace(&a), NNC_ALIGN);
}

// The gradients of queries and those of keys and values are kernels of their own: both make the scores, their gradients
// and the draws of a dropout, seven products in place of five.
static void price(const CudaTarget *target, MlirOperation op, const OpRecord *r, CostWork *w) {
  Attention a = attention_of(target, op, r);
  w->engine = a.plain               ? COST_LOOPS
              : a.type == TILE_TF32 ? COST_TF32
              : a.type == TILE_F32  ? COST_TF32_PARTS
                                    : COST_OWN_RATE;
  w->launches = attention_launches(&a);
  if (!a.backward) return;
  w->products *= 7.0 / 5;
  w->additions *= 2;
}

static const char *arithmetic(const Attention *a) {
  if (a->plain) return "a warp for each row";
  switch (a->type) {
  case TILE_TF32: return "tensor cores: tiles of scores, each f32 product as one of tf32";
  case TILE_F32: return "tensor cores: tiles of scores, each f32 product as three of tf32 parts";
  default:
    return a->wgmma ? "tensor cores, products of warpgroups: tiles of scores, sums in f32"
                    : "tensor cores: tiles of scores, sums in f32";
  }
}

static void comment(const Attention *a, const char *name, Text *t) {
  text_add(t, "// %s: %s of %lld x %lld heads (%lld of keys), %lld queries, %lld keys of %d%s%s%s\n", name,
           a->backward ? "gradients of attention" : "attention", (long long)a->batch, (long long)a->heads,
           (long long)a->groups, (long long)a->n_queries, (long long)a->n_keys, a->head_dim,
           a->causal ? ", causal" : "", a->joined ? ", side by side" : "", a->packed ? ", gradients side by side" : "");
  text_add(t, "// recomputes %s%s\n", a->backward ? "the probabilities" : "nothing",
           a->backward && a->dropout > 0 ? " and the draws of the dropout" : "");
  text_add(t, "// %s%s\n", arithmetic(a),
           a->backward ? "; computes the scores again from q, k and each row's log-sum-exp" : "; softmax online");
}

// The launches are known once the kernels are built; here they are built for nothing else. The last has the kernel's
// name.
static void add_launches(const Attention *a, const char *name, EmittedKernel *out) {
  LLVMContextRef llvm = LLVMContextCreate();
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext("", llvm);
  int n = attention_launches(a);
  for (int i = 0; i < n; i++) {
    TemplateLaunch l;
    char *symbol = i == n - 1 ? copy_string(name) : text_format("%s_first", name);
    attention_build(module, a, i, symbol, &l);
    gpu_add_launch(out, symbol, l.grid[0], l.grid[1], l.grid[2], l.threads);
    out->launches[i].shared_bytes = l.shared_bytes;
    free(symbol);
  }
  LLVMDisposeModule(module);
  LLVMContextDispose(llvm);
}

static void emit_kernel(const CudaTarget *target, MlirOperation op, const OpRecord *r, const char *name,
                        EmittedKernel *out) {
  Attention a = attention_of(target, op, r);
  *out = (EmittedKernel){.name = copy_string(name),
                         .summary = copy_string(a.backward ? "attention gradient" : "attention"),
                         .workspace_bytes = workspace(target, op, r)};
  comment(&a, name, &out->comment);
  add_launches(&a, name, out);
  gpu_comment_launches(out, &out->comment);
  CudaTemplate *template = out->template = allocate_array(1, sizeof *template);
  *template = (CudaTemplate){.kind = TEMPLATE_ATTENTION, .attention = a};
}

const CudaLibrary cuda_library_attention = {name_of, workspace, emit_kernel, price};

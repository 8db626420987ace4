// The kernel that adds up what the ranks have sent: its elements and how many ranks there are are known when it is
// launched (runtime/cuda/collective.c), its type and the order of ranks here.
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template.h"
#include "codegen/gpu/schedule.h"
#include "support/alloc.h"

enum { THREADS = 256 };

static TileType type_of(NncDtype dtype) {
  return dtype == NNC_F64 ? TILE_F64 : dtype == NNC_BF16 ? TILE_BF16 : dtype == NNC_F16 ? TILE_F16 : TILE_F32;
}

char *cuda_rank_sum(const OpRecord *r) {
  if (r->kind != NNC_STEP_COLLECTIVE || r->collective.kind != NNC_ALL_REDUCE) return NULL;
  return text_format("rank_sum_%s", nn_dtype_name((NnDtype)r->collective.dtype));
}

void cuda_emit_rank_sum(const OpRecord *r, const char *name, EmittedKernel *out) {
  *out = (EmittedKernel){.name = copy_string(name), .summary = copy_string("sum over ranks")};
  text_add(&out->comment, "// %s: the numbers of all ranks, in the order of ranks, a thread for each element\n", name);
  gpu_add_launch(out, name, 1, 1, 1, THREADS);   // the runtime knows how many blocks
  CudaTemplate *template = out->template = allocate_array(1, sizeof *template);
  *template = (CudaTemplate){.kind = TEMPLATE_RANK_SUM, .rank_sum = type_of(r->collective.dtype)};
}

// sum[i] = ((0 + parts[i]) + parts[n + i]) + …, each sum rounded to the type, as accumulation does.
void rank_sum_build(LLVMModuleRef module, TileType t, const char *name) {
  Build b;
  build_kernel(&b, module, name, "eeii", THREADS);
  Val sum = build_parameter(&b, 0, "sum"), parts = build_parameter(&b, 1, "parts"), n = build_parameter(&b, 2, "n"),
      ranks = build_parameter(&b, 3, "ranks"), i = build_thread_number(&b, THREADS);
  LLVMTypeRef memory = build_memory_type(&b, t), wide = t == TILE_F64 ? b.f64 : b.f32;
  int bytes = tile_element_bytes(t);
  Branch inside;
  build_if(&b, &inside, build_less(&b, i, n));
  Var total = build_var(&b, wide, LLVMConstReal(wide, 0));
  Loop loop;
  Val r = build_loop(&b, &loop, build_i32(&b, 0), ranks, 1),
      at = build_add(&b, build_mul(&b, build_i64(&b, r), build_i64(&b, n)), build_i64(&b, i)),
      part = build_load(&b, memory, build_element(&b, t, parts, at), bytes);
  Val next = build_fadd(&b, build_get(&b, total), build_widened(&b, t, part));
  build_set(&b, total, build_widened(&b, t, build_rounded(&b, t, next)));
  build_loop_end(&b, &loop);
  build_store(&b, build_rounded(&b, t, build_get(&b, total)), build_element(&b, t, sum, build_i64(&b, i)), bytes);
  build_if_end(&b, &inside);
  build_finish(&b);
}

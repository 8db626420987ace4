// The kernels of what ranks give each other, all but the moving of bytes: one adds up what the ranks have sent, one
// rounds parts of parameters before they travel. How many elements and ranks there are is known when they are launched
// (runtime/cuda/collective.c), types and the order of ranks here.

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template.h"
#include "codegen/gpu/schedule.h"
#include "support/alloc.h"

enum { THREADS = 256 };

char *cuda_collective_kernel(const OpRecord *r) {
  const NncCollective *c = &r->collective;
  if (r->kind != NNC_STEP_COLLECTIVE) return NULL;
  if (c->kind == NNC_ALL_REDUCE || c->kind == NNC_REDUCE_SCATTER)
    return text_format("rank_sum_%s", nn_dtype_name((NnDtype)c->dtype));
  return c->from != c->dtype ? text_format("rank_round_%s", nn_dtype_name((NnDtype)c->dtype)) : NULL;
}

void cuda_emit_collective(const OpRecord *r, const char *name, EmittedKernel *out) {
  bool rounds = r->collective.kind == NNC_ALL_GATHER;
  *out = (EmittedKernel){.name = copy_string(name),
                         .summary = copy_string(rounds ? "rounding for ranks" : "sum over ranks")};
  text_add(&out->comment,
           rounds ? "// %s: f32 rounded, a thread for each element\n"
                  : "// %s: the numbers of all ranks, in the order of ranks, a thread for each element\n",
           name);
  gpu_add_launch(out, name, 1, 1, 1, THREADS);   // the runtime knows how many blocks
  CudaTemplate *template = out->template = allocate_array(1, sizeof *template);
  *template = (CudaTemplate){.kind = TEMPLATE_COLLECTIVE, .collective = {tile_type(r->collective.dtype), rounds}};
}

// to[i] = from[i], of f32
static void build_rounding(LLVMModuleRef module, TileType t, const char *name) {
  Build b;
  build_kernel(&b, module, name, "eei", THREADS);
  Val to = build_parameter(&b, 0, "to"), from = build_parameter(&b, 1, "from"), n = build_parameter(&b, 2, "n"),
      i = build_thread_number(&b, THREADS);
  Branch inside;
  build_if(&b, &inside, build_less(&b, i, n));
  Val at = build_i64(&b, i), x = build_load(&b, b.f32, build_element(&b, TILE_F32, from, at), 4);
  build_store(&b, build_rounded(&b, t, x), build_element(&b, t, to, at), tile_element_bytes(t));
  build_if_end(&b, &inside);
  build_finish(&b);
}

// sum[i] = ((sum[i] + parts[i]) + parts[n + i]) + …, the first 0 unless `adds`, each sum rounded to the type, as
// accumulation does.
static void build_sum(LLVMModuleRef module, TileType t, const char *name) {
  Build b;
  build_kernel(&b, module, name, "eeiii", THREADS);
  Val sum = build_parameter(&b, 0, "sum"), parts = build_parameter(&b, 1, "parts"), n = build_parameter(&b, 2, "n"),
      ranks = build_parameter(&b, 3, "ranks"), adds = build_parameter(&b, 4, "adds"),
      i = build_thread_number(&b, THREADS);
  LLVMTypeRef memory = build_memory_type(&b, t), wide = t == TILE_F64 ? b.f64 : b.f32;
  int bytes = tile_element_bytes(t);
  Branch inside, more;
  build_if(&b, &inside, build_less(&b, i, n));
  Val result = build_element(&b, t, sum, build_i64(&b, i));
  Var total = build_var(&b, wide, LLVMConstReal(wide, 0));
  build_if(&b, &more, build_less(&b, build_i32(&b, 0), adds));
  build_set(&b, total, build_widened(&b, t, build_load(&b, memory, result, bytes)));
  build_if_end(&b, &more);
  Loop loop;
  Val r = build_loop(&b, &loop, build_i32(&b, 0), ranks, 1),
      at = build_add(&b, build_mul(&b, build_i64(&b, r), build_i64(&b, n)), build_i64(&b, i)),
      part = build_load(&b, memory, build_element(&b, t, parts, at), bytes);
  Val next = build_fadd(&b, build_get(&b, total), build_widened(&b, t, part));
  build_set(&b, total, build_widened(&b, t, build_rounded(&b, t, next)));
  build_loop_end(&b, &loop);
  build_store(&b, build_rounded(&b, t, build_get(&b, total)), result, bytes);
  build_if_end(&b, &inside);
  build_finish(&b);
}

void collective_build(LLVMModuleRef module, const CollectiveTemplate *c, const char *name) {
  if (c->rounds) build_rounding(module, c->type, name);
  else build_sum(module, c->type, name);
}

// Pooling, its gradients and argmax on the host. Channels run over the lanes when they are innermost; in nchw the
// kernel is the same with one lane and a channel per image.
#include <math.h>

#include "codegen/host/host.h"
#include "codegen/kernel/move.h"
#include "support/alloc.h"

// The channels of one result pixel: whole vectors, then the masked rest.
static void pool_channels(Emitter *e, const Pool *p, Point *at) {
  int rest = (int)(p->c % e->lanes);
  if (p->c >= e->lanes) {
    at->channel = for_begin(e, emit_i64(e, 0), emit_i64(e, p->c - rest), e->lanes, 0, NULL, NULL, NULL);
    pool_point(e, p, at);
    for_end(e, 0, NULL, NULL, NULL);
  }
  if (!rest) return;
  at->channel = emit_i64(e, p->c - rest);
  emit_set_mask(e, rest);
  pool_point(e, p, at);
  emit_set_mask(e, e->lanes);
}

void kernel_emit_pool(KernelModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Pool p = pool_read(k, op);
  int64_t height = p.input ? p.h : p.oh, width = p.input ? p.w : p.ow;
  kernel_comment(m, k, "outer loop: images x rows of the result");
  Emitter e;
  emitter_begin(&e, m, k, k->name, k->n_args + k->n_results);
  if (p.c == 1) e.lanes = 1;
  Value q = for_begin(&e, (Value){1, 0, false}, (Value){2, 0, false}, 1, 0, NULL, NULL, NULL);
  Point at = {.image = emit_index_with(&e, "divui", q, height), .row = emit_index_with(&e, "remui", q, height)};
  at.column = for_begin(&e, emit_i64(&e, 0), emit_i64(&e, width), 1, 0, NULL, NULL, NULL);
  pool_channels(&e, &p, &at);
  for_end(&e, 0, NULL, NULL, NULL);
  for_end(&e, 0, NULL, NULL, NULL);
  emitter_end(&e);
  kernel_add_launch(out, copy_string(k->name), p.n * height,
                    (double)(width * p.c) * (double)(p.kernel[0] * p.kernel[1]));
}

// Lanes over the reduced axis: each keeps its own best, the first among equals wins at the end.
static void argmax_row(Emitter *e, const Argmax *a, Value p) {
  int rest = (int)(a->reduced % e->lanes);
  TypeName types[2] = {vector_type(e, a->dtype), vector_type(e, NN_I32)};
  Value best[2] = {emit_lowest(e, a->dtype), emit_lane_indices(e, emit_i64(e, 0), 1, false)}, args[2];
  Value row = emit_index_with(e, "muli", p, a->reduced);
  if (a->reduced >= e->lanes) {
    Value i = for_begin(e, emit_i64(e, 0), emit_i64(e, a->reduced - rest), e->lanes, 2, best, types, args);
    argmax_keep_better(e, a->dtype, emit_load_at(e, 0, a->dtype, emit_index(e, "addi", row, i)),
                       emit_lane_indices(e, i, 1, false), args);
    for_end(e, 2, args, types, best);
  }
  if (rest) {
    Value i = emit_i64(e, a->reduced - rest);
    emit_set_mask(e, rest);
    argmax_keep_better(e, a->dtype, emit_load_at(e, 0, a->dtype, emit_index(e, "addi", row, i)),
                       emit_lane_indices(e, i, 1, false), best);
    emit_set_mask(e, e->lanes);
  }
  Value top = emit_horizontal(e, NN_OP_max, a->dtype, best[0]);
  Value equal = argmax_equal(e, a->dtype, best[0], top);
  Value candidates = emit_select(e, equal, best[1], emit_splat(e, NN_I32, (double)(a->reduced - 1)), NN_I32);
  emit_store_at(e, e->k->n_args, NN_I32, p, emit_horizontal(e, NN_OP_min, NN_I32, candidates), true);
}

void kernel_emit_argmax(KernelModule *m, const Kernel *k, MlirOperation op, EmittedKernel *out) {
  Argmax a = argmax_read(k, op);
  kernel_comment(m, k,
                 a.inner == 1 ? "outer loop: rows, lanes on the reduced axis"
                              : "outer loop: rows, lanes on the kept axis");
  Emitter e;
  emitter_begin(&e, m, k, k->name, k->n_args + k->n_results);
  Value p = for_begin(&e, (Value){1, 0, false}, (Value){2, 0, false}, 1, 0, NULL, NULL, NULL);
  int rest = (int)(a.inner % e.lanes);
  if (a.inner == 1) {
    argmax_row(&e, &a, p);
  } else {
    if (a.inner >= e.lanes) {
      Value column = for_begin(&e, emit_i64(&e, 0), emit_i64(&e, a.inner - rest), e.lanes, 0, NULL, NULL, NULL);
      argmax_columns(&e, &a, p, column);
      for_end(&e, 0, NULL, NULL, NULL);
    }
    if (rest) {
      emit_set_mask(&e, rest);
      argmax_columns(&e, &a, p, emit_i64(&e, a.inner - rest));
    }
  }
  for_end(&e, 0, NULL, NULL, NULL);
  emitter_end(&e);
  kernel_add_launch(out, copy_string(k->name), a.outer, (double)(a.reduced * a.inner));
}

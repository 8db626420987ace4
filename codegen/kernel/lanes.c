// How many lanes a kernel has, and how its results are stored.
#include <stdlib.h>

#include "codegen/kernel/kernel.h"
#include "support/alloc.h"

// *user: something of 8 bytes is read at more than one place.
static void note_wide(void *user, int arg, MlirValue value, const Access *a) {
  (void)arg;
  bool strided = false;
  for (int i = 0; i < NN_MAX_RANK; i++) strided |= a->stride[i] != 0;
  *(bool *)user |= strided && nn_dtype_bytes(nn_value_dtype(value)) == 8;
}

int kernel_lanes(const KernelModule *m, const Kernel *k) {
  bool wide = false;
  for (int i = 0; i < k->n_results; i++) wide |= nn_dtype_bytes(k->result_type[i].dtype) == 8;
  if (k->kind != KERNEL_MOVE) kernel_walk_all_leaves(k, note_wide, &wide);
  int lanes = m->target.vector_bytes / (wide ? 8 : 4);
  return lanes > 1 ? lanes : 1;
}

static void emit_results(Emitter *e, const IndexMap *map, bool kept) {
  const Kernel *k = e->k;
  Value *v = allocate_array((size_t)k->n_results, sizeof *v);
  for (int i = 0; i < k->n_results; i++)
    if (kernel_is_kept_shaped(k, &k->result_type[i]) == kept) v[i] = expression(e, k->result[i], map);
  for (int i = 0; i < k->n_results; i++) {
    if (kernel_is_kept_shaped(k, &k->result_type[i]) != kept) continue;
    Layout own = layout_row_major(&k->result_type[i]);
    Access a = access_compose(&own, map);
    emit_store(e, k->n_args + i, k->result_type[i].dtype, &a, v[i]);
  }
  free(v);
}

void kernel_emit_point(Emitter *e) {
  IndexMap domain = index_map_domain(e->k);
  emit_results(e, &domain, false);
}

void kernel_emit_kept_results(Emitter *e, int tile) {
  IndexMap kept = index_map_kept(e->k);
  for (e->tile = 0; e->tile < tile; e->tile++) emit_results(e, &kept, true);
  e->tile = 0;
}

#include "codegen/kernel/transposed.h"

typedef struct Search {
  Transposed *t;
  int64_t least_across;
} Search;

int transposed_leaf(const Transposed *t, int arg, const Access *a) {
  for (int i = 0; i < t->n; i++)
    if (t->leaf[i].arg == arg && access_equal(&t->leaf[i].access, a)) return i;
  return -1;
}

static void collect(void *user, int arg, MlirValue value, const Access *a) {
  const Search *s = user;
  Transposed *t = s->t;
  int64_t stride = a->stride[t->nest->axis[t->along]];
  if (arg < 0 || stride == 0 || stride == 1 || t->n == MAX_TRANSPOSED || transposed_leaf(t, arg, a) >= 0) return;
  for (int g = 0; g < t->along; g++) {
    if (a->stride[t->nest->axis[g]] != 1 || t->nest->extent[g] < s->least_across) continue;
    if (t->across >= 0 && t->across != g) continue;
    t->across = g;
    t->leaf[t->n++] = (TransposedLeaf){arg, nn_value_dtype(value), *a};
    return;
  }
}

bool transposed_find(const Kernel *k, const Nest *nest, int64_t least_along, int64_t least_across, Transposed *t) {
  *t = (Transposed){.along = nest->n - 1, .across = -1, .nest = nest};
  if (nest->n < 2 || nest->extent[t->along] < least_along) return false;
  kernel_walk_all_leaves(k, collect, &(Search){t, least_across});
  return t->n > 0;
}

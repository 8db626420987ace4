// See groups.h.
#include "codegen/kernel/groups.h"

#include <stdlib.h>

void kernel_groups_free(KernelGroups *groups) {
  if (!groups) return;
  for (int i = 0; i < groups->n; i++) {
    free(groups->items[i].calls);
    free(groups->items[i].offsets);
    free(groups->items[i].elements);
  }
  for (int b = 0; b < groups->n_bodies; b++) {
    free(groups->bodies[b].name);
    free(groups->bodies[b].signature);
  }
  free(groups->items);
  free(groups->bodies);
  ptr_map_free(&groups->of_call);
  ptr_map_free(&groups->only_grouped);
  free(groups);
}

const KernelGroup *kernel_group_of(const KernelGroups *groups, MlirOperation call) {
  int i = groups ? ptr_map_get(&groups->of_call, call.ptr) : -1;
  return i < 0 ? NULL : &groups->items[i];
}

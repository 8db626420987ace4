// See emitted.h.
#include "codegen/kernel/emitted.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/groups.h"

void emitted_kernels_text(const EmittedKernels *kernels, Text *out) {
  text_append(out, kernels->declarations.data, kernels->declarations.size);
  text_add(out, "\n");
  for (int i = 0; i < kernels->n; i++) {
    text_append(out, kernels->items[i].text.data, kernels->items[i].text.size);
    text_append(out, kernels->items[i].called.data, kernels->items[i].called.size);
  }
}

void emitted_kernels_free(EmittedKernels *kernels) {
  for (int i = 0; i < kernels->n; i++) {
    EmittedKernel *k = &kernels->items[i];
    for (int j = 0; j < k->n_launches; j++) {
      free(k->launches[j].symbol);
      free(k->launches[j].numbers);
      free(k->launches[j].buffers);
    }
    free(k->launches);
    free(k->name);
    free(k->summary);
    free(k->template);
    text_free(&k->text);
    text_free(&k->called);
  }
  free(kernels->items);
  text_free(&kernels->declarations);
  kernel_groups_free(kernels->groups);
  *kernels = (EmittedKernels){0};
}

const EmittedKernel *emitted_kernel_find(const EmittedKernels *kernels, const char *name) {
  for (int i = 0; i < kernels->n; i++)
    if (!strcmp(kernels->items[i].name, name)) return &kernels->items[i];
  return NULL;
}

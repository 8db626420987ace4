// See emitted.h.
#include "codegen/kernel/emitted.h"

#include <stdlib.h>
#include <string.h>

#include "codegen/kernel/groups.h"

void emitted_kernel_text(const EmittedKernel *k, Text *out) {
  text_append(out, k->comment.data, k->comment.size);
  functions_print(&k->functions, out);
}

void emitted_kernels_text(const EmittedKernels *kernels, Text *out) {
  text_append(out, kernels->declarations.data, kernels->declarations.size);
  text_add(out, "\n");
  for (int i = 0; i < kernels->n; i++) {
    emitted_kernel_text(&kernels->items[i], out);
    functions_print(&kernels->items[i].called, out);
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
    text_free(&k->comment);
    functions_free(&k->functions);
    functions_free(&k->called);
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

// Convolutions of one variant of the template (pass, type, tile, taps, prologue) differ in what they do with their
// results: they store them, or have an epilogue. Their loops are the same and most of the code, so they are one kernel
// that holds all of these endings, each once, and gets the number of the one to take.
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template_conv.h"
#include "support/alloc.h"

// The launch of the product.
static KernelLaunch *product_of(const EmittedKernel *k) {
  return &k->launches[conv_template_launches(template_conv_of(k)) - 1];
}

static bool has_ending(const EmittedKernel *k) {
  return template_conv_of(k) && !template_conv_of(k)->grouped && template_conv_of(k)->pass != NNC_CONV_WEIGHT_GRAD;
}

// The first kernel with the same product.
static EmittedKernel *first_like(const EmittedKernels *kernels, int i) {
  for (int j = 0; j < i; j++)
    if (has_ending(&kernels->items[j]) &&
        !strcmp(product_of(&kernels->items[j])->symbol, product_of(&kernels->items[i])->symbol))
      return &kernels->items[j];
  return &kernels->items[i];
}

// Equal functions have one name, and its signature is part of what is compared (epilogue.c).
static void number_ending(ConvShape *first, ConvShape *c) {
  ConvShape *e = first;
  while (e != c && strcmp(e->epilogue.function, c->epilogue.function) != 0 && e->next_ending)
    e = (ConvShape *)e->next_ending;
  if (e != c && strcmp(e->epilogue.function, c->epilogue.function) != 0) {
    c->ending = e->ending + 1;
    e->next_ending = c;
  } else {
    c->ending = e->ending;
  }
  if (c->ending_buffers > first->ending_buffers) first->ending_buffers = c->ending_buffers;
}

// Buffers for the endings that this one does not have: its first stands for them.
static void add_buffers(KernelLaunch *l, const ConvShape *c, int own, int all) {
  int more = all - own, n_prologue = c->prologue.n_inputs ? c->prologue.n_inputs - 1 : 0;
  if (!l->buffers) {   // x, w, y and the workspace where there is one
    l->n_buffers = 4;
    l->buffers = allocate_array(4 + (size_t)more, sizeof *l->buffers);
    memcpy(l->buffers, (const int[]){0, 1, 2, conv_reorders(c) ? 3 : 0}, 4 * sizeof *l->buffers);
  }
  l->buffers = reallocate_array(l->buffers, (size_t)(l->n_buffers + more), sizeof *l->buffers);
  int *prologue = l->buffers + l->n_buffers - n_prologue;
  memmove(prologue + more, prologue, (size_t)n_prologue * sizeof *prologue);
  for (int i = 0; i < more; i++) prologue[i] = l->buffers[0];
  l->n_buffers += more;
}

void cuda_join_endings(EmittedKernels *kernels) {
  for (int i = 0; i < kernels->n; i++)
    if (has_ending(&kernels->items[i]))
      number_ending(template_conv_of(first_like(kernels, i)), template_conv_of(&kernels->items[i]));
  for (int i = 0; i < kernels->n; i++) {
    EmittedKernel *k = &kernels->items[i];
    if (!has_ending(k)) continue;
    int own = template_conv_of(k)->epilogue.n_inputs + template_conv_of(k)->epilogue.n_outputs,
        all = template_conv_of(first_like(kernels, i))->ending_buffers;
    KernelLaunch *l = product_of(k);
    if (all) add_buffers(l, template_conv_of(k), own, all);
    l->numbers[CONV_ENDING] = template_conv_of(k)->ending;
    template_conv_of(k)->ending_buffers = all;
  }
}

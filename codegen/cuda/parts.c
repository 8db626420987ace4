// PTX of many kernels, made in parts at the same time. How they are divided depends on the kernels alone, so that the
// PTX is the same on every machine.
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/template/template.h"
#include "codegen/output.h"
#include "codegen/parallel.h"
#include "support/alloc.h"
#include "support/text.h"

// FEW: launches that are not worth threads; weights: as much work as a kernel of so many bytes of text
enum { PARTS = 4, FEW = 48, TEMPLATE_WEIGHT = 32 << 10, ENDING_WEIGHT = 8 << 10 };

typedef struct Part {
  EmittedKernels kernels;   // items Owned, what they point to Borrowed
  size_t weight;
  const CudaArch *arch;
  bool time, ok;
  int number;
  const char *folder;   // to assemble in; NULL: not asked for
  bool verbose, assembled;
  KernelFunctions called;   // Owned, what they have Borrowed: of the other parts
  Text ptx;                 // Owned
} Part;

static void lower_part(void *item) {
  Part *p = item;
  p->ok = cuda_lower(&p->kernels, p->arch, CUDA_PTX, p->time, &p->ptx);
  if (!p->ok || !p->folder) return;
  char *ptx = text_format("%s/kernels_%d.ptx", p->folder, p->number),
       *cubin = text_format("%s/kernels_%d.cubin", p->folder, p->number);
  p->assembled = output_write(ptx, text_c_string(&p->ptx), p->ptx.size) &&
                 cuda_assemble(ptx, cubin, p->arch, p->verbose);
  free(ptx);
  free(cubin);
}

// The first kernel of a group, those that have functions in common, directly or through others: shapes share those of
// templates, and in a large program others.
static int group_of(int *group, int i) {
  while (group[i] != i) i = group[i] = group[group[i]];
  return i;
}

static int kernel_with(const EmittedKernels *kernels, int n, const char *symbol) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < kernels->items[i].n_launches; j++)
      if (!strcmp(kernels->items[i].launches[j].symbol, symbol)) return i;
  return -1;
}

// Joins kernel i to the groups of its functions; true if one of them is new.
static bool join_group(const EmittedKernels *kernels, int i, int *group) {
  bool is_new = kernels->items[i].n_launches == 0;
  group[i] = i;
  for (int j = 0; j < kernels->items[i].n_launches; j++) {
    int other = kernel_with(kernels, i, kernels->items[i].launches[j].symbol);
    is_new = is_new || other < 0;
    if (other < 0) continue;
    int a = group_of(group, other), b = group_of(group, i);
    group[a > b ? a : b] = a < b ? a : b;
  }
  return is_new;
}

static size_t weight_of(const EmittedKernel *k) {
  if (k->template) return TEMPLATE_WEIGHT;
  Text text = {0};
  emitted_kernel_text(k, &text);
  size_t bytes = text.size;
  text_free(&text);
  return bytes;
}

// Of each group in order: to the lightest part. A function is written into the part of its group, and only there.
static void divide(const EmittedKernels *kernels, Part *parts) {
  int *group = allocate_array((size_t)kernels->n + 1, sizeof *group),
      *part = allocate_array((size_t)kernels->n + 1, sizeof *part);
  size_t *weight = allocate_array((size_t)kernels->n + 1, sizeof *weight);
  for (int p = 0; p < PARTS; p++) {
    parts[p].kernels = *kernels;
    parts[p].kernels.n = 0;
    parts[p].kernels.items = allocate_array((size_t)kernels->n + 1, sizeof *kernels->items);
  }
  for (int i = 0; i < kernels->n; i++) {
    const EmittedKernel *k = &kernels->items[i];
    // what a kernel of others calls in addition
    weight[i] = join_group(kernels, i, group)        ? weight_of(k)
                : template_conv_of(k) && k->called.n ? (size_t)ENDING_WEIGHT
                                                     : 0;
  }
  for (int i = kernels->n - 1; i >= 0; i--)
    if (group_of(group, i) != i) weight[group_of(group, i)] += weight[i];
  for (int i = 0; i < kernels->n; i++) {
    int first = group_of(group, i);
    if (first == i) {
      part[i] = 0;
      for (int q = 1; q < PARTS; q++)
        if (parts[q].weight < parts[part[i]].weight) part[i] = q;
      parts[part[i]].weight += weight[i];
    }
    Part *p = &parts[part[first]];
    p->kernels.items[p->kernels.n++] = kernels->items[i];
  }
  free(group), free(part), free(weight);
}

// A template may call what another part's kernel brings along: each part gets the functions of all, in an item without
// launches, and drops what it does not use.
static void add_called(const EmittedKernels *kernels, Part *part) {
  EmittedKernel others = {.name = ""};
  for (int i = 0, own = 0; i < kernels->n; i++) {
    if (own < part->kernels.n && part->kernels.items[own].name == kernels->items[i].name) own++;
    else
      for (int j = 0; j < kernels->items[i].called.n; j++)
        functions_add(&part->called, kernels->items[i].called.items[j]);
  }
  others.called = part->called;
  part->kernels.items[part->kernels.n++] = others;
}

// Appends a part without what stands in the text already: the head, and the declaration of dynamic shared memory.
static void append_part(Text *out, const char *ptx) {
  static const char last_of_head[] = ".address_size 64\n", external[] = ".extern .shared ";
  const char *head = out->size ? strstr(ptx, last_of_head) : NULL;
  if (head) ptx = head + strlen(last_of_head);
  for (const char *next; *ptx; ptx = next) {
    next = strchr(ptx, '\n');
    next = next ? next + 1 : ptx + strlen(ptx);
    char *line = strncmp(ptx, external, strlen(external)) ? NULL : text_format("%.*s", (int)(next - ptx), ptx);
    if (!line || !strstr(text_c_string(out), line)) text_append(out, ptx, (size_t)(next - ptx));
    free(line);
  }
}

// All kernels as one part.
static bool lower_together(const EmittedKernels *kernels, Part like, Text *out, int *n_assembled) {
  like.kernels = *kernels;
  lower_part(&like);
  text_append(out, like.ptx.data, like.ptx.size);
  text_free(&like.ptx);
  *n_assembled = like.assembled;
  return like.ok;
}

static bool lower(const EmittedKernels *kernels, Part like, Text *out, int *n_assembled) {
  int n_launches = 0;
  for (int i = 0; i < kernels->n; i++) n_launches += kernels->items[i].n_launches;
  if (n_launches < FEW) return lower_together(kernels, like, out, n_assembled);
  Part parts[PARTS];
  for (int p = 0; p < PARTS; p++) {
    parts[p] = like;
    parts[p].number = p;
    parts[p].time = like.time && p == 0;
  }
  divide(kernels, parts);
  for (int p = 0; p < PARTS; p++) add_called(kernels, &parts[p]);
  codegen_parallel(PARTS, lower_part, parts, sizeof *parts);
  bool ok = true;
  *n_assembled = 0;
  for (int p = 0; p < PARTS; p++) {
    ok = ok && parts[p].ok;
    *n_assembled += parts[p].assembled;
    if (ok) append_part(out, text_c_string(&parts[p].ptx));
    text_free(&parts[p].ptx);
    free(parts[p].called.items);
    free(parts[p].kernels.items);
  }
  if (*n_assembled < PARTS) *n_assembled = 0;
  return ok;
}

bool cuda_lower_ptx(const EmittedKernels *kernels, const CudaArch *arch, bool time_phases, Text *out) {
  int none;
  return lower(kernels, (Part){.arch = arch, .time = time_phases}, out, &none);
}

bool cuda_build_ptx(const EmittedKernels *kernels, const CudaArch *arch, const char *folder,
                    const CodegenOptions *options, Text *out, int *n_cubins) {
  return lower(kernels,
               (Part){.arch = arch, .time = options->time_phases, .folder = folder, .verbose = options->verbose}, out,
               n_cubins);
}

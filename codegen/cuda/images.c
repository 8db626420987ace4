// The code of a GPU's kernels as files, and how the program finds it: PTX and cubins between symbols of images.s (a C
// array of a megabyte would take the compiler seconds), or the emulator's object behind its table.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/output.h"

static void include_images(const char *ptx_path, const char *folder, int n_cubins, Text *out) {
  text_add(out, ".globl nnc_ptx, nnc_ptx_end, nnc_cubins\n.hidden nnc_ptx, nnc_ptx_end, nnc_cubins\n.section "
                ".rodata\n.balign 64\nnnc_ptx:\n");
  text_add(out, ".incbin \"%s\"\nnnc_ptx_end: .byte 0\n", ptx_path);
  for (int i = 0; i < n_cubins; i++)
    text_add(out, ".balign 64\ncubin_%d:\n.incbin \"%s/kernels_%d.cubin\"\n", i, folder, i);
  text_add(out, ".section .data.rel.ro,\"aw\"\n.balign 8\nnnc_cubins:\n");
  for (int i = 0; i < n_cubins; i++) text_add(out, ".quad cubin_%d\n", i);
  text_add(out, ".quad 0\n");
  text_add(out, ".section .note.GNU-stack,\"\",@progbits\n");
}

bool cuda_images_build(const CudaTarget *target, const EmittedKernels *kernels, const CodegenOptions *options,
                       const char *folder, TargetObjects *out) {
  out->path[out->n++] = text_format("%s/%s", folder, target->emulated ? "kernels.o" : "images.s");
  if (target->emulated) return cuda_lower_emulated(kernels, target->arch, out->path[0], options->time_phases);
  char *ptx_path = text_format("%s/kernels.ptx", folder);
  Text ptx = {0}, images = {0};
  int n_cubins = 0;
  bool ok = cuda_build_ptx(kernels, target->arch, folder, options, &ptx, &n_cubins) &&
            output_write_text(ptx_path, &ptx);
  include_images(ptx_path, folder, n_cubins, &images);
  ok = ok && output_write_text(out->path[0], &images);
  text_free(&ptx);
  text_free(&images);
  free(ptx_path);
  return ok;
}

void cuda_images_define(const CudaTarget *target, Text *out) {
  if (target->emulated) text_add(out, "extern const char " EMULATED_TABLE_SYMBOL "[];\n");
  else
    text_add(out, "#define HIDDEN __attribute__((visibility(\"hidden\")))\nextern const char nnc_ptx[] HIDDEN, "
                  "nnc_ptx_end[] HIDDEN;\nextern const void *const nnc_cubins[] HIDDEN;\n");
  text_add(out, "static const NncCuda cuda = {.arch=\"%s\",.ptx_version=%d,.tf32=%s,.load=%s", target->arch->name,
           target->arch->ptx_version, target->base.tf32 ? "true" : "false",
           target->emulated ? "nnc_cuda_load_emulator" : "nnc_cuda_load");
  text_add(out, target->emulated ? ",.module=" EMULATED_TABLE_SYMBOL
                                 : ",.ptx=nnc_ptx,.ptx_end=nnc_ptx_end,.cubins=nnc_cubins");
  text_add(out, "};\n");
}

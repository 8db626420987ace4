// codegen_emit: a planned module to kernels, LLVM IR, assembly, tables or an executable.
#include "codegen/codegen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "codegen/cuda/cuda.h"
#include "codegen/host/host.h"
#include "codegen/kernel/translate.h"
#include "codegen/link.h"
#include "codegen/parallel.h"
#include "codegen/scratch.h"
#include "codegen/tables.h"
#include "compiler/output.h"
#include "support/text.h"

enum { NICENESS = 10 };   // of the threads that lower kernels

static bool write_text(const char *path, const Text *text) {
  if (output_write(path, text_c_string(text), text->size)) return true;
  fprintf(stderr, "nnc: error: cannot write '%s': %s\n", path, strerror(errno));
  return false;
}

static void kernels_text(const EmittedKernels *kernels, Text *out) {
  text_append(out, kernels->declarations.data, kernels->declarations.size);
  text_add(out, "\n");
  for (int i = 0; i < kernels->n; i++) {
    text_append(out, kernels->items[i].text.data, kernels->items[i].text.size);
    text_append(out, kernels->items[i].called.data, kernels->items[i].called.size);
  }
}

static bool emit_lowered(const EmittedKernels *kernels, const HostCpu *cpu, HostOutput what,
                         const CodegenOptions *options) {
  Text text = {0};
  kernels_text(kernels, &text);
  bool ok = host_lower(text_c_string(&text), cpu, options->opt_level, what, options->output, options->time_phases);
  text_free(&text);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// The executable: everything is made in a folder beside it, so that the last step is a rename on the same file system

// Program: what is made into an executable in `folder`.
typedef struct Program {
  MlirModule module;
  const EmittedKernels *kernels;
  const HostCpu *cpu;   // NULL: for a GPU, arch
  const CudaArch *arch;
  const CodegenOptions *options;
  const char *folder;
  GpuImages *images;   // NULL: for the host
  Link *link;          // NULL: could not be begun
  bool (*lower)(struct Program *program);
  bool lowered;
} Program;

typedef struct Part {
  Text text;      // Owned
  char *object;   // Owned
  const HostCpu *cpu;
  const CodegenOptions *options;
  bool time, ok;
} Part;

static void lower_part(void *p) {
  Part *part = p;
  part->ok = host_lower(text_c_string(&part->text), part->cpu, part->options->opt_level, HOST_OBJECT, part->object,
                        part->time);
}

// Kernels go to the part with the least text so far: their compile times follow their sizes.
static int split_kernels(const EmittedKernels *kernels, const HostCpu *cpu, const CodegenOptions *options,
                         const char *folder, Part *parts) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int n = cores < 1 ? 1 : cores > MAX_PARTS ? MAX_PARTS : (int)cores;
  if (n > (kernels->n + 3) / 4) n = (kernels->n + 3) / 4;
  if (n < 1) n = 1;
  for (int i = 0; i < n; i++) {
    parts[i] = (Part){.object = text_format("%s/kernels_%d.o", folder, i),
                      .cpu = cpu,
                      .options = options,
                      .time = options->time_phases && i == 0};
    text_append(&parts[i].text, kernels->declarations.data, kernels->declarations.size);
  }
  for (int k = 0; k < kernels->n; k++) {
    int least = 0;
    for (int i = 1; i < n; i++)
      if (parts[i].text.size < parts[least].text.size) least = i;
    text_append(&parts[least].text, kernels->items[k].text.data, kernels->items[k].text.size);
  }
  return n;
}

static bool lower_parts(int n, Part *parts) {
  bool ok = true;
  codegen_parallel(n, lower_part, parts, sizeof *parts);
  for (int i = 0; i < n; i++) ok = ok && parts[i].ok;
  return ok;
}

// The tables, for the C compiler to be at work on while the kernels are lowered.
static void begin_link(Program *p) {
  Text tables = {0};
  char *source = text_format("%s/program.c", p->folder);
  if (tables_write(p->module, p->kernels, p->cpu ? p->cpu->name : NULL, p->options, p->images, p->folder, &tables) &&
      write_text(source, &tables))
    p->link = link_begin(source, p->folder, p->options);
  text_free(&tables);
  free(source);
}

static void run_half(void *half) {
  Program *p = *(Program **)half;
  if (!p->lower) {
    begin_link(p);
    return;
  }
  // Of this thread and those that it makes, on Linux: the C compiler is one process, and with too little of two cores
  // it ends last.
  setpriority(PRIO_PROCESS, 0, NICENESS);
  p->lowered = p->lower(p);
}

// Both at the same time: only one of them reads the module.
static bool build_halves(Program *p, bool (*lower)(Program *program)) {
  Program tables = *p;
  Program *halves[] = {&tables, p};
  p->lower = lower;
  codegen_parallel(2, run_half, halves, sizeof *halves);
  p->link = tables.link;
  return p->link && p->lowered;
}

typedef struct HostObjects {
  Program program;
  Part parts[MAX_PARTS];
  int n;
} HostObjects;

static bool lower_host(Program *program) {
  HostObjects *h = (HostObjects *)program;
  return lower_parts(h->n, h->parts);
}

static bool build_host(const Program *program, const CodegenOptions *options, const char *folder) {
  HostObjects h = {.program = *program};
  const char *objects[MAX_PARTS];
  h.program.options = options, h.program.folder = folder;
  h.n = split_kernels(program->kernels, program->cpu, options, folder, h.parts);
  for (int i = 0; i < h.n; i++) objects[i] = h.parts[i].object;
  translate_initialize_x86();
  bool ok = build_halves(&h.program, lower_host);
  ok = h.program.link && link_end(h.program.link, h.n, objects, ok);
  for (int i = 0; i < h.n; i++) {
    free(h.parts[i].object);
    text_free(&h.parts[i].text);
  }
  return ok;
}

// Runs `build` in a folder beside the output.
static bool emit_executable(bool (*build)(const Program *program, const CodegenOptions *options, const char *folder),
                            const Program *program, const CodegenOptions *options) {
  if (output_is_special(options->output)) {
    fprintf(stderr, "nnc: error: cannot write '%s': it is not a regular file\n", options->output);
    return false;
  }
  Scratch scratch;
  CodegenOptions real = *options;
  char *output = output_real_name(options->output);
  real.output = output;
  bool ok = scratch_begin(&scratch, output, options->keep_temporaries);
  if (ok) {
    ok = build(program, &real, scratch.folder);
    scratch_end(&scratch);
  }
  free(output);
  return ok;
}

static bool emit_host(MlirModule module, CodegenEmit what, const CodegenOptions *options) {
  HostCpu cpu;
  if (!host_cpu_detect(options->cpu, &cpu)) {
    fprintf(stderr, "nnc: error: unknown CPU '%s'\n", options->cpu);
    return false;
  }
  EmittedKernels kernels;
  host_kernels_emit(module, &cpu, &kernels);
  Text text = {0};
  bool ok = true;
  switch (what) {
  case CODEGEN_KERNELS:
    kernels_text(&kernels, &text);
    ok = write_text(options->output, &text);
    break;
  case CODEGEN_LLVM:
  case CODEGEN_ASM:
    translate_initialize_x86();
    ok = emit_lowered(&kernels, &cpu, what == CODEGEN_LLVM ? HOST_LLVM : HOST_ASM, options);
    break;
  case CODEGEN_PTX: break;   // the options do not allow it
  case CODEGEN_TABLES:
    ok = tables_write(module, &kernels, cpu.name, options, NULL, NULL, &text) && write_text(options->output, &text);
    break;
  case CODEGEN_EXE:
    ok = emit_executable(build_host, &(Program){.module = module, .kernels = &kernels, .cpu = &cpu}, options);
    break;
  }
  text_free(&text);
  emitted_kernels_free(&kernels);
  host_cpu_free(&cpu);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// CUDA

// ptx, object: Owned; paths
typedef struct CudaObjects {
  Program program;
  GpuImages images;
  char *ptx, *object;
} CudaObjects;

// The kernels as files in the folder: PTX and, with ptxas, a cubin; or an object for the emulator.
static bool lower_cuda(Program *program) {
  CudaObjects *c = (CudaObjects *)program;
  if (program->options->emulate)
    return cuda_lower_emulated(program->kernels, program->arch, c->object, program->options->time_phases);
  Text ptx = {0};
  bool ok = cuda_build_ptx(program->kernels, program->arch, program->folder, program->options, &ptx,
                           &c->images.n_cubins) &&
            write_text(c->ptx, &ptx);
  text_free(&ptx);
  return ok;
}

static bool write_images(const CudaObjects *c, const char *path) {
  Text text = {0};
  images_write(&c->images, &text);
  bool ok = write_text(path, &text);
  text_free(&text);
  return ok;
}

static bool build_cuda(const Program *program, const CodegenOptions *options, const char *folder) {
  CudaObjects c = {.program = *program,
                   .ptx = text_format("%s/kernels.ptx", folder),
                   .object = text_format("%s/kernels.o", folder)};
  c.images = (GpuImages){.arch = program->arch->name,
                         .ptx_version = program->arch->ptx_version,
                         .tf32 = cuda_uses_tf32(),
                         .emulated = options->emulate,
                         .folder = folder,
                         .ptx_path = c.ptx};
  c.program.options = options, c.program.folder = folder, c.program.images = &c.images;
  char *bytes = text_format("%s/images.s", folder);
  bool ok = build_halves(&c.program, lower_cuda);
  if (ok && !options->emulate) ok = write_images(&c, bytes);
  const char *objects[] = {options->emulate ? c.object : bytes};
  ok = c.program.link && link_end(c.program.link, 1, objects, ok);
  free(bytes);
  free(c.ptx);
  free(c.object);
  return ok;
}

static bool emit_cuda(MlirModule module, CodegenEmit what, const CodegenOptions *options) {
  const CudaArch *arch = cuda_arch(options->gpu_arch);
  EmittedKernels kernels;
  cuda_kernels_emit(module, &kernels);
  cuda_share_kernels(&kernels, SHARE_MANY, SHARE_ALIKE);
  Text text = {0};
  bool ok = true;
  switch (what) {
  case CODEGEN_KERNELS: kernels_text(&kernels, &text); break;
  case CODEGEN_LLVM: ok = cuda_lower(&kernels, arch, CUDA_LLVM, options->time_phases, &text); break;
  case CODEGEN_PTX: ok = cuda_lower_ptx(&kernels, arch, options->time_phases, &text); break;
  case CODEGEN_TABLES: {
    GpuImages images = {.arch = arch->name,
                        .ptx_version = arch->ptx_version,
                        .tf32 = cuda_uses_tf32(),
                        .emulated = options->emulate};
    ok = tables_write(module, &kernels, NULL, options, &images, NULL, &text);
    break;
  }
  case CODEGEN_EXE:
    ok = emit_executable(build_cuda, &(Program){.module = module, .kernels = &kernels, .arch = arch}, options);
    break;
  case CODEGEN_ASM: ok = false; break;   // the options do not allow it
  }
  ok = ok && (what == CODEGEN_EXE || write_text(options->output, &text));
  text_free(&text);
  emitted_kernels_free(&kernels);
  return ok;
}

bool codegen_emit(MlirModule module, CodegenEmit what, const CodegenOptions *options) {
  return options->gpu_arch ? emit_cuda(module, what, options) : emit_host(module, what, options);
}

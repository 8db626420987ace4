// codegen_emit: a planned module to kernels, LLVM IR, assembly, tables or an executable.
#include "codegen/codegen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/cuda/cuda.h"
#include "codegen/host/host.h"
#include "codegen/parallel.h"
#include "codegen/scratch.h"
#include "compiler/output.h"

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

static bool emit_lowered(const EmittedKernels *kernels, const HostCpu *cpu, HostOutput what, const CodegenOptions *options) {
  Text text = {0};
  kernels_text(kernels, &text);
  bool ok = host_lower(text_c_string(&text), cpu, options->opt_level, what, options->output, options->time_phases);
  text_free(&text);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// The executable: everything is made in a folder beside it, so that the last step is a rename on the same file system

typedef struct Part {
  Text text;                 // Owned
  char *object;              // Owned
  const HostCpu *cpu;
  const CodegenOptions *options;
  bool time, ok;
} Part;

static void lower_part(void *p) {
  Part *part = p;
  part->ok = host_lower(text_c_string(&part->text), part->cpu, part->options->opt_level, HOST_OBJECT, part->object, part->time);
}

// Kernels go to the part with the least text so far: their compile times follow their sizes.
static int split_kernels(const EmittedKernels *kernels, const HostCpu *cpu, const CodegenOptions *options, const char *folder, Part *parts) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  int n = cores < 1 ? 1 : cores > MAX_PARTS ? MAX_PARTS : (int)cores;
  if (n > (kernels->n + 3) / 4) n = (kernels->n + 3) / 4;
  if (n < 1) n = 1;
  for (int i = 0; i < n; i++) {
    parts[i] = (Part){.object = text_format("%s/kernels_%d.o", folder, i), .cpu = cpu, .options = options, .time = options->time_phases && i == 0};
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
  host_lower_initialize();
  codegen_parallel(n, lower_part, parts, sizeof *parts);
  for (int i = 0; i < n; i++) ok = ok && parts[i].ok;
  return ok;
}

static bool build_executable(const EmittedKernels *kernels, const HostCpu *cpu, const Text *tables, const CodegenOptions *options, const char *folder) {
  Part parts[MAX_PARTS];
  const char *objects[MAX_PARTS];
  int n = split_kernels(kernels, cpu, options, folder, parts);
  char *source = text_format("%s/program.c", folder);
  HostLink *link = write_text(source, tables) ? host_link_begin(source, folder, options) : NULL;
  for (int i = 0; i < n; i++) objects[i] = parts[i].object;
  bool lowered = link && lower_parts(n, parts);
  bool ok = link && host_link_end(link, n, objects, lowered);
  for (int i = 0; i < n; i++) {
    free(parts[i].object);
    text_free(&parts[i].text);
  }
  free(source);
  return ok;
}

typedef struct HostProgram { const EmittedKernels *kernels; const HostCpu *cpu; const Text *tables; } HostProgram;

static bool build_host(const void *program, const CodegenOptions *options, const char *folder) {
  const HostProgram *p = program;
  return build_executable(p->kernels, p->cpu, p->tables, options, folder);
}

// Runs `build` in a folder beside the output.
static bool emit_executable(bool (*build)(const void *program, const CodegenOptions *options, const char *folder), const void *program, const CodegenOptions *options) {
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
      host_lower_initialize();
      ok = emit_lowered(&kernels, &cpu, what == CODEGEN_LLVM ? HOST_LLVM : HOST_ASM, options);
      break;
    case CODEGEN_PTX: break;   // the options do not allow it
    case CODEGEN_TABLES:
    case CODEGEN_EXE:
      ok = host_tables_write(module, &kernels, &cpu, options, NULL, &text);
      if (ok) ok = what == CODEGEN_TABLES ? write_text(options->output, &text) : emit_executable(build_host, &(HostProgram){&kernels, &cpu, &text}, options);
      break;
  }
  text_free(&text);
  emitted_kernels_free(&kernels);
  host_cpu_free(&cpu);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// CUDA

typedef struct CudaProgram { MlirModule module; const EmittedKernels *kernels; const CudaArch *arch; } CudaProgram;

// The kernels as files in the folder: PTX and, with ptxas, a cubin; or an object for the emulator.
static bool build_kernels(const CudaProgram *p, const CodegenOptions *options, const char *ptx_path, const char *object, CudaImages *images) {
  if (options->emulate) return cuda_lower_emulated(p->kernels, p->arch, object, options->time_phases);
  Text ptx = {0};
  bool ok = cuda_build_ptx(p->kernels, p->arch, images->folder, options, &ptx, &images->n_cubins) && write_text(ptx_path, &ptx);
  text_free(&ptx);
  images->ptx_path = ptx_path;
  return ok;
}

static bool build_cuda(const void *program, const CodegenOptions *options, const char *folder) {
  const CudaProgram *p = program;
  CudaImages images = {.arch = p->arch->name, .ptx_version = p->arch->ptx_version, .tf32 = cuda_uses_tf32(), .emulated = options->emulate, .folder = folder};
  char *ptx = text_format("%s/kernels.ptx", folder), *object = text_format("%s/kernels.o", folder);
  char *source = text_format("%s/program.c", folder), *bytes = text_format("%s/images.s", folder);
  Text tables = {0}, images_text = {0};
  bool ok = host_tables_write(p->module, p->kernels, NULL, options, &images, &tables) && write_text(source, &tables);
  HostLink *link = ok ? host_link_begin(source, folder, options) : NULL;
  ok = link && build_kernels(p, options, ptx, object, &images);
  if (ok && !options->emulate) {
    host_images_write(&images, &images_text);
    ok = write_text(bytes, &images_text);
  }
  const char *objects[] = {options->emulate ? object : bytes};
  ok = link && host_link_end(link, 1, objects, ok);
  text_free(&tables);
  text_free(&images_text);
  free(bytes);
  free(ptx);
  free(object);
  free(source);
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
      CudaImages images = {.arch = arch->name, .ptx_version = arch->ptx_version, .tf32 = cuda_uses_tf32(), .emulated = options->emulate};
      ok = host_tables_write(module, &kernels, NULL, options, &images, &text);
      break;
    }
    case CODEGEN_EXE: ok = emit_executable(build_cuda, &(CudaProgram){module, &kernels, arch}, options); break;
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

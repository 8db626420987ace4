// codegen_emit: a planned module to kernels, LLVM IR, assembly, tables, an executable or a library.
#include "codegen/codegen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "codegen/kernel/translate.h"
#include "codegen/library.h"
#include "codegen/link.h"
#include "codegen/output.h"
#include "codegen/parallel.h"
#include "codegen/scratch.h"
#include "codegen/tables.h"
#include "codegen/target.h"
#include "support/text.h"

enum { NICENESS = 10 };   // of the threads that lower kernels

// ---------------------------------------------------------------------------------------------------------------------
// The executable: everything is made in a folder beside it, so that the last step is a rename on the same file system

// What is made into an executable in `folder`.
typedef struct Program {
  const CodegenTarget *target;
  MlirModule module;
  const EmittedKernels *kernels;
  const CodegenOptions *options;
  const char *folder;
  Link *link;              // NULL: could not be begun
  TargetObjects objects;   // Owned
  bool lowered;
} Program;

// The tables, for the C compiler to be at work on while the kernels are lowered.
static void begin_link(Program *p) {
  Text tables = {0};
  char *source = text_format("%s/program.c", p->folder);
  if (tables_write(p->target, p->module, p->kernels, p->options, p->folder, &tables) &&
      output_write_text(source, &tables))
    p->link = link_begin(source, p->folder, p->options);
  text_free(&tables);
  free(source);
}

static void lower(Program *p) {
  // Of this thread and those that it makes, on Linux: the C compiler is one process, and with too little of two cores
  // it ends last.
  setpriority(PRIO_PROCESS, 0, NICENESS);
  p->lowered = p->target->lower_objects(p->target, p->kernels, p->options, p->folder, &p->objects);
}

typedef struct Half {
  Program *program;
  void (*work)(Program *program);
} Half;

static void run_half(void *half) { ((Half *)half)->work(((Half *)half)->program); }

// Both halves at the same time: only the first reads the module.
static bool build(Program *p) {
  Half halves[] = {{p, begin_link}, {p, lower}};
  codegen_parallel(2, run_half, halves, sizeof *halves);
  bool ok = p->link && link_end(p->link, p->objects.n, (const char *const *)p->objects.path, p->lowered);
  target_objects_free(&p->objects);
  return ok;
}

// In a folder beside the output.
static bool emit_program(Program *p, bool library) {
  CodegenOptions real = *p->options;
  real.library = library;
  real.readers = tables_readers(p->module);
  real.flags = p->target->flags;
  if (output_is_special(real.output)) {
    fprintf(stderr, "nnc: error: cannot write '%s': it is not a regular file\n", real.output);
    return false;
  }
  Scratch scratch;
  char *output = output_real_name(real.output);
  real.output = output;
  p->options = &real;
  bool ok = scratch_begin(&scratch, output, real.keep_temporaries);
  if (ok) {
    p->folder = scratch.folder;
    ok = (!library || library_write_parts(p->module, p->folder)) && build(p);
    scratch_end(&scratch);
  }
  free(output);
  return ok;
}

bool codegen_emit(const CodegenTarget *target, MlirModule module, CodegenEmit what, const CodegenOptions *options) {
  EmittedKernels kernels;
  target->emit_kernels(target, module, &kernels);
  Text text = {0};
  bool ok = true;
  switch (what) {
  case CODEGEN_KERNELS: emitted_kernels_text(&kernels, &text); break;
  case CODEGEN_TABLES: ok = tables_write(target, module, &kernels, options, NULL, &text); break;
  case CODEGEN_EXE:
  case CODEGEN_LIBRARY:
    ok = emit_program(&(Program){.target = target, .module = module, .kernels = &kernels, .options = options},
                      what == CODEGEN_LIBRARY);
    break;
  case CODEGEN_LLVM:
  case CODEGEN_ASM:
  case CODEGEN_PTX: ok = target->lower_text(target, &kernels, what, options, &text); break;
  }
  bool linked = what == CODEGEN_EXE || what == CODEGEN_LIBRARY;
  ok = ok && (linked || output_write_text(options->output, &text));
  text_free(&text);
  emitted_kernels_free(&kernels);
  return ok;
}

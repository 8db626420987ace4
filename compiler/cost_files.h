// --machine and --costs: a description of the machine that the cost model uses, and times measured on it. Formats:
// docs/targets.md.
#ifndef NNC_COMPILER_COST_FILES_H
#define NNC_COMPILER_COST_FILES_H

#include "codegen/codegen.h"
#include "compiler/diagnostics.h"

// `name` is a file when it has a slash or ends in .json, else one of the descriptions installed with nnc.
bool machine_is_file(const char *name);
// False: reported.
bool machine_read(Diagnostics *d, const char *name, Machine *machine);

typedef struct CostFile {
  const char *path;       // Borrowed
  CostTable table;        // Owned
  const Source *source;   // Borrowed from the diagnostics
  char *model;            // Owned; the model that was measured
  int model_line, model_column;
} CostFile;

// Reads the file and checks it: its times must be of the target ("host", "cuda", "cuda-emu"); for the host, warns when
// it was measured with another number of threads than this machine has. False: reported.
bool cost_file_read(Diagnostics *d, const char *path, const char *target, CostFile *file);
void cost_file_free(CostFile *file);
// Before `remat`: the times must be of this model, and of some of its steps; steps that have none are a warning.
bool cost_file_match(Diagnostics *d, const CodegenTarget *target, CostFile *file, MlirModule module);

#endif

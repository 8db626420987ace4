// The system's C compiler at work on an executable.
#ifndef NNC_CODEGEN_LINK_H
#define NNC_CODEGEN_LINK_H

#include "codegen/codegen.h"

// Links in two steps, so that the C compiler works on the tables while the kernels are lowered. begin: NULL after
// reporting. end: links the tables, the kernels' objects and the runtime and renames the result to options->output;
// unless `wanted`, it only cleans up. Always frees; leaves nothing of its own in the folder.
typedef struct Link Link;
Link *link_begin(const char *tables_path, const char *folder, const CodegenOptions *options);
bool link_end(Link *link, int n_objects, const char *const *objects, bool wanted);

#endif

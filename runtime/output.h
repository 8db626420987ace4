// Where a file is renamed into place: shared by the runtime, the compiler and nnc-plan.
#ifndef NNC_RUNTIME_OUTPUT_H
#define NNC_RUNTIME_OUTPUT_H

#include <stdbool.h>

// The name that a rename has to go to so that `path` is written: that of the file which symbolic links lead to, whether
// or not there is one yet; otherwise `path` itself. Never NULL. Owned: free().
char *output_real_name(const char *path);
// Whether something other than a regular file or a folder is there (a device, a pipe), which a rename would replace.
bool output_is_special(const char *path);
// Both name one file, whether or not there is one yet.
bool output_is_same(const char *path, const char *other);

#endif

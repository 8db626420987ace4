// Files that the tools write: complete or not at all.
#ifndef NNC_COMPILER_OUTPUT_H
#define NNC_COMPILER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

// Writes `size` bytes under another name in the same folder and renames, so that a failure leaves what was there. "-" is standard output;
// what is there but no regular file (/dev/null, a pipe) is written in place.
// False with errno set.
bool output_write(const char *path, const char *data, size_t size);
// Whether something other than a regular file or a folder is there, which a rename would replace.
bool output_is_special(const char *path);

#endif

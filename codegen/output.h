// Files that the tools write: complete or not at all.
#ifndef NNC_CODEGEN_OUTPUT_H
#define NNC_CODEGEN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/output.h"
#include "support/text.h"

// Writes `size` bytes under another name in the same folder and renames, so that a failure leaves what was there; a
// symbolic link stays one. "-" is standard output; what is there but no regular file (/dev/null, a pipe) is written in
// place. False with errno set.
bool output_write(const char *path, const char *data, size_t size);
bool output_write_text(const char *path, const Text *text);   // false after saying so on stderr

#endif

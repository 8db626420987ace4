// Files that the tools write, renamed into place when they are complete; output.h.
#include "codegen/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool write_all(FILE *out, const char *data, size_t size) {
  bool ok = fwrite(data, 1, size, out) == size;
  int error = errno;
  if ((out == stdout ? fflush(out) : fclose(out)) != 0 && ok) {
    ok = false;
    error = errno;
  }
  errno = error;
  return ok;
}

bool output_write(const char *path, const char *data, size_t size) {
  errno = 0;
  if (strcmp(path, "-") == 0) return write_all(stdout, data, size);
  if (output_is_special(path)) {
    FILE *special = fopen(path, "wb");
    return special && write_all(special, data, size);
  }
  char *real = output_real_name(path), *temporary = text_format("%s.%ld.tmp", real, (long)getpid());
  FILE *out = fopen(temporary, "wb");
  bool ok = out && write_all(out, data, size) && rename(temporary, real) == 0;
  int error = errno;
  if (!ok && out) unlink(temporary);
  free(temporary);
  free(real);
  errno = error;
  return ok;
}

bool output_write_text(const char *path, const Text *text) {
  if (output_write(path, text_c_string(text), text->size)) return true;
  fprintf(stderr, "nnc: error: cannot write '%s': %s\n", path, strerror(errno));
  return false;
}

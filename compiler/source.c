// Reading .nn files, and finding their lines again for diagnostics.
#include "compiler/source.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/alloc.h"

static char *read_all(FILE *in, size_t *length, const char **error) {
  size_t room = 1 << 14, n = 0;
  char *text = allocate_array(room, 1);
  for (;;) {
    n += fread(text + n, 1, room - n - 1, in);
    if (n > SOURCE_MAX_BYTES) {
      *error = "the file is larger than 8 MiB";
      break;
    }
    if (n < room - 1) {
      if (ferror(in)) {
        *error = strerror(errno);
        break;
      }
      text[n] = 0;
      *length = n;
      return text;
    }
    text = reallocate_array(text, room *= 2, 1);
  }
  free(text);
  return NULL;
}

// Takes ownership of text.
static Source *source_create(const char *name, char *text, size_t length) {
  int n_lines = 1;
  for (size_t i = 0; i < length; i++) n_lines += text[i] == '\n';
  Source *s = allocate_array(1, sizeof *s);
  size_t *line_start = allocate_array((size_t)n_lines, sizeof *line_start);
  *s =
      (Source){.name = copy_string(name), .text = text, .length = length, .line_start = line_start, .n_lines = n_lines};
  for (size_t i = 0, line = 1; i < length; i++)
    if (text[i] == '\n') line_start[line++] = i + 1;
  return s;
}

Source *source_read(const char *path, const char **error) {
  bool standard_input = strcmp(path, "-") == 0;
  FILE *in = standard_input ? stdin : fopen(path, "rb");
  if (!in) {
    *error = strerror(errno);
    return NULL;
  }
  struct stat info = {0};
  size_t length = 0;
  char *text = NULL;
  if (fstat(fileno(in), &info) != 0) info.st_mode = 0;
  if (S_ISDIR(info.st_mode)) *error = strerror(EISDIR);
  else text = read_all(in, &length, error);
  if (!standard_input) fclose(in);
  if (!text) return NULL;
  Source *s = source_create(standard_input ? "<stdin>" : path, text, length);
  if (S_ISREG(info.st_mode)) s->device = (uint64_t)info.st_dev, s->inode = (uint64_t)info.st_ino;
  return s;
}

bool source_is_file(const Source *s, const char *path) {
  struct stat info;
  return s->inode && stat(path, &info) == 0 && s->device == (uint64_t)info.st_dev && s->inode == (uint64_t)info.st_ino;
}

// Where the last part of out[0, n) begins.
static size_t last_part(const char *out, size_t n) {
  while (n > 0 && out[n - 1] != '/') n--;
  return n;
}

char *source_tidy_path(const char *path) {
  size_t n = 0;
  char *out = allocate_array(strlen(path) + 2, 1);
  if (path[0] == '/') out[n++] = '/';
  for (const char *p = path, *end; *p; p = end) {
    p += strspn(p, "/");
    end = p + strcspn(p, "/");
    size_t length = (size_t)(end - p), before = n > 1 ? last_part(out, n - 1) : n;
    if (length == 0 || (length == 1 && p[0] == '.')) continue;
    bool up = length == 2 && memcmp(p, "..", 2) == 0,
         stays = before == n || (n - before == 3 && memcmp(out + before, "../", 3) == 0);
    if (up && !stays) {
      n = before;
      continue;
    }
    memcpy(out + n, p, length);
    n += length;
    if (*end) out[n++] = '/';
  }
  out[n] = 0;
  struct stat tidy, given;
  bool same = n > 0 && stat(out, &tidy) == 0 && stat(path, &given) == 0 && tidy.st_dev == given.st_dev &&
              tidy.st_ino == given.st_ino;
  if (!same) strcpy(out, path);
  return out;
}

Source *source_from_text(const char *name, const char *text, size_t length) {
  char *copy = allocate_array(length + 1, 1);
  memcpy(copy, text, length);
  return source_create(name, copy, length);
}

void source_free(Source *s) {
  if (!s) return;
  free(s->name);
  free(s->text);
  free(s->line_start);
  free(s);
}

const char *source_line(const Source *s, int line, size_t *length) {
  *length = 0;
  if (line < 1 || line > s->n_lines) return "";
  size_t start = s->line_start[line - 1];
  size_t end = line < s->n_lines ? s->line_start[line] - 1 : s->length;
  if (end > start && s->text[end - 1] == '\r') end--;
  *length = end - start;
  return s->text + start;
}

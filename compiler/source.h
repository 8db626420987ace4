// The text of one .nn file with its lines, and places in it. Everything a diagnostic needs to show a line.
#ifndef NNC_COMPILER_SOURCE_H
#define NNC_COMPILER_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOURCE_MAX_BYTES \
  (8u << 20)   // a larger file is refused: it is not a program, and its tree could outgrow the memory

typedef struct Source {
  char *name;   // as the user wrote it, or "<stdin>"; shown in diagnostics, file of MLIR locations
  char *text;   // length bytes and a final NUL; may hold any bytes
  size_t length;
  size_t *line_start;       // byte offset of each line
  int n_lines;              // at least 1
  int order;                // among the sources of a run, which messages follow
  bool is_prelude;          // of the compiler itself: no message shows it
  uint64_t device, inode;   // of the file that was read; 0, 0: not one
} Source;

// A place in a source. A null source means the command line: such diagnostics have no line to show.
typedef struct AstPos {
  const Source *source;   // Borrowed
  int line, column;       // from 1; the column counts bytes (it is printed in characters)
  int length;             // bytes to underline, on this line; 0 or 1: a caret alone
} AstPos;

// Reads a file; "-" is standard input. NULL and a sentence in *error (a static string or strerror text) when it cannot
// be read, is a directory, or is over the limit. Owned: source_free.
Source *source_read(const char *path, const char **error);
Source *source_from_text(const char *name, const char *text, size_t length);   // copies both
void source_free(Source *s);
// path leads to the file that s was read from, whatever it is called
bool source_is_file(const Source *s, const char *path);
// The path without "./", "//" and "folder/..", as long as that names the same file (a folder may be a symbolic link).
// Owned: free().
char *source_tidy_path(const char *path);
// Line `line` without its newline; length in *length. An empty line when there is no such line.
const char *source_line(const Source *s, int line, size_t *length);

#endif

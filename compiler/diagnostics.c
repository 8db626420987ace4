// Printing of diagnostics; see diagnostics.h. State is one per process: the compiler reads one program.
#include "compiler/diagnostics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SOURCE ((size_t)64 << 20)

static struct { Source *sources; DiagColor color; int limit, errors; bool last_shown; } diag = {.limit = 20};

void diag_set_color(DiagColor color) { diag.color = color; }
void diag_set_limit(int errors) { diag.limit = errors; }
int diag_errors(void) { return diag.errors; }

static bool colored(void)
{
  return diag.color == DIAG_COLOR_ALWAYS || (diag.color == DIAG_COLOR_AUTO && isatty(STDERR_FILENO) && !getenv("NO_COLOR"));
}

// The line around pos with a caret under the column; tabs are kept so that the caret lines up, bytes above 127 are taken as UTF-8.
static void show_line(AstPos pos)
{
  if (!pos.source || !pos.source->text || pos.line < 1) return;
  const char *s = pos.source->text, *end = s + pos.source->size;
  for (int line = 1; line < pos.line && s < end; s++)
    if (*s == '\n') line++;
  const char *stop = memchr(s, '\n', (size_t)(end - s));
  size_t length = (size_t)((stop ? stop : end) - s);
  if (length > 400) length = 400;
  fputs("  ", stderr);
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)s[i];
    fputc(c < 32 && c != '\t' ? '?' : c == 127 ? '?' : c, stderr);
  }
  fputs("\n  ", stderr);
  size_t column = pos.column > 0 ? (size_t)pos.column - 1 : 0;
  for (size_t i = 0; i < column && i < length; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '\t') fputc('\t', stderr);
    else if ((c & 0xC0) != 0x80) fputc(' ', stderr);
  }
  if (column <= length) {
    fputs(colored() ? "\033[1;32m^" : "^", stderr);
    for (int i = 1; i < pos.length && column + (size_t)i < length; i++)
      if (((unsigned char)s[column + (size_t)i] & 0xC0) != 0x80) fputc('~', stderr);
    if (colored()) fputs("\033[0m", stderr);
  }
  fputc('\n', stderr);
}

static void show(AstPos pos, const char *severity, const char *color, const char *format, va_list args)
{
  if (colored()) fputs("\033[1m", stderr);
  if (pos.source) fprintf(stderr, "%s:%d:%d: ", pos.source->name, pos.line, pos.column);
  else fputs("nnc: ", stderr);
  if (colored()) fprintf(stderr, "%s%s:\033[0m\033[1m ", color, severity);
  else fprintf(stderr, "%s: ", severity);
  vfprintf(stderr, format, args);
  fputs(colored() ? "\033[0m\n" : "\n", stderr);
  show_line(pos);
}

void diag_verror(AstPos pos, const char *format, va_list args)
{
  diag.last_shown = diag.errors++ < diag.limit;
  if (diag.last_shown) show(pos, "error", "\033[31m", format, args);
}

void diag_error(AstPos pos, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  diag_verror(pos, format, args);
  va_end(args);
}

void diag_warning(AstPos pos, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  show(pos, "warning", "\033[35m", format, args);
  va_end(args);
}

void diag_note(AstPos pos, const char *format, ...)
{
  va_list args;
  if (!diag.last_shown) return;
  va_start(args, format);
  show(pos, "note", "\033[36m", format, args);
  va_end(args);
}

void diag_hint(const char *format, ...)
{
  va_list args;
  if (!diag.last_shown) return;
  fputs(colored() ? "  \033[36mhint:\033[0m " : "  hint: ", stderr);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
}

void diag_finish(void)
{
  if (diag.errors > diag.limit) fprintf(stderr, "nnc: %d more errors not shown\n", diag.errors - diag.limit);
  while (diag.sources) {
    Source *next = diag.sources->next;
    free(diag.sources->name);
    free(diag.sources->text);
    free(diag.sources);
    diag.sources = next;
  }
}

// --- Sources ---------------------------------------------------------------------------------------------------------------

static Source *read_stream(FILE *f, const char *path)
{
  size_t size = 0, capacity = 1 << 14;
  char *text = malloc(capacity + 1);
  while (text) {
    size += fread(text + size, 1, capacity - size, f);
    if (size < capacity || size > MAX_SOURCE) break;
    char *larger = realloc(text, (capacity *= 2) + 1);
    if (!larger) { free(text); text = NULL; break; }
    text = larger;
  }
  AstPos nowhere = {0};
  if (!text || ferror(f) || size > MAX_SOURCE) {
    diag_error(nowhere, "cannot read '%s': %s", path, !text ? "out of memory" : ferror(f) ? strerror(errno) : "larger than 64 MiB");
    free(text);
    return NULL;
  }
  text[size] = 0;
  Source *source = calloc(1, sizeof *source);
  if (!source) abort();
  *source = (Source){strdup(strcmp(path, "-") == 0 ? "<stdin>" : path), text, size, diag.sources};
  diag.sources = source;
  return source;
}

Source *source_read(const char *path)
{
  AstPos nowhere = {0};
  struct stat info;
  if (strcmp(path, "-") == 0) return read_stream(stdin, path);
  FILE *f = fopen(path, "rb");
  if (!f) {
    diag_error(nowhere, "cannot open '%s': %s", path, strerror(errno));
    return NULL;
  }
  Source *source = NULL;
  if (fstat(fileno(f), &info) == 0 && S_ISDIR(info.st_mode)) diag_error(nowhere, "'%s' is a directory", path);
  else source = read_stream(f, path);
  fclose(f);
  return source;
}

Source *source_find(const char *name)
{
  for (Source *s = diag.sources; s; s = s->next)
    if (strcmp(s->name, name) == 0) return s;
  return NULL;
}

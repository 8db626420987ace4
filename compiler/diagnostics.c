// Messages to the user, with the source line and a caret. MLIR's diagnostics come through the same printer.
#include "compiler/diagnostics.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mlir-c/Diagnostics.h"
#include "support/alloc.h"
#include "support/json.h"
#include "support/text.h"

#define LINE_WIDTH 120   // characters of a source line shown
#define LINE_BEFORE 80   // of them before the caret, when the line is longer
#define TAB_WIDTH 4
#define MAX_CALLERS 6   // "called from here" notes under one message

struct Diagnostics {
  FILE *out;
  bool color;
  int max_errors, n_errors;
  bool dropping;   // the last message was over the limit: its notes and hints go with it
  const Source **sources;
  int n_sources;
  FILE *json;        // Owned; where objects are collected, NULL: messages are printed
  char *json_text;   // Owned; what json wrote
  size_t json_length;
  int n_json, n_related;         // objects begun; notes and hints of the last
  bool holding, too_many_held;   // messages wait for diag_release; also the one that there are too many
  int n_held;
  struct Held *held;   // Owned, texts too
};

typedef enum Severity { ERROR, WARNING, NOTE, HINT } Severity;
// place: its number; of: where the error or warning stands that it belongs to
typedef struct Held {
  Severity severity;
  AstPos pos;
  char *text;
  int place;
  AstPos of;
} Held;
static const struct {
  const char *name, *color;
} severities[] = {
    [ERROR] = {"error", "\033[1;31m"},
    [WARNING] = {"warning", "\033[1;35m"},
    [NOTE] = {"note", "\033[1;36m"},
    [HINT] = {"hint", "\033[1;32m"},
};

Diagnostics *diag_create(FILE *out, DiagColor color, int max_errors) {
  Diagnostics *d = allocate_array(1, sizeof *d);
  const char *no_color = getenv("NO_COLOR");
  d->out = out;
  d->color = color == DIAG_COLOR_ALWAYS ||
             (color == DIAG_COLOR_AUTO && isatty(fileno(out)) && !(no_color && *no_color));
  d->max_errors = max_errors;
  return d;
}

void diag_free(Diagnostics *d) {
  if (!d) return;
  diag_release(d);
  for (int i = 0; i < d->n_sources; i++) source_free((Source *)d->sources[i]);
  if (d->json) fclose(d->json);
  free(d->held);
  free(d->json_text);
  free(d->sources);
  free(d);
}

const Source *diag_add_source(Diagnostics *d, Source *s) {
  s->order = d->n_sources;
  return *ARRAY_ADD(d->sources, d->n_sources) = s;
}

int diag_error_count(const Diagnostics *d) { return d->n_errors; }
bool diag_is_full(const Diagnostics *d) { return d->max_errors > 0 && d->n_errors > d->max_errors; }

static const char *paint(const Diagnostics *d, const char *color) { return d->color ? color : ""; }

// --- The source line
// ---------------------------------------------------------------------------------------------------

// Characters before byte column `column`; an invalid byte counts as one.
static int characters_before(const char *line, size_t length, int column) {
  int n = 0;
  for (size_t i = 0; i < length && (int)i < column - 1; n++) {
    int bytes = utf8_length(line + i, length - i);
    i += bytes ? (size_t)bytes : 1;
  }
  return n;
}

static bool is_control(const char *text, int bytes) {
  unsigned char c = (unsigned char)text[0];
  return c < 0x20 || c == 0x7f || (bytes == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0);
}

// The line with tabs as spaces and nothing a terminal would act on, then the caret and its underline.
static void print_line(const Diagnostics *d, AstPos pos) {
  size_t length;
  const char *line = source_line(pos.source, pos.line, &length);
  int caret = characters_before(line, length, pos.column);
  int underline = characters_before(line, length, pos.column + (pos.length > 1 ? pos.length : 1)) - caret;
  int total = characters_before(line, length, (int)length + 1);
  int first = total > LINE_WIDTH && caret > LINE_BEFORE ? caret - LINE_BEFORE : 0;

  fprintf(d->out, "%5d | %s", pos.line, first ? "… " : "");
  int at = 0, column = 0, caret_column = -1, end_column = 0;
  for (size_t i = 0; i < length && at < first + LINE_WIDTH; at++) {
    int bytes = utf8_length(line + i, length - i);
    if (at == caret) caret_column = column;
    if (at >= first) {
      if (line[i] == '\t') {
        do putc(' ', d->out);
        while (++column % TAB_WIDTH);
      } else {
        if (bytes == 0 || is_control(line + i, bytes)) fputs("\uFFFD", d->out);
        else fwrite(line + i, 1, (size_t)bytes, d->out);
        column++;
      }
    }
    if (at < caret + underline) end_column = column;
    i += bytes ? (size_t)bytes : 1;
  }
  if (caret_column < 0) {
    caret_column = column;
    end_column = column + 1;
  }
  fprintf(d->out, "%s\n      | %*s%s^", at < total ? " …" : "", caret_column + (first ? 2 : 0), "",
          paint(d, "\033[1;32m"));
  for (int i = caret_column + 1; i < end_column; i++) putc('~', d->out);
  fprintf(d->out, "%s\n", paint(d, "\033[0m"));
}

// --- JSON

void diag_collect_json(Diagnostics *d) {
  d->json = open_memstream(&d->json_text, &d->json_length);
  if (!d->json) abort();
}

static void write_json_place(FILE *out, AstPos pos) {
  if (!pos.source) {
    fputs("{\"file\": null, \"line\": null, \"column\": null, \"end_column\": null, ", out);
    return;
  }
  size_t length;
  const char *line = source_line(pos.source, pos.line, &length);
  int end = pos.column + (pos.length > 1 ? pos.length : 1), column = characters_before(line, length, pos.column);
  int end_column = characters_before(line, length, end);
  fputs("{\"file\": ", out);
  json_write_string(out, pos.source->name);
  fprintf(out, ", \"line\": %d, \"column\": %d, \"end_column\": %d, ", pos.line, column + 1,
          1 + (end_column > column ? end_column : column + 1));
}

static void collect(Diagnostics *d, const char *severity, bool related, AstPos pos, const char *text) {
  if (related && d->n_json == 0) return;
  if (related) fputs(d->n_related++ ? ", " : "", d->json);
  else if (d->n_json++) fputs("]},\n", d->json);
  write_json_place(d->json, pos);
  fprintf(d->json, "\"severity\": \"%s\", \"message\": ", severity);
  json_write_string(d->json, text);
  if (related) {
    putc('}', d->json);
  } else {
    d->n_related = 0;
    fputs(", \"related\": [", d->json);
  }
}

void diag_write_json(Diagnostics *d, FILE *out, int *written) {
  if (d->n_json > 0) {
    fflush(d->json);
    fprintf(out, "%s%s]}", *written > 0 ? ",\n" : "", d->json_text);
  }
  *written += d->n_json;
}

// --- Order of messages
// -------------------------------------------------------------------------------------------------

static void print_message(Diagnostics *d, Severity severity, AstPos pos, const char *text);

static void hold(Diagnostics *d, Severity severity, AstPos pos, const char *text) {
  int place = d->n_held;
  AstPos of = severity < NOTE || place == 0 ? pos : d->held[place - 1].of;
  *ARRAY_ADD(d->held, d->n_held) = (Held){severity, pos, copy_string(text), place, of};
}

// The file given to nnc before those that it imports, then lines and columns; what has no place first. Equal ones as
// they came.
static int compare_held(const void *a, const void *b) {
  const Held *x = a, *y = b;
  int order_x = x->of.source ? x->of.source->order : -1, order_y = y->of.source ? y->of.source->order : -1;
  if (order_x != order_y) return order_x - order_y;
  if (x->of.line != y->of.line) return x->of.line - y->of.line;
  if (x->of.column != y->of.column) return x->of.column - y->of.column;
  return x->place - y->place;
}

static void say_too_many(const Diagnostics *d) {
  fprintf(d->out, "nnc: too many errors; stopped after %d (-fmax-errors=0 shows all)\n", d->max_errors);
}

void diag_hold(Diagnostics *d) { d->holding = true; }

void diag_release(Diagnostics *d) {
  if (!d->holding) return;
  d->holding = false;
  if (d->n_held) qsort(d->held, (size_t)d->n_held, sizeof *d->held, compare_held);
  for (int i = 0; i < d->n_held; i++) {
    print_message(d, d->held[i].severity, d->held[i].pos, d->held[i].text);
    free(d->held[i].text);
  }
  d->n_held = 0;
  if (d->too_many_held) say_too_many(d);
  d->too_many_held = false;
}

// --- Messages

static void print_message(Diagnostics *d, Severity severity, AstPos pos, const char *text) {
  if (d->holding) {
    hold(d, severity, pos, text);
    return;
  }
  if (d->json) {
    collect(d, severities[severity].name, severity >= NOTE, pos, text);
    return;
  }
  if (severity == HINT) {
    fprintf(d->out, "      %s= hint:%s %s\n", paint(d, severities[HINT].color), paint(d, "\033[0m"), text);
    return;
  }
  fputs(paint(d, "\033[1m"), d->out);
  if (pos.source) {
    size_t length;
    const char *line = source_line(pos.source, pos.line, &length);
    fprintf(d->out, "%s:%d:%d: ", pos.source->name, pos.line, 1 + characters_before(line, length, pos.column));
  } else {
    fputs("nnc: ", d->out);
  }
  fprintf(d->out, "%s%s:%s ", paint(d, severities[severity].color), severities[severity].name, paint(d, "\033[0m"));
  // Words of the user's may be part of the message: no control characters reach the terminal.
  for (const char *c = text; *c; c++) {
    if ((unsigned char)*c < 0x20 && *c != '\n') putc('?', d->out);
    else putc(*c, d->out);
  }
  putc('\n', d->out);
  if (pos.source) print_line(d, pos);
}

// Counts an error; false when it is over the limit and must not be printed.
static bool admit(Diagnostics *d, Severity severity) {
  if (severity >= NOTE) return !d->dropping;
  if (severity == ERROR) d->n_errors++;
  d->dropping = diag_is_full(d);
  if (d->dropping && !d->json && severity == ERROR && d->n_errors == d->max_errors + 1) {
    if (d->holding) d->too_many_held = true;
    else say_too_many(d);
  }
  return !d->dropping;
}

static void report(Diagnostics *d, Severity severity, AstPos pos, const char *format, va_list args) {
  if (!admit(d, severity)) return;
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0) text = NULL;
  print_message(d, severity, pos, text ? text : format);
  free(text);
}

bool diag_error(Diagnostics *d, AstPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(d, ERROR, pos, format, args);
  va_end(args);
  return false;
}

void diag_warning(Diagnostics *d, AstPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(d, WARNING, pos, format, args);
  va_end(args);
}

void diag_note(Diagnostics *d, AstPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(d, NOTE, pos, format, args);
  va_end(args);
}

void diag_hint(Diagnostics *d, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(d, HINT, DIAG_COMMAND_LINE, format, args);
  va_end(args);
}

// --- MLIR

MlirLocation diag_location(MlirContext ctx, AstPos pos) {
  if (!pos.source) return mlirLocationUnknownGet(ctx);
  return mlirLocationFileLineColGet(ctx, mlirStringRefCreateFromCString(pos.source->name), (unsigned)pos.line,
                                    (unsigned)pos.column);
}

// The innermost location with a file: through names, fused locations and call sites.
static bool find_file_location(MlirLocation loc, MlirLocation *out) {
  if (mlirLocationIsAFileLineColRange(loc)) {
    *out = loc;
    return true;
  }
  if (mlirLocationIsACallSite(loc)) return find_file_location(mlirLocationCallSiteGetCallee(loc), out);
  if (mlirLocationIsAName(loc)) return find_file_location(mlirLocationNameGetChildLoc(loc), out);
  if (!mlirLocationIsAFused(loc)) return false;
  unsigned n = mlirLocationFusedGetNumLocations(loc);
  MlirLocation *parts = allocate_array(n + 1, sizeof *parts);
  bool found = false;
  mlirLocationFusedGetLocations(loc, parts);
  for (unsigned i = 0; i < n && !found; i++) found = find_file_location(parts[i], out);
  free(parts);
  return found;
}

AstPos diag_position(const Diagnostics *d, MlirLocation loc) {
  MlirLocation at;
  if (!find_file_location(loc, &at)) return DIAG_COMMAND_LINE;
  MlirStringRef name = mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(at));
  int line = mlirLocationFileLineColRangeGetStartLine(at), column = mlirLocationFileLineColRangeGetStartColumn(at);
  for (int i = 0; i < d->n_sources; i++) {
    const Source *s = d->sources[i];
    if (strlen(s->name) == name.length && memcmp(s->name, name.data, name.length) == 0)
      return (AstPos){s, line, column, 0};
  }
  return DIAG_COMMAND_LINE;
}

static void append_text(MlirStringRef part, void *text) { text_append(text, part.data, part.length); }

static void print_mlir(Diagnostics *d, MlirDiagnostic diagnostic, Severity severity) {
  if (!admit(d, severity)) return;
  MlirLocation loc = mlirDiagnosticGetLocation(diagnostic), at;
  AstPos pos = diag_position(d, loc);
  Text text = {0};
  if (!pos.source && find_file_location(loc, &at)) {   // a file that was not read through us: its place still helps
    MlirStringRef name = mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(at));
    text_add(&text, "%.*s:%d:%d: ", (int)name.length, name.data, mlirLocationFileLineColRangeGetStartLine(at),
             mlirLocationFileLineColRangeGetStartColumn(at));
  }
  mlirDiagnosticPrint(diagnostic, append_text, &text);
  print_message(d, severity, pos, text_c_string(&text));
  text_free(&text);
  for (int i = 0; i < MAX_CALLERS && mlirLocationIsACallSite(loc); i++) {
    loc = mlirLocationCallSiteGetCaller(loc);
    AstPos caller = diag_position(d, loc);
    if (caller.source) print_message(d, NOTE, caller, "called from here");
  }
}

static MlirLogicalResult handle(MlirDiagnostic diagnostic, void *data) {
  Diagnostics *d = data;
  MlirDiagnosticSeverity severity = mlirDiagnosticGetSeverity(diagnostic);
  print_mlir(d, diagnostic,
             severity == MlirDiagnosticError     ? ERROR
             : severity == MlirDiagnosticWarning ? WARNING
                                                 : NOTE);
  for (intptr_t i = 0; i < mlirDiagnosticGetNumNotes(diagnostic); i++)
    print_mlir(d, mlirDiagnosticGetNote(diagnostic, i), NOTE);
  return mlirLogicalResultSuccess();
}

void diag_attach(Diagnostics *d, MlirContext ctx) { mlirContextAttachDiagnosticHandler(ctx, handle, d, NULL); }

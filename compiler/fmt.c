// nnc fmt: files in the canonical layout, each complete or as it was. Before a file is written the new text is read
// again and compared with the old program, so that a mistake of the formatter cannot change what a file means.
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "codegen/output.h"
#include "compiler/format.h"
#include "compiler/options.h"

typedef struct FormatOptions {
  bool check;
  DiagColor color;
} FormatOptions;

static const Option rows[] = {
    OPTION(FormatOptions, check, "check", NULL, FLAG, "change nothing; name the files that are not in that layout"),
    OPTION_OF_COLOR(FormatOptions),
};
static const Command command =
    {.usage = "[options] FILE...",
     .before = "Writes model files in their one layout; '-' reads standard input and writes standard output.",
     .after =
         "Exit status: 0 done, 1 files with mistakes, or with --check files to be formatted, 2 wrong usage, 70 a bug "
         "of nnc.",
     OPTIONS(rows)};

static bool write_file(Diagnostics *d, const char *path, const char *text, size_t length) {
  struct stat info;
  bool known = strcmp(path, "-") != 0 && stat(path, &info) == 0;
  bool ok = output_write(path, text, length) &&
            (!known || !S_ISREG(info.st_mode) || chmod(path, info.st_mode & 07777) == 0);
  if (!ok)
    diag_error(d, DIAG_COMMAND_LINE, "cannot write '%s': %s", strcmp(path, "-") == 0 ? "standard output" : path,
               strerror(errno));
  return ok;
}

static bool format_file(const char *path, bool check, Diagnostics *d) {
  const char *error;
  Source *source = source_read(path, &error);
  if (!source) return diag_error(d, DIAG_COMMAND_LINE, "cannot read '%s': %s", path, error);
  diag_add_source(d, source);
  size_t length;
  char *text = format_source(d, source, &length);
  if (!text) return false;
  Source *after = source_from_text(path, text, length);
  if (!after || !format_same_program(source, after)) abort();   // ours: the layout would be another program
  source_free(after);
  bool same = length == source->length && memcmp(text, source->text, length) == 0, ok = true;
  if (check && !same) printf("%s\n", source->name);
  if (check) ok = same;
  else if (!same || strcmp(path, "-") == 0) ok = write_file(d, path, text, length);
  free(text);
  return ok;
}

int command_fmt(int argc, char **argv) {
  FormatOptions options = {0};
  bool ok = true;
  argv[0] = (char[]){"nnc fmt"};
  int status = options_read(&command, NULL, argc, argv, &options);
  if (status < 0 && optind == argc) status = options_misused(argv[0], "no file");
  for (int i = optind; status < 0 && i < argc; i++) {
    Diagnostics *d = diag_create(stderr, options.color, DIAG_MAX_ERRORS);
    ok = format_file(argv[i], options.check, d) && ok;
    diag_free(d);
  }
  return options_end("nnc", status >= 0 ? status : ok ? 0 : NNC_EXIT_DIAGNOSTICS);
}

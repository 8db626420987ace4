// Tables of options: getopt_long's rows, the values and --help are made of them.
#include "runtime/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

enum { MAX_OPTIONS = 40, FIRST_CODE = 256 };

// ---------------------------------------------------------------------------------------------------------------------
// Help

static void print_expanded(const char *text, size_t n) {
  static const char model[] = "{model}", seed[] = "{seed}";
  for (const char *end = text + n; text < end;) {
    if (strncmp(text, model, sizeof model - 1) == 0) {
      fputs(nnc_program.model, stdout);
      text += sizeof model - 1;
    } else if (strncmp(text, seed, sizeof seed - 1) == 0) {
      printf("%lld", (long long)nnc_program.seed);
      text += sizeof seed - 1;
    } else {
      putchar(*text++);
    }
  }
}

static int format_option(const Option *o, char *out, size_t size) {
  char letter[8] = "";
  if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
  bool optional = o->argument && *o->argument == '[';
  return snprintf(out, size, "  %s--%s%s%s", letter, o->name, o->argument && !optional ? "=" : "",
                  o->argument ? o->argument : "");
}

static void print_options(const Command *c) {
  enum { WIDTH = 17 };
  static const Option help = {.name = "help", .help = "this text"};
  for (int i = 0; i <= c->n_options; i++) {
    const Option *o = i < c->n_options ? &c->options[i] : &help;
    char left[64];
    format_option(o, left, sizeof left);
    for (const char *line = o->help, *end; line; line = *end ? end + 1 : NULL) {
      end = line + strcspn(line, "\n");
      printf("%-*s ", WIDTH, line == o->help ? left : "");
      print_expanded(line, (size_t)(end - line));
      putchar('\n');
    }
  }
}

static void print_help(const Command *c) {
  const char *line = c->usage, *end;
  for (; line; line = *end ? end + 1 : NULL) {
    end = line + strcspn(line, "\n");
    printf("%s %s %s %.*s\n", line == c->usage ? "Usage:" : "      ", report_name(), c->name, (int)(end - line), line);
  }
  if (c->before) printf("\n%s\n", c->before);
  putchar('\n');
  print_options(c);
  if (c->after) printf("\n%s\n", c->after);
  if (c->print_more) c->print_more();
}

// ---------------------------------------------------------------------------------------------------------------------
// Values

static bool read_integer(const Option *o, const char *text, int64_t most, int64_t *out) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno || v < o->least) {
    report_error("--%s expects an integer of at least %lld, not \"%s\"", o->name, (long long)o->least, text);
    return false;
  }
  if (v > most) {
    report_error("--%s expects an integer of at most %lld, not \"%s\"", o->name, (long long)most, text);
    return false;
  }
  *out = v;
  return true;
}

static bool read_positive(const Option *o, const char *text, double *out) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || !isfinite(v) || v <= 0) {
    report_error("--%s expects a positive number, not \"%s\"", o->name, text);
    return false;
  }
  *out = v;
  return true;
}

// text NULL: the argument was left out.
static bool take(const Option *o, const char *text, void *values) {
  void *at = (char *)values + o->at;
  int64_t number = o->absent;
  switch (o->kind) {
  case OPTION_FLAG: *(bool *)at = true; return true;
  case OPTION_TEXT: *(const char **)at = text ? text : ""; return true;
  case OPTION_INTEGER: return text ? read_integer(o, text, INT64_MAX, at) : (*(int64_t *)at = number, true);
  case OPTION_COUNT:
    if (!read_integer(o, text, INT_MAX, &number)) return false;
    *(int *)at = (int)number;
    return true;
  case OPTION_POSITIVE: return read_positive(o, text, at);
  case OPTION_READ: return o->read(text, at);
  }
  return false;
}

int options_misused(const Command *c) {
  fprintf(stderr, "Try '%s %s --help' for more information.\n", report_name(), c->name);
  return EXIT_USAGE;
}

int options_parse(const Command *c, int argc, char **argv, void *values) {
  struct option rows[MAX_OPTIONS + 2] = {{0}};
  char letters[MAX_OPTIONS + 1] = "";
  if (c->n_options > MAX_OPTIONS) abort();
  for (int i = 0, n = 0; i < c->n_options; i++) {
    const Option *o = &c->options[i];
    int argument = !o->argument ? no_argument : *o->argument == '[' ? optional_argument : required_argument;
    rows[i] = (struct option){o->name, argument, NULL, FIRST_CODE + i};
    if (o->letter) letters[n++] = o->letter;
  }
  rows[c->n_options] = (struct option){"help", no_argument, NULL, FIRST_CODE + c->n_options};
  for (int code; (code = getopt_long(argc, argv, letters, rows, NULL)) != -1;) {
    if (code == FIRST_CODE + c->n_options) {
      print_help(c);
      return EXIT_DONE;
    }
    int i = code - FIRST_CODE;
    for (int k = 0; code < FIRST_CODE && k < c->n_options; k++)
      if (c->options[k].letter == code) i = k;
    if (i < 0 || !take(&c->options[i], optarg, values)) return options_misused(c);   // getopt has said what is wrong
  }
  return -1;
}

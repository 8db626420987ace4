// Tables of options: getopt_long's rows, the values and --help are made of them.
#include "support/options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/names.h"

enum { MAX_OPTIONS = 64, FIRST_CODE = 256, DONE = 0, CANNOT_WRITE = 1, MISUSED = 2 };

// ---------------------------------------------------------------------------------------------------------------------
// Help

static const Option help_row = {.name = "help", .letter = 'h', .help = "this text"};

static int format_option(const Option *o, char *out, size_t size) {
  const char *argument = o->argument ? o->argument : "";
  if (!o->name) return snprintf(out, size, "  -%c%s", o->letter, argument);
  char letter[8] = "";
  if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
  return snprintf(out, size, "  %s--%s%s%s", letter, o->name, *argument && *argument != '[' ? "=" : "", argument);
}

static void print_piece(const OptionsHooks *hooks, const char *text, size_t n) {
  if (hooks && hooks->print) hooks->print(text, n);
  else fwrite(text, 1, n, stdout);
}

static void print_options(const Command *c, const OptionsHooks *hooks) {
  char left[64];
  int width = 0, length;
  for (int i = 0; i < c->n_options; i++)
    if ((length = format_option(&c->options[i], left, sizeof left)) > width) width = length;
  for (int i = 0; i <= c->n_options; i++) {
    const Option *o = i < c->n_options ? &c->options[i] : &help_row;
    format_option(o, left, sizeof left);
    if (o->heading) printf("\n%s\n", o->heading);
    for (const char *line = o->help, *end; line; line = *end ? end + 1 : NULL) {
      end = line + strcspn(line, "\n");
      printf("%-*s ", width, line == o->help ? left : "");
      print_piece(hooks, line, (size_t)(end - line));
      putchar('\n');
    }
  }
}

static void print_help(const Command *c, const OptionsHooks *hooks, const char *name) {
  const char *line = c->usage, *end;
  for (; line; line = *end ? end + 1 : NULL) {
    end = line + strcspn(line, "\n");
    printf("%s %s %.*s\n", line == c->usage ? "Usage:" : "      ", name, (int)(end - line), line);
  }
  if (c->before) printf("\n%s\n", c->before);
  putchar('\n');
  print_options(c, hooks);
  if (c->after) printf("\n%s\n", c->after);
  if (c->print_more) c->print_more();
}

int options_misused(const char *command, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (format) fprintf(stderr, "%s: ", command), vfprintf(stderr, format, args), fputc('\n', stderr);
  va_end(args);
  fprintf(stderr, "Try '%s --help'.\n", command);
  return MISUSED;
}

void options_begin(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) < 0) return;   // it is fd else
}

int options_end(const char *command, int status) {
  bool said = status != DONE && ferror(stdout);   // by who wrote there
  if (said || (fflush(stdout) == 0 && !ferror(stdout))) return status;
  fprintf(stderr, "%s: error: cannot write to standard output: %s\n", command, strerror(errno));
  return status == DONE ? CANNOT_WRITE : status;
}

// ---------------------------------------------------------------------------------------------------------------------
// Values: what reads one returns NULL, or what is expected, perhaps written to `expected`

enum { EXPECTED_SIZE = 1024 };

static const char *read_integer(const Option *o, const char *text, int64_t most, int64_t *out, char *expected) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  bool number = end != text && !*end && !errno;
  if (number && v >= o->least && v <= most) {
    *out = v;
    return NULL;
  }
  long long least = o->least, above = most;
  if (o->most) snprintf(expected, EXPECTED_SIZE, "a number from %lld to %lld", least, above);
  else if (!number || v < o->least) snprintf(expected, EXPECTED_SIZE, "an integer of at least %lld", least);
  else snprintf(expected, EXPECTED_SIZE, "an integer of at most %lld", above);
  return expected;
}

static const char *read_natural(const char *text, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return isdigit((unsigned char)*text) && !*end && !errno ? NULL : "a number below 2^64";
}

static const char *read_positive(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return end != text && !*end && isfinite(*out) && *out > 0 ? NULL : "a positive number";
}

static const char *read_word(const Option *o, const char *text, int *out, char *expected) {
  size_t n = 0;
  for (*out = 0; o->words[*out]; ++*out) {
    if (strcmp(o->words[*out], text) == 0) return NULL;
    const char *between = !*out ? "" : o->words[*out + 1] ? ", " : " or ";
    if (n < EXPECTED_SIZE) n += (size_t)snprintf(expected + n, EXPECTED_SIZE - n, "%s%s", between, o->words[*out]);
  }
  return expected;
}

// text NULL: the argument was left out.
static const char *take(const Option *o, char *text, void *values, char *expected) {
  void *at = (char *)values + o->at;
  const char *wrong;
  int64_t number = o->absent;
  int chosen;
  switch (o->kind) {
  case OPTION_FLAG: *(bool *)at = true; return NULL;
  case OPTION_TEXT: *(const char **)at = text ? text : ""; return NULL;
  case OPTION_WORD: *(const char **)at = text; return read_word(o, text, &chosen, expected);
  case OPTION_CHOICE: return read_word(o, text, at, expected);
  case OPTION_INTEGER: return text ? read_integer(o, text, INT64_MAX, at, expected) : (*(int64_t *)at = number, NULL);
  case OPTION_COUNT:
    wrong = read_integer(o, text, o->most ? o->most : INT_MAX, &number, expected);
    if (!wrong) *(int *)at = (int)number;
    return wrong;
  case OPTION_NATURAL: return read_natural(text, at);
  case OPTION_POSITIVE: return read_positive(text, at);
  case OPTION_READ: return o->read(text, at);
  case OPTION_STOP: break;
  }
  abort();
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading

// What a letter's argument must begin with: "max-errors=" of "max-errors=N", all of "D", nothing of " LEVEL".
static size_t fixed_length(const Option *o) {
  if (o->name || !o->argument || *o->argument == ' ') return 0;
  const char *equals = strchr(o->argument, '=');
  return equals ? (size_t)(equals + 1 - o->argument) : strlen(o->argument);
}

static void refuse(const Option *o, const OptionsHooks *hooks, const char *command, const char *expected,
                   const char *found) {
  char option[64], hint[64] = "";
  if (o->name) snprintf(option, sizeof option, "--%s", o->name);
  else snprintf(option, sizeof option, "-%c%.*s", o->letter, (int)strcspn(o->argument, " ="), o->argument);
  NameSearch search = name_search(found);
  for (int i = 0; o->words && o->words[i]; i++) name_consider(&search, o->words[i]);
  if (search.best) snprintf(hint, sizeof hint, "; did you mean '%s'?", search.best);
  if (hooks && hooks->report) hooks->report("%s takes %s, found '%s'%s", option, expected, found, hint);
  else fprintf(stderr, "%s: %s takes %s, found '%s'%s\n", command, option, expected, found, hint);
}

// -1: go on
static int read_option(const Option *o, const OptionsHooks *hooks, const char *command, char *text, void *values) {
  size_t fixed = fixed_length(o);
  bool whole = fixed && !o->argument[fixed];
  if (fixed && (strncmp(text, o->argument, fixed) != 0 || (whole && text[fixed])))
    return options_misused(command, "unknown option '-%c%s'", o->letter, text);
  if (o->kind == OPTION_STOP) return o->stop(text);
  char buffer[EXPECTED_SIZE] = "";
  const char *expected = take(o, text ? text + fixed : NULL, values, buffer);
  if (!expected) return -1;
  refuse(o, hooks, command, expected, text + fixed);
  return options_misused(command, NULL);
}

// Behind getopt's own message.
static void suggest(const struct option *rows, const char *word) {
  if (strncmp(word, "--", 2) != 0) return;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
  NameSearch search = name_search(name);
  for (; rows->name; rows++) {
    if (strncmp(rows->name, name, strlen(name)) == 0) return;   // what is wrong is not the name
    name_consider(&search, rows->name);
  }
  if (search.best) fprintf(stderr, "Did you mean '--%s'?\n", search.best);
}

int options_read(const Command *c, const OptionsHooks *hooks, int argc, char **argv, void *values) {
  struct option rows[MAX_OPTIONS + 2] = {{0}};
  char letters[2 * MAX_OPTIONS + 2] = "h";
  int n_rows = 0, n_letters = 1;
  if (c->n_options > MAX_OPTIONS) abort();
  for (int i = 0; i < c->n_options; i++) {
    const Option *o = &c->options[i];
    int argument = !o->argument ? no_argument : *o->argument == '[' ? optional_argument : required_argument;
    if (o->name) rows[n_rows++] = (struct option){o->name, argument, NULL, FIRST_CODE + i};
    if (o->letter) letters[n_letters++] = o->letter;
    if (o->letter && argument == required_argument) letters[n_letters++] = ':';
  }
  rows[n_rows] = (struct option){help_row.name, no_argument, NULL, help_row.letter};
  for (int code, status; (code = getopt_long(argc, argv, letters, rows, NULL)) != -1;) {
    if (code == '?') {   // getopt has said what is wrong
      suggest(rows, argv[optind - 1]);
      return options_misused(argv[0], NULL);
    }
    if (code == help_row.letter) {
      print_help(c, hooks, argv[0]);
      return DONE;
    }
    int i = code - FIRST_CODE;
    for (int k = 0; code < FIRST_CODE && k < c->n_options; k++)
      if (c->options[k].letter == code) i = k;
    if ((status = read_option(&c->options[i], hooks, argv[0], optarg, values)) >= 0) return status;
  }
  return -1;
}

// The table of options: each kind at its bounds and beyond, what is said of a wrong value, and the text of --help.
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/options.h"
#include "test/check.h"

typedef struct Values {
  bool flag;
  const char *text, *word;
  int choice, count, small, errors;
  int64_t integer;
  uint64_t natural;
  double positive;
} Values;

static const char *const words[] = {"red", "green", "blue", NULL};
static char said[4096];

static void report(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(said, sizeof said, format, args);
  va_end(args);
}

static int stop(const char *text) { return text ? 40 : 41; }

static const Option options[] = {
    {.name = "flag", .letter = 'f', .kind = OPTION_FLAG, .at = offsetof(Values, flag), .help = "two\nlines"},
    {.name = "text", .argument = "[=FILE]", .kind = OPTION_TEXT, .at = offsetof(Values, text), .help = "a file"},
    {.name = "word", .argument = "WHAT", .kind = OPTION_WORD, .at = offsetof(Values, word), .words = words},
    {.name = "choice", .argument = "WHAT", .kind = OPTION_CHOICE, .at = offsetof(Values, choice), .words = words},
    {.name = "count",
     .argument = "N",
     .kind = OPTION_COUNT,
     .at = offsetof(Values, count),
     .least = 2,
     .help = "N",
     .heading = "More:"},
    {.name = "small", .argument = "N", .kind = OPTION_COUNT, .at = offsetof(Values, small), .least = 0, .most = 3},
    {.name = "integer",
     .argument = "[=N]",
     .kind = OPTION_INTEGER,
     .at = offsetof(Values, integer),
     .least = -1,
     .absent = 9},
    {.name = "natural", .argument = "N", .kind = OPTION_NATURAL, .at = offsetof(Values, natural)},
    {.name = "positive", .argument = "X", .kind = OPTION_POSITIVE, .at = offsetof(Values, positive)},
    {.letter = 'e', .argument = "max-errors=N", .kind = OPTION_COUNT, .at = offsetof(Values, errors), .help = "errors"},
    {.letter = 'M', .argument = "D", .kind = OPTION_FLAG, .at = offsetof(Values, flag)},
    {.name = "stop", .kind = OPTION_STOP, .stop = stop},
};
static const Command command = {.usage = "[options] FILE\nother FILE",
                                .before = "Before.",
                                .after = "After.",
                                .n_options = sizeof options / sizeof *options,
                                .options = options};
static const OptionsHooks hooks = {.report = report};

// The status of the command line with this argument alone.
static int status_of(const char *argument, Values *v) {
  char name[] = "prog", *text = strdup(argument), *argv[] = {name, text, NULL};
  *v = (Values){.choice = -1, .count = -1, .small = -1, .errors = -1, .integer = -7, .natural = 77};
  *said = 0;
  optind = 0;
  int status = options_read(&command, &hooks, 2, argv, v);
  // what it keeps of the text is compared before it goes
  if (v->text) v->text = !strcmp(v->text, "here") ? "here" : !*v->text ? "" : "?";
  if (v->word) v->word = !strcmp(v->word, "green") ? "green" : "?";
  free(text);
  return status;
}

static void expect_wrong(const char *argument, const char *message) {
  Values v;
  int status = status_of(argument, &v);
  CHECK(status == 2 && (!message || !strcmp(said, message)), "%s: %d, '%s', expected '%s'", argument, status, said,
        message ? message : "");
}

#define EXPECT(argument, condition) CHECK(status_of(argument, &v) == -1 && (condition), "%s: %s", argument, said)

static void test_values(void) {
  Values v;
  EXPECT("--flag", v.flag);
  EXPECT("-f", v.flag);
  EXPECT("-MD", v.flag);
  EXPECT("file", !v.flag && v.count == -1);
  EXPECT("--text", !strcmp(v.text, ""));
  EXPECT("--text=here", !strcmp(v.text, "here"));
  EXPECT("--word=green", !strcmp(v.word, "green"));
  EXPECT("--choice=red", v.choice == 0);
  EXPECT("--choice=blue", v.choice == 2);
  EXPECT("--count=2", v.count == 2);
  EXPECT("--count=2147483647", v.count == 2147483647);
  EXPECT("--small=0", v.small == 0);
  EXPECT("--small=3", v.small == 3);
  EXPECT("--integer", v.integer == 9);
  EXPECT("--integer=-1", v.integer == -1);
  EXPECT("--integer=9223372036854775807", v.integer == INT64_MAX);
  EXPECT("--natural=0", v.natural == 0);
  EXPECT("--natural=18446744073709551615", v.natural == UINT64_MAX);
  EXPECT("--positive=1e-300", v.positive == 1e-300);
  EXPECT("-emax-errors=5", v.errors == 5);
  CHECK(status_of("--stop", &v) == 41, "a stop");
}

static void test_wrong(void) {
  expect_wrong("--word=gren", "--word takes red, green or blue, found 'gren'; did you mean 'green'?");
  expect_wrong("--choice=", "--choice takes red, green or blue, found ''");
  expect_wrong("--count=1", "--count takes an integer of at least 2, found '1'");
  expect_wrong("--count=2147483648", "--count takes an integer of at most 2147483647, found '2147483648'");
  expect_wrong("--count=3x", "--count takes an integer of at least 2, found '3x'");
  expect_wrong("--count=", "--count takes an integer of at least 2, found ''");
  expect_wrong("--small=4", "--small takes a number from 0 to 3, found '4'");
  expect_wrong("--small=-1", "--small takes a number from 0 to 3, found '-1'");
  expect_wrong("--integer=-2", "--integer takes an integer of at least -1, found '-2'");
  expect_wrong("--integer=9223372036854775808", NULL);
  expect_wrong("--natural=-1", "--natural takes a number below 2^64, found '-1'");
  expect_wrong("--natural=18446744073709551616", NULL);
  expect_wrong("--natural=1 ", NULL);
  expect_wrong("--positive=0", "--positive takes a positive number, found '0'");
  expect_wrong("--positive=inf", NULL);
  expect_wrong("--positive=1x", NULL);
  expect_wrong("--positive=", NULL);
  expect_wrong("-emax-errors=-1", "-emax-errors takes an integer of at least 0, found '-1'");
  // what is not the letter's whole fixed text; an unknown option; a value for none
  expect_wrong("-emin-errors=1", "");
  expect_wrong("-emax-errors", "");
  expect_wrong("-MDx", "");
  expect_wrong("-MX", "");
  expect_wrong("--unknown", "");
  expect_wrong("--flag=1", "");
}

static void test_help(void) {
  static const char expected[] = "Usage: prog [options] FILE\n"
                                 "       prog other FILE\n"
                                 "\n"
                                 "Before.\n"
                                 "\n"
                                 "  -f, --flag     two\n"
                                 "                 lines\n"
                                 "  --text[=FILE]  a file\n"
                                 "\n"
                                 "More:\n"
                                 "  --count=N      N\n"
                                 "  -emax-errors=N errors\n"
                                 "  -h, --help     this text\n"
                                 "\n"
                                 "After.\n";
  Values v;
  char found[sizeof expected + 256] = "";
  FILE *file = tmpfile();
  fflush(stdout);
  int before = dup(1);
  dup2(fileno(file), 1);
  int status = status_of("--help", &v);
  fflush(stdout);
  dup2(before, 1);
  close(before);
  rewind(file);
  found[fread(found, 1, sizeof found - 1, file)] = 0;
  fclose(file);
  CHECK(status == 0 && !strcmp(found, expected), "status %d, found:\n%s", status, found);
}

int main(void) {
  test_values();
  test_wrong();
  test_help();
  return check_report();
}

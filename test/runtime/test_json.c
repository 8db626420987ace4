// The two readers of JSON on texts at the edges of its grammar: the tree of support/json.h and the cursor of
// runtime/json.h agree on what a string is.
#include <stdlib.h>
#include <string.h>

#include "runtime/json.h"
#include "runtime/program.h"
#include "support/json.h"
#include "test/check.h"

const NncProgram nnc_program = {.model = "json"};

typedef struct StringCase {
  const char *text, *value;   // NULL: refused
} StringCase;

static const StringCase strings[] = {
    {"\"\"", ""},
    {"\"a b\"", "a b"},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
    {"\"\\u0041\\u007f\"", "A\x7f"},
    {"\"\\u0080\\u07ff\"", "\xc2\x80\xdf\xbf"},
    {"\"\\u0800\\uffff\"", "\xe0\xa0\x80\xef\xbf\xbf"},
    {"\"\\uabCD\\uABcd\"", "\xea\xaf\x8d\xea\xaf\x8d"},
    {"\"\\ud800\\udc00\"", "\xf0\x90\x80\x80"},
    {"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf"},
    {"\"\\uD83D\\uDE00!\"", "\xf0\x9f\x98\x80!"},
    {"\"\xc3\xa9\"", "\xc3\xa9"},
    {"\"a", NULL},
    {"\"a\\", NULL},
    {"\"a\\\"", NULL},
    {"\"\\x\"", NULL},
    {"\"\\u12\"", NULL},
    {"\"\\u12g4\"", NULL},
    {"\"\\u12:4\"", NULL},
    {"\"\\u12/4\"", NULL},
    {"\"\\u12@4\"", NULL},
    {"\"\\u12`4\"", NULL},
    {"\"\\u12G4\"", NULL},
    {"\"\\ud800\\u0041\"", NULL},
    {"\"\\ud800\\udbff\"", NULL},
    {"\"\\ud800\\ue000\"", NULL},
    {"\"\\ud800\\ud\"", NULL},
};

static void test_strings(void) {
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
    const StringCase *s = &strings[i];
    size_t size = strlen(s->text);
    char *text = malloc(size);   // of this size, for a reader that goes too far
    memcpy(text, s->text, size);
    InputError error;
    JsonDocument *document = json_parse(text, size, &error);
    const char *tree = document ? json_root(document)->string : NULL;
    CHECK(s->value ? tree && !strcmp(tree, s->value) && json_root(document)->length == strlen(tree) : !tree,
          "the tree of %s is %s", s->text, tree ? tree : error.message);
    json_destroy(document);
    JsonCursor j = {text, text + size, NULL};
    char *name = json_string(&j);
    CHECK(s->value ? name && !strcmp(name, s->value) && j.at == j.end : !name && j.error, "the cursor's %s is %s",
          s->text, name ? name : j.error);
    free(name);
    free(text);
  }
}

static void expect_tree(const char *text, const char *problem, int line, int column) {
  InputError error = {0};
  JsonDocument *document = json_parse(text, strlen(text), &error);
  if (!problem) CHECK(document, "%s: %s", text, error.message);
  else
    CHECK(!document && strstr(error.message, problem) && error.line == line && error.column == column,
          "%s: %s at %d:%d, expected %s at %d:%d", text, document ? "accepted" : error.message, error.line,
          error.column, problem, line, column);
  json_destroy(document);
}

static void test_trees(void) {
  static const char *const good[] =
      {"null", "true", " false ",    "0",      "-0",  "-1.5e+3", "2E-2",
       "[]",   "{}",   "[1,[2],{}]", "\t[\n]", "1e0", "0.5",     "{\"a\":1,\"b\":[null]}"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) expect_tree(good[i], NULL, 0, 0);
  expect_tree("", "unexpected end of text", 1, 1);
  expect_tree("nul", "expected a value", 1, 1);
  expect_tree("-", "expected a digit", 1, 2);
  expect_tree("01", "must not begin with 0", 1, 1);
  expect_tree("1.", "expected a digit", 1, 3);
  expect_tree("1e", "expected a digit", 1, 3);
  expect_tree("1e+", "expected a digit", 1, 4);
  expect_tree("[\n 1e999]", "number too large", 2, 2);
  expect_tree("\"\xc3\xa9\\x\"", "unknown escape", 1, 4);
  expect_tree("\"\\udc00\"", "unpaired surrogate", 1, 8);
  expect_tree("\"\\ud800x\"", "unpaired surrogate", 1, 8);
  expect_tree("\"\x1f\"", "control character", 1, 2);
}

static void expect_integer_of(const char *text, size_t length, bool whole, int64_t integer, double number) {
  InputError error;
  JsonDocument *document = json_parse(text, length, &error);
  const JsonValue *v = document ? json_root(document) : NULL;
  CHECK(v && v->type == JSON_NUMBER && v->is_integer == whole && (!whole || v->integer == integer) &&
            v->number == number,
        "%s", text);
  json_destroy(document);
}

static void expect_integer(const char *text, bool whole, int64_t integer, double number) {
  expect_integer_of(text, strlen(text), whole, integer, number);
}

static void test_numbers(void) {
  expect_integer("0", true, 0, 0);
  expect_integer_of("01", 1, true, 0, 0);   // what is behind the text is not its own
  expect_integer("-7", true, -7, -7);
  expect_integer("9223372036854775807", true, INT64_MAX, 0x1p63);
  expect_integer("9223372036854775808", false, 0, 0x1p63);
  expect_integer("10.0", false, 0, 10);
  expect_integer("1e1", false, 0, 10);
  static const struct {
    const char *text;
    int64_t value;   // -1: refused
  } cursor[] = {{"0", 0},
                {" 19,", 19},
                {"461168601842738790", 461168601842738790},
                {"4611686018427387909", -1},
                {"-1", -1},
                {"", -1},
                {"x", -1},
                {":", -1},
                {"/", -1}};
  for (size_t i = 0; i < sizeof cursor / sizeof *cursor; i++) {
    JsonCursor j = {cursor[i].text, cursor[i].text + strlen(cursor[i].text), NULL};
    int64_t found = -1;
    bool ok = json_integer(&j, &found);
    CHECK(ok == (cursor[i].value >= 0) && (!ok || found == cursor[i].value), "%s: %lld", cursor[i].text,
          (long long)found);
  }
}

static void test_skip(void) {
  static const struct {
    const char *text;
    int depth;
    bool ok;
  } cases[] = {{"[[]]", 2, true},        {"[[]]", 1, false},
               {"[[[]]]", 2, false},     {"[[1]]", 2, false},
               {"[[1]]", 3, true},       {"{\"a\":[1]}", 2, false},
               {"{\"a\":[1]}", 3, true}, {"{\"a\" 1}", 3, false},
               {"{1:2}", 3, false},      {"[1 2]", 3, false},
               {"[1,]", 3, false},       {"", 3, false},
               {"1", 0, false},          {"1", 1, true},
               {"true", 1, true},        {"-1.5e+3", 1, true},
               {"\"a\"", 1, true},       {"\"a", 1, false},
               {"[", 3, false},          {"{\"a\":1,\"b\":\"c\"}", 2, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    JsonCursor j = {cases[i].text, cases[i].text + strlen(cases[i].text), NULL};
    bool ok = json_skip(&j, cases[i].depth);
    CHECK(ok == cases[i].ok && (!ok || j.at == j.end), "%s to depth %d: %s", cases[i].text, cases[i].depth,
          ok ? "accepted" : j.error);
  }
}

int main(void) {
  test_strings();
  test_trees();
  test_numbers();
  test_skip();
  return check_report();
}

#include "compiler/kinds.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *kind, *expected, *meaning;
} kinds[] = {
    {"tensor", "a tensor", "a tensor"},
    {"int", "an integer", "an integer"},
    {"float", "a number", "a number"},
    {"number", "a number", "a number"},
    {"number_or_shape", "a number or a shape, a list of integers", "a number or a shape"},
    {"bool", "true or false", "true or false"},
    {"str", "a string", "a string"},
    {"init", "an initialiser such as normal(0.02)", "an initialiser such as normal(0.02)"},
    {"list", "a list", "a list"},
    {"ints", "an integer or a list of integers", "an integer or a list of integers"},
    {"pair", "an integer or a list of two", "an integer or two: 3, [3, 5]"},
    {"padding", "an integer or a list of two or four",
     "one, two or four integers: p, [h, w], [top, bottom, left, right]"},
    {"border", "an integer, a list of integers or \"same\"", "as padding, or \"same\": as many results as elements"},
    {"bias", "true, false or a tensor", "true, false or a tensor"},
    {"scale", "true, false or a tensor", "true, false or a tensor"},
    {"numeric", "a number or a tensor", "a tensor or a number"},
    {"any", "", "a tensor or a list"},
    {"target", "a tensor or a number", "a tensor that is compared with another one, or a number"},
    {"labels", "a tensor", "a tensor of classes, shaped as the first one without its last axis"},
    {"weights", "a tensor", "a tensor of numbers, shaped as the first one without its last axis"},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static int find(const char *name, size_t length) {
  for (int i = 0; i < N_KINDS; i++)
    if (strlen(kinds[i].kind) == length && memcmp(kinds[i].kind, name, length) == 0) return i;
  return -1;
}

const char *kind_find(const char *name) {
  int i = find(name, strlen(name));
  return i < 0 ? NULL : kinds[i].kind;
}

const char *kind_meaning(const char *kind, size_t length) {
  int i = find(kind, length);
  return i < 0 ? "a value" : kinds[i].meaning;
}

// n integers in a list; most 0: any number.
static bool is_int_list(const Value *v, int least, int most) {
  if (v->kind != VALUE_LIST) return false;
  for (int i = 0; i < v->list.n; i++)
    if (v->list.items[i].kind != VALUE_INT) return false;
  return most == 0 || v->list.n == least || v->list.n == most;
}

static bool fits(const char *kind, const Value *v) {
  bool number = v->kind == VALUE_INT || v->kind == VALUE_FLOAT;
  if (strcmp(kind, "any") == 0) return true;
  if (strcmp(kind, "int") == 0) return v->kind == VALUE_INT;
  if (strcmp(kind, "float") == 0) return v->kind == VALUE_FLOAT;
  if (strcmp(kind, "number") == 0) return number;
  if (strcmp(kind, "number_or_shape") == 0) return number || is_int_list(v, 0, 0);
  if (strcmp(kind, "numeric") == 0 || strcmp(kind, "target") == 0)
    return v->kind == VALUE_TENSOR || number || v->kind == VALUE_BOOL;
  if (strcmp(kind, "bool") == 0) return v->kind == VALUE_BOOL;
  if (strcmp(kind, "str") == 0) return v->kind == VALUE_STRING;
  if (strcmp(kind, "init") == 0) return v->kind == VALUE_INIT;
  if (strcmp(kind, "list") == 0) return v->kind == VALUE_LIST;
  if (strcmp(kind, "ints") == 0) return v->kind == VALUE_INT || is_int_list(v, 0, 0);
  if (strcmp(kind, "pair") == 0) return v->kind == VALUE_INT || is_int_list(v, 2, 2);
  if (strcmp(kind, "padding") == 0) return v->kind == VALUE_INT || is_int_list(v, 2, 4);
  if (strcmp(kind, "border") == 0) return v->kind == VALUE_INT || v->kind == VALUE_STRING || is_int_list(v, 0, 0);
  if (strcmp(kind, "bias") == 0 || strcmp(kind, "scale") == 0) return v->kind == VALUE_BOOL || v->kind == VALUE_TENSOR;
  return v->kind == VALUE_TENSOR;   // tensor, and those whose shape another argument tells
}

const char *kind_convert(const char *kind, Value *v) {
  bool whole = v->kind == VALUE_FLOAT && v->f == floor(v->f) && fabs(v->f) < 1e15;
  if (strcmp(kind, "int") == 0 && whole) *v = value_int((int64_t)v->f);
  if (strcmp(kind, "float") == 0 && v->kind == VALUE_INT) *v = value_float((double)v->i);
  return fits(kind, v) ? NULL : kinds[find(kind, strlen(kind))].expected;
}

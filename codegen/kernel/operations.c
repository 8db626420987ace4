// See operations.h.
#include "codegen/kernel/operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/alloc.h"

static Operation *add_space(Operations *list, int n) {
  if (list->n + n > list->capacity) {
    while (list->n + n > list->capacity) list->capacity = list->capacity ? 2 * list->capacity : 16;
    list->items = reallocate_array(list->items, (size_t)list->capacity, sizeof *list->items);
  }
  list->n += n;
  return &list->items[list->n - n];
}

Operation *operations_addv(Operations *list, const char *name, int indent, Values results, Values operands,
                           const char *rest, va_list args) {
  Text text = {0};
  text_addv(&text, rest, args);
  int n = 0;
  for (const char *s = text_c_string(&text); *s; s++) n += *s == '%';
  require_promise(n == operands.n, "an operation with other operands than its text has places for");
  Operation *o = add_space(list, 1);
  *o = (Operation){.rest = text.data ? text.data : copy_string(""),
                   .indent = indent,
                   .n_results = results.n,
                   .n_operands = operands.n,
                   .values = allocate_array((size_t)(results.n + operands.n), sizeof *o->values)};
  require_promise(strlen(name) < sizeof o->name, "an operation with a long name");
  strcpy(o->name, name);
  memcpy(o->values, results.id, (size_t)results.n * sizeof *o->values);
  memcpy(o->values + results.n, operands.id, (size_t)operands.n * sizeof *o->values);
  return o;
}

Operation *operations_add(Operations *list, const char *name, int indent, Values results, Values operands,
                          const char *rest, ...) {
  va_list args;
  va_start(args, rest);
  Operation *o = operations_addv(list, name, indent, results, operands, rest, args);
  va_end(args);
  return o;
}

void operations_move(Operations *from, Operations *to) {
  if (from->n) memcpy(add_space(to, from->n), from->items, (size_t)from->n * sizeof *from->items);
  from->n = 0;
}

Operation *operations_copy(const Operation *o, Operations *to) {
  size_t bytes = (size_t)(o->n_results + o->n_operands) * sizeof *o->values;
  Operation *copy = add_space(to, 1);
  *copy = *o;
  copy->rest = copy_string(o->rest);
  copy->values = memcpy(allocate_array(bytes, 1), o->values, bytes);
  return copy;
}

void operation_set_results(Operation *o, Values results) {
  int n = results.n + o->n_operands, *values = allocate_array((size_t)n, sizeof *values);
  memcpy(values, results.id, (size_t)results.n * sizeof *values);
  memcpy(values + results.n, o->values + o->n_results, (size_t)o->n_operands * sizeof *values);
  free(o->values);
  o->values = values;
  o->n_results = results.n;
}

void operations_free(Operations *list) {
  for (int i = 0; i < list->n; i++) {
    free(list->items[i].rest);
    free(list->items[i].values);
  }
  free(list->items);
  *list = (Operations){0};
}

bool operation_is(const Operation *o, const char *name) { return !strcmp(o->name, name); }

// Half of a kernel's text is such names, so without printf.
static void print_value(int value, Text *out) {
  char name[16], *at = name + sizeof name;
  int n = value & 0xffffff;
  do *--at = (char)('0' + n % 10);
  while (n /= 10);
  *--at = (char)(value >> 24 ? value >> 24 : 'v');
  *--at = '%';
  text_append(out, at, (size_t)(name + sizeof name - at));
}

static void print_symbol(const char *s, const char *symbol, Text *out) {
  for (const char *at; (at = strchr(s, '$')); s = at + 1) {
    text_append(out, s, (size_t)(at - s));
    text_add(out, "@%s", symbol);
  }
  text_append(out, s, strlen(s));
}

static void print_constant(const Constant *c, Text *out) {
  if (c->kind == CONSTANT_SPLAT) text_add(out, "0x%08X", (unsigned)c->value);
  else text_add(out, "%lld", (long long)c->value);
}

void operation_print(const Operation *o, const char *symbol, bool without_constant, Text *out) {
  for (int i = 0; i < o->indent; i++) text_append(out, "  ", 2);
  for (int i = 0; i < o->n_results; i++) {
    if (i) text_append(out, ", ", 2);
    print_value(o->values[i], out);
  }
  if (o->n_results) text_append(out, " = ", 3);
  text_append(out, o->name, strlen(o->name));
  if (*o->rest && *o->rest != '(') text_append(out, " ", 1);
  int operand = o->n_results;
  for (const char *s = o->rest; *s;) {
    size_t plain = strcspn(s, "%#$");
    text_append(out, s, plain);
    s += plain;
    if (*s == '%') print_value(o->values[operand++], out);
    else if (*s == '#' && !without_constant) print_constant(&o->constant, out);
    else if (*s == '$') text_add(out, "@%s", symbol);
    else text_append(out, s, *s != 0);
    s += *s != 0;
  }
  text_append(out, "\n", 1);
}

// ---------------------------------------------------------------------------------------------------------------------

void function_add_argument(KernelFunction *f, int value, const char *type) {
  Argument *a = ARRAY_ADD(f->arguments, f->n_arguments);
  a->value = value;
  snprintf(a->type, sizeof a->type, "%s", type);
}

void function_add_array(KernelFunction *f, const char *suffix, int space, int64_t n, const char *element) {
  text_add(&f->globals,
           "llvm.mlir.global %s $%s() {addr_space = %d : i32, alignment = 16 : i64} : !llvm.array<%lld x %s>\n",
           n ? "internal" : "external", suffix, space, (long long)n, element);
}

void function_add_table(KernelFunction *f, const char *suffix, int space, int64_t n, const char *numbers) {
  text_add(&f->globals,
           "llvm.mlir.global internal constant $%s(dense<[%s]> : tensor<%lldxi64>) {addr_space = %d : i32, "
           "alignment = 16 : i64} : !llvm.array<%lld x i64>\n",
           suffix, numbers, (long long)n, space, (long long)n);
}

void function_print_head(const KernelFunction *f, const char *symbol, Text *out) {
  print_symbol(text_c_string(&f->globals), symbol, out);
  text_add(out, "func.func @%s(", symbol);
  for (int i = 0; i < f->n_arguments; i++) {
    if (i) text_append(out, ", ", 2);
    print_value(f->arguments[i].value, out);
    text_add(out, ": %s", f->arguments[i].type);
  }
  if (f->results) text_add(out, ") -> (%s", f->results);
  text_add(out, ") {\n");
}

void function_print(const KernelFunction *f, Text *out) {
  if (f->replaced) return;
  function_print_head(f, f->symbol, out);
  for (int i = 0; i < f->body.n; i++) operation_print(&f->body.items[i], f->symbol, false, out);
  text_add(out, "}\n\n");
}

void function_free(KernelFunction *f) {
  free(f->symbol);
  free(f->arguments);
  free(f->results);
  text_free(&f->globals);
  operations_free(&f->body);
  *f = (KernelFunction){0};
}

KernelFunction *functions_find(const KernelFunctions *functions, const char *symbol) {
  for (int i = 0; i < functions->n; i++)
    if (!strcmp(functions->items[i].symbol, symbol)) return &functions->items[i];
  return NULL;
}

void functions_add(KernelFunctions *functions, KernelFunction f) { *ARRAY_ADD(functions->items, functions->n) = f; }

void functions_move(KernelFunctions *from, KernelFunctions *to) {
  for (int i = 0; i < from->n; i++) functions_add(to, from->items[i]);
  free(from->items);
  *from = (KernelFunctions){0};
}

void functions_print(const KernelFunctions *functions, Text *out) {
  for (int i = 0; i < functions->n; i++) function_print(&functions->items[i], out);
}

void functions_free(KernelFunctions *functions) {
  for (int i = 0; i < functions->n; i++) function_free(&functions->items[i]);
  free(functions->items);
  *functions = (KernelFunctions){0};
}

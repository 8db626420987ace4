// Kernels that differ only in numbers become one, which takes the numbers as arguments. A network with a hundred widths
// (DenseNet) has some hundred kernels of a few dozen kinds, and most of the time of compiling goes into LLVM and ptxas,
// per kernel. Where there are few kernels each keeps its constants, which is better code; but not what only adds up the
// parts of a sum, a few blocks that wait for memory.
//
// It works on the text: integer constants, float splats and constant offsets of addresses are the numbers; all else
// must be equal. A division by such a number becomes a product with its reciprocal (Granlund and Montgomery, "Division
// by invariant integers using multiplication", PLDI 1994), exact for dividends below 2^31.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "support/alloc.h"
#include "support/text.h"

enum { FEW_BLOCKS = 64 };
enum { NOT_A_NUMBER, INTEGER, OFFSET, SPLAT };

// id: of the constant's SSA value; width: of the splat's vector
typedef struct Number {
  int kind, id, width;
  int64_t value;
} Number;

// One launch of a kernel that is text.
typedef struct Function {
  EmittedKernel *kernel;   // Borrowed
  KernelLaunch *launch;    // Borrowed
  char *globals;           // Owned; its shared memory
  char *body;              // Owned; "func.func @…" to "}\n"
  char *original;          // Owned; the body as it was, where `body` is plain_body's; NULL: it is that
  int n_used, *used;       // Owned; the arguments of `original` that are those of `body`
  Text form;               // the body without its name and numbers: equal for kernels that can be one
  int n;
  Number *numbers;   // Owned; in order of the text
  int order;
} Function;

// What is known of an SSA value: below 2^31 and no less than 0, in 32 or 64 bits.
typedef struct Small {
  int n;
  bool *is;
} Small;   // Owned

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

// "%v12" of a line that defines it, or an operand; -1: something else.
static int value_id(const char *s) {
  return s[0] == '%' && s[1] == 'v' && isdigit((unsigned char)s[2]) ? atoi(s + 2) : -1;
}

static bool is_small(const Small *s, int id) { return id >= 0 && id < s->n && s->is[id]; }

static void set_small(Small *s, int id) {
  if (id >= s->n) {
    s->is = reallocate_array(s->is, (size_t)id * 2 + 64, 1);
    memset(s->is + s->n, 0, (size_t)id * 2 + 64 - (size_t)s->n);
    s->n = id * 2 + 64;
  }
  s->is[id] = true;
}

// A line "%v<id> = <op> %v<a>, %v<b> : <type>".
typedef struct Line {
  int id, a, b;
  const char *op;
} Line;

static Line line_of(const char *s) {
  Line l = {-1, -1, -1, ""};
  while (*s == ' ') s++;
  l.id = value_id(s);
  const char *op = l.id < 0 ? NULL : strstr(s, " = "), *operand = op ? strchr(op + 3, '%') : NULL,
             *next = operand ? strstr(operand, ", %") : NULL, *end = strchr(s, '\n');
  if (op) l.op = op + 3;
  if (operand && (!end || operand < end)) l.a = value_id(operand);
  if (next && (!end || next < end)) l.b = value_id(next + 2);
  return l;
}

// Indices of threads and blocks, and what is made of them in 32 bits: the schedules see to it that they stay below
// 2^31.
static void find_small(const char *body, Small *small) {
  for (const char *s = body; *s; s = strchr(s, '\n') + 1) {
    Line l = line_of(s);
    if (l.id < 0) continue;
    const char *end = strchr(s, '\n');
    bool word = end && end - s > 6 && starts(end - 6, " : i32"),
         is = starts(l.op, "llvm.call_intrinsic \"llvm.nvvm.read.ptx.sreg.");
    if (starts(l.op, "arith.constant ")) is = word && l.op[15] != '-';
    if (starts(l.op, "arith.addi ") || starts(l.op, "arith.muli "))
      is = word && is_small(small, l.a) && is_small(small, l.b);
    if (starts(l.op, "arith.extui ") || starts(l.op, "arith.divui ")) is = is_small(small, l.a);
    if (starts(l.op, "arith.remui ")) is = is_small(small, l.a) || is_small(small, l.b);
    if (starts(l.op, "arith.minui ")) is = is_small(small, l.a) || is_small(small, l.b);
    if (is) set_small(small, l.id);
  }
}

static bool divides(Line l) { return starts(l.op, "arith.divui ") || starts(l.op, "arith.remui "); }

// Constants that something is divided by that may be large.
static void find_divisors(const char *body, const Small *small, Small *fixed) {
  for (const char *s = body; *s; s = strchr(s, '\n') + 1) {
    Line l = line_of(s);
    if (l.id >= 0 && divides(l) && !is_small(small, l.a) && l.b >= 0) set_small(fixed, l.b);
  }
}

// The number in a line and where its text begins and ends.
static Number number_of(const char *line, const Small *fixed, const char **begin, const char **end) {
  Line l = line_of(line);
  Number n = {.id = l.id};
  char *stop;
  if (starts(l.op, "arith.constant dense<0x")) {
    *begin = l.op + 21;
    n.value = (int64_t)(int32_t)strtoull(*begin, &stop, 16);
    if (stop - *begin == 10 && sscanf(stop, "> : vector<%dxf32>\n", &n.width) == 1) n.kind = SPLAT;
  } else if (starts(l.op, "arith.constant ")) {
    *begin = l.op + 15;
    n.value = strtoll(*begin, &stop, 10);
    if (stop > *begin && starts(stop, " : i64\n") && !is_small(fixed, l.id)) n.kind = INTEGER;
  } else if (starts(l.op, "llvm.getelementptr %")) {
    *begin = strchr(l.op, '[') + 1;
    n.value = strtoll(*begin, &stop, 10);
    if (stop > *begin && starts(stop, "] : (!buffer) -> !buffer, ")) n.kind = OFFSET;
  }
  if (n.kind && n.kind != SPLAT && (n.value > INT32_MAX || n.value < 0)) n.kind = NOT_A_NUMBER;
  if (n.kind) *end = stop;
  return n;
}

// Appends a piece of the body with the function's own name left out.
static void append_unnamed(Text *out, const char *s, const char *end, const char *symbol) {
  size_t length = strlen(symbol);
  for (const char *at; s < end; s = at + 1 + length) {
    for (at = memchr(s, '@', (size_t)(end - s)); at && strncmp(at + 1, symbol, length) != 0;)
      at = memchr(at + 1, '@', (size_t)(end - at - 1));
    if (!at) {
      text_append(out, s, (size_t)(end - s));
      return;
    }
    text_append(out, s, (size_t)(at + 1 - s));
  }
}

static void read_form(Function *f) {
  Small small = {0}, fixed = {0};
  find_small(f->body, &small);
  find_divisors(f->body, &small, &fixed);
  const KernelLaunch *l = f->launch;
  text_add(&f->form, "%lld x %lld x %lld%s\n", (long long)l->block[0], (long long)l->block[1], (long long)l->block[2],
           l->alone ? " alone" : "");
  append_unnamed(&f->form, f->globals, f->globals + strlen(f->globals), l->symbol);
  for (const char *s = f->body, *next; *s; s = next) {
    next = strchr(s, '\n') + 1;
    const char *begin = NULL, *end = NULL;
    Number n = number_of(s, &fixed, &begin, &end);
    append_unnamed(&f->form, s, n.kind ? begin : next, l->symbol);
    if (!n.kind) continue;
    text_add(&f->form, "#");
    append_unnamed(&f->form, end, next, l->symbol);
    f->numbers = reallocate_array(f->numbers, (size_t)f->n + 1, sizeof *f->numbers);
    f->numbers[f->n++] = n;
  }
  free(small.is);
  free(fixed.is);
}

// ---------------------------------------------------------------------------------------------------------------------
// A number that happens to be another, too, is one constant of two uses, and an argument may be there for another
// launch: functions that differ in nothing else differ in form. The plain body has a constant for each use, and the
// arguments that are read, in the order in which they are.

typedef struct Values {
  int n;
  const char **constant;
  int *number;
} Values;   // Owned; by id: what stands behind "= " of a constant, Borrowed; its new id, -1: none yet

static Values values_of(const char *body) {
  Values v = {0};
  for (const char *s = body; (s = strstr(s, "%v")); s++)
    if (value_id(s) >= v.n) v.n = value_id(s) + 1;
  v.constant = allocate_array((size_t)v.n + 1, sizeof *v.constant);
  v.number = allocate_array((size_t)v.n + 1, sizeof *v.number);
  for (int i = 0; i < v.n; i++) v.number[i] = -1;
  for (const char *s = body; *s; s = strchr(s, '\n') + 1) {
    Line l = line_of(s);
    if (l.id >= 0 && starts(l.op, "arith.constant ")) v.constant[l.id] = l.op;
  }
  return v;
}

// One line with its values numbered anew, behind the constants that it uses, each for itself.
static void append_line(Values *v, const char *s, const char *next, int *n, Text *out) {
  Text line = {0};
  int indent = (int)strspn(s, " ");
  for (const char *at; s < next; s = at) {
    int id = value_id(s);
    at = s + 1;
    if (id < 0) {
      text_append(&line, s, 1);
      continue;
    }
    for (at = s + 2; isdigit((unsigned char)*at);) at++;
    int number = v->constant[id] ? *n : v->number[id] < 0 ? (v->number[id] = *n) : v->number[id];
    *n += number == *n;
    text_add(&line, "%%v%d", number);
    if (!v->constant[id]) continue;
    const char *constant = v->constant[id];
    text_add(out, "%*s%%v%d = %.*s\n", indent, "", number, (int)strcspn(constant, "\n"), constant);
  }
  text_append(out, line.data, line.size);
  text_free(&line);
}

// Where argument n of the function stands in its first line, NULL: it has no more.
static const char *argument_of(const char *body, int n) {
  const char *end = strchr(body, '\n'), *s = memchr(body, '(', (size_t)(end - body));
  for (; s && n >= 0; n--) s = memchr(s + 1, '%', (size_t)(end - s - 1));
  return s;
}

static void append_head(Function *f, const Values *v, Text *out) {
  int n = 0;
  const char *argument;
  while ((argument = argument_of(f->body, n))) n++;
  f->used = allocate_array((size_t)n + 1, sizeof *f->used);
  text_append(out, f->body, (size_t)(strchr(f->body, '(') + 1 - f->body));
  // Numbers were given in the order of use.
  for (;;) {
    int next = -1;
    for (int i = 0; i < n; i++) {
      int number = v->number[value_id(argument_of(f->body, i))];
      if (number < 0 || (f->n_used && number <= v->number[value_id(argument_of(f->body, f->used[f->n_used - 1]))]))
        continue;
      if (next < 0 || number < v->number[value_id(argument_of(f->body, next))]) next = i;
    }
    if (next < 0) break;
    text_add(out, "%s%%v%d: !buffer", f->n_used ? ", " : "", v->number[value_id(argument_of(f->body, next))]);
    f->used[f->n_used++] = next;
  }
  text_add(out, ") {\n");
}

static void make_plain(Function *f) {
  Values v = values_of(f->body);
  Text head = {0}, out = {0};
  int n = 0;
  for (const char *s = strchr(f->body, '\n') + 1, *next; *s; s = next) {
    next = strchr(s, '\n') + 1;
    Line l = line_of(s);
    if (l.id < 0 || !v.constant[l.id]) append_line(&v, s, next, &n, &out);
  }
  append_head(f, &v, &head);
  text_append(&head, out.data, out.size);
  text_free(&out);
  free(v.constant);
  free(v.number);
  f->original = f->body;
  f->body = head.data;
}

// The launch gets the buffers that are left.
static void take_used(Function *f) {
  KernelLaunch *l = f->launch;
  int *buffers = allocate_array((size_t)f->n_used + 1, sizeof *buffers);
  for (int i = 0; i < f->n_used; i++) buffers[i] = l->buffers ? l->buffers[f->used[i]] : f->used[i];
  free(l->buffers);
  l->buffers = buffers;
  l->n_buffers = f->n_used;
  free(f->original);
  f->original = NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Writing a group of functions as one

typedef struct Group {
  int n;
  Function *const *of;   // Borrowed
  int n_arguments;
  int *argument;      // Owned; by number: which argument; -1: the same in all
  int *of_argument;   // Owned; by argument: a number that it stands for
  // Owned; by number: the argument before the factor and the shift that divide by it; -1: nothing is divided by it
  int *reciprocal;
} Group;

static bool varies(const Group *g, int i) {
  for (int f = 1; f < g->n; f++)
    if (g->of[f]->numbers[i].value != g->of[0]->numbers[i].value) return true;
  return false;
}

static bool goes_with(const Group *g, int i, int j) {
  for (int f = 0; f < g->n; f++)
    if (g->of[f]->numbers[i].value != g->of[f]->numbers[j].value) return false;
  return true;
}

static int number_by_id(const Function *f, int id) {
  for (int i = 0; i < f->n; i++)
    if (f->numbers[i].kind == INTEGER && f->numbers[i].id == id) return i;
  return -1;
}

static void choose_arguments(Group *g) {
  const Function *first = g->of[0];
  int n = first->n;
  g->argument = allocate_array((size_t)n + 1, sizeof *g->argument);
  g->of_argument = allocate_array((size_t)n + 1, sizeof *g->of_argument);
  g->reciprocal = allocate_array((size_t)n + 1, sizeof *g->reciprocal);
  for (int i = 0; i < n; i++) {
    g->argument[i] = g->reciprocal[i] = -1;
    if (!varies(g, i)) continue;
    for (int j = 0; j < g->n_arguments && g->argument[i] < 0; j++)
      if (goes_with(g, g->of_argument[j], i)) g->argument[i] = j;
    if (g->argument[i] >= 0) continue;
    g->of_argument[g->n_arguments] = i;
    g->argument[i] = g->n_arguments++;
  }
}

// The arguments after those for numbers are pairs of a factor and a shift.
static int choose_reciprocals(Group *g) {
  const Function *first = g->of[0];
  int n = g->n_arguments;
  for (const char *s = first->body; *s; s = strchr(s, '\n') + 1) {
    Line l = line_of(s);
    int i = l.id >= 0 && divides(l) ? number_by_id(first, l.b) : -1;
    if (i < 0 || g->argument[i] < 0 || g->reciprocal[i] >= 0) continue;
    for (int j = 0; j < first->n && g->reciprocal[i] < 0; j++)
      if (g->argument[j] == g->argument[i]) g->reciprocal[i] = g->reciprocal[j];
    if (g->reciprocal[i] >= 0) continue;
    g->reciprocal[i] = n;
    n += 2;
  }
  return n;
}

// n / d = n * factor >> shift for 0 <= n < 2^31.
static void reciprocal(int64_t d, int32_t *factor, int32_t *shift) {
  int s = 0;
  while (((int64_t)1 << s) < d) s++;
  uint64_t power = (uint64_t)1 << (31 + s);
  *factor = (int32_t)(uint32_t)((power + (uint64_t)d - 1) / (uint64_t)d);
  *shift = 31 + s;
}

static void write_head(const Group *g, int n_arguments, Text *out) {
  const char *body = g->of[0]->body, *close = strstr(body, ") {\n");
  text_append(out, body, (size_t)(close - body));
  for (int i = 0; i < n_arguments; i++) text_add(out, ", %%n%d: i32", i);
  text_add(out, ") {\n");
  for (int i = 0; i < n_arguments; i++) text_add(out, "  %%w%d = arith.extui %%n%d : i32 to i64\n", i, i);
}

// %q is the quotient, the line's own value what is asked for.
static void write_division(const Group *g, Line l, int number, Text *out) {
  int factor = g->reciprocal[number];
  text_add(out, "  %%p%d = arith.muli %%v%d, %%w%d : i64\n", l.id, l.a, factor);
  bool quotient = starts(l.op, "arith.divui ");
  text_add(out, "  %%%c%d = arith.shrui %%p%d, %%w%d : i64\n", quotient ? 'v' : 'q', l.id, l.id, factor + 1);
  if (quotient) return;
  text_add(out, "  %%r%d = arith.muli %%q%d, %%v%d : i64\n", l.id, l.id, l.b);
  text_add(out, "  %%v%d = arith.subi %%v%d, %%r%d : i64\n", l.id, l.a, l.id);
}

static void write_number(const Group *g, const char *line, const char *next, const char *begin, const char *end,
                         int number, Text *out) {
  const Number *n = &g->of[0]->numbers[number];
  int argument = g->argument[number];
  switch (n->kind) {
  case INTEGER: text_add(out, "  %%v%d = arith.extui %%n%d : i32 to i64\n", n->id, argument); break;
  case SPLAT:
    text_add(out,
             "  %%f%d = arith.bitcast %%n%d : i32 to f32\n  %%v%d = vector.broadcast %%f%d : f32 to vector<%dxf32>\n",
             n->id, argument, n->id, n->id, n->width);
    break;
  default:
    text_append(out, line, (size_t)(begin - line));
    text_add(out, "%%w%d] : (!buffer, i64)", argument);
    end += strlen("] : (!buffer)");
    text_append(out, end, (size_t)(next - end));
  }
}

static void write_body(const Group *g, int n_arguments, Text *out) {
  const Function *first = g->of[0];
  Small small = {0}, fixed = {0};
  find_small(first->body, &small);
  find_divisors(first->body, &small, &fixed);
  write_head(g, n_arguments, out);
  int number = 0;
  for (const char *s = strchr(first->body, '\n') + 1, *next; *s; s = next) {
    next = strchr(s, '\n') + 1;
    const char *begin = NULL, *end = NULL;
    Number n = number_of(s, &fixed, &begin, &end);
    Line l = line_of(s);
    int divisor = l.id >= 0 && divides(l) ? number_by_id(first, l.b) : -1;
    if (n.kind && g->argument[number] >= 0) write_number(g, s, next, begin, end, number, out);
    else if (divisor >= 0 && g->reciprocal[divisor] >= 0) write_division(g, l, divisor, out);
    else text_append(out, s, (size_t)(next - s));
    number += n.kind != NOT_A_NUMBER;
  }
  free(small.is);
  free(fixed.is);
}

static void give_numbers(const Group *g, int n_arguments) {
  for (int f = 0; f < g->n; f++) {
    KernelLaunch *l = g->of[f]->launch;
    const Number *numbers = g->of[f]->numbers;
    l->n_numbers = n_arguments;
    l->numbers = allocate_array((size_t)n_arguments + 1, sizeof *l->numbers);
    for (int i = 0; i < g->n_arguments; i++) l->numbers[i] = (int32_t)numbers[g->of_argument[i]].value;
    for (int i = 0; i < g->of[f]->n; i++)
      if (g->reciprocal[i] >= 0)
        reciprocal(numbers[i].value, &l->numbers[g->reciprocal[i]], &l->numbers[g->reciprocal[i] + 1]);
    if (f == 0) continue;
    free(l->symbol);
    l->symbol = copy_string(g->of[0]->launch->symbol);
    *g->of[f]->body = *g->of[f]->globals = 0;
  }
}

static void make_one(Function *const *of, int n) {
  Group g = {.n = n, .of = of};
  Text body = {0};
  for (int f = 0; f < n; f++)
    if (of[f]->original) take_used(of[f]);
  choose_arguments(&g);
  int n_arguments = choose_reciprocals(&g);
  write_body(&g, n_arguments, &body);
  give_numbers(&g, n_arguments);
  free(of[0]->body);
  of[0]->body = body.data;
  free(g.argument);
  free(g.of_argument);
  free(g.reciprocal);
}

// ---------------------------------------------------------------------------------------------------------------------

static char *piece(const char *begin, const char *end) { return text_format("%.*s", (int)(end - begin), begin); }

// Takes a kernel's text apart: comments, then of each launch that is text its shared memory and its function. The
// number of functions; 0: it is made otherwise.
static int take_apart(EmittedKernel *k, Function *out) {
  const char *s = text_c_string(&k->text);
  int n = 0;
  bool ok = true;
  for (int j = 0; j < k->n_launches && ok; j++) {
    char *head = text_format("func.func @%s(", k->launches[j].symbol);
    const char *begin = strstr(s, head), *end = begin ? strstr(begin, "\n}\n") : NULL,
               *globals = begin ? strstr(s, "llvm.mlir.global ") : NULL;
    free(head);
    if (!begin) continue;   // from a template
    ok = end && !memmem(s, (size_t)(begin - s), "func.func ", 10) && !k->launches[j].n_numbers;
    if (!ok) continue;
    if (!globals || globals > begin) globals = begin;
    out[n++] = (Function){.kernel = k,
                          .launch = &k->launches[j],
                          .globals = piece(globals, begin),
                          .body = piece(begin, end + 3)};
    s = end + 3;
  }
  if (ok && !strstr(s, "func.func ")) return n;
  for (int i = 0; i < n; i++) free(out[i].globals), free(out[i].body);
  return 0;
}

static int by_form(const void *a, const void *b) {
  const Function *x = *(Function *const *)a, *y = *(Function *const *)b;
  int order = strcmp(x->form.data, y->form.data);
  return order ? order : x->order - y->order;
}

// The text of a kernel anew, its comments first.
static void put_together(Function *f, int n) {
  Text out = {0};
  const char *s = text_c_string(&f->kernel->text);
  for (const char *next; *s; s = next) {
    next = strchr(s, '\n');
    next = next ? next + 1 : s + strlen(s);
    if (starts(s, "//")) text_append(&out, s, (size_t)(next - s));
  }
  for (int j = 0; j < n; j++) {
    text_add(&out, "%s", f[j].globals);
    text_add(&out, "%s\n", f[j].body);
  }
  text_free(&f->kernel->text);
  f->kernel->text = out;
}

static int launched(const EmittedKernels *kernels, const char *symbol) {
  int n = 0;
  for (int i = 0; i < kernels->n; i++)
    for (int j = 0; j < kernels->items[i].n_launches; j++) n += !strcmp(kernels->items[i].launches[j].symbol, symbol);
  return n;
}

// What adds up the parts that an earlier launch of the kernel has left, in so few blocks that it is the memory it waits
// for that counts.
static bool adds_up(const Function *f) {
  return f->launch > f->kernel->launches && f->launch->grid[0] * f->launch->grid[1] * f->launch->grid[2] <= FEW_BLOCKS;
}

static void find_form(const EmittedKernels *kernels, Function *f, bool all) {
  bool sums = adds_up(f);
  if (sums) {
    make_plain(f);
    text_add(&f->form, "sums ");
  }
  read_form(f);
  // stays as it is; in the second case other launches know it by its name
  if ((!all && !sums) || launched(kernels, f->launch->symbol) > 1) text_add(&f->form, "%d\n", f->order);
}

static void keep(Function *f) {
  if (!f->original) return;
  free(f->body);
  f->body = f->original;
  f->original = NULL;
}

void cuda_share_kernels(EmittedKernels *kernels, int many, int alike) {
  int n = 0, n_launches = 0;
  for (int i = 0; i < kernels->n; i++) n_launches += kernels->items[i].n_launches;
  Function *functions = allocate_array((size_t)n_launches + 1, sizeof *functions),
           **sorted = allocate_array((size_t)n_launches + 1, sizeof(Function *));
  for (int i = 0; i < kernels->n; i++) n += take_apart(&kernels->items[i], functions + n);
  for (int i = 0; i < n; i++) {
    functions[i].order = i;
    find_form(kernels, &functions[i], n_launches >= many);
    sorted[i] = &functions[i];
  }
  qsort(sorted, (size_t)n, sizeof *sorted, by_form);
  for (int i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && !strcmp(sorted[i]->form.data, sorted[end]->form.data);) end++;
    if (end - i >= (adds_up(sorted[i]) ? 2 : alike)) make_one(sorted + i, end - i);
    for (int k = i; k < end; k++) keep(sorted[k]);
  }
  for (int i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && functions[end].kernel == functions[i].kernel;) end++;
    put_together(&functions[i], end - i);
  }
  for (int i = 0; i < n; i++) {
    free(functions[i].globals);
    free(functions[i].body);
    free(functions[i].numbers);
    free(functions[i].used);
    text_free(&functions[i].form);
  }
  free(functions);
  free(sorted);
}

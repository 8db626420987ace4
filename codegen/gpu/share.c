// Kernels that differ only in numbers become one, which takes the numbers as arguments. A network with a hundred widths
// (DenseNet) has some hundred kernels of a few dozen kinds, and most of the time of compiling goes into code
// generation, per kernel. Where there are few kernels each keeps its constants, which is better code; but not what only
// adds up the parts of a sum, a few blocks that wait for memory.
//
// The numbers are the constants of the emitter's records: integers of 64 bits, splats of f32 and offsets of addresses;
// all else must be equal. A division by such a number becomes a product with its reciprocal (Granlund and Montgomery,
// "Division by invariant integers using multiplication", PLDI 1994), exact for dividends below 2^31.
#include <stdlib.h>
#include <string.h>

#include "codegen/gpu/schedule.h"
#include "support/alloc.h"
#include "support/text.h"

enum { FEW_BLOCKS = 64 };

// One launch of a kernel whose function the emitter has written.
typedef struct Shareable {
  EmittedKernel *kernel;      // Borrowed
  KernelLaunch *launch;       // Borrowed
  KernelFunction *function;   // Borrowed; of the kernel
  KernelFunction plain;       // Owned; what make_plain made of it. No symbol: it is not asked for
  int n_used, *used;          // Owned; the arguments of the function that are those of `plain`
  Text form;                  // the function without its name and numbers: equal for those that can be one
  int n, *number;             // Owned; operations of the body that are numbers
  int order;
} Shareable;

static const KernelFunction *function_of(const Shareable *s) { return s->plain.symbol ? &s->plain : s->function; }
static const Operation *number_of(const Shareable *s, int i) { return &function_of(s)->body.items[s->number[i]]; }

// ---------------------------------------------------------------------------------------------------------------------
// What is known of values: a bit for each id

typedef struct ValueSet {
  int n;
  bool *has;   // Owned
} ValueSet;

static bool has(const ValueSet *s, int id) { return id >= 0 && id < s->n && s->has[id]; }

static void set(ValueSet *s, int id) {
  if (id >= s->n) {
    s->has = reallocate_array(s->has, (size_t)id * 2 + 64, 1);
    memset(s->has + s->n, 0, (size_t)id * 2 + 64 - (size_t)s->n);
    s->n = id * 2 + 64;
  }
  s->has[id] = true;
}

// At least 0 and below 2^31: what the schedules promise, such as numbers of threads and blocks, and what is made of it
// in 32 bits, which they see to stays below.
static bool is_small(const ValueSet *small, const Operation *o) {
  bool a = has(small, operation_operand(o, 0)), b = has(small, operation_operand(o, 1));
  if (o->below_2_31) return true;
  if (o->constant.kind == CONSTANT_INTEGER) return o->bits == 32 && o->constant.value >= 0;
  if (operation_is(o, "arith.addi") || operation_is(o, "arith.muli")) return o->bits == 32 && a && b;
  if (operation_is(o, "arith.extui") || operation_is(o, "arith.divui")) return a;
  return (operation_is(o, "arith.remui") || operation_is(o, "arith.minui")) && (a || b);
}

static bool divides(const Operation *o) { return operation_is(o, "arith.divui") || operation_is(o, "arith.remui"); }

// Constants that something is divided by that may be large.
static ValueSet fixed_divisors(const KernelFunction *f) {
  ValueSet small = {0}, fixed = {0};
  for (int i = 0; i < f->body.n; i++) {
    const Operation *o = &f->body.items[i];
    if (o->n_results && is_small(&small, o)) set(&small, o->values[0]);
  }
  for (int i = 0; i < f->body.n; i++) {
    const Operation *o = &f->body.items[i];
    if (divides(o) && !has(&small, operation_operand(o, 0))) set(&fixed, operation_operand(o, 1));
  }
  free(small.has);
  return fixed;
}

static bool is_number(const Operation *o, const ValueSet *fixed) {
  int64_t value = o->constant.value;
  switch (o->constant.kind) {
  case CONSTANT_NONE: return false;
  case CONSTANT_INTEGER: return o->bits == 64 && !has(fixed, o->values[0]) && value >= 0 && value <= INT32_MAX;
  case CONSTANT_SPLAT: return true;
  case CONSTANT_OFFSET: return value >= 0 && value <= INT32_MAX;
  }
  return false;
}

static void read_form(Shareable *s) {
  const KernelFunction *f = function_of(s);
  const KernelLaunch *l = s->launch;
  ValueSet fixed = fixed_divisors(f);
  text_add(&s->form, "%lld x %lld x %lld%s\n", (long long)l->block[0], (long long)l->block[1], (long long)l->block[2],
           l->alone ? " alone" : "");
  function_print_head(f, "", &s->form);
  s->number = allocate_array((size_t)f->body.n, sizeof *s->number);
  for (int i = 0; i < f->body.n; i++) {
    const Operation *o = &f->body.items[i];
    bool number = is_number(o, &fixed);
    operation_print(o, "", number, &s->form);
    if (number) s->number[s->n++] = i;
  }
  free(fixed.has);
}

// ---------------------------------------------------------------------------------------------------------------------
// A number that happens to be another, too, is one constant of two uses, and an argument may be there for another
// launch: functions that differ in nothing else differ in form. The plain function has a constant for each use, and the
// arguments that are read, in the order in which they are.

// By value of the function: the operation that makes it a constant, NULL: something else does; its new id, -1: none yet
typedef struct Renumbered {
  const Operation **constant;   // Owned
  int *id;                      // Owned
  int n;                        // new ids
} Renumbered;

static Renumbered renumber_begin(const KernelFunction *f) {
  int most = 0;
  for (int i = 0; i < f->n_arguments; i++)
    if (f->arguments[i].value > most) most = f->arguments[i].value;
  for (int i = 0; i < f->body.n; i++)
    for (int j = 0; j < f->body.items[i].n_results + f->body.items[i].n_operands; j++)
      if (f->body.items[i].values[j] > most) most = f->body.items[i].values[j];
  Renumbered r = {.constant = allocate_array((size_t)most + 1, sizeof *r.constant),
                  .id = allocate_array((size_t)most + 1, sizeof *r.id)};
  for (int i = 0; i <= most; i++) r.id[i] = -1;
  for (int i = 0; i < f->body.n; i++)
    if (operation_is(&f->body.items[i], "arith.constant")) r.constant[f->body.items[i].values[0]] = &f->body.items[i];
  return r;
}

// An operation behind the constants that it uses, each for itself.
static void add_plain(Renumbered *r, const Operation *o, Operations *body) {
  int n = o->n_results + o->n_operands, *id = allocate_array((size_t)n, sizeof *id);
  for (int i = 0; i < n; i++) {
    const Operation *constant = r->constant[o->values[i]];
    if (!constant && r->id[o->values[i]] >= 0) {
      id[i] = r->id[o->values[i]];
      continue;
    }
    id[i] = r->n++;
    if (!constant) {
      r->id[o->values[i]] = id[i];
      continue;
    }
    Operation *copy = operations_copy(constant, body);
    copy->values[0] = id[i];
    copy->indent = o->indent;
  }
  Operation *copy = operations_copy(o, body);
  memcpy(copy->values, id, (size_t)n * sizeof *id);
  free(id);
}

// New ids were given in the order of use.
static void use_arguments(Shareable *s, const Renumbered *r) {
  const KernelFunction *f = s->function;
  s->used = allocate_array((size_t)f->n_arguments, sizeof *s->used);
  for (int last = -1;;) {
    int next = -1;
    for (int i = 0; i < f->n_arguments; i++) {
      int id = r->id[f->arguments[i].value];
      if (id > last && (next < 0 || id < r->id[f->arguments[next].value])) next = i;
    }
    if (next < 0) return;
    last = r->id[f->arguments[next].value];
    function_add_argument(&s->plain, last, f->arguments[next].type);
    s->used[s->n_used++] = next;
  }
}

static void make_plain(Shareable *s) {
  const KernelFunction *f = s->function;
  Renumbered r = renumber_begin(f);
  s->plain.symbol = copy_string(f->symbol);
  text_append(&s->plain.globals, f->globals.data, f->globals.size);
  for (int i = 0; i < f->body.n; i++)
    if (!operation_is(&f->body.items[i], "arith.constant")) add_plain(&r, &f->body.items[i], &s->plain.body);
  use_arguments(s, &r);
  free(r.constant);
  free(r.id);
}

// The plain function takes the other's place, and the launch gets the buffers that are left.
static void keep_plain(Shareable *s) {
  KernelLaunch *l = s->launch;
  int *buffers = allocate_array((size_t)s->n_used + 1, sizeof *buffers);
  for (int i = 0; i < s->n_used; i++) buffers[i] = l->buffers ? l->buffers[s->used[i]] : s->used[i];
  free(l->buffers);
  l->buffers = buffers;
  l->n_buffers = s->n_used;
  function_free(s->function);
  *s->function = s->plain;
  s->plain = (KernelFunction){0};
}

// ---------------------------------------------------------------------------------------------------------------------
// Writing a group of functions as one

typedef struct Group {
  int n;
  Shareable *const *of;   // Borrowed
  int n_arguments;
  int *argument;      // Owned; by number: which argument; -1: the same in all
  int *of_argument;   // Owned; by argument: a number that it stands for
  // Owned; by number: the argument before the factor and the shift that divide by it; -1: nothing is divided by it
  int *reciprocal;
} Group;

static int64_t value_of(const Shareable *s, int i) { return number_of(s, i)->constant.value; }

static bool varies(const Group *g, int i) {
  for (int f = 1; f < g->n; f++)
    if (value_of(g->of[f], i) != value_of(g->of[0], i)) return true;
  return false;
}

static bool goes_with(const Group *g, int i, int j) {
  for (int f = 0; f < g->n; f++)
    if (value_of(g->of[f], i) != value_of(g->of[f], j)) return false;
  return true;
}

// The number that an operation divides by; -1: none.
static int divisor_of(const Shareable *s, const Operation *o) {
  for (int i = 0; i < s->n && divides(o); i++)
    if (number_of(s, i)->constant.kind == CONSTANT_INTEGER && number_of(s, i)->values[0] == operation_operand(o, 1))
      return i;
  return -1;
}

static void choose_arguments(Group *g) {
  int n = g->of[0]->n;
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
  const Shareable *first = g->of[0];
  const Operations *body = &function_of(first)->body;
  int n = g->n_arguments;
  for (int k = 0; k < body->n; k++) {
    int i = divisor_of(first, &body->items[k]);
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

static int argument_value(int i) { return value_named('n', i); }
static int wide_value(int i) { return value_named('w', i); }   // the argument in 64 bits

static void add(Operations *body, const char *name, int result, Values operands, const char *rest) {
  operations_add(body, name, 1, VALUES(result), operands, "%s", rest);
}

static void add_division(const Group *g, const Operation *o, int number, Operations *body) {
  int factor = g->reciprocal[number], id = o->values[0], a = operation_operand(o, 0), b = operation_operand(o, 1);
  bool divides_only = operation_is(o, "arith.divui");
  int product = value_named('p', id), quotient = divides_only ? id : value_named('q', id), back = value_named('r', id);
  add(body, "arith.muli", product, VALUES(a, wide_value(factor)), "%, % : i64");
  add(body, "arith.shrui", quotient, VALUES(product, wide_value(factor + 1)), "%, % : i64");
  if (divides_only) return;
  add(body, "arith.muli", back, VALUES(quotient, b), "%, % : i64");
  add(body, "arith.subi", id, VALUES(a, back), "%, % : i64");
}

static void add_number(const Operation *o, int argument, Operations *body) {
  int id = o->values[0], f = value_named('f', id);
  switch (o->constant.kind) {
  case CONSTANT_NONE: break;
  case CONSTANT_INTEGER: add(body, "arith.extui", id, VALUES(argument_value(argument)), "% : i32 to i64"); break;
  case CONSTANT_SPLAT:
    add(body, "arith.bitcast", f, VALUES(argument_value(argument)), "% : i32 to f32");
    operations_add(body, "vector.broadcast", 1, VALUES(id), VALUES(f), "%% : f32 to vector<%dxf32>", o->constant.lanes);
    break;
  case CONSTANT_OFFSET:
    operations_add(body, o->name, o->indent, VALUES(id), VALUES(operation_operand(o, 0), wide_value(argument)),
                   "%%[%%] : (!buffer, i64) -> !buffer, i8");
  }
}

// The body of the first with arguments in place of the numbers that vary.
static void write_body(const Group *g, int n_arguments) {
  Shareable *s = g->of[0];
  KernelFunction *f = s->function;
  Operations body = {0};
  for (int i = 0; i < n_arguments; i++) {
    function_add_argument(f, argument_value(i), "i32");
    add(&body, "arith.extui", wide_value(i), VALUES(argument_value(i)), "% : i32 to i64");
  }
  for (int k = 0, number = 0; k < f->body.n; k++) {
    const Operation *o = &f->body.items[k];
    bool is = number < s->n && s->number[number] == k;
    int divisor = divisor_of(s, o);
    if (is && g->argument[number] >= 0) add_number(o, g->argument[number], &body);
    else if (divisor >= 0 && g->reciprocal[divisor] >= 0) add_division(g, o, divisor, &body);
    else operations_copy(o, &body);
    number += is;
  }
  operations_free(&f->body);
  f->body = body;
}

// The numbers of each launch, and the one function for all.
static void give_numbers(const Group *g, int n_arguments) {
  for (int f = 0; f < g->n; f++) {
    KernelLaunch *l = g->of[f]->launch;
    l->n_numbers = n_arguments;
    l->numbers = allocate_array((size_t)n_arguments + 1, sizeof *l->numbers);
    for (int i = 0; i < g->n_arguments; i++) l->numbers[i] = (int32_t)value_of(g->of[f], g->of_argument[i]);
    for (int i = 0; i < g->of[f]->n; i++)
      if (g->reciprocal[i] >= 0)
        reciprocal(value_of(g->of[f], i), &l->numbers[g->reciprocal[i]], &l->numbers[g->reciprocal[i] + 1]);
  }
  for (int f = 1; f < g->n; f++) {
    free(g->of[f]->launch->symbol);
    g->of[f]->launch->symbol = copy_string(g->of[0]->launch->symbol);
    g->of[f]->function->replaced = true;
  }
}

static void share_group(Shareable *const *of, int n) {
  Group g = {.n = n, .of = of};
  for (int f = 0; f < n; f++)
    if (of[f]->plain.symbol) keep_plain(of[f]);
  choose_arguments(&g);
  int n_arguments = choose_reciprocals(&g);
  give_numbers(&g, n_arguments);
  write_body(&g, n_arguments);
  free(g.argument);
  free(g.of_argument);
  free(g.reciprocal);
}

// ---------------------------------------------------------------------------------------------------------------------

static int by_form(const void *a, const void *b) {
  const Shareable *x = *(Shareable *const *)a, *y = *(Shareable *const *)b;
  int order = strcmp(x->form.data, y->form.data);
  return order ? order : x->order - y->order;
}

static int launched(const EmittedKernels *kernels, const char *symbol) {
  int n = 0;
  for (int i = 0; i < kernels->n; i++)
    for (int j = 0; j < kernels->items[i].n_launches; j++) n += !strcmp(kernels->items[i].launches[j].symbol, symbol);
  return n;
}

// What adds up the parts that an earlier launch of the kernel has left, in so few blocks that it is the memory it waits
// for that counts.
static bool adds_up(const Shareable *s) {
  return s->launch > s->kernel->launches && s->launch->grid[0] * s->launch->grid[1] * s->launch->grid[2] <= FEW_BLOCKS;
}

static void find_form(const EmittedKernels *kernels, Shareable *s, bool all) {
  bool sums = adds_up(s);
  if (sums) {
    make_plain(s);
    text_add(&s->form, "sums ");
  }
  read_form(s);
  // stays as it is; in the second case other launches know it by its name
  if ((!all && !sums) || launched(kernels, s->launch->symbol) > 1) text_add(&s->form, "%d\n", s->order);
}

void gpu_share_kernels(EmittedKernels *kernels, int many, int alike) {
  int n = 0, n_launches = 0;
  for (int i = 0; i < kernels->n; i++) n_launches += kernels->items[i].n_launches;
  Shareable *all = allocate_array((size_t)n_launches + 1, sizeof *all),
            **sorted = allocate_array((size_t)n_launches + 1, sizeof(Shareable *));
  for (int i = 0; i < kernels->n; i++)
    for (int j = 0; j < kernels->items[i].n_launches; j++) {
      EmittedKernel *k = &kernels->items[i];
      KernelFunction *f = functions_find(&k->functions, k->launches[j].symbol);   // NULL: from a template
      if (!f || k->launches[j].n_numbers) continue;
      all[n] = (Shareable){.kernel = k, .launch = &k->launches[j], .function = f, .order = n};
      find_form(kernels, &all[n], n_launches >= many);
      sorted[n] = &all[n];
      n++;
    }
  qsort(sorted, (size_t)n, sizeof *sorted, by_form);
  for (int i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && !strcmp(sorted[i]->form.data, sorted[end]->form.data);) end++;
    if (end - i >= (adds_up(sorted[i]) ? 2 : alike)) share_group(sorted + i, end - i);
  }
  for (int i = 0; i < n; i++) {
    function_free(&all[i].plain);
    free(all[i].number);
    free(all[i].used);
    text_free(&all[i].form);
  }
  free(all);
  free(sorted);
}

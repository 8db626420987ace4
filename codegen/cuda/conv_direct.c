// Convolutions of few channels, a thread per element of the result; and the sum of partial products.
#include <stdio.h>

#include "codegen/cuda/conv.h"
#include "support/integers.h"

#define THREADS 128

// Linear number of this thread; -1 beyond n is excluded by an open scf.if.
static int thread_below(Code *c, int64_t n) {
  int block = code_number(c, GPU_BLOCK_X), thread = code_number(c, GPU_THREAD_X);
  int i = code_op(c, "addi", code_op_with(c, "muli", block, THREADS), thread);
  int inside = code(c, "arith.cmpi", VALUES(i, code_index(c, n)), "ult, %%, %% : i%d", c->p->index_bits);
  if_begin(&c->e, (Value){.id = inside});
  return i;
}

// A rest of the index by an extent, and the index divided by it.
static int next_digit(Code *c, int *index, int64_t extent) {
  int digit = code_op_with(c, "remui", *index, extent);
  *index = code_op_with(c, "divui", *index, extent);
  return digit;
}

// A loop that adds something up: its index, the sum when it begins a turn, and the whole.
typedef struct Sum {
  TypeName type;
  Value so_far;
} Sum;

static int sum_begin(Code *c, Sum *sum, int low, int high) {
  Value zero = emit_constant(&c->e, "0.0 : %s", c->p->element);
  snprintf(sum->type.text, sizeof sum->type.text, "%s", c->p->element);
  return for_begin(&c->e, (Value){.id = low}, (Value){.id = high}, 1, 1, &zero, &sum->type, &sum->so_far).id;
}

static int sum_end(Code *c, const Sum *sum, int next) {
  Value whole = {.id = next};
  for_end(&c->e, 1, &whole, &sum->type, &whole);
  return whole.id;
}

void conv_emit_direct(KernelModule *module, const ConvProduct *p, const char *symbol, EmittedKernel *out) {
  Code code_state, *c = &code_state;
  bool split = p->splits > 1;
  code_begin(c, module, p, symbol, split ? 4 : 3);
  // The fastest index is the one along which the result lies: groups where there is one channel each.
  int64_t total = p->groups * p->m * p->n * p->splits;
  int i = thread_below(c, total), rest = i, group, n, m;
  group = next_digit(c, &rest, p->groups);
  n = next_digit(c, &rest, p->n);
  m = next_digit(c, &rest, p->m);
  int part = rest, low = code_op_with(c, "muli", part, p->split_size);
  int high = code_op(c, "minsi", code_op_with(c, "addi", low, p->split_size), code_index(c, p->k));
  int a_group = code_op_with(c, "muli", group, p->a.group_stride),
      b_group = code_op_with(c, "muli", group, p->b.group_stride);
  CodePlace a = code_place(c, &p->a.outer, m), b = code_place(c, &p->b.outer, n);
  Sum sum;
  int k = sum_begin(c, &sum, low, high);
  CodePlace ak = code_place(c, &p->a.inner, k), bk = code_place(c, &p->b.inner, k);
  int x = code_element(c, &p->a, a_group, &a, &ak, -1), y = code_element(c, &p->b, b_group, &b, &bk, -1);
  int next = code(c, "math.fma", VALUES(x, y, sum.so_far.id), "%%, %%, %% : %s", p->element);
  int whole = sum_end(c, &sum, next);
  if (split) {
    int at = code_op(c, "addi", code_op_with(c, "muli", group, p->m * p->n),
                     code_op(c, "addi", code_op_with(c, "muli", m, p->n), n));
    code_store(c, 3, code_op(c, "addi", at, code_op_with(c, "muli", part, p->groups * p->m * p->n)), whole);
  } else {
    code_store(c, 2, code_result_offset(c, group, m, n), whole);
  }
  if_end(&c->e, 0, NULL, NULL, NULL, NULL);
  emitter_end(&c->e);
  gpu_add_launch(out, symbol, divide_up(total, THREADS), 1, 1, THREADS);
}

void conv_emit_sum(KernelModule *module, const ConvProduct *p, const char *symbol, EmittedKernel *out) {
  Code code_state, *c = &code_state;
  int64_t total = p->groups * p->m * p->n;
  code_begin(c, module, p, symbol, 4);
  int i = thread_below(c, total), rest = i;
  int n = next_digit(c, &rest, p->n), m = next_digit(c, &rest, p->m), group = rest;
  Sum sum;
  int part = sum_begin(c, &sum, code_index(c, 0), code_index(c, p->splits));
  int at = code_op(c, "addi", i, code_op_with(c, "muli", part, total));
  int address = code(c, "llvm.getelementptr", VALUES(c->e.buffer[3], at), "%%[%%] : (!buffer, i%d) -> !buffer, %s",
                     p->index_bits, p->element);
  int v = code(c, "llvm.load", VALUES(address), "%% {alignment = %d : i64} : !buffer -> %s", (int)p->element_bytes,
               p->element);
  int next = code(c, "arith.addf", VALUES(sum.so_far.id, v), "%%, %% : %s", p->element);
  int whole = sum_end(c, &sum, next);
  code_store(c, 2, code_result_offset(c, group, m, n), whole);
  if_end(&c->e, 0, NULL, NULL, NULL, NULL);
  emitter_end(&c->e);
  gpu_add_launch(out, symbol, divide_up(total, THREADS), 1, 1, THREADS);
}

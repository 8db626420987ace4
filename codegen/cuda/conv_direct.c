// Convolutions of few channels, a thread per element of the result; and the sum of partial products.
#include "codegen/cuda/conv.h"
#include "support/text.h"

#define THREADS 128

static void begin(Code *c, const char *symbol, int buffers) {
  text_add(c->text, "func.func @%s(", symbol);
  for (int i = 0; i < buffers; i++) text_add(c->text, "%s%%v%d: !buffer", i ? ", " : "", i);
  text_add(c->text, ") {\n");
  c->next = buffers;
}

// Linear number of this thread; -1 beyond n is excluded by an open scf.if.
static int thread_below(Code *c, int64_t n) {
  int block = code_thread(c, "ctaid.x"), thread = code_thread(c, "tid.x");
  int i = code_op(c, "addi", code_op_with(c, "muli", block, THREADS), thread);
  int inside = code(c, "arith.cmpi ult, %%v%d, %%v%d : %s", i, code_index(c, n), c->p->index);
  code_line(c, "scf.if %%v%d {", inside);
  return i;
}

static int result_offset(Code *c, int group, int m, int n) {
  const ConvProduct *p = c->p;
  int offset = code_op_with(c, "muli", group, p->c_group_stride);
  CodePlace row = code_place(c, &p->c_rows, m), column = code_place(c, &p->c_cols, n);
  if (row.offset >= 0) offset = code_op(c, "addi", offset, row.offset);
  return column.offset >= 0 ? code_op(c, "addi", offset, column.offset) : offset;
}

// A rest of the index by an extent, and the index divided by it.
static int next_digit(Code *c, int *index, int64_t extent) {
  int digit = code_op_with(c, "remui", *index, extent);
  *index = code_op_with(c, "divui", *index, extent);
  return digit;
}

void conv_emit_direct(const ConvProduct *p, const char *symbol, EmittedKernel *out) {
  Code code_state = {.text = &out->text, .p = p}, *c = &code_state;
  bool split = p->splits > 1;
  begin(c, symbol, split ? 4 : 3);
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
  int zero = code(c, "arith.constant 0.0 : %s", p->element), one = code_index(c, 1), k = c->next++, acc = c->next++,
      sum = c->next++;
  code_line(c, "%%v%d = scf.for %%v%d = %%v%d to %%v%d step %%v%d iter_args(%%v%d = %%v%d) -> (%s) : %s {", sum, k, low,
            high, one, acc, zero, p->element, p->index);
  CodePlace ak = code_place(c, &p->a.inner, k), bk = code_place(c, &p->b.inner, k);
  int x = code_element(c, &p->a, a_group, &a, &ak, -1), y = code_element(c, &p->b, b_group, &b, &bk, -1);
  int next = code(c, "math.fma %%v%d, %%v%d, %%v%d : %s", x, y, acc, p->element);
  code_line(c, "scf.yield %%v%d : %s", next, p->element);
  code_line(c, "}");
  if (split) {
    int at = code_op(c, "addi", code_op_with(c, "muli", group, p->m * p->n),
                     code_op(c, "addi", code_op_with(c, "muli", m, p->n), n));
    code_store(c, 3, code_op(c, "addi", at, code_op_with(c, "muli", part, p->groups * p->m * p->n)), sum);
  } else {
    code_store(c, 2, result_offset(c, group, m, n), sum);
  }
  code_line(c, "}");
  text_add(&out->text, "  return\n}\n\n");
  cuda_add_launch(out, symbol, (total + THREADS - 1) / THREADS, 1, 1, THREADS);
}

void conv_emit_sum(const ConvProduct *p, const char *symbol, EmittedKernel *out) {
  Code code_state = {.text = &out->text, .p = p}, *c = &code_state;
  int64_t total = p->groups * p->m * p->n;
  begin(c, symbol, 4);
  int i = thread_below(c, total), rest = i;
  int n = next_digit(c, &rest, p->n), m = next_digit(c, &rest, p->m), group = rest;
  int zero = code(c, "arith.constant 0.0 : %s", p->element), low = code_index(c, 0), high = code_index(c, p->splits),
      one = code_index(c, 1);
  int part = c->next++, acc = c->next++, sum = c->next++;
  code_line(c, "%%v%d = scf.for %%v%d = %%v%d to %%v%d step %%v%d iter_args(%%v%d = %%v%d) -> (%s) : %s {", sum, part,
            low, high, one, acc, zero, p->element, p->index);
  int at = code_op(c, "addi", i, code_op_with(c, "muli", part, total));
  int address = code(c, "llvm.getelementptr %%v3[%%v%d] : (!buffer, %s) -> !buffer, %s", at, p->index, p->element);
  int v = code(c, "llvm.load %%v%d {alignment = %d : i64} : !buffer -> %s", address, (int)p->element_bytes, p->element);
  int next = code(c, "arith.addf %%v%d, %%v%d : %s", acc, v, p->element);
  code_line(c, "scf.yield %%v%d : %s", next, p->element);
  code_line(c, "}");
  code_store(c, 2, result_offset(c, group, m, n), sum);
  code_line(c, "}");
  text_add(&out->text, "  return\n}\n\n");
  cuda_add_launch(out, symbol, (total + THREADS - 1) / THREADS, 1, 1, THREADS);
}

// One launch of a map over many tensors of different sizes. Arguments are the arena and which rows of a table in
// constant memory the launch is about; a block finds its tensor there by bisection (all its threads read the same
// words) and goes through a part of it.
#include <stdlib.h>

#include "codegen/gpu/schedule.h"
#include "codegen/kernel/reduce.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

// MOST_EACH: vectors of a thread
enum { THREADS = 256, WARP = 32, MOST_EACH = 16, ENOUGH_BLOCKS = 2112, CONSTANT_BYTES = 60 * 1024 };

// A row of the table, of words of 64 bits: the elements in the upper half, the first block in the lower, then a word
// for each column. Where all rows of a buffer agree its offset is in the code, and a result in its argument's place has
// that one's column. Large totals have the elements of a part in the last word.
typedef struct GroupEmitter {
  Emitter e;
  const Kernel *k;
  const GroupBody *body;
  int n_columns, *column;   // Owned; by buffer, -1: constant
  int64_t *constant;        // Owned; by buffer
  int space;                // of the table: 4, constant memory, while there is room
  // parameters; last: elements of a block, a multiple of those that its threads make at once, or where the workspace
  // is, in units of NNC_ALIGN bytes
  Value arena, first, count, last;
  int steps;   // of the bisection
} GroupEmitter;

static void group_open(Emitter *e, int n_buffers) {
  (void)n_buffers;
  for (int i = 0; i < 4; i++) e->buffer[i] = emit_argument(e, i ? "i32" : "!buffer");
}

static Value i32(Emitter *e, const char *op, Value a, Value b) { return emit_integers(e, 32, op, a, b); }
static Value i32_with(Emitter *e, const char *op, Value a, int b) { return i32(e, op, a, emit_i32(e, b)); }
static Value to_i64(Emitter *e, Value v) { return emit(e, 0, "arith.extui", VALUES(v.id), "%% : i32 to i64"); }

static int row_words(const GroupEmitter *g) { return 1 + g->n_columns + (g->body->kind == GROUP_LARGE_TOTAL); }

// Word `at` of a row.
static Value word(GroupEmitter *g, Value row, int at) {
  Emitter *e = &g->e;
  Value base = emit(e, 0, "llvm.mlir.addressof", NO_VALUES, "@%s_table : !llvm.ptr<%d>", g->body->name, g->space),
        i = to_i64(e, i32_with(e, "addi", i32_with(e, "muli", row, row_words(g)), at));
  Value address = emit(e, 0, "llvm.getelementptr", VALUES(base.id, i.id),
                       "%%[%%] : (!llvm.ptr<%d>, i64) -> !llvm.ptr<%d>, i64", g->space, g->space);
  return emit(e, 0, "llvm.load", VALUES(address.id), "%% {alignment = 8 : i64} : !llvm.ptr<%d> -> i64", g->space);
}

static Value lower_half(Emitter *e, Value v) { return emit(e, 0, "arith.trunci", VALUES(v.id), "%% : i64 to i32"); }

// The last row whose first block is not past this one.
static Value find_row(GroupEmitter *g, Value block) {
  Emitter *e = &g->e;
  Value row = g->first, last = i32_with(e, "subi", i32(e, "addi", g->first, g->count), 1);
  for (int step = 1 << g->steps; step > 0; step /= 2) {
    Value next = i32(e, "minsi", i32_with(e, "addi", row, step), last), from = lower_half(e, word(g, next, 0));
    Value reached = emit(e, 0, "arith.cmpi", VALUES(from.id, block.id), "sle, %%, %% : i32");
    row = emit(e, 0, "arith.select", VALUES(reached.id, next.id, row.id), "%%, %%, %% : i32");
  }
  return row;
}

static void bind_buffers(GroupEmitter *g, Value row) {
  Emitter *e = &g->e;
  int *of_column = allocate_array((size_t)g->n_columns, sizeof *of_column);
  for (int i = 0; i < g->body->n_buffers; i++) {
    int c = g->column[i];
    if (c >= 0 && of_column[c]) {
      e->buffer[i] = of_column[c];
      continue;
    }
    Value offset = c < 0 ? emit_i64(e, g->constant[i]) : word(g, row, 1 + c);
    e->buffer[i] =
        emit(e, 0, "llvm.getelementptr", VALUES(g->arena.id, offset.id), "%%[%%] : (!buffer, i64) -> !buffer, i8").id;
    if (c >= 0) of_column[c] = e->buffer[i];
  }
  free(of_column);
}

// The block's part of a tensor of n elements: vectors, then what is left at the end of the last part, an element a
// thread.
static void emit_part(GroupEmitter *g, Value start, Value n, Value tid, int lanes) {
  Emitter *e = &g->e;
  e->vector_group = 0;
  Value end = emit_index(e, "minsi", emit_index(e, "addi", start, to_i64(e, g->last)), n),
        rest = emit_index_with(e, "remui", n, lanes);
  Value whole = emit_index(e, "subi", n, rest), to = emit_index(e, "minsi", end, whole);
  Value at = for_begin(e, emit_index(e, "addi", start, emit_index_with(e, "muli", tid, lanes)), to,
                       (int64_t)THREADS * lanes, 0, NULL, NULL, NULL);
  e->vector_index[0] = at.id;
  e->index_depth[0] = e->depth;
  kernel_emit_point(e);
  for_end(e, 0, NULL, NULL, NULL);
  if (lanes == 1) return;
  schedule_forget(e, 1);
  Value own = emit_index(e, "addi", whole, tid), within = emit_index_compare(e, "slt", own, end);
  if_begin(e, within);
  e->vector_index[0] = own.id;
  e->index_depth[0] = 0;
  kernel_emit_point(e);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

// The sum of a tensor's elements from `start` to `end`: each thread's own, vectors first.
static Value sum_elements(GroupEmitter *g, const Unit *u, Value start, Value end, Value tid, int lanes) {
  Emitter *e = &g->e;
  IndexMap domain = index_map_domain(g->k);
  e->vector_group = 0;
  Value count = emit_index(e, "subi", end, start),
        whole = emit_index(e, "subi", end, emit_index_with(e, "remui", count, lanes));
  Value x = reduce_identity(e, u);
  for (int pass = lanes > 1 ? 0 : 1; pass < 2; pass++) {
    int n = pass ? 1 : lanes;
    if (pass && lanes > 1) {
      x = emit_take_lanes(e, emit_horizontal(e, NN_OP_add, u->dtype, x), element_type(u->dtype), lanes, 0, 1, 1);
      schedule_forget(e, 1);
    }
    TypeName type = vector_type(e, u->dtype);
    Value arg, at = emit_index(e, "addi", pass && lanes > 1 ? whole : start, emit_index_with(e, "muli", tid, n));
    x.varies = true;
    at = for_begin(e, at, pass ? end : whole, (int64_t)THREADS * n, 1, &x, &type, &arg);
    e->vector_index[0] = at.id;
    e->index_depth[0] = e->depth;
    Value sum = reduce_combine(e, u, arg, expression(e, u->operand, &domain));
    for_end(e, 1, &sum, &type, &x);
  }
  return x;
}

static Value element_address(Emitter *e, const char *pointer, Value base, Value i, NnDtype dtype) {
  return emit(e, e->depth, "llvm.getelementptr", VALUES(base.id, i.id), "%%[%%] : (%s, i64) -> %s, %s", pointer,
              pointer, element_type(dtype));
}

static Value load_element(Emitter *e, const char *pointer, Value base, Value i, NnDtype dtype) {
  return emit(e, e->depth, "llvm.load", VALUES(element_address(e, pointer, base, i, dtype).id),
              "%% {alignment = %d : i64} : %s -> %s", (int)nn_dtype_bytes(dtype), pointer, vector_type(e, dtype).text);
}

static void store_element(Emitter *e, const char *pointer, Value base, Value i, NnDtype dtype, Value x) {
  emit_effect(e, "llvm.store", VALUES(x.id, element_address(e, pointer, base, i, dtype).id),
              "%%, %% {alignment = %d : i64} : %s, %s", (int)nn_dtype_bytes(dtype), vector_type(e, dtype).text,
              pointer);
}

// Of what each thread of the block has: the warps by shuffles, then their sums from shared memory.
static Value block_sum(GroupEmitter *g, const Unit *u, Value x, Value tid) {
  Emitter *e = &g->e;
  for (int distance = WARP / 2; distance > 0; distance /= 2)
    x = reduce_combine(e, u, x, schedule_shuffle_xor(e, u->dtype, x, distance));
  Value base = emit(e, 0, "llvm.mlir.addressof", NO_VALUES, "$_shared : !llvm.ptr<3>"),
        warp = emit_index_with(e, "divui", tid, WARP);
  if_begin(e, emit_index_compare_with(e, "eq", emit_index_with(e, "remui", tid, WARP), 0));
  store_element(e, "!llvm.ptr<3>", base, warp, u->dtype, x);
  if_end(e, 0, NULL, NULL, NULL, NULL);
  schedule_barrier(e);
  for (int i = 0; i < THREADS / WARP; i++) {
    Value other = load_element(e, "!llvm.ptr<3>", base, emit_i64(e, i), u->dtype);
    x = i ? reduce_combine(e, u, x, other) : other;
  }
  x.varies = false;
  return x;
}

static void store_total(GroupEmitter *g, Reduce *r, Value x, Value tid) {
  Emitter *e = &g->e;
  IndexMap kept = index_map_kept(g->k);
  if_begin(e, emit_index_compare_with(e, "eq", tid, 0));
  reduce_bind(e, &r->units[0], &kept, x);
  kernel_emit_kept_results(e, 1);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

// One block sums a tensor.
static void emit_total(GroupEmitter *g, Value n, Value tid, int lanes) {
  Emitter *e = &g->e;
  Reduce r;
  reduce_plan_values(g->k, 1, &r);
  block_begin(e);
  store_total(g, &r, block_sum(g, &r.units[0], sum_elements(g, &r.units[0], emit_i64(e, 0), n, tid, lanes), tid), tid);
  block_end(e);
}

static Value partial_sums(GroupEmitter *g) {
  Emitter *e = &g->e;
  Value offset = emit_index_with(e, "muli", to_i64(e, g->last), NNC_ALIGN);
  return emit(e, 0, "llvm.getelementptr", VALUES(g->arena.id, offset.id), "%%[%%] : (!buffer, i64) -> !buffer, i8");
}

// A block sums a part of a large tensor. Partial sums lie in the order of the blocks.
static void emit_partial(GroupEmitter *g, Value row, Value block, Value within, Value n, Value tid, int lanes) {
  Emitter *e = &g->e;
  Reduce r;
  reduce_plan_values(g->k, 1, &r);
  const Unit *u = &r.units[0];
  Value part = word(g, row, row_words(g) - 1), sums = partial_sums(g),
        start = emit_index(e, "muli", to_i64(e, within), part),
        end = emit_index(e, "minsi", emit_index(e, "addi", start, part), n);
  block_begin(e);
  Value x = block_sum(g, u, sum_elements(g, u, start, end, tid, lanes), tid);
  if_begin(e, emit_index_compare_with(e, "eq", tid, 0));
  store_element(e, "!buffer", sums, to_i64(e, block), u->dtype, x);
  if_end(e, 0, NULL, NULL, NULL, NULL);
  block_end(e);
}

// The second launch: a block adds up the partial sums of a tensor.
static void emit_sum_of_partials(GroupEmitter *g) {
  Emitter *e = &g->e;
  Reduce r;
  reduce_plan_values(g->k, 1, &r);
  const Unit *u = &r.units[0];
  Value block = schedule_number32(e, GPU_BLOCK_X), row = i32(e, "addi", g->first, block), head = word(g, row, 0),
        part = word(g, row, row_words(g) - 1);
  Value from = to_i64(e, lower_half(e, head)), n = emit_index_with(e, "shrui", head, 32),
        tid = schedule_number(e, GPU_THREAD_X), sums = partial_sums(g);
  Value blocks = emit_index(e, "divui", emit_index(e, "addi", n, emit_index_with(e, "subi", part, 1)), part),
        to = emit_index(e, "addi", from, blocks);
  bind_buffers(g, row);
  block_begin(e);
  TypeName type = vector_type(e, u->dtype);
  Value x = reduce_identity(e, u), arg;
  x.varies = true;
  Value at = for_begin(e, emit_index(e, "addi", from, tid), to, THREADS, 1, &x, &type, &arg),
        sum = reduce_combine(e, u, arg, load_element(e, "!buffer", sums, at, u->dtype));
  for_end(e, 1, &sum, &type, &x);
  store_total(g, &r, block_sum(g, u, x, tid), tid);
  block_end(e);
}

// A sum of f32 or f64 over everything.
bool schedule_is_total(const Kernel *k) {
  if (k->kind != KERNEL_ROW && k->kind != KERNEL_COLUMN) return false;
  for (int a = 0; a < k->domain.rank; a++)
    if (!k->reduced[a]) return false;
  Reduce r;
  reduce_plan_values(k, 1, &r);
  bool wide = r.n_units == 1 && (r.units[0].dtype == NN_F32 || r.units[0].dtype == NN_F64);
  return wide && r.units[0].kind == UNIT_SUM && !r.has_domain_result && k->n_results == 1;
}

static int group_lanes(const Kernel *k) {
  Nest nest;
  nest_build(k, &nest);
  nest.extent[0] = 1024;   // the tensors have all sizes: what is left at their ends is made element by element
  return schedule_map_lanes(k, &nest);
}

// ---------------------------------------------------------------------------------------------------------------------
// Tables and launches

// Elements of a block: fewer where that leaves too few blocks for a GPU.
static int64_t part_of(const KernelGroup *g, int lanes) {
  int64_t sum = 0, least = (int64_t)THREADS * lanes, each;
  for (int i = 0; i < g->n; i++) sum += g->elements[i];
  for (each = 1; each < MOST_EACH && divide_up(sum, 2 * each * least) >= ENOUGH_BLOCKS;) each *= 2;
  return each * least;
}

// takes symbol
static void add_launch(EmittedKernel *out, char *symbol, const KernelGroup *g, int64_t blocks, int first,
                       int64_t last) {
  schedule_launch(out, symbol, blocks, THREADS, 1);
  KernelLaunch *l = &out->launches[out->n_launches - 1];
  l->n_numbers = 3;
  l->numbers = allocate_array(3, sizeof *l->numbers);
  l->numbers[0] = first;
  l->numbers[1] = g->n;
  l->numbers[2] = (int32_t)last;
}

static int64_t offset_at(const KernelGroups *groups, const KernelGroup *g, int row, int buffer) {
  return g->offsets[row * groups->bodies[g->body].n_buffers + buffer];
}

// Buffer a is where b is in all rows; b -1: where it is in the first.
static bool agree(const KernelGroups *groups, int body, int a, int b) {
  const KernelGroup *first = NULL;
  for (int i = 0; i < groups->n; i++) {
    const KernelGroup *g = &groups->items[i];
    if (g->body != body) continue;
    if (!first) first = g;
    for (int c = 0; c < g->n; c++)
      if (offset_at(groups, g, c, a) != (b < 0 ? offset_at(groups, first, 0, a) : offset_at(groups, g, c, b)))
        return false;
  }
  return true;
}

static void choose_columns(GroupEmitter *g, const KernelGroups *groups, int body) {
  int n = g->body->n_buffers;
  g->column = allocate_array((size_t)n, sizeof *g->column);
  g->constant = allocate_array((size_t)n, sizeof *g->constant);
  for (int i = 0; i < n; i++) {
    g->column[i] = -1;
    if (agree(groups, body, i, -1)) {
      for (int j = groups->n - 1; j >= 0; j--)
        if (groups->items[j].body == body) g->constant[i] = offset_at(groups, &groups->items[j], 0, i);
      continue;
    }
    for (int j = 0; j < i && g->column[i] < 0; j++)
      if (g->column[j] >= 0 && agree(groups, body, i, j)) g->column[i] = g->column[j];
    if (g->column[i] < 0) g->column[i] = g->n_columns++;
  }
}

static void add_row(GroupEmitter *g, const KernelGroups *groups, const KernelGroup *group, int row, int64_t block,
                    Text *table) {
  text_add(table, "%s%lld", table->size ? ", " : "", (long long)(group->elements[row] << 32 | block));
  for (int c = 0, i = 0; c < g->n_columns; c++) {
    while (g->column[i] != c) i++;
    text_add(table, ", %lld", (long long)offset_at(groups, group, row, i));
  }
  if (g->body->kind == GROUP_LARGE_TOTAL) text_add(table, ", %lld", (long long)gpu_total_part(group->elements[row]));
}

// The rows of all groups of the body; the launch of each, with a line of the comment.
static void add_groups(GroupEmitter *e, const KernelGroups *groups, int body, int lanes, Text *table, Text *comment,
                       EmittedKernel *out) {
  int first = 0;
  for (int i = 0; i < groups->n; i++) {
    KernelGroup *g = &groups->items[i];
    if (g->body != body) continue;
    int64_t blocks = 0, elements = 0, part = part_of(g, lanes);
    for (int c = 0; c < g->n; c++) {
      add_row(e, groups, g, c, blocks, table);
      blocks += e->body->kind == GROUP_TOTAL
                    ? 1
                    : divide_up(g->elements[c], e->body->kind == GROUP_MAP ? part : gpu_total_part(g->elements[c]));
      elements += g->elements[c];
    }
    g->launch = out->n_launches;
    text_add(comment, "// launch %d: %d tensors of %lld elements together, grid %lld x %d threads, ", out->n_launches,
             g->n, (long long)elements, (long long)blocks, THREADS);
    if (e->body->kind == GROUP_MAP)
      text_add(comment, "%lld elements a block, %d a thread at once\n", (long long)part, lanes);
    else if (e->body->kind == GROUP_TOTAL) text_add(comment, "a block for each\n");
    else
      text_add(comment, "a block for each part, and launch %d, grid %d x %d threads, for their sums\n",
               out->n_launches + 1, g->n, THREADS);
    bool large = e->body->kind == GROUP_LARGE_TOTAL;
    add_launch(out, copy_string(e->body->name), g, blocks, first, large ? g->workspace / NNC_ALIGN : part);
    if (large) add_launch(out, text_format("%s_sums", e->body->name), g, g->n, first, g->workspace / NNC_ALIGN);
    first += g->n;
  }
}

static void add_types(Text *t, const Kernel *k, const NnType *types, int n) {
  for (int i = 0; i < n; i++)
    text_add(t, "%s%s%s", i ? ", " : "", nn_dtype_name(types[i].dtype),
             nn_type_elements(&types[i]) == nn_type_elements(&k->domain) ? "[n]" : "");
}

static void place_table(GroupEmitter *g, GpuModule *m) {
  int64_t bytes = 8 * (int64_t)g->body->n_rows * row_words(g);
  g->space = m->constant_bytes + bytes <= CONSTANT_BYTES ? 4 : 1;
  if (g->space == 4) m->constant_bytes += bytes;
}

static void begin_group(GroupEmitter *g, GpuModule *m, const char *symbol, int lanes, const Text *table) {
  void (*open)(Emitter *, int) = m->m.target.open;
  Emitter *e = &g->e;
  m->m.target.open = group_open;
  schedule_begin(e, m, g->k, symbol, g->body->n_buffers + 4);
  m->m.target.open = open;
  if (table)
    function_add_table(&e->function, "_table", g->space, (int64_t)g->body->n_rows * row_words(g), text_c_string(table));
  if (g->body->kind != GROUP_MAP) function_add_array(&e->function, "_shared", 3, THREADS / WARP * 8, "i8");
  Value *arguments[] = {&g->arena, &g->first, &g->count, &g->last};
  for (int i = 0; i < 4; i++) *arguments[i] = (Value){.id = e->buffer[i]};
  schedule_forget(e, lanes);
}

// A block finds its tensor, and does its part of it.
static void emit_group(GroupEmitter *g, GpuModule *m, int lanes, const Text *table) {
  begin_group(g, m, g->body->name, lanes, table);
  Emitter *e = &g->e;
  Value block = schedule_number32(e, GPU_BLOCK_X), row = find_row(g, block), head = word(g, row, 0);
  Value within = i32(e, "subi", block, lower_half(e, head)), n = emit_index_with(e, "shrui", head, 32),
        tid = schedule_number(e, GPU_THREAD_X);
  bind_buffers(g, row);
  switch (g->body->kind) {
  case GROUP_MAP: emit_part(g, emit_index(e, "muli", to_i64(e, within), to_i64(e, g->last)), n, tid, lanes); break;
  case GROUP_TOTAL: emit_total(g, n, tid, lanes); break;
  case GROUP_LARGE_TOTAL: emit_partial(g, row, block, within, n, tid, lanes); break;
  }
  emitter_end(e);
  if (g->body->kind != GROUP_LARGE_TOTAL) return;
  char *symbol = text_format("%s_sums", g->body->name);
  begin_group(g, m, symbol, 1, NULL);
  emit_sum_of_partials(g);
  emitter_end(e);
  free(symbol);
}

void schedule_group(GpuModule *m, const KernelGroups *groups, int number, const Kernel *k, EmittedKernel *out) {
  GroupEmitter g = {.k = k, .body = &groups->bodies[number]};
  Text table = {0}, comment = {0}, *t = &m->m.comment;
  int lanes = group_lanes(k), most = 0;
  choose_columns(&g, groups, number);
  add_groups(&g, groups, number, lanes, &table, &comment, out);
  for (int i = 0; i < out->n_launches; i++)
    if (out->launches[i].numbers[1] > most) most = out->launches[i].numbers[1];
  while (2 << g.steps < most) g.steps++;
  text_add(t, "// %s (%s over many tensors): %s\n// reads ", g.body->name, k->kind == KERNEL_MAP ? "map" : "sum",
           out->summary);
  add_types(t, k, k->arg, k->n_args);
  text_add(t, "; writes ");
  add_types(t, k, k->result_type, k->n_results);
  text_add(t, "\n%s", text_c_string(&comment));
  kernel_comment_again(t, k->func);
  place_table(&g, m);
  bool *aligned = allocate_array((size_t)g.body->n_buffers, sizeof *aligned);
  for (int i = 0; i < g.body->n_buffers; i++)
    aligned[i] = nn_type_elements(i < k->n_args ? &k->arg[i] : &k->result_type[i - k->n_args]) ==
                 nn_type_elements(&k->domain);
  m->aligned = aligned;
  emit_group(&g, m, lanes, &table);
  m->aligned = NULL;
  free(aligned);
  free(g.column);
  free(g.constant);
  text_free(&table);
  text_free(&comment);
}

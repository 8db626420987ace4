// Kernels of what goes along an axis. Parameters: the buffers of NncRows in its order, the workspace if there is one.
// Where rows lie side by side (`inner`) a thread goes along a column. Else a block has a row: it scans tiles of as many
// elements as it has threads (Hillis, Steele: Data parallel algorithms, 1986) and carries the last one on; sorts by a
// bitonic network whose comparisons all go upwards (Batcher, 1968), so that what is missing to a power of two needs no
// place; adds by indices as the owner of every 256th element, in the order of the indices.
#include "codegen/cuda/template/template.h"
#include "support/integers.h"

enum { THREADS = 256, SORT_THREADS = 512, COLUMNS = 32, SHORT = 32, SHARED_WORDS = 4096 };

typedef struct Rows {
  Build b;
  const NncRows *r;
  LLVMTypeRef type;    // of the first operand
  int bytes;           // of one
  Val outer, column;   // i64
} Rows;

static bool is_wide(NncDtype t) { return t == NNC_F64 || t == NNC_I64; }
static bool is_float(NncDtype t) { return t == NNC_F32 || t == NNC_F64; }
static bool takes_two(const NncRows *r) { return r->kind == NNC_ROWS_RECURRENCE; }
static bool is_sort(const NncRows *r) { return r->kind == NNC_ROWS_ARGSORT; }
static bool is_scan(const NncRows *r) { return r->kind <= NNC_ROWS_RECURRENCE; }
static int64_t row_count(const NncRows *r) { return r->outer * r->inner; }

static bool by_column(const NncRows *r) {
  if (r->kind == NNC_ROWS_SCATTER) return r->inner >= COLUMNS;
  return is_scan(r) && (r->inner > 1 || r->length <= SHORT);
}

// Keys of 32 bits and indices are words that short rows have in shared memory.
static bool in_shared(const NncRows *r) { return !is_wide(r->dtype) && r->length <= SHARED_WORDS; }

int64_t rows_template_workspace(const NncRows *r) {
  if (!is_sort(r) || in_shared(r)) return 0;
  return row_count(r) * r->length * (is_wide(r->dtype) ? 12 : 8);
}

const char *rows_template_schedule(const NncRows *r) {
  return r->kind == NNC_ROWS_TAKE     ? "a thread for each element"
         : by_column(r)               ? "a thread for each row"
         : is_sort(r) && in_shared(r) ? "a block for each row, in shared memory"
                                      : "a block for each row";
}

void rows_template_launch(const NncRows *r, TemplateLaunch *l) {
  int64_t threads = is_sort(r) ? SORT_THREADS : THREADS,
          items = r->kind == NNC_ROWS_TAKE ? r->outer * r->count * r->inner : row_count(r);
  bool one_each = r->kind == NNC_ROWS_TAKE || by_column(r);
  *l = (TemplateLaunch){.grid = {one_each ? divide_up(items, threads) : items, 1, 1}, .threads = (int)threads};
  if (is_sort(r) && in_shared(r)) l->shared_bytes = (int)(8 * r->length);
  if (is_scan(r) && !one_each) l->shared_bytes = 2 * 8 * THREADS;
}

// ---------------------------------------------------------------------------------------------------------------------

static int bytes_of(NncDtype t) {
  return is_wide(t) ? 8 : t == NNC_F32 || t == NNC_I32 ? 4 : t == NNC_BF16 || t == NNC_F16 ? 2 : 1;
}

static Val constant(Build *b, int64_t x) { return build_i64_constant(b, x); }
static Val place(Build *b, Val base, Val i, int bytes) {
  return build_offset(b, base, build_mul(b, i, constant(b, bytes)));
}
static Val load(Rows *w, Val base, Val i) {
  return build_load(&w->b, w->type, place(&w->b, base, i, w->bytes), w->bytes);
}

// Element t of the row, of `length`, as its place in the buffer.
static Val at(Rows *w, int64_t length, Val t) {
  Build *b = &w->b;
  Val row = build_mul(b, w->outer, constant(b, length * w->r->inner));
  return build_add(b, build_add(b, row, build_mul(b, t, constant(b, w->r->inner))), w->column);
}

static void find_row(Rows *w, Val row) {
  w->outer = build_div(&w->b, row, w->r->inner);
  w->column = build_mod(&w->b, row, w->r->inner);
}

static Val load_index(Rows *w, Val indices, Val i) {
  Build *b = &w->b;
  int bytes = bytes_of(w->r->index);
  return build_i64(b, build_load(b, build_dtype(b, w->r->index), place(b, indices, i, bytes), bytes));
}

static Val plus(Rows *w, Val x, Val y) {
  return is_float(w->r->dtype) ? LLVMBuildFAdd(w->b.builder, x, y, "") : build_add(&w->b, x, y);
}

static Val times(Rows *w, Val x, Val y) {
  return is_float(w->r->dtype) ? LLVMBuildFMul(w->b.builder, x, y, "") : build_mul(&w->b, x, y);
}

// ---------------------------------------------------------------------------------------------------------------------
// Scans: what some elements are together; of a maximum also where it is, of a recurrence also its factor

typedef struct State {
  Val value, second;
} State;

static bool has_second(const NncRows *r) { return r->kind >= NNC_ROWS_ARGMAX; }
static bool is_extreme(const NncRows *r) { return r->kind == NNC_ROWS_ARGMAX || r->kind == NNC_ROWS_ARGMIN; }

// The last of equal ones wins; a NaN wins over all others.
static Val wins(Rows *w, Val later, Val earlier) {
  Build *b = &w->b;
  bool most = w->r->kind == NNC_ROWS_ARGMAX;
  if (!is_float(w->r->dtype)) return LLVMBuildICmp(b->builder, most ? LLVMIntSGE : LLVMIntSLE, later, earlier, "");
  Val better = LLVMBuildFCmp(b->builder, most ? LLVMRealOGE : LLVMRealOLE, later, earlier, ""),
      nan = LLVMBuildFCmp(b->builder, LLVMRealUNO, later, later, "");
  return build_or(b, better, nan);   // an earlier NaN is never below, and a later number never above it
}

static State joined(Rows *w, State earlier, State later) {
  Build *b = &w->b;
  switch (w->r->kind) {
  case NNC_ROWS_SUM: return (State){plus(w, earlier.value, later.value), NULL};
  case NNC_ROWS_PRODUCT: return (State){times(w, earlier.value, later.value), NULL};
  case NNC_ROWS_RECURRENCE:
    return (State){plus(w, times(w, later.second, earlier.value), later.value), times(w, later.second, earlier.second)};
  default: {
    Val later_wins = wins(w, later.value, earlier.value);
    return (State){build_select(b, later_wins, later.value, earlier.value),
                   build_select(b, later_wins, later.second, earlier.second)};
  }
  }
}

static Val along(Rows *w, Val t) { return w->r->backward ? build_sub(&w->b, constant(&w->b, w->r->length - 1), t) : t; }

static State element(Rows *w, Val x, Val added, Val t) {
  Val i = at(w, w->r->length, along(w, t)), v = load(w, x, i);
  if (takes_two(w->r)) return (State){load(w, added, i), v};
  return (State){v, is_extreme(w->r) ? LLVMBuildTrunc(w->b.builder, along(w, t), w->b.i32, "") : NULL};
}

static void put(Rows *w, Val y, Val t, State s) {
  Build *b = &w->b;
  Val i = at(w, w->r->length, along(w, t));
  if (is_extreme(w->r)) build_store(b, s.second, place(b, y, i, 4), 4);
  else build_store(b, s.value, place(b, y, i, w->bytes), w->bytes);
}

static LLVMTypeRef second_type(Rows *w) { return is_extreme(w->r) ? w->b.i32 : w->type; }

static void scan_column(Rows *w, Val x, Val added, Val y) {
  Build *b = &w->b;
  Branch inside;
  Val row = build_i64(b, build_thread_number(b, THREADS));
  build_if(b, &inside, build_less(b, row, constant(b, row_count(w->r))));
  find_row(w, row);
  State first = element(w, x, added, constant(b, 0));
  put(w, y, constant(b, 0), first);
  Var value = build_var(b, w->type, first.value), second = {0};
  if (has_second(w->r)) second = build_var(b, second_type(w), first.second);
  Loop loop;
  Val t = build_i64(b, build_loop(b, &loop, build_i32(b, 1), build_i32(b, w->r->length), 1));
  State before = {build_get(b, value), has_second(w->r) ? build_get(b, second) : NULL},
        now = joined(w, before, element(w, x, added, t));
  put(w, y, t, now);
  build_set(b, value, now.value);
  if (has_second(w->r)) build_set(b, second, now.second);
  build_loop_end(b, &loop);
  build_if_end(b, &inside);
}

static void share(Rows *w, Val base, Val i, State s) {
  Build *b = &w->b;
  build_store(b, s.value, place(b, base, i, 8), 8);
  if (has_second(w->r)) build_store(b, s.second, build_offset(b, place(b, base, i, 8), build_i32(b, 8 * THREADS)), 8);
}

static State shared_state(Rows *w, Val base, Val i) {
  Build *b = &w->b;
  Val p = place(b, base, i, 8);
  return (State){build_load(b, w->type, p, 8),
                 has_second(w->r) ? build_load(b, second_type(w), build_offset(b, p, build_i32(b, 8 * THREADS)), 8)
                                  : NULL};
}

// A branch that changes a state.
static void join_if(Rows *w, Val condition, Var value, Var second, State earlier, State later) {
  Build *b = &w->b;
  State both = joined(w, earlier, later);
  build_set(b, value, build_select(b, condition, both.value, later.value));
  if (has_second(w->r)) build_set(b, second, build_select(b, condition, both.second, later.second));
}

static void scan_row(Rows *w, Val x, Val added, Val y) {
  Build *b = &w->b;
  Val base = build_shared_base(b), tid = build_i64(b, b->tid), last = constant(b, w->r->length - 1);
  find_row(w, build_i64(b, build_block_id(b, 'x')));
  Var value = build_var(b, w->type, NULL), second = {0}, carried = build_var(b, w->type, LLVMConstNull(w->type)),
      carried_second = {0};
  if (has_second(w->r)) {
    second = build_var(b, second_type(w), NULL);
    carried_second = build_var(b, second_type(w), LLVMConstNull(second_type(w)));
  }
  Loop loop;
  Val from = build_i64(b, build_loop(b, &loop, build_i32(b, 0), build_i32(b, w->r->length), THREADS)),
      t = build_add(b, from, tid), inside = build_less(b, t, constant(b, w->r->length));
  State mine = element(w, x, added, build_select(b, inside, t, last));
  build_set(b, value, mine.value);
  if (has_second(w->r)) build_set(b, second, mine.second);
  for (int distance = 1; distance < THREADS; distance *= 2) {
    State now = {build_get(b, value), has_second(w->r) ? build_get(b, second) : NULL};
    build_barrier(b);   // what was there has been read
    share(w, base, tid, now);
    build_barrier(b);
    Val has = build_less(b, constant(b, distance - 1), tid);
    Val other = build_select(b, has, build_sub(b, tid, constant(b, distance)), tid);
    join_if(w, has, value, second, shared_state(w, base, other), now);
  }
  State before = {build_get(b, carried), has_second(w->r) ? build_get(b, carried_second) : NULL},
        now = {build_get(b, value), has_second(w->r) ? build_get(b, second) : NULL};
  join_if(w, build_less(b, constant(b, 0), from), value, second, before, now);
  now = (State){build_get(b, value), has_second(w->r) ? build_get(b, second) : NULL};
  Branch store;
  build_if(b, &store, inside);
  put(w, y, t, now);
  build_if_end(b, &store);
  build_barrier(b);
  share(w, base, tid, now);
  build_barrier(b);
  State end = shared_state(w, base, constant(b, THREADS - 1));
  build_set(b, carried, end.value);
  if (has_second(w->r)) build_set(b, carried_second, end.second);
  build_loop_end(b, &loop);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sorting

// An unsigned integer of the same order: NaN is the largest, -0 is 0.
static Val key_of(Rows *w, Val x) {
  Build *b = &w->b;
  bool wide = is_wide(w->r->dtype);
  LLVMTypeRef type = wide ? b->i64 : b->i32;
  Val sign = LLVMConstInt(type, wide ? (uint64_t)1 << 63 : (uint64_t)1 << 31, false), ones = LLVMConstAllOnes(type),
      key;
  if (is_float(w->r->dtype)) {
    Val zero = LLVMConstReal(w->type, 0), is_zero = LLVMBuildFCmp(b->builder, LLVMRealOEQ, x, zero, ""),
        nan = LLVMBuildFCmp(b->builder, LLVMRealUNO, x, x, ""),
        bits = LLVMBuildBitCast(b->builder, build_select(b, is_zero, zero, x), type, ""),
        filled = LLVMBuildAShr(b->builder, bits, LLVMConstInt(type, wide ? 63 : 31, false), "");
    key = build_select(b, nan, ones, build_xor(b, bits, build_or(b, filled, sign)));
  } else {
    key = build_xor(b, x, sign);
  }
  return w->r->backward ? build_xor(b, key, ones) : key;
}

typedef struct Network {
  Rows *w;
  Val keys, indices;   // of the row; indices NULL: keys are words with the index below
} Network;

static Val word_at(Network *n, Val i) { return build_load(&n->w->b, n->w->b.i64, place(&n->w->b, n->keys, i, 8), 8); }
static Val index_at(Network *n, Val i) {
  return build_load(&n->w->b, n->w->b.i32, place(&n->w->b, n->indices, i, 4), 4);
}

static void set_at(Network *n, Val i, Val key, Val index) {
  build_store(&n->w->b, key, place(&n->w->b, n->keys, i, 8), 8);
  if (n->indices) build_store(&n->w->b, index, place(&n->w->b, n->indices, i, 4), 4);
}

// i < j: the smaller one comes to i.
static void compare(Network *n, Val i, Val j) {
  Build *b = &n->w->b;
  Branch there, swap;
  build_if(b, &there, build_less(b, j, constant(b, n->w->r->length)));
  Val x = word_at(n, i), y = word_at(n, j), p = NULL, q = NULL, above = LLVMBuildICmp(b->builder, LLVMIntUGT, x, y, "");
  if (n->indices) {
    p = index_at(n, i), q = index_at(n, j);
    above = build_or(b, above, build_and(b, build_equal(b, x, y), build_less(b, q, p)));
  }
  build_if(b, &swap, above);
  set_at(n, i, y, q);
  set_at(n, j, x, p);
  build_if_end(b, &swap);
  build_if_end(b, &there);
}

// All pairs of one step: the two halves of `size` elements face to face, or `size` apart.
static void step(Network *n, int64_t pairs, int64_t size, bool flips) {
  Build *b = &n->w->b;
  Loop loop;
  build_barrier(b);
  Val p = build_add(b, build_i64(b, build_loop(b, &loop, build_i32(b, 0), build_i32(b, pairs), SORT_THREADS)),
                    build_i64(b, b->tid));
  int64_t half = flips ? size / 2 : size;
  Val within = build_mod(b, p, half), block = build_mul(b, build_div(b, p, half), constant(b, 2 * half)),
      i = build_add(b, block, within),
      j = flips ? build_sub(b, build_add(b, block, constant(b, size - 1)), within) : build_add(b, i, constant(b, half));
  compare(n, i, j);
  build_loop_end(b, &loop);
}

static void sort_row(Rows *w, Val x, Val y, Val space) {
  Build *b = &w->b;
  int64_t length = w->r->length, power = 1;
  bool wide = is_wide(w->r->dtype), shared = in_shared(w->r);
  Val row = build_i64(b, build_block_id(b, 'x')), tid = build_i64(b, b->tid);
  find_row(w, row);
  Network n = {.w = w,
               .keys = shared ? build_shared_base(b)
                              : build_offset(b, space, build_mul(b, row, constant(b, 8 * length)))};
  if (wide)
    n.indices = build_offset(b, space,
                             build_add(b, constant(b, 8 * length * row_count(w->r)),
                                       build_mul(b, row, constant(b, 4 * length))));
  Loop loop;
  Branch inside;
  Val i = build_add(b, build_i64(b, build_loop(b, &loop, build_i32(b, 0), build_i32(b, length), SORT_THREADS)), tid);
  build_if(b, &inside, build_less(b, i, constant(b, length)));
  Val key = key_of(w, load(w, x, at(w, length, i)));
  if (!wide)
    key = build_or(b, LLVMBuildShl(b->builder, LLVMBuildZExt(b->builder, key, b->i64, ""), constant(b, 32), ""), i);
  set_at(&n, i, key, LLVMBuildTrunc(b->builder, i, b->i32, ""));
  build_if_end(b, &inside);
  build_loop_end(b, &loop);
  while (power < length) power *= 2;
  for (int64_t size = 2; size <= power; size *= 2) {
    step(&n, power / 2, size, true);
    for (int64_t distance = size / 4; distance > 0; distance /= 2) step(&n, power / 2, distance, false);
  }
  build_barrier(b);
  i = build_add(b, build_i64(b, build_loop(b, &loop, build_i32(b, 0), build_i32(b, w->r->count), SORT_THREADS)), tid);
  build_if(b, &inside, build_less(b, i, constant(b, w->r->count)));
  Val index = wide ? index_at(&n, i) : LLVMBuildTrunc(b->builder, word_at(&n, i), b->i32, "");
  build_store(b, index, place(b, y, at(w, w->r->count, i), 4), 4);
  build_if_end(b, &inside);
  build_loop_end(b, &loop);
}

// ---------------------------------------------------------------------------------------------------------------------
// Elements by indices

static void take(Rows *w, Val x, Val indices, Val y) {
  Build *b = &w->b;
  const NncRows *r = w->r;
  Branch inside;
  Val i = build_i64(b, build_thread_number(b, THREADS));
  build_if(b, &inside, build_less(b, i, constant(b, r->outer * r->count * r->inner)));
  w->column = build_mod(b, i, r->inner);
  w->outer = build_div(b, i, r->count * r->inner);
  Val from = build_max(b, build_min(b, load_index(w, indices, i), constant(b, r->length - 1)), constant(b, 0));
  build_store(b, load(w, x, at(w, r->length, from)), place(b, y, i, w->bytes), w->bytes);
  build_if_end(b, &inside);
}

// Adds element t to where its index says; owner: only where that is its own, of every THREADS-th.
static void add_element(Rows *w, Val x, Val indices, Val y, Val t, Val owner) {
  Build *b = &w->b;
  Val i = at(w, w->r->length, t), to = load_index(w, indices, i),
      mine = LLVMBuildICmp(b->builder, LLVMIntULT, to, constant(b, w->r->count), "");
  if (owner) mine = build_and(b, mine, build_equal(b, build_and(b, to, constant(b, THREADS - 1)), owner));
  Branch here;
  build_if(b, &here, mine);
  Val sum = at(w, w->r->count, to);
  build_store(b, w->r->last ? load(w, x, i) : plus(w, load(w, y, sum), load(w, x, i)), place(b, y, sum, w->bytes),
              w->bytes);
  build_if_end(b, &here);
}

static void set_zero(Rows *w, Val y, Val t) {
  build_store(&w->b, LLVMConstNull(w->type), place(&w->b, y, at(w, w->r->count, t), w->bytes), w->bytes);
}

static void scatter(Rows *w, Val x, Val indices, Val y) {
  Build *b = &w->b;
  const NncRows *r = w->r;
  bool column = by_column(r), apart = !column && r->unique;
  Val row = build_i64(b, column ? build_thread_number(b, THREADS) : build_block_id(b, 'x')), tid = build_i64(b, b->tid);
  Branch inside, exists;
  Loop loop;
  build_if(b, &inside, build_less(b, row, constant(b, row_count(r))));
  find_row(w, row);
  Val t = build_i64(b, build_loop(b, &loop, build_i32(b, 0), build_i32(b, r->count), column ? 1 : THREADS));
  if (!column) {
    t = build_add(b, t, tid);
    build_if(b, &exists, build_less(b, t, constant(b, r->count)));
  }
  set_zero(w, y, t);
  if (!column) build_if_end(b, &exists);
  build_loop_end(b, &loop);
  if (!column) build_barrier(b);
  t = build_i64(b, build_loop(b, &loop, build_i32(b, 0), build_i32(b, r->length), apart ? THREADS : 1));
  if (apart) {
    t = build_add(b, t, tid);
    build_if(b, &exists, build_less(b, t, constant(b, r->length)));
  }
  add_element(w, x, indices, y, t, column || apart ? NULL : tid);
  if (apart) build_if_end(b, &exists);
  build_loop_end(b, &loop);
  build_if_end(b, &inside);
}

void rows_template_build(LLVMModuleRef module, const NncRows *r, const char *name) {
  Rows w = {.r = r};
  bool two = r->kind >= NNC_ROWS_RECURRENCE && !is_sort(r);
  build_kernel(&w.b, module, name, two || rows_template_workspace(r) ? "eee" : "ee",
               is_sort(r) ? SORT_THREADS : THREADS);
  w.type = build_dtype(&w.b, r->dtype);
  w.bytes = bytes_of(r->dtype);
  Val x = build_parameter(&w.b, 0, "x"), second = two ? build_parameter(&w.b, 1, "second") : NULL,
      y = build_parameter(&w.b, two ? 2 : 1, "y");
  if (is_sort(r)) sort_row(&w, x, y, rows_template_workspace(r) ? build_parameter(&w.b, 2, "space") : NULL);
  else if (r->kind == NNC_ROWS_TAKE) take(&w, x, second, y);
  else if (r->kind == NNC_ROWS_SCATTER) scatter(&w, x, second, y);
  else if (by_column(r)) scan_column(&w, x, second, y);
  else scan_row(&w, x, second, y);
  build_finish(&w.b);
}

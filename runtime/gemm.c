// Products of matrices on the host: A is packed in tiles of rows that stay in a core's second cache, B in panels of
// two vectors' columns that stay in its first, and the sums of a panel in a buffer beside A until all of k is through.
// While a panel is used the next one is fetched. Threads take panels, or blocks of rows, as they get free; the blocks
// of k depend on k alone, and with them the order of each sum. What is packed is counted in words of 4 bytes: an f32,
// or two neighbours along k in bf16.
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/gemm_internal.h"

// Tuned as those of gemm_internal.h.
enum {
  TILE_ROWS_F32 = 14,   // the most in f32
  // of the caches
  MOST_PACKED = 1 << 20,            // bytes of A that a thread packs at a time: half of a second cache
  LEAST_PACKED = 1 << 17,           // but no less where the operands are small
  MOST_ROWS = 73 * TILE_ROWS_F32,   // of a block, below which its sums of a panel (128 bytes a row) stay beside A
  // of the threads
  ROWS_OF_BLOCK = 256,              // that a block has where there are enough: one is a unit that a thread takes
  LEAST_ROWS = 8 * TILE_ROWS_F32,   // and no fewer than pay for packing a panel for them
  UNITS_OF_THREAD = 4,              // blocks for each thread, so that those that begin late or run slowly take fewer
  SPINS = 1000,                     // of a wait before the thread yields: a few microseconds
  // of what is worth it: with less, or little of one size, packing costs more than it saves
  LEAST_K = 64,
  LEAST_WORK = 1 << 21   // m * n * k
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
// How the product is cut.
typedef struct Blocking {
  const Loops *loops;
  int64_t words, k_block, chunk, chunks;   // of k, in words; a chunk is several blocks
  int64_t blocks, panels;                  // of rows; of columns
  int64_t rows;                            // of a block, at most
  bool by_rows;                            // threads take blocks of rows, else panels of a block that they share
  int64_t packed, floats;                  // of a block's packed rows; of what a thread has besides
  int64_t between;                         // floats of the sums between two chunks, where C has no room for them
  int64_t kept;                            // of B where it stays packed
  int64_t lines;                           // entries of `ahead` that differ
} Blocking;

// Rows that those of a block take up.
static int64_t places_of(const Loops *l, int64_t rows) { return l->whole ? round_up(rows, l->tile_rows) : rows; }

// Lines of memory that a thread fetches of a block of B.
static int64_t lines_of(const Gemm *g, const Blocking *b, int64_t *of_run) {
  int64_t k = b->k_block * b->loops->of_word, panel = b->loops->panel;
  *of_run = divide_up((g->b_col == 1 ? panel : k) * gemm_size(g), 64);
  return *of_run * (g->b_col == 1 ? k : panel);
}

static Blocking blocking_of(const Gemm *g, int threads) {
  const Loops *l = gemm_loops(g);
  Blocking b = {.loops = l, .panels = divide_up(g->n, l->panel), .by_rows = g->m > g->n};
  b.words = divide_up(g->k, l->of_word);
  b.k_block = round_up(divide_up(b.words, divide_up(b.words, l->k_most)), l->k_step);
  int64_t operands = 4 * (g->m * b.words + b.words * g->n + g->m * g->n);
  int64_t packed = larger(smaller(operands / (b.by_rows ? 2 * threads : 2), MOST_PACKED), LEAST_PACKED) / 4;
  // Few rows at a time would pack B too often, so that k is cut first.
  int64_t rows = b.by_rows
                     ? larger(smaller(g->m / (threads * UNITS_OF_THREAD), ROWS_OF_BLOCK), smaller(LEAST_ROWS, g->m))
                     : smaller(g->m, ROWS_OF_BLOCK);
  int64_t most_chunk = larger(packed / rows / b.k_block, 1) * b.k_block;
  // Sums are kept between chunks of k, unless all of a block's rows take less.
  if (g->result != NNC_F32 && g->n > b.words) most_chunk = b.words;
  b.chunks = divide_up(b.words, most_chunk);
  b.chunk = round_up(divide_up(b.words, b.chunks), b.k_block);
  b.chunks = divide_up(b.words, b.chunk);
  int64_t chunk = round_up(smaller(b.chunk, b.words), l->k_step);
  int64_t fit = larger(smaller(packed / chunk, MOST_ROWS), l->tile_rows);
  b.blocks = divide_up(g->m, fit);
  if (b.by_rows)
    b.blocks = larger(round_up(b.blocks, threads),
                      threads * larger(1, smaller(g->m / (threads * LEAST_ROWS), UNITS_OF_THREAD)));
  int64_t unit = places_of(l, 1);
  b.blocks = smaller(b.blocks, divide_up(g->m, unit));
  b.rows = divide_up(divide_up(g->m, unit), b.blocks) * unit;
  if (g->result != NNC_F32 && b.chunks > 1)
    b.between = round_up((b.by_rows ? threads * b.rows : g->m) * g->n, NNC_ALIGN / 4);
  b.packed = round_up(b.rows * chunk, NNC_ALIGN / 4);
  if (g->keeps_b) b.kept = round_up(b.panels * round_up(b.words, l->k_step) * l->panel, NNC_ALIGN / 4);
  int64_t of_run;
  b.lines = lines_of(g, &b, &of_run);
  b.floats = round_up(b.k_block * l->panel + b.rows * l->panel + b.lines + b.k_block / l->k_step * l->fetches,
                      NNC_ALIGN / 4);
  return b;
}

// Buffers of packed rows.
static int64_t buffers_of(const Blocking *b, int threads) {
  return b->by_rows ? threads : b->chunks * b->blocks > 1 ? 2 : 1;
}

static double work_of(const Gemm *g) { return (double)g->m * (double)g->n * (double)g->k; }

static bool picks_rows(const Gemm *g) {
  return g->a_rows.width || g->b_rows.width || g->c_rows.width || g->a_window || g->b_window;
}

static bool has_little_work(const Gemm *g) {
  const Loops *l = gemm_loops(g);
  return g->m < smaller(l->tile_rows, FEW_ROWS) || g->n < MOST_PANEL || g->k < LEAST_K || work_of(g) < LEAST_WORK;
}

// B lies transposed: to pack it for a few rows would take as long as the product.
static bool is_dots(const Gemm *g) {
  return g->type == NNC_F32 && g->m < FEW_ROWS && g->a_col == 1 && g->b_col != 1 && !picks_rows(g);
}

static bool is_small(const Gemm *g) {
  return g->type == NNC_F32 && has_little_work(g) && !picks_rows(g) && !is_dots(g);
}

bool gemm_fits(const Gemm *g) {
  bool a = g->a_col == 1 || (g->a_rows.pixel == 1 && !g->a_rows.width),
       b = g->b_col == 1 || (g->b_rows.pixel == 1 && !g->b_rows.width);
  if (!gemm_loops(g) || !a || !b || g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX) return false;
  if (g->type != NNC_F32 && (g->a_window || (g->adds && g->result != NNC_F32))) return false;
  return !has_little_work(g) || (g->type == NNC_F32 && !picks_rows(g));
}

const char *gemm_packed_name(NncDtype type) { return type == NNC_F32 ? "packed" : "amx"; }

const char *gemm_name(const Gemm *g) { return is_dots(g) ? "dots" : is_small(g) ? "plain" : gemm_packed_name(g->type); }

// Rows are fewer than columns, so that no thread packs what another does.
bool gemm_keeps_b(const Gemm *g) {
  return gemm_fits(g) && !is_dots(g) && !is_small(g) && g->m <= g->n && !picks_rows(g);
}

int64_t gemm_scratch(const Gemm *g, int threads) {
  if (is_dots(g)) return 0;
  if (is_small(g)) return gemm_plain_scratch(g, threads);
  int64_t bytes = 0;
  for (int t = 1; t <= threads; t++) {   // fewer threads have larger blocks
    Blocking b = blocking_of(g, t);
    bytes = larger(bytes, 4 * (b.kept + b.packed * buffers_of(&b, t) + b.floats * t + b.between));
  }
  return bytes;
}

// What one thread works with.
typedef struct Worker {
  const Gemm *g;
  const Blocking *blocking;
  const void *a, *b;
  void *c;
  float *packed, *panel, *sums;
  float *kept;      // all of B, panel by panel; NULL: it is packed where it is used
  bool again;       // that is there
  float *between;   // of its block where it takes blocks, else of all rows; NULL: C has room for sums between chunks
  GemmRows between_rows;
  int32_t *ahead;
  int64_t block, chunk;   // that `packed` holds
} Worker;

// What the threads of a product share.
typedef struct Team {
  int threads;
  atomic_int arrived, turn;
  atomic_llong tile, unit;   // taken so far
} Team;

typedef struct Rows {
  int64_t first, count, tiles;
} Rows;

static Rows rows_of_block(const Worker *w) {
  const Loops *l = w->blocking->loops;
  int64_t unit = places_of(l, 1), units = divide_up(w->g->m, unit), blocks = w->blocking->blocks;
  Rows r = {.first = units * w->block / blocks * unit};
  r.count = smaller(units * (w->block + 1) / blocks * unit, w->g->m) - r.first;
  r.tiles = divide_up(r.count, l->tile_rows);
  return r;
}

// The first row of a block's tile.
static int64_t row_of_tile(const Loops *l, const Rows *r, int64_t tile) {
  return l->whole ? smaller(tile * l->tile_rows, r->count) : r->count * tile / r->tiles;
}

// The lines of a block of B in the order in which they are fetched, as offsets from its first.
static void lay_out_ahead(Worker *w) {
  const Gemm *g = w->g;
  const Blocking *b = w->blocking;
  const Loops *l = b->loops;
  int64_t of_run, lines = lines_of(g, b, &of_run), step = gemm_size(g) * (g->b_col == 1 ? g->b_rows.pixel : g->b_col);
  if (w->again) of_run = lines;
  bool known = !g->b_rows.width && !g->b_window && !g->a_window && step < INT32_MAX / larger(lines, MOST_PANEL);
  for (int64_t i = 0; i < lines + b->k_block / l->k_step * l->fetches; i++) {
    int64_t at = smaller(i, lines - 1);
    w->ahead[i] = known ? (int32_t)(at / of_run * step + at % of_run * 64) : 0;
  }
}

// Tiles [from, to) of the worker's block and chunk.
static void pack_tiles(const Worker *w, int64_t from, int64_t to) {
  const Gemm *g = w->g;
  const Blocking *b = w->blocking;
  const Loops *l = b->loops;
  Rows rows = rows_of_block(w);
  int64_t end = smaller((w->chunk + 1) * b->chunk, b->words);
  float *of_block = w->packed;
  for (int64_t k0 = w->chunk * b->chunk; k0 < end; k0 += b->k_block) {
    int64_t words = smaller(b->k_block, end - k0), padded = round_up(words, l->k_step), first_k = k0 * l->of_word,
            k = smaller(words * l->of_word, g->k - first_k);
    for (int64_t t = from; t < to; t++) {
      int64_t first = row_of_tile(l, &rows, t), height = row_of_tile(l, &rows, t + 1) - first;
      gemm_pack_tile(g, l, w->a, rows.first + first, (int)height, first_k, k, of_block + first * padded);
    }
    of_block += places_of(l, rows.count) * padded;
  }
}

// Where rows of a panel's sums lie between chunks of k, or at last.
typedef struct Sums {
  char *base;   // of row 0
  const GemmRows *rows;
  int64_t row, size;   // of the first; bytes of a number
} Sums;

static Sums sums_at(const Worker *w, int64_t row, int64_t column, bool last) {
  const Gemm *g = w->g;
  if (w->between && !last)
    return (Sums){(char *)(w->between + column), &w->between_rows,
                  row - (w->blocking->by_rows ? rows_of_block(w).first : 0), 4};
  int64_t size = g->result == NNC_F32 ? 4 : 2;
  return (Sums){(char *)w->c + column * size, &g->c_rows, row, size};
}

static void *row_of_sums(const Sums *s, int64_t i) { return s->base + gemm_row(s->rows, s->row + i) * s->size; }

// `rows` rows from there into the buffer of sums or back, where tiles cannot write there themselves.
static void move_sums(const Loops *l, const Sums *s, float *sums, int64_t rows, int columns, bool out) {
  for (int64_t r = 0; r < rows; r++, sums += l->panel) {
    void *there = row_of_sums(s, r);
    if (s->size == 2) l->narrow(sums, columns, there);
    else memcpy(out ? there : sums, out ? sums : there, (size_t)columns * sizeof *sums);
  }
}

// The packed block of rows times one panel.
static void multiply_panel(const Worker *w, int64_t panel, int64_t next_panel) {
  const Gemm *g = w->g;
  const Blocking *b = w->blocking;
  const Loops *l = b->loops;
  Rows rows = rows_of_block(w);
  int64_t begin = w->chunk * b->chunk, end = smaller(begin + b->chunk, b->words), width = l->panel,
          column = panel * width;
  int columns = (int)smaller(width, g->n - column);
  bool whole_columns = columns == width && !g->c_rows.width && g->result == NNC_F32, ends = end == b->words;
  bool adds = begin > 0 || g->adds;   // to what lies in C
  const float *a = w->packed;
  int64_t of_panel = round_up(b->words, l->k_step) * width;
  for (int64_t k0 = begin; k0 < end; k0 += b->k_block) {
    int64_t words = smaller(b->k_block, end - k0), steps = divide_up(words, l->k_step), first_k = k0 * l->of_word;
    bool first = k0 == begin, last = k0 + b->k_block >= end;
    float *packed = w->kept ? w->kept + panel * of_panel + k0 * width : w->panel;
    if (!w->again)
      gemm_pack_panel(g, l, w->b, column, columns, first_k, smaller(words * l->of_word, g->k - first_k), packed);
    int64_t first_next = last ? begin * l->of_word : first_k + b->k_block * l->of_word,
            ahead = (last ? next_panel : panel) * width * g->b_col + first_next * g->b_rows.pixel;
    const void *next = w->again ? last ? w->kept + next_panel * of_panel + begin * width : packed + b->k_block * width
                                : gemm_at(g, w->b, g->b_window ? 0 : ahead);
    for (int64_t t = 0; t < rows.tiles; t++) {
      int64_t from = row_of_tile(l, &rows, t), to = row_of_tile(l, &rows, t + 1), height = to - from;
      float *sums = w->sums + from * width;
      bool in_place = whole_columns && (!l->whole || height == l->tile_rows);
      float *of_c = in_place ? (float *)w->c + (rows.first + from) * g->c_rows.pixel + column : NULL;
      Sums before = sums_at(w, rows.first + from, column, false), after = sums_at(w, rows.first + from, column, ends);
      if (first && adds && !in_place) move_sums(l, &before, sums, height, columns, false);
      Tile tile = {.a = a,
                   .b = packed,
                   .k = steps * l->k_step,
                   .in = first && !adds      ? NULL
                         : first && in_place ? of_c
                                             : sums,
                   .in_row = first && in_place ? g->c_rows.pixel : width,
                   .out = last && in_place ? of_c : sums,
                   .out_row = last && in_place ? g->c_rows.pixel : width,
                   .next = next,
                   .c = last && !after.rows->width ? row_of_sums(&after, 0) : NULL,
                   .c_row = after.rows->pixel * after.size,
                   .ahead = w->ahead + smaller(t * steps * l->fetches, b->lines)};
      l->tile((int)height, &tile);
      if (last && !in_place) move_sums(l, &after, sums, height, columns, true);
      a += places_of(l, height) * steps * l->k_step;
    }
  }
}

// Of a count that all threads draw from, the next number if it lies in [begin, end); a number beyond is kept for later.
// -1: none.
static int64_t take(atomic_llong *next, int64_t *held, int64_t begin, int64_t end) {
  if (*held < begin) *held = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
  if (*held >= end) return -1;
  int64_t number = *held - begin;
  *held = -1;
  return number;
}

static void wait_for_all(Team *team) {
  int turn = atomic_load_explicit(&team->turn, memory_order_acquire);
  if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == team->threads) {
    atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&team->turn, turn + 1, memory_order_release);
    return;
  }
  for (int spins = 0; atomic_load_explicit(&team->turn, memory_order_acquire) == turn; spins++) {
    if (spins < SPINS) __builtin_ia32_pause();
    else sched_yield();
  }
}

// Threads share the packed rows and take panels. Who has no panel left packs for the next phase, into the other of two
// buffers.
static void by_columns(Worker *w, Team *team, float *packed) {
  const Blocking *b = w->blocking;
  int64_t phases = b->chunks * b->blocks, tiles = divide_up(b->rows, b->loops->tile_rows), held_tile = -1,
          held_panel = -1, i;
  for (int64_t phase = 0; phase < phases; phase++) {
    w->chunk = phase / b->blocks;
    w->block = phase % b->blocks;
    w->packed = packed + phase % 2 * b->packed;
    int64_t of_block = rows_of_block(w).tiles;
    while ((i = take(&team->tile, &held_tile, phase * tiles, (phase + 1) * tiles)) >= 0)
      if (i < of_block) pack_tiles(w, i, i + 1);
    wait_for_all(team);
    while ((i = take(&team->unit, &held_panel, phase * b->panels, (phase + 1) * b->panels)) >= 0)
      multiply_panel(w, i, (i + team->threads) % b->panels);
  }
}

// Threads take blocks of rows.
static void by_rows(Worker *w, Team *team) {
  const Blocking *b = w->blocking;
  int64_t held = -1;
  while ((w->block = take(&team->unit, &held, 0, b->blocks)) >= 0)
    for (w->chunk = 0; w->chunk < b->chunks; w->chunk++) {
      pack_tiles(w, 0, rows_of_block(w).tiles);
      for (int64_t panel = 0; panel < b->panels; panel++) multiply_panel(w, panel, (panel + 1) % b->panels);
    }
}

void gemm_execute(const Gemm *g, int threads, const void *a, const void *b, void *c, void *workspace, bool again) {
  if (is_dots(g)) {
    gemm_dots(g, threads, a, b, c);
    return;
  }
  if (is_small(g)) {
    gemm_plain(g, threads, a, b, c, workspace);
    return;
  }
  Blocking blocking = blocking_of(g, threads);
  Team team = {.threads = threads};
#pragma omp parallel num_threads(threads)
  {
#pragma omp single
    team.threads = omp_get_num_threads();
    int thread = omp_get_thread_num();
    float *kept = workspace, *packed = kept + blocking.kept,
          *own = packed + blocking.packed * buffers_of(&blocking, threads) + thread * blocking.floats;
    Worker w = {.g = g,
                .blocking = &blocking,
                .a = a,
                .b = b,
                .c = c,
                .kept = g->keeps_b ? kept : NULL,
                .again = g->keeps_b && again,
                .packed = packed + (blocking.by_rows ? thread * blocking.packed : 0),
                .panel = own};
    w.between_rows.pixel = g->n;
    if (blocking.between)
      w.between = packed + blocking.packed * buffers_of(&blocking, threads) + threads * blocking.floats +
                  (blocking.by_rows ? thread * blocking.rows * g->n : 0);
    w.sums = w.panel + blocking.k_block * blocking.loops->panel;
    w.ahead = (int32_t *)(void *)(w.sums + blocking.rows * blocking.loops->panel);
    lay_out_ahead(&w);
    if (g->clears_c) {
#pragma omp for schedule(static)
      for (int64_t i = 0; i < g->c_elements; i++) {
        if (g->result == NNC_F32) ((float *)c)[i] = 0;
        else ((uint16_t *)c)[i] = 0;
      }
    }
    if (blocking.loops->start) blocking.loops->start();
    if (blocking.by_rows) by_rows(&w, &team);
    else by_columns(&w, &team, packed);
    if (blocking.loops->stop) blocking.loops->stop();
  }
}
#else
bool gemm_fits(const Gemm *g) { return (void)g, false; }
const char *gemm_name(const Gemm *g) { return (void)g, "none"; }
const char *gemm_packed_name(NncDtype type) { return (void)type, "none"; }
bool gemm_keeps_b(const Gemm *g) { return (void)g, false; }
int64_t gemm_scratch(const Gemm *g, int threads) { return (void)g, (void)threads, 0; }
void gemm_execute(const Gemm *g, int threads, const void *a, const void *b, void *c, void *workspace, bool again) {
  (void)g, (void)threads, (void)a, (void)b, (void)c, (void)workspace, (void)again;
}
#endif

// Attention on the host: tiles of scores pass through a small workspace per thread, with the softmax computed online
// (Milakov and Gimelshein, 2018), so that the scores as a whole never exist; the backward pass computes them again from
// each row's log-sum-exp (Dao, "FlashAttention-2", 2023). Tiles of scores have queries as columns, so that every step
// of the softmax is one operation on vectors. The loops are built once per element type and instruction set.
#include <math.h>
#include <omp.h>
#include <string.h>

#include "runtime/library_internal.h"
#include "runtime/runtime.h"
#include "support/draws.h"

// bf16 and f16 become f32 tile by tile; dk and dv are summed in f32 for a part at a time.
enum { TILE_QUERIES = 64, TILE_KEYS = 64, BLOCK_ROWS = 6, KEYS_OF_UNIT = 256 };

// Where the operands lie: strides in elements; k stands for v; the gradients of q, and those of k and v, lie as to_q
// and to_k say, o and its gradient as of_o does.
typedef struct Strides {
  int64_t batch, head, row;
} Strides;

static Strides strides_of(const NncAttention *a, int64_t heads, int64_t tokens) {
  int64_t d = a->head_dim;
  return a->heads_last ? (Strides){tokens * heads * d, d, heads * d} : (Strides){heads * tokens * d, tokens * d, d};
}

typedef struct Problem {
  NncAttention a;
  Strides q, k, of_o, to_q, to_k;
  const void *in_q, *in_k, *in_v, *in_o, *in_do;
  const uint8_t *mask;   // NULL: none
  const void *bias;      // as T; NULL: none
  const uint32_t *key;   // NULL: no dropout
  void *o, *dq, *dk, *dv;
  void *lse;         // written forward, read backward
  int64_t columns;   // of a tile of scores: its queries, in whole vectors
  char *workspace;
  int64_t bytes_of_thread;
} Problem;

// A part of the backward pass: of one batch and one head of keys, rows of queries from first to end and keys from first
// to end.
typedef struct Part {
  int64_t batch, group, first_query, end_query, first_key, end_key;
  bool queries, keys;   // which gradients it makes: dq of its queries, dk and dv of its keys
} Part;

static bool is_narrow(const NncAttention *a) { return a->dtype == NNC_BF16 || a->dtype == NNC_F16; }
static int64_t element_bytes(const NncAttention *a) { return a->dtype == NNC_F64 ? 8 : 4; }   // of the arithmetic
// The head dimension in whole vectors of 64 bytes.
static int64_t padded(const NncAttention *a) {
  return (a->head_dim * element_bytes(a) + 63) / 64 * 64 / element_bytes(a);
}
static int64_t tile_columns(const NncAttention *a) {
  int64_t lanes = 64 / element_bytes(a);
  return smaller(TILE_QUERIES, round_up(a->n_queries, lanes));
}
static int64_t tile_keys(const NncAttention *a) { return smaller(TILE_KEYS, a->n_keys); }
static int64_t rows_of_draws(const NncAttention *a) { return a->dropout > 0 ? DRAW_BLOCK : 0; }
// Keys before which all lie that queries before `end` see.
static int64_t keys_before(const NncAttention *a, int64_t end) {
  int64_t ahead = a->causal ? 0 : a->window - 1;
  return a->causal || a->window > 0 ? smaller(a->n_keys, larger(0, end + ahead + a->n_keys - a->n_queries)) : a->n_keys;
}
// The first key that queries from `query` on see, because of a window.
static int64_t first_key_of(const NncAttention *a, int64_t query) {
  return a->window > 0 ? larger(0, query + 1 + a->n_keys - a->n_queries - a->window) : 0;
}
// The first query that sees a key.
static int64_t first_query_of(const NncAttention *a, int64_t key) {
  int64_t ahead = a->causal ? 0 : a->window - 1;
  return a->causal || a->window > 0 ? larger(0, key - ahead - (a->n_keys - a->n_queries)) : 0;
}
// Of the tile of queries from first_query on and keys from first_key on: how many of the keys its first query sees;
// each next one sees one more.
static int64_t keys_seen(const NncAttention *a, int64_t first_query, int64_t first_key) {
  return a->causal ? first_query + 1 + a->n_keys - a->n_queries - first_key : TILE_KEYS;
}
// How many queries of that tile do not see a key because they come before those that do.
static int64_t hidden_queries(const Problem *p, int64_t first_query, int64_t key) {
  return larger(0, smaller(p->columns, first_query_of(&p->a, key) - first_query));
}
// The first query of that tile for which a key lies before the window.
static int64_t past_window(const Problem *p, int64_t first_query, int64_t key) {
  int64_t query = key - (p->a.n_keys - p->a.n_queries) + p->a.window;
  return p->a.window > 0 ? larger(0, smaller(p->columns, query - first_query)) : p->columns;
}
// Whether dk and dv are summed in the workspace.
static bool sums_apart(const NncAttention *a) { return is_narrow(a) || a->head_dim != padded(a); }

// What a product over a tile on the diagonal may leave out: later keys in a sum over keys, for rows of queries; earlier
// queries in a sum over queries, or earlier queries' columns, for rows of keys.
typedef enum Corner { LATER_KEYS_OF_K, EARLIER_QUERIES_OF_K, EARLIER_QUERIES_OF_N } Corner;

typedef struct Loops {
  void (*forward)(const Problem *p, int64_t unit, char *workspace);
  void (*backward)(const Problem *p, const Part *part, char *workspace);
} Loops;

#define LOOPS "runtime/attention_loops.inc"
#include "runtime/loops.inc"

// ---------------------------------------------------------------------------------------------------------------------

static int64_t bytes_of_thread(const NncAttention *a) {
  // Tiles of keys and values; per row tile: q' and o, or q', do', dq and rows of q and do; scores, or weights and
  // gradients of scores; three statistics and the draws; maybe the sums of dk and dv.
  int64_t d = padded(a), queries = tile_columns(a), keys = tile_keys(a);
  int64_t elements = 2 * keys * d + (a->backward ? 5 : 2) * queries * d + (a->backward ? 2 : 1) * keys * queries +
                     (3 + rows_of_draws(a)) * queries;
  if (a->backward && a->softcap > 0) elements += keys * queries;   // derivatives of capped scores
  if (a->backward && sums_apart(a)) elements += 2 * a->n_keys * d;
  return library_align(elements * element_bytes(a));
}

int64_t nnc_attention_scratch(const NncAttention *a) { return nnc_library_threads() * bytes_of_thread(a); }

// Of a tensor in which each token has all heads of q, then those of k and v: as many queries as keys.
static Strides strides_packed(const NncAttention *a) {
  int64_t row = (a->heads + 2 * a->groups) * a->head_dim;
  return (Strides){a->n_queries * row, a->head_dim, row};
}

// The first element of a head there.
static void *head_of(const NncAttention *a, const void *x, int64_t head) {
  return (char *)x + head * a->head_dim * (is_narrow(a) ? 2 : element_bytes(a));
}

static void place_packed(Problem *p, void *gradients) {
  const NncAttention *a = &p->a;
  p->to_q = p->to_k = strides_packed(a);
  p->dq = gradients;
  p->dk = head_of(a, gradients, a->heads);
  p->dv = head_of(a, gradients, a->heads + a->groups);
}

static void place_joined(Problem *p) {
  const NncAttention *a = &p->a;
  p->q = p->k = strides_packed(a);
  p->in_k = head_of(a, p->in_k, a->heads);
  p->in_v = head_of(a, p->in_v, a->heads + a->groups);
}

static Problem problem_of(const NncAttention *a, void *const *buffers, void *workspace) {
  Problem p = {.a = *a,
               .q = strides_of(a, a->heads, a->n_queries),
               .k = strides_of(a, a->groups, a->n_keys),
               .columns = tile_columns(a),
               .workspace = workspace,
               .bytes_of_thread = bytes_of_thread(a)};
  p.to_q = p.of_o = p.q, p.to_k = p.k;
  int n = 0;
  p.in_q = buffers[n++], p.in_k = buffers[n++], p.in_v = buffers[n++];
  if (a->joined) place_joined(&p);
  if (a->backward) p.in_o = buffers[n++], p.lse = buffers[n++], p.in_do = buffers[n++];
  if (a->masked) p.mask = buffers[n++];
  if (a->biased) p.bias = buffers[n++];
  if (a->dropout > 0) p.key = buffers[n++];
  if (!a->backward) p.o = buffers[n++], p.lse = buffers[n++];
  else if (a->packed) place_packed(&p, buffers[n]);
  else p.dq = buffers[n++], p.dk = buffers[n++], p.dv = buffers[n++];
  return p;
}

static void run_forward(const Problem *p, const Loops *loops) {
  int64_t units = p->a.batch * p->a.heads * divide_up(p->a.n_queries, TILE_QUERIES);
#pragma omp parallel for schedule(dynamic)
  for (int64_t unit = 0; unit < units; unit++)
    loops->forward(p, unit, p->workspace + omp_get_thread_num() * p->bytes_of_thread);
}

// In one go, each part all queries and keys of a head of keys, where that keeps the threads busy; else queries and keys
// apart, which computes the scores twice. The order of additions into every element is the same.
static void run_backward(const Problem *p, const Loops *loops) {
  const NncAttention *a = &p->a;
  int64_t heads = a->batch * a->groups, threads = omp_get_max_threads(),
          query_tiles = divide_up(a->n_queries, TILE_QUERIES), key_parts = divide_up(a->n_keys, KEYS_OF_UNIT);
  bool whole = heads >= 4 * threads || heads % threads == 0;
  int64_t parts = whole ? 1 : query_tiles + key_parts;
#pragma omp parallel for schedule(dynamic)
  for (int64_t unit = 0; unit < heads * parts; unit++) {
    int64_t head = unit / parts, part = unit % parts;
    Part x = {head / a->groups, head % a->groups, 0, a->n_queries, 0, a->n_keys, true, true};
    if (!whole && part < query_tiles) {
      x.keys = false;
      x.first_query = part * TILE_QUERIES;
      x.end_query = smaller(a->n_queries, x.first_query + TILE_QUERIES);
    } else if (!whole) {
      x.queries = false;
      x.first_key = (part - query_tiles) * KEYS_OF_UNIT;
      x.end_key = smaller(a->n_keys, x.first_key + KEYS_OF_UNIT);
    }
    loops->backward(p, &x, p->workspace + omp_get_thread_num() * p->bytes_of_thread);
  }
}

static void execute(const void *record, void *const *buffers, void *workspace) {
  const NncAttention *a = record;
  Problem p = problem_of(a, buffers, workspace);
  const Loops *loops = loops_for(a->dtype);
  if (a->backward) run_backward(&p, loops);
  else run_forward(&p, loops);
}

const NncOperation *nnc_attention_prepare(Library *lib, const NncAttention *a, char *error, size_t size) {
  return library_prepare_loops(lib, execute, a, library_threads(lib) * bytes_of_thread(a), a->scratch_bytes, error,
                               size);
}

const char *nnc_attention_implementation(const NncAttention *a) {
  (void)a;
  return "";
}

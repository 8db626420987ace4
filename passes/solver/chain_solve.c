// chain_solve.c: the dynamic program over the stages (Beaumont et al. 2019, "Rotor", after Griewank's revolve), with
// exact peaks, values that cross several cuts, and partly held stages. State (i, j, right, m): run the backward parts
// of stages j - 1 .. i when what enters stage i is held and m units are free beside it; `right` tells that the values
// that stages j - 1 and j share are still there. Either run ahead to a cut k, hold what crosses it, do (k, j) and then
// (i, k) from the start again; or hold the values of stage i, or some of them, do (i + 1, j) and then its backward
// part.
#include "chain.h"
#include "support/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t chain_held(const Chain *chain, int i, int k, int j, int64_t *forward) {
  const ChainStage *stage = &chain->stages[k];
  int64_t bytes = 0, sooner = 0;
  for (int c = stage->n_crossing - 1; c >= 0 && stage->crossing[c].stage >= i; c--) {
    const ChainCrossing *crossing = &stage->crossing[c];
    bytes += crossing->next_use < j ? crossing->bytes : 0;
    sooner += crossing->next_forward < j ? crossing->bytes : 0;
  }
  if (forward) *forward = sooner;
  return bytes;
}

int64_t chain_gain(const Chain *chain, int i, int k, int j) {
  const ChainStage *stage = &chain->stages[i];
  int64_t bytes = 0;
  for (int c = 0; c < stage->n_crossing; c++) {
    const ChainCrossing *crossing = &stage->crossing[c];
    if (!crossing->early && crossing->next_use >= k && crossing->next_use < j) bytes += crossing->bytes;
  }
  return bytes;
}

int64_t chain_option_held(const Chain *chain, int i, int j, int o) {
  const ChainStage *next = &chain->stages[i + 1];
  int64_t bytes = chain->stages[i].options[o].held;
  for (int c = 0; c < next->n_crossing; c++) {
    const ChainCrossing *crossing = &next->crossing[c];
    if (crossing->stage == i && crossing->next_use < j && !(crossing->options >> o & 1)) bytes += crossing->bytes;
  }
  return bytes;
}

int chain_units(const ChainTable *table, int64_t bytes) {
  return (int)fmin(floor((double)bytes / table->unit_bytes + 0.5), 1e6);
}

// ---- equal ranges ----

static bool same_cut(const ChainStage *a, const ChainStage *b, int shift) {
  if (a->n_crossing != b->n_crossing || a->other != b->other) return false;
  for (int c = 0; c < a->n_crossing; c++) {
    const ChainCrossing *x = &a->crossing[c], *y = &b->crossing[c];
    bool same_forward = x->next_forward == CHAIN_NEVER ? y->next_forward == CHAIN_NEVER
                                                       : y->next_forward == x->next_forward + shift;
    if (!same_forward || x->stage + shift != y->stage || x->next_use + shift != y->next_use || x->early != y->early ||
        x->bytes != y->bytes || x->options != y->options)
      return false;
  }
  return true;
}

// Whether stages a and b (later by `shift`) and the cuts before them are alike to the program.
static bool same_stage(const ChainStage *a, const ChainStage *b, int shift) {
  if (!same_cut(a, b, shift) || a->run != b->run || a->leaf != b->leaf || a->backward != b->backward ||
      a->kept != b->kept || a->run_cost != b->run_cost || a->leaf_cost[0] != b->leaf_cost[0] ||
      a->leaf_cost[1] != b->leaf_cost[1] || a->n_options != b->n_options)
    return false;
  for (int o = 0; o < a->n_options; o++) {
    const ChainOption *x = &a->options[o], *y = &b->options[o];
    if (x->held != y->held || x->forward != y->forward || x->make != y->make || x->remake != y->remake) return false;
  }
  return true;
}

// Gives each range of stages its slot; ranges that repeat an earlier one, some stages back, share it. A chain of equal
// stages has n slots instead of n^2 / 2. Where `kept` at the right end matters, the stage before j is in the range.
static int share_slots(const Chain *chain, int *slot) {
  enum { LONGEST_PERIOD = 24 };
  int n = chain->n, n_slots = 0;
  int *run = allocate_array((size_t)n + 2, sizeof *run);   // stages from i on that equal those `period` earlier
  for (int i = 0; i <= n; i++)
    for (int j = i + 1; j <= n; j++) slot[i * (n + 1) + j] = -1;
  for (int period = 1; period <= LONGEST_PERIOD && period < n; period++) {
    run[n + 1] = 0;
    for (int i = n; i >= 0; i--) {
      bool same = i >= period && same_stage(&chain->stages[i - period], &chain->stages[i], period);
      run[i] = same ? 1 + run[i + 1] : 0;
    }
    // The cut at j must be alike, and it is part of stage j: n itself is a stage here.
    for (int i = period; i < n; i++)
      for (int j = i + 1; j < i + run[i] && j <= n; j++)
        if (slot[i * (n + 1) + j] < 0) slot[i * (n + 1) + j] = -1 - period;
  }
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j <= n; j++) {
      int period = -1 - slot[i * (n + 1) + j];
      slot[i * (n + 1) + j] = period > 0 ? slot[(i - period) * (n + 1) + j - period] : n_slots++;
    }
  free(run);
  return n_slots;
}

// ---- the program ----

// States of one range, by memory, and the choice that takes them where it is cheaper: `ahead` and what comes later and
// sooner. Of the latter the last is all there is where `constant`.
typedef struct Cut {
  float *cost;
  int16_t *choice;
  const float *later, *sooner;
  float ahead;
  int16_t code;
} Cut;

typedef void TakeCut(const Cut *cut, int n, bool constant);

// Eight at a time.
typedef float Costs __attribute__((vector_size(32), aligned(4)));
typedef int32_t Mask __attribute__((vector_size(32)));
typedef int16_t Choices __attribute__((vector_size(16), aligned(2)));

static inline __attribute__((always_inline)) void take_cut(const Cut *cut, int n, bool constant) {
  const float *later = cut->later, *sooner = cut->sooner;
  float ahead = cut->ahead, last = sooner[0];
  int16_t code = cut->code;
  int m = 0;
  for (; m + 8 <= n; m += 8) {
    Costs *cost = (Costs *)(void *)(cut->cost + m), was = *cost,
          sum = ahead + *(const Costs *)(const void *)(later + m);
    Choices *choice = (Choices *)(void *)(cut->choice + m);
    if (constant) sum += last;
    else sum += *(const Costs *)(const void *)(sooner + m);
    Mask cheaper = sum < was;
    Choices takes = __builtin_convertvector(cheaper, Choices);
    *cost = (Costs)(((Mask)sum & cheaper) | ((Mask)was & ~cheaper));
    *choice = (code & takes) | (*choice & ~takes);
  }
  for (; m < n; m++) {
    float sum = ahead + later[m] + (constant ? last : sooner[m]);
    if (sum < cut->cost[m]) cut->cost[m] = sum, cut->choice[m] = code;
  }
}

static void take_cut_portable(const Cut *cut, int n, bool constant) {
  if (constant) take_cut(cut, n, true);
  else take_cut(cut, n, false);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void take_cut_avx2(const Cut *cut, int n, bool constant) {
  if (constant) take_cut(cut, n, true);
  else take_cut(cut, n, false);
}
#endif

static TakeCut *choose_take_cut(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx2")) return take_cut_avx2;
#endif
  return take_cut_portable;
}

typedef struct Solve {
  ChainTable *table;
  const double *ahead;   // cost of running stages before each
  int64_t *gain;         // Owned; scratch: chain_gain of a range, by cut
  TakeCut *take_cut;
} Solve;

static void update(ChainTable *table, size_t at, int m, float cost, int choice) {
  if (cost < table->cost[at + (size_t)m]) {
    table->cost[at + (size_t)m] = cost;
    table->choice[at + (size_t)m] = (int16_t)choice;
  }
}

static void solve_leaf(const Solve *solve, int i, int right) {
  ChainTable *table = solve->table;
  const ChainStage *stage = &table->chain->stages[i];
  int64_t other = table->chain->stages[i + 1].other;
  int64_t need = stage->leaf + other > stage->backward ? stage->leaf + other : stage->backward;
  if (stage->leaf_cost[right] == 0) need = stage->backward;
  int least = chain_units(table, need) - (right ? chain_units(table, stage->kept) : 0);
  size_t at = chain_state(table, i, i + 1, right);
  for (int m = least > 0 ? least : 0; m <= table->units; m++)
    update(table, at, m, (float)stage->leaf_cost[right], CHAIN_LEAF);
}

static void solve_hold(const Solve *solve, int i, int j, int right) {
  ChainTable *table = solve->table;
  const Chain *chain = table->chain;
  const ChainStage *stage = &chain->stages[i];
  size_t at = chain_state(table, i, j, right), rest = chain_state(table, i + 1, j, right);
  int after = chain_units(table, chain_gain(chain, i, i + 1, j)) +
              (right ? chain_units(table, chain->stages[j - 1].kept) : 0);
  for (int o = 0; o < stage->n_options; o++) {
    const ChainOption *option = &stage->options[o];
    int held = chain_units(table, chain_option_held(chain, i, j, o));
    int least = chain_units(table, option->forward + chain->stages[j].other);
    int least_after = chain_units(table, stage->backward) - after;
    if (least_after > least) least = least_after;
    if (held > least) least = held;
    float cost = (float)(option->make + option->remake);
    for (int m = least; m <= table->units; m++)
      update(table, at, m, cost + table->cost[rest + (size_t)(m - held)], CHAIN_HOLD - o);
  }
}

// What a cut at k of stages [i, j) needs, in units of memory.
typedef struct CutUnits {
  int least, held, kept, gain;
} CutUnits;

static void solve_cut(const Solve *solve, int i, int k, int j, int right, const CutUnits *need) {
  ChainTable *table = solve->table;
  const ChainStage *before = &table->chain->stages[k - 1];
  int units = table->units;
  int gain = need->gain + (right ? chain_units(table, table->chain->stages[j - 1].kept) : 0);
  size_t at = chain_state(table, i, j, right), rest = chain_state(table, k, j, right);
  watch_count(table->chain->graph->problem, 30 + units);
  for (int stay = 0; stay < 2; stay++) {
    const float *sooner = table->cost + chain_state(table, i, k, stay);
    int shift = gain - (stay ? need->kept : 0), m = need->least;
    if (stay && need->kept == 0 && before->leaf_cost[0] == before->leaf_cost[1]) break;
    if (m < -shift) m = -shift;
    int middle = units - (shift > 0 ? shift : 0);   // from there on there is more memory than the table has
    for (int part = 0; part < 2; part++) {
      int end = part ? units : middle;
      if (m > end) continue;
      Cut cut = {.cost = table->cost + at + m,
                 .choice = table->choice + at + m,
                 .later = table->cost + rest + m - need->held,
                 .sooner = sooner + (part ? units : m + shift),
                 .ahead = (float)(solve->ahead[k] - solve->ahead[i]),
                 .code = (int16_t)(2 * (k - i) + stay)};
      solve->take_cut(&cut, end - m + 1, part);
      m = end + 1;
    }
  }
}

// chain_gain(i, k, j) of all cuts k.
static void list_gains(const Solve *solve, int i, int j) {
  const ChainStage *stage = &solve->table->chain->stages[i];
  memset(solve->gain + i, 0, (size_t)(j - i) * sizeof *solve->gain);
  for (int c = 0; c < stage->n_crossing; c++) {
    const ChainCrossing *crossing = &stage->crossing[c];
    if (!crossing->early && crossing->next_use < j) solve->gain[crossing->next_use] += crossing->bytes;
  }
  for (int k = j - 2; k > i; k--) solve->gain[k] += solve->gain[k + 1];
}

static void solve_cuts(const Solve *solve, int i, int j) {
  const ChainTable *table = solve->table;
  const Chain *chain = table->chain;
  int64_t peak = 0, other = chain->stages[j].other, forward = 0;   // forward: held at the cut before
  list_gains(solve, i, j);
  for (int k = i + 1; k < j; k++) {
    int64_t run = forward + chain->stages[k - 1].run;
    if (run > peak) peak = run;
    if (chain_units(table, peak + other) > table->units) break;
    int64_t held = chain_held(chain, i, k, j, &forward);
    CutUnits need = {.least = chain_units(table, peak + held - forward + other),
                     .held = chain_units(table, held),
                     .kept = chain_units(table, chain->stages[k - 1].kept),
                     .gain = chain_units(table, solve->gain[k])};
    if (need.least < need.held) need.least = need.held;
    for (int right = 0; right < 2; right++) solve_cut(solve, i, k, j, right, &need);
  }
}

static void solve_range(const Solve *solve, int i, int j) {
  ChainTable *table = solve->table;
  for (int right = 0; right < 2; right++) {
    size_t at = chain_state(table, i, j, right);
    for (int m = 0; m <= table->units; m++) {
      table->cost[at + (size_t)m] = INFINITY;
      table->choice[at + (size_t)m] = CHAIN_INFEASIBLE;
    }
    if (j == i + 1) solve_leaf(solve, i, right);
    else solve_hold(solve, i, j, right);
  }
  solve_cuts(solve, i, j);
}

// Solves the states, shorter ranges first. False when it was told to give up.
static bool solve_all(Solve *solve, const int *slot, bool *solved, bool (*ends)(void *context), void *context) {
  int n = solve->table->chain->n;
  for (int length = 1; length <= n; length++)
    for (int i = 0; i + length <= n; i++) {
      int at = slot[i * (n + 1) + i + length];
      if (solved[at]) continue;
      if (ends && ends(context)) return false;
      solve_range(solve, i, i + length);
      solved[at] = true;
    }
  return true;
}

ChainTable chain_solve(const Chain *chain, int units, double unit_bytes, bool (*ends)(void *context), void *context) {
  int n = chain->n;
  ChainTable table = {.chain = chain, .units = units, .unit_bytes = unit_bytes};
  table.slot = allocate_array((size_t)(n + 1) * (size_t)(n + 1), sizeof(int));
  table.n_slots = share_slots(chain, table.slot);
  size_t states = (size_t)table.n_slots * 2 * (size_t)(units + 1);
  table.cost = allocate_array(states, sizeof *table.cost);
  table.choice = allocate_array(states, sizeof *table.choice);
  double *ahead = allocate_array((size_t)n + 1, sizeof *ahead);
  for (int s = 0; s < n; s++) ahead[s + 1] = ahead[s] + chain->stages[s].run_cost;
  bool *solved = allocate_array((size_t)table.n_slots, sizeof *solved);
  Solve solve = {.table = &table,
                 .ahead = ahead,
                 .gain = allocate_array((size_t)n + 1, sizeof(int64_t)),
                 .take_cut = choose_take_cut()};
  if (!solve_all(&solve, table.slot, solved, ends, context))
    for (size_t i = 0; i < states; i++) table.cost[i] = INFINITY, table.choice[i] = CHAIN_INFEASIBLE;
  free(solved);
  free(solve.gain);
  free(ahead);
  return table;
}

void chain_table_free(ChainTable *table) {
  free(table->slot);
  free(table->cost);
  free(table->choice);
  *table = (ChainTable){0};
}

double chain_work(const Chain *chain, int units) {
  int n = chain->n;
  int *slot = allocate_array((size_t)(n + 1) * (size_t)(n + 1), sizeof(int));
  int n_slots = share_slots(chain, slot);
  bool *seen = allocate_array((size_t)n_slots, sizeof *seen);
  double work = 0;
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j <= n; j++) {
      if (!seen[slot[i * (n + 1) + j]]) work += 4.0 * (j - i) * (units + 16);
      seen[slot[i * (n + 1) + j]] = true;
    }
  free(seen);
  free(slot);
  return work;
}

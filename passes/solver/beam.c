// beam.c: schedules made from beginning to end under the budget. Nodes execute in a given order; what is missing for
// the next one is made again, and values give way when room is needed. A few states go on from each execution to the
// next, those with the least cost so far and certain to come (beam search: Lowerre 1976). Where recomputation must be
// nested, descents from the plain order, which start above the budget, hardly ever arrive within it; these schedules
// never leave it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"
#include "support/alloc.h"

typedef uint64_t Word;

typedef struct BeamState {
  int parent, node;    // the state before, -1: none, and what has executed since
  int position;        // of the beam when it was made
  double cost, rest;   // of what has executed again, and certainly will
  int64_t bytes;       // live, in the search's units
} BeamState;

typedef struct BeamList {
  int *states;   // Owned
  int n;
} BeamList;

typedef struct Beam {
  RematSearch *search;
  const RematState *problem;   // that of the search; its schedule does not matter
  int width, n_words;
  double noise;
  const int *order;    // Borrowed; in which nodes execute first
  int *place;          // Owned; of each node in it
  int *deadline;       // Owned; a node may execute again only before this place
  int position;        // the first place whose node has not executed yet
  BeamState *states;   // Owned
  Word *live;          // Owned; a set of values per state
  int n_states, capacity;
  BeamList open, arrived;   // states on the way to the node at `position`, and that have executed it
  int *current;             // Owned
  Word *values, *pinned;    // Owned; scratch sets
  int stamp;                // Per node: == stamp when its value is needed; when it is needed and not there
  int *needed, *again;      // Owned
  int *stack;               // Owned; scratch
  int *marked, n_marked;    // Owned; what the last call of `need` has marked: nodes, ~ of those that execute again
  int64_t work;             // marks made, less those that count as moves of the search
  int *table, table_size;   // Owned; states by their live values; those of other positions count as free places
  int n_known;              // in the table
} Beam;

static Word *live_of(const Beam *beam, int state) { return beam->live + (size_t)state * (size_t)beam->n_words; }

static bool has(const Word *set, int v) { return set[v >> 6] >> (v & 63) & 1; }

static void add(Word *set, int v) { set[v >> 6] |= (Word)1 << (v & 63); }

// Marks value u as needed, and, where it is not in `live` or is `lost`, as made again, with its inputs in turn. Returns
// the cost of what was not marked as made again before.
static double need(Beam *beam, const Word *live, int u, int lost) {
  const RematState *problem = beam->problem;
  double cost = 0;
  int n = 0;
  if (beam->needed[u] == beam->stamp && u != lost) return 0;
  beam->stack[n++] = u;
  while (n > 0) {
    int v = beam->stack[--n];
    beam->work++;
    if (beam->needed[v] != beam->stamp) {
      beam->needed[v] = beam->stamp;
      beam->marked[beam->n_marked++] = v;
    }
    if ((has(live, v) && v != lost) || beam->place[v] >= beam->position || beam->again[v] == beam->stamp) continue;
    beam->again[v] = beam->stamp;
    beam->marked[beam->n_marked++] = ~v;
    cost += problem->cost_of[v];
    for (int i = problem->input_start[v]; i < problem->input_start[v + 1]; i++)
      if (beam->needed[problem->inputs[i]] != beam->stamp) beam->stack[n++] = problem->inputs[i];
  }
  return cost;
}

static void unmark(Beam *beam) {
  while (beam->n_marked > 0) {
    int v = beam->marked[--beam->n_marked];
    if (v >= 0) beam->needed[v] = 0;
    else beam->again[~v] = 0;
  }
}

// The cost of what is not live and certainly executes again, for the nodes from `position` on. Leaves it marked.
static double mark_needs(Beam *beam, const Word *live) {
  const RematState *problem = beam->problem;
  const RematProblem *nodes = beam->search->problem;
  double cost = 0;
  beam->stamp++;
  for (int at = beam->position; at < problem->n_nodes; at++) {
    int v = beam->order[at];
    for (int i = problem->input_start[v]; i < problem->input_start[v + 1]; i++)
      cost += need(beam, live, problem->inputs[i], -1);
  }
  for (int i = 0; i < nodes->n_outputs; i++) cost += need(beam, live, nodes->outputs[i], -1);
  beam->n_marked = 0;
  return cost;
}

static double total(const Beam *beam, int state) { return beam->states[state].cost + beam->states[state].rest; }

// Whether a state with these values has been met at this position, at no more cost. Otherwise the next state to be made
// takes its place.
static bool is_known(Beam *beam, const Word *live, double cost) {
  uint64_t hash = 0;
  for (int i = 0; i < beam->n_words; i++) {
    hash = (hash ^ live[i]) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 29;
  }
  for (unsigned at = (unsigned)(hash >> 33);; at++) {
    int *place = &beam->table[at & (unsigned)(beam->table_size - 1)], state = *place;
    bool is_free = state >= beam->n_states || beam->states[state].position != beam->position;
    if (!is_free && memcmp(live_of(beam, state), live, (size_t)beam->n_words * sizeof(Word)) != 0) continue;
    if (!is_free && beam->states[state].cost <= cost) return true;
    beam->n_known += is_free;
    if (!is_free || 2 * beam->n_known < beam->table_size) *place = beam->n_states;
    return false;
  }
}

static void arrive(Beam *beam, BeamList *list, BeamState state, const Word *live) {
  if (beam->n_states == beam->capacity) {
    beam->capacity = 2 * beam->capacity + 1024;
    beam->states = reallocate_array(beam->states, (size_t)beam->capacity, sizeof(BeamState));
    beam->live = reallocate_array(beam->live, (size_t)beam->capacity * (size_t)beam->n_words, sizeof(Word));
  }
  memcpy(live_of(beam, beam->n_states), live, (size_t)beam->n_words * sizeof(Word));
  beam->states[beam->n_states] = state;
  list->states[list->n++] = beam->n_states++;
}

// What executes next: the node at `position`, or what is missing for it. What the nodes on the way read is pinned.
static int next_node(Beam *beam, const Word *live) {
  const RematState *problem = beam->problem;
  memset(beam->pinned, 0, (size_t)beam->n_words * sizeof(Word));
  for (int v = beam->order[beam->position], missing;; v = missing) {
    missing = -1;
    for (int i = problem->input_start[v]; i < problem->input_start[v + 1]; i++) {
      int u = problem->inputs[i];
      add(beam->pinned, u);
      if (!has(live, u) && (missing < 0 || beam->place[u] < beam->place[missing])) missing = u;
    }
    if (missing < 0) return v;
  }
}

enum { WAYS = 6 };            // to make room, tried from each state
enum { WORK_OF_MOVE = 64 };   // so many marks take the time of a move

// The values that may give way, those first that are the cheapest to make again per byte. Returns how many.
static int list_losses(Beam *beam, const Word *live, int64_t missing, int *values) {
  const RematState *problem = beam->problem;
  double scores[WAYS];
  int n = 0;
  mark_needs(beam, live);
  for (int at = 0; at < beam->position; at++) {
    int v = beam->order[at];
    if (problem->bytes[v] == 0 || !has(live, v) || has(beam->pinned, v)) continue;
    double cost = 0;
    if (beam->needed[v] == beam->stamp) {
      // Nothing asks for an output at the end.
      if (!problem->recomputable[v] || problem->graph->is_output[v] || beam->deadline[v] <= beam->position) continue;
      cost = need(beam, live, v, v);
      unmark(beam);
    }
    double score = cost / (double)(problem->bytes[v] < missing ? problem->bytes[v] : missing);
    if (beam->noise > 0) score *= exp(beam->noise * (2 * remat_random_unit(&beam->search->random) - 1));
    int k = n < WAYS ? n++ : WAYS;
    if (k == WAYS && scores[--k] <= score) continue;
    for (; k > 0 && scores[k - 1] > score; k--) scores[k] = scores[k - 1], values[k] = values[k - 1];
    scores[k] = score;
    values[k] = v;
  }
  watch_count(beam->search->problem, 3 * beam->work);
  beam->search->moves += beam->work / WORK_OF_MOVE;
  beam->work %= WORK_OF_MOVE;
  return n;
}

// Takes values away until `most` bytes are left: that of place `way` in the list first, then always the first one.
static bool make_room(Beam *beam, Word *live, int64_t *bytes, int64_t most, int way) {
  int values[WAYS];
  for (; *bytes > most; way = 0) {
    if (way >= list_losses(beam, live, *bytes - most, values)) return false;
    live[values[way] >> 6] &= ~((Word)1 << (values[way] & 63));
    *bytes -= beam->problem->bytes[values[way]];
  }
  return true;
}

static void expand(Beam *beam, int state) {
  const RematState *problem = beam->problem;
  int node = next_node(beam, live_of(beam, state));
  bool arrives = node == beam->order[beam->position];
  if (!arrives && (!problem->recomputable[node] || beam->deadline[node] <= beam->position)) return;
  int64_t most = problem->budget - problem->bytes[node] - problem->workspace[node];
  bool fits = beam->states[state].bytes <= most;
  for (int way = 0; way < (fits ? 1 : WAYS); way++) {
    BeamState next = beam->states[state];
    next.parent = state;
    next.node = node;
    next.position = beam->position;
    memcpy(beam->values, live_of(beam, state), (size_t)beam->n_words * sizeof(Word));
    if (!make_room(beam, beam->values, &next.bytes, most, way)) return;
    add(beam->values, node);
    next.bytes += problem->bytes[node];
    if (!arrives) next.cost += problem->cost_of[node];
    beam->position += arrives;
    next.rest = mark_needs(beam, beam->values);
    beam->position -= arrives;
    if (!is_known(beam, beam->values, next.cost))
      arrive(beam, arrives ? &beam->arrived : &beam->open, next, beam->values);
  }
}

// Keeps the best states of a list, in order: none that are as bad as `worst`.
static void narrow(const Beam *beam, BeamList *list, double worst) {
  int n = 0;
  for (int i = 0; i < list->n; i++) {
    int state = list->states[i];
    if (total(beam, state) >= worst) continue;
    int k = n < beam->width ? n++ : beam->width;
    if (k == beam->width && total(beam, list->states[--k]) <= total(beam, state)) continue;
    for (; k > 0 && total(beam, list->states[k - 1]) > total(beam, state); k--) list->states[k] = list->states[k - 1];
    list->states[k] = state;
  }
  list->n = n;
}

// From the states that have executed all nodes before `position` to those that have executed that one, too.
static void execute_next(Beam *beam) {
  BeamList from = beam->arrived;
  beam->arrived = beam->open;
  beam->open = from;
  beam->arrived.n = 0;
  beam->n_known = 0;
  int steps = beam->problem->n_nodes;   // more would go round in circles
  for (; beam->open.n > 0 && steps > 0 && !remat_search_descent_ends(beam->search); steps--) {
    int n = beam->open.n;
    memcpy(beam->current, beam->open.states, (size_t)n * sizeof(int));
    beam->open.n = 0;
    for (int i = 0; i < n; i++) expand(beam, beam->current[i]);
    narrow(beam, &beam->arrived, INFINITY);
    bool is_full = beam->arrived.n == beam->width;
    narrow(beam, &beam->open, is_full ? total(beam, beam->arrived.states[beam->width - 1]) : INFINITY);
  }
}

static void load(const Beam *beam, int state) {
  int n = 0;
  for (int s = state; beam->states[s].parent >= 0; s = beam->states[s].parent) n++;
  int *exec = allocate_array((size_t)n, sizeof *exec), at = n;
  for (int s = state; beam->states[s].parent >= 0; s = beam->states[s].parent) exec[--at] = beam->states[s].node;
  remat_state_load(&beam->search->state, exec, n);
  free(exec);
}

static Beam create(RematSearch *search, const int *order, int width, double noise) {
  const RematState *problem = &search->state;
  size_t n = (size_t)problem->n_nodes, n_list = (size_t)width * (WAYS + 1), n_words = (n + 63) / 64;
  Beam beam =
      {.search = search, .problem = problem, .order = order, .width = width, .n_words = (int)n_words, .noise = noise};
  beam.place = allocate_array(n, sizeof(int));
  beam.deadline = allocate_array(n, sizeof(int));
  for (int at = 0; at < problem->n_nodes; at++) beam.place[order[at]] = at;
  for (int v = 0; v < problem->n_nodes; v++) {
    beam.deadline[v] = problem->n_nodes;
    for (int i = problem->after_start[v]; i < problem->after_start[v + 1]; i++)
      if (beam.place[problem->after[i]] < beam.deadline[v]) beam.deadline[v] = beam.place[problem->after[i]];
  }
  beam.open.states = allocate_array(n_list, sizeof(int));
  beam.arrived.states = allocate_array(n_list, sizeof(int));
  beam.current = allocate_array((size_t)width, sizeof(int));
  beam.values = allocate_array(n_words, sizeof(Word));
  beam.pinned = allocate_array(n_words, sizeof(Word));
  beam.needed = allocate_array(n, sizeof(int));
  beam.again = allocate_array(n, sizeof(int));
  beam.stack = allocate_array((size_t)problem->input_start[n] + 1, sizeof(int));
  beam.marked = allocate_array(2 * n, sizeof(int));
  for (beam.table_size = 1024; beam.table_size < 256 * width; beam.table_size *= 2) continue;
  beam.table = allocate_array((size_t)beam.table_size, sizeof(int));
  return beam;
}

static void release(Beam *beam) {
  free(beam->place);
  free(beam->deadline);
  free(beam->states);
  free(beam->live);
  free(beam->open.states);
  free(beam->arrived.states);
  free(beam->current);
  free(beam->values);
  free(beam->pinned);
  free(beam->needed);
  free(beam->again);
  free(beam->stack);
  free(beam->marked);
  free(beam->table);
}

bool remat_beam_build(RematSearch *search, const int *order, int width, double noise) {
  if (search->graph.n > BEAM_NODES) return false;
  Beam beam = create(search, order, width, noise);
  memset(beam.values, 0, (size_t)beam.n_words * sizeof(Word));
  arrive(&beam, &beam.arrived, (BeamState){.parent = -1, .node = -1, .position = -1}, beam.values);
  while (beam.position < beam.problem->n_nodes && beam.arrived.n > 0) {
    execute_next(&beam);
    beam.position++;
  }
  bool found = beam.arrived.n > 0;
  if (found) load(&beam, beam.arrived.states[0]);
  release(&beam);
  return found;
}

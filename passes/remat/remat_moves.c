// A function's steps together with those that copy values to memory far away and back. The copies are steps behind the
// function's own, so that a sequence names them like these, and a layout finds lifetimes and bytes of both tiers.
#include <stdlib.h>
#include <string.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"
#include "support/bytes.h"

static int *none(size_t n) {
  int *list = allocate_array(n, sizeof *list);
  for (size_t i = 0; i < n; i++) list[i] = -1;
  return list;
}

// A value like `like`, in the tier told, made by `def`.
static int add_value(RematMoves *m, int like, bool far, int def) {
  PlanProgram *p = &m->p;
  if (p->n_values == m->capacity) {
    m->capacity = 2 * p->n_values + 16;
    p->values = reallocate_array(p->values, (size_t)m->capacity, sizeof *p->values);
  }
  int id = p->n_values++;
  p->values[id] = (PlanValue){.value = p->values[like].value,
                              .bytes = p->values[like].bytes,
                              .root = id,
                              .def = def,
                              .arg = -1,
                              .far = far,
                              .inplace = -1};
  return id;
}

static int add_copy(RematMoves *m, NnLane lane, int from, int to) {
  PlanProgram *p = &m->p;
  enum { MORE = 64 };
  if ((p->n_steps - m->n_steps) % MORE == 0) {
    p->steps = reallocate_array(p->steps, (size_t)p->n_steps + MORE, sizeof *p->steps);
    m->from = reallocate_array(m->from, (size_t)(p->n_steps - m->n_steps) + MORE, sizeof *m->from);
  }
  m->from[p->n_steps - m->n_steps] = from;
  p->steps[p->n_steps] =
      (PlanStep){.role = NN_STEP_RUN, .lane = lane, .kernel = -1, .n_inputs = 1, .n_results = 1, .first_result = to};
  return p->n_steps++;
}

// What reads an argument whose home is far reads the near copy that is fetched of it.
static void read_near(RematMoves *m, const PlanProgram *p) {
  int n = 0;
  for (int i = 0; i < p->n_steps; i++) n += p->steps[i].n_inputs;
  m->p.input_pool = allocate_array((size_t)n, sizeof *m->p.input_pool);
  int *pool = m->p.input_pool;
  for (int i = 0; i < p->n_steps; i++) {
    m->p.steps[i].inputs = pool;
    for (int j = 0; j < p->steps[i].n_inputs; j++) {
      int v = p->steps[i].inputs[j];
      *pool++ = v < p->n_args && m->near[v] >= 0 ? m->near[v] : v;
    }
  }
  for (int v = p->n_args; v < p->n_values; v++) {
    int root = p->values[v].root;
    if (root < p->n_args && m->near[root] >= 0) m->p.values[v].root = m->near[root];
  }
}

void remat_moves_build(RematMoves *m, const PlanProgram *p, const bool *far_home) {
  *m = (RematMoves){.p = *p, .n_steps = p->n_steps, .n_values = p->n_values, .capacity = p->n_values};
  size_t values = (size_t)p->n_values, steps = (size_t)p->n_steps, results = (size_t)p->n_results;
  m->p.values = allocate_array(values, sizeof *m->p.values);
  m->p.steps = allocate_array(steps, sizeof *m->p.steps);
  m->p.result = allocate_array(results, sizeof *m->p.result);
  memcpy(m->p.values, p->values, values * sizeof *m->p.values);
  if (steps) memcpy(m->p.steps, p->steps, steps * sizeof *m->p.steps);
  if (results) memcpy(m->p.result, p->result, results * sizeof *m->p.result);
  m->near = none((size_t)p->n_args);
  m->fetched = none(values);
  m->stored = none(values);
  m->far = none(values);
  for (int a = 0; a < p->n_args; a++) {
    if (!far_home || !far_home[a]) continue;
    m->p.values[a].far = true;
    m->far[a] = a;
    m->near[a] = add_value(m, a, false, -1);
  }
  read_near(m, p);
}

int remat_moves_fetch(RematMoves *m, int value) {
  if (m->fetched[value] >= 0) return m->fetched[value];
  if (m->far[value] < 0) remat_bug("value %d is fetched and not far", value);
  bool home = value < m->p.n_args && m->near[value] >= 0;
  m->fetched[value] = add_copy(m, NN_LANE_IN, m->far[value], home ? m->near[value] : value);
  if (home) m->p.values[m->near[value]].def = m->fetched[value];
  return m->fetched[value];
}

int remat_moves_store(RematMoves *m, int value) {
  if (m->stored[value] >= 0) return m->stored[value];
  m->far[value] = add_value(m, value, true, m->p.n_steps);
  m->stored[value] = add_copy(m, NN_LANE_OUT, value, m->far[value]);
  return m->stored[value];
}

int remat_moves_store_update(RematMoves *m, int result) {
  int value = m->p.values[m->p.result[result]].root;
  if (m->p.values[value].far) remat_bug("result %d is stored twice", result);
  int step = remat_moves_store(m, value);
  m->p.result[result] = m->far[value];
  return step;
}

void remat_moves_end(RematMoves *m) {
  for (int i = m->n_steps; i < m->p.n_steps; i++) m->p.steps[i].inputs = &m->from[i - m->n_steps];
}

void remat_moves_free(RematMoves *m) {
  free(m->p.values);
  free(m->p.steps);
  free(m->p.result);
  free(m->p.input_pool);
  free(m->near);
  free(m->fetched);
  free(m->stored);
  free(m->far);
  free(m->from);
  *m = (RematMoves){0};
}

PlanBase remat_base(const PlanProgram *p, int64_t persistent_bytes) {
  PlanBase base = {persistent_bytes, 0};
  for (int a = 0; a < p->n_args; a++) {
    if (!p->values[a].persistent || !p->values[a].far) continue;
    base.near -= plan_align(p, p->values[a].bytes);
    base.far += far_blocks(p->values[a].bytes);
  }
  return base;
}

// Each persistent argument gets bytes of its own, as it has in the end: otherwise all would wait for each other.
static void place_arguments(const PlanProgram *p, PlanLayout *l) {
  int64_t near = 0, far = FAR_ADDRESS;
  for (int a = 0; a < p->n_args; a++) {
    PlanBuffer *b = &l->buffers[l->instances[a].buffer];
    if (!b->persistent) continue;
    b->offset = b->far ? far : near;
    if (b->far) far += far_blocks(b->bytes);
    else near += plan_align(p, b->bytes);
  }
}

double remat_moves_seconds(const RematMoves *m, PlanLayout *l, const PlanBase *base, const double *step_seconds,
                           const NnFarRates *rates) {
  double *seconds = allocate_array((size_t)l->n, sizeof *seconds), drag = 0;
  for (int i = 0; i < l->n; i++) {
    const PlanStep *s = &m->p.steps[l->exec[i]];
    if (l->exec[i] >= m->n_steps) {
      seconds[i] = nn_far_seconds(rates, s->lane == NN_LANE_OUT, (double)m->p.values[s->first_result].bytes, &drag);
      continue;
    }
    seconds[i] = step_seconds[l->exec[i]] + drag;
    drag = 0;
  }
  place_arguments(&m->p, l);
  double end = plan_layout_makespan(&m->p, l, base, seconds);
  free(seconds);
  return end;
}

// Lifetimes and offsets for one sequence of executions. The same routine serves the passes `inplace` and `plan`, which
// run on the function as it stands, and `remat`, which asks for the arena of sequences it has not written yet.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "passes/solver/solver.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/input_error.h"
#include "support/integers.h"
#include "support/text.h"

static int step_at(const PlanLayout *l, int position) { return l->exec ? l->exec[position] : position; }

static int max_int(int a, int b) { return a > b ? a : b; }

// ---------------------------------------------------------------------------------------------------------------------
// Instances: who is made where, and read last where. `current[root]` is the latest instance of a value's buffer. What a
// step makes only when it first runs has an empty instance at the others.

static bool makes(const PlanStep *s, int result, bool first) { return first || !s->again || s->again[result]; }
static bool reads(const PlanStep *s, int input, bool first) {
  return first || !s->reads_again || s->reads_again[input];
}

static void find_lifetimes(const PlanProgram *p, PlanLayout *l, int *current) {
  int n_results = 0;
  for (int i = 0; i < l->n; i++) n_results += p->steps[step_at(l, i)].n_results;
  l->instances = allocate_array((size_t)(p->n_args + n_results), sizeof *l->instances);
  l->first_instance = allocate_array((size_t)l->n, sizeof *l->first_instance);
  l->again = allocate_array((size_t)l->n, sizeof *l->again);
  bool *seen = allocate_array((size_t)p->n_steps, sizeof *seen);
  for (int a = 0; a < p->n_args; a++) {
    l->instances[l->n_instances] = (PlanInstance){.value = a, .last_use = -1, .buffer = -1, .inplace = -1};
    current[a] = l->n_instances++;
  }
  for (int i = 0; i < l->n; i++) {
    const PlanStep *s = &p->steps[step_at(l, i)];
    l->again[i] = seen[step_at(l, i)];
    seen[step_at(l, i)] = true;
    for (int j = 0; j < s->n_inputs; j++) {
      if (!reads(s, j, !l->again[i])) continue;
      int instance = current[p->values[s->inputs[j]].root];
      assert(instance >= 0);
      PlanInstance *read = &l->instances[instance];
      if (read->first_use == l->n && s->lane != NN_LANE_COMM && s->role != NN_STEP_TAP) read->first_use = i;
      read->last_use = i;
      read->read = true;
    }
    l->first_instance[i] = l->n_instances;
    for (int r = 0; r < s->n_results; r++) {
      l->instances[l->n_instances] = (PlanInstance){
          .value = s->first_result + r, .position = i, .first_use = l->n, .last_use = i, .buffer = -1, .inplace = -1};
      if (makes(s, r, !l->again[i])) current[s->first_result + r] = l->n_instances;
      l->n_instances++;
    }
  }
  free(seen);
  for (int r = 0; r < p->n_results; r++) {
    const PlanValue *v = &p->values[p->result[r]];
    l->result_instance[r] = current[v->root];
    l->result_shift[r] = v->shift;
  }
}

// A tied update that is computed into its argument's buffer does not count as returned: nothing of its own is kept.
// first_tied holds, per instance, the first tied result that it is, -1 for none; returned_arg holds, per argument,
// whether its old value is returned.
static bool update_in_place(PlanProgram *p, const PlanLayout *l, int r, const int *first_tied,
                            const bool *returned_arg) {
  int arg = p->tied[r];
  const PlanInstance *made = &l->instances[l->result_instance[r]], *old = &l->instances[arg];
  const PlanValue *returned = &p->values[p->result[r]], *root = &p->values[made->value];
  if (made->value == arg) return true;
  if (root->arg >= 0 || returned->shift != 0 || returned->bytes != root->bytes || root->bytes != p->values[arg].bytes)
    return false;
  if (returned_arg[arg] || root->far != p->values[arg].far) return false;
  if (first_tied[l->result_instance[r]] != r) return false;   // it has another home
  if (old->last_use > made->position) return false;
  if (old->last_use < made->position) return true;
  int step = step_at(l, made->position);
  const PlanStep *s = &p->steps[step];
  for (int o = 0; o < s->n_inputs; o++)
    if (p->values[s->inputs[o]].root == arg && !plan_inplace_allowed(p, step, made->value - s->first_result, o))
      return false;
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Buffers

static int add_buffer(PlanLayout *l, int64_t bytes, int lower, int upper) {
  l->buffers[l->n_buffers] = (PlanBuffer){.bytes = bytes, .lower = lower, .upper = upper, .within = -1};
  return l->n_buffers++;
}

static int add_value_buffer(const PlanProgram *p, PlanLayout *l, int value, int lower, int upper) {
  int b = add_buffer(l, p->values[value].bytes, lower, upper);
  l->buffers[b].persistent = p->values[value].persistent;
  l->buffers[b].far = p->values[value].far;
  return b;
}

// The operand whose buffer result r of the step at `position` takes over, -1: none. `operands` holds the operands'
// instances.
static int choose_inplace(PlanProgram *p, const PlanLayout *l, int position, int r, const int *operands,
                          PlanInplace mode) {
  int step = step_at(l, position);
  const PlanStep *s = &p->steps[step];
  int64_t bytes = p->values[s->first_result + r].bytes;
  for (int o = 0; o < s->n_inputs; o++) {
    const PlanInstance *old = &l->instances[operands[o]];
    const PlanValue *root = &p->values[old->value];
    if (!reads(s, o, !l->again[position])) continue;
    if (mode == PLAN_INPLACE_READ && p->values[s->first_result + r].inplace != o) continue;
    if (old->last_use != position || root->persistent || root->bytes != bytes) continue;
    if (root->far != p->values[s->first_result + r].far) continue;
    if (p->values[s->inputs[o]].bytes != bytes) continue;
    bool free_to_take = true;
    for (int q = 0; q < r; q++) {
      int other = l->instances[l->first_instance[position] + q].inplace;
      free_to_take &= other < 0 || operands[other] != operands[o];
    }
    for (int q = 0; q < s->n_inputs && free_to_take; q++)
      if (operands[q] == operands[o]) free_to_take = plan_inplace_allowed(p, step, r, q);
    if (free_to_take) return o;
  }
  return -1;
}

// The workspace of the step at `position`. Those of the lane comm are one: its steps run one after the other, but
// beside what stands between them in the order.
static int add_workspace(const PlanProgram *p, PlanLayout *l, int position, int *of_comm) {
  const PlanStep *s = &p->steps[step_at(l, position)];
  if (s->workspace <= 0) return -1;
  if (s->packs_once) return add_buffer(l, s->workspace, 0, l->n);
  if (s->lane != NN_LANE_COMM) return add_buffer(l, s->workspace, position, position + 1);
  if (*of_comm < 0) *of_comm = add_buffer(l, s->workspace, position, position + 1);
  PlanBuffer *b = &l->buffers[*of_comm];
  if (b->bytes < s->workspace) b->bytes = s->workspace;
  return *of_comm;
}

// Per position of a step of the lane comm: where others first wait for it, which is where they read its result, or that
// of one behind it on the lane; where nobody does, as while micro-batches are added up, where a sum begins so many
// later as are under way elsewhere. Owned: free().
static int *find_ends(const PlanProgram *p, const PlanLayout *l) {
  int *end = allocate_array((size_t)l->n + 1, sizeof *end), first = l->n, sums[PLAN_SUMS_AHEAD];
  for (int i = 0; i < PLAN_SUMS_AHEAD; i++) sums[i] = l->n;   // that begin next, the last first
  for (int i = l->n - 1; i >= 0; i--) {
    const PlanStep *s = &p->steps[step_at(l, i)];
    if (s->lane != NN_LANE_COMM) continue;
    for (int r = 0; r < s->n_results; r++) {
      int use = l->instances[l->first_instance[i] + r].first_use;
      if (use < first) first = use;
    }
    end[i] = first < l->n ? first : sums[0];
    if (!plan_is_sum_over_ranks(s)) continue;
    memmove(sums, sums + 1, sizeof sums - sizeof *sums);
    sums[PLAN_SUMS_AHEAD - 1] = i;
  }
  return end;
}

// A step of the lane comm runs while others do: what it works with keeps its bytes until they wait for it.
static void hold_exchange(const PlanProgram *p, PlanLayout *l, int position, int until, const int *operands) {
  const PlanStep *s = &p->steps[step_at(l, position)];
  if (s->lane != NN_LANE_COMM) return;
  for (int o = 0; o < s->n_inputs; o++) {
    PlanBuffer *b = &l->buffers[l->instances[operands[o]].buffer];
    if (reads(s, o, !l->again[position])) b->upper = max_int(b->upper, until);
  }
  if (l->workspace[position] >= 0)
    l->buffers[l->workspace[position]].upper = max_int(l->buffers[l->workspace[position]].upper, until);
}

static void make_buffers(PlanProgram *p, PlanLayout *l, int *current, const int *home, PlanInplace mode) {
  for (int a = 0; a < p->n_args; a++) {
    PlanInstance *i = &l->instances[a];
    current[a] = a;
    i->buffer = add_value_buffer(p, l, a, 0, max_int(i->last_use, 0) + 1);
  }
  int *operands = NULL, capacity = 0, workspace_of_comm = -1, *end = find_ends(p, l);
  for (int pos = 0; pos < l->n; pos++) {
    const PlanStep *s = &p->steps[step_at(l, pos)];
    if (s->n_inputs > capacity)
      operands = reallocate_array(operands, (size_t)(capacity = s->n_inputs), sizeof *operands);
    for (int o = 0; o < s->n_inputs; o++) operands[o] = current[p->values[s->inputs[o]].root];
    for (int r = 0; r < s->n_results; r++) {
      int id = l->first_instance[pos] + r;
      PlanInstance *i = &l->instances[id];
      if (!makes(s, r, !l->again[pos])) {
        i->buffer = add_buffer(l, 0, pos, pos + 1);
        continue;
      }
      current[i->value] = id;
      if (home[id] >= 0) {
        i->buffer = l->instances[home[id]].buffer;
        for (int o = 0; o < s->n_inputs; o++)
          if (operands[o] == home[id]) i->inplace = o;
      } else if ((i->inplace = choose_inplace(p, l, pos, r, operands, mode)) >= 0) {
        i->buffer = l->instances[operands[i->inplace]].buffer;
      } else {
        i->buffer = add_value_buffer(p, l, i->value, pos, pos + 1);
      }
      PlanBuffer *b = &l->buffers[i->buffer];
      b->upper = max_int(b->upper, i->last_use + 1);
    }
    l->workspace[pos] = add_workspace(p, l, pos, &workspace_of_comm);
    hold_exchange(p, l, pos, end[pos], operands);
    plan_buckets_gather(p, l, pos, s->n_inputs, operands);
  }
  plan_buckets_settle(p, l);
  free(end);
  free(operands);
}

void plan_layout_build(PlanProgram *p, const int *exec, int n, PlanInplace mode, PlanLayout *l) {
  *l = (PlanLayout){.n = n, .exec = exec};
  l->result_instance = allocate_array((size_t)p->n_results, sizeof *l->result_instance);
  l->result_shift = allocate_array((size_t)p->n_results, sizeof *l->result_shift);
  l->copy_back = allocate_array((size_t)p->n_results, sizeof *l->copy_back);
  l->workspace = allocate_array((size_t)n, sizeof *l->workspace);
  int *current = allocate_array((size_t)p->n_values, sizeof *current);
  for (int v = 0; v < p->n_values; v++) current[v] = -1;
  find_lifetimes(p, l, current);
  int *home = allocate_array((size_t)l->n_instances, sizeof *home);   // argument whose buffer an update takes
  int *first_tied = allocate_array((size_t)l->n_instances, sizeof *first_tied);
  bool *returned = allocate_array((size_t)p->n_args, sizeof *returned);
  for (int i = 0; i < l->n_instances; i++) home[i] = first_tied[i] = -1;
  for (int r = p->n_results - 1; r >= 0; r--) {
    if (p->tied[r] >= 0) first_tied[l->result_instance[r]] = r;
    if (l->result_instance[r] < p->n_args) returned[l->result_instance[r]] = true;
  }
  for (int r = 0; r < p->n_results; r++) {
    if (p->tied[r] < 0) continue;
    bool told = mode == PLAN_INPLACE_READ && !mlirAttributeIsNull(nn_result_attr(p->func, r, ATTR_copy_back));
    l->copy_back[r] = told || !update_in_place(p, l, r, first_tied, returned);
    if (!l->copy_back[r] && l->result_instance[r] != p->tied[r]) home[l->result_instance[r]] = p->tied[r];
  }
  for (int r = 0; r < p->n_results; r++) l->instances[l->result_instance[r]].last_use = n;
  l->buffers = allocate_array((size_t)(l->n_instances + n), sizeof *l->buffers);
  make_buffers(p, l, current, home, mode);
  free(home);
  free(first_tied);
  free(returned);
  free(current);
}

// ---------------------------------------------------------------------------------------------------------------------
// Offsets

int64_t plan_buffer_address(const PlanBuffer *b, const PlanBase *base) {
  if (b->persistent) return b->offset;
  return b->far ? FAR_ADDRESS + base->far + b->offset : base->near + b->offset;
}

static int64_t occupied(const PlanProgram *p, const PlanBuffer *b) {
  return b->far ? far_blocks(b->bytes) : plan_align(p, b->bytes);
}

// The buffers of an arena that need an offset. Owned: free().
static OffsetBuffer *list_buffers(const PlanProgram *p, const PlanLayout *l, bool far, int *n) {
  OffsetBuffer *list = allocate_array((size_t)l->n_buffers, sizeof *list);
  *n = 0;
  for (int b = 0; b < l->n_buffers; b++) {
    const PlanBuffer *from = &l->buffers[b];
    if (from->persistent || from->far != far || from->within >= 0) continue;
    list[(*n)++] = (OffsetBuffer){.id = b,
                                  .lower = from->lower,
                                  .upper = from->upper,
                                  .size = from->bytes,
                                  .align = far ? FAR_BLOCK : p->alignment,
                                  .offset = from->offset};
  }
  return list;
}

// Without the persistent part.
static int64_t *live_of(const PlanProgram *p, const PlanLayout *l, bool far) {
  int64_t *live = allocate_array((size_t)l->n + 2, sizeof *live), sum = 0;
  for (int b = 0; b < l->n_buffers; b++) {
    const PlanBuffer *buffer = &l->buffers[b];
    if (buffer->persistent || buffer->far != far || buffer->within >= 0) continue;
    live[buffer->lower] += occupied(p, buffer);
    live[buffer->upper] -= occupied(p, buffer);
  }
  for (int i = 0; i <= l->n; i++) live[i] = sum += live[i];
  return live;
}

static int64_t peak_of(const PlanProgram *p, const PlanLayout *l, bool far) {
  int64_t *live = live_of(p, l, far), peak = 0;
  for (int i = 0; i <= l->n; i++)
    if (live[i] > peak) peak = live[i];
  free(live);
  return peak;
}

int64_t *plan_layout_live(const PlanProgram *p, const PlanLayout *l) { return live_of(p, l, false); }
int64_t plan_layout_peak(const PlanProgram *p, const PlanLayout *l) { return peak_of(p, l, false); }

// The result has the arena and its lower bound.
static OffsetResult place_arena(const PlanProgram *p, PlanLayout *l, bool far, int64_t capacity, int64_t work) {
  int n;
  OffsetBuffer *list = list_buffers(p, l, far, &n);
  OffsetResult result = {0};
  InputError error;
  if (n == 0) {
    free(list);
    return result;
  }
  // Close to the lower bound is good enough, unless a budget asks for more; where none can be met the first placement
  // tells enough.
  int64_t peak = peak_of(p, l, far), goal = peak + peak / 1024;
  OffsetOptions options = {.seed = 1, .capacity = capacity > 0 && capacity < goal ? capacity : goal, .max_work = work};
  if (capacity > 0 && capacity < peak) options.max_work = -1;
  bool ok = offsets_assign(list, n, &options, &result, &error) && offsets_verify(list, n, result.arena_bytes, &error);
  if (!ok) {
    fprintf(stderr, "internal error: memory plan: %s\n", error.message);
    abort();
  }
  for (int i = 0; i < n; i++) l->buffers[list[i].id].offset = list[i].offset;
  free(list);
  return result;
}

void plan_layout_place(const PlanProgram *p, PlanLayout *l, int64_t capacity, int64_t work) {
  OffsetResult near = place_arena(p, l, false, capacity, work), far = place_arena(p, l, true, 0, work);
  l->arena = near.arena_bytes, l->live = near.lower_bound;
  l->far_arena = far.arena_bytes, l->far_live = far.lower_bound;
  for (int b = l->n_buffers - 1; b >= 0; b--)   // a bucket comes behind its parts
    if (l->buffers[b].within >= 0) l->buffers[b].offset = l->buffers[l->buffers[b].within].offset + l->buffers[b].shift;
}

// A buffer has one place, whichever of the values in it tells. `known` holds, per buffer, whether one has.
static bool take_place(PlanLayout *l, bool *known, const PlanBase *base, int buffer, int64_t address) {
  PlanBuffer *b = &l->buffers[buffer];
  if (b->persistent) return true;
  int64_t offset = b->far ? address - FAR_ADDRESS - base->far : address - base->near;
  bool fits = offset >= 0 && is_far_address(address) == b->far && (!known[buffer] || b->offset == offset);
  known[buffer] = true;
  b->offset = offset;
  return fits;
}

static bool take_all_places(const PlanProgram *p, PlanLayout *l, const PlanBase *base, bool *known) {
  int64_t *address = allocate_array((size_t)(p->n_args + p->n_values) + 1, sizeof *address);
  bool ok = nn_attr_i64s(p->func, ATTR_placed, address, p->n_args + 1) == p->n_args;
  for (int a = 0; a < p->n_args && ok; a++) ok = take_place(l, known, base, l->instances[a].buffer, address[a]);
  for (int i = 0; i < p->n_steps && ok; i++) {
    const PlanStep *s = &p->steps[i];
    if (s->n_results) ok = nn_attr_i64s(s->op, ATTR_offset, address, s->n_results + 1) == s->n_results;
    for (int r = 0; r < s->n_results && ok; r++)
      ok = take_place(l, known, base, l->instances[l->first_instance[i] + r].buffer, address[r]);
    if (ok && l->workspace[i] >= 0)
      ok = take_place(l, known, base, l->workspace[i], nn_attr_i64(s->op, ATTR_workspace, -1));
  }
  for (int b = 0; b < l->n_buffers && ok; b++) {
    const PlanBuffer *part = &l->buffers[b];
    ok = part->within < 0 || part->offset == l->buffers[part->within].offset + part->shift;
  }
  free(address);
  return ok;
}

// Where its buffers have offsets. False: some lie over others.
static bool measure_arena(const PlanProgram *p, const PlanLayout *l, bool far, int64_t *arena, int64_t *live) {
  InputError error;
  int n;
  OffsetBuffer *list = list_buffers(p, l, far, &n);
  *arena = 0;
  *live = peak_of(p, l, far);
  for (int i = 0; i < n; i++) {
    int64_t end = list[i].offset + list[i].size;
    if (end > *arena) *arena = end;
  }
  *arena = far ? far_blocks(*arena) : plan_align(p, *arena);
  bool ok = offsets_verify(list, n, *arena, &error);
  free(list);
  return ok;
}

bool plan_layout_take_places(const PlanProgram *p, PlanLayout *l, const PlanBase *base) {
  bool *known = allocate_array((size_t)l->n_buffers, sizeof *known), ok = take_all_places(p, l, base, known);
  free(known);
  return ok && measure_arena(p, l, false, &l->arena, &l->live) &&
         measure_arena(p, l, true, &l->far_arena, &l->far_live);
}

int plan_layout_buffer(const PlanProgram *p, const PlanLayout *l, int value) {
  int id = p->values[value].root;
  const PlanValue *root = &p->values[id];
  int instance = root->arg >= 0 ? root->arg : l->first_instance[root->def] + id - p->steps[root->def].first_result;
  return l->instances[instance].buffer;
}

int64_t plan_layout_activations(const PlanProgram *p, const PlanLayout *l) {
  int64_t *change = allocate_array((size_t)l->n + 2, sizeof *change), live = 0, most = 0;
  int *rank = allocate_array((size_t)p->n_steps, sizeof *rank);
  for (int i = 0; i < p->n_steps; i++) rank[i] = rewrite_phase_rank(rewrite_phase(p->steps[i].op));
  for (int i = p->n_args; i < l->n_instances; i++) {
    const PlanInstance *made = &l->instances[i];
    const PlanValue *value = &p->values[made->value];
    if (l->buffers[made->buffer].persistent || value->far || rank[value->def] != 0) continue;
    change[made->position] += plan_align(p, value->bytes);
    change[made->last_use < l->n ? made->last_use + 1 : l->n] -= plan_align(p, value->bytes);
  }
  for (int i = 0; i < l->n; i++) {
    live += change[i];
    if (rank[step_at(l, i)] == 1 && live > most) most = live;
  }
  free(change);
  free(rank);
  return most;
}

void plan_layout_free(PlanLayout *l) {
  free(l->instances);
  free(l->first_instance);
  free(l->again);
  free(l->buffers);
  free(l->workspace);
  free(l->parts);
  free(l->result_instance);
  free(l->result_shift);
  free(l->copy_back);
  *l = (PlanLayout){0};
}

// ---------------------------------------------------------------------------------------------------------------------
// Persistent values

char *plan_argument_name(MlirOperation func, int arg) {
  MlirAttribute a = nn_arg_attr(func, arg, ATTR_name);
  if (mlirAttributeIsNull(a) || !mlirAttributeIsAString(a)) return text_format("arg%d", arg);
  return nn_string_copy(mlirStringAttrGetValue(a));
}

const void *plan_argument_key(MlirOperation func, int arg) {
  MlirAttribute own = nn_arg_attr(func, arg, ATTR_name);
  if (!mlirAttributeIsNull(own) && mlirAttributeIsAString(own)) return own.ptr;
  char *name = plan_argument_name(func, arg);
  MlirAttribute unique = mlirStringAttrGet(mlirOperationGetContext(func), nn_string_ref(name));
  free(name);
  return unique.ptr;
}

int64_t plan_persistent_find(const PlanPersistent *p, const void *key, int64_t *bytes) {
  int found = ptr_map_get(&p->ids, key);
  *bytes = found >= 0 ? p->places[found].bytes : 0;
  return found >= 0 ? p->places[found].address : -1;
}

static PlanPlace add_persistent(PlanPersistent *p, const void *key, int64_t bytes, bool far, int64_t alignment) {
  int found = ptr_map_get(&p->ids, key);
  if (found >= 0) {
    assert(p->places[found].bytes == bytes);
    return p->places[found];
  }
  PlanPlace place = {.address = far ? FAR_ADDRESS + p->far_total : p->total, .bytes = bytes};
  ptr_map_set(&p->ids, key, p->n);
  *ARRAY_ADD(p->places, p->n) = place;
  if (far) p->far_total += far_blocks(bytes);
  else p->total += round_up(bytes, alignment);
  return place;
}

void plan_persistent_build(PlanPersistent *p, MlirModule module, const NnTarget *target) {
  int64_t alignment = nn_alignment(target);
  *p = (PlanPersistent){0};
  NnFunctions functions = nn_public_functions(module);
  for (int f = 0; f < functions.n; f++) {
    for (int a = 0, n = nn_function_n_args(functions.items[f]); a < n; a++) {
      char role[16];
      if (!nn_is_persistent_role(nn_arg_str(functions.items[f], a, ATTR_role, role, sizeof role, "input"))) continue;
      NnType t = nn_value_type(mlirBlockGetArgument(nn_function_body(functions.items[f]), a));
      bool far = !mlirAttributeIsNull(nn_arg_attr(functions.items[f], a, ATTR_far));
      PlanPlace place = add_persistent(p, plan_argument_key(functions.items[f], a), nn_type_bytes(&t), far, alignment);
      int64_t end = place.address + round_up(place.bytes, alignment);
      // states go on with a text, also those that predict does not read
      if (!far && strcmp(role, "opt") != 0 && end > p->kept_end) p->kept_end = end;
    }
  }
  if (nn_has_attr(mlirModuleGetOperation(module), ATTR_library)) p->kept_end = p->total;
}

int64_t plan_persistent_end(const PlanPersistent *p, MlirOperation func) {
  char name[16];
  nn_attr_str(func, "sym_name", name, sizeof name, "");
  return nn_is_predict(func) || strcmp(name, "decode") == 0 ? p->kept_end : p->total;
}

void plan_persistent_free(PlanPersistent *p) {
  ptr_map_free(&p->ids);
  free(p->places);
  *p = (PlanPersistent){0};
}

// Writes a sequence of executions into a function. Walks the sequence, keeping for each value the instance that is
// current; an op's operands become the current instances, a second execution becomes a clone, and neighbouring clones
// share one scf.execute_region that yields what is used after it. What the plan has decided about memory goes with the
// ops.
#include <stdlib.h>
#include <string.h>

#include "passes/remat/remat.h"
#include "support/alloc.h"

typedef struct Writer {
  PlanProgram *p;          // Borrowed
  PlanLayout l;            // lifetimes of the instances
  MlirOperation end;       // the return: block-level ops go before it
  MlirBlock region;        // block of the open region, null at block level
  int region_number;       // 0 at block level
  int *current;            // Owned, per value: latest instance of its buffer
  MlirValue *instance;     // Owned, per instance
  int *alias_base;         // Owned, per value: what its alias below is of; the alias itself is told to read an instance
  int *alias_instance;     // Owned, per value: instance its alias below shows, -1: none
  int *alias_region;       // Owned, per value: where it can be seen
  MlirValue *alias;        // Owned, per value
  bool *placed;            // Owned, per step: it has run
  bool *alias_placed;      // Owned, per value: the original alias has been placed
  AgainKernels kernels;    // Owned
  const int64_t *offset;   // Borrowed, per buffer of the layout
  PlanBase base;           // before them
  const RematMoves *moves;   // Borrowed; NULL: no copies
} Writer;

static int64_t address_of(const Writer *w, int buffer) {
  PlanBuffer b = w->l.buffers[buffer];
  b.offset = w->offset[buffer];
  return plan_buffer_address(&b, &w->base);
}

static void place(Writer *w, MlirOperation op, bool is_new) {
  if (!mlirBlockIsNull(w->region)) mlirBlockAppendOwnedOperation(w->region, op);
  else if (is_new) mlirBlockInsertOwnedOperationBefore(nn_function_body(w->p->func), w->end, op);
  else mlirOperationMoveBefore(op, w->end);
}

// The value v of the function as it is to be read now; writes aliases where they are needed.
static MlirValue read_value(Writer *w, int v) {
  const PlanValue *value = &w->p->values[v];
  int instance = w->current[value->root];
  if (value->root == v) return w->instance[instance];
  if (w->alias_instance[v] == instance && (w->alias_region[v] == 0 || w->alias_region[v] == w->region_number))
    return w->alias[v];
  MlirOperation op = mlirOpResultGetOwner(value->value);
  MlirValue base = read_value(w, w->alias_base[v]);
  bool reuse = w->region_number == 0 && !w->alias_placed[v];
  MlirOperation made = reuse ? op : mlirOperationClone(op);
  if (reuse) w->alias_placed[v] = true;
  mlirOperationSetOperand(made, 0, base);
  place(w, made, !reuse);
  w->alias_instance[v] = instance;
  w->alias_region[v] = w->region_number;
  return w->alias[v] = mlirOperationGetResult(made, 0);
}

// "conv2d.12", "kernel_3.7": the op and its step before anything was recomputed.
static void step_name(const PlanProgram *p, int step, char *buf, size_t size) {
  const PlanStep *s = &p->steps[step];
  if (s->kernel >= 0) {
    MlirStringRef callee = mlirFlatSymbolRefAttrGetValue(nn_attribute(s->op, "callee"));
    snprintf(buf, size, "%.*s.%d", (int)callee.length, callee.data, step);
  } else {
    NnOp kind = nn_op_of(s->op);
    snprintf(buf, size, "%s.%d", kind == NN_OP_NONE ? "op" : nn_op_info(kind)->name, step);
  }
}

// The op that runs step s again: a clone, or a call to a kernel that makes a part of its results. Its operands are read
// now.
static MlirOperation run_again(Writer *w, int step) {
  const PlanStep *s = &w->p->steps[step];
  char name[96];
  step_name(w->p, step, name, sizeof name);
  nn_set_attr(s->op, &NN_STR(ATTR_name, name));
  MlirValue *operands = allocate_array((size_t)s->n_inputs, sizeof *operands);
  for (int i = 0; i < s->n_inputs; i++)
    if (!s->reads_again || s->reads_again[i]) operands[i] = read_value(w, s->inputs[i]);
  MlirOperation op = s->again ? remat_call_again(&w->kernels, w->p, step, operands) : mlirOperationClone(s->op);
  for (int i = 0; i < s->n_inputs && !s->again; i++) mlirOperationSetOperand(op, i, operands[i]);
  free(operands);
  nn_set_attr(op, &NN_STR(ATTR_recompute, name));
  mlirOperationRemoveAttributeByName(op, nn_string_ref(ATTR_name));
  return op;
}

static bool is_made(const PlanStep *s, int result, bool again) { return !again || !s->again || s->again[result]; }

// Where the op's results and workspace are, and which of them lie over operands. A part of a kernel has some of the
// results and operands.
static void write_place(const Writer *w, int position, MlirOperation op) {
  const PlanStep *s = &w->p->steps[w->l.exec[position]];
  bool again = w->l.again[position];
  int64_t *offset = allocate_array((size_t)s->n_results, sizeof *offset),
          *pairs = allocate_array(2 * (size_t)s->n_results, sizeof *pairs);
  int n = 0, n_pairs = 0;
  for (int r = 0; r < s->n_results; r++) {
    const PlanInstance *made = &w->l.instances[w->l.first_instance[position] + r];
    if (!is_made(s, r, again)) continue;
    if (made->inplace >= 0) {
      int operand = 0;
      for (int o = 0; o < made->inplace; o++) operand += !again || !s->reads_again || s->reads_again[o];
      pairs[n_pairs++] = n;
      pairs[n_pairs++] = operand;
    }
    offset[n++] = address_of(w, made->buffer);
  }
  if (n) nn_set_attr(op, &NN_I64S(ATTR_offset, offset, n));
  if (n_pairs) nn_set_attr(op, &NN_I64S(ATTR_inplace, pairs, n_pairs));
  int workspace = w->l.workspace[position];
  if (workspace >= 0) nn_set_attr(op, &NN_I64(ATTR_workspace, address_of(w, workspace)));
  free(offset);
  free(pairs);
}

static bool is_copy(const Writer *w, int step) { return w->moves && step >= w->moves->n_steps; }

static void run_copy(Writer *w, int position) {
  const PlanStep *s = &w->p->steps[w->l.exec[position]];
  MlirValue from = read_value(w, s->inputs[0]);
  NnBuilder b = nn_builder_before(w->end);
  MlirOperation op = nn_build(&b, NN_OP_copy, 1, &from, 1, &NN_STR(ATTR_lane, nn_lane_name(s->lane)), NULL);
  if (mlirOperationIsNull(op)) remat_bug("a copy of a value");
  write_place(w, position, op);
  w->instance[w->l.first_instance[position]] = mlirOperationGetResult(op, 0);
  w->current[s->first_result] = w->l.first_instance[position];
}

static void run_step(Writer *w, int position) {
  int step = w->l.exec[position];
  const PlanStep *s = &w->p->steps[step];
  bool again = w->placed[step];
  w->placed[step] = true;
  MlirOperation op = again ? run_again(w, step) : s->op;
  for (int i = 0; i < s->n_inputs && !again; i++) mlirOperationSetOperand(op, i, read_value(w, s->inputs[i]));
  place(w, op, again);
  write_place(w, position, op);
  for (int r = 0, made = 0; r < s->n_results; r++) {
    if (!is_made(s, r, again)) continue;
    int instance = w->l.first_instance[position] + r;
    w->instance[instance] = mlirOperationGetResult(op, made++);
    w->current[s->first_result + r] = instance;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Regions

// "kernel_0.3, conv2d.4, 7 more"
static void region_name(const Writer *w, int begin, int end, char *buf, size_t size) {
  size_t used = 0;
  for (int i = begin; i < end && used < size; i++) {
    char name[96];
    step_name(w->p, w->l.exec[i], name, sizeof name);
    if (i - begin == 3 && end - i > 1) {
      snprintf(buf + used, size - used, ", %d more", end - i);
      return;
    }
    used += (size_t)snprintf(buf + used, size - used, "%s%s", i > begin ? ", " : "", name);
  }
}

// Closes the region over positions [begin, end): what is read later is yielded and from then on known as the region's
// result.
static void close_region(Writer *w, int begin, int end) {
  int n = 0, first = w->l.first_instance[begin];
  int last = w->l.first_instance[end - 1] + w->p->steps[w->l.exec[end - 1]].n_results;
  MlirValue *yielded = allocate_array((size_t)(last - first), sizeof *yielded);
  MlirType *types = allocate_array((size_t)(last - first), sizeof *types);
  for (int i = first; i < last; i++) {
    if (w->l.instances[i].last_use < end) continue;
    yielded[n] = w->instance[i];
    types[n++] = mlirValueGetType(w->instance[i]);
  }
  MlirLocation loc = mlirOperationGetLocation(w->p->steps[w->l.exec[begin]].op);
  MlirOperationState yield = mlirOperationStateGet(nn_string_ref("scf.yield"), loc);
  mlirOperationStateAddOperands(&yield, n, yielded);
  mlirBlockAppendOwnedOperation(w->region, mlirOperationCreate(&yield));
  char name[400];
  region_name(w, begin, end, name, sizeof name);
  MlirContext ctx = mlirOperationGetContext(w->p->func);
  MlirNamedAttribute attrs[2] = {
      nn_named(ctx, "no_inline", mlirUnitAttrGet(ctx)),
      nn_named(ctx, ATTR_recompute, mlirStringAttrGet(ctx, nn_string_ref(name))),
  };
  MlirRegion body = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(body, w->region);
  MlirOperationState state = mlirOperationStateGet(nn_string_ref("scf.execute_region"), loc);
  mlirOperationStateAddAttributes(&state, 2, attrs);
  mlirOperationStateAddResults(&state, n, types);
  mlirOperationStateAddOwnedRegions(&state, 1, &body);
  MlirOperation op = mlirOperationCreate(&state);
  w->region = (MlirBlock){NULL};
  place(w, op, true);
  for (int i = first, k = 0; i < last; i++)
    if (w->l.instances[i].last_use >= end) w->instance[i] = mlirOperationGetResult(op, k++);
  free(yielded);
  free(types);
}

static void write_sequence(Writer *w) {
  bool *first_time = allocate_array((size_t)w->l.n, sizeof *first_time),
       *seen = allocate_array((size_t)w->p->n_steps, sizeof *seen);
  for (int i = 0; i < w->l.n; i++) {
    first_time[i] = !seen[w->l.exec[i]] || is_copy(w, w->l.exec[i]);
    seen[w->l.exec[i]] = true;
  }
  int regions = 0;
  for (int i = 0; i < w->l.n;) {
    int begin = i;
    while (i < w->l.n && !first_time[i]) i++;
    if (i == begin) {
      if (is_copy(w, w->l.exec[i])) run_copy(w, i++);
      else run_step(w, i++);
      continue;
    }
    w->region = mlirBlockCreate(0, NULL, NULL);
    w->region_number = ++regions;
    for (int k = begin; k < i; k++) run_step(w, k);
    close_region(w, begin, i);
    w->region_number = 0;
  }
  free(first_time);
  free(seen);
}

static void erase_leftovers(Writer *w) {
  NnStepList list = nn_flatten(w->p->func);
  for (int i = list.n - 1; i >= 0; i--) {
    const NnStep *s = &list.items[i];
    bool unused = s->role == NN_STEP_ALIAS &&
                  mlirOpOperandIsNull(mlirValueGetFirstUse(mlirOperationGetResult(s->op, 0)));
    if (s->role == NN_STEP_MARK || unused) mlirOperationDestroy(s->op);
  }
  nn_steps_free(&list);
}

// Of the function's arguments.
static void write_argument_places(const Writer *w) {
  int64_t *offset = allocate_array((size_t)w->p->n_args, sizeof *offset);
  for (int a = 0; a < w->p->n_args; a++) {
    offset[a] = address_of(w, w->l.instances[a].buffer);
  }
  nn_set_attr(w->p->func, &NN_I64S(ATTR_placed, offset, w->p->n_args));
  free(offset);
}

// What the value is an alias of: of an argument whose home is far the near copy.
static int alias_base(const Writer *w, int v) {
  int base = ptr_map_get(&w->p->ids, nn_operand(mlirOpResultGetOwner(w->p->values[v].value), 0).ptr);
  return w->moves && base < w->p->n_args && w->moves->near[base] >= 0 ? w->moves->near[base] : base;
}

void remat_rewrite(PlanProgram *p, const RematPlan *plan, const PlanBase *base) {
  if (plan->moves) p = &plan->moves->p;
  Writer w = {.p = p, .end = nn_function_return(p->func), .offset = plan->offset, .base = *base, .moves = plan->moves};
  plan_layout_build(p, plan->exec, plan->n, PLAN_INPLACE_DECIDE, &w.l);
  size_t values = (size_t)p->n_values;
  w.current = allocate_array(values, sizeof *w.current);
  w.instance = allocate_array((size_t)w.l.n_instances, sizeof *w.instance);
  w.alias_base = allocate_array(values, sizeof *w.alias_base);
  w.alias_instance = allocate_array(values, sizeof *w.alias_instance);
  w.alias_region = allocate_array(values, sizeof *w.alias_region);
  w.alias = allocate_array(values, sizeof *w.alias);
  w.placed = allocate_array((size_t)p->n_steps, sizeof *w.placed);
  w.alias_placed = allocate_array(values, sizeof *w.alias_placed);
  for (int v = 0; v < p->n_values; v++) {
    w.alias_instance[v] = -1;
    if (p->values[v].root != v) w.alias_base[v] = alias_base(&w, v);
  }
  for (int a = 0; a < p->n_args; a++) {
    w.current[a] = a;
    w.instance[a] = p->values[a].value;
  }
  write_sequence(&w);
  write_argument_places(&w);
  for (int r = 0; r < p->n_results; r++) mlirOperationSetOperand(w.end, r, read_value(&w, p->result[r]));
  erase_leftovers(&w);
  free(w.current);
  free(w.instance);
  free(w.alias_base);
  free(w.alias_instance);
  free(w.alias_region);
  free(w.alias);
  free(w.placed);
  free(w.alias_placed);
  free(w.kernels.items);
  plan_layout_free(&w.l);
}

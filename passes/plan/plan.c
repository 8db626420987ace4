// The pass `plan`: lifetimes of all buffers of a step, one address for each, and the sizes of the arenas that hold
// them. The program allocates exactly that and nothing else; see docs/memory-plan.md.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/integers.h"

typedef struct Planner {
  MlirModule module;
  const NnTarget *target;   // Borrowed
  PlanPersistent persistent;
  PlanBase base;    // of the function at hand
  int64_t budget;   // bytes, 0: none
  bool promised;    // by remat
} Planner;

// The address of each value of the function, in the order of the model.
static int64_t *value_addresses(const Planner *planner, const PlanProgram *p, const PlanLayout *l) {
  int64_t *address = allocate_array((size_t)p->n_values, sizeof *address);
  for (int v = 0; v < p->n_values; v++) {
    const PlanBuffer *buffer = &l->buffers[plan_layout_buffer(p, l, v)];
    address[v] = plan_buffer_address(buffer, &planner->base) + p->values[v].shift;
  }
  return address;
}

static void write_op(const PlanProgram *p, const int64_t *address, MlirOperation op) {
  int64_t list[NN_MAX_RESULTS * 8], *out = list;
  int n = (int)mlirOperationGetNumResults(op);
  if (n > (int)(sizeof list / sizeof *list)) out = allocate_array((size_t)n, sizeof *out);
  for (int r = 0; r < n; r++) out[r] = address[ptr_map_get(&p->ids, mlirOperationGetResult(op, r).ptr)];
  if (n) nn_set_attr(op, &NN_I64S(ATTR_offset, out, n));
  if (out != list) free(out);
}

// All argument dictionaries at once: one by one is quadratic.
static void write_arguments(const PlanProgram *p, const int64_t *address) {
  MlirContext ctx = mlirOperationGetContext(p->func);
  MlirAttribute old = nn_attribute(p->func, "arg_attrs");
  MlirAttribute *all = allocate_array((size_t)p->n_args, sizeof *all);
  MlirNamedAttribute *entries = NULL;
  for (int a = 0; a < p->n_args; a++) {
    MlirAttribute dictionary = mlirAttributeIsNull(old) ? mlirDictionaryAttrGet(ctx, 0, NULL)
                                                        : mlirArrayAttrGetElement(old, a);
    intptr_t n = mlirDictionaryAttrGetNumElements(dictionary), used = 0;
    entries = reallocate_array(entries, (size_t)n + 1, sizeof *entries);
    for (intptr_t i = 0; i < n; i++) {
      entries[used] = mlirDictionaryAttrGetElement(dictionary, i);
      used += !mlirStringRefEqual(mlirIdentifierStr(entries[used].name), nn_string_ref(ATTR_offset));
    }
    entries[used++] = nn_named(ctx, ATTR_offset, mlirIntegerAttrGet(mlirIntegerTypeGet(ctx, 64), address[a]));
    all[a] = mlirDictionaryAttrGet(ctx, used, entries);
  }
  if (p->n_args) nn_set_attribute(p->func, "arg_attrs", mlirArrayAttrGet(ctx, p->n_args, all));
  free(entries);
  free(all);
}

static bool write_plan(const Planner *planner, const PlanProgram *p, const PlanLayout *l) {
  int64_t *address = value_addresses(planner, p, l);
  write_arguments(p, address);
  NnStepList list = nn_flatten(p->func);
  for (int i = 0; i < list.n; i++) write_op(p, address, list.items[i].op);
  nn_steps_free(&list);
  for (int i = 0; i < p->n_steps; i++) {
    if (l->workspace[i] < 0) continue;
    nn_set_attr(p->steps[i].op,
                &NN_I64(ATTR_workspace, plan_buffer_address(&l->buffers[l->workspace[i]], &planner->base)));
    nn_set_attr(p->steps[i].op, &NN_I64(ATTR_workspace_bytes, p->steps[i].workspace));
  }
  for (int r = 0; r < p->n_results; r++)
    if (l->copy_back[r] && mlirAttributeIsNull(nn_result_attr(p->func, r, ATTR_copy_back)))
      nn_set_result_attr(p->func, r, &NN_BOOL(ATTR_copy_back, true));
  nn_set_attr(p->func, &NN_I64(ATTR_persistent, planner->base.near));
  // the program loads all that persists
  nn_set_attr(p->func, &NN_I64(ATTR_arena, larger(planner->base.near + l->arena, planner->persistent.total)));
  nn_set_attr(p->func, &NN_I64(ATTR_live, planner->base.near + l->live));
  if (planner->base.far + l->far_arena > 0) {
    nn_set_attr(p->func, &NN_I64(ATTR_far_persistent, planner->base.far));
    nn_set_attr(p->func, &NN_I64(ATTR_far_arena, planner->base.far + l->far_arena));
    nn_set_attr(p->func, &NN_I64(ATTR_far_live, planner->base.far + l->far_live));
  }
  bool ok = plan_write_waits(p, l, &planner->base);
  free(address);
  return ok;
}

// A budget that is met asks for no long search. One that remat has promised gets it else; where none has, it is in vain
// when less than the budget cannot be, or a short one ends a fiftieth above.
static void place(const Planner *planner, const PlanProgram *p, PlanLayout *l) {
  int64_t budget = planner->budget, base = planner->base.near, capacity = budget > base ? budget - base : 0;
  if (budget > 0) plan_layout_place(p, l, capacity, PLAN_SHORT);
  bool near = planner->promised || (l->live <= capacity && l->arena - capacity < capacity / 50);
  if (budget == 0 || (l->arena > capacity && near)) plan_layout_place(p, l, capacity, PLAN_LONG);
}

// False after reporting.
static bool plan_function(Planner *planner, MlirOperation func) {
  PlanProgram p;
  PlanLayout l;
  planner->base = (PlanBase){plan_persistent_end(&planner->persistent, func), planner->persistent.far_total};
  plan_program_build(&p, planner->module, func, planner->target);
  plan_layout_build(&p, NULL, p.n_steps, PLAN_INPLACE_READ, &l);
  for (int a = 0; a < p.n_args; a++) {
    PlanBuffer *b = &l.buffers[l.instances[a].buffer];
    if (!b->persistent) continue;
    int64_t bytes;
    b->offset = plan_persistent_find(&planner->persistent, plan_argument_key(func, a), &bytes);
  }
  if (!plan_layout_take_places(&p, &l, &planner->base)) place(planner, &p, &l);
  mlirOperationRemoveAttributeByName(func, nn_string_ref(ATTR_placed));
  bool ok = write_plan(planner, &p, &l);
  plan_layout_free(&l);
  plan_program_free(&p);
  return ok;
}

// Result r ends in the place of an argument: it is one, or was computed over one.
static bool ends_in_argument(const PlanProgram *p, const PlanLayout *l, int r) {
  int buffer = l->instances[l->result_instance[r]].buffer;
  for (int a = 0; a < p->n_args; a++)
    if (l->instances[a].buffer == buffer) return true;
  return false;
}

void plan_scan_body(MlirModule module, MlirOperation body, const NnTarget *target) {
  Planner planner = {.module = module, .target = target};
  PlanProgram p;
  PlanLayout l;
  plan_program_build(&p, module, body, target);
  plan_layout_build(&p, NULL, p.n_steps, PLAN_INPLACE_READ, &l);
  plan_layout_place(&p, &l, 0, PLAN_SHORT);
  int64_t arena = plan_align(&p, l.arena), copies = 0;
  for (int r = 0; r < p.n_results; r++)   // carried values that lie in the place of others wait here until all are read
    if (l.copy_back[r] && ends_in_argument(&p, &l, r)) copies += plan_align(&p, p.values[p.result[r]].bytes);
  int64_t at = arena + copies;
  for (int a = 0; a < p.n_args; a++) {
    l.buffers[l.instances[a].buffer].offset = at;
    at += plan_align(&p, p.values[a].bytes);
  }
  l.arena = arena;
  write_plan(&planner, &p, &l);
  nn_set_attr(body, &NN_I64(ATTR_copies, arena));
  nn_set_attr(body, &NN_I64(ATTR_arena, arena + copies));
  nn_set_attr(body, &NN_I64(ATTR_bound, at));
  plan_layout_free(&l);
  plan_program_free(&p);
}

// Requires: kernels (fuse), a final order; that remat has kept to nn.budget, if there is one (the pass `check` will
// see); `nn.inplace` where buffers are to be shared. Where remat has placed a function's buffers (nn.placed) that is
// the plan. Establishes: docs/internals.md, "Plan in the IR". Breaks: nothing. Any change of order, values or
// nn.inplace after it makes the plan wrong.
bool nn_pass_plan(MlirModule module, const NnPassRun *run) {
  Planner planner = {.module = module, .target = run->target};
  const char *text = nn_pass_option(run, "budget", NULL);
  double percent;
  if (text && !parse_bytes(text, &planner.budget, &percent)) {
    nn_error(mlirModuleGetOperation(module), "'%s' is not a memory budget: expected a size like 512MiB", text);
    return false;
  }
  // the one that remat kept to
  planner.promised = !text;
  if (!text) planner.budget = nn_attr_i64(mlirModuleGetOperation(module), ATTR_budget, 0);
  int64_t arena = 0, far = 0;
  plan_persistent_build(&planner.persistent, module, run->target);
  NnFunctions functions = nn_public_functions(module);
  bool ok = true;
  for (int f = 0; f < functions.n; f++) {
    ok &= plan_function(&planner, functions.items[f]);
    arena = larger(arena, nn_attr_i64(functions.items[f], ATTR_arena, 0));
    far = larger(far, nn_attr_i64(functions.items[f], ATTR_far_arena, 0));
  }
  MlirOperation top = mlirModuleGetOperation(module);
  if (text) nn_set_attr(top, &NN_I64(ATTR_budget, planner.budget));
  nn_set_attr(top, &NN_I64(ATTR_arena, arena));
  nn_set_attr(top, &NN_I64(ATTR_persistent, planner.persistent.total));
  if (far > 0) {
    nn_set_attr(top, &NN_I64(ATTR_far_arena, far));
    nn_set_attr(top, &NN_I64(ATTR_far_persistent, planner.persistent.far_total));
  }
  plan_persistent_free(&planner.persistent);
  if (!ok) return false;
  if (text && arena > planner.budget) {
    char have[32];
    // the error belongs to the option, not to a place in the source
    nn_error_at(mlirLocationUnknownGet(mlirModuleGetContext(module)),
                "memory budget %s cannot be met without recomputation: the smallest budget found is %s (%lld bytes)",
                text, print_bytes(arena, have, sizeof have), (long long)arena);
    return false;
  }
  return true;
}

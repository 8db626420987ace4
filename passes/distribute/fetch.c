// The pass `fetch`: parameters of which each rank keeps a part are gathered for each stretch of steps that reads them,
// so early that they travel while the step before computes, and dropped behind it. Small ones travel together.
#include <stdlib.h>

#include "passes/distribute/distribute.h"
#include "passes/passes.h"
#include "passes/plan/plan.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/ptr_map.h"

// So many steps between two readers, and what they read is gathered again: to keep it takes its bytes meanwhile.
enum { STRETCH = 12 };

typedef struct Fetch {   // for one stretch
  MlirOperation op;
  int first;   // place of its first reader
} Fetch;

typedef struct Places {
  int n;
  MlirOperation *ops;   // Owned
  int *steps;           // Owned, per op: steps before it
  PtrMap place;
} Places;

static Places places_of(MlirOperation func) {
  Places p = {0};
  p.ops = rewrite_ops(nn_function_body(func), &p.n);
  p.steps = allocate_array((size_t)p.n + 1, sizeof *p.steps);
  for (int i = 0; i < p.n; i++) {
    ptr_map_set(&p.place, p.ops[i].ptr, i);
    p.steps[i + 1] = p.steps[i] + (!nn_is_alias(p.ops[i]) && !plan_is_fetch(p.ops[i]));
  }
  return p;
}

static void places_free(Places *p) {
  free(p->ops);
  free(p->steps);
  ptr_map_free(&p->place);
}

// The ops that read v, each once. Owned: free().
static MlirOperation *readers_of(MlirValue v, int *n) {
  MlirOperation *list = NULL;
  *n = 0;
  for (MlirOpOperand use = mlirValueGetFirstUse(v); !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    bool seen = false;
    for (int i = 0; i < *n; i++) seen |= list[i].ptr == op.ptr;
    if (seen) continue;
    *ARRAY_ADD(list, *n) = op;
  }
  return list;
}

static void read_instead(MlirOperation op, MlirValue old, MlirValue new) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (mlirValueEqual(mlirOperationGetOperand(op, i), old)) mlirOperationSetOperand(op, i, new);
}

// Each reader of a view of v gets a view of its own, right in front of it: they are no copies.
static void share_out_views(MlirValue v) {
  int n, n_readers;
  MlirOperation *users = readers_of(v, &n);
  for (int i = 0; i < n; i++) {
    if (!nn_is_alias(users[i])) continue;
    MlirValue seen = mlirOperationGetResult(users[i], 0);
    share_out_views(seen);
    MlirOperation *readers = readers_of(seen, &n_readers);
    for (int k = 0; k < n_readers; k++) {
      MlirOperation own = k ? mlirOperationClone(users[i]) : users[i];
      if (k) mlirBlockInsertOwnedOperationBefore(mlirOperationGetBlock(readers[k]), readers[k], own);
      else mlirOperationMoveBefore(own, readers[k]);
      if (k) read_instead(readers[k], seen, mlirOperationGetResult(own, 0));
    }
    free(readers);
  }
  free(users);
}

// ---------------------------------------------------------------------------------------------------------------------

static int by_place(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }

static int by_first(const void *x, const void *y) {
  const Fetch *a = x, *b = y;
  return a->first - b->first;
}

// The stretches of readers of one parameter, added to `list`: the op gathers it for the first, clones for the others.
static void find_stretches(const Places *p, MlirOperation op, Fetch **list, int *n) {
  int n_readers, last = -1;
  MlirValue all = mlirOperationGetResult(op, 0), now = all;
  MlirOperation *readers = readers_of(all, &n_readers);
  int *places = allocate_array((size_t)n_readers + 1, sizeof *places);
  for (int i = 0; i < n_readers; i++) places[i] = ptr_map_get(&p->place, readers[i].ptr);
  qsort(places, (size_t)n_readers, sizeof *places, by_place);
  for (int i = 0; i < n_readers; last = places[i++]) {
    if (last < 0 || p->steps[places[i]] - p->steps[last] > STRETCH) {
      MlirOperation fetch = last < 0 ? op : mlirOperationClone(op);
      const char *phase = rewrite_phase(p->ops[places[i]]);
      if (phase) nn_set_attr(fetch, &NN_STR(ATTR_phase, phase));
      now = mlirOperationGetResult(fetch, 0);
      *ARRAY_ADD(*list, *n) = (Fetch){fetch, places[i]};
    }
    read_instead(p->ops[places[i]], all, now);
  }
  free(readers);
  free(places);
}

// Each goes in front of the first reader of what is gathered before it.
static void place_fetches(MlirOperation func) {
  Places p = places_of(func);
  Fetch *list = NULL;
  int n = 0;
  for (int i = 0; i < p.n; i++)
    if (plan_is_fetch(p.ops[i])) find_stretches(&p, p.ops[i], &list, &n);
  if (n) qsort(list, (size_t)n, sizeof *list, by_first);
  MlirBlock body = nn_function_body(func);
  int before = n ? list[0].first : 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && list[i].first != list[i - 1].first) before = list[i - 1].first;
    if (mlirBlockIsNull(mlirOperationGetBlock(list[i].op)))
      mlirBlockInsertOwnedOperationBefore(body, p.ops[before], list[i].op);
    else mlirOperationMoveBefore(list[i].op, p.ops[before]);
  }
  free(list);
  places_free(&p);
}

// ---------------------------------------------------------------------------------------------------------------------
// Small ones: a message costs more than their bytes

static int64_t gathered_bytes(MlirOperation fetch) {
  NnType part = nn_value_type(mlirOperationGetOperand(fetch, 0));
  return nn_attr_i64(fetch, "ranks", 1) * nn_type_bytes(&part);
}

// Those that travel together stay until the last is read, so all of them are little beside the largest parameter, too.
static int64_t most_together(MlirOperation *fetches, int n) {
  enum { MOST = 1 << 20, SHARE = 8 };
  int64_t largest = 0;
  for (int i = 0; i < n; i++)
    if (gathered_bytes(fetches[i]) > largest) largest = gathered_bytes(fetches[i]);
  return largest / SHARE < MOST ? largest / SHARE : MOST;
}

// Rounded parts of several tensors cannot be gathered at once.
static bool can_join(MlirOperation fetch, int64_t most) {
  NnDtype part = nn_value_dtype(mlirOperationGetOperand(fetch, 0));
  return gathered_bytes(fetch) <= most / 2 && nn_value_dtype(mlirOperationGetResult(fetch, 0)) == part;
}

static void gather_together(MlirOperation *fetches, int n) {
  MlirValue parts[NN_MAX_OPERANDS], own[NN_MAX_OPERANDS];
  int64_t ranks = nn_attr_i64(fetches[0], "ranks", 1), begin = 0;
  for (int i = 0; i < n; i++) parts[i] = mlirOperationGetOperand(fetches[i], 0);
  NnBuilder b = rewrite_builder(fetches[0]);
  NnAttr attrs[] = {NN_STR(ATTR_lane, "comm"), NN_I64("ranks", ranks)};
  MlirValue all = mlirOperationGetResult(nn_build(&b, NN_OP_all_gather, n, parts, 2, attrs, NULL), 0);
  for (int i = 0; i < n; i++) {
    int64_t at = begin;
    begin += ranks * nn_value_type(parts[i]).dim[0];
    own[i] = bucket_piece(&b, all, nn_value_type(mlirOperationGetResult(fetches[i], 0)), &at);
  }
  for (int i = 0; i < n; i++) rewrite_replace(fetches[i], &own[i]);
}

// Each group is of one phase and stands where its first one stood.
static void join_small(MlirOperation func) {
  int n, n_fetches = 0;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  for (int i = 0; i < n; i++)
    if (plan_is_fetch(ops[i])) ops[n_fetches++] = ops[i];
  int64_t most = most_together(ops, n_fetches), bytes = 0;
  MlirOperation group[NN_MAX_OPERANDS];
  int n_group = 0;
  for (int i = 0; i <= n_fetches; i++) {
    bool small = i < n_fetches && can_join(ops[i], most);
    if (i < n_fetches && !small) continue;
    bool joins = small && n_group && n_group < NN_MAX_OPERANDS && bytes + gathered_bytes(ops[i]) <= most &&
                 rewrite_phase(ops[i]) == rewrite_phase(group[0]) &&
                 nn_value_dtype(mlirOperationGetOperand(ops[i], 0)) ==
                     nn_value_dtype(mlirOperationGetOperand(group[0], 0));
    if (!joins) {
      if (n_group > 1) gather_together(group, n_group);
      n_group = 0;
      bytes = 0;
    }
    if (!small) continue;
    group[n_group++] = ops[i];
    bytes += gathered_bytes(ops[i]);
  }
  free(ops);
}

// Requires: an order (schedule). Establishes: an all_gather of a parameter for each stretch of steps that reads it, of
// small ones one for several. Breaks: nothing. Without parameters in parts nothing is done.
bool nn_pass_fetch(MlirModule module, const NnPassRun *run) {
  (void)run;
  NnFunctions functions = nn_public_functions(module);
  int n;
  for (int f = 0; f < functions.n; f++) {
    MlirOperation *ops = rewrite_ops(nn_function_body(functions.items[f]), &n);
    bool any = false;
    for (int i = 0; i < n; i++) {
      if (!plan_is_fetch(ops[i])) continue;
      share_out_views(mlirOperationGetResult(ops[i], 0));
      any = true;
    }
    free(ops);
    if (any) {
      place_fetches(functions.items[f]);
      join_small(functions.items[f]);
    }
  }
  return true;
}

// A planned function as the report sees it: pieces of the arena over time with what they hold, live bytes by kind at
// every step, and the values that are computed more than once. Offsets come from the attributes that `plan` wrote, so
// the page shows what codegen uses.
#include <stdlib.h>
#include <string.h>

#include "passes/rewrite.h"
#include "report/report_internal.h"
#include "support/alloc.h"
#include "support/text.h"

const char *const report_kind_names[REPORT_KINDS] = {"parameters",  "optimizer",  "inputs", "gradients",
                                                     "activations", "recomputed", "moved",  "workspace"};

static ReportKind kind_of_argument(const ReportPlan *plan, int arg) {
  char role[16];
  nn_arg_str(plan->func, arg, ATTR_role, role, sizeof role, "input");
  if (!strcmp(role, "param") || !strcmp(role, "state")) return REPORT_PARAMETERS;
  return !strcmp(role, "opt") ? REPORT_OPTIMIZER : !strcmp(role, "accum") ? REPORT_GRADIENTS : REPORT_INPUTS;
}

bool report_is_copy(const PlanStep *s) {
  return nn_op_of(s->op) == NN_OP_copy && (s->lane == NN_LANE_OUT || s->lane == NN_LANE_IN);
}

// Kernels that update a parameter may also make gradients for others; what they make for an argument is told by that.
static ReportKind kind_of_result(const ReportPlan *plan, int step, int instance) {
  const PlanStep *s = &plan->p.steps[step];
  if (s->recomputed) return REPORT_RECOMPUTED;
  if (report_is_copy(s)) return REPORT_MOVED;
  for (int r = 0; r < plan->p.n_results; r++)
    if (plan->l.result_instance[r] == instance && plan->p.tied[r] >= 0) return kind_of_argument(plan, plan->p.tied[r]);
  return rewrite_phase_rank(rewrite_phase(s->op)) == 0 ? REPORT_ACTIVATIONS : REPORT_GRADIENTS;
}

static int64_t result_offset(MlirOperation op, int r) {
  MlirAttribute list = nn_attribute(op, ATTR_offset);
  return mlirAttributeIsNull(list) || mlirDenseArrayGetNumElements(list) <= r ? 0
                                                                              : mlirDenseI64ArrayGetElement(list, r);
}

// ---------------------------------------------------------------------------------------------------------------------
// Pieces

static void add_piece(ReportPlan *plan, ReportPiece piece) {
  if (piece.upper > plan->n) piece.upper = plan->n;   // what is returned lives one step longer
  plan->pieces[plan->n_pieces++] = piece;
}

static void add_arguments(ReportPlan *plan, int *holder) {
  for (int a = 0; a < plan->p.n_args; a++) {
    const PlanBuffer *b = &plan->l.buffers[plan->l.instances[a].buffer];
    if (b->far) continue;
    holder[plan->l.instances[a].buffer] = plan->n_pieces;
    add_piece(plan, (ReportPiece){.kind = kind_of_argument(plan, a),
                                  .lower = b->lower,
                                  .upper = b->persistent ? plan->n : b->upper,
                                  .offset = nn_arg_i64(plan->func, a, ATTR_offset, 0),
                                  .bytes = b->bytes,
                                  .step = -1,
                                  .result = a});
  }
}

static void add_results(ReportPlan *plan, int *holder) {
  const PlanLayout *l = &plan->l;
  for (int i = 0; i < plan->n; i++) {
    const PlanStep *s = &plan->p.steps[i];
    for (int r = 0; r < s->n_results; r++) {
      int buffer = l->instances[l->first_instance[i] + r].buffer;
      const PlanBuffer *b = &l->buffers[buffer];
      if (b->persistent || b->far || b->within >= 0) continue;
      int lower = holder[buffer] >= 0 ? i : b->lower;   // a bucket is there before the step that makes it
      if (holder[buffer] >= 0) plan->pieces[holder[buffer]].upper = i;
      holder[buffer] = plan->n_pieces;
      add_piece(plan, (ReportPiece){.kind = kind_of_result(plan, i, l->first_instance[i] + r),
                                    .lower = lower,
                                    .upper = b->upper,
                                    .offset = result_offset(s->op, r),
                                    .bytes = b->bytes,
                                    .step = i,
                                    .result = r});
    }
    if (l->workspace[i] < 0) continue;
    add_piece(plan, (ReportPiece){.kind = REPORT_WORKSPACE,
                                  .lower = i,
                                  .upper = i + 1,
                                  .offset = nn_attr_i64(s->op, ATTR_workspace, 0),
                                  .bytes = s->workspace,
                                  .step = i,
                                  .result = -1});
  }
}

static void find_live(ReportPlan *plan) {
  plan->live = allocate_array((size_t)plan->n + 2, sizeof *plan->live);
  for (int i = 0; i < plan->n_pieces; i++) {
    const ReportPiece *piece = &plan->pieces[i];
    if (piece->lower >= piece->upper) continue;
    plan->live[piece->lower][piece->kind] += plan_align(&plan->p, piece->bytes);
    plan->live[piece->upper][piece->kind] -= plan_align(&plan->p, piece->bytes);
  }
  for (int i = 0; i < plan->n; i++) {
    for (int k = 0; k < REPORT_KINDS && i > 0; k++) plan->live[i][k] += plan->live[i - 1][k];
    int64_t live = report_plan_live(plan, i);
    if (live <= plan->peak) continue;
    plan->peak = live;
    plan->peak_step = i;
  }
}

static void find_seconds(ReportPlan *plan, const NnTarget *target) {
  plan->seconds = allocate_array((size_t)plan->n + 1, sizeof *plan->seconds);
  double *kernel = allocate_array((size_t)plan->p.n_kernels + 1, sizeof *kernel);
  for (int i = 0; i < plan->n && target && target->seconds; i++) {
    const PlanStep *s = &plan->p.steps[i];
    if (s->role != NN_STEP_RUN || report_is_copy(s)) continue;
    double *known = s->kernel >= 0 ? &kernel[s->kernel] : &plan->seconds[i];
    if (*known == 0) *known = target->seconds(target, s->op);
    plan->total_seconds += plan->seconds[i] = *known;
  }
  free(kernel);
  // copies run beside the others: the time that remat has found
  double none = nn_attr_f64(plan->func, ATTR_seconds_none, 0);
  if (none > 0 && nn_has_attr(plan->func, ATTR_far_arena))
    plan->total_seconds = none * (1 + nn_attr_f64(plan->func, ATTR_overhead, 0));
}

// Where forward ends: the place with the fewest forward steps after it and others before it. A cheap backward step may
// run early.
static int find_boundary(const ReportPlan *plan) {
  int wrong = 0, best = 0, fewest = 0;
  for (int i = 0; i < plan->n; i++) {
    const PlanStep *s = &plan->p.steps[i];
    if (s->recomputed || s->role != NN_STEP_RUN) continue;
    wrong += rewrite_phase_rank(rewrite_phase(s->op)) == 0 ? -1 : 1;
    if (wrong >= fewest) continue;
    fewest = wrong;
    best = i + 1;
  }
  return best;
}

// Of phases the one that needs most.
MlirOperation nn_report_function(MlirModule module) {
  NnFunctions functions = nn_public_functions(module);
  MlirOperation shown = nn_null_operation();
  for (int f = 0; f < functions.n; f++) {
    if (!nn_is_train(functions.items[f])) continue;
    if (mlirOperationIsNull(shown) ||
        nn_attr_i64(functions.items[f], ATTR_arena, 0) > nn_attr_i64(shown, ATTR_arena, 0))
      shown = functions.items[f];
  }
  return mlirOperationIsNull(shown) && functions.n > 0 ? functions.items[0] : shown;
}

void report_plan_build(ReportPlan *plan, MlirModule module, MlirOperation func, const NnTarget *target) {
  MlirOperation top = mlirModuleGetOperation(module);
  *plan = (ReportPlan){.func = func, .persistent = nn_attr_i64(top, ATTR_persistent, 0)};
  if (mlirOperationIsNull(plan->func)) return;
  plan->arena = nn_attr_i64(plan->func, ATTR_arena, 0);
  plan_program_build(&plan->p, module, plan->func, NULL);
  plan->n = plan->p.n_steps;
  plan_layout_build(&plan->p, NULL, plan->n, PLAN_INPLACE_READ, &plan->l);
  plan->pieces = allocate_array((size_t)(plan->l.n_instances + plan->n) + 1, sizeof *plan->pieces);
  int *holder = allocate_array((size_t)plan->l.n_buffers + 1, sizeof *holder);   // the buffer's latest piece
  for (int b = 0; b < plan->l.n_buffers; b++) holder[b] = -1;
  add_arguments(plan, holder);
  add_results(plan, holder);
  free(holder);
  find_live(plan);
  find_seconds(plan, target);
  plan->first_backward = find_boundary(plan);
}

void report_plan_free(ReportPlan *plan) {
  if (!mlirOperationIsNull(plan->func)) {
    plan_layout_free(&plan->l);
    plan_program_free(&plan->p);
  }
  free(plan->pieces);
  free(plan->live);
  free(plan->seconds);
  *plan = (ReportPlan){0};
}

int64_t report_plan_live(const ReportPlan *plan, int step) {
  int64_t sum = 0;
  for (int k = 0; k < REPORT_KINDS; k++) sum += plan->live[step][k];
  return sum;
}

// ---------------------------------------------------------------------------------------------------------------------
// Names

char *report_step_name(const ReportPlan *plan, int step) {
  const PlanStep *s = &plan->p.steps[step];
  if (s->kernel >= 0) {
    MlirAttribute label = nn_attribute(plan->p.kernels[s->kernel].func, ATTR_label);
    char *callee = nn_string_copy(mlirFlatSymbolRefAttrGetValue(nn_attribute(s->op, "callee")));
    char *what = mlirAttributeIsNull(label) ? copy_string("") : nn_string_copy(mlirStringAttrGetValue(label)),
         *text = text_format("%s%s%s", callee, *what ? " " : "", what);
    free(callee);
    free(what);
    return text;
  }
  NnOp kind = nn_op_of(s->op);
  return text_format("%s%s%s", kind == NN_OP_NONE ? "step" : nn_op_info(kind)->name, "", "");
}

// The path of a parameter that the step reads, without the parameter's own name. NULL: it reads none. Owned: free().
static char *own_path(const ReportPlan *plan, const PlanStep *s) {
  for (int i = 0; i < s->n_inputs; i++) {
    int arg = plan->p.values[plan->p.values[s->inputs[i]].root].arg;
    if (arg < 0 || kind_of_argument(plan, arg) != REPORT_PARAMETERS) continue;
    char *name = plan_argument_name(plan->func, arg), *dot = strrchr(name, '.');
    if (dot) *dot = 0;
    return name;
  }
  return NULL;
}

char *report_step_path(const ReportPlan *plan, int step) {
  enum { MAX_HOPS = 32 };
  for (int hop = 0; step >= 0 && hop < MAX_HOPS; hop++) {
    const PlanStep *s = &plan->p.steps[step];
    char *path = own_path(plan, s);
    if (path && hop == 0) return path;
    if (path) {
      char *text = text_format("%s%s%s", "after ", path, "");
      free(path);
      return text;
    }
    step = -1;
    for (int i = 0; i < s->n_inputs && step < 0; i++) step = plan->p.values[plan->p.values[s->inputs[i]].root].def;
  }
  return text_format("%s%s%s", "", "", "");
}

static bool file_location(MlirLocation loc, MlirLocation *out) {
  if (mlirLocationIsACallSite(loc)) return file_location(mlirLocationCallSiteGetCallee(loc), out);
  if (mlirLocationIsAName(loc)) return file_location(mlirLocationNameGetChildLoc(loc), out);
  *out = loc;
  return mlirLocationIsAFileLineColRange(loc);
}

char *report_step_source(const ReportPlan *plan, int step) {
  MlirLocation at;
  if (!file_location(mlirOperationGetLocation(plan->p.steps[step].op), &at)) return text_format("%s%s%s", "", "", "");
  char *file = nn_string_copy(mlirIdentifierStr(mlirLocationFileLineColRangeGetFilename(at))),
       *slash = strrchr(file, '/'), line[24];
  snprintf(line, sizeof line, ":%d", mlirLocationFileLineColRangeGetStartLine(at));
  char *text = text_format("%s%s%s", slash ? slash + 1 : file, line, "");
  free(file);
  return text;
}

// ---------------------------------------------------------------------------------------------------------------------
// What is computed again

static int by_byte_steps(const void *a, const void *b) {
  const ReportAgain *x = a, *y = b;
  return x->byte_steps != y->byte_steps ? (x->byte_steps < y->byte_steps) - (x->byte_steps > y->byte_steps)
                                        : (x->step > y->step) - (x->step < y->step);
}

// An original carries its name as nn.name, its clones as nn.recompute: the same attribute object.
ReportAgain *report_plan_again(const ReportPlan *plan, int *count) {
  PtrMap groups = {0};
  int n = 0, n_results = 0;
  for (int i = 0; i < plan->n; i++) n_results += plan->p.steps[i].n_results;
  ReportAgain *list = allocate_array((size_t)plan->n + 1, sizeof *list);
  int *first = allocate_array((size_t)plan->n + 1, sizeof *first),
      *last = allocate_array((size_t)n_results + 1, sizeof *last), used = 0;
  for (int i = 0; i < plan->n; i++) {
    const PlanStep *s = &plan->p.steps[i];
    MlirAttribute name = nn_attribute(s->op, s->recomputed ? ATTR_recompute : ATTR_name);
    if (s->role != NN_STEP_RUN || mlirAttributeIsNull(name)) continue;
    int group = ptr_map_get(&groups, name.ptr);
    if (group < 0) {
      ptr_map_set(&groups, name.ptr, group = n++);
      list[group] = (ReportAgain){.step = i};
      first[group] = used;
      used += s->n_results;
      for (int r = 0; r < s->n_results; r++) list[group].bytes += plan->p.values[s->first_result + r].bytes;
    } else {
      list[group].times++;
      list[group].seconds += plan->seconds[i];
    }
    for (int r = 0; r < s->n_results; r++) {
      int *end = &last[first[group] + r];
      if (list[group].times > 0 && i - *end > 1)
        list[group].byte_steps += (double)plan->p.values[s->first_result + r].bytes * (i - *end - 1);
      *end = plan->l.instances[plan->l.first_instance[i] + r].last_use;
    }
  }
  int kept = 0;
  for (int g = 0; g < n; g++) {
    if (list[g].times == 0) continue;
    list[g].freed_steps = list[g].bytes > 0 ? list[g].byte_steps / (double)list[g].bytes : 0;
    list[kept++] = list[g];
  }
  qsort(list, (size_t)kept, sizeof *list, by_byte_steps);
  ptr_map_free(&groups);
  free(first);
  free(last);
  *count = kept;
  return list;
}

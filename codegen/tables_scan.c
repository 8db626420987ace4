// The tables of a loop: the steps of its body once, each buffer with the arena offset of the first iteration and how it
// moves. The body's plan has the step's own buffers at its beginning and, behind them, a place for each argument that
// stands for a row of the caller's.

#include "codegen/offsets.h"
#include "codegen/tables.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

// Results that are not in their place yet. Rows first, since they may be carried values that are about to change;
// carried values that become other carried values wait behind the step's own buffers until all of them have been read.
static void add_row_copies(Tables *w, const NnScan *s) {
  MlirOperation end = nn_function_return(s->body);
  int64_t waiting = nn_attr_i64(s->body, ATTR_copies, 0);
  int first_tied = s->n_stacked, end_tied = first_tied + s->n_tied;
  for (int phase = 0; phase < 3; phase++) {   // rows and waiting values; new values; values that waited
    int64_t wait = waiting;
    for (int r = 0; r < nn_function_n_results(s->body); r++) {
      if (mlirAttributeIsNull(nn_result_attr(s->body, r, ATTR_copy_back))) continue;
      MlirValue v = mlirOperationGetOperand(end, r);
      NnType t = nn_value_type(v);
      int64_t from = tables_offset(w, v),
              to = nn_arg_i64(s->body, (int)nn_result_i64(s->body, r, ATTR_tied, 0), ATTR_offset, 0),
              bytes = nn_type_bytes(&t);
      bool tied = r >= first_tied && r < end_tied, waits = tied && from >= nn_attr_i64(s->body, ATTR_arena, 0);
      if (!tied && phase == 0) tables_add_copy(w, from, to, bytes);
      if (tied && !waits && phase == 1) tables_add_copy(w, from, to, bytes);
      if (waits && phase == 0) tables_add_copy(w, from, wait, bytes);
      if (waits && phase == 2) tables_add_copy(w, wait, to, bytes);
      if (waits) wait += round_up(bytes, NNC_ALIGN);
    }
  }
}

// The initial values, copied to where the loop reads them: the first row of a stack, the place of the last value.
static void add_initial(Tables *w, const NnScan *s, MlirOperation call) {
  for (int i = 0; i < s->n_stacked + s->n_tied; i++) {
    MlirValue init = mlirOperationGetOperand(call, s->n_slices + i);
    NnType t = nn_value_type(init);
    int64_t bytes = nn_type_bytes(&t), to = tables_offset(w, mlirOperationGetResult(call, i));
    if (i < s->n_stacked && s->reverse) to += s->length * bytes;
    if (tables_offset(w, init) != to) tables_add_copy(w, tables_offset(w, init), to, bytes);
  }
}

int scan_depth(MlirOperation func) {
  NnStepList steps = nn_flatten(func);
  int depth = 0;
  for (int i = 0; i < steps.n; i++) {
    NnScan scan;
    if (steps.items[i].role != NN_STEP_RUN || !nn_scan_of(steps.items[i].op, &scan)) continue;
    int inside = 1 + scan_depth(scan.body);
    if (inside > depth) depth = inside;
  }
  nn_steps_free(&steps);
  return depth;
}

void tables_add_scan(Tables *w, const NnStep *step, const NnScan *s) {
  add_initial(w, s, step->op);
  int64_t workspace = tables_workspace(w, step->op);
  ScanPlace place = scan_place_create(w->offsets, w->place, s, step->op);
  Text outer = w->steps, outer_rows = w->stride_rows;
  const Offsets *outer_offsets = w->offsets;
  int n_outer = w->n_steps;
  NnStepList steps = nn_flatten(s->body);
  Offsets offsets = {0};
  offsets_build(&offsets, s->body, &steps);
  w->steps = w->stride_rows = (Text){0};
  w->n_steps = 0;
  w->offsets = &offsets;
  w->place = &place;
  for (int i = 0; i < steps.n; i++) tables_add_step(w, &steps.items[i]);
  add_row_copies(w, s);
  int number = w->n_scans++;
  text_add(&w->scans, "static const NncStep QS%d[] = {\n%s  {0}};\nstatic const int64_t *const QD%d[] = {%s0};\n",
           number, text_c_string(&w->steps), number, w->n_steps ? text_c_string(&w->stride_rows) : "");
  text_add(&w->scans, "static const NncScan Q%d = {%lld, %d, QS%d, %d, QD%d};\n", number, (long long)s->length,
           w->n_steps, number, w->depth, number);
  text_free(&w->steps);
  text_free(&w->stride_rows);
  w->steps = outer;
  w->stride_rows = outer_rows;
  w->n_steps = n_outer;
  w->offsets = outer_offsets;
  w->place = place.around;
  char label[40];
  snprintf(label, sizeof label, "\"scan of %lld\"", (long long)s->length);
  tables_begin_step(w, &(StepHead){.kind = "NNC_STEP_SCAN",
                                   .label = label,
                                   .workspace = workspace,
                                   .flops = nn_op_flops(step->op),
                                   .bytes = nn_op_bytes(step->op),
                                   .seconds = target_seconds(w->target, step->op),
                                   .recomputed = step->recomputed,
                                   .op = step->op});
  text_add(&w->steps, ".scan=&Q%d", number);
  tables_end_step(w, 0);
  offsets_free(&offsets);
  nn_steps_free(&steps);
  scan_place_free(&place);
}

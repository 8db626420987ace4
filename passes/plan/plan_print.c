// The table behind --emit=plan: what lies where in the arena, step by step, and what is computed a second time.
#include <stdlib.h>
#include <string.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/bytes.h"

typedef struct Printer {
  FILE *out;
  PlanProgram p;
  PlanLayout l;
  int64_t persistent;   // bytes, of the function
  int64_t *live;        // Owned, per position: bytes, persistent ones included
  int *returned;        // Owned, per instance: the first returned value that it is, -1: none
  int *also_returned;   // Owned, per returned value: the next one that is the same instance
} Printer;

static const char *bytes(int64_t n, char *buf) { return print_bytes(n, buf, 32); }

static void find_live(Printer *t) {
  t->live = plan_layout_live(&t->p, &t->l);
  for (int i = 0; i <= t->l.n; i++) t->live[i] += t->persistent;
}

static void find_returned(Printer *t) {
  t->returned = allocate_array((size_t)t->l.n_instances, sizeof *t->returned);
  t->also_returned = allocate_array((size_t)t->p.n_results, sizeof *t->also_returned);
  for (int i = 0; i < t->l.n_instances; i++) t->returned[i] = -1;
  for (int q = t->p.n_results - 1; q >= 0; q--) {
    int *first = &t->returned[t->l.result_instance[q]];
    t->also_returned[q] = *first;
    *first = q;
  }
}

// "kernel_3 sub+mul+relu", "conv2d", "tap loss".
static void describe(const Printer *t, const PlanStep *s, char *buf, size_t size) {
  char text[96];
  NnOp kind = nn_op_of(s->op);
  if (s->kernel >= 0) {
    MlirAttribute name = nn_attribute(s->op, "callee");
    MlirStringRef callee = mlirFlatSymbolRefAttrGetValue(name);
    snprintf(buf, size, "%.*s %s", (int)callee.length, callee.data,
             nn_attr_str(t->p.kernels[s->kernel].func, ATTR_label, text, sizeof text, ""));
  } else if (kind == NN_OP_tap) {
    snprintf(buf, size, "tap %s", nn_attr_str(s->op, "name", text, sizeof text, ""));
  } else {
    snprintf(buf, size, "%s", kind == NN_OP_NONE ? "?" : nn_op_info(kind)->name);
  }
}

// "4096", "far 4096".
static const char *place(int64_t address, char *buf) {
  bool far = is_far_address(address);
  snprintf(buf, 32, "%s%lld", far ? "far " : "", (long long)(far ? address - FAR_ADDRESS : address));
  return buf;
}

static int64_t attr_offset(MlirOperation op, int r) {
  int64_t list[64];
  return nn_attr_i64s(op, ATTR_offset, list, 64) > r ? list[r] : -1;
}

static void print_arguments(const Printer *t) {
  fprintf(t->out, "%12s %11s  argument\n", "offset", "size");
  for (int a = 0; a < t->p.n_args; a++) {
    char role[16], size[32], type[160], at[32], *name = plan_argument_name(t->p.func, a);
    NnType type_of = nn_value_type(t->p.values[a].value);
    fprintf(t->out, "%12s %11s  %s  %s %s\n", place(nn_arg_i64(t->p.func, a, ATTR_offset, -1), at),
            bytes(t->p.values[a].bytes, size), name, nn_arg_str(t->p.func, a, ATTR_role, role, sizeof role, "input"),
            nn_type_format(&type_of, type, sizeof type));
    free(name);
  }
}

// Where it is not compute's, the lane, and the steps of other lanes that it comes behind.
static void print_lane(const Printer *t, const PlanStep *s) {
  int64_t waits[NN_LANES];
  int n = nn_attr_i64s(s->op, ATTR_waits, waits, NN_LANES);
  if (s->lane != NN_LANE_COMPUTE && s->lane < NN_LANES) fprintf(t->out, "  on lane %s", nn_lane_name(s->lane));
  for (int i = 0; i < n && i < NN_LANES; i++) fprintf(t->out, "%s %lld", i ? "," : "  waits for", (long long)waits[i]);
}

static void print_notes(const Printer *t, int i, int r) {
  const PlanStep *s = &t->p.steps[i];
  const PlanInstance *made = &t->l.instances[t->l.first_instance[i] + r];
  if (made->inplace >= 0) fprintf(t->out, "  over operand %d", made->inplace);
  for (int q = t->returned[t->l.first_instance[i] + r]; q >= 0; q = t->also_returned[q]) {
    char name[128];
    if (t->p.tied[q] >= 0) {
      char *arg = plan_argument_name(t->p.func, t->p.tied[q]);
      fprintf(t->out, "  %s %s", t->l.copy_back[q] ? "copied at the end to" : "is", arg);
      free(arg);
    } else {
      fprintf(t->out, "  returned as %s", nn_result_str(t->p.func, q, ATTR_name, name, sizeof name, "a result"));
    }
  }
  if (!made->read && made->last_use < t->l.n) fprintf(t->out, "  unused");
  if (r == 0) print_lane(t, s);
  char name[128];
  if (r == 0 && s->recomputed)
    fprintf(t->out, "  again: %s", nn_attr_str(s->op, ATTR_recompute, name, sizeof name, "?"));
}

static void print_step(const Printer *t, int i) {
  const PlanStep *s = &t->p.steps[i];
  char text[160], size[32], live[32], type[160], at[32];
  describe(t, s, text, sizeof text);
  bytes(t->live[i], live);
  for (int r = 0; r < s->n_results || r == 0; r++) {
    if (r == 0) fprintf(t->out, "%6d%c %-44.44s", i, s->recomputed ? '*' : ' ', text);
    else fprintf(t->out, "%6s  %-44s", "", "");
    if (s->n_results == 0) {
      fprintf(t->out, " %-28s %12s %11s %11s", "", "", "", live);
      print_lane(t, s);
    } else {
      NnType result = nn_value_type(t->p.values[s->first_result + r].value);
      fprintf(t->out, " %-28s %12s %11s %11s", nn_type_format(&result, type, sizeof type),
              place(attr_offset(s->op, r), at), bytes(t->p.values[s->first_result + r].bytes, size),
              r == 0 ? live : "");
      print_notes(t, i, r);
    }
    fputc('\n', t->out);
  }
  if (s->workspace > 0)
    fprintf(t->out, "%6s  %-44s %-28s %12lld %11s\n", "", "", "(workspace)",
            (long long)nn_attr_i64(s->op, ATTR_workspace, -1), bytes(s->workspace, size));
}

// What the pass `recompute` left on the function.
static void print_inside(const Printer *t) {
  char kept[32], saved[32];
  int kernels = 0;
  for (int i = 0; i < t->p.n_steps; i++) kernels += nn_has_attr(t->p.steps[i].op, ATTR_inside);
  int64_t less = nn_attr_i64(t->p.func, ATTR_checkpoint_saved, 0);
  if (less <= 0) return;
  fprintf(t->out,
          "checkpointed kernels save %s: %d backward kernels compute cheap values again inside; %s kept from forward "
          "to backward\n",
          bytes(less, saved), kernels, bytes(nn_attr_i64(t->p.func, ATTR_checkpoint_kept, 0), kept));
}

// What is copied away and back.
static void print_moved(const Printer *t) {
  char out[32], in[32];
  int n = 0;
  int64_t moved[NN_LANES] = {0};
  for (int i = 0; i < t->p.n_steps; i++) {
    const PlanStep *s = &t->p.steps[i];
    if (nn_op_of(s->op) != NN_OP_copy || (s->lane != NN_LANE_OUT && s->lane != NN_LANE_IN)) continue;
    moved[s->lane] += t->p.values[s->first_result].bytes;
    n++;
  }
  if (n)
    fprintf(t->out, "moved: %d copies, %s out and %s in\n", n, bytes(moved[NN_LANE_OUT], out),
            bytes(moved[NN_LANE_IN], in));
}

// What the remat pass left on the function.
static void print_remat(const Printer *t) {
  char policy[32], none[32], now[32];
  int again = 0;
  for (int i = 0; i < t->p.n_steps; i++) again += t->p.steps[i].recomputed;
  if (!nn_has_attr(t->p.func, ATTR_remat)) return;
  fprintf(t->out, "remat %s: %d of %d steps run again (marked *), %+.2f %% time",
          nn_attr_str(t->p.func, ATTR_remat, policy, sizeof policy, "none"), again, t->p.n_steps,
          100 * nn_attr_f64(t->p.func, ATTR_overhead, 0));
  // Where nothing was asked for the plan is the one without recomputation.
  int64_t segmented = nn_attr_i64(t->p.func, ATTR_segmented, 0),
          before = nn_attr_i64(t->p.func, ATTR_arena_none, nn_attr_i64(t->p.func, ATTR_arena, -1));
  if (segmented) fprintf(t->out, "; %lld loop%s in segments", (long long)segmented, segmented > 1 ? "s" : "");
  if (before >= 0) fprintf(t->out, "; without: %s", bytes(before, none));
  before = nn_attr_i64(t->p.func, ATTR_activations_none, -1);
  if (before >= 0)
    fprintf(t->out, "; activations %s, without: %s", bytes(plan_layout_activations(&t->p, &t->l), now),
            bytes(before, none));
  fputc('\n', t->out);
}

static void print_function(MlirModule module, MlirOperation func, FILE *out) {
  Printer t = {.out = out, .persistent = nn_attr_i64(func, ATTR_persistent, 0)};
  char name[128], arena[32], live[32], persistent[32];
  plan_program_build(&t.p, module, func, NULL);
  plan_layout_build(&t.p, NULL, t.p.n_steps, PLAN_INPLACE_READ, &t.l);
  find_live(&t);
  find_returned(&t);
  fprintf(out, "@%s: arena %s, live at most %s, persistent %s\n", nn_attr_str(func, "sym_name", name, sizeof name, "?"),
          bytes(nn_attr_i64(func, ATTR_arena, 0), arena), bytes(nn_attr_i64(func, ATTR_live, 0), live),
          bytes(t.persistent, persistent));
  if (nn_has_attr(func, ATTR_far_arena))
    fprintf(out, "far arena %s, live at most %s, persistent %s\n", bytes(nn_attr_i64(func, ATTR_far_arena, 0), arena),
            bytes(nn_attr_i64(func, ATTR_far_live, 0), live),
            bytes(nn_attr_i64(func, ATTR_far_persistent, 0), persistent));
  print_inside(&t);
  print_remat(&t);
  print_moved(&t);
  print_arguments(&t);
  fprintf(out, "%6s  %-44s %-28s %12s %11s %11s\n", "step", "op", "result", "offset", "size", "live");
  for (int i = 0; i < t.p.n_steps; i++) print_step(&t, i);
  fputc('\n', out);
  free(t.live);
  free(t.returned);
  free(t.also_returned);
  plan_layout_free(&t.l);
  plan_program_free(&t.p);
}

void nn_plan_print(MlirModule module, FILE *out) {
  NnFunctions functions = nn_public_functions(module);
  char arena[32];
  int64_t total = nn_attr_i64(mlirModuleGetOperation(module), ATTR_arena, 0);
  fprintf(out, "arena %s (%lld bytes)\n", bytes(total, arena), (long long)total);
  int64_t far = nn_attr_i64(mlirModuleGetOperation(module), ATTR_far_arena, 0);
  if (far) fprintf(out, "far arena %s (%lld bytes)\n", bytes(far, arena), (long long)far);
  fputc('\n', out);
  for (int f = 0; f < functions.n; f++) print_function(module, functions.items[f], out);
}

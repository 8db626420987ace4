// A step as the solver's problem, as the problem whose bound holds for every plan, and as the function that a plan
// makes of it: what each must keep, and where the rules say no.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mlir-c/Diagnostics.h"
#include "passes/remat/remat.h"
#include "support/alloc.h"
#include "test/check.h"

#define M "tensor<64x64xf32>"
#define MATMUL "{transpose_a = false, transpose_b = false, nn.phase = \"forward\"} : (" M ", " M ") -> " M "\n"
#define RELU                                                                       \
  "func.func private @relu(%a: " M ") -> " M                                       \
  " attributes {nn.kernel, nn.kind = \"map\", nn.domain = array<i64: 64, 64>} {\n" \
  "  %r = \"nn.relu\"(%a) : (" M ") -> " M "\n  return %r : " M "\n}\n"
#define FORWARD "{nn.phase = \"forward\"} : (" M ") -> " M "\n"

enum { BYTES = 64 * 64 * 4 };

typedef struct Step {
  MlirModule module;
  PlanProgram p;
  StepProblem q;
} Step;

static MlirContext ctx;

static Step step_of(const char *text) {
  Step s = {.module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text))};
  plan_program_build(&s.p, s.module, nn_module_function(s.module, "train"), NULL);
  step_problem_build(&s.q, &s.p, 0, NULL, NULL);
  return s;
}

static void step_free(Step *s) {
  step_problem_free(&s->q);
  plan_program_free(&s->p);
  mlirModuleDestroy(s->module);
}

// ---------------------------------------------------------------------------------------------------------------------
// The problem

// A chain ends at a value that is returned: it is an output, and what follows has a buffer of its own.
static void test_returned_value(void) {
  Step s = step_of("func.func @train(%x: " M " {nn.role = \"input\"}) -> (" M " {nn.role = \"output\"}, " M
                   " {nn.role = \"output\"}) {\n"
                   "  %m = \"nn.matmul\"(%x, %x) " MATMUL "  %h = call @relu(%m) " FORWARD
                   "  %k = call @relu(%h) " FORWARD "  return %h, %k : " M ", " M "\n}\n" RELU);
  CHECK(s.q.step_node[0] == s.q.step_node[1], "the product and what is made of it in place are one node");
  CHECK(s.q.step_node[2] != s.q.step_node[1], "what is returned is overwritten");
  CHECK(s.q.problem.n_outputs == 2, "%d outputs", s.q.problem.n_outputs);
  step_free(&s);
}

// %n is tied to %p: step 0 reads %p before, step 2 behind, which therefore may not run again. Step 3 reads neither.
static void test_late_reader(void) {
  Step s = step_of("func.func @train(%x: " M " {nn.role = \"input\"}, %p: " M
                   " {nn.role = \"param\", nn.name = \"p\"}) -> (" M " {nn.role = \"output\"}, " M
                   " {nn.role = \"output\"}, " M " {nn.role = \"update\", nn.tied = 1 : i64}) {\n"
                   "  %m = \"nn.matmul\"(%x, %p) " MATMUL "  %n = \"nn.sub\"(%p, %m) {nn.phase = \"update\"} : (" M
                   ", " M ") -> " M "\n  %l = \"nn.matmul\"(%p, %x) " MATMUL "  %o = \"nn.matmul\"(%x, %x) " MATMUL
                   "  return %l, %o, %n : " M ", " M ", " M "\n}\n");
  const int *node = s.q.step_node;
  CHECK(s.q.nodes[node[0]].recomputable, "an early reader may run again, before the update");
  CHECK(!s.q.nodes[node[1]].recomputable, "the update runs once");
  CHECK(!s.q.nodes[node[2]].recomputable, "a reader behind the update would find another value when it runs again");
  CHECK(s.q.nodes[node[3]].recomputable, "who reads something else may run again");
  CHECK(s.q.problem.n_anti == 1 && s.q.anti[0].before == node[0] && s.q.anti[0].after == node[1], "%d pairs",
        s.q.problem.n_anti);
  step_free(&s);
}

// All arguments are there before the first step: one that reads %x alone cannot come before %y, whose bytes would not
// be counted beside it. Where the first step reads all of them nothing has to be said.
static void test_arguments_first(void) {
  Step s = step_of("func.func @train(%x: " M " {nn.role = \"input\"}, %y: " M " {nn.role = \"input\"}) -> (" M
                   " {nn.role = \"output\"}) {\n"
                   "  %a = \"nn.matmul\"(%x, %x) " MATMUL "  %b = \"nn.matmul\"(%a, %y) " MATMUL "  return %b : " M
                   "\n}\n");
  const StepProblem *q = &s.q;
  int early[] = {q->arg_node[0], q->step_node[0], q->arg_node[1], q->begin, q->step_node[1]};
  int first[] = {q->arg_node[0], q->arg_node[1], q->begin, q->step_node[0], q->step_node[1]};
  RematSimulation simulation;
  InputError error;
  CHECK(q->problem.n_nodes == 5, "%d nodes", q->problem.n_nodes);
  CHECK(!remat_simulate(&q->problem, early, 5, &simulation, &error), "a step before an argument is there");
  bool legal = remat_simulate(&q->problem, first, 5, &simulation, &error);
  CHECK(legal && simulation.peak == q->arena_none, "the arguments, then the steps");
  if (legal) remat_simulation_free(&simulation);
  step_free(&s);
  s = step_of("func.func @train(%x: " M " {nn.role = \"input\"}, %y: " M " {nn.role = \"input\"}) -> (" M
              " {nn.role = \"output\"}) {\n"
              "  %a = \"nn.matmul\"(%x, %y) " MATMUL "  return %a : " M "\n}\n");
  CHECK(s.q.begin < 0 && s.q.problem.n_nodes == 3, "%d nodes", s.q.problem.n_nodes);
  step_free(&s);
}

// ---------------------------------------------------------------------------------------------------------------------
// The bound

// %m and what is made of it in place stand beside %x at the peak: two matrices, not three. What needs no recomputation
// at its own arena must not be said to need any, and no arena may be called impossible that a plan has.
static void test_bound(void) {
  Step s = step_of("func.func @train(%x: " M " {nn.role = \"input\"}) -> (" M " {nn.role = \"output\"}) {\n"
                   "  %m = \"nn.matmul\"(%x, %x) " MATMUL "  %h = call @relu(%m) " FORWARD
                   "  %k = \"nn.matmul\"(%h, %x) " MATMUL "  %o = call @relu(%k) " FORWARD "  return %o : " M
                   "\n}\n" RELU);
  StepBound b;
  step_bound_build(&b, &s.p, 0, &s.q);
  CHECK(s.q.arena_none == 3 * BYTES, "an arena of %lld bytes", (long long)s.q.arena_none);
  CHECK(b.slack > 0, "nothing in place");
  CHECK(step_bound_overhead(&b, s.q.arena_none, 1) == 0, "a bound of %g on a plan without recomputation",
        step_bound_overhead(&b, s.q.arena_none, 1));
  CHECK(step_bound_bytes(&b) == 3 * BYTES, "no arena below %lld bytes", (long long)step_bound_bytes(&b));
  CHECK(isinf(step_bound_overhead(&b, s.q.arena_none - BYTES, 1)), "a plan without room for a product");
  step_bound_free(&b);
  step_free(&s);
}

// One matrix less than the step needs, and %a must be made again: so much more time, and no bound may be above it.
static void test_bound_of_time(void) {
  Step s = step_of("func.func @train(%x: " M " {nn.role = \"input\"}) -> (" M " {nn.role = \"output\"}) {\n"
                   "  %a = \"nn.matmul\"(%x, %x) " MATMUL "  %b = \"nn.matmul\"(%a, %x) " MATMUL
                   "  %c = \"nn.matmul\"(%b, %x) " MATMUL "  %d = \"nn.matmul\"(%c, %x) " MATMUL
                   "  %o = \"nn.matmul\"(%d, %a) " MATMUL "  return %o : " M "\n}\n");
  StepBound b;
  step_bound_build(&b, &s.p, 0, &s.q);
  double all = 0;
  for (int i = 0; i < s.p.n_steps; i++) all += s.q.step_seconds[i];
  double again = s.q.step_seconds[0] / all, bound = step_bound_overhead(&b, 3 * BYTES, 1);
  CHECK(s.q.arena_none == 4 * BYTES, "an arena of %lld bytes", (long long)s.q.arena_none);
  CHECK(again > 0 && fabs(bound - again) < 1e-9, "a bound of %g, where a plan takes %g", bound, again);
  CHECK(step_bound_overhead(&b, 4 * BYTES, 1) == 0, "a bound above a plan without recomputation");
  step_bound_free(&b);
  step_free(&s);
}

// A product that is added to its third operand saves that one's bytes, unless they are a part of a larger value's.
static void test_bound_in_place(void) {
#define ROWS " {nn.phase = \"forward\"} : ("
#define PART "tensor<32x64xf32>"
  Step s = step_of("func.func @train(%x: " M " {nn.role = \"input\"}) -> (" M " {nn.role = \"output\"}) {\n"
                   "  %m = \"nn.matmul\"(%x, %x) " MATMUL "  %o = \"nn.matmul_rows_to\"(%x, %x, %m)" ROWS M ", " M
                   ", " M ") -> " M "\n  return %o : " M "\n}\n");
  StepBound b;
  step_bound_build(&b, &s.p, 0, &s.q);
  CHECK(b.slack == BYTES, "%lld bytes over the third operand", (long long)b.slack);
  step_bound_free(&b);
  step_free(&s);
  s = step_of("func.func @train(%x: " M " {nn.role = \"input\"}, %w: tensor<64x32xf32> {nn.role = \"input\"}) -> (" PART
              " {nn.role = \"output\"}) {\n"
              "  %m = \"nn.matmul\"(%x, %x) " MATMUL
              "  %v = \"nn.slice\"(%m) {starts = array<i64: 0, 0>, sizes = array<i64: 32, 64>, strides = array<i64: 1, "
              "1>} : (" M ") -> " PART "\n  %o = \"nn.matmul_rows_to\"(%w, %x, %v)" ROWS "tensor<64x32xf32>, " M
              ", " PART ") -> " PART "\n  return %o : " PART "\n}\n");
  step_bound_build(&b, &s.p, 0, &s.q);
  CHECK(b.slack == 0, "%lld bytes over a part", (long long)b.slack);
  step_bound_free(&b);
  step_free(&s);
}

// ---------------------------------------------------------------------------------------------------------------------
// The function

// Rewrites the function so that its steps run in this order; the places are those of the sequence.
static void rewrite(Step *s, int *exec, int n) {
  PlanLayout l;
  plan_layout_build(&s->p, exec, n, PLAN_INPLACE_DECIDE, &l);
  plan_layout_place(&s->p, &l, 0, PLAN_SHORT);
  int64_t *offset = allocate_array((size_t)l.n_buffers, sizeof *offset);
  for (int i = 0; i < l.n_buffers; i++) offset[i] = l.buffers[i].offset;
  InputError error;
  CHECK(remat_check_sequence(&s->p, exec, n, &error), "not a sequence of the step");
  RematPlan plan = {.n = n, .exec = exec, .offset = offset};
  remat_rewrite(&s->p, &plan, &(PlanBase){0});
  free(offset);
  plan_layout_free(&l);
  CHECK(nn_verify_module(s->module), "the function is no longer well formed");
}

static MlirOperation nth_op(MlirBlock block, int n) {
  MlirOperation op = mlirBlockGetFirstOperation(block);
  while (n-- > 0) op = mlirOperationGetNextInBlock(op);
  return op;
}

static MlirBlock region_of(MlirOperation op) { return mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)); }

static bool is(MlirOperation op, const char *name) {
  MlirStringRef found = mlirIdentifierStr(mlirOperationGetName(op));
  return found.length == strlen(name) && !memcmp(found.data, name, found.length);
}

// %w shows %m through another view. Steps: m, a = w x, b = w w, c = x b, d = c x.
static Step step_with_views(void) {
  return step_of("func.func @train(%x: " M " {nn.role = \"input\"}) -> (" M " {nn.role = \"output\"}, " M
                 " {nn.role = \"output\"}, " M " {nn.role = \"output\"}, " M " {nn.role = \"output\"}) {\n"
                 "  %m = \"nn.matmul\"(%x, %x) " MATMUL "  %v = \"nn.reshape\"(%m) : (" M
                 ") -> tensor<4096xf32>\n  %w = \"nn.reshape\"(%v) : (tensor<4096xf32>) -> " M
                 "\n  %a = \"nn.matmul\"(%w, %x) " MATMUL "  %b = \"nn.matmul\"(%w, %w) " MATMUL
                 "  %c = \"nn.matmul\"(%x, %b) " MATMUL "  %d = \"nn.matmul\"(%c, %x) " MATMUL
                 "  return %a, %b, %c, %d : " M ", " M ", " M ", " M "\n}\n");
}

// Views in region n of the function.
static int views_in_region(const Step *s, int n) {
  MlirOperation op = mlirBlockGetFirstOperation(nn_function_body(nn_module_function(s->module, "train")));
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (is(op, "scf.execute_region") && n-- == 0) break;
  int views = 0;
  if (mlirOperationIsNull(op)) return -1;
  for (op = mlirBlockGetFirstOperation(region_of(op)); !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    views += is(op, "nn.reshape");
  return views;
}

// A value that runs again in one region and is read in the next, too: the views of one region cannot be seen from the
// other. Those of the function can be seen from all.
static void test_views_in_regions(void) {
  Step s = step_with_views();
  rewrite(&s, (int[]){0, 1, 2, /**/ 0, 1, /**/ 3, /**/ 2, /**/ 4}, 8);
  CHECK(views_in_region(&s, 0) == 2 && views_in_region(&s, 1) == 2, "two views in each of both regions");
  step_free(&s);
  s = step_with_views();
  rewrite(&s, (int[]){0, 1, 2, 3, /**/ 1, /**/ 4}, 6);
  CHECK(views_in_region(&s, 0) == 0, "%d views again", views_in_region(&s, 0));
  step_free(&s);
}

// The views stand behind the second execution of %m, so that they show its result, when %m runs for the third time.
static void test_views_of_a_clone(void) {
  Step s = step_with_views();
  rewrite(&s, (int[]){0, /**/ 0, /**/ 1, /**/ 0, 1, /**/ 2, 3, 4}, 8);
  CHECK(views_in_region(&s, 0) == 0 && views_in_region(&s, 1) == 2, "two views in the second region");
  step_free(&s);
}

// The kernel that updates %s makes an activation of %m, over which it is written when it runs again, alone: %m is the
// only operand of that part.
static void test_operands_of_a_part(void) {
  Step s = step_of(
      "func.func @train(%x: " M " {nn.role = \"input\"}, %s: tensor<64xf32> {nn.role = \"state\", nn.name = "
      "\"s\"}) -> (" M " {nn.role = \"output\"}, " M
      " {nn.role = \"output\"}, tensor<64xf32> {nn.role = \"update\", nn.tied = 1 : i64}) {\n"
      "  %m = \"nn.matmul\"(%x, %x) " MATMUL "  %k:2 = call @k(%s, %m) {nn.phase = \"forward\"} : (tensor<64xf32>, " M
      ") -> (tensor<64xf32>, " M ")\n  %a = \"nn.matmul\"(%k#1, %x) " MATMUL "  %b = \"nn.matmul\"(%k#1, %a) " MATMUL
      "  return %a, %b, %k#0 : " M ", " M ", tensor<64xf32>\n}\n"
      "func.func private @k(%s: tensor<64xf32>, %a: " M ") -> (tensor<64xf32>, " M
      ") attributes {nn.kernel, nn.kind = \"column\", nn.domain = array<i64: 64, 64>, nn.axes = array<i64: 0>} {\n"
      "  %r = \"nn.relu\"(%a) : (" M ") -> " M "\n"
      "  %t = \"nn.reduce_sum\"(%a) {axes = array<i64: 0>} : (" M ") -> tensor<64xf32>\n"
      "  %u = \"nn.add\"(%s, %t) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>\n"
      "  return %u, %r : tensor<64xf32>, " M "\n}\n");
  CHECK(s.p.steps[1].again && s.p.steps[1].again[1] && !s.p.steps[1].again[0], "the activation alone runs again");
  // m k a | m k | b
  rewrite(&s, (int[]){0, 1, 2, 0, 1, 3}, 6);
  MlirOperation region = nth_op(nn_function_body(nn_module_function(s.module, "train")), 3);
  CHECK(is(region, "scf.execute_region"), "no region");
  MlirOperation part = nth_op(region_of(region), 1);
  int64_t pairs[4] = {-1, -1, -1, -1};
  CHECK(mlirOperationGetNumOperands(part) == 1 && nn_attr_i64s(part, "nn.inplace", pairs, 4) == 2 && pairs[0] == 0 &&
            pairs[1] == 0,
        "result %lld over operand %lld of %d", (long long)pairs[0], (long long)pairs[1],
        (int)mlirOperationGetNumOperands(part));
  step_free(&s);
}

// y, what p becomes, and a sum so small that it is kept: y alone is made again, from x.
static void test_part_that_runs_again(void) {
  static const char text[] = "func.func @train(%x: " M " {nn.role = \"input\", nn.name = \"x\"}, %p: " M
                             " {nn.role = \"param\", nn.name = \"p\"})\n"
                             "    -> (" M " {nn.role = \"output\", nn.name = \"y\"}, " M
                             " {nn.role = \"update\", nn.tied = 1 : i64}) {\n"
                             "  %0:3 = call @k(%x, %p) {nn.phase = \"forward\"} : (" M ", " M ") -> (" M ", " M
                             ", tensor<64xf32>)\n"
                             "  return %0#0, %0#1 : " M ", " M "\n}\n"
                             "func.func private @k(%x: " M ", %p: " M ") -> (" M ", " M
                             ", tensor<64xf32>) attributes {nn.kernel, nn.kind = \"row\", "
                             "nn.domain = array<i64: 64, 64>, nn.axes = array<i64: 1>} {\n"
                             "  %y = \"nn.relu\"(%x) : (" M ") -> " M "\n  %q = \"nn.sub\"(%p, %y) : (" M ", " M
                             ") -> " M "\n"
                             "  %s = \"nn.reduce_sum\"(%x) {axes = array<i64: 1>} : (" M ") -> tensor<64xf32>\n"
                             "  return %y, %q, %s : " M ", " M ", tensor<64xf32>\n}\n";
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  PlanProgram p;
  plan_program_build(&p, module, nn_module_function(module, "train"), NULL);
  remat_find_again(&p, 1024);
  const PlanStep *s = &p.steps[0];
  CHECK(s->again && s->again[0] && !s->again[1] && !s->again[2], "not y alone");
  CHECK(s->reads_again && s->reads_again[0] && !s->reads_again[1], "not from x alone");
  plan_program_free(&p);
  mlirModuleDestroy(module);
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory far away

static double one_second(const NnTarget *target, MlirOperation op) {
  (void)target, (void)op;
  return 1;
}

static int64_t no_workspace(const NnTarget *target, MlirOperation op) {
  (void)target, (void)op;
  return 0;
}

static void append(MlirStringRef part, void *to) { strncat(to, part.data, part.length); }

static MlirLogicalResult collect(MlirDiagnostic diagnostic, void *to) {
  mlirDiagnosticPrint(diagnostic, append, to);
  return mlirLogicalResultSuccess();
}

#define L "tensor<1024x1024xf32>"
#define LARGE " : (" L ", " L ") -> " L "\n"
#define PRODUCT "{transpose_a = false, transpose_b = false, nn.phase = \"forward\"}" LARGE
#define UPDATE "{nn.phase = \"update\"}" LARGE

// The pass fails, as the options say, on two parameters that are updated one after the other.
static void expect_refusal(const NnTarget *target, const char *options, const char *with, const char *without) {
  static const char text[] = "func.func @train(%x: " L " {nn.role = \"input\", nn.name = \"x\"}, %p: " L
                             " {nn.role = \"param\", nn.name = \"p\"}, %q: " L
                             " {nn.role = \"param\", nn.name = \"q\"}) -> (" L
                             " {nn.role = \"update\", nn.tied = 1 : i64}, " L
                             " {nn.role = \"update\", nn.tied = 2 : i64}) {\n"
                             "  %a = \"nn.matmul\"(%x, %p) " PRODUCT "  %m = call @sub(%p, %a) " UPDATE
                             "  %b = \"nn.matmul\"(%x, %q) " PRODUCT "  %n = call @sub(%q, %b) " UPDATE
                             "  return %m, %n : " L ", " L "\n}\n"
                             "func.func private @sub(%a: " L ", %b: " L ") -> " L
                             " attributes {nn.kernel, nn.kind = \"map\", nn.domain = array<i64: 1024, 1024>} {\n"
                             "  %r = \"nn.sub\"(%a, %b)" LARGE "  return %r : " L "\n}\n";
  char found[1024] = "", error[NN_ERROR_SIZE];
  NnPipeline pipeline;
  MlirModule module = mlirModuleCreateParse(ctx, mlirStringRefCreateFromCString(text));
  MlirDiagnosticHandlerID handler = mlirContextAttachDiagnosticHandler(ctx, collect, found, NULL);
  CHECK(nn_pipeline_parse(options, target, &pipeline, error) && !nn_pipeline_run(&pipeline, module, NULL),
        "%s was accepted", options);
  CHECK(strstr(found, with) && !(without && strstr(found, without)), "%s: %s", options, found);
  mlirContextDetachDiagnosticHandler(ctx, handler);
  nn_pipeline_free(&pipeline);
  mlirModuleDestroy(module);
}

// A target that has none is neither asked what it would cost nor given any.
static void test_without_far(void) {
  NnTarget target = {.name = "box", .far_place = "shelf", .seconds = one_second, .workspace_bytes = no_workspace};
  expect_refusal(&target, "remat{policy=auto budget=1KiB}", "cannot be met", "--far");
  expect_refusal(&target, "remat{policy=auto budget=1KiB far=any}", "the target 'box' has no memory far away", NULL);
  target.far = (NnFarRates){1e9, 1e9, 1e-4, 0};
  expect_refusal(&target, "remat{policy=auto budget=1KiB}", "with --far=shelf the smallest found", NULL);
}

int main(void) {
  ctx = nn_context_create();
  test_returned_value();
  test_late_reader();
  test_arguments_first();
  test_bound();
  test_bound_of_time();
  test_bound_in_place();
  test_views_in_regions();
  test_views_of_a_clone();
  test_operands_of_a_part();
  test_part_that_runs_again();
  test_without_far();
  nn_context_destroy(ctx);
  return check_report();
}

// The lines that nnc ends with: see summary.h.
#include "compiler/summary.h"

#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"
#include "passes/decode/decode.h"
#include "passes/passes.h"
#include "passes/plan/plan.h"
#include "passes/remat/remat.h"
#include "support/bytes.h"

typedef struct Work {
  int ops, recomputed;
  double flops;
  int64_t moved_out, moved_in;   // bytes to memory far away, and from there
} Work;

static void count_work(MlirBlock block, bool recomputed, Work *work) {
  NN_FOREACH_OP (op, block) {
    if (nn_is(op, "scf.execute_region")) {
      count_work(mlirRegionGetFirstBlock(mlirOperationGetRegion(op, 0)), recomputed || nn_has_attr(op, ATTR_recompute),
                 work);
      continue;
    }
    if (nn_is(op, "scf.yield") || nn_is(op, "func.return")) continue;
    if (nn_op_of(op) == NN_OP_copy && nn_has_attr(op, ATTR_lane)) {
      char lane[16];
      NnType t = nn_value_type(mlirOperationGetResult(op, 0));
      bool out = strcmp(nn_attr_str(op, ATTR_lane, lane, sizeof lane, ""), "out") == 0;
      *(out ? &work->moved_out : &work->moved_in) += nn_type_bytes(&t);
      continue;
    }
    work->ops++;
    work->flops += nn_op_flops(op);
    work->recomputed += recomputed || nn_has_attr(op, ATTR_recompute);
  }
}

// 3.98 of 4.00 GiB: the unit once when both have it
static void print_of(int64_t part, int64_t whole) {
  char text[32], total[32];
  print_bytes(part, text, sizeof text);
  print_bytes(whole, total, sizeof total);
  char *unit = strchr(text, ' '), *total_unit = strchr(total, ' ');
  if (unit && total_unit && strcmp(unit, total_unit) == 0) *unit = 0;
  fprintf(stderr, "%s of %s", text, total);
}

// lenet: 720 KiB far away, 716 KiB of it parameters and optimizer state; moves 0.8 MiB out and 1.2 MiB in a step
static void print_far(const char *name, MlirModule module) {
  char arena[32], persistent[32], out[32], in[32];
  MlirOperation top = mlirModuleGetOperation(module);
  Work work = {0};   // of all phases
  NN_FOREACH_OP (op, mlirModuleGetBody(module))
    if (nn_is(op, "func.func") && nn_is_train(op)) count_work(nn_function_body(op), false, &work);
  fprintf(stderr, "%s: %s far away, %s of it parameters and optimizer state; moves %s out and %s in a step\n", name,
          print_bytes(nn_attr_i64(top, ATTR_far_arena, 0), arena, sizeof arena),
          print_bytes(nn_attr_i64(top, ATTR_far_persistent, 0), persistent, sizeof persistent),
          print_bytes(work.moved_out, out, sizeof out), print_bytes(work.moved_in, in, sizeof in));
}

static void print_overhead(const char *name, MlirOperation top, MlirOperation train, bool far) {
  char phase[128];
  if (!nn_has_attr(train, ATTR_overhead_bound)) return;
  nn_phase_of(train, phase, sizeof phase);
  fprintf(stderr, "%s:%s%s recompute%s +%.1f %% (lower bound +%.1f %%), arena ", name, *phase ? " " : "", phase,
          far ? " and move" : "", 100 * nn_attr_f64(train, ATTR_overhead, 0),
          100 * nn_attr_f64(train, ATTR_overhead_bound, 0));
  int64_t budget = nn_attr_i64(top, ATTR_budget, 0);
  print_of(nn_attr_i64(*phase ? train : top, ATTR_arena, 0),
           budget > 0 ? budget : nn_attr_i64(train, ATTR_arena_none, 0));
  fputs(budget > 0 ? "\n" : " without\n", stderr);
}

// lenet: 2.14 MiB arena, 0.71 MiB of it parameters and optimizer state; recomputes 5 of 47 ops, 1.3% more arithmetic
// loops that keep less of their steps, and compute those again, count with the arithmetic only
// under a budget also: lenet: recompute +7.1 % (lower bound +5.9 %), arena 2.14 of 2.20 MiB
// under another policy or an allowed overhead: the same, against the arena without recomputation: arena 2.14 of 4.10
// MiB without
void print_summary(const Options *options, MlirModule module) {
  char arena[32], persistent[32], name[128];
  MlirOperation top = mlirModuleGetOperation(module), train = nn_module_train(module);
  nn_attr_str(top, ATTR_model, name, sizeof name, options->output);
  if (options->fast_reduce)
    fprintf(stderr, "%s: sums over ranks are %s: the bits depend on the number of ranks\n", name,
            strcmp(options->target, "host") == 0 ? "the MPI's own, by TCP in the order of ranks" : "NCCL's own");
  print_bytes(nn_attr_i64(top, ATTR_arena, 0), arena, sizeof arena);
  print_bytes(nn_attr_i64(top, ATTR_persistent, 0), persistent, sizeof persistent);
  fprintf(stderr, "%s: %s arena, %s of it parameters", name, arena, persistent);
  if (!mlirOperationIsNull(train)) {
    Work work = {0};
    int64_t loops = 0;
    double once = 0;
    NN_FOREACH_OP (op, mlirModuleGetBody(module)) {
      if (!nn_is(op, "func.func") || !nn_is_train(op)) continue;
      double before = work.flops;
      count_work(nn_function_body(op), false, &work);
      once += nn_attr_f64(op, ATTR_flops_none, work.flops - before);
      loops += nn_attr_i64(op, ATTR_segmented, 0);
    }
    double more = once > 0 ? 100 * (work.flops / once - 1) : 0;
    fputs(" and optimizer state; ", stderr);
    if (loops) fprintf(stderr, "%lld loop%s in segments; ", (long long)loops, loops > 1 ? "s" : "");
    if (work.recomputed)
      fprintf(stderr, "recomputes %d of %d ops, %.1f%% more arithmetic", work.recomputed, work.ops - work.recomputed,
              more);
    else if (more >= 0.05) fprintf(stderr, "recomputes steps of loops, %.1f%% more arithmetic", more);
    else fputs("recomputes nothing", stderr);
  }
  fputc('\n', stderr);
  int64_t cache = decode_cache_bytes(module);
  if (cache) fprintf(stderr, "%s: caches of keys and values %s\n", name, print_bytes(cache, arena, sizeof arena));
  bool far = nn_has_attr(top, ATTR_far_arena);
  if (far) print_far(name, module);
  NN_FOREACH_OP (op, mlirModuleGetBody(module))
    if (nn_is(op, "func.func") && nn_is_train(op)) print_overhead(name, top, op, far);
}

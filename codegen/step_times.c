// Times of the lanes of a step: what exchanges between ranks take by the links of the machine, and how much of that the
// computation hides.
#include <stdlib.h>

#include "codegen/op_records.h"
#include "codegen/target.h"
#include "passes/plan/plan.h"
#include "support/alloc.h"
#include "support/integers.h"

// What a rank sends to others of its machine and to those of other machines goes at the same time; messages of a phase
// begin one behind the other.
static double phase_seconds(const Machine *m, double to_each, int64_t ranks) {
  int64_t near = (ranks < m->node_ranks ? ranks : m->node_ranks) - 1, far = ranks - 1 - near;
  double inside = (double)near * (m->node.message_seconds + to_each / m->node.bytes_per_second),
         outside = far ? (double)far * (m->network.message_seconds + to_each / m->network.bytes_per_second) : 0;
  return inside > outside ? inside : outside;
}

// What each rank has for all goes around a ring, as NCCL and MPIs do it: a byte enters each machine once, by one of the
// links of its ranks.
static double ring_seconds(const Machine *m, double of_each, int64_t ranks) {
  int64_t near = ranks < m->node_ranks ? ranks : m->node_ranks, machines = divide_up(ranks, near);
  double inside = (double)(ranks - 1) * of_each / m->node.bytes_per_second,
         outside = machines > 1 ? (double)(ranks - near) * of_each / (double)near / m->network.bytes_per_second : 0;
  return (double)(ranks - machines) * m->node.message_seconds + (double)(machines - 1) * m->network.message_seconds +
         (inside > outside ? inside : outside);
}

// Sums over ranks: a part of each rank's numbers to each, which differs from rank to rank, then the part that is
// summed; one of the two where parts are kept. Sums of the engine's own go around rings as well. Running values go from
// rank to rank, and from the last to all.
double machine_exchange_seconds(const Machine *m, MlirOperation op, int64_t ranks, double *bytes) {
  OpRecord r = op_record(op);
  *bytes = 0;
  if (r.kind != NNC_STEP_COLLECTIVE || ranks < 2) return 0;
  double all = (double)r.collective.elements * (double)nn_dtype_bytes((NnDtype)r.collective.dtype),
         part = all / (double)ranks, one = phase_seconds(m, all, 2);
  bool inside = ranks <= m->node_ranks;
  if (!inside) one = m->network.message_seconds + all / m->network.bytes_per_second;
  switch (r.collective.kind) {
  case NNC_ALL_REDUCE:
    *bytes = 2 * part * (double)(ranks - 1);
    return (r.collective.fast ? ring_seconds(m, part, ranks) : phase_seconds(m, part, ranks)) +
           ring_seconds(m, part, ranks);
  case NNC_REDUCE_SCATTER:
    *bytes = all * (double)(ranks - 1);
    return r.collective.fast ? ring_seconds(m, all, ranks) : phase_seconds(m, all, ranks);
  case NNC_ALL_GATHER: *bytes = part * (double)(ranks - 1); return ring_seconds(m, part, ranks);
  case NNC_RANK_PART:
  case NNC_RANK_RECEIVE: return 0;
  case NNC_RANK_SEND: *bytes = all; return (double)ranks * one;
  }
  return 0;
}

bool codegen_knows_links(const CodegenTarget *target, int64_t ranks) {
  const Machine *m = &target->machine;
  return ranks == 1 || (m->node_ranks > 0 && (ranks <= m->node_ranks || m->network.bytes_per_second > 0));
}

// What a copy to memory far away or back takes, and by how much it holds up what is computed. 0: it is none.
static double copy_seconds(const CodegenTarget *target, MlirOperation op, NnLane lane, double *drag) {
  if (nn_op_of(op) != NN_OP_copy || (lane != NN_LANE_OUT && lane != NN_LANE_IN)) return 0;
  NnType t = nn_value_type(mlirOperationGetResult(op, 0));
  return nn_far_seconds(&target->machine.far, lane == NN_LANE_OUT, (double)nn_type_bytes(&t), drag);
}

// Of kernels, by what calls name: a kernel takes the same at each of its calls.
typedef struct KernelTimes {
  PtrMap ids;
  int n;
  double *seconds;   // Owned
} KernelTimes;

static double run_seconds(const CodegenTarget *target, MlirOperation op, KernelTimes *kernels) {
  if (!nn_is(op, "func.call")) return target_seconds(target, op);
  const void *callee = nn_attribute(op, "callee").ptr;
  int known = ptr_map_get(&kernels->ids, callee);
  if (known >= 0) return kernels->seconds[known];
  ptr_map_set(&kernels->ids, callee, kernels->n);
  return *ARRAY_ADD(kernels->seconds, kernels->n) = target_seconds(target, op);
}

StepTimes codegen_step_times(const CodegenTarget *target, MlirOperation func, int64_t ranks) {
  StepTimes p = {0};
  NnStepList list = nn_flatten(func);
  LaneStep *steps = allocate_array((size_t)list.n + 1, sizeof *steps);
  double *seconds = allocate_array((size_t)list.n + 1, sizeof *seconds), drag = 0;
  KernelTimes kernels = {0};
  int n = 0;   // by number in the plan
  for (int i = 0; i < list.n; i++) {
    const NnStep *s = &list.items[i];
    if (s->role != NN_STEP_RUN && s->role != NN_STEP_TAP) continue;
    NnLane lane = nn_lane_of(s->op);
    double sent, copied = copy_seconds(target, s->op, lane, &drag);
    seconds[n] = copied > 0 || s->role != NN_STEP_RUN ? copied : run_seconds(target, s->op, &kernels);
    seconds[n] += machine_exchange_seconds(&target->machine, s->op, ranks, &sent);
    if (lane == NN_LANE_COMPUTE) seconds[n] += drag, drag = 0;
    steps[n] = (LaneStep){.lane = lane, .waits = lane_clock_none};
    int64_t waits[NN_LANES];
    int n_waits = nn_attr_i64s(s->op, ATTR_waits, waits, NN_LANES);
    for (int k = 0; k < n_waits; k++) {
      NnLane of = steps[waits[k]].lane;
      if (steps[n].waits.at[of] < waits[k]) steps[n].waits.at[of] = (int)waits[k];
    }
    if (lane == NN_LANE_COMPUTE) p.computing += seconds[n];
    if (lane == NN_LANE_COMM) p.exchanging += seconds[n];
    if (lane == NN_LANE_OUT) p.moving_out += seconds[n];
    if (lane == NN_LANE_IN) p.moving_in += seconds[n];
    p.bytes_sent += sent;
    n++;
  }
  p.seconds = lanes_makespan(n, steps, seconds, NULL);
  free(steps);
  free(seconds);
  ptr_map_free(&kernels.ids);
  free(kernels.seconds);
  nn_steps_free(&list);
  return p;
}

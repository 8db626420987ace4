// Gradients that are made in their bucket: the result of a sum over ranks is its operands one behind the other, so an
// operand that nothing reads afterwards can lie there from the start, and is neither copied nor there twice. What
// torch.nn.parallel.DistributedDataParallel calls `gradient_as_bucket_view`.
#include <stdlib.h>

#include "passes/plan/plan.h"
#include "support/alloc.h"

// The whole of a buffer of this call that nothing reads behind the sum.
static bool can_be_part(const PlanProgram *p, const PlanLayout *l, int position, int value, const PlanInstance *made) {
  const PlanBuffer *b = &l->buffers[made->buffer];
  return made->buffer >= p->n_args && !b->persistent && !b->far && made->last_use == position &&
         b->bytes == p->values[value].bytes && p->values[value].shift == 0;
}

static bool is_read_once(const PlanLayout *l, int n, const int *operands, int o) {
  int times = 0;
  for (int q = 0; q < n; q++) times += l->instances[operands[q]].buffer == l->instances[operands[o]].buffer;
  return times == 1;
}

void plan_buckets_gather(const PlanProgram *p, PlanLayout *l, int position, int n, const int *operands) {
  const PlanStep *s = &p->steps[l->exec ? l->exec[position] : position];
  if (nn_op_of(s->op) != NN_OP_all_reduce || n < 2) return;
  int bucket = l->instances[l->first_instance[position]].buffer;
  int64_t shift = 0;
  if (bucket < p->n_args || l->buffers[bucket].persistent || l->buffers[bucket].lower != position) return;
  for (int o = 0; o < n; o++) {
    const PlanInstance *made = &l->instances[operands[o]];
    if (shift % p->alignment == 0 && can_be_part(p, l, position, s->inputs[o], made) &&
        is_read_once(l, n, operands, o)) {
      *ARRAY_ADD(l->parts, l->n_parts) = (PlanPart){.buffer = made->buffer, .bucket = bucket};
      l->buffers[made->buffer].shift = shift;
    }
    shift += p->values[s->inputs[o]].bytes;
  }
}

// ---------------------------------------------------------------------------------------------------------------------

static void add_live(int64_t *live, int lower, int upper, int64_t bytes) {
  for (int i = lower; i < upper; i++) live[i] += bytes;
}

static int64_t most_of(const int64_t *live, int lower, int upper) {
  int64_t most = 0;
  for (int i = lower; i < upper; i++)
    if (live[i] > most) most = live[i];
  return most;
}

// The n parts of a bucket; those that begin first leave it until it raises no peak. `live`: as without them, then with
// those that stay.
static void settle_bucket(const PlanProgram *p, PlanLayout *l, const PlanPart *parts, int n, int64_t *live,
                          int64_t peak) {
  PlanBuffer *bucket = &l->buffers[parts->bucket];
  int64_t bytes = plan_align(p, bucket->bytes);
  int end = bucket->lower;
  for (int i = 0; i < n; i++) {
    PlanBuffer *b = &l->buffers[parts[i].buffer];
    add_live(live, b->lower, b->upper, -plan_align(p, b->bytes));
    b->within = parts->bucket;
  }
  for (int left = n; left > 0; left--) {
    PlanBuffer *first = NULL;
    for (int i = 0; i < n; i++) {
      PlanBuffer *b = &l->buffers[parts[i].buffer];
      if (b->within >= 0 && (!first || b->lower < first->lower)) first = b;
    }
    add_live(live, first->lower, end, bytes);
    bucket->lower = first->lower;
    if (most_of(live, first->lower, end) <= peak) return;
    add_live(live, first->lower, end, -bytes);
    add_live(live, first->lower, first->upper, plan_align(p, first->bytes));
    bucket->lower = end;
    first->within = -1;
  }
}

void plan_buckets_settle(const PlanProgram *p, PlanLayout *l) {
  if (l->n_parts == 0) return;
  int64_t *live = plan_layout_live(p, l), peak = most_of(live, 0, l->n + 1);
  for (int i = 0, n; i < l->n_parts; i += n) {
    for (n = 1; i + n < l->n_parts && l->parts[i + n].bucket == l->parts[i].bucket;) n++;
    settle_bucket(p, l, l->parts + i, n, live, peak);
  }
  free(live);
}

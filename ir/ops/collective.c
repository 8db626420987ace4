// Collectives: what the ranks of a distributed program give each other. Operands lie one behind the other, flattened,
// in the one result.
#include "ir/ops/ops.h"
#include "support/bytes.h"

static bool infer_bucket(NnOpCall *c, int first, NnType *result) {
  int64_t elements = 0;
  if (first >= c->n_operands) return nn_fail(c, "there is nothing to exchange");
  const NnType *x = &c->operand[first];
  if (!nn_dtype_is_float(x->dtype)) return nn_fail(c, "only floats are exchanged, found %s", nn_text(x).text);
  for (int i = first; i < c->n_operands; i++) {
    if (c->operand[i].dtype != x->dtype)
      return nn_fail(c, "operands must have one element type, found %s and %s", nn_text(x).text,
                     nn_text(&c->operand[i]).text);
    elements += nn_type_elements(&c->operand[i]);
  }
  *result = nn_type(x->dtype, 1, &elements);
  return true;
}

bool nn_infer_all_reduce(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return infer_bucket(c, 0, result);
}

// Parts of what `ranks` share.

static bool need_ranks(NnOpCall *c, int64_t *ranks) {
  *ranks = nn_call_i64(c, "ranks", 0);
  return *ranks >= 1 || nn_fail(c, "ranks must be at least 1, found %lld", (long long)*ranks);
}

static int64_t part_of(const NnType *whole, int64_t ranks) {
  return elements_per_rank(nn_type_elements(whole), nn_dtype_bytes(whole->dtype), ranks);
}

static bool need_floats(NnOpCall *c) {
  NnType flat;
  return infer_bucket(c, 0, &flat);
}

bool nn_infer_reduce_scatter(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t ranks, elements = 0;
  bool adds = nn_call_bool(c, "adds", false);
  if (!need_floats(c) || !need_ranks(c, &ranks)) return false;
  if (adds && c->n_operands % 2)
    return nn_fail(c, "operands and what they are added to must be as many, found %d operands", c->n_operands);
  int n = adds ? c->n_operands / 2 : c->n_operands;
  for (int i = 0; i < n; i++) {
    int64_t part = part_of(&c->operand[i], ranks);
    elements += part;
    if (adds && (c->operand[n + i].rank != 1 || c->operand[n + i].dim[0] != part))
      return nn_fail(c, "operand %d must be a part of %lld elements, found %s", n + i, (long long)part,
                     nn_text(&c->operand[n + i]).text);
  }
  *result = nn_type(c->operand[0].dtype, 1, &elements);
  return true;
}

bool nn_infer_all_gather(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t ranks, elements = 0;
  if (!need_floats(c) || !need_ranks(c, &ranks)) return false;
  for (int i = 0; i < c->n_operands; i++) {
    if (c->operand[i].rank != 1)
      return nn_fail(c, "operand %d must be a part, flat, found %s", i, nn_text(&c->operand[i]).text);
    int64_t of_all;
    if (__builtin_mul_overflow(ranks, c->operand[i].dim[0], &of_all) ||
        __builtin_add_overflow(elements, of_all, &elements))
      return nn_fail(c, "the parts of %lld ranks, %s each, are too many elements", (long long)ranks,
                     nn_text(&c->operand[i]).text);
  }
  if (result->rank < 0) {
    *result = nn_type(c->operand[0].dtype, 1, &elements);
    return true;
  }
  NnType whole = *result;
  whole.dtype = c->operand[0].dtype;
  if (result->dtype != whole.dtype &&
      (!nn_dtype_is_narrow(result->dtype) || whole.dtype != NN_F32 || c->n_operands > 1))
    return nn_fail(c, "one part of f32 may be gathered in bf16 or f16, found %s to %s", nn_text(&c->operand[0]).text,
                   nn_text(result).text);
  bool all = result->rank == 1 && result->dim[0] == elements;
  if (all || (c->n_operands == 1 && part_of(&whole, ranks) == c->operand[0].dim[0])) return true;
  return nn_fail(c, "parts of %lld elements in all, on %lld ranks, are not those of %s", (long long)(elements / ranks),
                 (long long)ranks, nn_text(result).text);
}

bool nn_infer_rank_part(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  int64_t ranks;
  if (!need_floats(c) || !need_ranks(c, &ranks)) return false;
  int64_t part = part_of(&c->operand[0], ranks);
  *result = nn_type(c->operand[0].dtype, 1, &part);
  return true;
}

bool nn_infer_rank_receive(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return infer_bucket(c, 1, result);
}

bool nn_infer_rank_send(NnOpCall *c, int n_results, NnType *result) {
  (void)n_results;
  return infer_bucket(c, 0, result);
}

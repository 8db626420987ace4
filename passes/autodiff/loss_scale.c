// Loss scaling (Micikevicius et al., Mixed Precision Training, 2018): gradients of f16 below 2^-24 vanish, so the loss
// is differentiated times a scale, and the parameters' gradients, f32 by then, are divided by it. A changing scale is
// halved when a gradient is not finite, and that step leaves all parameters and states as they were; it doubles after
// so many steps without. Scale and count are optimizer state in the arena.
#include <stdio.h>

#include "passes/autodiff/autodiff.h"

#define LEAST_SCALE 1.0
#define LARGEST_SCALE 0x1p24

static MlirValue spread(NnBuilder *b, MlirValue scalar, MlirValue like) {
  NnType to = nn_value_type(like);
  to.dtype = nn_value_dtype(scalar);
  return nn_broadcast(b, scalar, to, NULL);
}

MlirValue loss_scale_add(const Optimizer *o, Signature *s) {
  if (!o->scale_every) return nn_null_value();
  char init[64];
  snprintf(init, sizeof init, "constant(%.17g)", o->loss_scale);
  return signature_add_arg(s, nn_scalar(NN_F32), mlirOperationGetLocation(s->func), "opt", "loss_scale", init, -1);
}

MlirValue loss_scale_seed(const Optimizer *o, NnBuilder *b, NnType loss, MlirValue share, MlirValue scale) {
  bool changes = !nn_value_is_null(scale);
  double constant = changes ? 1 : o->loss_scale;
  MlirValue seed = nn_constant(b, loss, constant);
  if (!nn_value_is_null(share))
    seed = nn_cast(b, nn_binary(b, NN_OP_mul, share, nn_constant_like(b, share, constant)), loss.dtype);
  return changes ? nn_binary(b, NN_OP_mul, nn_cast(b, scale, loss.dtype), seed) : seed;
}

MlirValue loss_scale_remove(const Optimizer *o, NnBuilder *b, MlirValue gradient, MlirValue scale) {
  if (nn_value_is_null(scale))
    return o->loss_scale == 1 ? gradient
                              : nn_binary(b, NN_OP_mul, gradient, nn_constant_like(b, gradient, 1 / o->loss_scale));
  MlirValue factor = nn_cast(b, nn_unary(b, NN_OP_recip, scale), nn_value_dtype(gradient));
  return nn_binary(b, NN_OP_mul, gradient, spread(b, factor, gradient));
}

MlirValue loss_scale_choose(NnBuilder *b, MlirValue finite, MlirValue updated, MlirValue old) {
  return nn_value_is_null(finite) ? updated : nn_select(b, spread(b, finite, updated), updated, old);
}

static MlirValue argument(const Signature *s, int i) { return mlirBlockGetArgument(nn_function_body(s->func), i); }

void loss_scale_update(const Optimizer *o, NnBuilder *b, Signature *s, int n_states, MlirValue scale, MlirValue finite,
                       MlirValue states_finite) {
  if (nn_value_is_null(scale)) return;
  for (int i = 0; i < n_states; i++) {
    NnOpCall attributes = {.attrs = s->result_attrs[i]};
    int64_t tied = nn_call_i64(&attributes, ATTR_tied, -1);
    if (tied >= 0) s->results[i] = loss_scale_choose(b, states_finite, s->results[i], argument(s, (int)tied));
  }
  MlirValue good = signature_add_arg(s, nn_scalar(NN_F32), b->loc, "opt", "loss_scale.good_steps", "zeros", -1);
  int good_arg = s->n_args - 1, scale_arg = nn_value_index(scale);
  MlirValue one = nn_constant_like(b, good, 1), zero = nn_constant_like(b, good, 0),
            next = nn_binary(b, NN_OP_add, good, one);
  MlirValue full = nn_compare(b, "ge", next, nn_constant_like(b, good, (double)o->scale_every));
  MlirValue half = nn_binary(b, NN_OP_max, nn_binary(b, NN_OP_mul, scale, nn_constant_like(b, scale, 0.5)),
                             nn_constant_like(b, scale, LEAST_SCALE));
  MlirValue twice = nn_binary(b, NN_OP_min, nn_binary(b, NN_OP_mul, scale, nn_constant_like(b, scale, 2)),
                              nn_constant_like(b, scale, LARGEST_SCALE));
  signature_add_update(s, nn_select(b, finite, nn_select(b, full, twice, scale), half), "loss_scale", scale_arg);
  signature_add_update(s, nn_select(b, nn_binary(b, NN_OP_and, finite, nn_unary(b, NN_OP_not, full)), next, zero),
                       "loss_scale.good_steps", good_arg);
}

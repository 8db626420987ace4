// From gradients to updates: accumulation, clipping by the global norm, exchange between ranks, averages. How a
// parameter is updated is said by functions of the program (update.c). Learning rate, bias corrections and the number
// of the step come in the argument `hyper`, so that one compiled step serves every step.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff/autodiff.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/bytes.h"
#include "support/integers.h"
#include "support/ptr_map.h"
#include "support/text.h"

static void read_shards(MlirOperation root, Optimizer *o) {
  char text[16];
  const char *shard = nn_attr_str(root, ATTR_shard, text, sizeof text, "");
  o->ranks = *shard;
  o->keeps_parts = strcmp(shard, "parameters") == 0;
  o->scatters = o->keeps_parts || strcmp(shard, "gradients") == 0;
  bool splits = o->scatters || strcmp(shard, "optimizer") == 0;
  o->parts = splits ? nn_attr_i64(root, ATTR_ranks, 1) : 0;
}

static OptimizerGroup read_group(MlirAttribute dictionary) {
  NnOpCall c = {.attrs = dictionary};
  return (OptimizerGroup){.beta1 = nn_call_f64(&c, "beta1", 0.9),
                          .beta2 = nn_call_f64(&c, "beta2", 0.999),
                          .frozen = nn_call_bool(&c, "frozen", false)};
}

// What a phase has for its own.
static void read_phase(MlirAttribute entry, Optimizer *o) {
  NnOpCall c = {.attrs = entry};
  o->clip_norm = nn_call_f64(&c, "clip_norm", 0);
  o->first_group = (int)nn_call_i64(&c, "first", 0);
  o->n_own_groups = (int)nn_call_i64(&c, "groups", 0);
}

bool optimizer_read(MlirModule module, MlirOperation train, Optimizer *out) {
  MlirOperation root = mlirModuleGetOperation(module);
  *out = (Optimizer){.clip_norm = nn_attr_f64(root, ATTR_clip_norm, 0),
                     .accumulate = nn_attr_i64(root, ATTR_accumulate, 1),
                     .shares = nn_has_attr(root, ATTR_accumulate),
                     .ema = nn_attr_f64(root, ATTR_ema, 0)};
  read_shards(root, out);
  MlirAttribute scale = nn_attribute(root, ATTR_loss_scale);
  NnOpCall scaling = {.attrs = scale};
  bool scaled = !mlirAttributeIsNull(scale) && mlirAttributeIsADictionary(scale);
  out->loss_scale = scaled ? nn_call_f64(&scaling, "init", 1) : 1;
  out->scale_every = scaled ? nn_call_i64(&scaling, "every", 0) : 0;
  if (out->accumulate < 1) {
    nn_error(root, "%s must be at least 1, found %lld", ATTR_accumulate, (long long)out->accumulate);
    return false;
  }
  MlirAttribute groups = nn_attribute(root, ATTR_groups);
  bool given = !mlirAttributeIsNull(groups) && mlirAttributeIsAArray(groups) && mlirArrayAttrGetNumElements(groups) > 0;
  out->n_groups = given ? (int)mlirArrayAttrGetNumElements(groups) : 1;
  out->group = allocate_array((size_t)out->n_groups, sizeof *out->group);
  for (int i = 0; i < out->n_groups; i++)
    out->group[i] = read_group(given ? mlirArrayAttrGetElement(groups, i)
                                     : mlirDictionaryAttrGet(mlirModuleGetContext(module), 0, NULL));
  MlirAttribute phase = nn_phase_entry(module, train);
  out->n_own_groups = out->n_groups;
  if (!mlirAttributeIsNull(phase)) read_phase(phase, out);
  return true;
}

void optimizer_free(Optimizer *o) {
  for (int i = 0; i < o->n_updates; i++) update_free(&o->update[i]);
  free(o->update);
  free(o->group);
}

bool optimizer_has_share(const Optimizer *o) { return o->shares || o->ranks; }

// ---------------------------------------------------------------------------------------------------------------------
// Arithmetic

static MlirValue add(NnBuilder *b, MlirValue x, MlirValue y) { return nn_binary(b, NN_OP_add, x, y); }
static MlirValue mul(NnBuilder *b, MlirValue x, MlirValue y) { return nn_binary(b, NN_OP_mul, x, y); }
static MlirValue scaled(NnBuilder *b, MlirValue x, double c) { return mul(b, x, nn_constant_like(b, x, c)); }

// A scalar of any float type, as wide as x.
static MlirValue spread(NnBuilder *b, MlirValue scalar, MlirValue x) {
  NnType to = nn_value_type(x);
  return nn_broadcast(b, nn_cast(b, scalar, to.dtype), to, NULL);
}

MlirValue step_hyper(NnBuilder *b, MlirValue hyper, int64_t i) {
  int64_t one = 1;
  return nn_reshape(b, nn_slice(b, hyper, &i, &one, NULL), 0, NULL);
}

static MlirValue exchange(const Optimizer *o, NnBuilder *b, NnOp op, int n, const MlirValue *operands, bool adds,
                          const NnType *asked) {
  NnAttr attrs[] = {NN_I64("ranks", o->parts), NN_BOOL("adds", true)};
  return mlirOperationGetResult(nn_build(b, op, n, operands, 1 + adds, attrs, asked), 0);
}

static MlirValue part_of(const Optimizer *o, NnBuilder *b, MlirValue whole) {
  return exchange(o, b, NN_OP_rank_part, 1, &whole, false, NULL);
}

static MlirValue gather(const Optimizer *o, NnBuilder *b, MlirValue part, NnType whole) {
  return exchange(o, b, NN_OP_all_gather, 1, &part, false, &whole);
}

static NnType part_type(const Optimizer *o, NnType whole) {
  int64_t n = elements_per_rank(nn_type_elements(&whole), nn_dtype_bytes(whole.dtype), o->parts);
  return nn_type(whole.dtype, 1, &n);
}

// A new persistent argument, of a part of `whole` where the types differ, named <param>.<suffix>. *arg is its number.
static MlirValue add_companion(Signature *s, const TrainedParam *p, NnType type, NnType whole, const char *role,
                               const char *suffix, const char *init, MlirLocation loc, int *arg) {
  char *name = text_format("%s.%s", p->name, suffix);
  MlirValue v = signature_add_part(s, type, whole, loc, role, name, init, p->group);
  *arg = s->n_args - 1;
  free(name);
  return v;
}

static void update_companion(Signature *s, const TrainedParam *p, const char *suffix, int arg, MlirValue value) {
  char *name = text_format("%s.%s", p->name, suffix);
  signature_add_update(s, value, name, arg);
  free(name);
}

// The same of what an overflow leaves as it was.
void step_update_state(Step *step, NnBuilder *b, const TrainedParam *p, const char *suffix, int arg, MlirValue value) {
  MlirValue old = mlirBlockGetArgument(nn_function_body(step->s->func), arg);
  update_companion(step->s, p, suffix, arg, loss_scale_choose(b, step->finite, value, old));
}

MlirValue step_add_state(Step *step, NnBuilder *b, const TrainedParam *p, NnType type, const char *name,
                         const char *init, int *arg) {
  NnType whole = nn_value_type(mlirBlockGetArgument(nn_function_body(step->s->func), p->arg));
  bool part = step->o->parts && type.rank > 0;   // a number is the same on all ranks
  return add_companion(step->s, p, type, part ? whole : type, "opt", name, init, b->loc, arg);
}

static MlirValue averaged(NnBuilder *b, MlirValue average, MlirValue updated, double decay) {
  if (decay <= 0) return updated;
  return add(b, scaled(b, average, decay), scaled(b, updated, 1 - decay));
}

// The updated parameter, and its moving average where one is kept: a state that begins as the parameter does.
void step_add_parameter(Step *step, NnBuilder *b, const TrainedParam *p, MlirValue updated) {
  const Optimizer *o = step->o;
  NnType whole = nn_value_type(mlirBlockGetArgument(nn_function_body(step->s->func), p->arg));
  updated = loss_scale_choose(b, step->finite, updated, p->value);
  MlirValue gathered = o->parts ? gather(o, b, updated, whole) : updated;
  signature_add_update(step->s, gathered, p->name, p->arg);
  if (!o->keeps_parts) updated = gathered;
  step->updated[p->arg] = updated;
  if (o->ema <= 0) return;
  int arg;
  MlirValue average = add_companion(step->s, p, nn_value_type(updated), whole, "state", "ema",
                                    p->init ? p->init : "zeros", b->loc, &arg);
  signature_set_text(step->s, arg, ATTR_average, p->name);
  step_update_state(step, b, p, "ema", arg, averaged(b, average, updated, o->ema));
}

// What an average that the program declares becomes at the end of a step, or this rank's part of it.
static MlirValue declared_average(const Step *step, NnBuilder *b, int arg, MlirValue updated) {
  MlirOperation func = step->s->func;
  MlirValue old = mlirBlockGetArgument(nn_function_body(func), arg);
  double decay = mlirFloatAttrGetValueDouble(nn_arg_attr(func, arg, ATTR_decay));
  double every = (double)nn_arg_i64(func, arg, ATTR_every, 1);
  if (step->o->keeps_parts) old = part_of(step->o, b, old);
  MlirValue average = averaged(b, old, updated, decay);
  if (every > 1) {   // a quotient of integers is one exactly where it divides
    MlirValue number = step_hyper(b, step->hyper, 3 * step->o->n_groups + HYPER_STEP);
    MlirValue rounds = nn_binary(b, NN_OP_div, number, nn_constant_like(b, number, every));
    MlirValue due = nn_compare(b, "eq", rounds, nn_unary(b, NN_OP_floor, rounds));
    NnType all = nn_value_type(average);
    all.dtype = NN_I1;
    average = nn_select(b, nn_broadcast(b, due, all, NULL), average, old);
  }
  return loss_scale_choose(b, step->finite, average, old);
}

// The averages that the program declares. One of a parameter that is not trained stays what it is, its copy.
static void update_averages(const Step *step, NnBuilder *b, const TrainedParam *params, int n, int n_args) {
  PtrMap place = {0};
  for (int i = 0; i < n; i++) ptr_map_set(&place, nn_arg_attr(step->s->func, params[i].arg, ATTR_name).ptr, i);
  for (int arg = 0; arg < n_args; arg++) {
    MlirAttribute of = nn_arg_attr(step->s->func, arg, ATTR_average);
    int i = mlirAttributeIsNull(of) ? -1 : ptr_map_get(&place, of.ptr);
    if (i < 0 || nn_value_is_null(step->updated[params[i].arg])) continue;
    char *name = nn_string_copy(mlirStringAttrGetValue(nn_arg_attr(step->s->func, arg, ATTR_name)));
    NnType whole = nn_value_type(mlirBlockGetArgument(nn_function_body(step->s->func), arg));
    MlirValue average = declared_average(step, b, arg, step->updated[params[i].arg]);
    if (step->o->keeps_parts) average = gather(step->o, b, average, whole);
    signature_add_update(step->s, average, name, arg);
    free(name);
  }
  ptr_map_free(&place);
}

// ---------------------------------------------------------------------------------------------------------------------
// Where each update stands: after its gradient and after the last op that reads the parameter, so that it can be done
// in place

typedef struct Positions {
  PtrMap number;
  MlirOperation *ops;
  int n;
} Positions;

static Positions positions_of(MlirOperation func) {
  Positions p = {0};
  p.ops = rewrite_ops(nn_function_body(func), &p.n);
  for (int i = 0; i < p.n; i++) ptr_map_set(&p.number, p.ops[i].ptr, i);
  return p;
}

static void positions_free(Positions *p) {
  free(p->ops);
  ptr_map_free(&p->number);
}

static NnBuilder builder_for(const Positions *positions, const TrainedParam *p) {
  int last = ptr_map_get(&positions->number, nn_value_def(p->gradient).ptr);
  NN_FOREACH_USE (use, p->value) {
    int at = ptr_map_get(&positions->number, mlirOpOperandGetOwner(use).ptr);
    if (at > last && at < positions->n - 1) last = at;   // not the return; updates built so far have no number
  }
  NnBuilder b = nn_builder_before(positions->ops[last + 1]);
  b.loc = mlirOperationGetLocation(nn_value_def(p->gradient));
  b.phase = "update";
  return b;
}

// What waits for all gradients stands before the return. So does all that is added up over micro-batches: in front of
// it then stands the same in every program that has them, which `fuse` makes the same kernels of.
static NnBuilder builder_at_end(const Positions *positions, const TrainedParam *p, const char *phase) {
  NnBuilder b = nn_builder_before(positions->ops[positions->n - 1]);
  b.loc = mlirOperationGetLocation(nn_value_def(p->gradient));
  b.phase = phase;
  return b;
}

static void tap_gradient(NnBuilder *b, const TrainedParam *p, MlirValue gradient) {
  char *name = text_format("grad.%s", p->name);
  NnBuilder tap = *b;
  tap.phase = "backward";
  nn_tap(&tap, gradient, name);
  free(name);
}

// The squares of each line of 64 bytes of a gradient, added up. A rank's part is whole lines, so they are the same
// numbers, whatever the number of ranks that have the parts.
static MlirValue squares_of_lines(NnBuilder *b, MlirValue g) {
  NnType t = nn_value_type(g);
  int64_t n = nn_type_elements(&t), line = PART_LINE / nn_dtype_bytes(t.dtype), whole = round_up(n, line), zero = 0,
          more = whole - n, axis = 1, lines[] = {whole / line, line};
  if (nn_dtype_is_narrow(t.dtype)) g = nn_cast(b, g, NN_F32);
  g = nn_reshape(b, g, 1, &n);
  if (more) g = nn_pad(b, g, &zero, &more, &zero, 0);
  g = nn_reshape(b, g, 2, lines);
  return nn_reduce(b, NN_OP_reduce_sum, mul(b, g, g), 1, &axis);
}

// Those of all ranks, of several gradients at once, in the place of this one's; all: how many lines each has.
static void gather_lines(const Optimizer *o, NnBuilder *b, MlirValue *lines, const int64_t *all, int n) {
  for (int first = 0, end; first < n; first = end) {
    NnDtype dtype = nn_value_dtype(lines[first]);
    for (end = first + 1; end < n && end - first < NN_MAX_OPERANDS; end++)
      if (nn_value_dtype(lines[end]) != dtype) break;
    MlirValue together = exchange(o, b, NN_OP_all_gather, end - first, lines + first, false, NULL);
    int64_t at = 0;
    for (int i = first; i < end; i++) {
      int64_t own = nn_value_type(lines[i]).dim[0];
      lines[i] = nn_slice(b, together, &at, &all[i], NULL);
      at += own * o->parts;
    }
  }
}

// The sum of all squares: where a step has micro-batches, on one rank or several, that of lines, so that all of them
// have the same. There it is a kernel of its own, which waits for no other gradient's sum, so that a whole gradient is
// dropped once its lines are summed.
static MlirValue sum_of_squares(const Optimizer *o, NnBuilder *b, const TrainedParam *params,
                                const MlirValue *gradients, int n) {
  static const int64_t all_axes[NN_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  bool shares = optimizer_has_share(o);
  MlirValue sum = nn_null_value(), *g = allocate_array((size_t)n + 1, sizeof *g);   // or its lines
  int64_t *lines = allocate_array((size_t)n + 1, sizeof *lines);
  int n_gradients = 0;
  for (int i = 0; i < n; i++) {
    if (nn_value_is_null(gradients[i])) continue;
    NnType whole = nn_value_type(params[i].value);
    lines[n_gradients] = divide_up(nn_type_bytes(&whole), PART_LINE);
    g[n_gradients++] = shares ? squares_of_lines(b, gradients[i]) : gradients[i];
  }
  if (o->scatters) gather_lines(o, b, g, lines, n_gradients);
  for (int i = 0; i < n_gradients; i++) {
    MlirValue x = shares ? nn_unary(b, NN_OP_optimization_barrier, g[i]) : mul(b, g[i], g[i]),
              square = nn_reduce(b, NN_OP_reduce_sum, x, nn_value_type(x).rank, all_axes);
    if (shares) square = nn_unary(b, NN_OP_optimization_barrier, square);
    sum = i ? add(b, sum, nn_cast(b, square, nn_value_dtype(sum))) : square;
  }
  free(g);
  free(lines);
  return sum;
}

// min(1, c / (norm + 1e-6)) with the norm over all gradients.
static MlirValue clip_factor(NnBuilder *b, double clip_norm, MlirValue squares) {
  MlirValue norm = nn_unary(b, NN_OP_sqrt, squares);
  MlirValue ratio = nn_binary(b, NN_OP_div, nn_constant_like(b, norm, clip_norm),
                              add(b, norm, nn_constant_like(b, norm, 1e-6)));
  return nn_binary(b, NN_OP_min, ratio, nn_constant_like(b, ratio, 1));
}

// A gradient is a rounded value before it is added, in whatever kernel it is made: what micro-batches add up to does
// not depend on what else a program computes.
static MlirValue add_to_sum(NnBuilder *b, MlirValue sum, MlirValue gradient) {
  return add(b, sum, nn_unary(b, NN_OP_optimization_barrier, gradient));
}

// The sum over ranks of what each of them has.
static MlirValue sum_over_ranks(NnBuilder *b, MlirValue g) {
  NnType type = nn_value_type(g);
  return nn_reshape(b, mlirOperationGetResult(nn_build(b, NN_OP_all_reduce, 1, &g, 0, NULL, NULL), 0), type.rank,
                    type.dim);
}

// This rank's part of that and of `sum`, which may be null.
static MlirValue scattered_sum(const Optimizer *o, NnBuilder *b, MlirValue sum, MlirValue g) {
  MlirValue operands[] = {g, sum};
  bool adds = !nn_value_is_null(sum);
  return exchange(o, b, NN_OP_reduce_scatter, 1 + adds, operands, adds, NULL);
}

// The gradient of the whole step, over all ranks, or this rank's part of it: what all are judged by is *judged, what
// this rank updates with is returned. `sum`: this rank's part of the micro-batches before, null: there are none, or g
// has them.
static MlirValue step_gradient(const Optimizer *o, NnBuilder *b, const TrainedParam *p, MlirValue g, MlirValue sum,
                               MlirValue scale, MlirValue *judged) {
  if (o->scatters) return *judged = loss_scale_remove(o, b, scattered_sum(o, b, sum, g), scale);
  *judged = loss_scale_remove(o, b, o->ranks ? sum_over_ranks(b, g) : g, scale);
  tap_gradient(b, p, *judged);
  return o->parts ? part_of(o, b, *judged) : *judged;
}

// What all gradients together decide: the factor that clips them, and whether any overflowed.
static MlirValue judge_gradients(Step *step, NnBuilder *b, const TrainedParam *params, const MlirValue *gradient, int n,
                                 MlirValue scale) {
  MlirValue squares = sum_of_squares(step->o, b, params, gradient, n), factor = nn_null_value();
  if (!nn_value_is_null(scale)) step->finite = nn_compare(b, "lt", squares, nn_constant_like(b, squares, INFINITY));
  if (step->o->clip_norm > 0) factor = clip_factor(b, step->o->clip_norm, squares);
  return factor;
}

MlirValue optimizer_add_hyper(const Optimizer *o, Signature *s) {
  bool tells_last = o->ranks && o->scale_every > 0, tells_step = o->counts;
  for (int i = 0; i < o->n_updates; i++) tells_step |= o->update[i].reads_step;
  int more = tells_step ? HYPER_STEP + 1 : tells_last ? HYPER_LAST + 1 : optimizer_has_share(o);
  NnType hyper = {.dtype = NN_F64, .rank = 1, .dim = {3 * o->n_groups + more}};
  return signature_add_arg(s, hyper, mlirOperationGetLocation(s->func), "hyper", "hyper", NULL, -1);
}

MlirValue optimizer_share(const Optimizer *o, NnBuilder *b, MlirValue hyper) {
  return optimizer_has_share(o) ? step_hyper(b, hyper, 3 * o->n_groups + HYPER_SHARE) : nn_null_value();
}

// Of one rank's micro-batches the last alone waits for what the gradients of all turn out to be.
static MlirValue keeps_states(const Optimizer *o, NnBuilder *b, MlirValue hyper, MlirValue finite) {
  if (!o->ranks || nn_value_is_null(finite)) return finite;
  MlirValue last = step_hyper(b, hyper, 3 * o->n_groups + HYPER_LAST);
  return nn_binary(b, NN_OP_or, finite, nn_compare(b, "lt", last, nn_constant_like(b, last, 1)));
}

// The sum of the micro-batches before, or this rank's part of it.
static MlirValue add_accumulator(const Optimizer *o, Signature *s, const TrainedParam *p, MlirLocation loc, int *arg) {
  NnType type = nn_value_type(p->value);
  return add_companion(s, p, o->scatters ? part_type(o, type) : type, type, "accum", "grad_accum", "zeros", loc, arg);
}

void optimizer_build(Optimizer *o, Signature *s, TrainedParam *params, int n, MlirOperation start, MlirValue scale,
                     MlirValue hyper) {
  Positions positions = positions_of(s->func);
  int n_states = s->n_results, n_args = s->n_args;
  Step step = {.o = o, .s = s, .start = start, .finite = nn_null_value()};
  step.updated = allocate_array((size_t)n_args + 1, sizeof *step.updated);
  MlirValue *gradient = allocate_array((size_t)n + 1, sizeof *gradient),
            *judged_by = allocate_array((size_t)n + 1, sizeof *judged_by);
  MlirValue *accumulator = allocate_array((size_t)n + 1, sizeof *accumulator);
  int *accumulator_arg = allocate_array((size_t)n + 1, sizeof *accumulator_arg);
  bool judges = o->clip_norm > 0 || !nn_value_is_null(scale), waits = judges || optimizer_has_share(o), judged = false;
  step.hyper = nn_value_is_null(hyper) ? optimizer_add_hyper(o, s) : hyper;
  for (int i = 0; i < n; i++) {
    if (nn_value_is_null(params[i].gradient)) continue;
    NnBuilder b = waits ? builder_at_end(&positions, &params[i], "update") : builder_for(&positions, &params[i]);
    gradient[i] = params[i].gradient;
    if (o->accumulate <= 1) continue;   // else what the earlier micro-batches left is added
    accumulator[i] = add_accumulator(o, s, &params[i], b.loc, &accumulator_arg[i]);
    if (!o->scatters) gradient[i] = add_to_sum(&b, accumulator[i], gradient[i]);
  }
  for (int i = 0; i < n; i++) {
    if (nn_value_is_null(gradient[i])) continue;
    NnBuilder b = waits ? builder_at_end(&positions, &params[i], "update") : builder_for(&positions, &params[i]);
    gradient[i] = step_gradient(o, &b, &params[i], gradient[i], accumulator[i], scale, &judged_by[i]);
  }
  MlirValue factor = nn_null_value();
  for (int i = 0; i < n; i++) {
    if (nn_value_is_null(gradient[i])) continue;
    NnBuilder b = waits ? builder_at_end(&positions, &params[i], "backward") : builder_for(&positions, &params[i]);
    if (judges && !judged) factor = judge_gradients(&step, &b, params, judged_by, n, scale), judged = true;
    if (!nn_value_is_null(factor)) gradient[i] = mul(&b, gradient[i], spread(&b, factor, gradient[i]));
    b.phase = "update";
    TrainedParam updated = params[i];   // or this rank's part of it
    if (o->parts) updated.value = part_of(o, &b, updated.value);
    update_build(&step, &b, &updated, gradient[i]);
    if (o->accumulate > 1)
      update_companion(s, &params[i], "grad_accum", accumulator_arg[i], nn_constant_like(&b, accumulator[i], 0));
  }
  NnBuilder b = nn_builder_before(positions.ops[positions.n - 1]);
  b.phase = "update";
  update_averages(&step, &b, params, n, n_args);
  if (judged) loss_scale_update(o, &b, s, n_states, scale, step.finite, keeps_states(o, &b, step.hyper, step.finite));
  free(step.updated);
  free(gradient);
  free(judged_by);
  free(accumulator);
  free(accumulator_arg);
  positions_free(&positions);
}

void optimizer_build_accumulation(const Optimizer *o, Signature *s, TrainedParam *params, int n) {
  Positions positions = positions_of(s->func);
  for (int i = 0; i < n; i++) {
    if (nn_value_is_null(params[i].gradient)) continue;
    NnBuilder b = builder_at_end(&positions, &params[i], "update");
    int arg;
    MlirValue accumulator = add_accumulator(o, s, &params[i], b.loc, &arg), g = params[i].gradient;
    update_companion(s, &params[i], "grad_accum", arg,
                     o->scatters ? scattered_sum(o, &b, accumulator, g) : add_to_sum(&b, accumulator, g));
  }
  positions_free(&positions);
}

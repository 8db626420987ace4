// Reverse-mode differentiation of @train, and from it the whole step: one backward sweep calls each op's gradient rule
// (NnOpInfo.vjp) in reverse order and sums cotangents; optimizer.c then turns gradients into updates of parameters.
#include "passes/autodiff/autodiff.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"
#include "support/alloc.h"
#include "support/ptr_map.h"

void sweep_activate(Sweep *s, MlirValue v) {
  ptr_map_set(&s->active, v.ptr, s->n);
  *ARRAY_ADD(s->cotangent, s->n) = nn_null_value();
}

bool sweep_is_active(const Sweep *s, MlirValue v) { return ptr_map_get(&s->active, v.ptr) >= 0; }

static bool is_float(MlirValue v) { return nn_dtype_is_float(nn_value_dtype(v)); }

static bool is_scan(MlirOperation op) { return nn_op_of(op) == NN_OP_NONE && nn_has_attr(op, ATTR_scan); }

// What a gradient made and cannot be differentiated as it stands becomes what can.
static bool make_differentiable(Sweep *s, MlirOperation op) {
  MlirValue results[NN_MAX_RESULTS];
  NnBuilder b = rewrite_builder(op);
  if (is_scan(op)) return scan_stack(s->module, op);
  if (!nn_expand_differentiable(&b, op, results)) return false;
  rewrite_replace(op, results);
  return true;
}

static bool reads_active(const Sweep *s, MlirOperation op) {
  for (intptr_t k = 0; k < mlirOperationGetNumOperands(op); k++)
    if (sweep_is_active(s, mlirOperationGetOperand(op, k))) return true;
  return false;
}

// False after reporting a gradient of attention that needs the scores as a tensor, where no tensor has so many
// elements.
static bool scores_fit(const Sweep *s, MlirOperation op) {
  NnOp kind = nn_op_of(op);
  NnScan scan;
  if (is_scan(op) && nn_scan_called(s->module, op, &scan)) {
    MlirOperation at = mlirBlockGetFirstOperation(nn_function_body(scan.body));
    for (; !mlirOperationIsNull(at); at = mlirOperationGetNextInBlock(at))
      if (!scores_fit(s, at)) return false;
    return true;
  }
  bool grad = kind == NN_OP_attention_grad || kind == NN_OP_attention_grad_packed;
  if (!grad && kind != NN_OP_attention) return true;
  int bias = nn_attention_of(op).bias;
  if (!grad && (bias < 0 || !sweep_is_active(s, mlirOperationGetOperand(op, bias)))) return true;
  NnType scores = nn_attention_scores(op);
  char text[128];
  if (nn_type_is_representable(&scores)) return true;
  nn_error(op, "the gradient %s attention needs all scores, %s: more than 2^40 elements",
           grad ? "of the gradient of" : "of the bias of", nn_type_format(&scores, text, sizeof text));
  return false;
}

// An op without a gradient rule: its results are integers or steps of its operands, or are to have no gradient. Of
// others the gradient would be missing.
static bool is_constant_to_gradients(MlirOperation op, const NnOpInfo *info) {
  if (info->kind != NN_KIND_REDUCE && info->kind != NN_KIND_MOVE && info->kind != NN_KIND_LIBRARY) return true;
  for (intptr_t k = 0; k < mlirOperationGetNumResults(op); k++)
    if (is_float(mlirOperationGetResult(op, k))) return false;
  return true;
}

// Forward, up to `end`: what depends on an active value through differentiable ops. False after reporting an op without
// place here.
bool sweep_mark_active(Sweep *s, MlirBlock block, MlirOperation end) {
  MlirOperation last = nn_null_operation(), op;
  NnScan scan;
  for (;; last = op) {
    op = mlirOperationIsNull(last) ? mlirBlockGetFirstOperation(block) : mlirOperationGetNextInBlock(last);
    if (mlirOperationIsNull(op) || mlirOperationEqual(op, end)) return true;
    NnOp kind = nn_op_of(op);
    if (nn_is(op, "func.return") || !reads_active(s, op)) continue;
    if (kind == NN_OP_NONE && !is_scan(op)) {
      MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
      nn_error(op, "autodiff cannot differentiate '%.*s'", (int)name.length, name.data);
      return false;
    }
    if (!scores_fit(s, op)) return false;
    if (make_differentiable(s, op)) {
      op = last;   // and on with what stands there now
      continue;
    }
    if (is_scan(op) && nn_scan_called(s->module, op, &scan) && scan.n_tied > 0) return false;   // reported
    if (!is_scan(op) && !nn_op_info(kind)->vjp) {
      if (!is_constant_to_gradients(op, nn_op_info(kind))) {
        nn_error(op, "no gradient goes through '%s'; one of its results is differentiated by what it reads",
                 nn_op_info(kind)->name);
        return false;
      }
      continue;
    }
    for (intptr_t k = 0; k < mlirOperationGetNumResults(op); k++)
      if (is_float(mlirOperationGetResult(op, k))) sweep_activate(s, mlirOperationGetResult(op, k));
  }
}

MlirValue sweep_cotangent(const Sweep *s, MlirValue v) {
  int id = ptr_map_get(&s->active, v.ptr);
  return id < 0 ? nn_null_value() : s->cotangent[id];
}

void sweep_contribute(Sweep *s, MlirValue v, MlirValue cotangent) {
  int id = ptr_map_get(&s->active, v.ptr);
  if (id < 0 || nn_value_is_null(cotangent)) return;
  MlirValue master = sweep_master(s, v);
  if (!nn_value_is_null(master)) {
    sweep_contribute(s, master, sweep_widen(&s->b, cotangent, nn_value_dtype(master)));
    return;
  }
  cotangent = nn_cast(&s->b, cotangent, nn_value_dtype(v));   // sums over the steps of a scan are wide
  MlirValue *sum = &s->cotangent[id];
  *sum = nn_value_is_null(*sum) ? cotangent : nn_binary(&s->b, NN_OP_add, *sum, cotangent);
}

void sweep_free(Sweep *s) {
  free(s->cotangent);
  ptr_map_free(&s->active);
}

void sweep_differentiate(Sweep *s, MlirOperation op) {
  int n = (int)mlirOperationGetNumOperands(op), n_results = (int)mlirOperationGetNumResults(op);
  MlirValue *result = allocate_array(2 * (size_t)(n_results + 1), sizeof *result), *cotangent = result + n_results;
  bool reached = false;
  for (int i = 0; i < n_results; i++) {
    result[i] = mlirOperationGetResult(op, i);
    cotangent[i] = sweep_cotangent(s, result[i]);
    reached |= !nn_value_is_null(cotangent[i]);
  }
  if (!reached || !reads_active(s, op)) {   // where what is differentiated by is made, it ends
    free(result);
    return;
  }
  MlirValue *operand = allocate_array(2 * (size_t)(n + 1), sizeof *operand), *operand_cotangent = operand + n;
  bool *needed = allocate_array((size_t)(n + 1), 1);
  for (int i = 0; i < n; i++) {
    operand[i] = mlirOperationGetOperand(op, i);
    operand_cotangent[i] = nn_null_value();
    needed[i] = sweep_is_active(s, operand[i]);
  }
  s->b.loc = mlirOperationGetLocation(op);
  NnVjp vjp = {.b = &s->b,
               .op = op,
               .n_operands = n,
               .n_results = n_results,
               .operand = operand,
               .result = result,
               .cotangent = cotangent,
               .needed = needed,
               .operand_cotangent = operand_cotangent};
  if (is_scan(op)) scan_vjp(s->module, &vjp);
  else nn_op_info(nn_op_of(op))->vjp(&vjp);
  for (int i = 0; i < n; i++)
    if (needed[i]) sweep_contribute(s, operand[i], operand_cotangent[i]);
  free(result);
  free(operand);
  free(needed);
}

// The cotangent of each loss is the micro-batch's share of the step, 1/K for K of them: their gradients then add up to
// that of the mean; and times the scale. Returns the first op of the backward sweep, or null after reporting.
static MlirOperation seed(Sweep *s, const Optimizer *o, MlirValue scale, MlirValue hyper) {
  MlirOperation end = nn_function_return(s->func), first = nn_null_operation();
  bool any_loss = false;
  for (int i = 0; i < nn_function_n_results(s->func); i++) {
    char role[16];
    if (strcmp(nn_result_str(s->func, i, ATTR_role, role, sizeof role, ""), "loss") != 0) continue;
    any_loss = true;
    MlirValue loss = mlirOperationGetOperand(end, i);
    NnType type = nn_value_type(loss);
    if (type.rank != 0 || !nn_dtype_is_float(type.dtype)) {
      char text[128];
      nn_error(end, "the loss must be a floating-point scalar, found %s", nn_type_format(&type, text, sizeof text));
      return nn_null_operation();
    }
    if (!sweep_is_active(s, loss)) continue;
    s->b.loc = mlirOperationGetLocation(nn_value_def(loss));
    MlirValue one = loss_scale_seed(o, &s->b, type, optimizer_share(o, &s->b, hyper), scale);
    if (mlirOperationIsNull(first)) first = nn_value_def(one);
    sweep_contribute(s, loss, one);
  }
  if (!any_loss) nn_error(s->func, "@train has no result with nn.role = \"loss\"");
  else if (mlirOperationIsNull(first)) nn_error(s->func, "the loss does not depend on any parameter that is trained");
  return first;
}

static bool is_backward(MlirOperation op) { return rewrite_phase_rank(rewrite_phase(op)) == 1; }

static bool reads_backward(MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirOperation def = nn_value_def(mlirOperationGetOperand(op, i));
    if (!mlirOperationIsNull(def) && is_backward(def)) return true;
  }
  return false;
}

// The first op of the block that reads a result of op, taps excepted.
static MlirOperation first_reader(MlirOperation op) {
  MlirOperation first = nn_null_operation();
  for (intptr_t r = 0; r < mlirOperationGetNumResults(op); r++)
    NN_FOREACH_USE (use, mlirOperationGetResult(op, r)) {
      MlirOperation user = mlirOpOperandGetOwner(use);
      if (nn_op_of(user) != NN_OP_tap && (mlirOperationIsNull(first) || mlirOperationIsBeforeInBlock(user, first)))
        first = user;
    }
  return first;
}

// Forward ops that are marked as backward ones, and what follows from them, move to in front of what reads them first,
// with their taps.
static void sink_backward(MlirOperation *ops, int n) {
  for (int i = 0; i < n; i++)
    if ((nn_op_of(ops[i]) != NN_OP_NONE || is_scan(ops[i])) && !is_backward(ops[i]) && reads_backward(ops[i]))
      nn_set_attr(ops[i], &NN_STR(ATTR_phase, "backward"));
  for (int i = n - 1; i >= 0; i--) {
    MlirOperation reader = is_backward(ops[i]) ? first_reader(ops[i]) : nn_null_operation();
    if (mlirOperationIsNull(reader)) continue;
    mlirOperationMoveBefore(ops[i], reader);
    for (intptr_t r = 0; r < mlirOperationGetNumResults(ops[i]); r++)
      NN_FOREACH_USE (use, mlirOperationGetResult(ops[i], r))
        if (nn_op_of(mlirOpOperandGetOwner(use)) == NN_OP_tap)
          mlirOperationMoveAfter(mlirOpOperandGetOwner(use), ops[i]);
  }
}

// Fills the gradients of the parameters. Returns the first op of the backward sweep, or null after reporting.
static MlirOperation build_gradients(MlirOperation func, TrainedParam *params, int n_params, const Optimizer *o,
                                     MlirValue scale, MlirValue hyper) {
  Sweep s = {.func = func, .module = nn_module_of(func), .b = nn_builder_before(nn_function_return(func))};
  s.b.phase = "backward";
  for (int i = 0; i < n_params; i++) {
    params[i].value = mlirBlockGetArgument(nn_function_body(func), params[i].arg);
    sweep_activate(&s, params[i].value);
  }
  MlirOperation first = nn_null_operation();
  bool marked = sweep_mark_active(&s, nn_function_body(func), nn_null_operation());
  int n;
  MlirOperation *ops = rewrite_ops(nn_function_body(func), &n);
  if (marked) first = seed(&s, o, scale, hyper);
  for (int i = n - 1; i >= 0 && !mlirOperationIsNull(first); i--)
    if (nn_op_of(ops[i]) != NN_OP_NONE || is_scan(ops[i])) sweep_differentiate(&s, ops[i]);
  for (int i = 0; i < n_params; i++) params[i].gradient = sweep_cotangent(&s, params[i].value);
  sink_backward(ops, n);
  free(ops);
  sweep_free(&s);
  return first;
}

// ---------------------------------------------------------------------------------------------------------------------

static char *argument_text(MlirOperation func, int arg, const char *attribute) {
  MlirAttribute name = nn_arg_attr(func, arg, attribute);
  return mlirAttributeIsNull(name) ? copy_string("") : nn_string_copy(mlirStringAttrGetValue(name));
}

// The trained parameters among the arguments, in order. -1 after reporting.
static int find_params(MlirOperation func, Optimizer *o, TrainedParam **out) {
  int n_args = nn_function_n_args(func), n = 0;
  TrainedParam *params = allocate_array((size_t)n_args + 1, sizeof *params);
  *out = params;
  for (int i = 0; i < n_args; i++) {
    char role[16];
    o->counts |= nn_arg_i64(func, i, ATTR_every, 1) > 1;
    if (strcmp(nn_arg_str(func, i, ATTR_role, role, sizeof role, ""), "param") != 0) continue;
    int64_t group = nn_arg_i64(func, i, ATTR_group, 0);
    if (group < 0 || group >= o->n_groups) {
      nn_error(func, "argument %d is in parameter group %lld, but nn.groups has %d", i, (long long)group, o->n_groups);
      return -1;
    }
    bool other = group < o->first_group || group >= o->first_group + o->n_own_groups;   // trained in another phase
    if (other || o->group[group].frozen || !is_float(mlirBlockGetArgument(nn_function_body(func), i))) continue;
    char text[128];
    const char *update = nn_arg_str(func, i, ATTR_update, text, sizeof text, "update");
    NnType type = nn_value_type(mlirBlockGetArgument(nn_function_body(func), i));
    int number = update_find(o, nn_module_of(func), update, group, type);
    if (number < 0) return -1;
    params[n++] = (TrainedParam){.arg = i,
                                 .group = group,
                                 .update = number,
                                 .name = argument_text(func, i, ATTR_name),
                                 .init = argument_text(func, i, ATTR_init)};
  }
  return n;
}

// @accumulate is @train for all micro-batches of a step but the last. Only the last one shows its values.
static MlirOperation clone_for_accumulation(MlirOperation train) {
  char phase[256], name[272];
  MlirOperation func = mlirOperationClone(train);
  nn_phase_of(train, phase, sizeof phase);
  snprintf(name, sizeof name, "accumulate%s%s", *phase ? "." : "", phase);
  nn_set_attr(func, &NN_STR("sym_name", name));
  mlirBlockInsertOwnedOperationAfter(mlirOperationGetBlock(train), train, func);
  return func;
}

static bool build_step(MlirModule module, MlirOperation train, Optimizer *o, TrainedParam *params, int n) {
  if (!mlirOperationIsNull(nn_accumulate_of(module, train))) {
    nn_error(train, "autodiff has already run: there is an @accumulate");
    return false;
  }
  if (o->accumulate > 1) {
    MlirOperation accumulate = clone_for_accumulation(train);
    Signature s = signature_of(accumulate);
    MlirValue scale = loss_scale_add(o, &s), hyper = optimizer_add_hyper(o, &s);
    if (mlirOperationIsNull(build_gradients(accumulate, params, n, o, scale, hyper))) {
      signature_free(&s);
      return false;
    }
    optimizer_build_accumulation(o, &s, params, n);
    signature_finish(&s);
  }
  Signature s = signature_of(train);
  MlirValue scale = loss_scale_add(o, &s), hyper = nn_null_value();
  if (optimizer_has_share(o)) hyper = optimizer_add_hyper(o, &s);
  MlirOperation first = build_gradients(train, params, n, o, scale, hyper);
  if (mlirOperationIsNull(first)) {
    signature_free(&s);
    return false;
  }
  optimizer_build(o, &s, params, n, first, scale, hyper);
  signature_finish(&s);
  return true;
}

static bool has_hyper(MlirOperation train) {
  for (int i = 0; i < nn_function_n_args(train); i++) {
    char role[16];
    if (strcmp(nn_arg_str(train, i, ATTR_role, role, sizeof role, ""), "hyper") == 0) return true;
  }
  return false;
}

static bool differentiate(MlirModule module, MlirOperation train) {
  if (has_hyper(train)) {
    nn_error(train, "autodiff has already run: @train has an argument with nn.role = \"hyper\"");
    return false;
  }
  Optimizer optimizer;
  if (!optimizer_read(module, train, &optimizer)) return false;
  TrainedParam *params;
  int n = find_params(train, &optimizer, &params);
  bool ok = n >= 0 && build_step(module, train, &optimizer, params, n);
  if (ok) update_erase(&optimizer);
  for (TrainedParam *p = params; p->name; p++) free(p->name), free(p->init);
  free(params);
  optimizer_free(&optimizer);
  return ok;
}

// Updates are functions too while this pass has not put them into these, and of any number.
static NnFunctions trainings(MlirModule module) {
  NnFunctions found = {0};
  NN_FOREACH_OP (op, mlirModuleGetBody(module))
    if (nn_is(op, "func.func") && nn_is_train(op) && found.n < NN_MAX_FUNCTIONS) found.items[found.n++] = op;
  return found;
}

// Requires: @train as the frontend builds it (forward only), or @train.<phase> of each phase; nn.optimizer on the
// module; without it nothing is done. Composites may still be there and are better differentiated whole. Establishes:
// each is a whole step: forward, gradients, clipping, optimizer, with arguments hyper, opt and accum and tied updates
// after the forward results; with nn.accumulate > 1 there is an @accumulate of each, too. An update stands after the
// last op that reads its parameter. Breaks: nothing. Leaves expressions that simplify removes (unused parts of gradient
// rules, equal subexpressions).
bool nn_pass_autodiff(MlirModule module, const NnPassRun *run) {
  (void)run;
  if (!nn_has_attr(mlirModuleGetOperation(module), ATTR_optimizer)) return true;
  MlirOperation train = nn_module_train(module);
  if (!mlirOperationIsNull(train) && !has_hyper(train)) scan_split(module);
  NnFunctions functions = trainings(module);
  for (int i = 0; i < functions.n; i++)
    if (!differentiate(module, functions.items[i])) return false;
  return true;
}

// One function of the module while it is built: its parameters, states, random draws and results, and the writing of
// its signature.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/elaborate_internal.h"
#include "ir/ops/ops.h"
#include "support/alloc.h"
#include "support/ptr_map.h"

Function *function_begin(Elaborator *e, const char *name, Mode mode) {
  Function *f = elaborator_alloc(e, sizeof *f);
  f->name = name;
  f->mode = mode;
  f->block = mlirBlockCreate(0, NULL, NULL);
  f->last = nn_null_operation();
  f->builder = nn_builder_at_end(f->block, mlirLocationUnknownGet(e->ctx));
  f->builder.ctx = e->ctx;
  f->builder.phase = "forward";
  e->function = f;
  return f;
}

// Operations use later block arguments only through values, so the body can go at once.
void function_discard(Function *f) { mlirBlockDestroy(f->block); }

static MlirValue placeholder(Elaborator *e, NnType type) {
  return mlirBlockAddArgument(e->function->block, nn_type_to_mlir(e->ctx, &type), e->function->builder.loc);
}

MlirValue function_add_input(Elaborator *e, const char *name, NnType type, bool whole, const Staging *staging) {
  Input input = {.name = name, .type = type, .value = placeholder(e, type), .whole = whole, .staging = staging};
  PUSH(e, e->function->inputs, e->function->n_inputs, e->function->cap_inputs, input);
  return input.value;
}

// Counts the inputs that v is computed from; budget bounds the walk.
static void count_inputs(const Function *f, MlirValue v, int *whole, int *batched, int *budget) {
  if (--*budget < 0) return;
  for (int i = 0; i < f->n_inputs; i++)
    if (mlirValueEqual(f->inputs[i].value, v)) ++*(f->inputs[i].whole ? whole : batched);
  MlirOperation op = nn_value_def(v);
  for (intptr_t i = 0; !mlirOperationIsNull(op) && i < mlirOperationGetNumOperands(op); i++)
    count_inputs(f, mlirOperationGetOperand(op, i), whole, batched, budget);
}

bool function_reads_whole(const Function *f, MlirValue v) {
  int whole = 0, batched = 0, budget = 1000;
  count_inputs(f, v, &whole, &batched, &budget);
  return whole > 0 && batched == 0;
}

const Staging *function_staging(const Function *f, MlirValue v) {
  for (int i = 0; i < f->n_inputs; i++)
    if (mlirValueEqual(f->inputs[i].value, v)) return f->inputs[i].staging;
  return NULL;
}

void elaborator_note_draw(Elaborator *e, MlirValue v, const char *init) {
  PUSH(e, e->function->draws, e->function->n_draws, e->function->cap_draws, ((Draw){v, init}));
}

const char *function_drawn(const Function *f, MlirValue v) {
  for (int i = 0; i < f->n_draws; i++)
    if (mlirValueEqual(f->draws[i].value, v)) return f->draws[i].init;
  return NULL;
}

void function_add_output(Elaborator *e, const char *role, const char *name, MlirValue value) {
  Output output = {role, name, value};
  PUSH(e, e->function->outputs, e->function->n_outputs, e->function->cap_outputs, output);
}

bool function_count_ops(Elaborator *e, AstPos pos) {
  Function *f = e->function;
  for (;;) {
    MlirOperation next = mlirOperationIsNull(f->last) ? mlirBlockGetFirstOperation(f->block)
                                                      : mlirOperationGetNextInBlock(f->last);
    if (mlirOperationIsNull(next)) return true;
    f->last = next;
    if (++f->n_ops > MAX_OPS) return elaborator_give_up(e, pos, "the network has more than %d operations", MAX_OPS);
  }
}

bool function_charge(Elaborator *e, AstPos pos) {
  if (e->gave_up) return false;
  return ++e->function->n_evaluations <= MAX_EVALUATIONS ||
         elaborator_give_up(e, pos, "the program takes more than %d evaluations at compile time", MAX_EVALUATIONS);
}

// --- What the layers ask for
// ---------------------------------------------------------------------------------------------

NnBuilder *elaborator_builder(Elaborator *e) { return &e->function->builder; }
bool elaborator_training(const Elaborator *e) { return e->function->mode == MODE_TRAIN; }
NnDtype elaborator_dtype(const Elaborator *e) { return e->frame->precision; }
NnDtype elaborator_element_type(const Elaborator *e, NnDtype written) {
  return nn_dtype_is_float(written) && (e->dtype == NN_F64 || !nn_dtype_is_narrow(written)) ? e->dtype : written;
}

Slot *function_slot(Elaborator *e, const char *name) {
  Function *f = e->function;
  int place = name_table_get(&f->places, path_join(e, e->layer_path, name));
  return place < 0 ? NULL : &f->slots[place];
}

// A path that a slot has, whatever it is called from.
static bool has_slot(const Function *f, const char *path) { return name_table_get(&f->places, path) >= 0; }

// So that the state behind a value is known by the placeholder's number.
static void remember_placeholder(Elaborator *e, Function *f, MlirValue value) {
  int n = (int)mlirBlockArgumentGetArgNumber(value) + 1;
  if (n > f->cap_slot_of) {
    int larger = n < 64 ? 128 : 2 * n;
    int *slot_of = elaborator_alloc(e, sizeof *slot_of * (size_t)larger);
    if (f->cap_slot_of) memcpy(slot_of, f->slot_of, sizeof *slot_of * (size_t)f->cap_slot_of);
    f->slot_of = slot_of;
    f->cap_slot_of = larger;
  }
  f->slot_of[n - 1] = f->n_slots;
}

static Slot *find_or_make_slot(Elaborator *e, AstPos pos, const char *name, NnType type, const char *init,
                               bool is_state) {
  Function *f = e->function;
  const char *path = path_join(e, e->layer_path, name);
  if (!nn_type_is_representable(&type)) {
    elaborator_error(e, pos, "parameter '%s' would have more than 2^40 elements", path);
    return NULL;
  }
  int place = name_table_get(&f->places, path);
  if (place >= 0) {
    Slot *s = &f->slots[place];
    if (s->is_state == is_state && nn_type_equal(&s->type, &type)) return s;
    char had[256], asked[256];
    if (s->is_state != is_state)
      elaborator_error(e, pos, "'%s' is %s here and %s before", path, is_state ? "a state" : "a parameter",
                       s->is_state ? "a state" : "a parameter");
    else
      elaborator_error(e, pos, "parameter '%s' is used as %s and as %s", path,
                       nn_type_format(&type, asked, sizeof asked), nn_type_format(&s->type, had, sizeof had));
    elaborator_note(e, s->pos, "the first use is here");
    return NULL;
  }
  name_table_set(e->pool, &f->places, path, f->n_slots);
  Slot slot = {.path = path, .init = init, .type = type, .is_state = is_state, .value = placeholder(e, type)};
  slot.pos = user_position(e, pos, "");
  slot.updated = slot.value;
  PUSH(e, f->slots, f->n_slots, f->cap_slots, slot);
  remember_placeholder(e, f, slot.value);
  return &f->slots[f->n_slots - 1];
}

Slot *function_average(Elaborator *e, AstPos pos, const Slot *of, const char *name) {
  const char *parameter = of->average_of ? of->average_of : of->path;
  Slot *s = find_or_make_slot(e, pos, elaborator_format(e, "%s.%s", parameter, name), of->type, of->init, true);
  if (s) s->average_of = parameter;
  return s;
}

MlirValue elaborator_param(Elaborator *e, AstPos pos, const char *name, NnType type, const char *init) {
  NnDtype used = type.dtype;
  type.dtype = nn_dtype_wide(used);
  bool average = e->function->mode != MODE_TRAIN && settings_averaged(e, path_join(e, e->layer_path, name));
  Slot *s = find_or_make_slot(e, pos, average ? elaborator_format(e, "%s.ema", name) : name, type, init, average);
  if (!s) return nn_null_value();
  s->is_parameter = true;
  if (average) s->average_of = path_join(e, e->layer_path, name);
  return nn_cast(&e->function->builder, replacement_of(e, s), used);
}

MlirValue elaborator_state(Elaborator *e, AstPos pos, const char *name, NnType type, const char *init) {
  Slot *s = find_or_make_slot(e, pos, name, type, init, true);
  return s ? s->updated : nn_null_value();
}

void elaborator_update_state(Elaborator *e, const char *name, MlirValue value) {
  function_slot(e, name)->updated = value;
}

static Slot *slot_behind(Elaborator *e, MlirValue value) {
  Function *f = e->function;
  // to the precision it is used in
  while (nn_op_of(nn_value_def(value)) == NN_OP_cast) value = mlirOperationGetOperand(nn_value_def(value), 0);
  if (!mlirValueIsABlockArgument(value) || !mlirBlockEqual(mlirBlockArgumentGetOwner(value), f->block)) return NULL;
  intptr_t n = mlirBlockArgumentGetArgNumber(value);
  return n < f->cap_slot_of && f->slot_of[n] ? &f->slots[f->slot_of[n] - 1] : NULL;
}

Slot *function_state(Elaborator *e, MlirValue value) {
  Slot *s = slot_behind(e, value);
  return s && s->is_state ? s : NULL;
}

const char *elaborator_parameter_path(Elaborator *e, MlirValue v) {
  const Slot *s = slot_behind(e, v);
  if (!s || !s->is_parameter) return NULL;
  return s->average_of ? s->average_of : s->path;
}

MlirValue elaborator_random_key(Elaborator *e) {
  int64_t words = 4;
  MlirValue key = placeholder(e, nn_type(NN_I32, 1, &words));
  int row = phase_draw(e);
  PUSH(e, e->function->keys, e->function->n_keys, e->function->cap_keys, ((RandomKey){key, row}));
  return key;
}

// --- Names in files

// What else has the name in a checkpoint or in the file that `step` writes; NULL: nothing.
static const char *other_of_name(Elaborator *e, Function *f, const char *path) {
  static const char *const words[] = {"exp_avg", "exp_avg_sq", "momentum", "grad_accum", "ema"};
  for (int i = 0; i < f->n_outputs; i++)
    if (strcmp(f->outputs[i].name, path) == 0) return elaborator_format(e, "the %s of the step", f->outputs[i].role);
  if (strcmp(path, "__metadata__") == 0) return "what a file says of itself";
  if (strcmp(path, "loss_scale") == 0 || strcmp(path, "loss_scale.good_steps") == 0) return "the loss scale";
  if (strncmp(path, "grad.", 5) == 0 && has_slot(f, path + 5))
    return elaborator_format(e, "the gradient of '%s'", path + 5);
  for (int i = 0; strncmp(path, "output.", 7) == 0 && i < (e->phased ? e->n_phases : e->n_called); i++) {
    const char *of = e->phased ? e->phases[i].name : e->called[i]->name.text;
    size_t n = strlen(of);
    if (strncmp(path + 7, of, n) == 0 && (!path[7 + n] || path[7 + n] == '.'))
      return elaborator_format(e, "an output of %s '%s'", e->phased ? "phase" : "model", of);
  }
  const char *dot = strrchr(path, '.');
  bool kept = dot && optimizer_keeps(e, dot + 1);
  for (size_t i = 0; dot && i < sizeof words / sizeof *words; i++) kept |= strcmp(dot + 1, words[i]) == 0;
  const char *parameter = kept ? elaborator_format(e, "%.*s", (int)(dot - path), path) : NULL;
  return kept && has_slot(f, parameter) ? elaborator_format(e, "what the optimizer keeps of '%s'", parameter) : NULL;
}

bool function_check_names(Elaborator *e) {
  Function *f = e->function;
  bool ok = true;
  for (int i = 0; i < f->n_slots; i++) {
    const char *other = other_of_name(e, f, f->slots[i].path);
    if (!other) continue;
    ok = elaborator_error(e, f->slots[i].pos, "'%s' is the name of %s, a %s cannot have it too", f->slots[i].path,
                          other, f->slots[i].is_state ? "state" : "parameter");
    elaborator_hint(e, "another name, here or with `as` at the call around it");
  }
  return ok;
}

// --- Equal values

static bool attributes_same(MlirOperation a, MlirOperation b) {
  intptr_t n = mlirOperationGetNumAttributes(a);
  if (n != mlirOperationGetNumAttributes(b)) return false;
  for (intptr_t i = 0; i < n; i++) {
    MlirNamedAttribute x = mlirOperationGetAttribute(a, i);
    MlirAttribute y = mlirOperationGetAttributeByName(b, mlirIdentifierStr(x.name));
    if (mlirAttributeIsNull(y) || !mlirAttributeEqual(x.attribute, y)) return false;
  }
  return true;
}

// Tensors are the same when the same operation was applied to the same values. `budget` bounds the comparison of large
// graphs.
static bool tensors_same(MlirValue x, MlirValue y, int *budget) {
  if (mlirValueEqual(x, y)) return true;
  if (--*budget < 0) return false;
  MlirOperation a = nn_value_def(x), b = nn_value_def(y);
  if (mlirOperationIsNull(a) || mlirOperationIsNull(b) || nn_value_index(x) != nn_value_index(y)) return false;
  if (!mlirIdentifierEqual(mlirOperationGetName(a), mlirOperationGetName(b)) ||
      !mlirTypeEqual(mlirValueGetType(x), mlirValueGetType(y)) ||
      mlirOperationGetNumOperands(a) != mlirOperationGetNumOperands(b) || !attributes_same(a, b))
    return false;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(a); i++)
    if (!tensors_same(mlirOperationGetOperand(a, i), mlirOperationGetOperand(b, i), budget)) return false;
  return true;
}

static bool same_within(const Value *x, const Value *y, int *budget) {
  if (x->kind != y->kind || --*budget < 0) return false;
  switch (x->kind) {
  case VALUE_NONE: return true;
  case VALUE_INT: return x->i == y->i;
  case VALUE_FLOAT: return x->f == y->f;
  case VALUE_BOOL: return x->b == y->b;
  case VALUE_STRING:
  case VALUE_INIT: return strcmp(x->s, y->s) == 0;
  case VALUE_TENSOR: return tensors_same(x->tensor, y->tensor, budget);
  case VALUE_LIST:
    if (x->list.n != y->list.n) return false;
    for (int i = 0; i < x->list.n; i++)
      if (!same_within(&x->list.items[i], &y->list.items[i], budget)) return false;
    return true;
  }
  return false;
}

bool values_same(const Value *x, const Value *y) {
  int budget = 1000;
  return same_within(x, y, &budget);
}

// --- Writing the function
// ------------------------------------------------------------------------------------------------

// Row i of the rng argument, cut out right before the first draw that uses it. All of them stand in one block.
static void materialise_key(Elaborator *e, MlirValue rng, int row, MlirValue key) {
  MlirOperation first = nn_null_operation();
  NN_FOREACH_USE (use, key) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    if (mlirOperationIsNull(first) || mlirOperationIsBeforeInBlock(op, first)) first = op;
  }
  if (mlirOperationIsNull(first)) return;
  NnBuilder b = nn_builder_before(first);
  b.ctx = e->ctx;
  b.phase = "forward";
  int64_t words = 4;
  MlirValue cut = nn_slice(&b, rng, (int64_t[]){row, 0}, (int64_t[]){1, words}, NULL);
  mlirValueReplaceAllUsesOfWith(key, nn_reshape(&b, cut, 1, &words));
}

static Limit index_limit(MlirModule module, MlirValue x, int depth);

static bool allows(Limit l, int64_t v) {
  return l.rows == 0 || (v >= 0 && v < l.rows) || (l.besides && v == l.besides);
}

// What two uses allow both. One of them at most has a number besides that the other allows, or they have the same.
static Limit meet(Limit x, Limit y) {
  if (x.rows == 0) return y;
  if (y.rows == 0) return x;
  int64_t besides = x.besides && allows(y, x.besides) ? x.besides : y.besides && allows(x, y.besides) ? y.besides : 0;
  return (Limit){x.rows < y.rows ? x.rows : y.rows, besides};
}

// The largest of the limits of x's columns, where every one selects: categories, each with a table of its own.
static Limit limit_of_columns(MlirModule module, MlirValue x) {
  NnType type = nn_value_type(x);
  if (type.rank == 0) return (Limit){0};
  int64_t most = 0, n = type.dim[type.rank - 1], found = 0, starts[NN_MAX_RANK];
  bool *selects = allocate_array((size_t)n, 1);
  NN_FOREACH_USE (use, x) {
    MlirOperation op = mlirOpOperandGetOwner(use);
    if (nn_op_of(op) != NN_OP_slice) continue;
    NnType part = nn_value_type(mlirOperationGetResult(op, 0));
    Limit limit = {0};
    if (nn_type_elements(&part) == nn_type_elements(&type) / n && part.dim[part.rank - 1] == 1)
      limit = index_limit(module, mlirOperationGetResult(op, 0), 1);
    if (limit.rows == 0 || limit.besides) continue;
    nn_attr_i64s(op, "starts", starts, NN_MAX_RANK);
    if (limit.rows > most) most = limit.rows;
    found += !selects[starts[type.rank - 1]];
    selects[starts[type.rank - 1]] = true;
  }
  free(selects);
  return (Limit){found == n ? most : 0, 0};
}

// `where(x == number, other, x)`, or the same with `!=`: what takes a number out of x, and that number.
static bool takes_out(MlirOperation select, MlirValue x, double *number) {
  char text[4];
  MlirOperation compare = nn_value_def(mlirOperationGetOperand(select, 0));
  bool same = mlirValueEqual(mlirOperationGetOperand(select, 2), x);
  return !mlirOperationIsNull(compare) && nn_op_of(compare) == NN_OP_compare &&
         mlirValueEqual(mlirOperationGetOperand(compare, 0), x) &&
         !strcmp(nn_attr_str(compare, "predicate", text, sizeof text, ""), same ? "eq" : "ne") &&
         nn_splat_value(mlirOperationGetOperand(compare, 1), number);
}

// What one use lets x be. `operand`: which one x is.
static Limit limit_of_use(MlirModule module, MlirOperation op, int operand, MlirValue x, int depth) {
  NnOp kind = nn_op_of(op);
  double number;
  if (kind == NN_OP_gather || kind == NN_OP_cross_entropy || kind == NN_OP_take_along) {
    NnType table = nn_value_type(mlirOperationGetOperand(op, 0));
    int axis = kind == NN_OP_gather ? 0 : kind == NN_OP_take_along ? (int)nn_attr_i64(op, "axis", 0) : table.rank - 1;
    return (Limit){operand == 1 ? table.dim[axis] : 0, 0};
  }
  if (kind == NN_OP_scatter_add || kind == NN_OP_scatter_max)
    return (Limit){operand == 1 ? nn_attr_i64(op, "rows", 0) : 0, 0};
  if (kind == NN_OP_cast || kind == NN_OP_reshape || kind == NN_OP_transpose || kind == NN_OP_broadcast)
    return index_limit(module, mlirOperationGetResult(op, 0), depth + 1);
  if (kind == NN_OP_select && operand > 0 && takes_out(op, x, &number)) {
    Limit limit = index_limit(module, mlirOperationGetResult(op, 0), depth + 1);
    if (allows(limit, (int64_t)number)) return limit;
    if (limit.besides) return (Limit){0};   // two are taken out
    limit.besides = (int64_t)number;
    return limit;
  }
  NnScan scan;
  if (kind == NN_OP_NONE && nn_has_attr(op, ATTR_scan) && nn_scan_called(module, op, &scan))
    return index_limit(module, mlirBlockGetArgument(nn_function_body(scan.body), operand), depth + 1);
  return (Limit){0};
}

// The rows of the smallest table, or the classes, that x selects of, unchanged or cast, reshaped, transposed or
// broadcast, or without labels that are ignored.
static Limit index_limit(MlirModule module, MlirValue x, int depth) {
  if (nn_dtype_is_float(nn_value_dtype(x)) || depth > 16) return (Limit){0};
  Limit all = depth ? (Limit){0} : limit_of_columns(module, x);
  NN_FOREACH_USE (use, x) {
    int operand = (int)mlirOpOperandGetOperandNumber(use);
    all = meet(all, limit_of_use(module, mlirOpOperandGetOwner(use), operand, x, depth));
  }
  return all;
}

Limit *function_limits(Elaborator *e) {
  const Function *f = e->function;
  Limit *limits = elaborator_alloc(e, sizeof *limits * (size_t)(f->n_inputs + 1));
  for (int i = 0; i < f->n_inputs; i++) limits[i] = index_limit(e->module, f->inputs[i].value, 0);
  return limits;
}

static MlirValue add_argument(MlirOperation func, NnType type, MlirLocation loc) {
  return mlirBlockAddArgument(nn_function_body(func), nn_type_to_mlir(mlirOperationGetContext(func), &type), loc);
}

// What is returned, or kept, unchanged: arguments by the values that stood for them. A state that keeps its own value
// is not updated.
static void return_arguments(Function *f, MlirBlock body, const PtrMap *argument_of) {
  for (int k = 0; k < f->n_outputs; k++) {
    int arg = ptr_map_get(argument_of, f->outputs[k].value.ptr);
    if (arg >= 0) f->outputs[k].value = mlirBlockGetArgument(body, arg);
  }
  for (int k = 0; k < f->n_slots; k++) {
    Slot *s = &f->slots[k];
    int arg = mlirValueEqual(s->updated, s->value) ? -1 : ptr_map_get(argument_of, s->updated.ptr);
    if (arg >= 0) s->updated = mlirBlockGetArgument(body, arg);
  }
}

static void write_arguments(Elaborator *e, Function *f, MlirOperation func, int *index_of_slot) {
  MlirLocation loc = f->builder.loc;
  MlirContext ctx = mlirOperationGetContext(func);
  int n = 0;
  PtrMap argument_of = {0};
  MlirAttribute *dictionaries = elaborator_alloc(e, sizeof *dictionaries * (size_t)(f->n_inputs + f->n_slots + 1));
  for (int i = 0; i < f->n_inputs; i++, n++) {
    // data are checked once, for all phases
    Limit limit = e->only_phase >= 0 ? e->limits[i] : index_limit(e->module, f->inputs[i].value, 0);
    NnAttr attrs[11] = {NN_STR(ATTR_role, "input"), NN_STR(ATTR_name, f->inputs[i].name)};
    const Staging *staging = f->inputs[i].staging;
    int n_attrs = 2;
    bool holds = f->inputs[i].type.dtype != NN_U8 || (limit.besides > 0 && limit.besides <= UINT8_MAX);
    if (limit.rows) attrs[n_attrs++] = NN_I64(ATTR_limit, limit.rows);
    if (limit.besides && holds) attrs[n_attrs++] = NN_I64(ATTR_besides, limit.besides);
    if (f->inputs[i].drawn) attrs[n_attrs++] = NN_STR(ATTR_init, f->inputs[i].drawn);
    if (f->inputs[i].whole) attrs[n_attrs++] = NN_BOOL(ATTR_whole, true);
    if (staging && staging->csr) attrs[n_attrs++] = NN_BOOL(ATTR_csr, true);
    if (staging && staging->channels) {
      attrs[n_attrs++] = NN_I64(ATTR_channels, staging->channels);
      attrs[n_attrs++] = NN_STR(ATTR_mean, staging->mean);
      attrs[n_attrs++] = NN_STR(ATTR_std, staging->std);
    }
    MlirValue arg = add_argument(func, f->inputs[i].type, loc);
    ptr_map_set(&argument_of, f->inputs[i].value.ptr, n);
    mlirValueReplaceAllUsesOfWith(f->inputs[i].value, arg);
    dictionaries[n] = nn_attr_dictionary(ctx, n_attrs, attrs);
  }
  if (f->n_keys) {
    int rows = 0;
    for (int i = 0; i < f->n_keys; i++) rows = f->keys[i].row >= rows ? f->keys[i].row + 1 : rows;
    NnType type = nn_type(NN_I32, 2, (int64_t[]){rows, 4});
    MlirValue rng = add_argument(func, type, loc);
    for (int i = 0; i < f->n_keys; i++) materialise_key(e, rng, f->keys[i].row, f->keys[i].value);
    dictionaries[n++] = nn_attr_dictionary(ctx, 2, (NnAttr[]){NN_STR(ATTR_role, "rng"), NN_STR(ATTR_name, "rng")});
  }
  for (int state = 0; state < 2; state++) {
    for (int i = 0; i < f->n_slots; i++) {
      Slot *s = &f->slots[i];
      if (s->is_state != (bool)state) continue;
      NnAttr attrs[8] = {NN_STR(ATTR_role, state ? "state" : "param"), NN_STR(ATTR_name, s->path),
                         NN_STR(ATTR_init, s->init)};
      bool carried = s->declared && e->continued;
      const char *update = state || f->mode != MODE_TRAIN ? NULL : optimizer_update_of(e, s->path, s->type);
      int n_attrs = 3;
      if (!state) attrs[n_attrs++] = NN_I64(ATTR_group, settings_group_of(e, s->path));
      else if (carried) attrs[n_attrs++] = NN_BOOL(ATTR_carried, true);
      if (update) attrs[n_attrs++] = NN_STR(ATTR_update, update);
      if (s->average_of) attrs[n_attrs++] = NN_STR(ATTR_average, s->average_of);
      if (s->every) attrs[n_attrs++] = NN_F64A(ATTR_decay, s->decay), attrs[n_attrs++] = NN_I64(ATTR_every, s->every);
      MlirValue arg = add_argument(func, s->type, loc);
      dictionaries[n] = nn_attr_dictionary(ctx, n_attrs, attrs);
      ptr_map_set(&argument_of, s->value.ptr, n);
      mlirValueReplaceAllUsesOfWith(s->value, arg);
      index_of_slot[i] = n++;
    }
  }
  return_arguments(f, nn_function_body(func), &argument_of);
  ptr_map_free(&argument_of);
  nn_function_set_arg_attrs(func, n, dictionaries);
}

// Evaluation and prediction change no state but those that are carried through a text; the runtime gives the training
// its own back. `arg` stands for the state: where a model returns it, prediction shows what it was, and leaves it.
static bool state_changed(const Elaborator *e, const Function *f, const Slot *s, MlirValue arg) {
  bool changes = f->mode == MODE_TRAIN || (s->declared && e->continued);
  for (int k = 0; k < f->n_outputs && f->mode == MODE_PREDICT; k++)
    changes = changes && !mlirValueEqual(f->outputs[k].value, arg);
  return s->is_state && changes && !mlirValueEqual(s->updated, s->value);
}

static void write_results(Elaborator *e, Function *f, MlirOperation func, const int *index_of_slot) {
  MlirContext ctx = mlirOperationGetContext(func);
  MlirBlock body = nn_function_body(func);
  int n = 0, room = f->n_outputs + f->n_slots;
  MlirValue *values = elaborator_alloc(e, sizeof *values * (size_t)(room + 1));
  MlirAttribute *dictionaries = elaborator_alloc(e, sizeof *dictionaries * (size_t)(room + 1));
  for (int i = 0; i < f->n_outputs; i++) values[n++] = f->outputs[i].value;
  for (int i = 0; i < f->n_slots; i++)
    if (state_changed(e, f, &f->slots[i], mlirBlockGetArgument(body, index_of_slot[i])))
      values[n++] = f->slots[i].updated;
  nn_function_set_results(func, n, values, 0);
  for (int i = 0; i < f->n_outputs; i++)
    dictionaries[i] = nn_attr_dictionary(ctx, 2,
                                         (NnAttr[]){NN_STR(ATTR_role, f->outputs[i].role),
                                                    NN_STR(ATTR_name, f->outputs[i].name)});
  n = f->n_outputs;
  for (int i = 0; i < f->n_slots; i++) {
    if (!state_changed(e, f, &f->slots[i], mlirBlockGetArgument(body, index_of_slot[i]))) continue;
    NnAttr attrs[] = {NN_STR(ATTR_role, "update"), NN_STR(ATTR_name, f->slots[i].path),
                      NN_I64(ATTR_tied, index_of_slot[i])};
    dictionaries[n++] = nn_attr_dictionary(ctx, 3, attrs);
  }
  nn_function_set_result_attrs(func, n, dictionaries);
}

void function_finish(Elaborator *e, Function *f) {
  MlirOperation func = nn_function_create(e->module, f->name, false, f->builder.loc);
  MlirBlock body = nn_function_body(func);
  int *index_of_slot = elaborator_alloc(e, sizeof *index_of_slot * (size_t)(f->n_slots + 1));
  write_arguments(e, f, func, index_of_slot);
  for (;;) {
    MlirOperation op = mlirBlockGetFirstOperation(f->block);
    if (mlirOperationIsNull(op)) break;
    mlirOperationRemoveFromParent(op);
    mlirBlockAppendOwnedOperation(body, op);
  }
  write_results(e, f, func, index_of_slot);
  mlirBlockDestroy(f->block);
}

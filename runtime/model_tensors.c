// The tensors of an instance: what there is, and to and from the caller's memory.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"

_Static_assert((int)NNC_TYPE_BOOL == (int)NNC_I1 && (int)NNC_TYPE_I32 == (int)NNC_I32, "ORDER DTYPE");
_Static_assert((int)NNC_TRAINS == (int)SESSION_TRAIN && (int)NNC_EVALUATES == (int)SESSION_EVAL &&
                   (int)NNC_PREDICTS == (int)SESSION_PREDICT,
               "functions");
_Static_assert((int)NNC_MAX_DIM == (int)NNC_MAX_RANK, "dimensions");

// ---------------------------------------------------------------------------------------------------------------------
// What there is

static ModelTensor *find(nnc_net *net, const char *name, bool value) {
  for (int i = 0; i < net->n_tensors; i++) {
    const nnc_tensor *t = &net->tensors[i].shown;
    if ((t->role == NNC_ROLE_VALUE) == value && !strcmp(t->name, name)) return &net->tensors[i];
  }
  return NULL;
}

ModelTensor *model_tensor(nnc_net *net, const char *name) { return find(net, name, false); }

ModelTensor *model_value(nnc_net *net, const char *name) { return find(net, name, true); }

static ModelTensor *append(nnc_net *net, const char *name, nnc_role role, NncDtype dtype) {
  ModelTensor *t = &net->tensors[net->n_tensors++];
  t->shown = (nnc_tensor){.name = name, .role = role, .type = (nnc_type)dtype, .bytes = dtype_bytes(dtype)};
  return t;
}

static ModelTensor *add(nnc_net *net, const char *name, nnc_role role, NncDtype dtype) {
  return find(net, name, role == NNC_ROLE_VALUE) ? NULL : append(net, name, role, dtype);
}

static bool is_input(const NncTensor *t) { return t->role == NNC_INPUT; }

// Whether it can be read and written where it lies.
static void *place_of(const nnc_net *net, const NncTensor *t) {
  bool visible = !net->s.arena.memory && !is_far_address(t->offset) && !t->part;
  return visible ? net->s.arena.base + t->offset : NULL;
}

static bool is_alike(const NncTensor *a, const NncTensor *b) {
  return a->dtype == b->dtype && a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof a->dim);
}

// Whether it is listed. Models of a file may call inputs of other shapes or types by one name.
static bool is_listed(const nnc_net *net, const NncTensor *t, nnc_role role) {
  for (int i = 0; i < net->n_tensors; i++) {
    const ModelTensor *other = &net->tensors[i];
    bool both = role == NNC_ROLE_INPUT && other->shown.role == NNC_ROLE_INPUT;
    if ((other->shown.role == NNC_ROLE_VALUE) == (role == NNC_ROLE_VALUE) && !strcmp(other->shown.name, t->name) &&
        (!both || is_alike(other->tensor, t)))
      return true;
  }
  return false;
}

static void add_tensor(nnc_net *net, const NncTensor *t, nnc_role role, int64_t batches) {
  if (is_listed(net, t, role)) return;
  ModelTensor *made = append(net, t->name, role, t->dtype);
  made->tensor = t;
  made->shown.rank = t->rank;
  memcpy(made->shown.dim, t->dim, sizeof made->shown.dim);
  made->shown.bytes = t->bytes;
  if (role == NNC_ROLE_INPUT && t->rank && !t->whole) {
    made->shown.dim[0] *= batches;
    made->shown.bytes *= batches;
  }
  bool filled = role == NNC_ROLE_INPUT && (batches > 1 || t->n_channels);   // in parts, or normalised on the way
  if (role != NNC_ROLE_OUTPUT && role != NNC_ROLE_VALUE && !filled) made->shown.data = place_of(net, t);
}

static void add_function(nnc_net *net, const Executor *e, int64_t batches) {
  const NncFunction *f = e ? executor_function(e) : NULL;
  for (int i = 0; f && i < f->n_args; i++)
    if (is_input(&f->args[i])) add_tensor(net, &f->args[i], NNC_ROLE_INPUT, batches);
}

static void add_results(nnc_net *net, const Executor *e) {
  const NncFunction *f = e ? executor_function(e) : NULL;
  for (int i = 0; f && i < f->n_results; i++) {
    const NncTensor *t = &f->results[i];
    if (t->role == NNC_OUTPUT) add_tensor(net, t, NNC_ROLE_OUTPUT, 1);
    if (t->role != NNC_LOSS && t->role != NNC_METRIC) continue;
    ModelTensor *made = add(net, t->name, t->role == NNC_LOSS ? NNC_ROLE_LOSS : NNC_ROLE_METRIC, NNC_F64);
    if (made) made->shown.data = &made->value;
  }
}

static void add_values(nnc_net *net, const Executor *e) {
  const NncFunction *f = e ? executor_function(e) : NULL;
  for (int i = 0; f && i < f->n_steps; i++)
    if (f->steps[i].kind == NNC_STEP_TAP) add_tensor(net, f->steps[i].tap, NNC_ROLE_VALUE, 1);
}

static int values_of(const NncFunction *f) {
  int n = 0;
  for (int i = 0; i < f->n_steps; i++) n += f->steps[i].kind == NNC_STEP_TAP;
  return n;
}

static nnc_role role_of(NncRole role) {
  return role == NNC_PARAM ? NNC_ROLE_PARAMETER : role == NNC_STATE ? NNC_ROLE_STATE : NNC_ROLE_OPTIMIZER;
}

void model_list_tensors(nnc_net *net) {
  const Session *s = &net->s;
  size_t n = (size_t)nnc_program.n_persistent;
  int n_all = 0;
  const Executor **all = xcalloc((size_t)(program_phases() + 1 + s->n_predictions), sizeof *all);
  for (int i = 0; i < program_phases(); i++) all[n_all++] = s->train[i];
  all[n_all++] = s->eval;
  for (int i = 0; i < s->n_predictions; i++) all[n_all++] = s->predict[i];
  for (int i = 0; i < n_all; i++) {
    const NncFunction *f = all[i] ? executor_function(all[i]) : NULL;
    if (f) n += (size_t)(f->n_args + f->n_results + values_of(f));
  }
  net->tensors = xcalloc(n, sizeof *net->tensors);
  for (int i = 0; i < n_all; i++) add_function(net, all[i], i < program_phases() ? trainer_micro_batches() : 1);
  for (int i = 0; i < nnc_program.n_persistent; i++)
    add_tensor(net, &nnc_program.persistent[i], role_of(nnc_program.persistent[i].role), 1);
  for (int i = 0; i < n_all; i++) add_results(net, all[i]);
  for (int i = 0; i < program_phases(); i++) add_values(net, all[i]);
  free(all);
  model_forget_results(net);
}

void model_forget_results(nnc_net *net) {
  for (int i = 0; i < net->n_tensors; i++) net->tensors[i].value = NAN;
}

void model_note_results(nnc_net *net, const Metrics *m) {
  model_forget_results(net);
  for (int i = 0; i < m->n; i++)
    if (m->weights[i] != 0) model_tensor(net, m->names[i])->value = m->values[i];
}

typedef struct Question {
  int64_t number;
  const char *name;   // NULL: by the number
  nnc_tensor *tensor;
} Question;

static nnc_status no_tensor(const char *name) { return FAIL(NNC_ERROR_NAME, "no tensor %s", name); }

static nnc_status describe(nnc_net *net, void *arguments) {
  const Question *q = arguments;
  if (!q->name && (q->number < 0 || q->number >= net->n_tensors))
    return FAIL(NNC_ERROR_NAME, "no tensor with the number %lld of %d", (long long)q->number, net->n_tensors);
  const ModelTensor *t = q->name ? model_tensor(net, q->name) : &net->tensors[q->number];
  if (!t && q->name) t = model_value(net, q->name);
  if (!t) return no_tensor(q->name);
  *q->tensor = t->shown;
  return NNC_OK;
}

nnc_status model_describe(nnc_net *net, int64_t number, nnc_tensor *tensor) {
  if (!tensor) return model_refuse(net, "describe: NULL");
  return model_call(net, describe, &(Question){.number = number, .tensor = tensor});
}

nnc_status model_find(nnc_net *net, const char *name, nnc_tensor *tensor) {
  if (!name || !tensor) return model_refuse(net, "find: NULL");
  return model_call(net, describe, &(Question){.name = name, .tensor = tensor});
}

// ---------------------------------------------------------------------------------------------------------------------
// Get and set

static const char *type_name(nnc_type type) { return type <= NNC_TYPE_BOOL ? dtype_name((NncDtype)type) : "no type"; }

nnc_status model_check_tensor(const nnc_tensor *given, NncDtype dtype, int rank, const int64_t *dim, bool reads) {
  char found[128], expected[128];
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dim[i];
  if (!given->data) return FAIL(NNC_ERROR_ARGUMENT, "%s: its data is NULL", given->name);
  bool known = (unsigned)given->type <= NNC_TYPE_BOOL;
  if (!known ||
      !(reads ? dtype_convertible((NncDtype)given->type, dtype) : dtype_convertible(dtype, (NncDtype)given->type)))
    return FAIL(NNC_ERROR_TYPE, "%s is %s, the caller's is %s", given->name, dtype_name(dtype), type_name(given->type));
  if (!given->rank && !given->bytes) return NNC_OK;
  bool same = given->rank == rank && !memcmp(given->dim, dim, (size_t)rank * sizeof *dim);
  if (!same)
    return FAIL(NNC_ERROR_SHAPE, "%s has shape %s, the caller's has %s", given->name,
                format_shape(rank, dim, expected, sizeof expected),
                given->rank >= 0 && given->rank <= NNC_MAX_DIM
                    ? format_shape(given->rank, given->dim, found, sizeof found)
                    : "no rank");
  if (given->bytes && given->bytes != n * dtype_bytes((NncDtype)given->type))
    return FAIL(NNC_ERROR_SHAPE, "%s: %lld bytes of %s, not %lld", given->name,
                (long long)(n * dtype_bytes((NncDtype)given->type)), type_name(given->type), (long long)given->bytes);
  return NNC_OK;
}

static bool is_persistent(const ModelTensor *t) { return t->tensor && program_is_persistent_role(t->tensor->role); }

static nnc_status get(nnc_net *net, void *arguments) {
  const nnc_tensor *to = arguments;
  const ModelTensor *t = model_tensor(net, to->name);
  if (!t) return no_tensor(to->name);
  nnc_status status = model_check_tensor(to, (NncDtype)t->shown.type, t->shown.rank, t->shown.dim, false);
  if (status) return status;
  if (!t->tensor) {
    convert_elements(NNC_F64, &t->value, (NncDtype)to->type, to->data, 1);
    return NNC_OK;
  }
  if (!is_persistent(t)) return FAIL(NNC_ERROR_NAME, "%s is not kept: predict gives outputs", to->name);
  const NncTensor *own = t->tensor;
  if (!is_far_address(own->offset) && !arena_pull(&net->s.arena, own->offset, own->bytes)) return NNC_ERROR_DEVICE;
  if (own->dtype == (NncDtype)to->type)
    return arena_read(&net->s.arena, own->offset, to->data, own->bytes) ? NNC_OK : NNC_ERROR_DEVICE;
  void *logical = xmalloc((size_t)own->bytes);
  bool ok = arena_read(&net->s.arena, own->offset, logical, own->bytes);
  if (ok) convert_elements(own->dtype, logical, (NncDtype)to->type, to->data, tensor_elements(own));
  free(logical);
  return ok ? NNC_OK : NNC_ERROR_DEVICE;
}

static nnc_status set(nnc_net *net, void *arguments) {
  const nnc_tensor *from = arguments;
  const ModelTensor *t = model_tensor(net, from->name);
  if (!t) return no_tensor(from->name);
  if (!is_persistent(t))
    return FAIL(NNC_ERROR_NAME, "%s is nothing that is set: it is no parameter or state", from->name);
  const NncTensor *own = t->tensor;
  nnc_status status = model_check_tensor(from, own->dtype, own->rank, own->dim, true);
  if (status) return status;
  bool converts = own->dtype != (NncDtype)from->type, ok;
  void *logical = converts ? xmalloc((size_t)own->bytes) : NULL;
  if (converts) convert_elements((NncDtype)from->type, from->data, own->dtype, logical, tensor_elements(own));
  ok = arena_write(&net->s.arena, own->offset, converts ? logical : from->data, own->bytes);
  free(logical);
  ok = ok && (is_far_address(own->offset) || arena_push(&net->s.arena, own->offset, own->bytes));
  return ok ? NNC_OK : NNC_ERROR_DEVICE;
}

nnc_status model_get(nnc_net *net, const nnc_tensor *to) {
  if (!to || !to->name) return model_refuse(net, "get: NULL");
  return model_call(net, get, (void *)(uintptr_t)to);
}

nnc_status model_set(nnc_net *net, const nnc_tensor *from) {
  if (!from || !from->name) return model_refuse(net, "set: NULL");
  return model_call(net, set, (void *)(uintptr_t)from);
}

// ---------------------------------------------------------------------------------------------------------------------
// Inputs of a call

static const nnc_tensor *find_given(int n, const nnc_tensor *inputs, const char *name) {
  for (int i = 0; i < n; i++)
    if (inputs[i].name && !strcmp(inputs[i].name, name)) return &inputs[i];
  return NULL;
}

static const NncTensor *find_input(const NncFunction *f, const char *name) {
  for (int i = 0; i < f->n_args; i++)
    if (is_input(&f->args[i]) && !strcmp(f->args[i].name, name)) return &f->args[i];
  return NULL;
}

// Where the input lies itself; values that a step may write over before they are read are refused.
static nnc_status check_place(const nnc_net *net, const NncTensor *input, const nnc_tensor *given) {
  const char *base = net->s.arena.base, *data = given->data;
  bool inside = data >= base + nnc_program.persistent_bytes && data < base + net->s.arena.bytes;
  if (!inside || (data == base + input->offset && (NncDtype)given->type == input->dtype)) return NNC_OK;
  return FAIL(NNC_ERROR_ARGUMENT, "%s: its data lies where the step works", given->name);
}

static bool is_integer(NncDtype t) { return t <= NNC_I1 && !dtype_is_float(t); }

static bool counts_records(const NncTensor *input) { return input->rank && !input->whole; }

static bool has_own_shape(const nnc_tensor *given) { return !given->rank && !given->bytes; }

// What the first input with a shape says; 0: none has one.
static int64_t given_records(const NncFunction *f, int n, const nnc_tensor *inputs) {
  for (int i = 0; i < f->n_args; i++) {
    const nnc_tensor *given = is_input(&f->args[i]) && counts_records(&f->args[i])
                                  ? find_given(n, inputs, f->args[i].name)
                                  : NULL;
    if (given && !has_own_shape(given)) return given->rank > 0 ? given->dim[0] : 0;
  }
  return 0;
}

static nnc_status check_input(nnc_net *net, const NncTensor *input, const nnc_tensor *given, int64_t records) {
  int64_t dim[NNC_MAX_RANK], value, n = 1;
  memcpy(dim, input->dim, sizeof dim);
  if (counts_records(input) && records) dim[0] = records;
  // integers of any type: their values are checked
  bool narrows = is_integer((NncDtype)given->type) && is_integer(input->dtype) && input->dtype != (NncDtype)given->type;
  nnc_status status = model_check_tensor(given, narrows ? (NncDtype)given->type : input->dtype, input->rank, dim, true);
  if (!status) status = check_place(net, input, given);
  if (status) return status;
  for (int i = 0; i < input->rank; i++) n *= dim[i];
  if (n < 1) return FAIL(NNC_ERROR_SHAPE, "%s has no records", given->name);
  NncTensor limited = *input;
  if (narrows && !limited.limit) limited.limit = input->dtype == NNC_U8 ? 256 : input->dtype == NNC_I1 ? 2 : 0;
  int64_t at = tensor_find_outside(&limited, (NncDtype)given->type, given->data, n, &value);
  if (at < 0) return NNC_OK;
  char bounds[96];
  return FAIL(NNC_ERROR_VALUE, "%s: element %lld is %lld, outside of %s", given->name, (long long)at, (long long)value,
              tensor_bounds_text(&limited, bounds, sizeof bounds));
}

nnc_status model_check_inputs(nnc_net *net, const NncFunction *f, int n, const nnc_tensor *inputs, int64_t *records) {
  bool counted = *records > 0;
  if (!counted) *records = given_records(f, n, inputs);
  for (int i = 0; i < n; i++) {
    if (!inputs[i].name || !find_input(f, inputs[i].name))
      return FAIL(NNC_ERROR_NAME, "%s has no input %s", f->name, inputs[i].name ? inputs[i].name : "without a name");
    if (find_given(n, inputs, inputs[i].name) != &inputs[i])
      return FAIL(NNC_ERROR_NAME, "%s is given twice", inputs[i].name);
  }
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *input = &f->args[i];
    if (!is_input(input)) continue;
    const nnc_tensor *given = find_given(n, inputs, input->name);
    if (!given) return FAIL(NNC_ERROR_NAME, "%s needs the input %s", f->name, input->name);
    if (!counted && *records && counts_records(input) && has_own_shape(given) && *records != input->dim[0])
      return FAIL(NNC_ERROR_SHAPE, "%s has its own shape, of %lld records, others have %lld", input->name,
                  (long long)input->dim[0], (long long)*records);
    nnc_status status = check_input(net, input, given, *records);
    if (status) return status;
  }
  if (!*records) *records = function_batch(f);
  return NNC_OK;
}

void model_write_inputs(nnc_net *net, const NncFunction *f, int n, const nnc_tensor *inputs, int64_t first,
                        int64_t records) {
  for (int i = 0; i < f->n_args; i++) {
    const NncTensor *input = &f->args[i];
    const nnc_tensor *given = is_input(input) ? find_given(n, inputs, input->name) : NULL;
    char *to = net->s.arena.base + input->offset;
    if (!given || given->data == to) continue;
    int64_t batch = input->rank && !input->whole ? input->dim[0] : 1, elements = tensor_elements(input) / batch,
            from_bytes = elements * dtype_bytes((NncDtype)given->type), to_bytes = input->bytes / batch;
    for (int64_t r = 0; r < batch; r++) {
      int64_t at = batch == 1 && input->whole ? 0 : first + r < records ? first + r : records - 1;
      stage_record(input, (NncDtype)given->type, (const char *)given->data + at * from_bytes, to + r * to_bytes,
                   elements);
    }
  }
}

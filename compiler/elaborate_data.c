// The `data` and `eval` lines: which reader feeds which inputs, and the inputs' types. A name without a type gets its
// shape from the model's parameter it is given to, and its element type from the reader; what cannot be told so must be
// written.
#include <math.h>
#include <string.h>

#include "compiler/elaborate_data.h"

const ReaderKind data_readers[READERS] = {
    {"idx", true, NN_U8, false, "idx(\"images.gz\", \"labels.gz\"): one file per name"},
    {"npy", false, NN_F32, false, "npy(\"x.npy\", \"y.npy\"): one file per name"},
    {"npz", false, NN_F32, true, "npz(\"data.npz\", fields=[\"x\", \"y\"]): one array per name"},
    {"safetensors", false, NN_F32, true,
     "safetensors(\"data.safetensors\", fields=[\"x\", \"y\"]): one tensor per name"},
    {"hdf5", false, NN_F32, true, "hdf5(\"data.h5\", fields=[\"x\", \"y\"]): one dataset per name"},
    {"bytes", true, NN_I32, false, "bytes(\"text.txt\"): tokens, or tokens and targets"},
    {"tokens", true, NN_I32, false, "tokens(\"train.bin\"): tokens, or tokens and targets"},
    {"images", true, NN_U8, false,
     "images(\"train\"): images, or images and classes, of a folder with a folder for each class"},
    {"csv", false, NN_F32, false,
     "csv(\"table.csv\", fields=[\"y\", [\"a\", \"b\"]]): a column, or several, for each name"},
};

bool data_is_text(int reader) { return reader == READER_BYTES || reader == READER_TOKENS; }
bool data_is_data(const AstStmt *s) { return s->kind == AST_SETTING && strcmp(s->setting.keyword.text, "data") == 0; }
bool data_is_eval(const AstStmt *s) { return s->kind == AST_SETTING && strcmp(s->setting.keyword.text, "eval") == 0; }

const AstExpr *data_reader(const AstStmt *s) {
  const AstExpr *x = s->setting.args[0].value;
  while (x->kind == AST_CALL && x->call.piped && x->call.args[0].value->kind == AST_CALL) x = x->call.args[0].value;
  return x;
}

bool data_reader_of(Elaborator *e, const AstStmt *s, Reader *out) {
  const char *keyword = s->setting.keyword.text;
  if (s->setting.n_args != 1 || s->setting.args[0].name.text || data_reader(s)->kind != AST_CALL) {
    elaborator_error(e, s->pos, "'%s' needs names and a reader", keyword);
    elaborator_hint(e, "%s image, label = idx(\"images.gz\", \"labels.gz\")", keyword);
    return false;
  }
  const char *callee = data_reader(s)->call.callee;
  NameSearch nearest = name_search(callee);
  for (int r = 0; r < READERS; r++) {
    if (strcmp(data_readers[r].name, callee) == 0) {
      *out = (Reader)r;
      return true;
    }
    name_consider(&nearest, data_readers[r].name);
  }
  elaborator_error(e, data_reader(s)->pos, "unknown data reader '%s'", callee);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else elaborator_hint(e, "the readers are idx, npy, npz, safetensors, hdf5, bytes, tokens, images and csv");
  return false;
}

// --- Types of the inputs

DataInput *data_find_input(int n, DataInput *inputs, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(inputs[i].name, name) == 0) return &inputs[i];
  return NULL;
}

typedef struct Search {
  Elaborator *e;
  int n;
  DataInput *inputs;
  int found;
  DataInput *input;
  int budget;
} Search;

static void search_names(Search *s, const AstExpr *x);

// A name of the section stands for what was assigned to it.
static void search_name(Search *s, const char *name) {
  DataInput *input = data_find_input(s->n, s->inputs, name);
  const AstBody *body = &s->e->train->body;
  if (input && input != s->input) {
    s->input = input;
    s->found++;
  }
  for (int i = 0; !input && i < body->n; i++) {
    const AstStmt *stmt = body->stmts[i];
    for (int k = 0; stmt->kind == AST_ASSIGN && k < stmt->assign.n; k++)
      if (strcmp(stmt->assign.targets[k].text, name) == 0) search_names(s, stmt->assign.value);
  }
}

// Counts the data names an expression depends on; blocks see no names of the section but their arguments.
static void search_names(Search *s, const AstExpr *x) {
  if (--s->budget < 0) return;
  switch (x->kind) {
  case AST_NAME: search_name(s, x->text); break;
  case AST_UNARY: search_names(s, x->unary.x); break;
  case AST_BINARY:
    search_names(s, x->binary.x);
    search_names(s, x->binary.y);
    break;
  case AST_INDEX: search_names(s, x->index.x); break;
  case AST_LIST:
  case AST_TUPLE:
    for (int i = 0; i < x->list.n; i++) search_names(s, x->list.items[i]);
    break;
  case AST_CALL:
    for (int i = 0; i < x->call.n_args; i++) search_names(s, x->call.args[i].value);
    break;
  default: break;
  }
}

static bool input_from_parameter(Elaborator *e, DataInput *input, const AstType *type) {
  for (int i = 0; i < type->n_dims; i++)
    if (type->dims[i]->kind == AST_NAME && !find_variable(e->globals, type->dims[i]->text)) {
      input->unknown = type->dims[i];   // bound by the call: tells nothing
      return true;
    }
  if (type->has_rest) return true;
  NnDtype dtype = input->type.dtype;
  if (!eval_type(e, type, &input->type)) return false;
  if (input->fixed_dtype) input->type.dtype = dtype;
  input->typed = true;
  return true;
}

static bool infer_from_expression(Elaborator *e, const AstExpr *x, int n, DataInput *inputs);

// The kind of argument i of a call, where the function says one; else "".
static const char *argument_kind(const Elaborator *e, const AstExpr *call, int i) {
  const char *name = call->call.args[i].name.text, *kind = NULL;
  const AstItem *block = find_block(e, call->call.callee);
  const LayerInfo *layer = block ? NULL : function_find(e, call->call.callee);
  for (int k = 0; block && k < block->n_parameters; k++)
    if (name ? strcmp(block->parameters[k].name.text, name) == 0 : k == i) kind = block->parameters[k].kind;
  if (layer) kind = layer_argument_kind(layer, i, name);
  return kind ? kind : "";
}

// The argument that tells the shape of argument i: the first other tensor.
static const AstExpr *shape_of_argument(const Elaborator *e, const AstExpr *call, int i) {
  for (int k = 0; k < call->call.n_args; k++) {
    const char *kind = argument_kind(e, call, k);
    if (k != i && (strcmp(kind, "tensor") == 0 || strcmp(kind, "target") == 0)) return call->call.args[k].value;
  }
  return NULL;
}

// What the kind of argument i tells of the input that is given there.
static void infer_from_kind(const Elaborator *e, const AstExpr *call, int i, DataInput *input) {
  const char *kind = argument_kind(e, call, i);
  bool weights = strcmp(kind, "weights") == 0, label = weights || strcmp(kind, "labels") == 0;
  bool target = strcmp(kind, "target") == 0;
  if (!label && (!target || input->logits)) return;
  input->logits = shape_of_argument(e, call, i);
  input->is_weights = weights;
  input->is_target = target;
}

// model(f(x)): x is taken to have the shape of the model's parameter, when it is the only data name in the argument.
static bool infer_from_call(Elaborator *e, const AstExpr *x, int n, DataInput *inputs) {
  const AstItem *block = find_block(e, x->call.callee);
  bool ok = true;
  int place = 0;
  for (int i = 0; i < x->call.n_args; i++) {
    const AstArg *a = &x->call.args[i];
    ok = infer_from_expression(e, a->value, n, inputs) && ok;
    int k = place;
    if (!a->name.text) place++;
    else
      for (k = 0; block && k < block->n_parameters && strcmp(block->parameters[k].name.text, a->name.text) != 0;) k++;
    DataInput *input = a->value->kind == AST_NAME ? data_find_input(n, inputs, a->value->text) : NULL;
    if (input) infer_from_kind(e, x, i, input);
    if (!block || k >= block->n_parameters || !block->parameters[k].has_type) continue;
    Search search = {.e = e, .n = n, .inputs = inputs, .budget = 1000};
    search_names(&search, a->value);
    if (search.found == 1 && !search.input->typed)
      ok = input_from_parameter(e, search.input, &block->parameters[k].type) && ok;
  }
  return ok;
}

static bool infer_from_expression(Elaborator *e, const AstExpr *x, int n, DataInput *inputs) {
  bool ok = true;
  switch (x->kind) {
  case AST_UNARY: return infer_from_expression(e, x->unary.x, n, inputs);
  case AST_BINARY:
    return infer_from_expression(e, x->binary.x, n, inputs) && infer_from_expression(e, x->binary.y, n, inputs);
  case AST_INDEX: return infer_from_expression(e, x->index.x, n, inputs);
  case AST_LIST:
  case AST_TUPLE:
    for (int i = 0; i < x->list.n; i++) ok = infer_from_expression(e, x->list.items[i], n, inputs) && ok;
    return ok;
  case AST_CALL: return infer_from_call(e, x, n, inputs);
  default: return true;
  }
}

// The lines before that in which the label is compared, of the train section and of a phase.
static bool exec_before(Elaborator *e, const DataInput *label) {
  const AstBody *body = &e->train->body;
  if (label->section == body) return exec_definitions(e, body, label->line);
  int n = 0;
  while (n < body->n && (body->stmts[n]->kind != AST_PHASE || &body->stmts[n]->phase.body != label->section)) n++;
  return exec_definitions(e, body, n) && exec_definitions(e, label->section, label->line);
}

// The shape of what a label or a target is compared with, found by computing it in a function that is thrown away. Of
// logits a label has the axes before the classes.
static bool infer_label(Elaborator *e, int n, DataInput *inputs, DataInput *label) {
  Function *outer = e->function, *scratch = function_begin(e, "labels", MODE_EVAL);
  Frame frame;
  Value v;
  frame_push(e, &frame, NULL, e->train->pos, path_create(e, ""));
  for (int i = 0; i < n; i++) {
    bool typed = inputs[i].typed && !inputs[i].broken;
    set_variable(e, inputs[i].name, inputs[i].pos,
                 typed ? value_tensor(
                             function_add_input(e, inputs[i].name, inputs[i].type, inputs[i].whole, inputs[i].staging))
                       : (Value){0})
        ->broken = !typed;
  }
  bool ok = exec_before(e, label) && eval(e, label->logits, &v) && v.kind == VALUE_TENSOR;
  NnType t = ok ? nn_value_type(v.tensor) : label->type;
  frame_pop(e);
  function_discard(scratch);
  e->function = outer;
  if (!ok || t.rank < 1) return false;
  if (label->is_target) {
    t.dtype = label->fixed_dtype ? label->type.dtype : e->dtype;
    label->type = t;
    return label->typed = true;
  }
  t.dtype = label->fixed_dtype ? label->type.dtype : label->is_weights ? e->dtype : NN_I32;
  t.rank--;
  label->type = t;
  return label->typed = true;
}

static void report_shape(Elaborator *e, const DataInput *input) {
  const char *reader = data_readers[input->reader].name;
  if (input->unknown) {
    elaborator_error(e, input->unknown->pos, "nothing says what '%s' is, a size of '%s'", input->unknown->text,
                     input->name);
    elaborator_hint(e, "declare it above, dim %s = 32, or give the type to the reader: %s(…, %s=f32[32, …])",
                    input->unknown->text, reader, input->name);
    elaborator_note(e, input->pos, "'%s' is read here", input->name);
  } else {
    elaborator_error(e, input->pos, "the shape of '%s' is not known from a call of a model", input->name);
    elaborator_hint(e, "give its type to the reader: %s(…, %s=f32[N, …])", reader, input->name);
  }
}

// What the model does not tell: labels have the logits' shape without the classes, targets of a text look like its
// tokens.
static bool infer_rest(Elaborator *e, int n, DataInput *inputs) {
  const DataInput *text = NULL;
  bool ok = true;
  for (int i = 0; i < n && !text; i++)
    if (inputs[i].typed && data_is_text(inputs[i].reader) && inputs[i].type.rank == 2) text = &inputs[i];
  for (int i = 0; i < n; i++) {
    DataInput *input = &inputs[i];
    int errors = e->n_reported;
    if (input->shape_only && input->logits && !input->is_target && !input->fixed_dtype && !input->is_weights)
      input->type.dtype = NN_I32;
    if (input->typed) continue;
    if (text && data_is_text(input->reader)) {
      input->type = nn_type(NN_I32, 2, text->type.dim);
    } else if (!input->logits || !infer_label(e, n, inputs, input)) {
      bool other = !ok && input->logits;   // the logits are of an input that has been reported
      ok = false;
      input->broken = true;
      if (other || e->n_reported > errors) continue;   // the model itself has a mistake
      if (!train_has_loss(e)) return train_missing_loss(e);
      report_shape(e, input);
    }
    input->typed = true;
  }
  return ok;
}

// The input whose first axis counts the records; NULL when all are whole.
const DataInput *data_batched_input(int n, const DataInput *inputs) {
  for (int i = 0; i < n; i++)
    if (!inputs[i].whole && inputs[i].type.rank > 0) return &inputs[i];
  return NULL;
}

static bool check_batches(Elaborator *e, int n, const DataInput *inputs) {
  bool ok = true;
  const DataInput *first = data_batched_input(n, inputs);
  for (int i = 0; i < n; i++) {
    if (inputs[i].whole) continue;
    if (inputs[i].type.rank == 0)
      ok = elaborator_error(e, inputs[i].pos, "'%s' has no axes: the first is that of the records", inputs[i].name);
    else if (inputs[i].type.dim[0] != first->type.dim[0])
      ok = elaborator_error(e, inputs[i].pos, "'%s' has %lld records in a batch, '%s' has %lld", inputs[i].name,
                            (long long)inputs[i].type.dim[0], first->name, (long long)first->type.dim[0]);
  }
  return ok;
}

// y=i32[N] or y=[N, 10]: a type given to the reader under the input's name; it reads as an index or a list.
static bool input_from_argument(Elaborator *e, DataInput *input, const AstExpr *x) {
  NnType *t = &input->type;
  bool indexed = x->kind == AST_INDEX && x->index.x->kind == AST_NAME;
  if (!indexed && x->kind != AST_LIST) {
    elaborator_error(e, x->pos, "the type of '%s' must be written here, as in %s=f32[N, 10] or %s=i32[N]", input->name,
                     input->name, input->name);
    return false;
  }
  int n = indexed ? x->index.n : x->list.n;
  if (indexed && !type_dtype(e, &(AstType){.dtype = x->index.x->text, .pos = x->index.x->pos}, &t->dtype)) return false;
  if (n > NN_MAX_RANK) return elaborator_error(e, x->pos, "a tensor has at most %d axes, found %d", NN_MAX_RANK, n);
  t->rank = n;
  for (int i = 0; i < n; i++) {
    const AstExpr *dim = indexed ? x->index.slices[i].start : x->list.items[i];
    if (!dim || (indexed && !x->index.slices[i].is_index))
      return elaborator_error(e, x->pos, "the size of axis %d must be a number", i);
    if (!eval_int(e, dim, "a dimension", &t->dim[i])) return false;
    if (t->dim[i] < 1)
      return elaborator_error(e, dim->pos, "a dimension must be positive, found %lld", (long long)t->dim[i]);
  }
  input->typed = true;
  input->shape_only = !indexed;
  return nn_type_is_representable(t) || elaborator_error(e, x->pos, "a tensor has at most 2^40 elements");
}

bool data_is_target(const AstStmt *s, const char *name) {
  for (int i = 0; i < s->setting.n_targets; i++)
    if (strcmp(s->setting.targets[i].text, name) == 0) return true;
  return false;
}

// whole=true among the reader's arguments: each tensor is one record.
static bool line_is_whole(Elaborator *e, const AstStmt *s, bool *whole) {
  const AstExpr *call = data_reader(s);
  *whole = false;
  for (int i = 0; i < call->call.n_args; i++) {
    const AstArg *a = &call->call.args[i];
    CallArg arg;
    if (a->name.text && strcmp(a->name.text, "whole") == 0 && !data_is_target(s, "whole"))
      return eval_args(e, 1, a, &arg) && data_option_flag(e, &arg, whole);
  }
  return true;
}

// csr=name: the file holds this input as the starts of rows.
static bool csr_input(Elaborator *e, const AstStmt *s, Reader reader, DataInput *input) {
  const AstExpr *call = data_reader(s);
  for (int i = 0; i < call->call.n_args && reader == READER_SAFETENSORS; i++) {
    const AstArg *a = &call->call.args[i];
    if (!a->name.text || strcmp(a->name.text, "csr") != 0) continue;
    if (a->value->kind != AST_NAME || !data_is_target(s, a->value->text) || !input->whole) {
      elaborator_error(e, a->value->pos,
                       input->whole ? "'csr' must be a name of this line"
                                    : "'csr' is for graphs, which are read whole");
      elaborator_hint(e, "safetensors(\"graph.safetensors\", fields=[\"x\", \"indices\", \"indptr\"], csr=target, "
                         "whole=true)");
      return false;
    }
    if (strcmp(a->value->text, input->name) != 0) continue;
    Staging *staging = elaborator_alloc(e, sizeof *staging);
    staging->csr = true;
    input->staging = staging;
  }
  return true;
}

static bool is_given_before(const AstExpr *call, int i) {
  for (int k = 0; k < i; k++)
    if (call->call.args[k].name.text && strcmp(call->call.args[k].name.text, call->call.args[i].name.text) == 0)
      return true;
  return false;
}

// Arguments of a reader that have a name: options, and the names of the line, whose types they give.
bool data_check_argument_names(Elaborator *e, const AstStmt *s, Reader reader) {
#define AHEAD "begin", "end", "num_workers", "prefetch_factor"
  static const char *const options[READERS][12] = {
      [READER_IDX] = {AHEAD},
      [READER_NPY] = {AHEAD},
      [READER_NPZ] = {AHEAD, "fields"},
      [READER_HDF5] = {AHEAD, "fields"},
      [READER_SAFETENSORS] = {AHEAD, "fields", "whole", "csr"},
      [READER_BYTES] = {AHEAD, "sequence", "continued"},
      [READER_CSV] = {AHEAD, "fields", "hash", "separator"},
      [READER_IMAGES] = {"num_workers", "prefetch_factor", "resize", "skip_broken"},
      [READER_TOKENS] = {AHEAD, "sequence", "continued", "fields", "dtype"},
  };
  const AstExpr *call = data_reader(s);
  bool ok = true;
  for (int i = 0; i < call->call.n_args; i++) {
    const AstName *name = &call->call.args[i].name;
    if (!name->text) continue;
    if (is_given_before(call, i)) {
      ok = elaborator_error(e, name->pos, "'%s' is given twice to %s", name->text, data_readers[reader].name);
      continue;
    }
    if (data_is_target(s, name->text)) continue;
    NameSearch nearest = name_search(name->text);
    bool known = false, has_part = false;
    for (int k = 0; k < s->setting.n_targets; k++) name_consider(&nearest, s->setting.targets[k].text);
    for (const char *const *option = options[reader]; *option; option++) {
      known |= strcmp(*option, name->text) == 0;
      has_part |= strcmp(*option, "begin") == 0;
      name_consider(&nearest, *option);
    }
    if (known) continue;
    ok = elaborator_error(e, name->pos, "%s has no argument '%s'", data_readers[reader].name, name->text);
    if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
    else
      elaborator_hint(e, "%s%s", data_readers[reader].use,
                      has_part ? "; begin= and end= choose a part of the records" : "");
  }
  return ok;
}

static bool collect_line(Elaborator *e, const AstStmt *s, int *n, int *capacity, DataInput **out) {
  Reader reader;
  bool ok = true;
  if (!data_reader_of(e, s, &reader)) {
    for (int k = 0; k < s->setting.n_targets; k++) {
      DataInput unread = {.name = s->setting.targets[k].text, .pos = s->setting.targets[k].pos, .broken = true};
      PUSH(e, *out, *n, *capacity, unread);
    }
    return false;
  }
  const AstExpr *call = data_reader(s);
  bool whole = false;
  ok = data_check_argument_names(e, s, reader);
  if (reader == READER_SAFETENSORS) ok = line_is_whole(e, s, &whole) && ok;
  for (int k = 0; k < s->setting.n_targets; k++) {
    NnDtype dtype = data_readers[reader].has_dtype ? data_readers[reader].dtype : e->dtype;
    if (reader == READER_IMAGES && k > 0) dtype = NN_I32;   // classes
    DataInput input = {.name = s->setting.targets[k].text,
                       .pos = s->setting.targets[k].pos,
                       .reader = (int)reader,
                       .fixed_dtype = data_readers[reader].has_dtype,
                       .whole = whole,
                       .type = nn_scalar(dtype)};
    ok = transforms_normalise(e, s, &input) && csr_input(e, s, reader, &input) && ok;
    if (input.staging && input.staging->channels) input.fixed_dtype = false, input.type.dtype = e->dtype;
    if (data_find_input(*n, *out, input.name)) {
      ok = elaborator_error(e, input.pos, "'%s' is read twice", input.name);
      continue;
    }
    for (int i = 0; i < call->call.n_args; i++)
      if (call->call.args[i].name.text && strcmp(call->call.args[i].name.text, input.name) == 0)
        ok = input_from_argument(e, &input, call->call.args[i].value) && ok;
    PUSH(e, *out, *n, *capacity, input);
  }
  return ok;
}

static bool infer_from_body(Elaborator *e, const AstBody *body, int n, DataInput *inputs) {
  bool ok = true;
  for (int i = 0; ok && i < body->n; i++) {
    const AstStmt *s = body->stmts[i];
    if (s->kind == AST_ASSIGN) ok = infer_from_expression(e, s->assign.value, n, inputs);
    if (s->kind == AST_PHASE) ok = infer_from_body(e, &s->phase.body, n, inputs);
    for (int k = 0; ok && s->kind == AST_SETTING && !data_is_data(s) && !data_is_eval(s) && k < s->setting.n_args; k++)
      ok = infer_from_expression(e, s->setting.args[k].value, n, inputs);
    for (int k = 0; k < n; k++) {
      if (inputs[k].logits == inputs[k].placed) continue;
      inputs[k].placed = inputs[k].logits;
      inputs[k].section = body;
      inputs[k].line = i;
    }
  }
  return ok;
}

bool data_inputs(Elaborator *e, int *n, DataInput **out) {
  const AstBody *body = &e->train->body;
  int capacity = 0;
  bool ok = true;
  *n = 0;
  *out = NULL;
  for (int i = 0; i < body->n; i++)
    if (data_is_data(body->stmts[i])) ok = collect_line(e, body->stmts[i], n, &capacity, out) && ok;
  Reader reader;
  for (int i = 0; i < body->n; i++)
    if (data_is_eval(body->stmts[i]))
      ok = data_reader_of(e, body->stmts[i], &reader) && data_check_argument_names(e, body->stmts[i], reader) && ok;
  return ok && infer_from_body(e, body, *n, *out) && infer_rest(e, *n, *out) && check_batches(e, *n, *out);
}

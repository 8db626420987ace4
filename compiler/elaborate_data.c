// The `data` and `eval` lines: which reader feeds which inputs, and the inputs' types. A name without a type gets its
// shape from the model's parameter it is given to, and its element type from the reader; what cannot be told so must be
// written.
#include <math.h>
#include <string.h>

#include "compiler/elaborate_internal.h"

typedef enum Reader { READER_IDX, READER_NPY, READER_SAFETENSORS, READER_BYTES, READER_TOKENS, READERS } Reader;
static const struct {
  const char *name;
  bool has_dtype;
  NnDtype dtype;
  const char *use;
} readers[READERS] = {
    {"idx", true, NN_U8, "idx(\"images.gz\", \"labels.gz\"): one file per name"},
    {"npy", false, NN_F32, "npy(\"x.npy\", \"y.npy\"): one file per name"},
    {"safetensors", false, NN_F32, "safetensors(\"data.safetensors\", fields=[\"x\", \"y\"]): one tensor per name"},
    {"bytes", true, NN_I32, "bytes(\"text.txt\"): tokens, or tokens and targets"},
    {"tokens", true, NN_I32, "tokens(\"train.bin\"): tokens, or tokens and targets"},
};

static bool is_text(int reader) { return reader == READER_BYTES || reader == READER_TOKENS; }
static bool is_data(const AstStmt *s) { return s->kind == AST_SETTING && strcmp(s->setting.keyword.text, "data") == 0; }
static bool is_eval(const AstStmt *s) { return s->kind == AST_SETTING && strcmp(s->setting.keyword.text, "eval") == 0; }
static const AstExpr *call_of(const AstStmt *s) { return data_reader(s); }

const AstExpr *data_reader(const AstStmt *s) {
  const AstExpr *x = s->setting.args[0].value;
  while (x->kind == AST_CALL && x->call.piped && x->call.args[0].value->kind == AST_CALL) x = x->call.args[0].value;
  return x;
}

static bool reader_of(Elaborator *e, const AstStmt *s, Reader *out) {
  const char *keyword = s->setting.keyword.text;
  if (s->setting.n_args != 1 || s->setting.args[0].name.text || call_of(s)->kind != AST_CALL) {
    elaborator_error(e, s->pos, "'%s' needs names and a reader", keyword);
    elaborator_hint(e, "%s image, label = idx(\"images.gz\", \"labels.gz\")", keyword);
    return false;
  }
  const char *callee = call_of(s)->call.callee;
  NameSearch nearest = name_search(callee);
  for (int r = 0; r < READERS; r++) {
    if (strcmp(readers[r].name, callee) == 0) {
      *out = (Reader)r;
      return true;
    }
    name_consider(&nearest, readers[r].name);
  }
  elaborator_error(e, call_of(s)->pos, "unknown data reader '%s'", callee);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  else elaborator_hint(e, "the readers are idx, npy, safetensors, bytes and tokens");
  return false;
}

// --- Types of the inputs
// -----------------------------------------------------------------------------------------------------

static DataInput *find_input(int n, DataInput *inputs, const char *name) {
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
  DataInput *input = find_input(s->n, s->inputs, name);
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
    DataInput *input = a->value->kind == AST_NAME ? find_input(n, inputs, a->value->text) : NULL;
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
  bool ok = exec_assignments(e, &e->train->body) && eval(e, label->logits, &v) && v.kind == VALUE_TENSOR;
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
  const char *reader = readers[input->reader].name;
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
    if (inputs[i].typed && is_text(inputs[i].reader) && inputs[i].type.rank == 2) text = &inputs[i];
  for (int i = 0; i < n; i++) {
    DataInput *input = &inputs[i];
    int errors = e->n_reported;
    if (input->shape_only && input->logits && !input->is_target && !input->fixed_dtype && !input->is_weights)
      input->type.dtype = NN_I32;
    if (input->typed) continue;
    if (text && is_text(input->reader)) {
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
static const DataInput *batched_input(int n, const DataInput *inputs) {
  for (int i = 0; i < n; i++)
    if (!inputs[i].whole && inputs[i].type.rank > 0) return &inputs[i];
  return NULL;
}

static bool check_batches(Elaborator *e, int n, const DataInput *inputs) {
  bool ok = true;
  const DataInput *first = batched_input(n, inputs);
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

// whole=true among the reader's arguments: each tensor is one record.
static bool line_is_whole(const AstExpr *call) {
  for (int i = 0; i < call->call.n_args; i++) {
    const AstArg *a = &call->call.args[i];
    if (a->name.text && strcmp(a->name.text, "whole") == 0 && a->value->kind == AST_BOOL) return a->value->boolean;
  }
  return false;
}

static bool is_target(const AstStmt *s, const char *name) {
  for (int i = 0; i < s->setting.n_targets; i++)
    if (strcmp(s->setting.targets[i].text, name) == 0) return true;
  return false;
}

// csr=name: the file holds this input as the starts of rows.
static bool csr_input(Elaborator *e, const AstStmt *s, Reader reader, DataInput *input) {
  const AstExpr *call = call_of(s);
  for (int i = 0; i < call->call.n_args && reader == READER_SAFETENSORS; i++) {
    const AstArg *a = &call->call.args[i];
    if (!a->name.text || strcmp(a->name.text, "csr") != 0) continue;
    if (a->value->kind != AST_NAME || !is_target(s, a->value->text) || !input->whole) {
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

// Arguments of a reader that have a name: options, and the names of the line, whose types they give.
static bool check_argument_names(Elaborator *e, const AstStmt *s, Reader reader) {
#define AHEAD "begin", "end", "num_workers", "prefetch_factor"
  static const char *const options[READERS][12] = {
      [READER_IDX] = {AHEAD},
      [READER_NPY] = {AHEAD},
      [READER_SAFETENSORS] = {AHEAD, "fields", "whole", "csr"},
      [READER_BYTES] = {AHEAD, "sequence", "continued"},
      [READER_TOKENS] = {AHEAD, "sequence", "continued", "fields", "dtype"},
  };
  const AstExpr *call = call_of(s);
  bool ok = true;
  for (int i = 0; i < call->call.n_args; i++) {
    const AstName *name = &call->call.args[i].name;
    if (!name->text || is_target(s, name->text)) continue;
    NameSearch nearest = name_search(name->text);
    bool known = false;
    for (int k = 0; k < s->setting.n_targets; k++) name_consider(&nearest, s->setting.targets[k].text);
    for (const char *const *option = options[reader]; *option; option++) {
      known |= strcmp(*option, name->text) == 0;
      name_consider(&nearest, *option);
    }
    if (known) continue;
    ok = elaborator_error(e, name->pos, "%s has no argument '%s'", readers[reader].name, name->text);
    if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
    else elaborator_hint(e, "%s; begin= and end= choose a part of the records", readers[reader].use);
  }
  return ok;
}

static bool collect_line(Elaborator *e, const AstStmt *s, int *n, int *capacity, DataInput **out) {
  Reader reader;
  bool ok = true;
  if (!reader_of(e, s, &reader)) {
    for (int k = 0; k < s->setting.n_targets; k++) {
      DataInput unread = {.name = s->setting.targets[k].text, .pos = s->setting.targets[k].pos, .broken = true};
      PUSH(e, *out, *n, *capacity, unread);
    }
    return false;
  }
  const AstExpr *call = call_of(s);
  ok = check_argument_names(e, s, reader);
  for (int k = 0; k < s->setting.n_targets; k++) {
    NnDtype dtype = readers[reader].has_dtype ? readers[reader].dtype : e->dtype;
    DataInput input = {.name = s->setting.targets[k].text,
                       .pos = s->setting.targets[k].pos,
                       .reader = (int)reader,
                       .fixed_dtype = readers[reader].has_dtype,
                       .whole = line_is_whole(call),
                       .type = nn_scalar(dtype)};
    ok = transforms_normalise(e, s, &input) && csr_input(e, s, reader, &input) && ok;
    if (input.staging && input.staging->channels) input.fixed_dtype = false, input.type.dtype = e->dtype;
    if (find_input(*n, *out, input.name)) {
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

bool data_inputs(Elaborator *e, int *n, DataInput **out) {
  const AstBody *body = &e->train->body;
  int capacity = 0;
  bool ok = true;
  *n = 0;
  *out = NULL;
  for (int i = 0; i < body->n; i++)
    if (is_data(body->stmts[i])) ok = collect_line(e, body->stmts[i], n, &capacity, out) && ok;
  Reader reader;
  for (int i = 0; i < body->n; i++)
    if (is_eval(body->stmts[i]))
      ok = reader_of(e, body->stmts[i], &reader) && check_argument_names(e, body->stmts[i], reader) && ok;
  for (int i = 0; ok && i < body->n; i++) {
    const AstStmt *s = body->stmts[i];
    if (s->kind == AST_ASSIGN) ok = infer_from_expression(e, s->assign.value, *n, *out);
    for (int k = 0; ok && s->kind == AST_SETTING && !is_data(s) && !is_eval(s) && k < s->setting.n_args; k++)
      ok = infer_from_expression(e, s->setting.args[k].value, *n, *out);
  }
  return ok && infer_rest(e, *n, *out) && check_batches(e, *n, *out);
}

// --- Attributes
// --------------------------------------------------------------------------------------------------------------

typedef struct ReaderCall {
  int n_files, n_fields;
  const char **files, **fields;
  int n_counts, *counts;   // of the arguments that name files: how many each is
  const char *dtype;       // of raw tokens
  int64_t num_workers, prefetch_factor;
  double begin, end;
  int64_t sequence;
  bool whole, continued;
} ReaderCall;

static bool read_fields(Elaborator *e, const CallArg *a, ReaderCall *r) {
  const Value *v = &a->value;
  bool ok = v->kind == VALUE_LIST;
  r->fields = elaborator_alloc(e, sizeof *r->fields * (size_t)(ok ? v->list.n + 1 : 1));
  for (int i = 0; ok && i < v->list.n; i++) {
    ok = v->list.items[i].kind == VALUE_STRING;
    r->fields[r->n_fields++] = v->list.items[i].s;
  }
  return ok || elaborator_error(e, a->pos, "'fields' must be a list of strings, found %s", value_describe(e, *v));
}

// dtype=u32: one of the types that files of tokens have, which need not be one of the language.
static bool read_dtype(Elaborator *e, const AstArg *a, ReaderCall *r) {
  static const char *const types[] = {"u8", "u16", "u32", "i32", "i64"};
  for (size_t i = 0; a->value->kind == AST_NAME && i < sizeof types / sizeof *types; i++)
    if (strcmp(a->value->text, types[i]) == 0) r->dtype = types[i];
  return r->dtype || elaborator_error(e, a->value->pos, "'dtype' of tokens is u8, u16, u32, i32 or i64");
}

// "a.bin" or ["a.bin", "b.bin"]: the files of one argument, one after the other.
static bool read_files(Elaborator *e, const CallArg *a, ReaderCall *r) {
  const Value *items = a->value.kind == VALUE_LIST ? a->value.list.items : &a->value;
  int n = a->value.kind == VALUE_LIST ? a->value.list.n : 1;
  const char **files = elaborator_alloc(e, sizeof *files * (size_t)(r->n_files + n + 1));
  if (r->n_files) memcpy(files, r->files, sizeof *files * (size_t)r->n_files);
  r->files = files;
  for (int i = 0; i < n; i++) {
    if (items[i].kind != VALUE_STRING)
      return elaborator_error(e, a->pos, "expected a file name, found %s", value_describe(e, items[i]));
    files[r->n_files++] = items[i].s;
  }
  r->counts[r->n_counts++] = n;
  return n > 0 || elaborator_error(e, a->pos, "expected a file name, found an empty list");
}

static bool read_option(Elaborator *e, const CallArg *a, Reader reader, ReaderCall *r) {
  double number;
  bool begin = strcmp(a->name, "begin") == 0, end = strcmp(a->name, "end") == 0;
  if (strcmp(a->name, "fields") == 0 && (reader == READER_SAFETENSORS || reader == READER_TOKENS))
    return read_fields(e, a, r);
  if (begin || end) {
    if (!value_as_number(&a->value, &number) || !(number >= 0 && number <= 1))
      return elaborator_error(e, a->pos, "'%s' must be a part between 0 and 1, found %s", a->name,
                              value_describe(e, a->value));
    *(begin ? &r->begin : &r->end) = number;
    return true;
  }
  bool workers = strcmp(a->name, "num_workers") == 0;
  if (workers || strcmp(a->name, "prefetch_factor") == 0) {
    if (a->value.kind != VALUE_INT || a->value.i < !workers || a->value.i > 256)
      return elaborator_error(e, a->pos, "'%s' must be an integer from %d to 256, found %s", a->name, !workers,
                              value_describe(e, a->value));
    *(workers ? &r->num_workers : &r->prefetch_factor) = a->value.i;
    return true;
  }
  if (strcmp(a->name, "whole") == 0 && reader == READER_SAFETENSORS) {
    r->whole = a->value.kind == VALUE_BOOL && a->value.b;
    return a->value.kind == VALUE_BOOL ||
           elaborator_error(e, a->pos, "'whole' must be true or false, found %s", value_describe(e, a->value));
  }
  if (strcmp(a->name, "continued") == 0 && is_text(reader)) {
    if (a->value.kind != VALUE_BOOL) return elaborator_error(e, a->pos, "'continued' must be true or false");
    r->continued = a->value.b;
    return true;
  }
  if (strcmp(a->name, "sequence") == 0 && is_text(reader)) {
    if (a->value.kind != VALUE_INT || a->value.i < 1)
      return elaborator_error(e, a->pos, "'sequence' must be a positive integer");
    r->sequence = a->value.i;
    return true;
  }
  return false;   // check_argument_names has reported it
}

static bool read_call(Elaborator *e, const AstStmt *s, Reader reader, ReaderCall *r) {
  const AstExpr *x = call_of(s);
  int n_names = s->setting.n_targets;
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(x->call.n_args + 1));
  *r = (ReaderCall){.end = 1, .prefetch_factor = 2};
  if (!check_argument_names(e, s, reader)) return false;
  r->counts = elaborator_alloc(e, sizeof *r->counts * (size_t)(x->call.n_args + 1));
  bool ok = true;
  for (int i = 0; i < x->call.n_args; i++) {
    const char *name = x->call.args[i].name.text;
    // read before
    if (name && (is_target(s, name) || (strcmp(name, "csr") == 0 && reader == READER_SAFETENSORS))) continue;
    if (name && strcmp(name, "dtype") == 0) {
      ok = read_dtype(e, &x->call.args[i], r) && ok;
      continue;
    }
    if (!eval_args(e, 1, &x->call.args[i], &args[i])) return false;
    if (args[i].name) ok = read_option(e, &args[i], reader, r) && ok;
    else ok = read_files(e, &args[i], r) && ok;
  }
  if (!ok) return false;
  if (r->begin >= r->end) return elaborator_error(e, x->pos, "'begin' must be below 'end'");
  bool per_name = reader == READER_IDX || reader == READER_NPY;
  if (r->n_counts != (per_name ? n_names : 1) || (is_text(reader) && n_names > 2)) {
    elaborator_error(e, x->pos, "%d files do not feed %d names", r->n_counts, n_names);
    elaborator_hint(e, "%s", readers[reader].use);
    return false;
  }
  if (reader == READER_SAFETENSORS && r->n_fields == 0) {
    r->fields = elaborator_alloc(e, sizeof *r->fields * (size_t)(n_names + 1));
    for (int i = 0; i < n_names; i++) r->fields[r->n_fields++] = s->setting.targets[i].text;
  }
  if (reader == READER_TOKENS && r->n_fields > 1)
    return elaborator_error(e, x->pos, "a text is one field, found %d", r->n_fields);
  return reader != READER_SAFETENSORS || r->n_fields == n_names ||
         elaborator_error(e, x->pos, "%d fields do not feed %d names", r->n_fields, n_names);
}

MlirAttribute data_texts(Elaborator *e, int n, const char *const *texts) {
  MlirAttribute *items = elaborator_alloc(e, sizeof *items * (size_t)(n + 1));
  for (int i = 0; i < n; i++) items[i] = text_attr(e, texts[i]);
  return mlirArrayAttrGet(e->ctx, n, items);
}

static MlirAttribute integers(Elaborator *e, int n, const int *numbers) {
  MlirAttribute *items = elaborator_alloc(e, sizeof *items * (size_t)(n + 1));
  for (int i = 0; i < n; i++) items[i] = int_attr(e, numbers[i]);
  return mlirArrayAttrGet(e->ctx, n, items);
}

static bool check_sequence(Elaborator *e, const AstStmt *s, int n, const DataInput *inputs, ReaderCall *r) {
  for (int i = 0; i < s->setting.n_targets; i++) {
    const DataInput *input = find_input(n, (DataInput *)inputs, s->setting.targets[i].text);
    NnType t = input->type;
    if (t.rank != 2 || nn_dtype_is_float(t.dtype))
      return elaborator_error(e, s->setting.targets[i].pos, "a text gives tokens i32[N, T], '%s' is of %d axes",
                              s->setting.targets[i].text, t.rank);
    if (r->sequence == 0) r->sequence = t.dim[1];
    if (r->sequence != t.dim[1])
      return elaborator_error(e, s->setting.targets[i].pos, "'%s' has %lld tokens in a record, not %lld",
                              s->setting.targets[i].text, (long long)t.dim[1], (long long)r->sequence);
  }
  return true;
}

// The eval line feeds the same inputs from other records.
static bool check_eval_names(Elaborator *e, const AstStmt *s, int n, DataInput *inputs) {
  for (int i = 0; i < s->setting.n_targets; i++) {
    if (find_input(n, inputs, s->setting.targets[i].text)) continue;
    NameSearch nearest = name_search(s->setting.targets[i].text);
    for (int k = 0; k < n; k++) name_consider(&nearest, inputs[k].name);
    elaborator_error(e, s->setting.targets[i].pos, "'%s' is not a name of a 'data' line", s->setting.targets[i].text);
    if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
    return false;
  }
  return true;
}

static bool check_eval_complete(Elaborator *e, int n, const DataInput *inputs) {
  bool any = false, ok = true;
  AstPos pos = {0};
  for (int i = 0; i < e->train->body.n; i++)
    if (is_eval(e->train->body.stmts[i])) {
      any = true;
      pos = e->train->body.stmts[i]->pos;
    }
  for (int k = 0; any && k < n; k++) {
    bool fed = false;
    for (int i = 0; i < e->train->body.n; i++) {
      const AstStmt *s = e->train->body.stmts[i];
      for (int j = 0; is_eval(s) && j < s->setting.n_targets; j++)
        fed = fed || strcmp(s->setting.targets[j].text, inputs[k].name) == 0;
    }
    if (!fed) ok = elaborator_error(e, pos, "the eval lines do not feed '%s'", inputs[k].name);
  }
  return ok;
}

static bool line_attribute(Elaborator *e, const AstStmt *s, int n, DataInput *inputs, MlirAttribute *out) {
  Reader reader;
  ReaderCall r;
  if (!reader_of(e, s, &reader) || (is_eval(s) && !check_eval_names(e, s, n, inputs)) || !read_call(e, s, reader, &r))
    return false;
  if (r.whole && r.num_workers)
    return elaborator_error(e, s->pos, "a tensor that is read whole is held in memory: it has no 'num_workers'");
  if (r.whole && (r.begin > 0 || r.end < 1))
    return elaborator_error(e, s->pos, "a tensor that is read whole has no part of its records");
  for (int i = 0; i < s->setting.n_targets; i++) {
    const DataInput *input = find_input(n, inputs, s->setting.targets[i].text);
    if (input->staging && input->staging->csr && (input->type.rank != 1 || nn_dtype_is_float(input->type.dtype)))
      return elaborator_error(e, s->setting.targets[i].pos,
                              "'%s' is read as rows of edges, one integer for each edge, but has %d axes%s",
                              input->name, input->type.rank, nn_dtype_is_float(input->type.dtype) ? " of floats" : "");
    if (input->whole == r.whole) continue;
    return elaborator_error(e, s->setting.targets[i].pos, "'%s' is read whole in %s only", input->name,
                            r.whole ? "this line" : "the data line");
  }
  if (is_text(reader) && !check_sequence(e, s, n, inputs, &r)) return false;
  e->continued = e->continued || r.continued;
  Transforms moves;
  if (!transforms_read(e, s, n, inputs, &moves)) return false;
  const char **targets = elaborator_alloc(e, sizeof *targets * (size_t)(s->setting.n_targets + 1));
  for (int i = 0; i < s->setting.n_targets; i++) targets[i] = s->setting.targets[i].text;
  MlirAttribute names = data_texts(e, s->setting.n_targets, targets);
  MlirNamedAttribute entries[] = {
      named_attr(e, "split", text_attr(e, is_data(s) ? "train" : "eval")),
      named_attr(e, "reader", text_attr(e, readers[reader].name)),
      named_attr(e, "names", names),
      named_attr(e, "files", data_texts(e, r.n_files, r.files)),
      named_attr(e, "file_counts", integers(e, r.n_counts, r.counts)),
      named_attr(e, "num_workers", int_attr(e, r.num_workers)),
      named_attr(e, "prefetch_factor", int_attr(e, r.prefetch_factor)),
      named_attr(e, "dtype", text_attr(e, r.dtype ? r.dtype : "u16")),
      named_attr(e, "fields", data_texts(e, r.n_fields, r.fields)),
      named_attr(e, "begin", int_attr(e, llround(r.begin * 1000))),
      named_attr(e, "end", int_attr(e, llround(r.end * 1000))),
      named_attr(e, "sequence", int_attr(e, r.sequence)),
      named_attr(e, "whole", int_attr(e, r.whole)),
      named_attr(e, "continued", int_attr(e, r.continued)),
      named_attr(e, "flip", float_attr(e, moves.flip)),
      named_attr(e, "crop", int_attr(e, moves.crop)),
      named_attr(e, "flipped", data_texts(e, moves.n_flipped, moves.flipped)),
      named_attr(e, "cropped", data_texts(e, moves.n_cropped, moves.cropped)),
  };
  *out = mlirDictionaryAttrGet(e->ctx, (intptr_t)(sizeof entries / sizeof entries[0]), entries);
  return true;
}

bool data_attributes(Elaborator *e, int n, const DataInput *inputs) {
  MlirAttribute *lines = elaborator_alloc(e, sizeof *lines * (size_t)(e->train->body.n + 1));
  DataInput *mutable_inputs = elaborator_alloc(e, sizeof *mutable_inputs * (size_t)(n + 1));
  if (n) memcpy(mutable_inputs, inputs, sizeof *inputs * (size_t)n);
  int count = 0;
  bool ok = true;
  for (int i = 0; i < e->train->body.n; i++) {
    const AstStmt *s = e->train->body.stmts[i];
    if ((is_data(s) || is_eval(s)) && (ok = line_attribute(e, s, n, mutable_inputs, &lines[count]) && ok)) count++;
  }
  ok = ok && check_eval_complete(e, n, inputs);   // a misspelt name is not also a missing one
  set_module_attr(e, ATTR_data, mlirArrayAttrGet(e->ctx, count, lines));
  set_module_attr(e, ATTR_batch, int_attr(e, batched_input(n, inputs) ? batched_input(n, inputs)->type.dim[0] : 1));
  return ok;
}

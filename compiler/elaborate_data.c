// The `data` and `eval` lines: which reader feeds which inputs, and the inputs' types. A name without a type gets its shape from the model's
// parameter it is given to, and its element type from the reader; what cannot be told so must be written.
#include <math.h>
#include <string.h>

#include "compiler/elaborate_internal.h"

typedef enum Reader { READER_IDX, READER_NPY, READER_SAFETENSORS, READER_BYTES, READERS } Reader;
static const struct { const char *name; bool has_dtype; NnDtype dtype; const char *use; } readers[READERS] = {
  {"idx", true, NN_U8, "idx(\"images.gz\", \"labels.gz\"): one file per name"},
  {"npy", false, NN_F32, "npy(\"x.npy\", \"y.npy\"): one file per name"},
  {"safetensors", false, NN_F32, "safetensors(\"data.safetensors\", fields=[\"x\", \"y\"]): one tensor per name"},
  {"bytes", true, NN_I32, "bytes(\"text.txt\"): tokens, or tokens and targets"},
};

static bool is_data(const AstSetting *s) { return strcmp(s->keyword, "data") == 0; }
static bool is_eval(const AstSetting *s) { return strcmp(s->keyword, "eval") == 0; }

static bool reader_of(Elaborator *e, const AstSetting *s, Reader *out)
{
  if (s->n_names && s->expr && s->expr->kind == AST_CALL) {
    for (int r = 0; r < READERS; r++)
      if (strcmp(readers[r].name, s->expr->text) == 0) { *out = (Reader)r; return true; }
    NameSearch nearest = name_search(s->expr->text);
    for (int r = 0; r < READERS; r++) name_consider(&nearest, readers[r].name);
    elaborator_error(e, s->expr->pos, "unknown data reader '%s'", s->expr->text);
    if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
    else elaborator_hint(e, "the readers are idx, npy, safetensors and bytes");
    return false;
  }
  elaborator_error(e, s->pos, "'%s' needs names and a reader", s->keyword);
  elaborator_hint(e, "%s image, label = idx(\"images.gz\", \"labels.gz\")", s->keyword);
  return false;
}

// --- Types of the inputs -----------------------------------------------------------------------------------------------------

static DataInput *find_input(int n, DataInput *inputs, const char *name)
{
  for (int i = 0; i < n; i++)
    if (strcmp(inputs[i].name, name) == 0) return &inputs[i];
  return NULL;
}

// Data names in an expression; the last one found goes to *found. At most 2 are counted.
static int names_in(Elaborator *e, const AstExpr *x, int n, DataInput *inputs, DataInput **found)
{
  if (!x || !elaborator_stack_ok(e, x->pos)) return 0;
  int count = 0;
  DataInput *input = x->kind == AST_NAME ? find_input(n, inputs, x->text) : NULL;
  if (input) { *found = input; count++; }
  count += names_in(e, x->left, n, inputs, found) + names_in(e, x->middle, n, inputs, found) + names_in(e, x->right, n, inputs, found);
  for (int i = 0; i < x->n_items; i++) count += names_in(e, x->items[i], n, inputs, found);
  for (int i = 0; i < x->n_args; i++) count += names_in(e, x->args[i].value, n, inputs, found);
  return count;
}

static bool input_from_parameter(Elaborator *e, DataInput *input, const AstType *type)
{
  Value ignored;
  for (int i = 0; i < type->n_dims; i++)
    if (type->dims[i]->kind == AST_NAME && !find_variable(e->globals, type->dims[i]->text)) return true;   // not known before the call
  (void)ignored;
  NnDtype dtype = input->type.dtype;
  bool fixed = strcmp(input->reader, "idx") == 0 || strcmp(input->reader, "bytes") == 0;
  if (!eval_type(e, type, &input->type)) return false;
  if (fixed) input->type.dtype = dtype;
  input->typed = true;
  return true;
}

// model(f(x)): x is taken to have the shape of the model's parameter, when it is the only data name in the argument.
static bool infer_from_calls(Elaborator *e, const AstExpr *x, int n, DataInput *inputs)
{
  if (!x || !elaborator_stack_ok(e, x->pos)) return true;
  const AstItem *model = x->kind == AST_CALL ? find_block(e, x->text) : NULL;
  bool ok = true;
  int place = 0;
  for (int i = 0; model && i < x->n_args; i++) {
    int k = place;
    if (x->args[i].name) for (k = 0; k < model->n_parameters && strcmp(model->parameters[k].name, x->args[i].name) != 0;) k++;
    else place++;
    DataInput *input = NULL;
    if (k >= model->n_parameters || !model->parameters[k].type || !model->parameters[k].type->has_shape) continue;
    if (names_in(e, x->args[i].value, n, inputs, &input) == 1 && !input->typed) ok = input_from_parameter(e, input, model->parameters[k].type) && ok;
  }
  for (int i = 0; i < x->n_args; i++) ok = infer_from_calls(e, x->args[i].value, n, inputs) && ok;
  for (int i = 0; i < x->n_items; i++) ok = infer_from_calls(e, x->items[i], n, inputs) && ok;
  return infer_from_calls(e, x->left, n, inputs) && infer_from_calls(e, x->right, n, inputs) && ok;
}

// What the model does not tell: labels of idx files are one byte per record, targets of a text look like its tokens.
static bool infer_rest(Elaborator *e, int n, DataInput *inputs)
{
  const DataInput *first = NULL;
  bool ok = true;
  for (int i = 0; i < n && !first; i++)
    if (inputs[i].typed) first = &inputs[i];
  for (int i = 0; i < n; i++) {
    DataInput *input = &inputs[i];
    if (input->typed) continue;
    bool idx = strcmp(input->reader, "idx") == 0, bytes = strcmp(input->reader, "bytes") == 0;
    if (first && first->type.rank > 0 && idx) input->type = nn_type(NN_U8, 1, first->type.dim);
    else if (first && first->type.rank == 2 && bytes) input->type = nn_type(NN_I32, 2, first->type.dim);
    else {
      ok = elaborator_error(e, input->pos, "the type of '%s' is not known from a call of a model", input->name);
      elaborator_hint(e, "write it: %s: f32[N, …]", input->name);
    }
    input->typed = true;
  }
  return ok;
}

static bool check_batches(Elaborator *e, int n, const DataInput *inputs)
{
  bool ok = true;
  for (int i = 0; i < n; i++) {
    if (inputs[i].type.rank == 0)
      ok = elaborator_error(e, inputs[i].pos, "'%s' has no axes: the first is that of the records", inputs[i].name);
    else if (inputs[0].type.rank > 0 && inputs[i].type.dim[0] != inputs[0].type.dim[0])
      ok = elaborator_error(e, inputs[i].pos, "'%s' has %lld records in a batch, '%s' has %lld", inputs[i].name, (long long)inputs[i].type.dim[0],
                            inputs[0].name, (long long)inputs[0].type.dim[0]);
  }
  return ok;
}

static bool collect_inputs(Elaborator *e, int *n, DataInput **out)
{
  int capacity = 0;
  bool ok = true;
  for (int i = 0; i < e->file->n_settings; i++) {
    const AstSetting *s = &e->file->settings[i];
    Reader reader;
    if (!is_data(s)) continue;
    if (!reader_of(e, s, &reader)) { ok = false; continue; }
    for (int k = 0; k < s->n_names; k++) {
      DataInput input = {.name = s->names[k], .pos = s->name_pos[k], .reader = readers[reader].name, .type = nn_scalar(readers[reader].has_dtype ? readers[reader].dtype : e->dtype)};
      if (find_input(*n, *out, input.name)) {
        ok = elaborator_error(e, input.pos, "'%s' is read twice", input.name);
        continue;
      }
      if (s->name_type[k]) {
        ok = eval_type(e, s->name_type[k], &input.type) && ok;
        input.typed = true;
      }
      PUSH(e, *out, *n, capacity, input);
    }
  }
  return ok;
}

bool data_inputs(Elaborator *e, int *n, DataInput **out)
{
  *n = 0;
  *out = NULL;
  if (!collect_inputs(e, n, out)) return false;
  bool ok = true;
  for (int i = 0; i < e->file->n_settings; i++) {
    const AstSetting *s = &e->file->settings[i];
    if (strcmp(s->keyword, "loss") == 0 || strcmp(s->keyword, "metric") == 0) ok = infer_from_calls(e, s->expr, *n, *out) && ok;
  }
  return ok && infer_rest(e, *n, *out) && check_batches(e, *n, *out);
}

// --- Attributes --------------------------------------------------------------------------------------------------------------

typedef struct ReaderCall { int n_files, n_fields; const char **files, **fields; double begin, end; int64_t sequence; } ReaderCall;

static bool read_fields(Elaborator *e, const CallArg *a, ReaderCall *r)
{
  const Value *v = &a->value;
  bool ok = v->kind == VALUE_LIST;
  r->fields = elaborator_alloc(e, sizeof *r->fields * (size_t)(ok ? v->list.n + 1 : 1));
  for (int i = 0; ok && i < v->list.n; i++) {
    ok = v->list.items[i].kind == VALUE_STRING;
    r->fields[r->n_fields++] = v->list.items[i].s;
  }
  return ok || elaborator_error(e, a->pos, "'fields' must be a list of strings, found %s", value_describe(e, *v));
}

static bool read_option(Elaborator *e, const CallArg *a, Reader reader, ReaderCall *r)
{
  double number;
  bool begin = strcmp(a->name, "begin") == 0, end = strcmp(a->name, "end") == 0;
  if (strcmp(a->name, "fields") == 0 && reader == READER_SAFETENSORS) return read_fields(e, a, r);
  if (begin || end) {
    if (!value_as_number(&a->value, &number) || !(number >= 0 && number <= 1))
      return elaborator_error(e, a->pos, "'%s' must be a part between 0 and 1, found %s", a->name, value_describe(e, a->value));
    *(begin ? &r->begin : &r->end) = number;
    return true;
  }
  if (strcmp(a->name, "sequence") == 0 && reader == READER_BYTES) {
    if (a->value.kind != VALUE_INT || a->value.i < 1) return elaborator_error(e, a->pos, "'sequence' must be a positive integer");
    r->sequence = a->value.i;
    return true;
  }
  elaborator_error(e, a->pos, "%s has no argument '%s'", readers[reader].name, a->name);
  elaborator_hint(e, "%s; begin= and end= choose a part of the records", readers[reader].use);
  return false;
}

static bool read_call(Elaborator *e, const AstSetting *s, Reader reader, ReaderCall *r)
{
  const AstExpr *x = s->expr;
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(x->n_args + 1));
  *r = (ReaderCall){.end = 1};
  r->files = elaborator_alloc(e, sizeof *r->files * (size_t)(x->n_args + 1));
  if (!eval_args(e, x, args)) return false;
  bool ok = true;
  for (int i = 0; i < x->n_args; i++) {
    if (args[i].name) ok = read_option(e, &args[i], reader, r) && ok;
    else if (args[i].value.kind == VALUE_STRING) r->files[r->n_files++] = args[i].value.s;
    else ok = elaborator_error(e, args[i].pos, "expected a file name, found %s", value_describe(e, args[i].value));
  }
  if (!ok) return false;
  if (r->begin >= r->end) return elaborator_error(e, x->pos, "'begin' must be below 'end'");
  bool per_name = reader == READER_IDX || reader == READER_NPY;
  if (r->n_files != (per_name ? s->n_names : 1) || (reader == READER_BYTES && s->n_names > 2)) {
    elaborator_error(e, x->pos, "%d files do not feed %d names", r->n_files, s->n_names);
    elaborator_hint(e, "%s", readers[reader].use);
    return false;
  }
  if (reader == READER_SAFETENSORS && r->n_fields == 0) { r->fields = s->names; r->n_fields = s->n_names; }
  if (reader == READER_SAFETENSORS && r->n_fields != s->n_names)
    return elaborator_error(e, x->pos, "%d fields do not feed %d names", r->n_fields, s->n_names);
  return true;
}

static MlirAttribute texts_attr(Elaborator *e, int n, const char *const *texts)
{
  MlirAttribute *items = elaborator_alloc(e, sizeof *items * (size_t)(n + 1));
  for (int i = 0; i < n; i++) items[i] = text_attr(e, texts[i]);
  return mlirArrayAttrGet(e->ctx, n, items);
}

static bool check_sequence(Elaborator *e, const AstSetting *s, int n, const DataInput *inputs, ReaderCall *r)
{
  for (int i = 0; i < s->n_names; i++) {
    const DataInput *input = find_input(n, (DataInput *)inputs, s->names[i]);
    NnType t = input->type;
    if (t.rank != 2 || nn_dtype_is_float(t.dtype))
      return elaborator_error(e, s->name_pos[i], "bytes gives tokens i32[N, T], '%s' is %s", s->names[i],
                              elaborator_format(e, "of %d axes", t.rank));
    if (r->sequence == 0) r->sequence = t.dim[1];
    if (r->sequence != t.dim[1])
      return elaborator_error(e, s->name_pos[i], "'%s' has %lld tokens in a record, not %lld", s->names[i], (long long)t.dim[1], (long long)r->sequence);
  }
  return true;
}

// The eval line feeds the same inputs from other records.
static bool check_eval_names(Elaborator *e, const AstSetting *s, int n, DataInput *inputs)
{
  for (int i = 0; i < s->n_names; i++) {
    if (find_input(n, inputs, s->names[i])) continue;
    NameSearch nearest = name_search(s->names[i]);
    for (int k = 0; k < n; k++) name_consider(&nearest, inputs[k].name);
    elaborator_error(e, s->name_pos[i], "'%s' is not a name of a 'data' line", s->names[i]);
    if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
    return false;
  }
  return true;
}

static bool check_eval_complete(Elaborator *e, int n, const DataInput *inputs)
{
  bool any = false, ok = true;
  AstPos pos = {0};
  for (int i = 0; i < e->file->n_settings; i++)
    if (is_eval(&e->file->settings[i])) { any = true; pos = e->file->settings[i].pos; }
  for (int k = 0; any && k < n; k++) {
    bool fed = false;
    for (int i = 0; i < e->file->n_settings; i++) {
      const AstSetting *s = &e->file->settings[i];
      for (int j = 0; is_eval(s) && j < s->n_names; j++) fed = fed || strcmp(s->names[j], inputs[k].name) == 0;
    }
    if (!fed) ok = elaborator_error(e, pos, "the eval lines do not feed '%s'", inputs[k].name);
  }
  return ok;
}

static bool line_attribute(Elaborator *e, const AstSetting *s, int n, DataInput *inputs, MlirAttribute *out)
{
  Reader reader;
  ReaderCall r;
  if (!reader_of(e, s, &reader) || (is_eval(s) && !check_eval_names(e, s, n, inputs)) || !read_call(e, s, reader, &r)) return false;
  if (reader == READER_BYTES && !check_sequence(e, s, n, inputs, &r)) return false;
  MlirNamedAttribute entries[] = {
    named_attr(e, "split", text_attr(e, is_data(s) ? "train" : "eval")), named_attr(e, "reader", text_attr(e, readers[reader].name)),
    named_attr(e, "names", texts_attr(e, s->n_names, s->names)), named_attr(e, "files", texts_attr(e, r.n_files, r.files)),
    named_attr(e, "fields", texts_attr(e, r.n_fields, r.fields)), named_attr(e, "begin", int_attr(e, llround(r.begin * 1000))),
    named_attr(e, "end", int_attr(e, llround(r.end * 1000))), named_attr(e, "sequence", int_attr(e, r.sequence)),
  };
  *out = mlirDictionaryAttrGet(e->ctx, (intptr_t)(sizeof entries / sizeof entries[0]), entries);
  return true;
}

bool data_attributes(Elaborator *e, int n, const DataInput *inputs)
{
  MlirAttribute *lines = elaborator_alloc(e, sizeof *lines * (size_t)(e->file->n_settings + 1));
  DataInput *mutable_inputs = elaborator_alloc(e, sizeof *mutable_inputs * (size_t)(n + 1));
  if (n) memcpy(mutable_inputs, inputs, sizeof *inputs * (size_t)n);
  int count = 0;
  bool ok = true;
  for (int i = 0; i < e->file->n_settings; i++) {
    const AstSetting *s = &e->file->settings[i];
    if ((is_data(s) || is_eval(s)) && (ok = line_attribute(e, s, n, mutable_inputs, &lines[count]) && ok)) count++;
  }
  ok = check_eval_complete(e, n, inputs) && ok;
  set_module_attr(e, "nn.data", mlirArrayAttrGet(e->ctx, count, lines));
  set_module_attr(e, "nn.batch", int_attr(e, n ? inputs[0].type.dim[0] : 1));
  return ok;
}

// The arguments of the readers, as attributes of the module: files, parts of them, how they are read.
#include <math.h>
#include <string.h>

#include "compiler/elaborate_data.h"

typedef struct ReaderCall {
  int n_files, n_fields;
  const char **files, **fields;
  int n_counts, *counts;   // of the arguments that name files: how many each is
  const char *dtype;       // of raw tokens
  int64_t num_workers, prefetch_factor, resize;
  bool skip_broken;
  int n_field_counts, *field_counts;   // of csv
  int64_t hash;
  int separator;
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

// fields=["y", ["a", "b"]]: one column for a name, or several.
static bool read_columns(Elaborator *e, const CallArg *a, ReaderCall *r) {
  int n = a->value.kind == VALUE_LIST ? a->value.list.n : 0, all = 0;
  const Value *items = a->value.list.items;
  for (int i = 0; i < n; i++) all += items[i].kind == VALUE_LIST ? items[i].list.n : 1;
  r->fields = elaborator_alloc(e, sizeof *r->fields * (size_t)(all + 1));
  r->field_counts = elaborator_alloc(e, sizeof *r->field_counts * (size_t)(n + 1));
  for (int i = 0; i < n; i++) {
    bool several = items[i].kind == VALUE_LIST;
    const Value *names = several ? items[i].list.items : &items[i];
    r->field_counts[r->n_field_counts++] = several ? items[i].list.n : 1;
    for (int k = 0; k < r->field_counts[i]; k++) {
      if (names[k].kind != VALUE_STRING)
        return elaborator_error(e, a->pos, "expected the name of a column, found %s", value_describe(e, names[k]));
      r->fields[r->n_fields++] = names[k].s;
    }
    if (r->field_counts[i] == 0) return elaborator_error(e, a->pos, "expected names of columns, found an empty list");
  }
  return n > 0 || elaborator_error(e, a->pos, "'fields' must be a list with the columns of each name, found %s",
                                   value_describe(e, a->value));
}

static bool read_csv_option(Elaborator *e, const CallArg *a, ReaderCall *r) {
  if (strcmp(a->name, "fields") == 0) return read_columns(e, a, r);
  if (strcmp(a->name, "hash") == 0) {
    r->hash = a->value.kind == VALUE_INT ? a->value.i : 0;
    return r->hash > 0 || elaborator_error(e, a->pos, "'hash' must be a positive number of categories, found %s",
                                           value_describe(e, a->value));
  }
  bool one = a->value.kind == VALUE_STRING && strlen(a->value.s) == 1 && !strchr("\"\n\r", a->value.s[0]);
  if (one) r->separator = (unsigned char)a->value.s[0];
  return one || elaborator_error(e, a->pos, "'separator' must be one character, such as \";\"");
}

bool data_option_flag(Elaborator *e, const CallArg *a, bool *flag) {
  *flag = a->value.kind == VALUE_BOOL && a->value.b;
  return a->value.kind == VALUE_BOOL ||
         elaborator_error(e, a->pos, "'%s' must be true or false, found %s", a->name, value_describe(e, a->value));
}

static bool read_option(Elaborator *e, const CallArg *a, Reader reader, ReaderCall *r) {
  double number;
  bool begin = strcmp(a->name, "begin") == 0, end = strcmp(a->name, "end") == 0;
  if (strcmp(a->name, "fields") == 0 && (data_readers[reader].has_fields || reader == READER_TOKENS))
    return read_fields(e, a, r);
  if (begin || end) {
    if (!value_as_number(&a->value, &number) || !(number >= 0 && number <= 1))
      return elaborator_error(e, a->pos, "'%s' must be a part between 0 and 1, found %s", a->name,
                              value_describe(e, a->value));
    *(begin ? &r->begin : &r->end) = number;
    return true;
  }
  if (strcmp(a->name, "resize") == 0 && reader == READER_IMAGES) {
    r->resize = a->value.kind == VALUE_INT ? a->value.i : 0;
    return (r->resize > 0 && r->resize < 1 << 15) ||
           elaborator_error(e, a->pos, "'resize' must be a number of pixels from 1 to 32767, found %s",
                            value_describe(e, a->value));
  }
  if (strcmp(a->name, "skip_broken") == 0 && reader == READER_IMAGES) return data_option_flag(e, a, &r->skip_broken);
  bool workers = strcmp(a->name, "num_workers") == 0;
  if (workers || strcmp(a->name, "prefetch_factor") == 0) {
    int least = !workers || reader == READER_IMAGES;
    if (a->value.kind != VALUE_INT || a->value.i < least || a->value.i > 256)
      return elaborator_error(e, a->pos, "'%s' must be an integer from %d to 256, found %s", a->name, least,
                              value_describe(e, a->value));
    *(workers ? &r->num_workers : &r->prefetch_factor) = a->value.i;
    return true;
  }
  if (reader == READER_CSV) return read_csv_option(e, a, r);
  if (strcmp(a->name, "whole") == 0 && reader == READER_SAFETENSORS) return data_option_flag(e, a, &r->whole);
  if (strcmp(a->name, "continued") == 0 && data_is_text(reader)) return data_option_flag(e, a, &r->continued);
  if (strcmp(a->name, "sequence") == 0 && data_is_text(reader)) {
    if (a->value.kind != VALUE_INT || a->value.i < 1)
      return elaborator_error(e, a->pos, "'sequence' must be a positive integer");
    r->sequence = a->value.i;
    return true;
  }
  return false;   // check_argument_names has reported it
}

// prefetch_factor= without the threads that would read ahead.
static bool check_ahead(Elaborator *e, const AstExpr *x, Reader reader, const ReaderCall *r) {
  const AstArg *factor = NULL;
  for (int i = 0; i < x->call.n_args; i++) {
    const char *name = x->call.args[i].name.text;
    if (name && strcmp(name, "prefetch_factor") == 0) factor = &x->call.args[i];
  }
  if (!factor || r->num_workers > 0) return true;
  elaborator_error(e, factor->name.pos, "'prefetch_factor' needs 'num_workers', the threads that read ahead");
  elaborator_hint(e, "%s(…, num_workers=2, prefetch_factor=2); without them data is held in memory",
                  data_readers[reader].name);
  return false;
}

static bool read_call(Elaborator *e, const AstStmt *s, Reader reader, ReaderCall *r) {
  const AstExpr *x = data_reader(s);
  int n_names = s->setting.n_targets;
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(x->call.n_args + 1));
  *r = (ReaderCall){.end = 1, .separator = ',', .prefetch_factor = 2, .num_workers = reader == READER_IMAGES ? 2 : 0};
  if (!data_check_argument_names(e, s, reader)) return false;
  r->counts = elaborator_alloc(e, sizeof *r->counts * (size_t)(x->call.n_args + 1));
  bool ok = true;
  for (int i = 0; i < x->call.n_args; i++) {
    const char *name = x->call.args[i].name.text;
    // read before
    if (name && (data_is_target(s, name) || (strcmp(name, "csr") == 0 && reader == READER_SAFETENSORS))) continue;
    if (name && strcmp(name, "dtype") == 0) {
      ok = read_dtype(e, &x->call.args[i], r) && ok;
      continue;
    }
    if (!eval_args(e, 1, &x->call.args[i], &args[i])) return false;
    if (args[i].name) ok = read_option(e, &args[i], reader, r) && ok;
    else ok = read_files(e, &args[i], r) && ok;
  }
  if (!ok || !check_ahead(e, x, reader, r)) return false;
  if (r->begin >= r->end) return elaborator_error(e, x->pos, "'begin' must be below 'end'");
  bool per_name = reader == READER_IDX || reader == READER_NPY;
  if (r->n_counts != (per_name ? n_names : 1) || ((data_is_text(reader) || reader == READER_IMAGES) && n_names > 2)) {
    elaborator_error(e, x->pos, "%d files do not feed %d names", r->n_counts, n_names);
    elaborator_hint(e, "%s", data_readers[reader].use);
    return false;
  }
  if (reader == READER_IMAGES && r->n_files > 1)
    return elaborator_error(e, x->pos, "images reads one folder, found %d", r->n_files);
  if (data_readers[reader].has_fields && r->n_fields == 0) {
    r->fields = elaborator_alloc(e, sizeof *r->fields * (size_t)(n_names + 1));
    for (int i = 0; i < n_names; i++) r->fields[r->n_fields++] = s->setting.targets[i].text;
  }
  if (reader == READER_CSV) {
    if (r->n_fields == 0) {
      r->fields = elaborator_alloc(e, sizeof *r->fields * (size_t)(n_names + 1));
      r->field_counts = elaborator_alloc(e, sizeof *r->field_counts * (size_t)(n_names + 1));
      for (int i = 0; i < n_names; i++) r->fields[r->n_fields++] = s->setting.targets[i].text, r->field_counts[i] = 1;
      r->n_field_counts = n_names;
    }
    return r->n_field_counts == n_names ||
           elaborator_error(e, x->pos, "%d fields do not feed %d names", r->n_field_counts, n_names);
  }
  if (reader == READER_TOKENS && r->n_fields > 1)
    return elaborator_error(e, x->pos, "a text is one field, found %d", r->n_fields);
  return !data_readers[reader].has_fields || r->n_fields == n_names ||
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
    const DataInput *input = data_find_input(n, (DataInput *)inputs, s->setting.targets[i].text);
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

static bool check_images(Elaborator *e, const AstStmt *s, int n, const DataInput *inputs, const ReaderCall *r) {
  for (int i = 0; i < s->setting.n_targets; i++) {
    const DataInput *input = data_find_input(n, (DataInput *)inputs, s->setting.targets[i].text);
    const NnType *t = &input->type;
    char type[256];
    nn_type_format(t, type, sizeof type);
    if (i == 0 && (t->rank != 4 || (t->dim[1] != 1 && t->dim[1] != 3)))
      return elaborator_error(e, s->setting.targets[i].pos,
                              "images are [N, 3, height, width], or [N, 1, height, width] in grey; '%s' is %s",
                              input->name, type);
    if (i > 0 && (t->rank != 1 || nn_dtype_is_float(t->dtype)))
      return elaborator_error(e, s->setting.targets[i].pos, "classes are integers i32[N], '%s' is %s", input->name,
                              type);
    if (i == 0 && r->resize && (r->resize < t->dim[2] || r->resize < t->dim[3]))
      return elaborator_error(e, s->pos, "images with a shorter side of %lld do not cover %lld x %lld pixels",
                              (long long)r->resize, (long long)t->dim[2], (long long)t->dim[3]);
  }
  return true;
}

// The eval line feeds the same inputs from other records.
static bool check_eval_names(Elaborator *e, const AstStmt *s, int n, DataInput *inputs) {
  for (int i = 0; i < s->setting.n_targets; i++) {
    if (data_find_input(n, inputs, s->setting.targets[i].text)) continue;
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
    if (data_is_eval(e->train->body.stmts[i])) {
      any = true;
      pos = e->train->body.stmts[i]->pos;
    }
  for (int k = 0; any && k < n; k++) {
    bool fed = false;
    for (int i = 0; i < e->train->body.n; i++) {
      const AstStmt *s = e->train->body.stmts[i];
      for (int j = 0; data_is_eval(s) && j < s->setting.n_targets; j++)
        fed = fed || strcmp(s->setting.targets[j].text, inputs[k].name) == 0;
    }
    if (!fed) ok = elaborator_error(e, pos, "the eval lines do not feed '%s'", inputs[k].name);
  }
  return ok;
}

static bool line_attribute(Elaborator *e, const AstStmt *s, int n, DataInput *inputs, MlirAttribute *out) {
  Reader reader;
  ReaderCall r;
  if (!data_reader_of(e, s, &reader) || (data_is_eval(s) && !check_eval_names(e, s, n, inputs)) ||
      !read_call(e, s, reader, &r))
    return false;
  if (r.whole && r.num_workers)
    return elaborator_error(e, s->pos, "a tensor that is read whole is held in memory: it has no 'num_workers'");
  if (r.whole && (r.begin > 0 || r.end < 1))
    return elaborator_error(e, s->pos, "a tensor that is read whole has no part of its records");
  for (int i = 0; i < s->setting.n_targets; i++) {
    const DataInput *input = data_find_input(n, inputs, s->setting.targets[i].text);
    if (input->staging && input->staging->csr && (input->type.rank != 1 || nn_dtype_is_float(input->type.dtype)))
      return elaborator_error(e, s->setting.targets[i].pos,
                              "'%s' is read as rows of edges, one integer for each edge, but has %d axes%s",
                              input->name, input->type.rank, nn_dtype_is_float(input->type.dtype) ? " of floats" : "");
    if (r.hash && nn_dtype_is_float(input->type.dtype))
      return elaborator_error(e, s->setting.targets[i].pos, "categories are integers: give the type, %s=i32[N, …]",
                              input->name);
    if (r.hash > INT32_MAX && input->type.dtype == NN_I32)
      return elaborator_error(e, s->pos, "'%s' is i32, which cannot hold %lld categories: 'hash' is at most %d",
                              input->name, (long long)r.hash, INT32_MAX);
    if (input->whole == r.whole) continue;
    return elaborator_error(e, s->setting.targets[i].pos, "'%s' is read whole in %s only", input->name,
                            r.whole ? "this line" : "the data line");
  }
  if (data_is_text(reader) && !check_sequence(e, s, n, inputs, &r)) return false;
  if (reader == READER_IMAGES && !check_images(e, s, n, inputs, &r)) return false;
  e->continued = e->continued || r.continued;
  Transforms moves;
  if (!transforms_read(e, s, n, inputs, &moves)) return false;
  const char **targets = elaborator_alloc(e, sizeof *targets * (size_t)(s->setting.n_targets + 1));
  for (int i = 0; i < s->setting.n_targets; i++) targets[i] = s->setting.targets[i].text;
  MlirAttribute names = data_texts(e, s->setting.n_targets, targets);
  MlirNamedAttribute entries[] = {
      named_attr(e, "split", text_attr(e, data_is_data(s) ? "train" : "eval")),
      named_attr(e, "reader", text_attr(e, data_readers[reader].name)),
      named_attr(e, "names", names),
      named_attr(e, "files", data_texts(e, r.n_files, r.files)),
      named_attr(e, "file_counts", integers(e, r.n_counts, r.counts)),
      named_attr(e, "field_counts", integers(e, r.n_field_counts, r.field_counts)),
      named_attr(e, "hash", int_attr(e, r.hash)),
      named_attr(e, "separator", int_attr(e, r.separator)),
      named_attr(e, "resize", int_attr(e, r.resize)),
      named_attr(e, "skip_broken", int_attr(e, r.skip_broken)),
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
    if ((data_is_data(s) || data_is_eval(s)) && (ok = line_attribute(e, s, n, mutable_inputs, &lines[count]) && ok))
      count++;
  }
  ok = ok && check_eval_complete(e, n, inputs);   // a misspelt name is not also a missing one
  set_module_attr(e, ATTR_data, mlirArrayAttrGet(e->ctx, count, lines));
  set_module_attr(e, ATTR_batch,
                  int_attr(e, data_batched_input(n, inputs) ? data_batched_input(n, inputs)->type.dim[0] : 1));
  return ok;
}

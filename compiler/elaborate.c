// Entry of elaboration: memory, messages, the file's dimensions and -D, and the order in which the functions are built. The AST is executed
// once per function, with a mode: @train, then @eval and @predict, the later ones only when the earlier had no errors.
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/elaborate_internal.h"

// --- Memory ------------------------------------------------------------------------------------------------------------

struct Chunk { Chunk *next; size_t used, size; max_align_t data[]; };

void *elaborator_alloc(Elaborator *e, size_t size)
{
  size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (!e->memory || e->memory->size - e->memory->used < size) {
    size_t room = size > (64 << 10) ? size : (64 << 10);
    Chunk *c = calloc(1, sizeof *c + room);
    if (!c) {
      fprintf(stderr, "nnc: out of memory\n");
      exit(NNC_EXIT_DIAGNOSTICS);
    }
    *c = (Chunk){.next = e->memory, .size = room};
    e->memory = c;
  }
  void *p = (char *)e->memory->data + e->memory->used;
  e->memory->used += size;
  return p;
}

static void memory_free(Elaborator *e)
{
  for (Chunk *c = e->memory, *next; c; c = next) {
    next = c->next;
    free(c);
  }
}

char *elaborator_format(Elaborator *e, const char *format, ...)
{
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  char *text = elaborator_alloc(e, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

// --- Messages ------------------------------------------------------------------------------------------------------------

static bool same_place(AstPos x, AstPos y) { return x.source == y.source && x.line == y.line && x.column == y.column; }

// The calls that led here, innermost first; a few are enough to find one's way.
static void note_callers(Elaborator *e)
{
  int shown = 0;
  for (Frame *f = e->frame; f && f->block && shown < 3; f = f->caller, shown++)
    diag_note(f->call_pos, "in '%s', called here", f->block->name);
}

// One message per place: a block called twice with the same mistake in it has one mistake.
static bool report(Elaborator *e, AstPos pos, const char *format, va_list args)
{
  if (e->gave_up) { e->hushed = true; return false; }
  e->hushed = false;
  for (int i = 0; i < e->n_reported && pos.source; i++)
    if (same_place(e->reported[i], pos)) e->hushed = true;
  if (e->hushed) return false;
  if (pos.source) PUSH(e, e->reported, e->n_reported, e->cap_reported, pos);
  diag_verror(pos, format, args);
  note_callers(e);
  return false;
}

bool elaborator_error(Elaborator *e, AstPos pos, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  report(e, pos, format, args);
  va_end(args);
  return false;
}

bool elaborator_give_up(Elaborator *e, AstPos pos, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  report(e, pos, format, args);
  va_end(args);
  e->gave_up = true;
  return false;
}

void elaborator_hint(Elaborator *e, const char *format, ...)
{
  va_list args;
  if (e->hushed) return;
  va_start(args, format);
  char text[512];
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  diag_hint("%s", text);
}

void elaborator_note(Elaborator *e, AstPos pos, const char *format, ...)
{
  va_list args;
  if (e->hushed) return;
  va_start(args, format);
  char text[512];
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  diag_note(pos, "%s", text);
}

// A program's nesting (blocks in blocks, expressions in expressions) is ours to bound: the stack is measured, not the depth counted, since
// frames of different kinds mix.
bool elaborator_stack_ok(Elaborator *e, AstPos pos)
{
  const ptrdiff_t limit = 5 << 20;
  ptrdiff_t used = e->stack_base - (char *)__builtin_frame_address(0);
  return (used < limit && used > -limit) || elaborator_give_up(e, pos, "nested too deep");
}

MlirLocation location_of(Elaborator *e, AstPos pos)
{
  if (!pos.source) return mlirLocationUnknownGet(e->ctx);
  const char *name = ((const Source *)pos.source)->name;
  return mlirLocationFileLineColGet(e->ctx, mlirStringRefCreateFromCString(name), (unsigned)pos.line, (unsigned)pos.column);
}

static int edit_distance(const char *a, const char *b)
{
  int row[64], n = (int)strlen(b);
  if (n > 62 || strlen(a) > 62) return INT_MAX;
  for (int j = 0; j <= n; j++) row[j] = j;
  for (int i = 1; a[i - 1]; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= n; j++) {
      int change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      int best = row[j] < row[j - 1] ? row[j] : row[j - 1];
      row[j] = change < best + 1 ? change : best + 1;
    }
  }
  return row[n];
}

void nearest_offer(Nearest *n, const char *candidate)
{
  int d = edit_distance(n->wanted, candidate), length = (int)strlen(n->wanted);
  int limit = length < 3 ? 1 : length < 6 ? 2 : 3;
  if (d > limit || d >= length || (n->best && d >= n->distance)) return;
  n->best = candidate;
  n->distance = d;
}

// --- The file --------------------------------------------------------------------------------------------------------------

const AstBlock *find_block(const Elaborator *e, const char *name)
{
  for (int i = 0; i < e->file->n_blocks; i++)
    if (strcmp(e->file->blocks[i]->name, name) == 0) return e->file->blocks[i];
  return NULL;
}

static void check_declarations(Elaborator *e)
{
  const AstFile *f = e->file;
  for (int i = 0; i < f->n_blocks; i++) {
    const AstBlock *b = f->blocks[i], *first = find_block(e, b->name);
    e->n_models += b->is_model;
    if (first != b) {
      elaborator_error(e, b->pos, "'%s' is declared twice", b->name);
      elaborator_note(e, first->pos, "the first is here");
    }
    for (int k = 0; k < b->n_parameters; k++)
      for (int j = 0; j < k; j++)
        if (strcmp(b->parameters[j].name, b->parameters[k].name) == 0)
          elaborator_error(e, b->parameters[k].pos, "'%s' has two parameters named '%s'", b->name, b->parameters[k].name);
  }
}

static Define *find_define(Define *defines, int n, const char *name)
{
  Define *found = NULL;   // the last one given wins, as with a C compiler
  for (int i = 0; i < n; i++)
    if (strcmp(defines[i].name, name) == 0) {
      defines[i].used = true;
      found = &defines[i];
    }
  return found;
}

static bool dim_value(Elaborator *e, const AstDim *dim, const Define *define, Value *value)
{
  bool written = dim->value && eval(e, dim->value, value);
  if (!define)
    return written || (!dim->value && elaborator_error(e, dim->pos, "'%s' has no value: give it one here, or with -D %s=…", dim->name, dim->name));
  bool whole = define->value == floor(define->value) && fabs(define->value) < 9e15;
  if (written && value->kind == VALUE_INT && !whole)
    return elaborator_error(e, dim->pos, "'%s' is an integer, -D gives it %g", dim->name, define->value);
  *value = whole ? value_int((int64_t)define->value) : value_float(define->value);
  return true;
}

static void evaluate_dims(Elaborator *e, Define *defines, int n)
{
  const AstFile *f = e->file;
  for (int i = 0; i < f->n_dims; i++) {
    const AstDim *dim = &f->dims[i];
    Variable *earlier = find_variable(e->globals, dim->name);
    if (earlier) {
      elaborator_error(e, dim->pos, "dimension '%s' is declared twice", dim->name);
      elaborator_note(e, earlier->pos, "the first is here");
      continue;
    }
    Value value = {0};
    bool ok = dim_value(e, dim, find_define(defines, n, dim->name), &value);
    if (ok && value.kind != VALUE_INT && value.kind != VALUE_FLOAT && value.kind != VALUE_BOOL)
      ok = elaborator_error(e, dim->pos, "dimension '%s' must be a number, found %s", dim->name, value_describe(e, value));
    set_variable(e, dim->name, dim->pos, value)->broken = !ok;
  }
  for (int i = 0; i < n; i++) {
    if (defines[i].used) continue;
    elaborator_error(e, (AstPos){0}, "-D %s=%g: %s declares no dimension '%s'", defines[i].name, defines[i].value, f->source->name, defines[i].name);
    Nearest nearest = {.wanted = defines[i].name};
    for (int k = 0; k < f->n_dims; k++) nearest_offer(&nearest, f->dims[k].name);
    if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
  }
}

static const AstBlock *first_model(const Elaborator *e)
{
  for (int i = 0; i < e->file->n_blocks; i++)
    if (e->file->blocks[i]->is_model) return e->file->blocks[i];
  return NULL;
}

static void build_functions(Elaborator *e)
{
  const AstFile *f = e->file;
  e->main_model = first_model(e);
  bool ok = true;
  if (f->has_train) ok = elaborate_train(e);
  else if (!e->main_model) elaborator_error(e, (AstPos){0}, "%s has no model", f->source->name);
  if (!ok || diag_errors()) return;
  const char *slash = strrchr(f->source->name, '/');
  set_module_attr(e, "nn.source", text_attr(e, slash ? slash + 1 : f->source->name));
  set_module_attr(e, "nn.model", text_attr(e, e->main_model ? e->main_model->name : "train"));
  if (e->main_model) elaborate_predict(e, e->main_model);
}

MlirModule elaborate(MlirContext ctx, const AstFile *file, Define *defines, int n_defines, const char *dtype)
{
  Elaborator e = {.ctx = ctx, .file = file, .dtype = NN_F32, .stack_base = __builtin_frame_address(0)};
  const char *name = file->source->name;
  int errors = diag_errors();
  if (dtype) {
    e.dtype_given = true;
    if (!nn_dtype_parse(dtype, &e.dtype) || !nn_dtype_is_float(e.dtype))
      diag_error((AstPos){0}, "--dtype must be f32 or f64, found '%s'", dtype);
  }
  e.module = mlirModuleCreateEmpty(mlirLocationFileLineColGet(ctx, mlirStringRefCreateFromCString(name), 1, 1));
  Frame globals = {.path = path_create(&e, "")};
  e.frame = e.globals = &globals;
  check_declarations(&e);
  Function *scratch = function_begin(&e, "dimensions", MODE_PREDICT);   // where a tensor expression at file level lands
  evaluate_dims(&e, defines, n_defines);
  function_discard(scratch);
  if (diag_errors() == errors) build_functions(&e);
  memory_free(&e);
  if (diag_errors() == errors) return e.module;
  mlirModuleDestroy(e.module);
  return (MlirModule){NULL};
}

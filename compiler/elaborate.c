// Entry of elaboration: memory, messages, the file's dimensions and -D, and the order in which the functions are built.
// The AST is executed once per function, with a mode: @train, then @eval and @predict, the later ones only when the
// earlier had no errors.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/elaborate_internal.h"
#include "runtime/program.h"

// --- Memory and messages
// -------------------------------------------------------------------------------------------------

void *elaborator_alloc(Elaborator *e, size_t size) { return pool_alloc(e->pool, size); }

char *elaborator_format(Elaborator *e, const char *format, ...) {
  va_list args;
  char text[256];   // most are shorter
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (n < 0) abort();
  if ((size_t)n < sizeof text) return pool_string(e->pool, text, (size_t)n);
  char *kept = elaborator_alloc(e, (size_t)n + 1);
  va_start(args, format);
  vsnprintf(kept, (size_t)n + 1, format, args);
  va_end(args);
  return kept;
}

static bool same_place(AstPos x, AstPos y) { return x.source == y.source && x.line == y.line && x.column == y.column; }

// The calls that led to an error, innermost first, are shown after its own notes and hints; a few are enough to find
// one's way.
static void flush_callers(Elaborator *e) {
  for (int i = 0; i < e->n_callers; i++)
    diag_note(e->diagnostics, e->callers[i].pos, "in '%s', called here", e->callers[i].text);
  e->n_callers = 0;
}

static void remember_callers(Elaborator *e) {
  for (Frame *f = e->frame; f && f->block && e->n_callers < MAX_CALLERS; f = f->caller)
    if (!f->is_prelude && !same_place(f->call_pos, f->block->name.pos))   // not @predict's call, written nowhere
      e->callers[e->n_callers++] = (AstName){.text = f->block->name.text, .pos = f->call_pos};
}

// The user's call of the function of the library that is being executed; NULL: none is.
static const Frame *prelude_entry(const Elaborator *e) {
  const Frame *entry = NULL;
  for (const Frame *f = e->frame; f && f->is_prelude; f = f->caller) entry = f;
  return entry;
}

AstPos user_position(const Elaborator *e, AstPos pos, const char *message) {
  const Frame *entry = pos.source && pos.source->is_prelude ? prelude_entry(e) : NULL;
  if (!entry) return pos;
  for (int i = 0; i < entry->block->n_parameters && *message == '\''; i++) {
    const char *name = entry->block->parameters[i].name.text;
    size_t length = strlen(name);
    const Variable *v = find_variable((Frame *)entry, name);
    bool named = strncmp(message + 1, name, length) == 0 && message[length + 1] == '\'';
    if (named && v && v->pos.source && !v->pos.source->is_prelude) return v->pos;
  }
  return entry->call_pos;
}

// One message per place: a block called twice with the same mistake in it has one mistake.
static bool is_listed(AstPos pos, int n, const AstPos *places) {
  bool found = false;
  for (int i = 0; i < n && pos.source; i++) found |= same_place(places[i], pos);
  return found;
}

static bool report(Elaborator *e, AstPos pos, const char *format, va_list args) {
  char text[1024];
  vsnprintf(text, sizeof text, format, args);
  const Frame *entry = pos.source && pos.source->is_prelude ? prelude_entry(e) : NULL;
  pos = user_position(e, pos, text);
  e->hushed = e->gave_up || is_listed(pos, e->n_reported, e->reported);
  if (e->hushed) return false;
  if (pos.source) PUSH(e, e->reported, e->n_reported, e->cap_reported, pos);
  flush_callers(e);
  diag_error(e->diagnostics, pos, "%s%s%s", entry ? entry->block->name.text : "", entry ? ": " : "", text);
  remember_callers(e);
  if (diag_is_full(e->diagnostics)) e->gave_up = true;
  return false;
}

void elaborator_warning(Elaborator *e, AstPos pos, const char *format, ...) {
  va_list args;
  char text[1024];
  pos = user_position(e, pos, "");
  e->hushed = e->gave_up || is_listed(pos, e->n_warned, e->warned);
  if (e->hushed) return;
  PUSH(e, e->warned, e->n_warned, e->cap_warned, pos);
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  flush_callers(e);
  diag_warning(e->diagnostics, pos, "%s", text);
}

bool elaborator_error(Elaborator *e, AstPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(e, pos, format, args);
  va_end(args);
  return false;
}

bool elaborator_give_up(Elaborator *e, AstPos pos, const char *format, ...) {
  va_list args;
  va_start(args, format);
  report(e, pos, format, args);
  va_end(args);
  e->gave_up = true;
  return false;
}

void elaborator_hint(Elaborator *e, const char *format, ...) {
  va_list args;
  if (e->hushed) return;
  va_start(args, format);
  char text[512];
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  diag_hint(e->diagnostics, "%s", text);
}

void elaborator_note(Elaborator *e, AstPos pos, const char *format, ...) {
  va_list args;
  if (e->hushed || (pos.source && pos.source->is_prelude)) return;
  va_start(args, format);
  char text[512];
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  diag_note(e->diagnostics, pos, "%s", text);
}

// A program's nesting (blocks in blocks, expressions in expressions) is ours to bound: the stack is measured, not the
// depth counted, since frames of different kinds mix.
bool elaborator_stack_ok(Elaborator *e, AstPos pos) {
  const ptrdiff_t limit = 5 << 20;
  ptrdiff_t used = e->stack_base - (char *)__builtin_frame_address(0);
  return (used < limit && used > -limit) || elaborator_give_up(e, pos, "nested too deep");
}

MlirLocation location_of(Elaborator *e, AstPos pos) { return diag_location(e->ctx, user_position(e, pos, "")); }

// --- The file

const AstItem *find_block(const Elaborator *e, const char *name) {
  int place = e->frame->is_prelude ? -1 : name_table_get(&e->blocks, name);
  bool in_optimizer = e->frame->block && e->frame->block->kind == AST_OPTIMIZER;   // which may call another
  return place >= 0 ? e->file->items[place] : in_optimizer ? method_of(e, AST_OPTIMIZER, name) : NULL;
}

static void check_declaration(Elaborator *e, const AstItem *b) {
  bool is_method = b->kind == AST_OPTIMIZER || b->kind == AST_SCHEDULE;
  const AstItem *first = is_method ? method_of(e, b->kind, b->name.text) : find_block(e, b->name.text);
  if (b->kind == AST_OPTIMIZER) optimizer_check_declaration(e, b);
  if (first != b) {
    elaborator_error(e, b->name.pos, "'%s' is declared twice", b->name.text);
    elaborator_note(e, first->name.pos, "the first is here");
  }
  if (b->n_parameters > MAX_LISTED)
    elaborator_give_up(e, b->parameters[MAX_LISTED].name.pos, "'%s' has more than %d parameters", b->name.text,
                       MAX_LISTED);
  for (int k = 0; k < b->n_parameters && !e->gave_up; k++)
    for (int j = 0; j < k; j++)
      if (strcmp(b->parameters[j].name.text, b->parameters[k].name.text) == 0)
        elaborator_error(e, b->parameters[k].name.pos, "'%s' has two parameters named '%s'", b->name.text,
                         b->parameters[k].name.text);
}

enum { MAX_MODELS = 200 };
_Static_assert(2 * NNC_MAX_PHASES + 2 + MAX_MODELS <= NN_MAX_FUNCTIONS, "each has its functions; eval and decode");

static void check_declarations(Elaborator *e) {
  for (int i = 0; i < e->file->n_items; i++) {
    const AstItem *item = e->file->items[i];
    bool block = item->kind == AST_BLOCK || item->kind == AST_MODEL;
    if (block && !find_block(e, item->name.text)) name_table_set(e->pool, &e->blocks, item->name.text, i);
  }
  for (int i = 0; i < e->file->n_items; i++) {
    const AstItem *item = e->file->items[i];
    if (ast_has_signature(item)) check_declaration(e, item);
    if (item->kind == AST_MODEL && ++e->n_models > MAX_MODELS) {
      elaborator_give_up(e, item->name.pos, "a program has at most %d models", MAX_MODELS);
      return;
    }
    if (item->kind == AST_MODEL && !e->main_model) e->main_model = item;
    if (item->kind != AST_TRAIN) continue;
    if (e->train) {
      elaborator_error(e, item->pos, "a second train section");
      elaborator_note(e, e->train->pos, "the first is here");
    }
    e->train = item;
  }
}

static Define *find_define(Define *defines, int n, const char *name) {
  Define *found = NULL;   // the last one given wins, as with a C compiler
  for (int i = 0; i < n; i++)
    if (strcmp(defines[i].name, name) == 0) {
      defines[i].used = true;
      found = &defines[i];
    }
  return found;
}

// The value that -D gives instead of one of the same kind: numbers, true and false (also as 1 and 0), strings.
static bool override(Elaborator *e, const char *name, const Define *define, Value *value) {
  bool is_true = strcmp(define->text, "true") == 0, is_word = is_true || strcmp(define->text, "false") == 0;
  bool whole = define->is_number && define->number == floor(define->number) && fabs(define->number) < 9e15;
  double number;
  switch (value->kind) {
  case VALUE_STRING: *value = value_string(define->text); return true;
  case VALUE_BOOL:
    if (!is_word && !(define->is_number && (define->number == 0 || define->number == 1))) break;
    *value = value_bool(is_word ? is_true : define->number != 0);
    return true;
  default:
    if (!value_as_number(value, &number) || !define->is_number) break;
    *value = whole ? value_int((int64_t)define->number) : value_float(define->number);
    return true;
  }
  elaborator_error(e, DIAG_COMMAND_LINE, "-D %s=%.60s: '%s' is %s", name, define->text, name,
                   value_describe(e, *value));
  if (value->kind == VALUE_BOOL) elaborator_hint(e, "true or false");
  else if (value_as_number(value, &number)) elaborator_hint(e, "only a number can stand for it");
  else elaborator_hint(e, "numbers, true and false, and strings can be given here");
  return false;
}

// dim: a positive integer. let: any constant.
static bool constant_value(Elaborator *e, const AstItem *item, const Define *define, Value *value) {
  const char *name = item->name.text;
  if (!eval(e, item->value, value)) return false;
  if (define && item->kind == AST_DIM &&
      !(define->is_number && define->number == floor(define->number) && fabs(define->number) < 9e15))
    return elaborator_error(e, DIAG_COMMAND_LINE, "-D %s=%.60s: '%s' is a dimension, a positive integer", name,
                            define->text, name);
  if (define && !override(e, name, define, value)) return false;
  if (item->kind == AST_DIM && (value->kind != VALUE_INT || value->i < 1))
    return elaborator_error(e, define ? DIAG_COMMAND_LINE : item->value->pos,
                            "dimension '%s' must be a positive integer, found %s", name, value_describe(e, *value));
  if (value->kind == VALUE_TENSOR)
    return elaborator_error(e, item->value->pos, "'%s' must be a constant, found %s", name, value_describe(e, *value));
  return true;
}

static void hint_unused_define(Elaborator *e, const char *name) {
  NameSearch nearest = name_search(name);
  for (int k = 0; k < e->globals->n; k++) name_consider(&nearest, e->globals->variables[k].name);
  if (nearest.best) elaborator_hint(e, "did you mean '%s'?", nearest.best);
}

static void evaluate_constants(Elaborator *e, Define *defines, int n) {
  for (int i = 0; i < e->file->n_items; i++) {
    const AstItem *item = e->file->items[i];
    bool has_result;
    if (item->kind == AST_REQUIRE) exec_body(e, &item->body, &(Value){0}, &has_result);
    if (item->kind != AST_DIM && item->kind != AST_LET) continue;
    const char *name = item->name.text;
    Variable *earlier = find_variable(e->globals, name);
    if (earlier) {
      elaborator_error(e, item->name.pos, "'%s' is declared twice", name);
      elaborator_note(e, earlier->pos, "the first is here");
      continue;
    }
    Value value = {0};
    bool ok = constant_value(e, item, find_define(defines, n, name), &value);
    Variable *v = set_variable(e, name, item->name.pos, value);
    v->broken = !ok;
    v->is_dim = item->kind == AST_DIM;
  }
  for (int i = 0; i < n; i++) {
    if (defines[i].used) continue;
    const char *name = defines[i].name, *file = e->file->source->name;
    if (defines[i].of_fit)
      elaborator_error(e, DIAG_COMMAND_LINE, "--dim=%s: %s declares no such dim or let", name, file);
    else
      elaborator_error(e, DIAG_COMMAND_LINE, "-D %s=%.60s: %s declares no dim or let '%s'", name, defines[i].text, file,
                       name);
    hint_unused_define(e, defines[i].name);
  }
}

static MlirWalkResult find_f16(MlirOperation op, void *found) {
  if (nn_op_of(op) != NN_OP_cast || nn_value_dtype(mlirOperationGetResult(op, 0)) != NN_F16)
    return MlirWalkResultAdvance;
  *(bool *)found = true;
  return MlirWalkResultInterrupt;
}

// Gradients of f16 vanish without a scale, which is easily forgotten.
static void default_loss_scale(Elaborator *e) {
  bool f16 = false;
  if (nn_has_attr(mlirModuleGetOperation(e->module), ATTR_loss_scale)) return;
  NN_FOREACH_OP (op, mlirModuleGetBody(e->module))
    if (nn_is(op, "func.func") && nn_is_train(op)) mlirOperationWalk(op, find_f16, &f16, MlirWalkPreOrder);
  if (f16) settings_loss_scale(e, 65536, 2000);
}

static void build_functions(Elaborator *e) {
  const char *name = e->file->source->name, *slash = strrchr(name, '/');
  if (e->train && !elaborate_train(e)) return;
  default_loss_scale(e);
  set_module_attr(e, ATTR_source, text_attr(e, slash ? slash + 1 : name));
  set_module_attr(e, ATTR_model, text_attr(e, e->main_model ? e->main_model->name.text : "train"));
  if (e->main_model && !e->train_alone) elaborate_predict(e, e->main_model);
}

MlirModule elaborate(MlirContext ctx, const AstFile *file, Define *defines, int n_defines, const char *dtype,
                     bool train_alone) {
  Elaborator e = {.ctx = ctx,
                  .file = file,
                  .diagnostics = file->diagnostics,
                  .pool = pool_create(),
                  .precision = NN_F32,
                  .in_phase = -1,
                  .only_phase = -1,
                  .train_alone = train_alone,
                  .stack_base = __builtin_frame_address(0)};
  int errors = diag_error_count(e.diagnostics);
  diag_hold(e.diagnostics);
  if (dtype && (!nn_dtype_parse(dtype, &e.precision) || !nn_dtype_is_float(e.precision)))
    diag_error(e.diagnostics, DIAG_COMMAND_LINE, "--dtype must be f32, f64, bf16 or f16, found '%s'", dtype);
  e.dtype = nn_dtype_wide(e.precision);
  e.module = mlirModuleCreateEmpty(location_of(&e, (AstPos){file->source, 1, 1, 0}));
  Path *top = path_create(&e, "");
  Frame globals = {.path = top, .body = top, .precision = e.dtype};
  e.frame = e.globals = &globals;
  Function *scratch = function_begin(&e, "constants", MODE_PREDICT);   // where a tensor expression at file level lands
  if (!dtype) precision_read(&e, &file->precision, &e.precision);
  check_declarations(&e);
  evaluate_constants(&e, defines, n_defines);
  function_discard(scratch);
  if (diag_error_count(e.diagnostics) == errors) {
    build_functions(&e);
    if (!train_alone) elaborate_others(&e);
  }
  scratch = function_begin(&e, "check", MODE_PREDICT);   // defaults of optimizers and schedules are evaluated again
  check_names(&e);
  function_discard(scratch);
  flush_callers(&e);
  diag_release(e.diagnostics);
  pool_free(e.pool);
  if (diag_error_count(e.diagnostics) == errors) return e.module;
  mlirModuleDestroy(e.module);
  return (MlirModule){NULL};
}

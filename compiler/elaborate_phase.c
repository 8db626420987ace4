// Phases of a training: `phase critic { loss …; optimizer …; parameters … } every 5`. Each is a step of its own, a
// function @train.<phase>, with its loss, its optimizer and the parameters that it trains. What stands outside of the
// phases belongs to each of them. The section is executed as a whole once, which gives the settings and says which
// parameters there are, then once for each phase.
#include <fnmatch.h>
#include <string.h>

#include "compiler/elaborate_internal.h"
#include "runtime/program.h"

static bool is_phase(const AstStmt *s) { return s->kind == AST_PHASE; }

static int find_phase(const Elaborator *e, const AstStmt *s) {
  for (int i = 0; i < e->n_phases; i++)
    if (e->phases[i].line == s) return i;
  return -1;
}

static bool add_phase(Elaborator *e, const AstStmt *s) {
  for (int i = 0; i < e->n_phases; i++) {
    if (strcmp(e->phases[i].name, s->phase.name.text) != 0) continue;
    elaborator_error(e, s->phase.name.pos, "two phases are named '%s'", s->phase.name.text);
    elaborator_note(e, e->phases[i].line->phase.name.pos, "the first is here");
    return false;
  }
  if (e->n_phases == NNC_MAX_PHASES)
    return elaborator_error(e, s->pos, "a program has at most %d phases", NNC_MAX_PHASES);
  int capacity = e->n_phases;   // a few at most
  PUSH(e, e->phases, e->n_phases, capacity, ((Phase){.line = s, .name = s->phase.name.text, .every = 1}));
  return true;
}

bool phases_find(Elaborator *e) {
  const AstBody *body = &e->train->body;
  bool ok = true, each = false;
  for (int i = 0; i < body->n; i++)
    if (is_phase(body->stmts[i])) ok = add_phase(e, body->stmts[i]) && ok;
  e->phased = e->n_phases > 0;
  if (!e->phased) {
    int capacity = 0;
    PUSH(e, e->phases, e->n_phases, capacity, ((Phase){.name = "", .every = 1}));
    return true;
  }
  for (int i = 0; i < e->n_phases; i++) {
    const AstExpr *every = e->phases[i].line->phase.every;
    if (every && !eval_int(e, every, "the number of steps", &e->phases[i].every)) return false;
    if (e->phases[i].every < 1)
      ok = elaborator_error(e, every->pos, "the number of steps must be at least 1, found %lld",
                            (long long)e->phases[i].every);
    each |= e->phases[i].every == 1;
  }
  if (!each) {
    ok = elaborator_error(e, e->phases[0].line->phase.every->pos, "some phase must be one of each step");
    elaborator_hint(e, "count in steps of the phase that comes most often: it has no 'every'");
  }
  return ok;
}

const char *phase_name(Elaborator *e, const char *name) {
  return e->in_phase < 0 ? name : elaborator_format(e, "%s.%s", e->phases[e->in_phase].name, name);
}

// --- Parameters

// `parameters generator, "encoder.*"`: models and patterns of paths
static bool read_pattern(Elaborator *e, const AstArg *a, const char **pattern) {
  const AstItem *model = a->value->kind == AST_NAME ? find_block(e, a->value->text) : NULL;
  Value v;
  if (model && model->kind == AST_MODEL) {
    *pattern = e->n_models > 1 ? elaborator_format(e, "%s.*", model->name.text) : "*";
    return true;
  }
  if (!eval(e, a->value, &v)) return false;
  if (v.kind == VALUE_STRING) {
    *pattern = v.s;
    return true;
  }
  elaborator_error(e, a->value->pos, "expected a model or a pattern of parameter names, found %s",
                   value_describe(e, v));
  elaborator_hint(e, "parameters generator, \"encoder.*\"");
  return false;
}

static bool read_parameters(Elaborator *e, Phase *phase) {
  const AstStmt *s = settings_find(e, "parameters");
  bool ok = true;
  if (!s || s->setting.n_args == 0) {
    elaborator_error(e, s ? s->pos : phase->line->pos, "phase '%s' does not say which parameters it trains",
                     phase->name);
    elaborator_hint(e, "parameters generator, for a model, or parameters \"encoder.*\"");
    return false;
  }
  phase->parameters = s;
  phase->patterns = elaborator_alloc(e, sizeof *phase->patterns * (size_t)s->setting.n_args);
  for (int i = 0; i < s->setting.n_args; i++) {
    const AstArg *a = &s->setting.args[i];
    if (a->name.text) ok = elaborator_error(e, a->name.pos, "'parameters' has no option '%s'", a->name.text);
    else ok = read_pattern(e, a, &phase->patterns[i]) && ok;
  }
  phase->n_patterns = ok ? s->setting.n_args : 0;
  return ok;
}

static bool trains(const Phase *phase, const char *path) {
  for (int i = 0; i < phase->n_patterns; i++)
    if (fnmatch(phase->patterns[i], path, 0) == 0) return true;
  return !phase->line;
}

const Phase *phase_of(const Elaborator *e, const char *path) {
  for (int i = 0; i < e->n_phases; i++)
    if (trains(&e->phases[i], path)) return &e->phases[i];
  return NULL;
}

static bool check_patterns(Elaborator *e, const Phase *phase) {
  bool ok = true;
  for (int i = 0; i < phase->n_patterns; i++) {
    bool any = false;
    for (int k = 0; k < e->function->n_slots && !any; k++)
      any = !e->function->slots[k].is_state && fnmatch(phase->patterns[i], e->function->slots[k].path, 0) == 0;
    if (any) continue;
    const AstExpr *x = phase->parameters->setting.args[i].value;
    if (x->kind == AST_NAME && find_block(e, x->text))
      ok = elaborator_error(e, x->pos, "model '%s' has no parameters in this training", x->text);
    else ok = elaborator_error(e, x->pos, "\"%s\" matches no parameter", phase->patterns[i]);
    hint_parameters(e, phase->patterns[i]);
  }
  return ok;
}

// Each parameter is trained in one phase.
bool phases_check(Elaborator *e) {
  const Function *f = e->function;
  bool ok = true;
  if (!e->phased) return true;
  for (int p = 0; p < e->n_phases; p++) ok = check_patterns(e, &e->phases[p]) && ok;
  for (int i = 0; i < f->n_slots && ok; i++) {
    const Slot *s = &f->slots[i];
    const Phase *first = s->is_state ? NULL : phase_of(e, s->path);
    if (s->is_state) continue;
    if (!first) {
      ok = elaborator_error(e, s->pos, "parameter '%s' is trained in no phase", s->path);
      elaborator_hint(e, "name it in the 'parameters' of one, and in a group with frozen=true to keep it as it is");
      continue;
    }
    for (const Phase *other = first + 1; other < e->phases + e->n_phases; other++)
      if (trains(other, s->path)) {
        ok = elaborator_error(e, other->parameters->pos, "parameter '%s' is trained in phase '%s' and in phase '%s'",
                              s->path, first->name, other->name);
        elaborator_note(e, first->parameters->pos, "the parameters of phase '%s'", first->name);
      }
  }
  return ok;
}

// --- Execution

static bool has_loss(const Elaborator *e) {
  for (int i = 0; i < e->function->n_scores; i++)
    if (e->function->scores[i].is_loss && e->function->scores[i].phase == e->in_phase) return true;
  return false;
}

static bool exec_inside(Elaborator *e, const AstStmt *s) {
  Function *f = e->function;
  Value ignored;
  bool has_value, gathers = f->mode == MODE_TRAIN && !e->has_settings;
  int n_keys = f->n_keys, n_calls = f->n_calls;
  bool ok = exec_body(e, &s->phase.body, &ignored, &has_value);
  if (ok && !has_loss(e)) {
    ok = elaborator_error(e, s->pos, "phase '%s' has no loss", s->phase.name.text);
    elaborator_hint(e, "loss mean(…)");
  }
  if (!gathers) return ok;
  Phase *phase = &e->phases[e->in_phase];
  phase->n_draws = f->n_keys - n_keys;
  f->n_calls = n_calls;   // in its own function none is known from another phase
  bool known = settings_read_phase(e, phase);
  return read_parameters(e, phase) && known && ok;
}

// What is assigned inside is known inside.
bool exec_phase(Elaborator *e, const AstStmt *s) {
  Frame *frame = e->frame, saved = *frame;
  int place = find_phase(e, s);
  if (place < 0 && train_has_line(e, s)) return false;   // reported: two of one name, too many
  if (place < 0) return elaborator_error(e, s->pos, "'phase' can only stand directly in train");
  if (e->only_phase >= 0 && e->only_phase != place) {
    *frame->path = *path_copy(e, e->phases[place].after);   // what follows is named as in the section as a whole
    return true;
  }
  frame->variables = elaborator_alloc(e, sizeof *frame->variables * (size_t)(frame->capacity + 1));
  if (frame->n) memcpy(frame->variables, saved.variables, sizeof *saved.variables * (size_t)frame->n);
  e->in_phase = place;
  bool ok = exec_inside(e, s);
  if (e->only_phase < 0) e->phases[place].after = path_copy(e, frame->path);
  e->in_phase = -1;
  frame->variables = saved.variables;
  frame->n = saved.n;
  frame->capacity = saved.capacity;
  return ok;
}

int phase_draw(Elaborator *e) {
  Function *f = e->function;
  if (!e->phased || e->only_phase < 0) return f->n_keys;
  if (e->in_phase < 0) return f->n_shared_draws++;
  int row = e->n_shared_draws;
  for (int i = 0; i < e->in_phase; i++) row += e->phases[i].n_draws;
  return row + f->n_keys - f->n_shared_draws;
}

// --- Attributes

static MlirAttribute dictionary_of(Elaborator *e, const Phase *p) {
  MlirNamedAttribute entries[7] = {named_attr(e, "name", text_attr(e, p->name)),
                                   named_attr(e, "every", int_attr(e, p->every)),
                                   named_attr(e, "optimizer", text_attr(e, p->optimizer)),
                                   named_attr(e, "first", int_attr(e, p->first_group)),
                                   named_attr(e, "groups", int_attr(e, p->n_groups))};
  int n = 5;
  if (p->schedule) entries[n++] = named_attr(e, "schedule", text_attr(e, p->schedule));
  if (p->clips) entries[n++] = named_attr(e, "clip_norm", float_attr(e, p->clip_norm));
  return mlirDictionaryAttrGet(e->ctx, n, entries);
}

void phases_write(Elaborator *e) {
  const Phase *whole = &e->phases[0];
  MlirAttribute all[NNC_MAX_PHASES];
  if (whole->optimizer) set_module_attr(e, ATTR_optimizer, text_attr(e, whole->optimizer));
  if (e->n_groups) optimizer_write_groups(e);
  for (int i = 0; i < e->n_phases && e->phased; i++) {
    if (!e->phases[i].optimizer) return;   // reported
    all[i] = dictionary_of(e, &e->phases[i]);
  }
  if (e->phased) set_module_attr(e, ATTR_phases, mlirArrayAttrGet(e->ctx, e->n_phases, all));
  if (e->phased) return;
  if (whole->schedule) set_module_attr(e, ATTR_schedule, text_attr(e, whole->schedule));
  if (whole->clips) set_module_attr(e, ATTR_clip_norm, float_attr(e, whole->clip_norm));
}

// Names in blocks, models and the train section, whether or not what they stand in is called or the branch is taken:
// every function that is called and its argument names, and every name that stands for a value. What runs has been
// elaborated before; a mistake is reported once for its place. Shapes and numbers are only known where something is
// called.
#include <string.h>

#include "compiler/elaborate_internal.h"

static void check_body(Elaborator *e, const AstBody *body);
static void check_expr(Elaborator *e, const AstExpr *x);

static void know(Elaborator *e, const AstName *name) {
  if (name->text && !find_variable(e->frame, name->text)) set_variable(e, name->text, name->pos, (Value){0});
}

static void check_exprs(Elaborator *e, int n, AstExpr *const *items) {
  for (int i = 0; i < n; i++) check_expr(e, items[i]);
}

static void check_call(Elaborator *e, const AstExpr *x) {
  int n = x->call.n_args;
  const AstItem *block = find_block(e, x->call.callee);
  const LayerInfo *layer = block ? NULL : function_find(e, x->call.callee);
  CallArg *args = elaborator_alloc(e, sizeof *args * (size_t)(n + 1));
  for (int i = 0; i < n; i++) {
    const AstArg *a = &x->call.args[i];
    args[i] = (CallArg){.name = a->name.text, .pos = a->value->pos, .name_pos = a->name.pos};
    if (block || !model_named(e, x)) check_expr(e, a->value);
  }
  if (block) block_check_arguments(e, block, x->pos, n, args);
  else if (layer) layer_check_arguments(e, layer, x->pos, n, args);
  else report_unknown_function(e, x);
}

// The names of its body end with it, as in elaboration.
static void check_scan(Elaborator *e, const AstScan *s) {
  int outside = e->frame->n;
  check_exprs(e, s->n_inputs, s->inputs);
  check_exprs(e, s->n_inputs, s->over);
  if (s->init) check_expr(e, s->init);
  if (s->axis) check_expr(e, s->axis);
  if (s->reverse) check_expr(e, s->reverse);
  for (int i = 0; i < s->n_names; i++) know(e, &s->names[i]);
  check_body(e, &s->body);
  e->frame->n = outside;
}

static void check_index(Elaborator *e, const AstExpr *x) {
  check_expr(e, x->index.x);
  for (int i = 0; i < x->index.n; i++) {
    const AstSlice *s = &x->index.slices[i];
    if (s->start) check_expr(e, s->start);
    if (s->stop) check_expr(e, s->stop);
    if (s->step) check_expr(e, s->step);
  }
}

static void check_expr(Elaborator *e, const AstExpr *x) {
  switch (x->kind) {
  case AST_INT:
  case AST_FLOAT:
  case AST_BOOL:
  case AST_STRING: return;
  case AST_NAME:
    if (!name_is_known(e, x->text)) report_unknown_name(e, x);
    return;
  case AST_CALL: check_call(e, x); return;
  case AST_UNARY: check_expr(e, x->unary.x); return;
  case AST_BINARY:
    check_expr(e, x->binary.x);
    check_expr(e, x->binary.y);
    return;
  case AST_LIST:
  case AST_TUPLE: check_exprs(e, x->list.n, x->list.items); return;
  case AST_INDEX: check_index(e, x); return;
  case AST_RANGE:
    check_expr(e, x->range.start);
    check_expr(e, x->range.stop);
    return;
  case AST_SCAN: check_scan(e, x->scan); return;
  case AST_IF:
    check_expr(e, x->if_.condition);
    check_body(e, &x->if_.then);
    check_body(e, &x->if_.otherwise);
    return;
  }
}

static void check_type(Elaborator *e, const AstType *t) {
  NnDtype dtype;
  type_dtype(e, t, &dtype);
  check_exprs(e, t->n_dims, t->dims);
}

// What a round assigns may be read at the top of the next.
static void check_loop(Elaborator *e, const AstBody *body) {
  break_body(e, body);   // their values are of no interest here
  check_body(e, body);
}

static bool is_setting(const AstStmt *s, const char *keyword) {
  return s->kind == AST_SETTING && strcmp(s->setting.keyword.text, keyword) == 0;
}

// A line of the train section. What data and eval read is known from the start, and their readers are no functions; nor
// are optimizers and schedules.
static void check_setting(Elaborator *e, const AstStmt *s) {
  bool call = is_setting(s, "optimizer") || is_setting(s, "group") || is_setting(s, "schedule") ||
              is_setting(s, "loss_scale");
  if (!settings_known(e, s) || is_setting(s, "data") || is_setting(s, "eval") || is_setting(s, "parameters")) return;
  settings_check_line(e, s);
  int outside = e->frame->n;
  if (is_setting(s, "optimizer") || is_setting(s, "group")) {   // of lr=
    know(e, &(AstName){.text = "step", .pos = s->pos});
    know(e, &(AstName){.text = "steps", .pos = s->pos});
  }
  for (int i = 0; i < s->setting.n_args; i++) {
    const AstExpr *x = s->setting.args[i].value;
    if (is_setting(s, "average") && i == 0 && x->kind == AST_NAME) continue;   // a model
    if (call && x->kind == AST_NAME) continue;
    if (!call || x->kind != AST_CALL) check_expr(e, x);
    else
      for (int k = 0; k < x->call.n_args; k++) check_expr(e, x->call.args[k].value);
  }
  e->frame->n = outside;
  if (is_setting(s, "average") && s->setting.n_args) know(e, &s->setting.args[0].name);
}

// Its names end with it.
static void check_phase(Elaborator *e, const AstStmt *s) {
  int outside = e->frame->n;
  if (s->phase.every) check_expr(e, s->phase.every);
  check_body(e, &s->phase.body);
  e->frame->n = outside;
}

static void check_statement(Elaborator *e, const AstStmt *s) {
  switch (s->kind) {
  case AST_ASSIGN:
    check_expr(e, s->assign.value);
    for (int i = 0; i < s->assign.n; i++) know(e, &s->assign.targets[i]);
    return;
  case AST_PARAM:
  case AST_STATE:
    check_type(e, &s->param.type);
    if (s->param.init) check_expr(e, s->param.init);
    know(e, &s->param.name);
    return;
  case AST_UPDATE: check_expr(e, s->assign.value); return;
  case AST_FOR:
    check_exprs(e, s->for_.n_items, s->for_.items);
    for (int i = 0; i < s->for_.n_names; i++) know(e, &s->for_.names[i]);
    check_loop(e, &s->for_.body);
    return;
  case AST_REPEAT:
    check_expr(e, s->repeat.count);
    check_loop(e, &s->repeat.body);
    return;
  case AST_CHECKPOINT:
  case AST_EXPR: check_expr(e, s->expr); return;
  case AST_ASSERT: check_expr(e, s->assert_.condition); return;
  case AST_SETTING: check_setting(e, s); return;
  case AST_PHASE: check_phase(e, s); return;
  }
}

static void check_body(Elaborator *e, const AstBody *body) {
  for (int i = 0; i < body->n && !e->gave_up; i++) check_statement(e, body->stmts[i]);
}

// Names in the shapes of a signature are bound where it is called.
static void know_dimensions(Elaborator *e, const AstExpr *x) {
  switch (x->kind) {
  case AST_NAME: know(e, &(AstName){.text = x->text, .pos = x->pos}); return;
  case AST_UNARY: know_dimensions(e, x->unary.x); return;
  case AST_BINARY:
    know_dimensions(e, x->binary.x);
    know_dimensions(e, x->binary.y);
    return;
  default: check_expr(e, x);
  }
}

static void check_item(Elaborator *e, const AstItem *item) {
  Frame frame;
  NnDtype dtype;
  frame_push(e, &frame, item, item->name.pos, path_create(e, ""));
  for (int i = 0; i < item->n_parameters; i++) {
    const AstParameter *p = &item->parameters[i];
    if (p->has_type) type_dtype(e, &p->type, &dtype);
    for (int k = 0; p->has_type && k < p->type.n_dims; k++) know_dimensions(e, p->type.dims[k]);
  }
  frame.in_default = true;
  for (int i = 0; i < item->n_parameters; i++) {
    if (item->parameters[i].otherwise) check_expr(e, item->parameters[i].otherwise);
    know(e, &item->parameters[i].name);
  }
  frame.in_default = false;
  precision_read(e, &item->precision, &dtype);
  check_body(e, &item->body);
  bool has_value = item->body.n > 0 && item->body.stmts[item->body.n - 1]->kind == AST_EXPR;
  if (!has_value) report_no_value(e, item);
  frame_pop(e);
}

static void check_train(Elaborator *e) {
  Frame frame;
  const AstBody *body = &e->train->body;
  frame_push(e, &frame, NULL, e->train->pos, path_create(e, ""));
  for (int i = 0; i < body->n; i++)
    for (int k = 0; is_setting(body->stmts[i], "data") && k < body->stmts[i]->setting.n_targets; k++)
      know(e, &body->stmts[i]->setting.targets[k]);
  check_body(e, body);
  frame_pop(e);
}

void check_names(Elaborator *e) {
  if (e->train && !e->gave_up) check_train(e);
  for (int i = 0; i < e->file->n_items && !e->gave_up; i++)
    if (ast_has_signature(e->file->items[i])) check_item(e, e->file->items[i]);
}

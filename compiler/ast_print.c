// The syntax tree as text: the whole of it for --emit=ast, and one expression in the language's own spelling for
// messages.
#include "compiler/ast.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// --- Spelling

#define SPELL_MAX_BYTES 4096   // where even a whole spelling is cut: nobody reads on

typedef struct Spelling {
  FILE *out;
  int limit;
} Spelling;   // bytes that may still be written; below zero: "…" has been

static void spell_text(Spelling *s, const char *text) {
  if (s->limit < 0) return;
  size_t length = strlen(text);
  bool fits = length <= (size_t)s->limit;
  fputs(fits ? text : "…", s->out);
  s->limit = fits ? s->limit - (int)length : -1;
}

static int precedence(const AstExpr *e) {
  if (e->kind == AST_UNARY) return strcmp(e->unary.op, "not") == 0 ? 3 : 7;
  if (e->kind == AST_RANGE || e->kind == AST_IF) return 0;
  if (e->kind != AST_BINARY) return 9;
  const char *op = e->binary.op;
  if (strcmp(op, "or") == 0) return 1;
  if (strcmp(op, "and") == 0) return 2;
  if (strcmp(op, "**") == 0) return 8;
  if (strchr("=!<>", op[0])) return 4;
  return op[0] == '+' || op[0] == '-' ? 5 : 6;
}

static void spell(Spelling *s, const AstExpr *e, int surrounding);

static void spell_items(Spelling *s, AstExpr **items, int n) {
  for (int i = 0; i < n && s->limit >= 0; i++) {
    if (i > 0) spell_text(s, ", ");
    spell(s, items[i], 0);
  }
}

static void spell_string(Spelling *s, const char *text) {
  spell_text(s, "\"");
  for (char one[2] = ""; *text && s->limit >= 0; text++) {
    one[0] = *text;
    spell_text(s, *text == '"' ? "\\\"" : *text == '\\' ? "\\\\" : *text == '\n' ? "\\n" : *text == '\t' ? "\\t" : one);
  }
  spell_text(s, "\"");
}

static void spell_call(Spelling *s, const AstExpr *e) {
  spell_text(s, e->call.callee);
  spell_text(s, "(");
  for (int i = 0; i < e->call.n_args && s->limit >= 0; i++) {
    if (i > 0) spell_text(s, ", ");
    if (e->call.args[i].name.text) {
      spell_text(s, e->call.args[i].name.text);
      spell_text(s, "=");
    }
    spell(s, e->call.args[i].value, 0);
  }
  spell_text(s, ")");
}

static void spell_index(Spelling *s, const AstExpr *e) {
  spell(s, e->index.x, 9);
  spell_text(s, "[");
  for (int i = 0; i < e->index.n && s->limit >= 0; i++) {
    const AstSlice *slice = &e->index.slices[i];
    if (i > 0) spell_text(s, ", ");
    if (slice->start) spell(s, slice->start, 0);
    if (!slice->is_index) spell_text(s, slice->is_rest ? "..." : ":");
    if (slice->stop) spell(s, slice->stop, 0);
    if (slice->step) {
      spell_text(s, ":");
      spell(s, slice->step, 0);
    }
  }
  spell_text(s, "]");
}

static void spell_operator(Spelling *s, const AstExpr *e) {
  int own = precedence(e);
  if (e->kind == AST_UNARY) {
    spell_text(s, e->unary.op);
    if (own == 3) spell_text(s, " ");
    spell(s, e->unary.x, own);
    return;
  }
  bool power = own == 8;
  spell(s, e->binary.x, own + (power || own == 4));
  bool tight = own >= 6;
  if (!tight) spell_text(s, " ");
  spell_text(s, e->binary.op);
  if (!tight) spell_text(s, " ");
  spell(s, e->binary.y, power ? 7 : own + 1);
}

// Parentheses where e binds weaker than its surroundings.
static void spell(Spelling *s, const AstExpr *e, int surrounding) {
  char number[64];
  bool parentheses = precedence(e) < surrounding;
  if (parentheses) spell_text(s, "(");
  switch (e->kind) {
  case AST_INT:
    snprintf(number, sizeof number, "%" PRId64, e->integer);
    spell_text(s, number);
    break;
  case AST_FLOAT:
    snprintf(number, sizeof number, "%.10g", e->number);
    spell_text(s, number);
    break;
  case AST_BOOL: spell_text(s, e->boolean ? "true" : "false"); break;
  case AST_STRING: spell_string(s, e->text); break;
  case AST_NAME: spell_text(s, e->text); break;
  case AST_CALL: spell_call(s, e); break;
  case AST_UNARY:
  case AST_BINARY: spell_operator(s, e); break;
  case AST_LIST:
  case AST_TUPLE:
    spell_text(s, e->kind == AST_LIST ? "[" : "(");
    spell_items(s, e->list.items, e->list.n);
    spell_text(s, e->kind == AST_LIST ? "]" : e->list.n == 1 ? ",)" : ")");
    break;
  case AST_INDEX: spell_index(s, e); break;
  case AST_RANGE:
    spell(s, e->range.start, 1);
    spell_text(s, "..");
    spell(s, e->range.stop, 1);
    break;
  case AST_SCAN:
    spell_text(s, "scan(");
    for (int i = 0; i < e->scan->n_inputs; i++) {
      spell(s, e->scan->inputs[i], 1);
      spell_text(s, " over ");
      spell(s, e->scan->over[i], 1);
      spell_text(s, ", ");
    }
    spell_text(s, "…) { … }");
    break;
  case AST_IF:
    spell_text(s, "if ");
    spell(s, e->if_.condition, 0);
    spell_text(s, " { … }");
    break;
  }
  if (parentheses) spell_text(s, ")");
}

static char *spell_within(const AstExpr *e, int limit) {
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  if (!out) abort();
  spell(&(Spelling){out, limit}, e, 0);
  fclose(out);
  return text;
}

char *ast_spell(const AstExpr *expr) { return spell_within(expr, 60); }

// --- The tree

typedef struct Printer {
  FILE *out;
  int indent;
  bool places;
} Printer;

static void print_body(Printer *p, const AstBody *body);
static void print_expr(Printer *p, const char *label, const AstExpr *e);

static void begin(Printer *p) { fprintf(p->out, "%*s", p->indent, ""); }

static void end(Printer *p, AstPos pos) {
  if (p->places) fprintf(p->out, "  @%d:%d", pos.line, pos.column);
  putc('\n', p->out);
}

static void print_spelling(Printer *p, const AstExpr *e) {
  char *text = spell_within(e, SPELL_MAX_BYTES);
  fputs(text, p->out);
  free(text);
}

static void print_type(Printer *p, const AstType *type) {
  fprintf(p->out, "%s[", type->dtype ? type->dtype : "");
  for (int i = 0; i < type->n_dims; i++) {
    if (i > 0) fputs(", ", p->out);
    if (type->has_rest && type->rest == i) fputs("..., ", p->out);
    print_spelling(p, type->dims[i]);
  }
  if (type->has_rest && type->rest == type->n_dims) fputs(type->n_dims ? ", ..." : "...", p->out);
  fputs("]", p->out);
}

static void print_names(Printer *p, const AstName *names, int n) {
  for (int i = 0; i < n; i++) fprintf(p->out, "%s%s", i > 0 ? ", " : " ", names[i].text);
}

static void print_label(Printer *p, AstName label) {
  const char *quote = label.is_path ? "\"" : "";
  if (label.text) fprintf(p->out, " as %s%s%s", quote, label.text, quote);
}

static void print_args(Printer *p, const AstArg *args, int n) {
  for (int i = 0; i < n; i++) print_expr(p, args[i].name.text, args[i].value);
}

static void print_children(Printer *p, const AstExpr *e) {
  switch (e->kind) {
  case AST_CALL: print_args(p, e->call.args, e->call.n_args); break;
  case AST_UNARY: print_expr(p, NULL, e->unary.x); break;
  case AST_BINARY:
    print_expr(p, NULL, e->binary.x);
    print_expr(p, NULL, e->binary.y);
    break;
  case AST_LIST:
  case AST_TUPLE:
    for (int i = 0; i < e->list.n; i++) print_expr(p, NULL, e->list.items[i]);
    break;
  case AST_INDEX:
    print_expr(p, NULL, e->index.x);
    for (int i = 0; i < e->index.n; i++) {
      const AstSlice *slice = &e->index.slices[i];
      begin(p);
      fputs(slice->is_index ? "at" : slice->is_rest ? "rest" : "slice", p->out);
      end(p, slice->pos);
      p->indent += 2;
      if (slice->start) print_expr(p, slice->is_index ? NULL : "start", slice->start);
      if (slice->stop) print_expr(p, "stop", slice->stop);
      if (slice->step) print_expr(p, "step", slice->step);
      p->indent -= 2;
    }
    break;
  case AST_SCAN:
    for (int i = 0; i < e->scan->n_inputs; i++) {
      print_expr(p, NULL, e->scan->inputs[i]);
      print_expr(p, "over", e->scan->over[i]);
    }
    if (e->scan->axis) print_expr(p, "axis", e->scan->axis);
    if (e->scan->reverse) print_expr(p, "reverse", e->scan->reverse);
    print_expr(p, "init", e->scan->init);
    print_body(p, &e->scan->body);
    break;
  case AST_RANGE:
    print_expr(p, NULL, e->range.start);
    print_expr(p, NULL, e->range.stop);
    break;
  case AST_IF:
    print_expr(p, NULL, e->if_.condition);
    begin(p);
    fputs("then\n", p->out);
    print_body(p, &e->if_.then);
    if (!e->if_.has_else) break;
    begin(p);
    fputs("else\n", p->out);
    print_body(p, &e->if_.otherwise);
    break;
  default: break;
  }
}

static void print_expr(Printer *p, const char *label, const AstExpr *e) {
  begin(p);
  if (label) fprintf(p->out, "%s=", label);
  switch (e->kind) {
  case AST_INT:
    fputs("int ", p->out);
    print_spelling(p, e);
    break;
  case AST_FLOAT:
    fputs("float ", p->out);
    print_spelling(p, e);
    break;
  case AST_BOOL:
    fputs("bool ", p->out);
    print_spelling(p, e);
    break;
  case AST_STRING:
    fputs("string ", p->out);
    print_spelling(p, e);
    break;
  case AST_NAME: fprintf(p->out, "name %s", e->text); break;
  case AST_CALL:
    fprintf(p->out, "%s %s", e->call.piped ? "pipe" : "call", e->call.callee);
    print_label(p, e->call.label);
    break;
  case AST_UNARY: fprintf(p->out, "unary %s", e->unary.op); break;
  case AST_BINARY: fprintf(p->out, "binary %s", e->binary.op); break;
  case AST_LIST: fputs("list", p->out); break;
  case AST_TUPLE: fputs("tuple", p->out); break;
  case AST_INDEX: fputs("index", p->out); break;
  case AST_RANGE: fputs("range", p->out); break;
  case AST_SCAN:
    fputs("scan", p->out);
    print_names(p, e->scan->names, e->scan->n_names);
    print_label(p, e->scan->label);
    break;
  case AST_IF: fputs("if", p->out); break;
  }
  end(p, e->pos);
  p->indent += 2;
  print_children(p, e);
  p->indent -= 2;
}

static void print_stmt_head(Printer *p, const AstStmt *s) {
  switch (s->kind) {
  case AST_ASSIGN:
    fputs("assign", p->out);
    print_names(p, s->assign.targets, s->assign.n);
    break;
  case AST_PARAM:
  case AST_STATE:
    fprintf(p->out, "%s %s", s->kind == AST_PARAM ? "param" : "state", s->param.name.text);
    print_label(p, s->param.label);
    fputs(": ", p->out);
    print_type(p, &s->param.type);
    break;
  case AST_UPDATE:
    fputs("update", p->out);
    print_names(p, s->assign.targets, s->assign.n);
    break;
  case AST_FOR:
    fputs("for", p->out);
    print_names(p, s->for_.names, s->for_.n_names);
    print_label(p, s->for_.label);
    break;
  case AST_REPEAT:
    fputs("repeat", p->out);
    print_label(p, s->repeat.label);
    break;
  case AST_CHECKPOINT: fputs("checkpoint", p->out); break;
  case AST_ASSERT: fputs("assert", p->out); break;
  case AST_EXPR: fputs("value", p->out); break;
  case AST_SETTING:
    fprintf(p->out, "setting %s", s->setting.keyword.text);
    if (s->setting.n_targets > 0) fputs(":", p->out);
    print_names(p, s->setting.targets, s->setting.n_targets);
    break;
  case AST_PHASE: fprintf(p->out, "phase %s", s->phase.name.text); break;
  }
}

static void print_stmt(Printer *p, const AstStmt *s) {
  begin(p);
  print_stmt_head(p, s);
  end(p, s->pos);
  p->indent += 2;
  switch (s->kind) {
  case AST_ASSIGN:
  case AST_UPDATE: print_expr(p, NULL, s->assign.value); break;
  case AST_PARAM:
  case AST_STATE:
    if (s->param.init) print_expr(p, NULL, s->param.init);
    break;
  case AST_FOR:
    for (int i = 0; i < s->for_.n_items; i++) print_expr(p, "in", s->for_.items[i]);
    print_body(p, &s->for_.body);
    break;
  case AST_REPEAT:
    print_expr(p, "count", s->repeat.count);
    print_body(p, &s->repeat.body);
    break;
  case AST_CHECKPOINT:
  case AST_EXPR: print_expr(p, NULL, s->expr); break;
  case AST_ASSERT: print_expr(p, NULL, s->assert_.condition); break;
  case AST_SETTING: print_args(p, s->setting.args, s->setting.n_args); break;
  case AST_PHASE:
    if (s->phase.every) print_expr(p, "every", s->phase.every);
    print_body(p, &s->phase.body);
    break;
  }
  p->indent -= 2;
}

static void print_body(Printer *p, const AstBody *body) {
  p->indent += 2;
  for (int i = 0; i < body->n; i++) print_stmt(p, body->stmts[i]);
  p->indent -= 2;
}

static void print_signature(Printer *p, const AstItem *item) {
  putc('(', p->out);
  for (int i = 0; i < item->n_parameters; i++) {
    const AstParameter *parameter = &item->parameters[i];
    fprintf(p->out, "%s%s", i > 0 ? ", " : "", parameter->name.text);
    if (parameter->kind) fprintf(p->out, ": %s", parameter->kind);
    if (parameter->has_type) {
      fputs(": ", p->out);
      print_type(p, &parameter->type);
    }
    if (parameter->otherwise) {
      fputs(" = ", p->out);
      print_spelling(p, parameter->otherwise);
    }
  }
  putc(')', p->out);
  if (item->precision.text) fprintf(p->out, " precision %s", item->precision.text);
}

void ast_print(FILE *out, const AstFile *file, bool places) {
  static const char *const keywords[] = {[AST_DIM] = "dim",
                                         [AST_LET] = "let",
                                         [AST_BLOCK] = "block",
                                         [AST_MODEL] = "model",
                                         [AST_OPTIMIZER] = "optimizer",
                                         [AST_SCHEDULE] = "schedule",
                                         [AST_TRAIN] = "train"};
  Printer p = {out, 0, places};
  if (file->precision.text) {
    fprintf(out, "precision %s", file->precision.text);
    end(&p, file->precision.pos);
  }
  for (int i = 0; i < file->n_items; i++) {
    const AstItem *item = file->items[i];
    if (item->kind == AST_REQUIRE) {
      print_stmt(&p, item->body.stmts[0]);
      continue;
    }
    fputs(keywords[item->kind], out);
    if (item->name.text) fprintf(out, " %s", item->name.text);
    if (ast_has_signature(item)) print_signature(&p, item);
    end(&p, item->pos);
    p.indent = 2;
    if (item->value) print_expr(&p, NULL, item->value);
    p.indent = 0;
    print_body(&p, &item->body);
  }
}

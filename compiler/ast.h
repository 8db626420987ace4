// The syntax tree of a .nn file: what the parser makes, --emit=ast prints and elaboration walks. Pure syntax: names are
// not resolved and nothing is computed. The grammar stands above each function of parser*.c and in docs/language.md.
//
// All nodes live in the pool of their AstFile and are freed with it. Strings are NUL-terminated and contain no other
// NUL. No path from a root to a leaf is longer than AST_MAX_DEPTH nodes, so that recursive walks need no limit of their
// own.
#ifndef NNC_COMPILER_AST_H
#define NNC_COMPILER_AST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler/source.h"

struct Diagnostics;

#define AST_MAX_DEPTH 256

typedef struct AstExpr AstExpr;
typedef struct AstStmt AstStmt;

// A name with its place: a binding (target, parameter, argument name) or the label of a scope.
typedef struct AstName {
  const char *text;
  AstPos pos;
  bool is_path;   // a label in quotes: "layer1.{i}"
} AstName;        // text NULL: no name was given

typedef struct AstBody {
  AstStmt **stmts;
  int n;
  AstPos pos, end;
} AstBody;   // { … }; pos of '{', end of '}'

// A tensor type: f32[N, 1, 28, 28], i32[] (a scalar), or [N, C, H, W] (any element type).
// In a signature a dimension that is a plain name not yet bound is bound by the argument's size, and "..." stands for
// any number of axes.
typedef struct AstType {
  const char *dtype;   // NULL: not given
  AstExpr **dims;
  int n_dims;
  bool has_rest;   // "..." stands in front of dimension `rest`
  int rest;
  AstPos pos;
} AstType;

// --- Expressions
// ---------------------------------------------------------------------------------------------------------

typedef enum AstExprKind {
  AST_INT,      // integer; a literal over INT64_MAX is a diagnostic of the lexer
  AST_FLOAT,    // number; always finite
  AST_BOOL,     // boolean
  AST_STRING,   // text, escapes already replaced
  AST_NAME,     // text
  AST_CALL,     // call; a call without parentheses, as in `x |> relu`, is the same node as relu(x)
  AST_UNARY,    // unary: "-" "not"
  AST_BINARY,   // binary: + - * / // % ** == != < <= > >= and or
  AST_LIST,     // list: [2, 3]
  AST_TUPLE,    // list: (1, 2), or `a, b` as the value of a body; () is the empty tuple
  AST_INDEX,    // index: x[:, 0:10, -1]
  AST_RANGE,    // range: 0..n, only as an item of a `for`
  AST_SCAN,     // scan: a loop over an axis with carried values
  AST_IF,       // if_: an expression and a statement alike; its bodies see and rebind the names outside
} AstExprKind;

// An argument of a call or of a setting. `x |> f(a, b=c)` is f(x, a, b=c), with `piped` true on the call.
typedef struct AstArg {
  AstName name;
  AstExpr *value;
} AstArg;   // name.text NULL: by position

// One entry of an index: x[i] (start alone, is_index), or start:stop:step with what was left out NULL.
typedef struct AstSlice {
  AstExpr *start, *stop, *step;
  bool is_index, is_rest;   // is_rest: ..., all axes that the other entries leave
  AstPos pos;
} AstSlice;

// scan(x over T, init=(h0, c0)) { step, (h, c) -> … }
typedef struct AstScan {
  AstExpr **inputs, **over;   // what is gone through, and the length of the axis
  int n_inputs;
  AstExpr *init, *axis, *reverse;   // axis, reverse NULL: not given; init NULL: an error was reported
  AstName *names;                   // the inputs' steps, then the carried values; parentheses among them are left out
  int n_names;
  AstName label;   // the scope of the parameters made in the body
  AstBody body;
} AstScan;

struct AstExpr {
  AstExprKind kind;
  int depth;    // nodes on the longest path below and including this one
  AstPos pos;   // where a message should point: the operator, the called name, the literal, the '['
  union {
    int64_t integer;
    double number;
    bool boolean;
    const char *text;
    struct {
      const char *callee;
      AstArg *args;
      int n_args;
      AstName label;   // linear(84) as fc2, or as "features.{i}": the scope of its parameters; text NULL: automatic
      bool piped;      // args[0] came from the left of |>
    } call;
    struct {
      const char *op;
      AstExpr *x;
    } unary;   // op is one of the spellings above, interned by the parser
    struct {
      const char *op;
      AstExpr *x, *y;
    } binary;
    struct {
      AstExpr **items;
      int n;
    } list;
    struct {
      AstExpr *x;
      AstSlice *slices;
      int n;
    } index;
    AstScan *scan;
    struct {
      AstExpr *start, *stop;
    } range;   // stop is not included
    struct {
      AstExpr *condition;
      AstBody then, otherwise;   // `else if` is an otherwise of one AST_EXPR statement holding the next AST_IF
      bool has_else;
    } if_;
  };
};

// --- Statements
// ----------------------------------------------------------------------------------------------------------

typedef enum AstStmtKind {
  AST_ASSIGN,       // assign: x = e, or q, k, v = e
  AST_PARAM,        // param: param wte: f32[V, D] = normal(0.02)
  AST_STATE,        // param: state h: f32[N, D] = zeros
  AST_UPDATE,       // assign, of one target: update h = e
  AST_FOR,          // for_
  AST_REPEAT,       // repeat
  AST_CHECKPOINT,   // expr
  AST_ASSERT,       // assert_
  AST_EXPR,         // expr; the last statement of a body, when it is one, is the body's value
  AST_SETTING,      // setting; only inside train
  AST_PHASE,        // phase; only inside train
} AstStmtKind;

struct AstStmt {
  AstStmtKind kind;
  int depth;    // as of an expression
  AstPos pos;   // its first token
  union {
    struct {
      AstName *targets;
      int n;
      AstExpr *value;
    } assign;
    struct {
      AstName name;
      AstName label;   // param w as "blocks.{i}.gamma": its path; else name is the last part of it
      AstType type;
      AstExpr *init;
    } param;   // init NULL: not given; evaluates to an initialiser
    // for a, b in (1, 2), (3, 4) as stages { }. One item that is not written as a tuple is itself iterated over: a
    // range or a list.
    struct {
      AstName *names;
      int n_names;
      AstExpr **items;
      int n_items;
      AstName label;
      AstBody body;
    } for_;
    struct {
      AstExpr *count;
      AstName label;
      AstBody body;
    } repeat;   // repeat 12 as layers { }
    struct {
      AstExpr *condition;
      const char *message;
    } assert_;   // message NULL: none
    AstExpr *expr;
    // keyword, then arguments as in a call but without parentheses:
    //   loss cross_entropy(y, label)       metric top1 = accuracy(y, label)       group "*.bias", weight_decay=0
    // `data` and `eval` name what their reader yields: data image, label = idx("…", "…") has two targets and one
    // argument.
    struct {
      AstName keyword;
      AstName *targets;
      int n_targets;
      AstArg *args;
      int n_args;
    } setting;
    struct {
      AstName name;
      AstBody body;
      AstExpr *every;
    } phase;   // phase critic { } every 5; every NULL: each step
  };
};

// --- Files
// ---------------------------------------------------------------------------------------------------------------

// A parameter of a block or an input of a model.
typedef struct AstParameter {
  AstName name;
  const char *kind;   // "int", of compiler/kinds.h, instead of a type; NULL: none
  bool has_type;
  AstType type;
  AstExpr *otherwise;   // default value, NULL: none
} AstParameter;

typedef enum AstItemKind {
  AST_DIM,         // dim N = 128: a positive integer, overridden by -D N=64
  AST_LET,         // let rate = 0.1: any constant, numbers overridden by -D
  AST_BLOCK,       // block name(…) { … }
  AST_MODEL,       // model name(…) { … }
  AST_SCHEDULE,    // schedule name(step, …) { … }
  AST_OPTIMIZER,   // optimizer name(parameter, gradient, …) { … }
  AST_TRAIN,       // train { … }
  AST_REQUIRE,     // assert N % 2 == 0, "…": the only statement of body
} AstItemKind;

typedef struct AstItem {
  AstItemKind kind;
  AstPos pos;                 // its keyword
  AstName name;               // no text for train and assert
  AstExpr *value;             // dim, let
  AstParameter *parameters;   // block, model, optimizer
  int n_parameters;
  AstName precision;   // block, model: no text where none is written
  AstBody body;        // block, model, train, assert
} AstItem;

static inline bool ast_has_signature(const AstItem *item) {
  return item->kind == AST_BLOCK || item->kind == AST_MODEL || item->kind == AST_OPTIMIZER ||
         item->kind == AST_SCHEDULE;
}

// One program: the items of the file and, before them, in the place of each import, those of the files it imports (each
// file once, its train section left out).
typedef struct AstFile {
  const Source *source;              // the file given to nnc
  struct Diagnostics *diagnostics;   // Borrowed: where to report; it also owns the sources
  AstItem **items;
  int n_items;
  AstName precision;        // of the file itself; no text: not written
  const Source **sources;   // the file and all it imports, for -MD
  int n_sources;
  bool without_imports;   // the files it imports were not read
  struct Pool *pool;      // Owned: every node and string
} AstFile;

// Parses `path` ("-": standard input) and what it imports. Reports through `diagnostics` and goes on after an error, so
// that several are found; the result holds what could be understood. NULL only when the file itself cannot be read.
// Owned: ast_free.
AstFile *ast_parse(struct Diagnostics *diagnostics, const char *path);
// The same of a source that `diagnostics` already owns. imports false: the files that it names are not opened, as for a
// formatter.
AstFile *ast_parse_source(struct Diagnostics *diagnostics, const Source *source, bool imports);
void ast_free(AstFile *file);
// The tree as text, one node a line, indented (--emit=ast); places: with line and column.
void ast_print(FILE *out, const AstFile *file, bool places);

// Spelling of an expression, shortened to about 60 characters, for messages: "4*width", "conv_bn(x, …)". Owned: free().
char *ast_spell(const AstExpr *expr);

#endif

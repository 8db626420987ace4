// The abstract syntax tree of a .nn file. Nodes live in the AstFile's memory and are freed with it.
#ifndef NNC_COMPILER_AST_H
#define NNC_COMPILER_AST_H

#include <stdbool.h>
#include <stdint.h>

// A place in a source file. line and column count from 1; column in bytes.
typedef struct AstPos { const struct Source *source; int line, column; int length; } AstPos;

typedef enum AstExprKind {
  AST_INT, AST_FLOAT, AST_STRING, AST_BOOL,
  AST_NAME,        // text
  AST_CALL,        // text: callee; args. x |> f(a) is f(x, a) with piped set
  AST_LIST,        // items: [a, b]
  AST_TUPLE,       // items: (a, b) or a, b
  AST_INDEX,       // left[subscripts]
  AST_UNARY,       // text: "-" or "not"; left
  AST_BINARY,      // text: "+", "and", "==" …; left, right
  AST_CONDITIONAL, // left if middle else right
  AST_TYPE,        // f32[N, 3]: type; only in signatures, `param` and `data`
} AstExprKind;

typedef struct AstExpr AstExpr;
typedef struct AstArg { const char *name; AstExpr *value; AstPos pos; } AstArg;      // name NULL: by position
// One subscript: an index (start only, is_slice false), or start:stop:step with any part absent.
typedef struct AstSubscript { bool is_slice; AstExpr *start, *stop, *step; AstPos pos; } AstSubscript;
// f32[N, 1, 28] or [N, C] (dtype NULL: the program's float type).
typedef struct AstType { const char *dtype; int n_dims; AstExpr **dims; AstPos pos; bool has_shape; } AstType;

struct AstExpr {
  AstExprKind kind;
  AstPos pos;
  union { int64_t i; double f; bool b; };
  const char *text;
  AstExpr *left, *middle, *right;
  int n_items; AstExpr **items;
  int n_args; AstArg *args;
  bool piped;
  int n_subscripts; AstSubscript *subscripts;
};

typedef enum AstStmtKind {
  AST_ASSIGN,      // names = expr
  AST_PARAM,       // param names[0]: type = expr (NULL: default initialiser)
  AST_IF,          // expr, body, otherwise
  AST_FOR,         // names in items (each a tuple when several names) or in expr..expr2
  AST_REPEAT,      // expr times
  AST_CHECKPOINT,  // expr
  AST_ASSERT,      // expr, message
  AST_EXPR,        // value of a body when last
} AstStmtKind;

typedef struct AstStmt AstStmt;
typedef struct AstBody { int n; AstStmt **stmt; } AstBody;
struct AstStmt {
  AstStmtKind kind;
  AstPos pos;
  int n_names; const char **names; AstPos *name_pos;
  AstType *type;
  AstExpr *expr, *expr2;
  const char *message;
  AstBody body, otherwise;
};

typedef struct AstParameter { const char *name; AstPos pos; AstType *type; AstExpr *fallback; } AstParameter;
typedef struct AstBlock { bool is_model; const char *name; AstPos pos; int n_parameters; AstParameter *parameters; AstBody body; } AstBlock;
typedef struct AstDim { const char *name; AstPos pos; AstExpr *value; } AstDim;

// A line of the train section: keyword [names[: type], … =] expr | keyword "text" expr
typedef struct AstSetting {
  const char *keyword;
  AstPos pos;
  int n_names; const char **names; AstPos *name_pos; AstType **name_type;
  const char *pattern;     // group "pattern" …
  AstExpr *expr;
} AstSetting;

typedef struct AstFile {
  const struct Source *source;
  int n_dims; AstDim *dims;
  int n_blocks; AstBlock **blocks;
  bool has_train; AstPos train_pos;
  int n_settings; AstSetting *settings;
  struct AstMemory *memory;    // Owned
} AstFile;

#endif

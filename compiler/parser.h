// From source text to AST. The grammar stands above each parser function and, whole, in docs/language.md.
#ifndef NNC_COMPILER_PARSER_H
#define NNC_COMPILER_PARSER_H

#include <stdio.h>

#include "compiler/diagnostics.h"

// --- Lexer
typedef enum TokenKind {
  TOKEN_END, TOKEN_NEWLINE, TOKEN_NAME, TOKEN_INT, TOKEN_FLOAT, TOKEN_STRING,
  TOKEN_SYMBOL,    // punctuation, operators and keywords: compared by text
  TOKEN_BAD,       // reported already
} TokenKind;
typedef struct Token { TokenKind kind; const char *start; int length; AstPos pos; int64_t i; double f; } Token;
typedef struct Lexer { const Source *source; const char *at, *end, *line_start; int line, brackets; } Lexer;
Lexer lexer_start(const Source *source);
Token lexer_next(Lexer *lexer);    // newlines inside ( and [ are skipped

// --- Memory of one AST, freed at once
struct AstMemory *ast_memory_create(void);
void *ast_alloc(struct AstMemory *memory, size_t size);   // zeroed
char *ast_string(struct AstMemory *memory, const char *text, size_t length);
void ast_memory_free(struct AstMemory *memory);

// Parses a whole file, with what it imports. Returns an AST even after errors (diag_errors() tells). Owned: ast_free.
AstFile *parse_file(const Source *source);
void ast_free(AstFile *file);
void ast_print(const AstFile *file, FILE *out);    // --emit=ast

#endif

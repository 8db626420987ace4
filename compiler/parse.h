// Private to parser.c and parse_expr.c: the parser's state and token helpers.
#ifndef NNC_COMPILER_PARSE_H
#define NNC_COMPILER_PARSE_H

#include "compiler/parser.h"

#define PARSER_MAX_DEPTH 200

typedef struct Parser {
  Lexer lexer;
  Token token;               // the next one
  AstPos end_of_last;
  struct AstMemory *memory;
  int depth;
  bool panic;                // an error was reported; quiet until recovered
  bool too_deep;             // give up on the file
} Parser;

void parser_advance(Parser *p);
bool parser_is(const Parser *p, const char *symbol);
bool parser_accept(Parser *p, const char *symbol);
bool parser_expect(Parser *p, const char *symbol);
void parser_unexpected(Parser *p, const char *expected);
bool parser_deeper(Parser *p);        // false after reporting: nested too deep; else the caller decrements p->depth
const char *parser_name(Parser *p, AstPos *pos);
const char *parser_string(Parser *p);
AstExpr *parse_expression(Parser *p);
AstExpr *parse_expression_list(Parser *p);    // a tuple when there are commas
AstType *parse_type(Parser *p);

// Appends to an array in the parser's memory; the capacity stands beside it and doubles.
#define PARSER_PUSH(p, array, count, capacity, item)                                                          \
  do {                                                                                                        \
    if ((count) >= (capacity)) {                                                                              \
      (capacity) = (count) < 4 ? 4 : (count) * 2;                                                             \
      void *larger_ = ast_alloc((p)->memory, sizeof *(array) * (size_t)(capacity));                           \
      if ((count) > 0) memcpy(larger_, (array), sizeof *(array) * (size_t)(count));                           \
      (array) = larger_;                                                                                      \
    }                                                                                                         \
    (array)[(count)++] = (item);                                                                              \
  } while (0)

#endif

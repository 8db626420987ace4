// Evaluates single elements of a kernel's result; expression.h.
#include "runtime/expression.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/draws.h"

enum { MAX_OPERANDS = 3, MAX_NUMBERS = 2 * NNC_MAX_RANK };

// ---------------------------------------------------------------------------------------------------------------------
// Operations

#define MAP(name, value) \
  static double map_##name(const double *x) { return value; }
#include "runtime/expression.def"
#undef MAP

typedef enum Kind {
  ARGUMENT,
  MAPPED,
  CONSTANT,
  IOTA,
  RANDOM,
  BROADCAST,
  RESHAPE,
  TRANSPOSE,
  SLICE,
  SELECT,
  SUM,
  MAX,
  MEAN,
  VARIANCE
} Kind;

static const struct {
  const char *name;
  Kind kind;
  double (*map)(const double *x);
} operations[] = {
#define MAP(name, value) {#name, MAPPED, map_##name},
#include "runtime/expression.def"
#undef MAP
    {"argument", ARGUMENT, NULL},     {"constant", CONSTANT, NULL},   {"iota", IOTA, NULL},
    {"random_uniform", RANDOM, NULL}, {"broadcast", BROADCAST, NULL}, {"reshape", RESHAPE, NULL},
    {"transpose", TRANSPOSE, NULL},   {"slice", SLICE, NULL},         {"select", SELECT, NULL},
    {"reduce_sum", SUM, NULL},        {"reduce_max", MAX, NULL},      {"mean", MEAN, NULL},
    {"variance", VARIANCE, NULL}};

struct ExpressionNode {
  int operation;
  NncDtype dtype;
  int rank, n_of, n_numbers;
  int64_t dim[NNC_MAX_RANK], elements;
  int of[MAX_OPERANDS];
  int64_t number[MAX_NUMBERS];
  double constant;
  ExpressionPlace place;
  int64_t at;   // the element whose value is known, -1: none
  double value;
  double *reduced;   // Owned; of a reduction: all elements, those that are known
  bool *known;       // Owned
};

static Kind kind_of(const ExpressionNode *n) { return operations[n->operation].kind; }

// ---------------------------------------------------------------------------------------------------------------------
// Reading

static bool read_name(const char **at, ExpressionNode *n) {
  size_t bytes = strcspn(*at, " @\n");
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
    if (strlen(operations[i].name) != bytes || strncmp(operations[i].name, *at, bytes) != 0) continue;
    *at += bytes;
    n->operation = (int)i;
    n->place.operation = operations[i].name;
    return true;
  }
  return false;
}

// The numbers up to what is none; how many there are.
static int read_numbers(const char **at, int64_t *x, int max) {
  int n = 0;
  for (char *end; n < max; *at = end, n++) {
    x[n] = strtoll(*at, &end, 10);
    if (end == *at) break;
  }
  return n;
}

static int read_nodes(const char **at, int *x, int max) {
  int n = 0;
  for (int64_t number; n < max && read_numbers(at, &number, 1); n++) x[n] = (int)number;
  return n;
}

static bool skip(const char **at, const char *text) {
  if (strncmp(*at, text, strlen(text)) != 0) return false;
  *at += strlen(text);
  return true;
}

// "@file:line:column", or without the file: that of the place before.
static void read_place(const char **at, ExpressionPlace *place) {
  if (!skip(at, "@")) return;
  const char *end = *at + strcspn(*at, "\n"), *line = end;
  for (int colons = 0; line > *at && colons < 2;) colons += *--line == ':';
  if (line > *at) place->file = *at, place->file_bytes = (int)(line - *at);
  place->line = line, place->line_bytes = (int)(end - line);
  *at = end;
}

// Without a type it has that of the node before.
static bool read_node(const char **at, const ExpressionNode *before, ExpressionNode *n) {
  int64_t dtype;
  if (!read_name(at, n)) return false;
  if (read_numbers(at, &dtype, 1)) {
    n->dtype = (NncDtype)dtype;
    n->rank = read_numbers(at, n->dim, NNC_MAX_RANK);
  } else if (before) {
    n->dtype = before->dtype, n->rank = before->rank;
    memcpy(n->dim, before->dim, sizeof n->dim);
  }
  n->elements = 1;
  for (int i = 0; i < n->rank; i++) n->elements *= n->dim[i];
  if (skip(at, " :")) n->n_of = read_nodes(at, n->of, MAX_OPERANDS);
  if (skip(at, " /")) n->n_numbers = read_numbers(at, n->number, MAX_NUMBERS);
  char *end;
  if (skip(at, " =")) n->constant = strtod(*at, &end), *at = end;
  return true;
}

bool expression_read(Expression *x, const char *text) {
  *x = (Expression){0};
  ExpressionPlace place = {0};
  while (!skip(&text, "return :")) {
    x->nodes = xrealloc(x->nodes, sizeof *x->nodes * (size_t)(x->n + 1));
    ExpressionNode *n = &x->nodes[x->n++];
    *n = (ExpressionNode){.at = -1};
    if (!read_node(&text, x->n > 1 ? n - 1 : NULL, n)) {
      expression_free(x);
      return false;
    }
    read_place(&text, &place);
    const char *name = n->place.operation;
    n->place = place;
    n->place.operation = name;
    x->n_arguments += kind_of(n) == ARGUMENT;
    if (kind_of(n) >= SUM) {
      n->reduced = xcalloc((size_t)n->elements, sizeof *n->reduced);
      n->known = xcalloc((size_t)n->elements, sizeof *n->known);
    }
    text++;   // the end of the line
  }
  x->results = xcalloc((size_t)x->n, sizeof *x->results);
  x->n_results = read_nodes(&text, x->results, x->n);
  x->arguments = xcalloc((size_t)x->n_arguments + 1, sizeof *x->arguments);
  return true;
}

void expression_free(Expression *x) {
  for (int i = 0; i < x->n; i++) free(x->nodes[i].reduced), free(x->nodes[i].known);
  free(x->nodes);
  free(x->results);
  free(x->arguments);
  *x = (Expression){0};
}

int64_t expression_argument_bytes(const Expression *x, int argument) {
  return x->nodes[argument].elements * dtype_bytes(x->nodes[argument].dtype);
}

// ---------------------------------------------------------------------------------------------------------------------
// Evaluating

static double value_at(Expression *x, int node, int64_t element);

static void unravel(const ExpressionNode *n, int64_t element, int64_t *index) {
  for (int i = n->rank - 1; i >= 0; i--) {
    index[i] = element % n->dim[i];
    element /= n->dim[i];
  }
}

static int64_t ravel(const ExpressionNode *n, const int64_t *index) {
  int64_t element = 0;
  for (int i = 0; i < n->rank; i++) element = element * n->dim[i] + index[i];
  return element;
}

static double rounded(NncDtype dtype, double v) {
  switch (dtype) {
  case NNC_F64: return v;
  case NNC_F32: return (float)v;
  case NNC_BF16:
  case NNC_F16: {
    float f = (float)v;
    uint16_t narrow;
    narrow_from_float(&f, dtype, &narrow, 1);
    narrow_to_float(dtype, &narrow, &f, 1);
    return f;
  }
  case NNC_I1: return v != 0;
  default: return isnan(v) ? 0 : trunc(v);
  }
}

static double argument_at(const Expression *x, int node, int64_t element) {
  NncDtype dtype = x->nodes[node].dtype;
  const char *at = (const char *)x->arguments[node] + element * dtype_bytes(dtype);
  double v;
  if (dtype == NNC_I1) return *at != 0;
  convert_elements(dtype, at, NNC_F64, &v, 1);
  return v;
}

// A word of a draw (support/draws.h).
static uint32_t random_word(uint32_t key[4], int64_t element, uint32_t bits) {
  int64_t block = element / DRAW_BLOCK;
  uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32) | bits, key[3], key[2]}, out[4];
  philox4x32(counter, key, out);
  return out[element % DRAW_BLOCK];
}

static double random_at(Expression *x, const ExpressionNode *n, int64_t element) {
  uint32_t key[4], bits = n->number[0] ? DRAW_SECOND : 0;
  for (int i = 0; i < 4; i++) key[i] = (uint32_t)(int32_t)value_at(x, n->of[0], i);
  uint32_t drawn = random_word(key, element, bits);
  int digits = n->dtype == NNC_F32 ? 24 : n->dtype == NNC_BF16 ? 8 : 11;
  if (n->dtype != NNC_F64) return ldexp((double)(drawn >> (32 - digits)), -digits);
  return (double)((((uint64_t)drawn << 32) | random_word(key, element, bits | DRAW_LOWER_HALF)) >> 11) * 0x1p-53;
}

// The element of its operand that an element of a view is.
static int64_t through_view(const Expression *x, const ExpressionNode *n, int64_t element) {
  const ExpressionNode *of = &x->nodes[n->of[0]];
  int64_t to[NNC_MAX_RANK], from[NNC_MAX_RANK];
  if (kind_of(n) == RESHAPE) return element;
  unravel(n, element, to);
  for (int i = 0; i < of->rank; i++) {
    if (kind_of(n) == BROADCAST) from[i] = of->dim[i] == 1 ? 0 : to[n->number[i]];
    else if (kind_of(n) == TRANSPOSE) from[n->number[i]] = to[i];
    else from[i] = n->number[i] + to[i] * n->number[of->rank + i];
  }
  return ravel(of, from);
}

// Element i of those that an element of a reduction is made of; how many there are in *count.
static int64_t reduced_from(const Expression *x, const ExpressionNode *n, int64_t element, int64_t i, int64_t *count) {
  const ExpressionNode *of = &x->nodes[n->of[0]];
  int64_t kept[NNC_MAX_RANK], index[NNC_MAX_RANK];
  bool reduced[NNC_MAX_RANK] = {false};
  unravel(n, element, kept);
  for (int a = 0; a < n->n_numbers; a++) reduced[n->number[a]] = true;
  *count = 1;
  for (int a = of->rank - 1, k = n->rank - 1; a >= 0; a--) {
    index[a] = reduced[a] ? i / *count % of->dim[a] : kept[k--];
    if (reduced[a]) *count *= of->dim[a];
  }
  return ravel(of, index);
}

static double reduce(Expression *x, const ExpressionNode *n, int64_t element) {
  int64_t count;
  double sum = 0, squares = 0, most = -INFINITY;
  for (int pass = 0; pass < (kind_of(n) == VARIANCE ? 2 : 1); pass++) {
    double mean = pass ? sum / (double)count : 0;
    reduced_from(x, n, element, 0, &count);
    for (int64_t i = 0; i < count; i++) {
      double v = value_at(x, n->of[0], reduced_from(x, n, element, i, &count));
      if (pass) squares += (v - mean) * (v - mean);
      else sum += v, most = v > most || v != v ? v : most;
    }
  }
  switch (kind_of(n)) {
  case SUM: return sum;
  case MAX: return most;
  case MEAN: return sum / (double)count;
  default: return squares / (double)count;
  }
}

static double compute(Expression *x, int node, int64_t element) {
  ExpressionNode *n = &x->nodes[node];
  int64_t index[NNC_MAX_RANK];
  double v[MAX_OPERANDS];
  switch (kind_of(n)) {
  case ARGUMENT: return argument_at(x, node, element);
  case CONSTANT: return n->constant;
  case IOTA: unravel(n, element, index); return (double)index[n->number[0]];
  case RANDOM: return random_at(x, n, element);
  case SELECT: return value_at(x, value_at(x, n->of[0], element) != 0 ? n->of[1] : n->of[2], element);
  case MAPPED:
    for (int i = 0; i < n->n_of; i++) v[i] = value_at(x, n->of[i], element);
    if (operations[n->operation].map != map_div || dtype_is_float(n->dtype)) return operations[n->operation].map(v);
    return v[1] == 0 ? v[0] : floor(v[0] / v[1]);
  case BROADCAST:
  case RESHAPE:
  case TRANSPOSE:
  case SLICE: return value_at(x, n->of[0], through_view(x, n, element));
  default:
    if (!n->known[element]) n->known[element] = true, n->reduced[element] = reduce(x, n, element);
    return n->reduced[element];
  }
}

// The last one stays: an operation whose result several others use is computed once there.
static double value_at(Expression *x, int node, int64_t element) {
  ExpressionNode *n = &x->nodes[node];
  if (n->at == element) return n->value;
  double v = rounded(n->dtype, compute(x, node, element));
  n->at = element;
  n->value = v;
  return v;
}

double expression_value(Expression *x, int result, int64_t element) { return value_at(x, x->results[result], element); }

// ---------------------------------------------------------------------------------------------------------------------
// Finding

static bool is_bad(Expression *x, int node, int64_t element, bool nan) {
  if (!dtype_is_float(x->nodes[node].dtype)) return false;
  double v = value_at(x, node, element);
  return nan ? isnan(v) : !isfinite(v);
}

// The operand's element that is bad already, and makes this one bad. False: there is none.
static bool find_operand(Expression *x, int *node, int64_t *element, bool nan) {
  const ExpressionNode *n = &x->nodes[*node];
  Kind kind = kind_of(n);
  int64_t at = *element, count = 1;
  for (int i = kind == SELECT; i < n->n_of; i++) {
    if (kind == SELECT && i != (value_at(x, n->of[0], *element) != 0 ? 1 : 2)) continue;
    for (int64_t k = 0; k < count; k++) {
      if (kind >= SUM) at = reduced_from(x, n, *element, k, &count);
      else if (kind >= BROADCAST && kind <= SLICE) at = through_view(x, n, *element);
      if (!is_bad(x, n->of[i], at, nan)) continue;
      *node = n->of[i], *element = at;
      return true;
    }
  }
  return false;
}

bool expression_find(Expression *x, int result, int64_t element, bool nan, ExpressionPlace *out) {
  int node = x->results[result], found = node;
  int64_t at = element;
  if (!is_bad(x, node, element, nan)) return false;
  while (find_operand(x, &node, &element, nan)) {
    Kind kind = kind_of(&x->nodes[node]);
    if (kind != ARGUMENT && (kind < BROADCAST || kind > SLICE)) found = node, at = element;
  }
  *out = x->nodes[found].place;
  out->element = at;
  out->elements = x->nodes[found].elements;
  return true;
}

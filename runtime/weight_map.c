// Weight files of others: a mapping file says which of their tensors make up each of ours. Grammar and examples:
// docs/runtime.md, section import. A rule is looked up from our side, so that one file serves both directions: import
// collects the pieces of a tensor, export takes it apart.
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

typedef enum RuleKind { RULE_PIECES, RULE_IGNORE, RULE_NEW } RuleKind;
typedef struct Rule {
  RuleKind kind;
  char *ours;   // Owned; pattern; of `ignore` in their file; `*` stands for dots too but in RULE_PIECES
  int n_theirs;
  char **theirs;   // Owned; templates, joined along the first axis; RULE_PIECES only
  bool transpose;
  int rank;                    // of `reshape`; 0: none
  int64_t dim[NNC_MAX_RANK];   // in their file, -1 (at most one): what is left
} Rule;
struct WeightMap {
  char *path;   // Owned
  int n_rules;
  Rule *rules;   // Owned
};

// What `*` stood for, from left to right.
enum { MAX_CAPTURES = 8 };
typedef struct Captures {
  int n;
  const char *text[MAX_CAPTURES];
  size_t length[MAX_CAPTURES];
} Captures;

void weight_map_free(WeightMap *m) {
  if (!m) return;
  for (int i = 0; i < m->n_rules; i++) {
    free(m->rules[i].ours);
    for (int k = 0; k < m->rules[i].n_theirs; k++) free(m->rules[i].theirs[k]);
    free(m->rules[i].theirs);
  }
  free(m->rules);
  free(m->path);
  free(m);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading

static bool malformed(const WeightMap *m, int line, const char *what) {
  report_error("%s:%d: %s", m->path, line, what);
  return false;
}

static int count_stars(const char *pattern) {
  int n = 0;
  for (; *pattern; pattern++) n += *pattern == '*';
  return n;
}

// "{2+1}" at *text: which capture, what is added. Leaves *text behind it.
static bool parse_reference(const char **text, int *capture, int64_t *add) {
  char *end;
  errno = 0;
  long which = strtol(*text + 1, &end, 10);
  *add = *end == '+' || *end == '-' ? strtoll(end, &end, 10) : 0;
  if (errno || *end != '}' || which < 1 || which > MAX_CAPTURES || *add > 1000000 || *add < -1000000) return false;
  *capture = (int)which - 1;
  *text = end + 1;
  return true;
}

static bool check_template(const WeightMap *m, int line, const char *text, int stars) {
  while (*text) {
    int capture;
    int64_t add;
    if (*text != '{') {
      if (*text++ == '*')
        return malformed(m, line, "a `*` on the right: write {1} for what the first one on the left stood for");
    } else if (!parse_reference(&text, &capture, &add)) {
      return malformed(m, line, "expected a reference as in {1} or {2+1}");
    } else if (capture >= stars) {
      return malformed(m, line, "a reference to a `*` that the left side does not have");
    }
  }
  return true;
}

static void add_their(Rule *r, const char *word) {
  r->theirs = xrealloc(r->theirs, sizeof *r->theirs * (size_t)(r->n_theirs + 1));
  r->theirs[r->n_theirs++] = xstrdup(word);
}

// "64,-1": the sizes of a reshape.
static bool parse_sizes(const WeightMap *m, int line, const char *text, Rule *r) {
  int open = 0;
  for (;; text++) {
    char *end;
    errno = 0;
    long long n = text ? strtoll(text, &end, 10) : 0;
    if (!text || end == text || errno || (n < 1 && n != -1) || n > (1ll << 40) || r->rank == NNC_MAX_RANK ||
        (open += n == -1) > 1)
      return malformed(m, line, "expected the sizes of the tensor in the file after `reshape`, as in 64,3,3 or 64,-1");
    r->dim[r->rank++] = n;
    text = end;
    if (!*text) return true;
    if (*text != ',')
      return malformed(m, line, "expected the sizes of the tensor in the file after `reshape`, as in 64,3,3 or 64,-1");
  }
}

static bool parse_pattern(const WeightMap *m, int line, Rule *r, const char *pattern, const char *rest) {
  if (!pattern || rest)
    return malformed(m, line,
                     r->kind == RULE_NEW ? "expected one pattern after `new`" : "expected one pattern after `ignore`");
  r->ours = xstrdup(pattern);
  return true;
}

// Words of a line: `ignore PATTERN`, `new PATTERN` or `PATTERN = TEMPLATE {, TEMPLATE} [transpose] [reshape
// SIZE{,SIZE}]`.
static bool parse_rule(WeightMap *m, int line, char *text) {
  char *save = NULL, *word = strtok_r(text, " \t\r\n", &save);
  if (!word) return true;
  m->rules = xrealloc(m->rules, sizeof *m->rules * (size_t)(m->n_rules + 1));
  Rule *r = &m->rules[m->n_rules++];
  *r = (Rule){0};
  char *second = strtok_r(NULL, " \t\r\n", &save);
  r->kind = second && strcmp(second, "=") == 0 ? RULE_PIECES
            : strcmp(word, "ignore") == 0      ? RULE_IGNORE
            : strcmp(word, "new") == 0         ? RULE_NEW
                                               : RULE_PIECES;
  if (r->kind != RULE_PIECES) return parse_pattern(m, line, r, second, strtok_r(NULL, " \t\r\n", &save));
  r->ours = xstrdup(word);
  int stars = count_stars(r->ours);
  if (stars > MAX_CAPTURES) return malformed(m, line, "more than 8 `*`");
  if (!second || strcmp(second, "=") != 0) return malformed(m, line, "expected `=` after the model's name");
  bool more = true;
  for (; more;) {
    if (!(word = strtok_r(NULL, " \t\r\n", &save)))
      return malformed(m, line, "expected the name of a tensor in the file");
    size_t n = strlen(word);
    more = n > 1 && word[n - 1] == ',';
    if (more) word[n - 1] = 0;
    if (!check_template(m, line, word, stars)) return false;
    add_their(r, word);
  }
  word = strtok_r(NULL, " \t\r\n", &save);
  r->transpose = word && strcmp(word, "transpose") == 0;
  if (r->transpose) word = strtok_r(NULL, " \t\r\n", &save);
  bool reshape = word && strcmp(word, "reshape") == 0;
  if (reshape && !parse_sizes(m, line, strtok_r(NULL, " \t\r\n", &save), r)) return false;
  if (reshape) word = strtok_r(NULL, " \t\r\n", &save);
  return !word || malformed(m, line, "expected `transpose`, `reshape` or the end of the line");
}

WeightMap *weight_map_read(const char *path) {
  int fd = open_to_read(path);
  if (fd < 0) return NULL;
  FILE *f = fdopen(fd, "r");
  if (!f) report_internal("no stream for %s", path);
  WeightMap *m = xcalloc(1, sizeof *m);
  m->path = xstrdup(path);
  char *line = NULL;
  size_t size = 0;
  bool ok = true;
  for (int n = 1; ok && getline(&line, &size, f) >= 0; n++) {
    line[strcspn(line, "#")] = 0;
    ok = parse_rule(m, n, line);
  }
  if (ok && ferror(f)) {
    report_error("cannot read %s: %s", path, strerror(errno));
    ok = false;
  }
  free(line);
  fclose(f);
  if (ok) return m;
  weight_map_free(m);
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Names

// `*` stands for any characters but, in a rule of ours, dots; the shortest that fits.
static bool matches(const char *pattern, const char *name, bool dots, Captures *c) {
  for (; *pattern && *pattern != '*'; pattern++, name++)
    if (*pattern != *name) return false;
  if (!*pattern) return !*name;
  int index = c->n++;
  for (size_t length = 1; name[length - 1] && (dots || name[length - 1] != '.'); length++) {
    c->n = index + 1;
    if (index < MAX_CAPTURES) c->text[index] = name, c->length[index] = length;
    if (matches(pattern + 1, name + length, dots, c)) return true;
  }
  return false;
}

// The number that a `*` stood for; what is no number, or a very large one, counts as 0.
static int64_t captured_number(const Captures *c, int k) {
  char *text = xasprintf("%.*s", (int)c->length[k], c->text[k]);
  int64_t number = strtoll(text, NULL, 10), most = (int64_t)1 << 62;
  free(text);
  return number > -most && number < most ? number : 0;
}

// The template with its references filled in; Owned by the caller.
static char *expand(const char *template, const Captures *c) {
  char *out = xstrdup("");
  while (*template) {
    char *longer;
    if (*template == '{') {
      int k = 0;
      int64_t add = 0;
      parse_reference(&template, &k, &add);   // checked when it was read
      longer = add ? xasprintf("%s%" PRId64, out, captured_number(c, k) + add)
                   : xasprintf("%s%.*s", out, (int)c->length[k], c->text[k]);
    } else {
      int n = (int)strcspn(template, "{");
      longer = xasprintf("%s%.*s", out, n, template);
      template += n;
    }
    free(out);
    out = longer;
  }
  return out;
}

// The pieces of one of our tensors in their file.
// dim: of each, in their layout
typedef struct Pieces {
  int n;
  char **names;
  bool transpose;
  int rank;
  int64_t dim[NNC_MAX_RANK];
} Pieces;

static void pieces_free(Pieces *p) {
  for (int i = 0; i < p->n; i++) free(p->names[i]);
  free(p->names);
}

// The sizes that a rule gives to each piece of t, which has n elements.
static bool reshape_pieces(const WeightMap *m, const Rule *r, const NncTensor *t, int64_t n, Pieces *p) {
  int64_t known = 1;
  bool fits = true;
  for (int i = 0; i < r->rank && fits; i++) fits = r->dim[i] == -1 || !__builtin_mul_overflow(known, r->dim[i], &known);
  for (int i = 0; i < r->rank; i++) p->dim[i] = fits && r->dim[i] == -1 ? n / known : r->dim[i];
  p->rank = r->rank;
  bool open = false;
  for (int i = 0; i < r->rank; i++) open |= r->dim[i] == -1;
  if (fits && (open ? n % known == 0 : n == known)) return true;
  char text[128];
  report_error("%s: %s has %lld numbers, which `reshape %s` does not hold", m->path, t->name, (long long)n,
               format_shape(r->rank, r->dim, text, sizeof text));
  return false;
}

static bool pieces_of(const WeightMap *m, const NncTensor *t, Pieces *p) {
  *p = (Pieces){.rank = t->rank};
  memcpy(p->dim, t->dim, sizeof *t->dim * (size_t)t->rank);
  Captures c = {0};
  const Rule *r = NULL;
  for (int i = 0; m && i < m->n_rules && !r; i++) {
    c.n = 0;
    if (m->rules[i].kind == RULE_PIECES && matches(m->rules[i].ours, t->name, false, &c)) r = &m->rules[i];
  }
  p->n = r ? r->n_theirs : 1;
  p->names = xcalloc((size_t)p->n, sizeof *p->names);
  for (int i = 0; i < p->n; i++) p->names[i] = r ? expand(r->theirs[i], &c) : xstrdup(t->name);
  int rank = r && r->rank ? r->rank : t->rank;
  if (r && r->transpose && rank != 2) {
    report_error("%s: %s is to be transposed but has %d ax%s, not 2", m->path, t->name, rank, rank == 1 ? "is" : "es");
    return false;
  }
  if (p->n > 1 && (t->rank == 0 || t->dim[0] % p->n != 0)) {
    report_error("%s: the first axis of %s cannot be cut into %d parts", m->path, t->name, p->n);
    return false;
  }
  if (p->n > 1) p->dim[0] /= p->n;
  p->transpose = r && r->transpose;
  if (r && r->rank) return reshape_pieces(m, r, t, tensor_elements(t) / p->n, p);
  if (p->transpose) {
    int64_t d = p->dim[0];
    p->dim[0] = p->dim[1], p->dim[1] = d;
  }
  return true;
}

static void transpose(const char *from, int64_t rows, int64_t columns, int64_t element, char *to) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < columns; k++)
      memcpy(to + (k * rows + i) * element, from + (i * columns + k) * element, (size_t)element);
}

// ---------------------------------------------------------------------------------------------------------------------
// Import

static bool is_weight(const NncTensor *t) { return t->role == NNC_PARAM || t->role == NNC_STATE; }

static bool check_piece(const Safetensors *s, const NncTensor *t, const Pieces *p, const char *name) {
  const SafetensorsEntry *e = safetensors_find(s, name);
  NncDtype dtype;
  char found[128], expected[128];
  if (!e) {
    char *purpose = xasprintf(", for %s", t->name);
    safetensors_report_missing(s, name, purpose);
    free(purpose);
    return false;
  }
  if (e->rank != p->rank || memcmp(e->dim, p->dim, sizeof *p->dim * (size_t)p->rank) != 0) {
    report_error("%s: tensor %s, for %s, has shape %s, expected %s", s->path, name, t->name,
                 format_shape(e->rank, e->dim, found, sizeof found),
                 format_shape(p->rank, p->dim, expected, sizeof expected));
    return false;
  }
  bool from_float = safetensors_dtype(e->dtype, &dtype) && dtype_is_float(dtype), to_float = dtype_is_float(t->dtype);
  if (from_float ? to_float : safetensors_dtype(e->dtype, &dtype) && dtype == t->dtype) return true;
  report_error("%s: tensor %s, for %s, is %s, expected %s", s->path, name, t->name, e->dtype, dtype_name(t->dtype));
  return false;
}

// Whether an `ignore` or a `new` rule is for this name.
static bool named(const WeightMap *m, RuleKind kind, const char *name) {
  for (int i = 0; m && i < m->n_rules; i++) {
    Captures c = {0};
    if (m->rules[i].kind == kind && matches(m->rules[i].ours, name, true, &c)) return true;
  }
  return false;
}

// A moving average that is not in the file begins as its parameter, whose name this is; else NULL.
static const char *borrowed_from(const Safetensors *s, const WeightMap *m, const NncTensor *t) {
  const char *parameter = t->average_of;
  if (!parameter) return NULL;
  Pieces p;
  bool found = !pieces_of(m, t, &p);
  for (int k = 0; k < p.n; k++) found |= safetensors_find(s, p.names[k]) != NULL;
  pieces_free(&p);
  return found ? NULL : parameter;
}

// Parameters and states that are read; a moving average of what begins anew does so, too.
static bool is_imported(const WeightMap *m, const NncTensor *t) {
  const char *parameter = t->average_of;
  bool anew = named(m, RULE_NEW, t->name) || (parameter && named(m, RULE_NEW, parameter));
  return is_weight(t) && !anew;
}

// Every difference between file and model is reported.
static bool check_all(const Safetensors *s, const WeightMap *m) {
  bool ok = true;
  bool *used = xcalloc((size_t)s->n_entries + 1, sizeof *used);
  for (int i = 0; i < nnc_program.n_persistent; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (!is_imported(m, t) || borrowed_from(s, m, t)) continue;   // the parameter is checked where it is
    Pieces p;
    bool fits = pieces_of(m, t, &p);
    for (int k = 0; fits && k < p.n; k++) {
      const SafetensorsEntry *e = safetensors_find(s, p.names[k]);
      if (e) used[e - s->entries] = true;
      ok = check_piece(s, t, &p, p.names[k]) && ok;
    }
    ok = ok && fits;
    pieces_free(&p);
  }
  for (int i = 0; i < s->n_entries; i++) {
    if (used[i] || named(m, RULE_IGNORE, s->entries[i].name)) continue;
    report_error("%s: tensor %s has no place in the model (`ignore %s` in a mapping file leaves it out)", s->path,
                 s->entries[i].name, s->entries[i].name);
    ok = false;
  }
  free(used);
  return ok;
}

// The file's values of a parameter or state, in the tensor's type and logical order.
static bool read_tensor(const Safetensors *s, const WeightMap *m, const NncTensor *t, char *whole) {
  Pieces p;
  NncTensor from = *t;
  const char *parameter = borrowed_from(s, m, t);
  if (parameter) from.name = parameter;
  bool ok = pieces_of(m, &from, &p);
  int64_t n = tensor_elements(t) / p.n, element = dtype_bytes(t->dtype);
  char *piece = xmalloc((size_t)(n * element));
  for (int k = 0; ok && k < p.n; k++) {
    const SafetensorsEntry *e = safetensors_find(s, p.names[k]);
    NncDtype dtype = t->dtype;
    safetensors_dtype(e->dtype, &dtype);
    char *raw = xmalloc((size_t)e->bytes), *out = whole + k * n * element;
    ok = safetensors_read(s, e, 0, e->bytes, raw);
    if (ok) convert_elements(dtype, raw, t->dtype, p.transpose ? piece : out, n);
    if (ok && p.transpose) transpose(piece, p.dim[0], p.dim[1], element, out);
    free(raw);
  }
  free(piece);
  pieces_free(&p);
  return ok;
}

static bool import_tensor(const Safetensors *s, const WeightMap *m, const NncTensor *t, const Arena *arena) {
  char *whole = xmalloc((size_t)t->bytes);
  bool ok = read_tensor(s, m, t, whole) && arena_write(arena, t->offset, whole, t->bytes);
  free(whole);
  return ok;
}

// What begins as the lengths of a parameter that is read begins as those of its values in the file.
static bool begin_anew(const Safetensors *s, const WeightMap *m, const NncTensor *t, uint64_t seed,
                       const Arena *arena) {
  int axis = 0;
  const NncTensor *of = init_lengths_of(t, &axis);
  if (!of || !is_imported(m, of)) return init_tensor(t, arena, seed);
  int64_t n = tensor_elements(of), size = of->dim[axis], inner = n / size;
  for (int d = 0; d < axis; d++) inner /= of->dim[d];
  char *whole = xmalloc((size_t)(of->bytes > t->bytes ? of->bytes : t->bytes));
  double *values = xmalloc((size_t)n * sizeof *values), *lengths = xcalloc((size_t)size, sizeof *lengths);
  bool ok = read_tensor(s, m, of, whole);
  if (ok) convert_elements(of->dtype, whole, NNC_F64, values, n);
  for (int64_t i = 0; ok && i < n; i++) lengths[i / inner % size] += values[i] * values[i];
  for (int64_t i = 0; i < size; i++) lengths[i] = sqrt(lengths[i]);
  convert_elements(NNC_F64, lengths, t->dtype, whole, size);
  ok = ok && arena_write(arena, t->offset, whole, t->bytes);
  free(lengths);
  free(values);
  free(whole);
  return ok;
}

bool weight_map_import(const char *path, const WeightMap *m, uint64_t seed, const Arena *arena) {
  Safetensors s;
  if (!safetensors_open(path, &s)) return false;
  bool ok = check_all(&s, m);
  for (int i = 0; i < nnc_program.n_persistent && ok; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (is_imported(m, t)) ok = import_tensor(&s, m, t, arena);
    else if (is_weight(t)) ok = begin_anew(&s, m, t, seed, arena);
  }
  safetensors_close(&s);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// Export

// Numbers that the type cannot hold would come back as infinite.
static bool check_range(const NncTensor *t, const char *own, NncDtype dtype, const char *written, int64_t n) {
  enum { CHUNK = 512 };
  double before[CHUNK], after[CHUNK];
  for (int64_t first = 0; first < n; first += CHUNK) {
    int64_t count = n - first < CHUNK ? n - first : CHUNK;
    convert_elements(t->dtype, own + first * dtype_bytes(t->dtype), NNC_F64, before, count);
    convert_elements(dtype, written + first * dtype_bytes(dtype), NNC_F64, after, count);
    for (int64_t i = 0; i < count; i++) {
      if (!isfinite(before[i]) || isfinite(after[i])) continue;
      report_error("%s: element %lld is %g, which %s cannot hold", t->name, (long long)(first + i), before[i],
                   dtype_name(dtype));
      return false;
    }
  }
  return true;
}

// The tensor in logical order and in the type of the file; Owned. NULL after reporting.
static char *values_for_file(const NncTensor *t, NncDtype dtype, const Arena *arena) {
  char *own = xmalloc((size_t)t->bytes);
  if (!arena_read(arena, t->offset, own, t->bytes)) {
    free(own);
    return NULL;
  }
  if (dtype == t->dtype) return own;
  int64_t n = tensor_elements(t);
  char *written = xmalloc((size_t)(n * dtype_bytes(dtype)));
  convert_elements(t->dtype, own, dtype, written, n);
  bool ok = check_range(t, own, dtype, written, n);
  free(own);
  if (ok) return written;
  free(written);
  return NULL;
}

static NncDtype type_in_file(const NncTensor *t, const NncDtype *floats) {
  return floats && dtype_is_float(t->dtype) ? *floats : t->dtype;
}

static bool export_tensor(SafetensorsWriter *w, int *index, const NncTensor *t, const Pieces *p, NncDtype dtype,
                          const Arena *arena) {
  int64_t n = tensor_elements(t) / p->n, element = dtype_bytes(dtype);
  char *whole = values_for_file(t, dtype, arena), *piece = xmalloc((size_t)(n * element));
  bool ok = whole;
  for (int k = 0; k < p->n && ok; k++) {
    char *from = whole + k * n * element;
    if (p->transpose) transpose(from, p->dim[1], p->dim[0], element, piece);
    ok = safetensors_put(w, (*index)++, 0, p->transpose ? piece : from, n * element);
  }
  free(piece);
  free(whole);
  return ok;
}

// A file holds a name once: two tensors of ours, or two pieces, under one name would be one.
static bool check_names(const WeightMap *m, int n, const Pieces *pieces) {
  bool ok = true;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < pieces[i].n; k++)
      for (int j = 0; j <= i; j++)
        for (int l = 0; l < (j < i ? pieces[j].n : k); l++) {
          if (strcmp(pieces[i].names[k], pieces[j].names[l]) != 0) continue;
          report_error("%s: %s and %s would both be written as %s", m->path, nnc_program.persistent[j].name,
                       nnc_program.persistent[i].name, pieces[i].names[k]);
          ok = false;
        }
  return ok;
}

bool weight_map_export(const char *path, const WeightMap *m, const NncDtype *floats, const Arena *arena) {
  const NncTensor *broken;
  if (!checkpoint_not_finite(arena, true, &broken)) return false;
  if (broken) {
    report_error("%s is not written: %s holds numbers that are not finite", path, broken->name);
    return false;
  }
  SafetensorsWriter *w = safetensors_create(path);
  int n = nnc_program.n_persistent, index = 0;
  Pieces *pieces = xcalloc((size_t)n, sizeof *pieces);
  bool ok = true;
  if (!m) weights_add_metadata(w);
  for (int i = 0; i < n; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (!is_weight(t)) continue;
    ok = pieces_of(m, t, &pieces[i]) && ok;
    for (int k = 0; k < pieces[i].n; k++)
      safetensors_declare(w, pieces[i].names[k], type_in_file(t, floats), pieces[i].rank, pieces[i].dim);
  }
  ok = ok && (!m || check_names(m, n, pieces)) && safetensors_begin(w);
  for (int i = 0; i < n && ok; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (pieces[i].n) ok = export_tensor(w, &index, t, &pieces[i], type_in_file(t, floats), arena);
  }
  for (int i = 0; i < n; i++) pieces_free(&pieces[i]);
  free(pieces);
  if (ok) return safetensors_commit(w);
  safetensors_abandon(w);
  return false;
}

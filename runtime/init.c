// Values of parameters, states and optimizer state before the first step. A random value depends on the seed, the name
// and the element's logical index, so that packing and the order of parameters change nothing.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

typedef enum InitKind { INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM, INIT_LENGTHS } InitKind;
typedef struct Init {
  InitKind kind;
  double a, b;
  const NncTensor *of;   // INIT_LENGTHS: along axis a
} Init;

// "lengths(axis,name)": that of each part along an axis of a parameter as it begins.
static bool parse_lengths(const char *text, Init *out) {
  int axis, read = 0;
  if (sscanf(text, "lengths(%d,%n", &axis, &read) != 1 || !read) return false;
  size_t n = strlen(text + read);
  for (int i = 0; i < nnc_program.n_persistent; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (strlen(t->name) + 1 != n || strncmp(t->name, text + read, n - 1) != 0 || text[read + (int)n - 1] != ')')
      continue;
    *out = (Init){INIT_LENGTHS, axis, 0, t};
    return axis >= 0 && axis < t->rank && (!t->init || strncmp(t->init, "lengths", 7) != 0);
  }
  return false;
}

// "zeros", "ones", "constant(v)", "normal(std)", "normal(mean,std)", "uniform(lo,hi)", or lengths
static bool parse(const char *text, Init *out) {
  if (strncmp(text, "lengths", 7) == 0) return parse_lengths(text, out);
  double v[2] = {0, 0};
  int n = 0;
  size_t name = 0;
  while (isalpha((unsigned char)text[name]) || text[name] == '_') name++;
  const char *p = text + name;
  if (*p == '(') {
    do {
      char *end;
      v[n] = strtod(p + 1, &end);
      if (end == p + 1) return false;
      n++;
      for (p = end; *p == ' ';) p++;
    } while (*p == ',' && n < 2);
    if (*p != ')' || p[1]) return false;
  } else if (*p) {
    return false;
  }
#define IS(word, count) (name == strlen(word) && strncmp(text, word, name) == 0 && n == (count))
  if (IS("zeros", 0)) *out = (Init){INIT_CONSTANT, 0, 0, NULL};
  else if (IS("ones", 0)) *out = (Init){INIT_CONSTANT, 1, 0, NULL};
  else if (IS("constant", 1)) *out = (Init){INIT_CONSTANT, v[0], 0, NULL};
  else if (IS("normal", 1)) *out = (Init){INIT_NORMAL, 0, v[0], NULL};
  else if (IS("normal", 2)) *out = (Init){INIT_NORMAL, v[0], v[1], NULL};
  else if (IS("uniform", 2)) *out = (Init){INIT_UNIFORM, v[0], v[1], NULL};
  else return false;
#undef IS
  return true;
}

static double value(const Init *init, uint64_t seed, uint64_t stream, int64_t i) {
  switch (init->kind) {
  case INIT_NORMAL: return init->a + init->b * philox_normal(seed, stream, (uint64_t)i);
  case INIT_UNIFORM: return init->a + (init->b - init->a) * philox_uniform(seed, stream, (uint64_t)i);
  default: return init->a;
  }
}

// The draws of a tensor are those of its name; the moving average of a parameter begins as the parameter does.
static uint64_t stream_of(const NncTensor *t) { return philox_stream(t->average_of ? t->average_of : t->name); }

// Element i of INIT_LENGTHS.
static double length(const Init *init, uint64_t seed, int64_t i) {
  const NncTensor *t = init->of;
  Init of = {INIT_CONSTANT, 0, 0, NULL};
  int64_t inner = 1, size = t->dim[(int)init->a], n = tensor_elements(t);
  uint64_t stream = stream_of(t);
  double sum = 0;
  if (t->init && *t->init) parse(t->init, &of);   // what it is itself tells of a mistake there
  for (int d = (int)init->a + 1; d < t->rank; d++) inner *= t->dim[d];
  for (int64_t first = i * inner; first < n; first += size * inner)
    for (int64_t k = first; k < first + inner; k++) {
      double v = value(&of, seed, stream, k);
      sum += v * v;
    }
  return sqrt(sum);
}

static void draw(const NncTensor *t, const Init *init, uint64_t seed, int64_t first, int64_t n, char *out) {
  int64_t element = dtype_bytes(t->dtype);
  uint64_t stream = stream_of(t);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i++) {
    double v = init->kind == INIT_LENGTHS ? length(init, seed, first + i) : value(init, seed, stream, first + i);
    convert_elements(NNC_F64, &v, t->dtype, out + i * element, 1);
  }
}

static bool draw_far(const NncTensor *t, const Init *init, const Arena *arena, uint64_t seed) {
  int64_t element = dtype_bytes(t->dtype), n = tensor_elements(t), most = ARENA_PIECE / element;
  char *piece = xmalloc(ARENA_PIECE);
  bool ok = true;
  for (int64_t first = 0; first < n && ok; first += most) {
    int64_t count = n - first < most ? n - first : most;
    draw(t, init, seed, first, count, piece);
    ok = arena_write(arena, t->offset + first * element, piece, count * element);
  }
  free(piece);
  return ok;
}

bool init_tensor(const NncTensor *t, const Arena *arena, uint64_t seed) {
  Init init = {INIT_CONSTANT, 0, 0, NULL};
  if (t->init && *t->init && !parse(t->init, &init)) {
    report_error("parameter %s: unknown initialiser \"%s\"", t->name, t->init);
    return false;
  }
  int64_t n = tensor_elements(t), element = dtype_bytes(t->dtype);
  if (is_far_address(t->offset)) return draw_far(t, &init, arena, seed);
  char *out = t->part ? xmalloc((size_t)t->bytes) : arena->base + t->offset;
  draw(t, &init, seed, 0, n, out);
  if (t->part) {
    int64_t begin, own = ranks_own_elements(t, &begin);
    memcpy(arena->base + t->offset, out + begin * element, (size_t)(own * element));
    free(out);
  }
  return true;
}

const NncTensor *init_lengths_of(const NncTensor *t, int *axis) {
  Init init;
  if (!t->init || !parse(t->init, &init) || init.kind != INIT_LENGTHS) return NULL;
  *axis = (int)init.a;
  return init.of;
}

bool init_input(const NncTensor *t, uint64_t seed, int64_t first, int64_t n, char *out) {
  Init init = {INIT_NORMAL, 0, 1, NULL};
  if (t->init && *t->init && !parse(t->init, &init)) {
    report_error("input %s: unknown initialiser \"%s\"", t->name, t->init);
    return false;
  }
  draw(t, &init, seed, first, n, out);
  return true;
}

bool init_persistent(const Arena *arena, uint64_t seed) {
  for (int i = 0; i < nnc_program.n_persistent; i++)
    if (!init_tensor(&nnc_program.persistent[i], arena, seed)) return false;
  return true;
}

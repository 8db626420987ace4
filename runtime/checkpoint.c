// Persistent values to and from safetensors files. A checkpoint holds all of them and where training stands; exported
// weights hold parameters and states only. Both are read by name, so that either serves as weights.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/comm.h"
#include "runtime/runtime.h"

char *checkpoint_default_path(void) { return xasprintf("%s.safetensors", nnc_program.model); }

static bool is_weight(const NncTensor *t) { return t->role == NNC_PARAM || t->role == NNC_STATE; }

// Writes to the index-th declared tensor; what is far piece by piece.
static bool put_tensor(SafetensorsWriter *w, int index, const NncTensor *t, const Arena *arena) {
  if (!is_far_address(t->offset)) return safetensors_put(w, index, 0, arena->base + t->offset, t->bytes);
  int64_t most = t->bytes < ARENA_PIECE ? t->bytes : ARENA_PIECE;
  bool ok = true;
  char *piece = xmalloc((size_t)most);
  for (int64_t at = 0; at < t->bytes && ok; at += most) {
    int64_t n = t->bytes - at < most ? t->bytes - at : most;
    ok = arena_read(arena, t->offset + at, piece, n) && safetensors_put(w, index, at, piece, n);
  }
  free(piece);
  return ok;
}

// *at: of the first number that is not finite, -1 for none.
static bool find_far(const NncTensor *t, const Arena *arena, int64_t *at) {
  char *piece = xmalloc(ARENA_PIECE);
  bool ok = true;
  *at = -1;
  for (int64_t from = 0; from < t->bytes && ok && *at < 0; from += ARENA_PIECE) {
    int64_t n = t->bytes - from < ARENA_PIECE ? t->bytes - from : ARENA_PIECE;
    ok = arena_read(arena, t->offset + from, piece, n);
    if (ok) *at = find_not_finite(t->dtype, piece, n / dtype_bytes(t->dtype), false);
  }
  free(piece);
  return ok;
}

bool checkpoint_not_finite(const Arena *arena, bool weights_only, const NncTensor **found) {
  *found = NULL;
  for (int i = 0; i < nnc_program.n_persistent && !*found; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (weights_only && !is_weight(t)) continue;
    int64_t begin, own = ranks_own_elements(t, &begin), at;
    if (!is_far_address(t->offset)) at = find_not_finite(t->dtype, arena->base + t->offset, own, false);
    else if (!find_far(t, arena, &at)) return false;
    if (at >= 0) *found = t;
  }
  return true;
}

// No file with values that are not finite takes the place of a good one.
static bool may_write(const char *path, const Arena *arena, bool weights_only) {
  const NncTensor *t;
  if (!checkpoint_not_finite(arena, weights_only, &t)) {
    report_error("%s is not written", path);
    return false;
  }
  if (t) report_error("%s is not written: %s holds numbers that are not finite", path, t->name);
  return t == NULL;
}

enum { MOST_AT_ONCE = 1 << 30 };   // bytes of a message

static void send_part(const char *data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += MOST_AT_ONCE)
    ranks.comm->send(data + i, (int)(bytes - i < MOST_AT_ONCE ? bytes - i : MOST_AT_ONCE), 0);
}

static void receive_part(char *data, int64_t bytes, int rank) {
  for (int64_t i = 0; i < bytes; i += MOST_AT_ONCE)
    ranks.comm->receive(data + i, (int)(bytes - i < MOST_AT_ONCE ? bytes - i : MOST_AT_ONCE), rank);
}

// A tensor of which each rank has a part: the first one writes all of them, and takes them also where it cannot.
static bool put_parts(SafetensorsWriter *w, int index, const NncTensor *t, const Arena *arena, bool ok) {
  int64_t size = dtype_bytes(t->dtype), begin, own = ranks_own_elements(t, &begin), n = tensor_elements(t);
  if (ranks.rank > 0) {
    send_part(arena->base + t->offset, own * size);
    return ok;
  }
  ok = ok && safetensors_put(w, index, 0, arena->base + t->offset, own * size);
  char *other = xmalloc((size_t)(t->part * size));
  for (int r = 1; r < ranks.size && r * t->part < n; r++) {
    int64_t rest = n - r * t->part, there = rest < t->part ? rest : t->part;
    receive_part(other, there * size, r);
    ok = ok && safetensors_put(w, index, r * t->part * size, other, there * size);
  }
  free(other);
  return ok;
}

// w NULL: nothing is written here; what other ranks have of it, or this one, is given all the same.
static bool put_all(SafetensorsWriter *w, const Arena *arena, bool weights_only) {
  bool ok = w != NULL;
  for (int i = 0, n = 0; i < nnc_program.n_persistent; i++) {
    const NncTensor *t = &nnc_program.persistent[i];
    if (weights_only && !is_weight(t)) continue;
    if (t->part) ok = put_parts(w, n, t, arena, ok);
    else ok = ok && put_tensor(w, n, t, arena);
    n++;
  }
  return ok;
}

static bool save(SafetensorsWriter *w, const Arena *arena, bool weights_only) {
  const NncProgram *p = &nnc_program;
  for (int i = 0; i < p->n_persistent; i++) {
    const NncTensor *t = &p->persistent[i];
    if (!weights_only || is_weight(t)) safetensors_declare(w, t->name, t->dtype, t->rank, t->dim);
  }
  bool ok = safetensors_begin(w);
  ok = put_all(ok ? w : NULL, arena, weights_only) && ok;
  if (ok) return safetensors_commit(w);
  safetensors_abandon(w);
  return false;
}

// Only the first rank writes. True: this one has done what it has to.
static bool is_helper(const Arena *arena, bool weights_only) {
  if (ranks.rank == 0) return false;
  put_all(NULL, arena, weights_only);
  return true;
}

static void add_integer(SafetensorsWriter *w, const char *key, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  safetensors_add_metadata(w, key, text);
}

void weights_add_metadata(SafetensorsWriter *w) {
  safetensors_add_metadata(w, "format", "nnc");
  safetensors_add_metadata(w, "model", nnc_program.model);
}

static const char *source_name(void) {
  const char *slash = strrchr(nnc_program.source, '/');
  return slash ? slash + 1 : nnc_program.source;
}

// Owned: what is another program's about a checkpoint; NULL: nothing. Weights have no source: they are anybody's. A
// network that was changed is its file's still: who edits a model and trains it again means to.
static char *describe_other_program(const Safetensors *s) {
  const char *source = safetensors_metadata(s, "source"), *id = safetensors_metadata(s, "source_id");
  if (!source) return NULL;
  if (strcmp(source, source_name()) != 0) return xasprintf("of another program, compiled from %s", source);
  if (id && nnc_program.source_id && strcmp(id, nnc_program.source_id) != 0)
    return xasprintf("of another program, compiled from a %s in another folder", source);
  return NULL;
}

bool checkpoint_may_replace(const char *path, bool spare_own, const char *option) {
  Safetensors s;
  if (access(path, F_OK) != 0) return true;
  if (!safetensors_open(path, &s)) {
    report_error("what is in the way of the checkpoint is left alone: remove it, or give %s", option);
    return false;
  }
  char *other = describe_other_program(&s);
  const char *step = safetensors_metadata(&s, "step");
  if (!other && spare_own && step) other = xasprintf("of a training, after step %s", step);
  if (other) report_error("%s is a checkpoint %s: give %s to keep both, or to replace it", path, other, option);
  safetensors_close(&s);
  free(other);
  return !other;
}

bool checkpoint_save(const char *path, const Arena *arena, const TrainState *state, bool broken) {
  if (is_helper(arena, false)) return true;
  if (!broken && !may_write(path, arena, false)) return put_all(NULL, arena, false);
  SafetensorsWriter *w = safetensors_create(path);
  weights_add_metadata(w);
  safetensors_add_metadata(w, "source", source_name());
  if (nnc_program.source_id) safetensors_add_metadata(w, "source_id", nnc_program.source_id);
  safetensors_add_metadata(w, "compiler", nnc_program.compiler);
  add_integer(w, "step", state->step);
  add_integer(w, "seed", state->seed);
  if (state->total) add_integer(w, "steps", state->total);
  if (state->threads) add_integer(w, "threads", state->threads);
  if (state->micro_batches > 1) add_integer(w, "micro_batches", state->micro_batches);
  if (nnc_program.patience > 0 || isfinite(state->best)) {
    char best[48];
    snprintf(best, sizeof best, "%a", state->best);
    safetensors_add_metadata(w, "best_loss", best);
    add_integer(w, "evaluations_since_best", state->since_best);
  }
  if (state->eval_due) add_integer(w, "evaluation_due", state->eval_due);
  if (state->per_epoch) add_integer(w, "steps_per_epoch", state->per_epoch);
  if (state->records) add_integer(w, "records", state->records);
  if (state->per_epoch) {   // these two follow from the step; they are here for readers
    add_integer(w, "epoch", state->step / state->per_epoch);
    add_integer(w, "step_in_epoch", state->step % state->per_epoch);
  }
  return save(w, arena, false);
}

bool weights_save(const char *path, const Arena *arena) {
  if (is_helper(arena, true)) return true;
  if (!may_write(path, arena, true)) return put_all(NULL, arena, true);
  SafetensorsWriter *w = safetensors_create(path);
  weights_add_metadata(w);
  return save(w, arena, true);
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading

static bool check_shape(const Safetensors *s, const SafetensorsEntry *e, const NncTensor *t) {
  NncDtype dtype;
  bool same = e->rank == t->rank && memcmp(e->dim, t->dim, sizeof *t->dim * (size_t)t->rank) == 0;
  char found[128], expected[128];
  format_shape(e->rank, e->dim, found, sizeof found);
  format_shape(t->rank, t->dim, expected, sizeof expected);
  if (!same) {
    report_error("%s: tensor %s has shape %s, the model expects %s", s->path, t->name, found, expected);
    return false;
  }
  bool known = safetensors_dtype(e->dtype, &dtype);
  bool both_float = known && dtype_is_float(dtype) && dtype_is_float(t->dtype);
  if (!known || (dtype != t->dtype && !both_float)) {
    report_error("%s: tensor %s is %s, the model expects %s", s->path, t->name, e->dtype, dtype_name(t->dtype));
    return false;
  }
  return true;
}

// What is far and in the file's order, piece by piece.
static bool read_far(const Safetensors *s, const SafetensorsEntry *e, NncDtype dtype, const NncTensor *t,
                     const Arena *arena) {
  int64_t size = dtype_bytes(t->dtype), from = dtype_bytes(dtype), n = tensor_elements(t), most = ARENA_PIECE / 8;
  char *raw = xmalloc((size_t)(most * from)), *piece = xmalloc((size_t)(most * size));
  bool ok = true;
  for (int64_t first = 0; first < n && ok; first += most) {
    int64_t count = n - first < most ? n - first : most;
    ok = safetensors_read(s, e, first * from, count * from, raw);
    if (!ok) break;
    convert_elements(dtype, raw, t->dtype, piece, count);
    ok = arena_write(arena, t->offset + first * size, piece, count * size);
  }
  free(raw);
  free(piece);
  return ok;
}

static bool read_tensor(const Safetensors *s, const SafetensorsEntry *e, const NncTensor *t, const Arena *arena) {
  NncDtype dtype = NNC_F32;
  safetensors_dtype(e->dtype, &dtype);
  int64_t begin, size = dtype_bytes(t->dtype), own = ranks_own_elements(t, &begin);
  if (is_far_address(t->offset)) return read_far(s, e, dtype, t, arena);
  if (dtype == t->dtype) return !own || safetensors_read(s, e, begin * size, own * size, arena->base + t->offset);
  char *raw = xmalloc((size_t)e->bytes), *logical = raw;
  bool ok = safetensors_read(s, e, 0, e->bytes, raw);
  if (ok && dtype != t->dtype) {
    logical = xmalloc((size_t)t->bytes);
    convert_elements(dtype, raw, t->dtype, logical, tensor_elements(t));
  }
  if (ok && t->part) memcpy(arena->base + t->offset, logical + begin * size, (size_t)(own * size));
  else if (ok) ok = arena_write(arena, t->offset, logical, t->bytes);
  if (logical != raw) free(logical);
  free(raw);
  return ok;
}

// Weights that were trained without a moving average serve as their own.
static const SafetensorsEntry *find_entry(const Safetensors *s, const NncTensor *t, bool weights_only) {
  const SafetensorsEntry *e = safetensors_find(s, t->name);
  const char *parameter = e || !weights_only ? NULL : t->average_of;
  return parameter ? safetensors_find(s, parameter) : e;
}

// All tensors are checked before the first is read, so that a bad file leaves the arena as it was. Of a weight file the
// optimizer's state is taken where it is there (a file that `step` wrote goes on where that step ended).
static bool load(const Safetensors *s, const Arena *arena, bool weights_only) {
  const NncProgram *p = &nnc_program;
  int missing = 0;
  const char *first = NULL;
  for (int i = 0; i < p->n_persistent; i++) {
    const NncTensor *t = &p->persistent[i];
    const SafetensorsEntry *e = find_entry(s, t, weights_only);
    if (!e) {
      if ((weights_only && !is_weight(t)) || t->role == NNC_ACCUM) continue;   // sums of gradients are 0 after a step
      if (!missing++) first = t->name;
    } else if (!check_shape(s, e, t)) {
      return false;
    }
  }
  if (missing) {
    char *others = missing > 1 ? xasprintf(", and %d more are missing", missing - 1) : xstrdup("");
    safetensors_report_missing(s, first, others);
    free(others);
    return false;
  }
  for (int i = 0; i < p->n_persistent; i++) {
    const NncTensor *t = &p->persistent[i];
    const SafetensorsEntry *e = find_entry(s, t, weights_only);
    if (e && !read_tensor(s, e, t, arena)) return false;
  }
  return true;
}

bool weights_load(const char *path, const Arena *arena) {
  Safetensors s;
  if (!safetensors_open(path, &s)) return false;
  bool ok = load(&s, arena, true);
  safetensors_close(&s);
  return ok;
}

bool weights_load_given(const char *given, const Arena *arena) {
  if (!given && nnc_program.n_persistent == 0) return true;
  char *path = given ? xstrdup(given) : checkpoint_default_path();
  bool ok = weights_load(path, arena);
  free(path);
  return ok;
}

static bool metadata_integer(const Safetensors *s, const char *key, int64_t *out) {
  const char *text = safetensors_metadata(s, key);
  char *end = NULL;
  errno = 0;
  if (text) *out = strtoll(text, &end, 10);
  if (text && *text && !*end && !errno) return true;
  report_error("%s: no training state in it (metadata \"%s\" %s): weights, not a checkpoint?", s->path, key,
               text ? "is malformed" : "is missing");
  return false;
}

// Of files of older programs some are missing.
static int64_t optional_integer(const Safetensors *s, const char *key) {
  const char *text = safetensors_metadata(s, key);
  return text ? strtoll(text, NULL, 10) : 0;
}

bool checkpoint_resume(const char *path, const Arena *arena, TrainState *state) {
  Safetensors s;
  if (!safetensors_open(path, &s)) return false;
  const char *model = safetensors_metadata(&s, "model");
  bool ok = metadata_integer(&s, "step", &state->step) && metadata_integer(&s, "seed", &state->seed);
  if (ok && state->step < 0) {
    report_error("%s: step %lld", path, (long long)state->step);
    ok = false;
  }
  if (ok && model && strcmp(model, nnc_program.model) != 0) {
    report_error("%s is a checkpoint of model %s, not of %s", path, model, nnc_program.model);
    ok = false;
  }
  const char *best = ok ? safetensors_metadata(&s, "best_loss") : NULL;
  if (best) {
    state->best = strtod(best, NULL);
    ok = metadata_integer(&s, "evaluations_since_best", &state->since_best);
  } else if (ok && nnc_program.patience > 0) {
    report_error("%s: no metadata \"best_loss\", which patience needs", s.path);
    ok = false;
  }
  state->total = optional_integer(&s, "steps");
  state->per_epoch = optional_integer(&s, "steps_per_epoch");
  state->records = optional_integer(&s, "records");
  state->threads = optional_integer(&s, "threads");
  state->micro_batches = optional_integer(&s, "micro_batches");
  state->eval_due = optional_integer(&s, "evaluation_due");
  ok = ok && load(&s, arena, false);
  safetensors_close(&s);
  return ok;
}

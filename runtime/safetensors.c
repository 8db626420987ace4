// Reading safetensors files: 8 bytes of header length, a JSON header that names dtype, shape and place of each tensor,
// the data. Everything the header says is checked against the file before any of it is used, as strictly as the
// format's own library does; so are the checksums, where the file has them.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checksum.h"
#include "runtime/json.h"
#include "runtime/runtime.h"

// ORDER DTYPE
static const struct {
  const char *name;
  NncDtype dtype;
} names[] = {
    {"F32", NNC_F32}, {"F64", NNC_F64}, {"BF16", NNC_BF16}, {"F16", NNC_F16}, {"I32", NNC_I32}, {"I64", NNC_I64},
    {"U8", NNC_U8},   {"BOOL", NNC_I1}, {"U16", NNC_U16},   {"I8", NNC_I8},   {"I16", NNC_I16}, {"U32", NNC_U32},
};

bool safetensors_dtype(const char *name, NncDtype *out) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i].name) == 0) {
      *out = names[i].dtype;
      return true;
    }
  return false;
}

static bool read_all(int fd, void *out, int64_t bytes, int64_t at) {
  char *p = out;
  while (bytes > 0) {
    ssize_t n = pread(fd, p, (size_t)(bytes < (1 << 30) ? bytes : 1 << 30), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, at += n, bytes -= n;
  }
  return true;
}

// sums_end: behind the last character of the checksums in the text.
static bool parse_metadata(JsonCursor *j, Safetensors *s, const char **sums_end) {
  if (!json_expect(j, '{')) return false;
  if (json_take(j, '}')) return true;
  do {
    char *key = json_string(j);
    char *value = key && json_expect(j, ':') ? json_string(j) : NULL;
    if (!value) {
      free(key);
      return false;
    }
    s->keys = xrealloc(s->keys, sizeof *s->keys * (size_t)(s->n_metadata + 1));
    s->values = xrealloc(s->values, sizeof *s->values * (size_t)(s->n_metadata + 1));
    bool twice = safetensors_metadata(s, key);
    s->keys[s->n_metadata] = key;
    s->values[s->n_metadata++] = value;
    if (twice) j->error = "a key that was there before";
    if (twice) return false;
    if (strcmp(key, SAFETENSORS_SUMS) == 0) *sums_end = j->at - 1;
  } while (json_take(j, ','));
  return json_expect(j, '}');
}

static bool parse_list(JsonCursor *j, int64_t *out, int most, int *n) {
  *n = 0;
  if (!json_expect(j, '[')) return false;
  if (json_take(j, ']')) return true;
  do {
    if (*n == most) {
      j->error = "too many dimensions";
      return false;
    }
    if (!json_integer(j, &out[(*n)++])) return false;
  } while (json_take(j, ','));
  return json_expect(j, ']');
}

static bool parse_entry(JsonCursor *j, SafetensorsEntry *e) {
  int64_t place[2] = {0, 0};
  int n_place = 0;
  e->rank = -1;
  if (!json_expect(j, '{')) return false;
  do {
    char *key = json_string(j);
    bool ok = key && json_expect(j, ':');
    bool twice = ok && ((strcmp(key, "dtype") == 0 && e->dtype[0]) || (strcmp(key, "shape") == 0 && e->rank >= 0) ||
                        (strcmp(key, "data_offsets") == 0 && n_place));
    if (twice) {
      j->error = "a key that was there before";
      ok = false;
    } else if (ok && strcmp(key, "dtype") == 0) {
      char *dtype = json_string(j);
      ok = dtype != NULL;
      if (ok) snprintf(e->dtype, sizeof e->dtype, "%s", dtype);
      free(dtype);
    } else if (ok && strcmp(key, "shape") == 0) {
      ok = parse_list(j, e->dim, NNC_MAX_RANK, &e->rank);
    } else if (ok && strcmp(key, "data_offsets") == 0) {
      ok = parse_list(j, place, 2, &n_place);
    } else if (ok) {
      ok = json_skip(j, 32);
    }
    free(key);
    if (!ok) return false;
  } while (json_take(j, ','));
  if (!json_expect(j, '}')) return false;
  if (!e->dtype[0] || e->rank < 0 || n_place != 2 || place[1] < place[0]) {
    j->error = "a tensor without dtype, shape or data_offsets";
    return false;
  }
  e->offset = place[0];
  e->bytes = place[1] - place[0];
  return true;
}

static bool parse_members(JsonCursor *j, Safetensors *s, const char **sums_end) {
  int capacity = 0;
  bool has_metadata = false;
  if (json_take(j, '}')) return true;
  do {
    char *name = json_string(j);
    bool ok = name && json_expect(j, ':');
    if (ok && strcmp(name, "__metadata__") == 0) {
      free(name);
      if (has_metadata) j->error = "__metadata__ was there before";
      ok = !has_metadata && parse_metadata(j, s, sums_end);
      has_metadata = true;
    } else if (ok) {
      if (s->n_entries == capacity) {
        capacity = capacity ? capacity * 2 : 64;
        s->entries = xrealloc(s->entries, sizeof *s->entries * (size_t)capacity);
      }
      SafetensorsEntry *e = &s->entries[s->n_entries++];
      memset(e, 0, sizeof *e);
      e->name = name;
      ok = parse_entry(j, e);
    } else {
      free(name);
    }
    if (!ok) return false;
  } while (json_take(j, ','));
  return json_expect(j, '}');
}

static bool parse_header(JsonCursor *j, Safetensors *s, const char **sums_end) {
  if (*j->at != '{') j->error = "it does not begin with '{'";
  if (!json_expect(j, '{') || !parse_members(j, s, sums_end)) return false;
  json_take(j, ' ');   // skips blanks, of which none is left to take
  if (j->at < j->end) j->error = "something behind the end of the header";
  return j->at == j->end;
}

// Sizes, for the types this runtime knows; others only have to lie inside the file.
static bool check_entries(Safetensors *s, int64_t data, int64_t file_bytes) {
  for (int i = 0; i < s->n_entries; i++) {
    SafetensorsEntry *e = &s->entries[i];
    NncDtype t;
    int64_t bytes = safetensors_dtype(e->dtype, &t) ? dtype_bytes(t) : -1;
    for (int d = 0; d < e->rank && bytes > 0; d++) {
      if (e->dim[d] && bytes > ((int64_t)1 << 62) / e->dim[d]) bytes = -2;
      else bytes *= e->dim[d];
    }
    if (e->offset > file_bytes - data || e->bytes > file_bytes - data - e->offset) {
      report_error("%s: truncated: tensor %s ends at byte %lld, the file has %lld", s->path, e->name,
                   (long long)(data + e->offset + e->bytes), (long long)file_bytes);
      return false;
    }
    if (bytes != -1 && bytes != e->bytes) {
      char shape[128];
      report_error("%s: tensor %s is %s%s but holds %lld bytes", s->path, e->name, e->dtype,
                   format_shape(e->rank, e->dim, shape, sizeof shape), (long long)e->bytes);
      return false;
    }
    e->offset += data;
  }
  return true;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(SafetensorsEntry *const *)a)->name, (*(SafetensorsEntry *const *)b)->name);
}

static int by_place(const void *a, const void *b) {
  const SafetensorsEntry *x = *(SafetensorsEntry *const *)a, *y = *(SafetensorsEntry *const *)b;
  return x->offset != y->offset ? (x->offset > y->offset) - (x->offset < y->offset)
                                : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

// Each name once; the tensors fill the data without holes and overlaps. Leaves s->sorted by name.
static bool check_layout(Safetensors *s, int64_t data, int64_t file_bytes) {
  s->sorted = xmalloc(sizeof(SafetensorsEntry *) * (size_t)s->n_entries);
  for (int i = 0; i < s->n_entries; i++) s->sorted[i] = &s->entries[i];
  qsort(s->sorted, (size_t)s->n_entries, sizeof *s->sorted, by_place);
  int64_t end = data;
  for (int i = 0; i < s->n_entries; i++) {
    const SafetensorsEntry *e = s->sorted[i];
    if (e->offset != end) {
      report_error("%s: tensor %s begins at byte %lld, the %s ends at %lld: %s", s->path, e->name, (long long)e->offset,
                   i ? "tensor before it" : "header", (long long)end, e->offset < end ? "they overlap" : "a hole");
      return false;
    }
    end += e->bytes;
  }
  if (end != file_bytes) {
    report_error("%s: %lld bytes behind the last tensor", s->path, (long long)(file_bytes - end));
    return false;
  }
  qsort(s->sorted, (size_t)s->n_entries, sizeof *s->sorted, by_name);
  for (int i = 1; i < s->n_entries; i++) {
    if (strcmp(s->sorted[i - 1]->name, s->sorted[i]->name) != 0) continue;
    report_error("%s: tensor %s is there twice", s->path, s->sorted[i]->name);
    return false;
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Checksums: docs/runtime.md, weight files

// Of the whole header as text, with zeros in the place of its own digits.
static bool check_header_sum(const Safetensors *s, const char *text, int64_t length, const char *sums, int64_t at) {
  char *copy = xmalloc((size_t)length), digits[CHECKSUM_DIGITS];
  memcpy(copy, text, (size_t)length);
  memset(copy + at, '0', CHECKSUM_DIGITS);
  checksum_print(checksum_of(copy, length), digits);
  free(copy);
  if (memcmp(digits, sums, CHECKSUM_DIGITS) == 0) return true;
  report_error("%s: damaged: the header does not have the checksum that it names", s->path);
  return false;
}

static bool check_tensor_sum(const Safetensors *s, const SafetensorsEntry *e, const char *expected) {
  enum { CHUNK = 1 << 20 };
  char *chunk = xmalloc(CHUNK), digits[CHECKSUM_DIGITS];
  Checksum *c = checksum_begin();
  bool ok = true;
  for (int64_t at = 0; at < e->bytes && ok; at += CHUNK) {
    int64_t n = e->bytes - at < CHUNK ? e->bytes - at : CHUNK;
    ok = safetensors_read(s, e, at, n, chunk);
    if (ok) checksum_add(c, chunk, n);
  }
  checksum_print(checksum_end(c), digits);
  free(chunk);
  if (!ok) return false;
  if (memcmp(digits, expected, CHECKSUM_DIGITS) == 0) return true;
  report_error("%s: damaged: tensor %s does not have its checksum", s->path, e->name);
  return false;
}

// sums_end: behind them in the text; NULL: the file has none.
static bool check_sums(Safetensors *s, const char *text, int64_t length, const char *sums_end) {
  const char *sums = safetensors_metadata(s, SAFETENSORS_SUMS), *kind = safetensors_metadata(s, SAFETENSORS_SUM_KIND);
  if (!sums && (!kind || strcmp(kind, SAFETENSORS_SUMS) != 0))
    return true;   // another program's own `checksum` is none
  int64_t n = sums ? (int64_t)strlen(sums) : 0;
  if (!sums || !kind || strcmp(kind, SAFETENSORS_SUMS) != 0 || sums_end - text < n ||
      memcmp(sums_end - n, sums, (size_t)n) != 0 || n != (s->n_entries + 1) * (CHECKSUM_DIGITS + 1) - 1) {
    report_error("%s: damaged: its checksums are incomplete", s->path);
    return false;
  }
  if (!check_header_sum(s, text, length, sums, sums_end - n - text)) return false;
  for (int i = 0; i < s->n_entries; i++)
    if (!check_tensor_sum(s, &s->entries[i], sums + (i + 1) * (CHECKSUM_DIGITS + 1))) return false;
  s->has_sums = true;
  return true;
}

bool safetensors_open(const char *path, Safetensors *s) {
  memset(s, 0, sizeof *s);
  s->path = xstrdup(path);
  s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);   // a pipe without a writer does not block
  struct stat st;
  if (s->fd < 0 || fstat(s->fd, &st) != 0) {
    report_error("cannot open %s: %s", path, strerror(errno));
    goto fail;
  }
  if (!S_ISREG(st.st_mode)) {
    report_error("%s is not a regular file", path);
    goto fail;
  }
  unsigned char head[8];
  uint64_t length = 0;
  if (st.st_size < 10 || !read_all(s->fd, head, 8, 0)) {
    report_error("%s: not a safetensors file: %lld bytes are too few", path, (long long)st.st_size);
    goto fail;
  }
  for (int i = 7; i >= 0; i--) length = length << 8 | head[i];
  if (length < 2 || length > (uint64_t)st.st_size - 8 || length > 100000000) {
    report_error("%s: not a safetensors file, or truncated: the header should have %llu bytes, the file has %lld", path,
                 (unsigned long long)length, (long long)st.st_size);
    goto fail;
  }
  char *text = xmalloc((size_t)length);
  JsonCursor j = {text, text + length, NULL};
  const char *sums_end = NULL;
  int64_t data = 8 + (int64_t)length;
  bool ok = read_all(s->fd, text, (int64_t)length, 8);
  if (!ok) {
    report_error("cannot read %s: %s", path, strerror(errno));
  } else if (!parse_header(&j, s, &sums_end)) {
    report_error("%s: not a safetensors file: header byte %lld: %s", path, (long long)(j.at - text),
                 j.error ? j.error : "malformed");
    ok = false;
  }
  ok = ok && check_entries(s, data, st.st_size) && check_layout(s, data, st.st_size) &&
       check_sums(s, text, (int64_t)length, sums_end);
  free(text);
  if (ok) return true;
fail:
  safetensors_close(s);
  return false;
}

void safetensors_close(Safetensors *s) {
  if (s->fd >= 0) close(s->fd);
  for (int i = 0; i < s->n_entries; i++) free(s->entries[i].name);
  for (int i = 0; i < s->n_metadata; i++) free(s->keys[i]), free(s->values[i]);
  free(s->keys), free(s->values), free(s->entries), free(s->sorted), free(s->path);
  memset(s, 0, sizeof *s);
  s->fd = -1;
}

const SafetensorsEntry *safetensors_find(const Safetensors *s, const char *name) {
  SafetensorsEntry *key = &(SafetensorsEntry){.name = (char *)name};   // only read
  SafetensorsEntry **found = s->n_entries ? bsearch(&key, s->sorted, (size_t)s->n_entries, sizeof key, by_name) : NULL;
  return found ? *found : NULL;
}

void safetensors_report_missing(const Safetensors *s, const char *name, const char *detail) {
  const char **names = xmalloc(sizeof *names * (size_t)s->n_entries);
  for (int i = 0; i < s->n_entries; i++) names[i] = s->entries[i].name;
  report_absent(s->path, "tensor", name, detail, s->n_entries, names);
  free(names);
}

const char *safetensors_metadata(const Safetensors *s, const char *key) {
  for (int i = 0; i < s->n_metadata; i++)
    if (strcmp(s->keys[i], key) == 0) return s->values[i];
  return NULL;
}

bool safetensors_read(const Safetensors *s, const SafetensorsEntry *e, int64_t from, int64_t bytes, void *out) {
  if (from < 0 || bytes > e->bytes - from) report_internal("reading beyond tensor %s", e->name);
  if (read_all(s->fd, out, bytes, e->offset + from)) return true;
  report_error("cannot read tensor %s of %s: %s", e->name, s->path, errno ? strerror(errno) : "the file ends early");
  return false;
}

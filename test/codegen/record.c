// With NNC_TEST_RECORD=FOLDER, every launch of a test in the emulator is written there with its buffers before and
// after, and the PTX of its module, so that bench/gpu/replay.c can run the same launches on a GPU and compare. Part of
// emulate.c. Format: docs/cuda.md, section "On a GPU".
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/codegen/emulate.h"

typedef struct RecordedData {
  uint64_t hash;
  int64_t at, bytes;
} RecordedData;
struct Record {
  FILE *text, *data;     // Owned
  int64_t size;          // of data
  RecordedData *known;   // Owned: what is in data already
  size_t n_known;
};

static FILE *record_open(const char *folder, const char *name, const char *suffix) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%s", folder, name, suffix);
  FILE *f = fopen(path, "wb");
  if (!f) {
    perror(path);
    exit(1);
  }
  return f;
}

// NULL: nothing is recorded. Files are named after the test program and the number of its module.
static Record *record_new(const char *(*ptx_of)(void *context, const char *arch), void *context, char *name,
                          size_t size) {
  static int n_modules;
  const char *folder = getenv("NNC_TEST_RECORD"), *arch = getenv("NNC_TEST_RECORD_ARCH");
  if (!folder || !*folder) return NULL;
  snprintf(name, size, "%s-%d", program_invocation_short_name, n_modules++);
  Record *r = calloc(1, sizeof *r);
  r->text = record_open(folder, name, "cases");
  r->data = record_open(folder, name, "data");
  FILE *f = record_open(folder, name, "ptx");
  fputs(ptx_of(context, arch ? arch : "sm_90a"), f);
  fclose(f);
  return r;
}

static void record_free(Record *r) {
  if (!r) return;
  fclose(r->text);
  fclose(r->data);
  free(r->known);
  free(r);
}

// Where the bytes are in the data file; equal ones are written once.
static int64_t record_bytes(Record *r, const void *p, int64_t bytes) {
  uint64_t hash = 14695981039346656037u;
  for (int64_t i = 0; i < bytes; i++) hash = (hash ^ ((const unsigned char *)p)[i]) * 1099511628211u;
  for (size_t i = 0; i < r->n_known; i++)
    if (r->known[i].hash == hash && r->known[i].bytes == bytes) return r->known[i].at;
  int64_t at = r->size, padded = (bytes + 15) / 16 * 16;
  fwrite(p, 1, (size_t)bytes, r->data);
  for (int64_t i = bytes; i < padded; i++) fputc(0, r->data);
  r->size += padded;
  r->known = realloc(r->known, (r->n_known + 1) * sizeof *r->known);
  r->known[r->n_known++] = (RecordedData){hash, at, bytes};
  return at;
}

static int64_t bytes_of(const NncEmuKernel *k, const EmulateLaunch *l, int i) {
  return l->arguments[i].bytes ? (int64_t)l->arguments[i].bytes : k->parameter_bytes[i];
}

// Before the launch: where each argument is. Owned by the caller.
static int64_t *record_before(Record *r, const NncEmuKernel *k, const EmulateLaunch *l) {
  int64_t *before = calloc((size_t)l->n + 1, sizeof *before);
  for (int i = 0; i < l->n; i++) before[i] = record_bytes(r, l->arguments[i].data, bytes_of(k, l, i));
  return before;
}

static void record_after(Record *r, const NncEmuKernel *k, const EmulateLaunch *l, const int64_t *before) {
  fprintf(r->text, "case %s\n", k->name);
  for (int i = 0; i < l->n; i++) {
    const EmulateArgument *a = &l->arguments[i];
    int shared = 0;
    while (shared < i && l->arguments[shared].data != a->data) shared++;
    if (!a->bytes) fprintf(r->text, "scalar %lld %lld\n", (long long)bytes_of(k, l, i), (long long)before[i]);
    else if (shared < i) fprintf(r->text, "same %d\n", shared);
    else
      fprintf(r->text, "buffer %c %g %lld %lld %lld\n", l->types ? l->types[i] : 'f', l->tolerance, (long long)a->bytes,
              (long long)before[i], (long long)record_bytes(r, a->data, (int64_t)a->bytes));
  }
  fprintf(r->text, "launch %s", k->name);
  for (int i = 0; i < 3; i++) fprintf(r->text, " %u", l->grid[i] ? l->grid[i] : 1);
  for (int i = 0; i < 3; i++) fprintf(r->text, " %u", l->block[i] ? l->block[i] : 1);
  fprintf(r->text, " %u %d", l->dynamic_bytes, l->n);
  for (int i = 0; i < l->n; i++) fprintf(r->text, " %d", i);
  fputc('\n', r->text);
}

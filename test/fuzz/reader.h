// A file of the runtime's own kind from the bytes of the fuzzer, under one name that is used again.
#ifndef NNC_TEST_FUZZ_READER_H
#define NNC_TEST_FUZZ_READER_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/runtime.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void progress_clear(void) {}   // no progress line is open: stands for runtime/progress.c

// The path of a file in memory that holds the bytes. Messages about it go nowhere.
static inline const char *input_file(const uint8_t *data, size_t size) {
  static int file = -1;
  static char path[64];
  if (file < 0) {
    file = memfd_create("input", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  }
  if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size) abort();
  return path;
}

static inline void check_column(Column *c) {
  uint64_t sum = 0;   // every byte of every record is there
  for (int64_t r = 0; r < c->records; r++)
    for (int64_t i = 0; i < c->record_bytes; i++) sum += (uint8_t)c->values[r * c->record_bytes + i];
  if (sum == UINT64_MAX) abort();
}

// Also after a failure: what the reader had made until then is the caller's.
static inline void free_column(Column *c) {
  free(c->path);
  if (!c->borrows) free(c->block);
}

#endif

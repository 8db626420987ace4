// offsets_verify.c: the independent check of a placement: a sweep over time with the live buffers in an array sorted by
// offset, in which a newcomer may not touch its two neighbours. Shares no code with the placement.
#include <stdlib.h>
#include <string.h>

#include "solver.h"
#include "support/alloc.h"
#include "support/input_error.h"

typedef struct Change {
  int64_t time;
  int kind;   // 0: ends, 1: begins; ends first, since lifetimes are half open
  int buffer;
} Change;

static int compare_changes(const void *left, const void *right) {
  const Change *a = left, *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (a->kind != b->kind) return a->kind - b->kind;
  return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

// Index in `live` (sorted by offset, no overlaps) of the first buffer at or above `offset`.
static int find_place(const OffsetBuffer *buffers, const int *live, int n_live, int64_t offset) {
  int low = 0, high = n_live;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (buffers[live[middle]].offset < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

static bool fail_overlap(InputError *error, const OffsetBuffer *a, const OffsetBuffer *b) {
  return input_fail(error, "buffers %lld and %lld overlap in time and space", (long long)a->id, (long long)b->id);
}

static bool sweep(const OffsetBuffer *buffers, const Change *changes, int n_changes, int *live, InputError *error) {
  int n_live = 0;
  for (int c = 0; c < n_changes; c++) {
    const OffsetBuffer *b = &buffers[changes[c].buffer];
    int place = find_place(buffers, live, n_live, b->offset);
    if (changes[c].kind == 0) {
      memmove(live + place, live + place + 1, (size_t)(n_live - place - 1) * sizeof *live);
      n_live--;
      continue;
    }
    if (place > 0 && buffers[live[place - 1]].offset + buffers[live[place - 1]].size > b->offset)
      return fail_overlap(error, &buffers[live[place - 1]], b);
    if (place < n_live && b->offset + b->size > buffers[live[place]].offset)
      return fail_overlap(error, b, &buffers[live[place]]);
    memmove(live + place + 1, live + place, (size_t)(n_live - place) * sizeof *live);
    live[place] = changes[c].buffer;
    n_live++;
  }
  return true;
}

bool offsets_verify(const OffsetBuffer *buffers, int n, int64_t arena_bytes, InputError *error) {
  Change *changes = allocate_array(2 * (size_t)n, sizeof *changes);
  int *live = allocate_array((size_t)n, sizeof *live);
  int n_changes = 0;
  bool valid = true;
  for (int i = 0; i < n && valid; i++) {
    const OffsetBuffer *b = &buffers[i];
    long long id = (long long)b->id;
    if (b->upper < b->lower || b->size < 0) valid = input_fail(error, "buffer %lld: bad lifetime or size", id);
    else if (b->offset < 0 || b->size > arena_bytes || b->offset > arena_bytes - b->size)
      valid = input_fail(error, "buffer %lld lies outside the arena", id);
    else if (b->align > 1 && b->offset % b->align != 0) valid = input_fail(error, "buffer %lld is not aligned", id);
    if (b->size == 0 || b->lower == b->upper) continue;
    changes[n_changes++] = (Change){b->lower, 1, i};
    changes[n_changes++] = (Change){b->upper, 0, i};
  }
  if (valid) {
    qsort(changes, (size_t)n_changes, sizeof *changes, compare_changes);
    valid = sweep(buffers, changes, n_changes, live, error);
  }
  free(changes);
  free(live);
  return valid;
}

// Maps that read an operand along another axis than they write: tiles of 32 x 32 elements go through shared memory, so
// that neighbouring threads read neighbours there and write neighbours here. A row of a tile has 33 places: neither
// direction meets a bank conflict.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/gpu/schedule.h"
#include "codegen/kernel/transposed.h"
#include "support/alloc.h"
#include "support/integers.h"
#include "support/text.h"

// LEAST: extents below leave most of a tile empty
enum { TILE = 32, PITCH = 33, THREADS = 256, ROWS = THREADS / TILE, LEAST = 8 };

// ---------------------------------------------------------------------------------------------------------------------

typedef struct Suffix {
  char text[16];
} Suffix;

static Suffix tile_name(int leaf) {
  Suffix s;
  snprintf(s.text, sizeof s.text, "_tile%d", leaf);
  return s;
}

// Emitter.load_tiled
static bool load_tile(Emitter *e, int buffer, const Access *a, Value *out) {
  const Transposed *t = e->tiled;
  int i = transposed_leaf(t, buffer, a);
  if (i >= 0) *out = schedule_shared_load(e, tile_name(i).text, nn_dtype_wide(t->leaf[i].dtype), t->place);
  return i >= 0;
}

static Value scaled_sum(Emitter *e, Value a, int64_t by, Value b) {
  return emit_index(e, "addi", emit_index_with(e, "muli", a, by), b);
}

static void bind(Emitter *e, int group, Value index) {
  e->index_id[group] = index.id;
  e->index_depth[group] = e->depth;
}

// Threads along the axis that is read. Those beyond an end read the last element again.
static void fill_tiles(Emitter *e, const Transposed *t, Value low, Value high, Value first_along, Value first_across) {
  const Nest *nest = t->nest;
  e->vector_group = -1;
  for (int step = 0; step < TILE / ROWS; step++) {
    Value row = emit_index_with(e, "addi", high, (int64_t)step * ROWS);
    schedule_forget(e, 1);
    bind(e, t->along, emit_index_with(e, "minui", emit_index(e, "addi", first_along, row), nest->extent[t->along] - 1));
    bind(e, t->across,
         emit_index_with(e, "minui", emit_index(e, "addi", first_across, low), nest->extent[t->across] - 1));
    Value place = scaled_sum(e, row, PITCH, low);
    for (int i = 0; i < t->n; i++)
      schedule_shared_store(e, tile_name(i).text, nn_dtype_wide(t->leaf[i].dtype), place,
                            emit_load(e, t->leaf[i].arg, t->leaf[i].dtype, &t->leaf[i].access));
  }
}

// Threads along the axis that is written.
static void write_points(Emitter *e, Transposed *t, Value low, Value high, Value first_along, Value first_across) {
  const Nest *nest = t->nest;
  Value i = emit_index(e, "addi", first_along, low),
        inside = emit_index_compare_with(e, "ult", i, nest->extent[t->along]);
  if_begin(e, inside);
  Value left = emit_index(e, "subi", emit_i64(e, nest->extent[t->across]), first_across),
        end = emit_index_with(e, "minui", left, TILE);
  Value row = for_begin(e, high, end, ROWS, 0, NULL, NULL, NULL);
  schedule_forget(e, 1);
  e->vector_group = t->along;
  e->vector_index[0] = i.id;
  bind(e, t->along, i);
  bind(e, t->across, emit_index(e, "addi", first_across, row));
  t->place = scaled_sum(e, low, PITCH, row);
  e->tiled = t;
  e->load_tiled = load_tile;
  kernel_emit_point(e);
  e->load_tiled = NULL;
  for_end(e, 0, NULL, NULL, NULL);
  if_end(e, 0, NULL, NULL, NULL, NULL);
}

static void add_head(GpuModule *m, const Kernel *k, const Transposed *t, int64_t blocks) {
  char *space = text_format("grid %lld x %d threads, tiles of %d x %d through shared memory: %d operand%s read along "
                            "an axis of %lld, results written along one of %lld",
                            (long long)blocks, THREADS, TILE, TILE, t->n, t->n == 1 ? "" : "s",
                            (long long)t->nest->extent[t->across], (long long)t->nest->extent[t->along]);
  kernel_comment(&m->m, k, space);
  free(space);
}

static void add_tiles(KernelFunction *f, const Transposed *t) {
  for (int i = 0; i < t->n; i++)
    function_add_array(f, tile_name(i).text, 3, TILE * PITCH, element_type(nn_dtype_wide(t->leaf[i].dtype)));
}

bool schedule_transpose(GpuModule *m, const Kernel *k, EmittedKernel *out) {
  Nest nest;
  Transposed t;
  Emitter e;
  nest_build(k, &nest);
  if (!transposed_find(k, &nest, LEAST, LEAST, &t)) return false;
  int64_t along = divide_up(nest.extent[t.along], TILE), across = divide_up(nest.extent[t.across], TILE), outer = 1;
  int groups[NN_MAX_RANK], n = 0;
  for (int g = 0; g < nest.n; g++)
    if (g != t.along && g != t.across) groups[n++] = g, outer *= nest.extent[g];
  int64_t blocks = outer * along * across;
  add_head(m, k, &t, blocks);
  schedule_begin(&e, m, k, k->name, k->n_args + k->n_results);
  add_tiles(&e.function, &t);
  schedule_forget(&e, 1);
  Value block = schedule_number(&e, GPU_BLOCK_X), tid = schedule_number(&e, GPU_THREAD_X);
  Value column = emit_index_with(&e, "remui", block, along), rest = emit_index_with(&e, "divui", block, along);
  Value row = emit_index_with(&e, "remui", rest, across);
  if (n) emit_split_index(&e, emit_index_with(&e, "divui", rest, across), n, groups);
  block_begin(&e);   // nothing is hoisted over the barrier
  Value low = emit_index_with(&e, "remui", tid, TILE), high = emit_index_with(&e, "divui", tid, TILE);
  Value first_along = emit_index_with(&e, "muli", column, TILE), first_across = emit_index_with(&e, "muli", row, TILE);
  fill_tiles(&e, &t, low, high, first_along, first_across);
  schedule_barrier(&e);
  write_points(&e, &t, low, high, first_along, first_across);
  block_end(&e);
  emitter_end(&e);
  schedule_launch(out, copy_string(k->name), blocks, THREADS, 1);
  return true;
}

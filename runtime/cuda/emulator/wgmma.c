// Hopper's wgmma with the layouts of the PTX ISA ("Asynchronous Warpgroup Level Matrix Multiply-Accumulate
// Instructions"). The four warps of a warpgroup multiply together; b, and a unless it lies in registers, are read from
// shared memory through descriptors. The operands are read at once, and until the wait they may not be overwritten,
// which stands for reading at any time. Accumulators hold a mark, a NaN that leads to the result, until a wait for
// their group returns the values.
#include "runtime/cuda/emulator/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
  WARPS = 4,
  THREADS = WARPS * EMU_LANES,
  ROWS = 64,
  DEPTH = 16,
  MAX_COLUMNS = 256,
  CHUNK = 16,
  CHUNKS = (ROWS + MAX_COLUMNS) * DEPTH * 2 / CHUNK,
  ADDRESS_MASK = 0x3ffff
};
// Bits of a form, the last operand; ORDER EMULATE: codegen/cuda/template/template_wgmma.c has the same.
enum { FORM_F16 = 1, FORM_REGISTERS = 2, FORM_TRANSPOSED_A = 4, FORM_TRANSPOSED_B = 8, FORM_COLUMNS = 8 };
// A mark is a NaN of these bits, 11 that count the products of an accumulator and 10 that are its place.
#define MARK 0xffe00000u
enum { PLACES = 512, PLACE_BITS = 10, VERSIONS = 1 << 11 };

struct EmuMatrixReads {
  uint64_t group;          // of the threads that issued it
  int warp;                // the warpgroup's first
  int lanes_left[WARPS];   // that have not waited
  int n;
  uint32_t *chunks;   // Owned: offsets in shared memory
};

struct EmuResult {
  float value;
  bool used;
  uint32_t version;
  uint64_t group;
};

// ---------------------------------------------------------------------------------------------------------------------
// Results on their way

static uint32_t place_of(uint32_t mark) { return mark & ((1u << PLACE_BITS) - 1); }
static uint32_t mark_of(const EmuThread *t, uint32_t place) {
  return MARK | t->results[place].version << PLACE_BITS | place;
}

static EmuResult *marked(EmuThread *t, uint32_t bits, const NncEmuSite *site) {
  uint32_t i = place_of(bits);
  if ((bits & MARK) != MARK || i >= (uint32_t)t->n_results) return NULL;
  if (t->results[i].used && mark_of(t, i) == bits) return &t->results[i];
  emu_fail(EMU_PENDING_COPY, site, "wgmma: an accumulator is used as it was before another product or a wait");
}

static uint32_t result_new(EmuThread *t, const NncEmuSite *site) {
  int i = 0;
  if (!t->results) t->results = calloc(PLACES, sizeof *t->results);
  if (!t->results) emu_fail(EMU_BAD_LAUNCH, site, "the emulator is out of memory");
  while (i < t->n_results && t->results[i].used) i++;
  if (i == PLACES) emu_fail(EMU_BAD_LAUNCH, site, "wgmma: more than %d accumulators of a thread in flight", PLACES);
  if (i == t->n_results) t->n_results++;
  t->results[i].used = true;
  return (uint32_t)i;
}

// ---------------------------------------------------------------------------------------------------------------------
// Operands

typedef struct Operand {
  uint64_t descriptor;
  int rows;          // or columns: what is not the depth
  bool transposed;   // the depth is not what lies together
} Operand;

typedef struct Reads {
  int n;
  uint32_t chunks[CHUNKS];
} Reads;

// Address of the 16 bytes that hold element (row, depth), without the swizzle. (PTX ISA, "Strides", "Canonical
// layouts", in bytes.)
static uint32_t address_of(const Operand *o, int row, int depth) {
  uint32_t start = (uint32_t)(o->descriptor & 0x3fff) << 4, leading = (uint32_t)(o->descriptor >> 16 & 0x3fff) << 4,
           stride = (uint32_t)(o->descriptor >> 32 & 0x3fff) << 4;
  int swizzle = (int)(o->descriptor >> 62), width = swizzle ? 256 >> swizzle : CHUNK;   // bytes of a row of the pattern
  int along = o->transposed ? row : depth, across = o->transposed ? depth : row;
  if (!swizzle) {
    uint32_t of_along = o->transposed ? stride : leading, of_across = o->transposed ? leading : stride;
    return start + (uint32_t)(along / 8) * of_along + (uint32_t)(across / 8) * of_across +
           (uint32_t)(across % 8 * CHUNK);
  }
  return start + (uint32_t)(along * 2 / width) * leading + (uint32_t)(along * 2 % width / CHUNK * CHUNK) +
         (uint32_t)(across / 8) * stride + (uint32_t)(across % 8 * width);
}

static uint32_t swizzled(uint32_t address, uint64_t descriptor) {
  static const uint32_t bits[4] = {0, 7, 3, 1};
  return address ^ (address >> 7 & bits[descriptor >> 62]) << 4;
}

static void check_descriptor(const Operand *o, const char *name, const NncEmuSite *site) {
  uint32_t start = (uint32_t)(o->descriptor & 0x3fff) << 4;
  if (o->descriptor & 0x3ff1c000c000c000u)
    emu_fail(EMU_MISALIGNED, site, "wgmma: the descriptor of %s, 0x%016llx, has bits that mean nothing", name,
             (unsigned long long)o->descriptor);
  if (o->descriptor >> 49 & 7)
    emu_fail(EMU_BAD_LAUNCH, site, "wgmma: a base offset in the descriptor of %s, which the emulator does not know",
             name);
  if (o->descriptor >> 62 && start >> 7 & (7u >> ((o->descriptor >> 62) - 1)))
    emu_fail(EMU_MISALIGNED, site,
             "misaligned: the swizzle of %s begins at address 0x%05x, which is no multiple of %d bytes", name,
             start & ~0x7fu, 2048 >> (o->descriptor >> 62));
}

// Reads it into `to` (rows, DEPTH).
static void read_operand(EmuThread *group, const Operand *o, const char *name, bool f16, float *to, Reads *reads,
                         const NncEmuSite *site) {
  EmuWorker *w = group->worker;
  uint32_t base = (uint32_t)((uintptr_t)w->shared & ADDRESS_MASK);
  check_descriptor(o, name, site);
  for (int i = 0; i < o->rows * DEPTH / 8; i++) {
    int row = o->transposed ? i / DEPTH * 8 : i / 2, depth = o->transposed ? i % DEPTH : i % 2 * 8;
    uint32_t offset = (swizzled(address_of(o, row, depth), o->descriptor) - base) & ADDRESS_MASK;
    for (int v = 0; v < WARPS; v++) emu_matrix_access(group + v * EMU_LANES, offset, CHUNK, site);
    reads->chunks[reads->n++] = offset;
    uint16_t elements[8];
    memcpy(elements, w->shared + offset, CHUNK);
    for (int j = 0; j < 8; j++) {
      float x = f16 ? emu_from_f16(elements[j]) : emu_from_bf16(elements[j]);
      if (o->transposed) to[(row + j) * DEPTH + depth] = x;
      else to[row * DEPTH + depth + j] = x;
    }
  }
}

// Of lane l, group g = l / 4 and place p = l % 4: rows g and g + 8 of the warp's 16, depths 2 p, 2 p + 1 and those 8
// on.
static void read_registers(EmuThread *group, int at, bool f16, float *to) {
  for (int i = 0; i < THREADS; i++)
    for (int r = 0; r < 4; r++)
      for (int h = 0; h < 2; h++) {
        uint16_t bits = (uint16_t)(group[i].words[at + r] >> 16 * h);
        int row = i / EMU_LANES * 16 + i % EMU_LANES / 4 + 8 * (r % 2), depth = i % 4 * 2 + 8 * (r / 2) + h;
        to[row * DEPTH + depth] = f16 ? emu_from_f16(bits) : emu_from_bf16(bits);
      }
}

static void keep_reads(EmuThread *group, const Reads *reads, const NncEmuSite *site) {
  EmuWorker *w = group->worker;
  EmuMatrixReads *all = realloc(w->matrix_reads, ((size_t)w->n_matrix_reads + 1) * sizeof *all);
  if (all) w->matrix_reads = all;
  uint32_t *chunks = all ? malloc((size_t)reads->n * sizeof *chunks) : NULL;
  if (!chunks) emu_fail(EMU_BAD_LAUNCH, site, "the emulator is out of memory");
  memcpy(chunks, reads->chunks, (size_t)reads->n * sizeof *chunks);
  all[w->n_matrix_reads++] = (EmuMatrixReads){.group = group->wgmma_groups,
                                              .warp = group->warp,
                                              .lanes_left = {EMU_LANES, EMU_LANES, EMU_LANES, EMU_LANES},
                                              .n = reads->n,
                                              .chunks = chunks};
}

// ---------------------------------------------------------------------------------------------------------------------
// The product

static void check_same(EmuThread *group, int from, const NncEmuSite *site) {
  for (int i = 0; i < THREADS; i++) {
    EmuThread *t = &group[i];
    char name[48], first[48];
    emu_thread_name(t, name);
    emu_thread_name(group, first);
    if (t->site != group->site || t->n_words != group->n_words)
      emu_fail(EMU_DIVERGENCE, site, "divergent wgmma: threads %s and %s of a warpgroup are at two of them: %s", first,
               name, t->site == site ? group->site->text : t->site->text);
    for (int j = from; j < t->n_words; j++)
      if (t->words[j] != group->words[j])
        emu_fail(EMU_BAD_LANES, site, "wgmma: descriptors or flags of threads %s and %s of a warpgroup differ", first,
                 name);
    if (t->wgmma_groups != group->wgmma_groups)
      emu_fail(EMU_DIVERGENCE, site, "wgmma: threads %s and %s have committed different numbers of groups", first,
               name);
  }
}

static void multiply(EmuThread *group, const NncEmuSite *site) {
  int n = group->n_words;
  uint32_t form = (uint32_t)group->words[n - 1];
  int columns = (int)(form >> FORM_COLUMNS), sums = columns / 2, at = sums;
  bool f16 = form & FORM_F16, registers = form & FORM_REGISTERS, scale = group->words[n - 2] & 1;
  static _Thread_local float a[ROWS * DEPTH], b[MAX_COLUMNS * DEPTH];
  static _Thread_local Reads reads;
  check_same(group, registers ? at + 4 : at, site);
  reads.n = 0;
  if (registers) read_registers(group, at, f16, a);
  else read_operand(group, &(Operand){group->words[at], ROWS, form & FORM_TRANSPOSED_A}, "a", f16, a, &reads, site);
  read_operand(group, &(Operand){group->words[at + (registers ? 4 : 1)], columns, form & FORM_TRANSPOSED_B}, "b", f16,
               b, &reads, site);
  keep_reads(group, &reads, site);
  for (int i = 0; i < THREADS; i++) {
    EmuThread *t = &group[i];
    for (int j = 0; j < sums; j++) {
      int row = i / EMU_LANES * 16 + i % EMU_LANES / 4 + 8 * (j / 2 % 2), column = j / 4 * 8 + i % 4 * 2 + j % 2;
      EmuResult *before = marked(t, (uint32_t)t->words[j], site);
      double sum = !scale   ? 0
                   : before ? (double)before->value
                            : (double)(union {
                                uint32_t u;
                                float f;
                              }){.u = (uint32_t)t->words[j]}
                                  .f;
      for (int k = 0; k < DEPTH; k++) sum += (double)a[row * DEPTH + k] * (double)b[column * DEPTH + k];
      uint32_t at_result = before ? place_of((uint32_t)t->words[j]) : result_new(t, site);
      EmuResult *result = &t->results[at_result];
      result->value = (float)sum;
      result->group = t->wgmma_groups;
      result->version = (result->version + 1) % VERSIONS;
      t->words[j] = mark_of(t, at_result);
    }
  }
}

void nnc_emu_wgmma(uint64_t *words, uint32_t n, const NncEmuSite *site) {
  EmuThread *t = emu_thread(), *group = &t->worker->threads[t->warp / WARPS * THREADS];
  uint32_t form = (uint32_t)words[n - 1], sums = (form >> FORM_COLUMNS) / 2;
  if (t->worker->n_threads < t->warp / WARPS * THREADS + THREADS)
    emu_fail(EMU_DIVERGENCE, site, "wgmma: warp %d has no warpgroup of %d warps", t->warp, WARPS);
  bool touched = form & FORM_REGISTERS;
  for (uint32_t i = 0; i < sums; i++) touched |= !marked(t, (uint32_t)words[i], site);
  if (touched && !t->wgmma_fenced)
    emu_fail(EMU_RACE, site, "wgmma: its registers were set with no wgmma.fence since the last group or wait");
  t->site = site;
  t->words = words;
  t->n_words = (int)n;
  t->state = EMU_IN_WARPGROUP;
  for (int i = THREADS - 1; i >= 0; i--)
    if (group[i].state != EMU_IN_WARPGROUP) {
      emu_yield();
      return;
    }
  for (int i = 0; i < THREADS; i++) group[i].state = EMU_READY;
  multiply(group, site);
}

// ---------------------------------------------------------------------------------------------------------------------
// Order

void nnc_emu_wgmma_fence(void) { emu_thread()->wgmma_fenced = true; }

void nnc_emu_wgmma_commit(void) {
  EmuThread *t = emu_thread();
  t->wgmma_groups++;
  t->wgmma_fenced = false;
}

static bool done(const EmuThread *t, uint64_t group, uint64_t groups_pending) {
  return group + groups_pending < t->wgmma_groups;
}

// Reads of groups that this thread waited for: of its warp's they are over when its last lane comes.
static void finish_reads(EmuThread *t, uint64_t groups_pending) {
  EmuWorker *w = t->worker;
  int kept = 0;
  for (int i = 0; i < w->n_matrix_reads; i++) {
    EmuMatrixReads *r = &w->matrix_reads[i];
    int v = t->warp - r->warp, left = 0;
    if (v >= 0 && v < WARPS && done(t, r->group, groups_pending) && r->group >= t->wgmma_waited &&
        --r->lanes_left[v] == 0)
      for (int j = 0; j < r->n; j++) emu_matrix_release(t, r->chunks[j], CHUNK);
    for (int j = 0; j < WARPS; j++) left += r->lanes_left[j];
    if (left) w->matrix_reads[kept++] = *r;
    else free(r->chunks);
  }
  w->n_matrix_reads = kept;
  if (t->wgmma_groups > groups_pending && t->wgmma_groups - groups_pending > t->wgmma_waited)
    t->wgmma_waited = t->wgmma_groups - groups_pending;
}

void nnc_emu_wgmma_wait(uint64_t *words, uint32_t n, const NncEmuSite *site) {
  EmuThread *t = emu_thread();
  uint64_t pending = words[n - 1];
  finish_reads(t, pending);
  for (uint32_t i = 0; i + 1 < n; i++) {
    EmuResult *r = marked(t, (uint32_t)words[i], site);
    if (!r || !done(t, r->group, pending)) continue;
    words[i] = (union {
                 float f;
                 uint32_t u;
               }){.f = r->value}
                   .u;
    r->used = false;
    t->wgmma_fenced = false;
  }
}

// The same with the registers of PTX text that may hold a mark: copies of one get the same value, and what a register
// has left of an earlier product, which nothing may read, stays.
void nnc_emu_wgmma_wait_registers(uint64_t *words, uint32_t n, const NncEmuSite *site) {
  EmuThread *t = emu_thread();
  (void)site;
  uint64_t pending = words[n - 1];
  finish_reads(t, pending);
  for (uint32_t i = 0; i + 1 < n; i++) {
    uint32_t mark = (uint32_t)words[i], at = place_of(mark);
    EmuResult *r = (mark & MARK) == MARK && at < (uint32_t)t->n_results ? &t->results[at] : NULL;
    if (!r || !r->used || mark_of(t, at) != mark || !done(t, r->group, pending)) continue;
    for (uint32_t j = i; j + 1 < n; j++)
      if ((uint32_t)words[j] == mark) memcpy(&words[j], &(uint64_t){0}, 8), memcpy(&words[j], &r->value, 4);
    r->used = false;
    t->wgmma_fenced = false;
  }
}

void emu_wgmma_begin(EmuThread *t) {
  t->n_results = 0;
  t->wgmma_groups = t->wgmma_waited = 0;
  t->wgmma_fenced = false;
  t->n_async_fences = 0;
  memset(t->fence_knows, 0, sizeof t->fence_knows);
}

void emu_wgmma_end(EmuThread *t) {
  for (int i = 0; i < t->worker->n_matrix_reads; i++) {
    const EmuMatrixReads *r = &t->worker->matrix_reads[i];
    if (t->warp >= r->warp && t->warp < r->warp + WARPS && r->group >= t->wgmma_waited)
      emu_fail(EMU_PENDING_COPY, t->site, "wgmma: the thread ends and has not waited for it");
  }
}

void emu_wgmma_free(EmuWorker *w) {
  for (int i = 0; i < w->n_matrix_reads; i++) free(w->matrix_reads[i].chunks);
  free(w->matrix_reads);
}

// What this thread has written to shared memory so far may be read by wgmma behind a barrier, and what others have, by
// this thread, if a barrier lies in between: the fence may stand anywhere on the way (PTX ISA, "Causality Order").
void nnc_emu_async_fence(void) {
  EmuThread *t = emu_thread();
  memcpy(t->fence_knows, t->worker->known[t->warp], sizeof t->fence_knows);
  t->async_fences[t->n_async_fences++ % EMU_FENCES] = t->worker->now++;
}

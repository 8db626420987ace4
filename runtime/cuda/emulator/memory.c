// What a GPU does not check. Every granule of shared memory has a state (gap, unwritten, being copied to, written), its
// last writer and its last readers with the time of the access; two accesses by different threads, at least one of them
// a write, need a barrier in between. Order is kept per warp as in a vector clock (Lamport 1978; FastTrack, Flanagan
// and Freund, PLDI 2009). Global memory is checked against the ranges of the launch.
#include "runtime/cuda/emulator/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// it begins at 0 in the 18 bits that descriptors of wgmma have; 0xff…: NaN in every floating-point type
enum { SHARED_ALIGN = 1 << 18, POISON = 0xff };

void emu_memory_destroy(EmuWorker *w) {
  free(w->shared);
  free(w->states);
  free(w->initial_states);
  free(w->cells);
  free(w->write_sites);
  free(w->in_flight);
}

static bool reserve(EmuWorker *w, uint32_t bytes) {
  if (bytes <= w->capacity) return true;
  uint32_t capacity = (bytes + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
  emu_memory_destroy(w);
  w->shared = aligned_alloc(SHARED_ALIGN, capacity);
  w->states = malloc(capacity);
  w->initial_states = malloc(capacity);
  w->cells = calloc(capacity, sizeof *w->cells);
  w->write_sites = calloc(capacity, sizeof *w->write_sites);
  w->in_flight = calloc(capacity, sizeof *w->in_flight);
  bool complete = w->shared && w->states && w->initial_states && w->cells && w->write_sites && w->in_flight;
  w->capacity = complete ? capacity : 0;
  if (w->capacity) return true;
  emu_memory_destroy(w);
  w->shared = NULL;
  w->states = w->initial_states = NULL;
  w->cells = NULL;
  w->write_sites = NULL;
  w->in_flight = NULL;
  return false;
}

bool emu_memory_begin_launch(EmuWorker *w) {
  const NncEmuKernel *k = w->launch->kernel;
  w->dynamic_begin = (uint32_t)k->layout_bytes;
  if (w->launch->aligned_shared) w->dynamic_begin = (w->dynamic_begin + 1023) / 1024 * 1024;
  w->shared_bytes = w->dynamic_begin + w->launch->dynamic_bytes;
  w->granule_shift = k->granule >= 4 ? 2 : k->granule >= 2 ? 1 : 0;
  if (!reserve(w, w->shared_bytes + 16)) return false;
  size_t granules = ((size_t)w->shared_bytes >> w->granule_shift) + 1;
  memset(w->initial_states, EMU_GAP, granules);
  for (int64_t i = 0; i < k->n_variables; i++)
    memset(w->initial_states + (k->variables[i].offset >> w->granule_shift), EMU_UNWRITTEN,
           (size_t)(k->variables[i].bytes + (1 << w->granule_shift) - 1) >> w->granule_shift);
  memset(w->initial_states + (w->dynamic_begin >> w->granule_shift), EMU_UNWRITTEN,
         w->launch->dynamic_bytes >> w->granule_shift);
  memset(w->cells, 0, granules * sizeof *w->cells);
  memset(w->in_flight, 0, granules * sizeof *w->in_flight);
  memset(w->known, 0, sizeof w->known);
  w->now = 1;
  return true;
}

void emu_memory_begin_block(EmuWorker *w) {
  memcpy(w->states, w->initial_states, ((size_t)w->shared_bytes >> w->granule_shift) + 1);
  memset(w->shared, POISON, w->shared_bytes);
  w->repeated.bytes = 0;
  uint32_t all = w->n_warps == 32 ? 0xffffffffu : (1u << w->n_warps) - 1;
  emu_order_warps(w, all, NULL, all);
}

void emu_order_warps(EmuWorker *w, uint32_t releasing, const uint32_t *times, uint32_t acquiring) {
  uint32_t joined[EMU_MAX_WARPS] = {0};
  for (uint32_t rest = releasing; rest; rest &= rest - 1) {
    uint32_t *known = w->known[__builtin_ctz(rest)];
    for (int v = 0; v < w->n_warps; v++)
      if (known[v] > joined[v]) joined[v] = known[v];
  }
  for (uint32_t rest = releasing; rest; rest &= rest - 1) {
    int v = __builtin_ctz(rest);
    uint32_t time = times && !(acquiring >> v & 1) ? times[v] : w->now;
    if (time > joined[v]) joined[v] = time;
  }
  for (uint32_t rest = acquiring; rest; rest &= rest - 1) memcpy(w->known[__builtin_ctz(rest)], joined, sizeof joined);
  w->now++;
}

// ---------------------------------------------------------------------------------------------------------------------
// Shared memory

void *nnc_emu_shared_base(void) { return emu_worker->shared; }
void *nnc_emu_dynamic_base(void) { return emu_worker->shared + emu_worker->dynamic_begin; }

static const char *kind_name(uint32_t kind) {
  return kind & EMU_ATOMIC ? "atomic access" : kind & EMU_WRITE ? "write" : "read";
}

// "'tile' + 128" or "dynamic shared memory + 16"; outside: beside the variable that ends or begins next to it.
static const char *place(const EmuWorker *w, int64_t offset, char buf[160]) {
  const NncEmuKernel *k = w->launch->kernel;
  if (w->launch->dynamic_bytes && offset >= w->dynamic_begin) {
    snprintf(buf, 160, "dynamic shared memory + %lld (of %u bytes)", (long long)(offset - w->dynamic_begin),
             w->launch->dynamic_bytes);
    return buf;
  }
  const NncEmuVariable *best = NULL;
  for (int64_t i = 0; i < k->n_variables; i++)
    if (!best || (k->variables[i].offset <= offset && k->variables[i].offset > best->offset)) best = &k->variables[i];
  if (best)
    snprintf(buf, 160, "shared '%s' + %lld (of %lld bytes)", best->name, (long long)(offset - best->offset),
             (long long)best->bytes);
  else snprintf(buf, 160, "shared memory, of which the kernel has none");
  return buf;
}

_Noreturn static void fail_race(EmuThread *t, uint32_t offset, uint32_t other, const char *this, const char *that,
                                const NncEmuSite *site) {
  char buf[160], name[48];
  emu_fail(EMU_RACE, site, "race: %s of %s, which thread %s %s without a barrier in between", this,
           place(t->worker, offset, buf), emu_thread_name(&t->worker->threads[other], name), that);
}

static inline bool ordered(const EmuWorker *w, const EmuThread *t, uint32_t other, uint32_t time) {
  return time <= w->known[t->warp][other / EMU_LANES];
}

static bool readers_ordered(const EmuWorker *w, const EmuThread *t, const EmuCell *c) {
  for (uint32_t rest = c->read_warps; rest; rest &= rest - 1)
    if (c->read_time > w->known[t->warp][__builtin_ctz(rest)]) return false;
  return true;
}

static void note_read(EmuWorker *w, EmuThread *t, EmuCell *c, uint32_t offset, const NncEmuSite *site) {
  if (c->writer != t->index && !ordered(w, t, c->writer, c->write_time))
    fail_race(t, offset, c->writer, "read", "wrote", site);
  if (c->read_time == w->now && (c->read_warps >> t->warp & 1) && (c->many_readers || c->reader == t->index)) return;
  if (!c->read_warps || readers_ordered(w, t, c)) {
    c->read_warps = 1u << t->warp;
    c->reader = t->index;
    c->many_readers = 0;
  } else if (c->many_readers || c->reader != t->index) {
    c->many_readers = 1;
    c->read_warps |= 1u << t->warp;
  }
  c->read_time = w->now;
}

static void note_write(EmuWorker *w, EmuThread *t, uint32_t granule, uint32_t offset, bool atomic,
                       const NncEmuSite *site) {
  EmuCell *c = &w->cells[granule];
  bool both_atomic = atomic && c->atomic;
  char buf[160];
  if (w->in_flight[granule])
    emu_fail(EMU_RACE, site,
             "race: write of %s, which a wgmma in flight reads: a wait for its group (wgmma.wait_group) is missing",
             place(w, offset, buf));
  if (w->states[granule] != EMU_UNWRITTEN && c->writer != t->index && !both_atomic &&
      !ordered(w, t, c->writer, c->write_time))
    fail_race(t, offset, c->writer, atomic ? "atomic access" : "write", "wrote", site);
  if (c->read_warps && (c->many_readers || c->reader != t->index) && !readers_ordered(w, t, c))
    fail_race(t, offset, c->reader, atomic ? "atomic access" : "write", "read", site);
  *c = (EmuCell){.write_time = w->now, .writer = t->index, .atomic = atomic};
  w->write_sites[granule] = site;
}

static inline uint32_t offset_in_block(EmuThread *t, const void *p, uint32_t bytes, uint32_t align, const char *what,
                                       const NncEmuSite *site) {
  EmuWorker *w = t->worker;
  uintptr_t offset = (uintptr_t)p - (uintptr_t)w->shared;
  char buf[160];
  if (offset >= w->shared_bytes || bytes > w->shared_bytes - offset)
    emu_fail(EMU_OUT_OF_BOUNDS, site, "out of bounds: %s of %u bytes at %s", what, bytes,
             place(w, (int64_t)offset, buf));
  if (offset & (align - 1))
    emu_fail(EMU_MISALIGNED, site, "misaligned: %s of %u bytes at %s needs an address that is a multiple of %u", what,
             bytes, place(w, (int64_t)offset, buf), align);
  return (uint32_t)offset;
}

void emu_shared_access(EmuThread *t, const void *p, uint32_t bytes, uint32_t align, uint32_t kind,
                       const NncEmuSite *site) {
  EmuWorker *w = t->worker;
  if (!bytes) return;
  uint32_t offset = offset_in_block(t, p, bytes, align, kind_name(kind), site);
  int shift = w->granule_shift;
  char buf[160];
  for (uint32_t i = offset >> shift; i <= (offset + bytes - 1) >> shift; i++) {
    uint8_t state = w->states[i];
    uint32_t at = i << shift;
    if (state == EMU_GAP)
      emu_fail(EMU_OUT_OF_BOUNDS, site, "out of bounds: %s of %u bytes at %s", kind_name(kind), bytes,
               place(w, offset, buf));
    if (state == EMU_COPYING)
      emu_fail(EMU_PENDING_COPY, site,
               "%s of %s, to which thread %u copies asynchronously: a wait for its group (cp.async.wait) is missing",
               kind_name(kind), place(w, at, buf), w->cells[i].writer);
    if ((kind & (EMU_READ | EMU_ATOMIC)) && state == EMU_UNWRITTEN)
      emu_fail(EMU_UNINITIALIZED, site, "%s of %s, which was never written", kind_name(kind), place(w, at, buf));
    if (kind == EMU_READ) {
      note_read(w, t, &w->cells[i], at, site);
    } else {
      note_write(w, t, i, at, kind & EMU_ATOMIC, site);
      w->states[i] = EMU_WRITTEN;
    }
  }
}

void emu_mark_copying(EmuThread *t, const void *p, uint32_t bytes, const NncEmuSite *site) {
  EmuWorker *w = t->worker;
  emu_shared_access(t, p, bytes, bytes, EMU_WRITE, site);
  uint32_t offset = (uint32_t)((const char *)p - w->shared);
  memset(w->shared + offset, POISON, bytes);
  memset(w->states + (offset >> w->granule_shift), EMU_COPYING, bytes >> w->granule_shift);
}

void emu_mark_copied(EmuThread *t, uint32_t offset, uint32_t bytes) {
  EmuWorker *w = t->worker;
  for (uint32_t i = offset >> w->granule_shift; i < (offset + bytes) >> w->granule_shift; i++) {
    w->states[i] = EMU_WRITTEN;
    w->cells[i].write_time = w->now;
  }
}

// The fence of this thread behind the write, or that of the writer that made it ready, and that this warp knows of:
// times of fences rise.
static void check_fenced(const EmuWorker *w, const EmuThread *t, const EmuCell *c, uint32_t offset,
                         const NncEmuSite *site) {
  const EmuThread *writer = &w->threads[c->writer];
  uint32_t n = writer->n_async_fences, first = n > EMU_FENCES ? n - EMU_FENCES : 0;
  char buf[160], name[48];
  if (c->write_time <= t->fence_knows[writer->warp]) return;
  while (first < n && writer->async_fences[first % EMU_FENCES] < c->write_time) first++;
  if (first == n)
    emu_fail(EMU_UNFENCED, site, "wgmma reads %s, which thread %s wrote without a fence.proxy.async behind it",
             place(w, offset, buf), emu_thread_name(writer, name));
  if (!ordered(w, t, c->writer, writer->async_fences[first % EMU_FENCES]))
    emu_fail(EMU_UNFENCED, site,
             "wgmma reads %s, and no barrier follows the fence.proxy.async of thread %s, which wrote it",
             place(w, offset, buf), emu_thread_name(writer, name));
}

void emu_matrix_access(EmuThread *t, uint32_t offset, uint32_t bytes, const NncEmuSite *site) {
  EmuWorker *w = t->worker;
  emu_shared_access(t, w->shared + offset, bytes, bytes, EMU_READ, site);
  for (uint32_t i = offset >> w->granule_shift; i < (offset + bytes) >> w->granule_shift; i++) {
    check_fenced(w, t, &w->cells[i], i << w->granule_shift, site);
    w->in_flight[i]++;
  }
}

void emu_matrix_release(EmuThread *t, uint32_t offset, uint32_t bytes) {
  EmuWorker *w = t->worker;
  for (uint32_t i = offset >> w->granule_shift; i < (offset + bytes) >> w->granule_shift; i++) {
    w->in_flight[i]--;
    note_read(w, t, &w->cells[i], i << w->granule_shift, t->site);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Global memory

// the last that begins at or before address
static const EmuRange *find_range(const EmuLaunch *l, uintptr_t address) {
  int low = 0, high = l->n_ranges;
  while (low < high) {
    int middle = (low + high) / 2;
    if (l->ranges[middle].address <= address) low = middle + 1;
    else high = middle;
  }
  return low ? &l->ranges[low - 1] : NULL;
}

static inline bool contains(const EmuRange *r, uintptr_t address, uint64_t bytes) {
  return address >= r->address && address - r->address < r->bytes && bytes <= r->bytes - (address - r->address);
}

static inline const EmuRange **range_slot(EmuWorker *w, const NncEmuSite *site) {
  return &w->range_of_site[((uintptr_t)site >> 3) % EMU_RANGE_CACHE];
}

void emu_global_access(EmuThread *t, const void *p, uint64_t bytes, uint32_t align, uint32_t kind,
                       const NncEmuSite *site) {
  EmuWorker *w = t->worker;
  uintptr_t address = (uintptr_t)p;
  if (!bytes) return;
  const EmuRange **cached = range_slot(w, site), *r = *cached;
  if (!r || !contains(r, address, bytes)) {
    r = find_range(w->launch, address);
    if (r && contains(r, address, bytes)) {
      *cached = r;
    } else {
      const EmuRange *next = r ? r + 1 : w->launch->ranges;
      if (next >= w->launch->ranges + w->launch->n_ranges) next = NULL;
      if (r && (!next || address - r->address - r->bytes <= next->address - address))
        emu_fail(EMU_OUT_OF_BOUNDS, site,
                 "out of bounds: %s of %llu bytes in global memory at '%s' + %llu (of %llu bytes)", kind_name(kind),
                 (unsigned long long)bytes, r->name, (unsigned long long)(address - r->address),
                 (unsigned long long)r->bytes);
      if (next)
        emu_fail(EMU_OUT_OF_BOUNDS, site,
                 "out of bounds: %s of %llu bytes in global memory, %llu bytes before '%s' (of %llu bytes)",
                 kind_name(kind), (unsigned long long)bytes, (unsigned long long)(next->address - address), next->name,
                 (unsigned long long)next->bytes);
      emu_fail(EMU_OUT_OF_BOUNDS, site, "out of bounds: %s of %llu bytes at %p, and no global memory is allocated",
               kind_name(kind), (unsigned long long)bytes, p);
    }
  }
  if (address & (align - 1))
    emu_fail(EMU_MISALIGNED, site,
             "misaligned: %s of %llu bytes in global memory at '%s' + %llu needs an address that is a multiple of %u",
             kind_name(kind), (unsigned long long)bytes, r->name, (unsigned long long)(address - r->address), align);
}

// ---------------------------------------------------------------------------------------------------------------------
// Called from kernels

// Where lanes of a warp store to one place with one instruction, one of them does it (CUDA C++ Programming Guide, "SIMT
// Architecture"): no race if all have the same value, which is there to look at once the store is done.
static bool repeats(EmuWorker *w, const EmuThread *t, uintptr_t offset, int64_t bytes, const NncEmuSite *site) {
  if (offset >= w->shared_bytes || bytes > (int64_t)sizeof w->repeated.before ||
      (uint64_t)bytes > w->shared_bytes - offset)
    return false;
  for (uintptr_t i = offset >> w->granule_shift; i <= (offset + (uintptr_t)bytes - 1) >> w->granule_shift; i++) {
    const EmuCell *c = &w->cells[i];
    if (w->states[i] != EMU_WRITTEN || w->write_sites[i] != site || c->writer == t->index || c->atomic ||
        c->read_warps || w->in_flight[i] || (c->writer / EMU_LANES != t->warp && !w->launch->equal_stores) ||
        ordered(w, t, c->writer, c->write_time))
      return false;
    w->repeated.other = c->writer;
  }
  w->repeated.offset = (uint32_t)offset;
  w->repeated.bytes = (uint32_t)bytes;
  w->repeated.site = site;
  memcpy(w->repeated.before, w->shared + offset, (size_t)bytes);
  return true;
}

void emu_check_repeated(EmuWorker *w) {
  uint32_t bytes = w->repeated.bytes;
  if (!bytes) return;
  w->repeated.bytes = 0;
  if (memcmp(w->shared + w->repeated.offset, w->repeated.before, bytes) != 0)
    fail_race(w->running, w->repeated.offset, w->repeated.other, "write", "wrote another value to", w->repeated.site);
}

static __attribute__((noinline)) void check_shared(const void *p, uint32_t bytes, uint32_t align, uint32_t kind,
                                                   const NncEmuSite *site) {
  EmuWorker *w = emu_worker;
  emu_check_repeated(w);
  if (kind == EMU_WRITE && repeats(w, w->running, (uintptr_t)p - (uintptr_t)w->shared, bytes, site)) return;
  emu_shared_access(w->running, p, bytes, align, kind, site);
}

// A read that changes nothing of what is known about its granules: since the last barrier this thread alone, or several
// of which one is of its warp, have read them.
static inline bool is_known_read(const EmuWorker *w, const EmuThread *t, uintptr_t first, uintptr_t last) {
  const uint32_t *known = w->known[t->warp];
  for (uintptr_t i = first; i <= last; i++) {
    const EmuCell *c = &w->cells[i];
    if (w->states[i] != EMU_WRITTEN || c->read_time != w->now || !(c->read_warps >> t->warp & 1) ||
        (!c->many_readers && c->reader != t->index) ||
        (c->writer != t->index && c->write_time > known[c->writer / EMU_LANES]))
      return false;
  }
  return true;
}

// Most accesses are repeated: their whole check is done here.
void nnc_emu_check_shared(const void *p, int64_t bytes, int64_t align, uint32_t kind, const NncEmuSite *site) {
  const EmuWorker *w = emu_worker;
  uintptr_t offset = (uintptr_t)p - (uintptr_t)w->shared, last = offset + (uintptr_t)bytes - 1;
  if (kind == EMU_READ && offset <= last && last < w->shared_bytes && !(offset & (uintptr_t)(align - 1)) &&
      !w->repeated.bytes && is_known_read(w, w->running, offset >> w->granule_shift, last >> w->granule_shift))
    return;
  check_shared(p, (uint32_t)bytes, (uint32_t)align, kind, site);
}

static __attribute__((noinline)) void check_global(const void *p, uint64_t bytes, uint32_t align, uint32_t kind,
                                                   const NncEmuSite *site) {
  EmuTraffic *traffic = emu_worker->launch->traffic;
  if (traffic && kind & EMU_READ) traffic->read += bytes;
  if (traffic && kind & EMU_WRITE) traffic->written += bytes;
  emu_global_access(emu_thread(), p, bytes, align, kind, site);
}

void nnc_emu_check_global(const void *p, int64_t bytes, int64_t align, uint32_t kind, const NncEmuSite *site) {
  EmuWorker *w = emu_worker;
  const EmuRange *r = *range_slot(w, site);
  uintptr_t address = (uintptr_t)p;
  if (r && contains(r, address, (uint64_t)bytes) && !(address & (uintptr_t)(align - 1)) && !w->launch->traffic) return;
  check_global(p, (uint64_t)bytes, (uint32_t)align, kind, site);
}

// A pointer without address space: shared memory, this thread's stack, or global memory.
void nnc_emu_check_generic(const void *p, int64_t bytes, int64_t align, uint32_t kind, const NncEmuSite *site) {
  EmuThread *t = emu_thread();
  const char *at = p, *stack = t->context.stack;
  if (at >= t->worker->shared && at < t->worker->shared + t->worker->shared_bytes)
    emu_shared_access(t, p, (uint32_t)bytes, (uint32_t)align, kind, site);
  else if (at < stack || at >= stack + t->context.stack_bytes)
    emu_global_access(t, p, (uint64_t)bytes, (uint32_t)align, kind, site);
}

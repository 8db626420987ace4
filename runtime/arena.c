// The arena: one mapping of the planned size, huge pages advised, every page touched before the first step, so that a
// step never waits for the kernel and a machine with too little memory is noticed at the start.
#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/runtime.h"

enum { HUGE_PAGE = 2 << 20, GUARD = 4096 };

// Physical memory and swap; -1 if unknown.
static int64_t machine_memory_bytes(void) {
  FILE *f = fopen("/proc/meminfo", "r");
  if (!f) return -1;
  char line[256];
  long long total = -1, kib;
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "MemTotal: %lld", &kib) == 1 || sscanf(line, "SwapTotal: %lld", &kib) == 1)
      total = (total < 0 ? 0 : total) + kib;
  fclose(f);
  return total < 0 ? -1 : total * 1024;
}

bool arena_create(Arena *a, int64_t bytes, int threads) {
  char need[32], have[32];
  *a = (Arena){.threads = threads};
  int64_t memory = nnc_program.device->open ? -1 : machine_memory_bytes();
  if (memory > 0 && bytes > memory) {
    report_cause(NNC_ERROR_MEMORY,
                 "the program needs an arena of %s, this machine has %s; compile with a smaller --memory-budget or "
                 "batch",
                 print_bytes(bytes, need, sizeof need), print_bytes(memory, have, sizeof have));
    return false;
  }
  int64_t page = bytes + GUARD >= HUGE_PAGE ? HUGE_PAGE : 4096;
  a->mapped = (bytes + GUARD + page - 1) / page * page + page;   // one page more to align the start
  a->mapping = mmap(NULL, (size_t)a->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                    0);
  if (a->mapping == MAP_FAILED) {
    report_cause(NNC_ERROR_MEMORY, "cannot map an arena of %s: %s", print_bytes(bytes, need, sizeof need),
                 strerror(errno));
    a->mapping = NULL;
    return false;
  }
  a->base = (char *)(((uintptr_t)a->mapping + (uintptr_t)page - 1) / (uintptr_t)page * (uintptr_t)page);
  a->bytes = bytes;
  if (nnc_program.device->open) return true;   // a mirror: pages come as they are used
#ifdef MADV_HUGEPAGE
  if (page == HUGE_PAGE) madvise(a->base, (size_t)(bytes / HUGE_PAGE * HUGE_PAGE), MADV_HUGEPAGE);
#endif
  if (!threads) threads = omp_get_max_threads();
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < bytes; i += 4096) ((volatile char *)a->base)[i] = 0;
  return true;
}

void arena_destroy(Arena *a) {
  if (a->memory) nnc_program.device->close(a);
  far_close(a->far);
  if (a->mapping) munmap(a->mapping, (size_t)a->mapped);
  memset(a, 0, sizeof *a);
}

bool arena_open_far(Arena *a, int64_t bytes, int64_t spare, const char *path) {
  a->far_bytes = bytes;
  if (!bytes) return true;
  if (!path) path = nnc_program.far_path ? nnc_program.far_path : ".";
  return (a->far = far_open(path, bytes + spare)) != NULL;
}

bool arena_read(const Arena *a, int64_t address, void *to, int64_t bytes) {
  int64_t offset = address - FAR_ADDRESS;
  if (is_far_address(address) && a->far) return far_read(a->far, offset, to, bytes);
  memcpy(to, is_far_address(address) ? a->far_memory + offset : a->base + address, (size_t)bytes);
  return true;
}

bool arena_write(const Arena *a, int64_t address, const void *from, int64_t bytes) {
  int64_t offset = address - FAR_ADDRESS;
  if (is_far_address(address) && a->far) return far_write(a->far, offset, from, bytes);
  memcpy(is_far_address(address) ? a->far_memory + offset : a->base + address, from, (size_t)bytes);
  return true;
}

bool arena_push(const Arena *a, int64_t offset, int64_t bytes) {
  return !a->memory || bytes == 0 || nnc_program.device->push(a, offset, bytes);
}
bool arena_pull(const Arena *a, int64_t offset, int64_t bytes) {
  return !a->memory || bytes == 0 || nnc_program.device->pull(a, offset, bytes);
}
bool arena_push_persistent(const Arena *a) { return arena_push(a, 0, nnc_program.persistent_bytes); }
bool arena_pull_persistent(const Arena *a) { return arena_pull(a, 0, nnc_program.persistent_bytes); }

bool arena_fill(Arena *a, int64_t from, int byte) {
  memset(a->base + from, byte, (size_t)(a->bytes + GUARD - from));
  return arena_push(a, from, a->bytes - from);
}

int64_t arena_high_water(const Arena *a, int byte) {
  if (!arena_pull(a, 0, a->bytes)) return -1;
  int64_t end = a->bytes + GUARD;
  while (end > 0 && a->base[end - 1] == (char)byte) end--;
  return end;
}

void arena_fill_far(const Arena *a, int64_t from, int byte) {
  if (a->far_memory) memset(a->far_memory + from, byte, (size_t)(a->far_bytes - from));
}

int64_t arena_far_high_water(const Arena *a, int byte) {
  int64_t end = a->far_memory ? a->far_bytes : 0;
  while (end > 0 && a->far_memory[end - 1] == (char)byte) end--;
  return end;
}

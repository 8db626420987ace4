// The file of the far arena: what is written is read again, whole or from anywhere in it, wherever the memory begins;
// the rest of a block that is written in part is lost.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "test/check.h"

const NncProgram nnc_program = {.model = "test", .device = &nnc_device_host};

enum { BYTES = 6 << 20 };

static uint64_t state = 1;
static int64_t draw(int64_t n) {   // 0 … n - 1
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((state >> 33) % (uint64_t)n);
}

static void test_random_accesses(void) {
  char *expected = xcalloc(1, BYTES), *known = xcalloc(1, BYTES), *memory = xmalloc(BYTES + FAR_BLOCK);
  FarFile *f = far_open(".", BYTES);
  CHECK(f != NULL, "a file in this folder");
  for (int round = 0; f && round < 300; round++) {
    int64_t at = draw(BYTES / FAR_BLOCK) * FAR_BLOCK, n = draw(round % 3 ? 3 * FAR_BLOCK : BYTES);
    char *own = memory + draw(FAR_BLOCK);   // mostly of no alignment at all
    if (round % 2) own = memory + FAR_BLOCK - (uintptr_t)memory % FAR_BLOCK;
    if (n > BYTES - at) n = BYTES - at;
    for (int64_t i = 0; i < n; i++) own[i] = expected[at + i] = (char)draw(256);
    memset(known + at, 1, (size_t)n);
    memset(known + at + n, 0, (size_t)(far_blocks(at + n) - (at + n)));
    CHECK(far_write(f, at, own, n), "round %d: %lld bytes at %lld", round, (long long)n, (long long)at);
    at = draw(BYTES), n = draw(BYTES - at);
    CHECK(far_read(f, at, own, n), "round %d: reading %lld bytes at %lld", round, (long long)n, (long long)at);
    int64_t same = 0;
    while (same < n && (!known[at + same] || own[same] == expected[at + same])) same++;
    CHECK(same == n, "round %d: byte %lld is another", round, (long long)(at + same));
  }
  CHECK(!f || (far_written_end(f) > 0 && far_written_end(f) <= BYTES), "the end of what was written");
  far_close(f);
  free(expected);
  free(known);
  free(memory);
}

static void test_paths(void) {
  char name[] = "far-test-XXXXXX";
  CHECK(far_open("no/such/place", FAR_BLOCK) == NULL, "no folder");
  int fd = mkstemp(name);
  CHECK(fd >= 0 && far_open(name, FAR_BLOCK) == NULL, "a file that is there");
  CHECK(access(name, F_OK) == 0, "it is left alone");
  close(fd);
  unlink(name);
  FarFile *f = far_open(name, FAR_BLOCK);
  CHECK(f && access(name, F_OK) != 0, "a name that is free, and is again");
  far_close(f);
}

int main(void) {
  test_random_accesses();
  test_paths();
  return check_report();
}

// The blocks that the library of convolutions asks for: how many there are depends on what each thread has at once, not
// on which threads ask at the same moment.
#include <malloc.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "test/check.h"

void *nnc_operator_new(size_t bytes);
void nnc_operator_delete(void *p);

enum { TEAM = 3, BLOCKS = 2, BYTES = 144 };

// Each thread has two blocks at once; all of them together, or one thread after the other.
static void use_blocks(bool together) {
#pragma omp parallel num_threads(TEAM)
  for (int turn = 0; turn < TEAM; turn++) {
    void *p[BLOCKS] = {0};
    bool mine = together ? turn == 0 : turn == omp_get_thread_num();
    for (int i = 0; mine && i < BLOCKS; i++) {
      p[i] = nnc_operator_new(BYTES);
      memset(p[i], turn, BYTES);
    }
#pragma omp barrier
    for (int i = 0; mine && i < BLOCKS; i++) nnc_operator_delete(p[i]);
#pragma omp barrier
  }
}

static int64_t allocated(void) { return (int64_t)mallinfo2().uordblks; }

int main(void) {
  void *alone = nnc_operator_new(BYTES);   // of no team: neither taken for one of theirs nor given to them
  CHECK((uintptr_t)alone % 16 == 0, "%p is not aligned as malloc's blocks are", alone);
  use_blocks(false);
  int64_t before = allocated();
  for (int i = 0; i < 10; i++) use_blocks(true);
  CHECK(allocated() == before, "%lld bytes more where threads ask together", (long long)(allocated() - before));
  nnc_operator_delete(alone);
  void *next = nnc_operator_new(BYTES);
  CHECK(next == alone, "a block that came back is not the next one");
  nnc_operator_delete(next);
  before = allocated();
  void *large = nnc_operator_new(1 << 20);
  nnc_operator_delete(large);
  CHECK(allocated() == before, "a large block is kept");
  nnc_operator_delete(NULL);
  return check_report();
}

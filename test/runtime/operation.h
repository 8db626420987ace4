// An operation of the library on buffers, with the bytes of workspace that it asked for and not one more.
#ifndef NNC_TEST_RUNTIME_OPERATION_H
#define NNC_TEST_RUNTIME_OPERATION_H

#include <stdlib.h>
#include <string.h>

#include "runtime/library.h"
#include "test/check.h"

// `op` NULL: it could not be prepared, for the reason in `error`.
static void run_operation(const NncOperation *op, const char *error, void *const *buffers, int64_t bytes, int times) {
  enum { BEHIND = 64 };
  CHECK(op != NULL, "%s", error);
  if (!op) return;
  unsigned char *workspace = aligned_alloc(BEHIND, (size_t)bytes + BEHIND);
  if (!workspace) abort();
  memset(workspace, 0xff, (size_t)bytes + BEHIND);   // what is not written is not a number
  for (int i = 0; i < times; i++) CHECK(nnc_operation_execute(op, buffers, workspace, false), "execute");
  bool whole = true;
  for (int i = 0; i < BEHIND; i++) whole &= workspace[bytes + i] == 0xff;
  CHECK(whole, "wrote beyond the workspace");
  free(workspace);
}

#endif

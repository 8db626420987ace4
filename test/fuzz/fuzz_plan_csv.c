// Any bytes as the buffers of `nnc-plan offsets`.
#include <stdint.h>
#include <stdlib.h>

#include "passes/solver/solver.h"
#include "support/input_error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  InputError error = {0};
  int n;
  OffsetBuffer *buffers = offsets_read_csv((const char *)data, size, &n, &error);
  free(buffers);
  return 0;
}

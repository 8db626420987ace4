// Writes inputs of the test program mlp as safetensors: make_inputs RECORDS FILE. Record i is the same whatever their
// number.
#include <stdlib.h>

#include "runtime/runtime.h"

const NncProgram nnc_program = {.model = "inputs", .source = "inputs"};

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int64_t n = atoi(argv[1]), image_shape[4] = {n, 1, 4, 4};
  uint8_t *image = xmalloc((size_t)n * 16);
  int32_t *label = xmalloc((size_t)n * 4);
  for (int64_t i = 0; i < n * 16; i++) image[i] = (uint8_t)philox_u64(1, 2, (uint64_t)i);
  for (int64_t i = 0; i < n; i++) label[i] = (int32_t)(i % 3);
  SafetensorsWriter *w = safetensors_create(argv[2]);
  safetensors_declare(w, "image", NNC_U8, 4, image_shape);
  safetensors_declare(w, "label", NNC_I32, 1, &n);
  bool ok = safetensors_begin(w) && safetensors_put(w, 0, 0, image, n * 16) && safetensors_put(w, 1, 0, label, n * 4) &&
            safetensors_commit(w);
  free(image), free(label);
  return !ok;
}

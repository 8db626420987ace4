// Any bytes as the files of lines: names of classes, and a mapping file, by which weights of a fixed file are then
// compared with a fixed model.
#include <string.h>

#include "test/fuzz/reader.h"

static const NncTensor weights[] = {
    {.name = "wte", .role = NNC_PARAM, .dtype = NNC_F32, .rank = 2, .dim = {6, 4}, .bytes = 96},
    {.name = "layer.0.qkv.weight",
     .role = NNC_PARAM,
     .dtype = NNC_F32,
     .rank = 2,
     .dim = {6, 2},
     .bytes = 48,
     .offset = 128},
    {.name = "layer.1.conv.weight",
     .role = NNC_PARAM,
     .dtype = NNC_F32,
     .rank = 4,
     .dim = {2, 3, 1, 1},
     .bytes = 24,
     .offset = 192},
};
const NncProgram nnc_program = {.model = "m", .source = "m.nn", .n_persistent = 3, .persistent = weights};

// The tensors "a" [6, 4], "b" [2, 6] and "c" [6], under a name that stays.
static const char *other_weights(void) {
  static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[6,4],\"data_offsets\":[0,96]},\"b\":{\"dtype\":"
                               "\"F32\",\"shape\":[2,6],\"data_offsets\":[96,144]},"
                               "\"c\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[144,168]}}";
  static char path[64];
  if (*path) return path;
  int file = memfd_create("weights", 0);
  uint64_t length = sizeof header - 1;
  char zeros[168] = {0};
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (file < 0 || write(file, &length, 8) != 8 || write(file, header, length) != (ssize_t)length ||
      write(file, zeros, sizeof zeros) != sizeof zeros)
    abort();
  return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  _Alignas(64) static char arena[256];
  const char *path = input_file(data, size);
  Labels labels;
  if (labels_open(&labels, path)) {
    if (labels.n < 1) abort();
    labels_close(&labels);
  }
  WeightMap *map = weight_map_read(path);
  if (map) weight_map_import(other_weights(), map, 0, arena);
  weight_map_free(map);
  return 0;
}

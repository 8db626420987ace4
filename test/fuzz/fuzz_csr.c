// Any numbers as the row starts of a graph: a tensor of a safetensors file whose header is in order. The first two
// bytes choose type, rows and edges.
#include <string.h>

#include "test/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char file[1 << 14];
  if (size < 2 || size > sizeof file - 256) return 0;
  bool wide = data[0] & 1;
  long long n = (long long)(size - 2) / (wide ? 8 : 4), bytes = n * (wide ? 8 : 4);
  char header[128];
  uint64_t length = (uint64_t)snprintf(header, sizeof header,
                                       "{\"indptr\":{\"dtype\":\"%s\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                                       wide ? "I64" : "I32", n, bytes);
  memcpy(file, &length, sizeof length);
  memcpy(file + 8, header, length);
  memcpy(file + 8 + length, data + 2, (size_t)bytes);
  Safetensors s;
  if (!safetensors_open(input_file((uint8_t *)file, 8 + length + (size_t)bytes), &s)) return 0;
  NncTensor input = {.name = "target",
                     .role = NNC_INPUT,
                     .dtype = NNC_I32,
                     .rank = 1,
                     .dim = {1 + data[1]},
                     .whole = true,
                     .csr = true};
  input.limit = data[0] & 2 ? n - 1 : 0;
  int32_t *rows = malloc(sizeof *rows * (size_t)input.dim[0]);
  if (csr_read(&s, &s.entries[0], &input, rows))
    for (int64_t i = 0; i < input.dim[0]; i++)
      if (rows[i] < 0 || rows[i] >= n - 1 || (i && rows[i] < rows[i - 1]))
        abort();   // each edge has a row, and they ascend
  free(rows);
  safetensors_close(&s);
  return 0;
}

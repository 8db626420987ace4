// Any bytes as a safetensors file: its header, then every tensor of it.
#include "test/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Safetensors s = {0};
  if (!safetensors_open(input_file(data, size), &s)) return 0;
  for (int i = 0; i < s.n_entries; i++) {
    const SafetensorsEntry *e = &s.entries[i];
    if (e->bytes < 0 || e->bytes > (int64_t)size) abort();
    char *values = malloc((size_t)e->bytes + 1);
    if (!safetensors_read(&s, e, 0, e->bytes, values)) abort();
    free(values);
  }
  safetensors_close(&s);
  return 0;
}

// Any bytes as a table: numbers, integers, categories.
#include "test/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"a", "b"};
  NncTensor input = {.dtype = size % 2 ? NNC_F32 : NNC_I32};
  DataSource source = {.path = input_file(data, size),
                       .begin_permille = 100,
                       .end_permille = 1000,
                       .input = &input,
                       .n_columns = 1 + size % 3 / 2,
                       .columns = names,
                       .hash = size % 5 ? 0 : 100,
                       .separator = ','};
  Column column = {0};
  if (data_read_csv(&source, &column)) check_column(&column);
  free_column(&column);
  return 0;
}

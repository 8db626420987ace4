// Any bytes as a file of the reader `idx`.
#include "test/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  DataSource source = {.path = input_file(data, size), .begin_permille = 0, .end_permille = 1000};
  Column column = {0};
  if (data_read_idx(&source, &column)) check_column(&column);
  free_column(&column);
  return 0;
}

// Any bytes as a file of the reader `npz`, held in memory and left in its file.
#include "test/fuzz/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  DataSource source = {.path = input_file(data, size), .field = "x", .begin_permille = 0, .end_permille = 1000};
  Column column = {0};
  if (data_read_npz(&source, &column)) check_column(&column);
  free_column(&column);
  source.in_place = true;
  data_read_npz(&source, &column);
  free_column(&column);
  return 0;
}

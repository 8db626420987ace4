// Any bytes as a table: numbers, integers, categories; what is read record by record is what is held in memory.
#include <string.h>

#include "test/fuzz/reader.h"

const NncProgram nnc_program = {.model = "fuzz"};

const NncTensor *function_input(const NncFunction *f, const char *name) {   // stands for runtime/data.c
  (void)f, (void)name;
  return NULL;
}

static void compare(const DataSource *memory, const Column *whole, bool ok) {
  DataSource source = *memory;
  Column part = {0};
  source.in_place = true;
  bool part_ok = data_read_csv(&source, &part);
  data_one_piece(&part);
  char *room = malloc((size_t)part.room_bytes + 1), *record = malloc((size_t)part.record_bytes + 1);
  for (int64_t r = 0; r < part.records && part_ok; r++) {
    part_ok = part.fetch(&part, r, room, record);
    if (part_ok && ok && memcmp(record, whole->values + r * part.record_bytes, (size_t)part.record_bytes) != 0) abort();
  }
  if (ok && (!part_ok || part.records != whole->records)) abort();
  free(room), free(record);
  data_column_free(&part);
}

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
  bool ok = data_read_csv(&source, &column), packed = size > 1 && data[0] == 0x1f && data[1] == 0x8b;
  if (ok) check_column(&column);
  if (!packed) compare(&source, &column, ok);
  free_column(&column);
  return 0;
}

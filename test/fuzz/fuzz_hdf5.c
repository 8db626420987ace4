// Any bytes as a file of the reader `hdf5`, held in memory and read record by
// record.
#include "test/fuzz/reader.h"

const NncProgram nnc_program = {.model = "fuzz"};

const NncTensor *function_input(const NncFunction *f,
                                const char *name) {   // stands for runtime/data.c
  (void)f, (void)name;
  return NULL;
}

static void read_file(const char *path, int num_workers) {
  const char *names[] = {"x"}, *files[] = {path};
  NncData line = {.split = "train",
                  .reader = "hdf5",
                  .n_names = 1,
                  .names = names,
                  .n_fields = 1,
                  .fields = names,
                  .n_files = 1,
                  .files = files,
                  .num_workers = num_workers,
                  .end_permille = 1000};
  Column c = {0};
  if (nnc_open_hdf5(&line, &(NncFunction){0}, NULL, &c)) {
    char *room = malloc((size_t)c.record_bytes + 1);
    for (int64_t r = 0; r < c.records && r < 100 && c.fetch; r++)
      if (!c.fetch(&c, r, NULL, room)) break;
    if (!c.fetch) check_column(&c);
    free(room);
  }
  data_column_free(&c);
}

// The library asks for the real path of a file, which one in memory does not
// have.
static const char *written_file(const uint8_t *data, size_t size) {
  static char path[] = "/dev/shm/fuzz-hdf5-XXXXXX";
  static int file = -1;
  if (file < 0) file = mkstemp(path);
  if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size) abort();
  return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = written_file(data, size);
  read_file(path, 0);
  read_file(path, 1);
  return 0;
}

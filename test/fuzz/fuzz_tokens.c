// Any bytes as a text of tokens: as raw numbers, and as the other files that a text may be, which are told by the end
// of their names. The first two bytes choose which, and the part and the length of the records.
#include <string.h>

#include "test/fuzz/reader.h"

// A name for the file in memory that ends in `suffix`.
static const char *named(const char *path, const char *suffix) {
  static char link[64];
  snprintf(link, sizeof link, "/tmp/nnc-fuzz-%d%s", (int)getpid(), suffix);
  unlink(link);
  if (symlink(path, link) != 0) abort();
  return link;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const suffixes[] = {"", ".npy", ".safetensors", ".bin"};
  if (size < 2) return 0;
  const char *path = input_file(data + 2, size - 2), *suffix = suffixes[data[0] % 4];
  if (*suffix) path = named(path, suffix);
  DataSource source = {.path = path,
                       .begin_permille = data[1] % 4 * 100,
                       .end_permille = 1000 - data[1] / 4 % 4 * 100,
                       .dtype = data[0] & 8 ? NNC_U32 : NNC_U16};
  Column tokens = {0}, targets = {0};
  if (data_read_tokens(&source, &tokens) && data_cut_text(1 + data[1] / 16, &tokens, data[0] & 4 ? &targets : NULL)) {
    check_column(&tokens);
    if (data[0] & 4) check_column(&targets);
  }
  free_column(&tokens);
  free_column(&targets);
  if (*suffix) unlink(path);
  return 0;
}

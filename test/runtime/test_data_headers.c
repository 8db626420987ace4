// Headers that claim more than their file can hold are refused as truncated, before memory for them is asked for.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/runtime.h"
#include "test/check.h"

const NncProgram nnc_program = {.model = "headers", .source = "headers.nn", .device = &nnc_device_host};

// 2^37 records of 4 bytes, of which none is there: no machine of the tests could take the memory.
static const unsigned char idx[] = {0, 0, 8, 4, 0x7f, 0xff, 0xff, 0xff, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 4};
static const unsigned char overflow[] = {0, 0, 8, 3, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0, 0x7f, 0xff, 0xff};
// Magic numbers of a byte each that is wrong, and of the least and the largest rank.
static const unsigned char wrong[][4] = {{1, 0, 8, 1}, {0, 1, 8, 1}, {0, 0, 10, 1}, {0, 0, 8, 0}, {0, 0, 8, 9}},
                           right[][4] = {{0, 0, 8, 1}, {0, 0, 8, 8}};
static const char npy[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 4), }\n";

static void write_idx(const char *path, const void *data, int size, bool compressed) {
  gzFile file = gzopen(path, compressed ? "wb9" : "wbT");
  CHECK(file && gzwrite(file, data, (unsigned)size) == size && gzclose(file) == Z_OK, "cannot write %s", path);
}

static void write_npy(const char *path) {
  FILE *file = fopen(path, "wb");
  unsigned char head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, sizeof npy - 1, 0};
  CHECK(file && fwrite(head, 1, sizeof head, file) == sizeof head &&
            fwrite(npy, 1, sizeof npy - 1, file) == sizeof npy - 1 && fclose(file) == 0,
        "cannot write %s", path);
}

static void check_read(const char *path, bool (*read)(const DataSource *, Column *), bool right) {
  DataSource source = {.path = path, .end_permille = 1000};
  Column column;
  CHECK(read(&source, &column) == right, "%s is %s", path, right ? "refused" : "read");
  free(column.path);
  free(column.block);
  unlink(path);
}

// Behind the magic number sizes of 1 and as many numbers: one, or none without a size.
static void check_magic(const unsigned char *magic, bool right) {
  enum { MOST_AXES = 9 };
  unsigned char file[4 + MOST_AXES * 4 + 1] = {0};
  memcpy(file, magic, 4);
  for (int axis = 0; axis < MOST_AXES; axis++) file[4 + 4 * axis + 3] = 1;
  write_idx("magic.idx", file, 4 + 4 * magic[3] + (magic[3] > 0), false);
  check_read("magic.idx", data_read_idx, right);
}

int main(void) {
  write_idx("huge.idx", idx, sizeof idx, false);
  check_read("huge.idx", data_read_idx, false);
  write_idx("huge.idx.gz", idx, sizeof idx, true);
  check_read("huge.idx.gz", data_read_idx, false);
  write_idx("overflow.idx", overflow, sizeof overflow, false);
  check_read("overflow.idx", data_read_idx, false);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) check_magic(wrong[i], false);
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) check_magic(right[i], true);
  write_npy("huge.npy");
  check_read("huge.npy", data_read_npy, false);
  return check_report();
}

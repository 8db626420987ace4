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

static void check_refused(const char *path, bool (*read)(const DataSource *, Column *)) {
  DataSource source = {.path = path, .end_permille = 1000};
  Column column;
  CHECK(!read(&source, &column), "%s is read", path);
  free(column.path);
  free(column.block);
  unlink(path);
}

int main(void) {
  write_idx("huge.idx", idx, sizeof idx, false);
  check_refused("huge.idx", data_read_idx);
  write_idx("huge.idx.gz", idx, sizeof idx, true);
  check_refused("huge.idx.gz", data_read_idx);
  write_idx("overflow.idx", overflow, sizeof overflow, false);
  check_refused("overflow.idx", data_read_idx);
  write_npy("huge.npy");
  check_refused("huge.npy", data_read_npy);
  return check_report();
}

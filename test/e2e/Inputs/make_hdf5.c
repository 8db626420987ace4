// HDF5 files of the records that make_records.py writes: contiguous, in chunks and compressed, of other types, in
// pieces, and damaged.
#define _GNU_SOURCE
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS = 40, WIDTH = 3 };

static float x[RECORDS][WIDTH], y[RECORDS];

static hid_t create(const char *name) { return H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); }

// Records [first, first + n) of values of so many columns.
static void put(hid_t file, const char *name, hid_t type, const float *values, hsize_t n, hsize_t width, hid_t layout) {
  hsize_t dim[2] = {n, width};
  hid_t space = H5Screate_simple(2, dim, NULL),
        d = H5Dcreate2(file, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT);
  if (d < 0 || H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) exit(1);
  H5Dclose(d);
  H5Sclose(space);
}

static hid_t chunks(hsize_t rows, hsize_t columns, int packed) {
  hsize_t chunk[2] = {rows, columns};
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 2, chunk);
  if (packed) H5Pset_shuffle(list), H5Pset_deflate(list, 6), H5Pset_fletcher32(list);
  return list;
}

static hid_t compact(void) {
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_layout(list, H5D_COMPACT);
  return list;
}

static hid_t scaled(void) {
  hid_t list = chunks(4, 3, 0);
  H5Pset_scaleoffset(list, H5Z_SO_INT, 0);
  return list;
}

static void write(const char *name, hid_t type, hsize_t first, hsize_t n, hid_t layout) {
  hid_t file = create(name);
  put(file, "x", type, x[first], n, WIDTH, layout);
  put(file, "y", H5T_IEEE_F32LE, y + first, n, 1, H5P_DEFAULT);
  H5Fclose(file);
}

static hid_t half(void) {
  hid_t t = H5Tcopy(H5T_IEEE_F32BE);
  H5Tset_fields(t, 15, 10, 5, 0, 10), H5Tset_size(t, 2), H5Tset_ebias(t, 15);
  return t;
}

// A chunk of 144 MiB, nearly all zeros.
static void write_huge(void) {
  hsize_t dim[2] = {RECORDS, WIDTH}, most[2] = {H5S_UNLIMITED, WIDTH};
  hid_t file = create("huge.h5"), space = H5Screate_simple(2, dim, most), list = chunks(12 << 20, WIDTH, 0);
  H5Pset_deflate(list, 1);
  hid_t d = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  if (H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) < 0) exit(1);
  put(file, "y", H5T_IEEE_F32LE, y, RECORDS, 1, H5P_DEFAULT);
  H5Fclose(file);
}

// Three axes in chunks of three, and a block of the user's in front of the file.
static void write_cube(void) {
  hsize_t dim[3] = {RECORDS, 1, WIDTH}, chunk[3] = {3, 1, 2};
  hid_t place = H5Pcreate(H5P_FILE_CREATE), list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_userblock(place, 512);
  H5Pset_chunk(list, 3, chunk), H5Pset_deflate(list, 9), H5Pset_fletcher32(list);
  hid_t file = H5Fcreate("cube.h5", H5F_ACC_TRUNC, place, H5P_DEFAULT);
  hid_t d = H5Dcreate2(file, "x", H5T_STD_I16BE, H5Screate_simple(3, dim, NULL), H5P_DEFAULT, list, H5P_DEFAULT);
  if (H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) < 0) exit(1);
  put(file, "y", H5T_IEEE_F32LE, y, RECORDS, 1, H5P_DEFAULT);
  H5Fclose(file);
}

// 2^64 bytes, of which nothing is written.
static void write_endless(void) {
  hsize_t dim[2] = {1 << 30, (hsize_t)1 << 32};
  hid_t file = create("endless.h5");
  H5Dcreate2(file, "x", H5T_IEEE_F32LE, H5Screate_simple(2, dim, NULL), H5P_DEFAULT, chunks(1, 1 << 20, 0),
             H5P_DEFAULT);
  put(file, "y", H5T_IEEE_F32LE, y, RECORDS, 1, H5P_DEFAULT);
  H5Fclose(file);
}

// The numbers of make_types.py, in all types, in both orders of bytes.
static void write_types(void) {
  const struct {
    const char *name;
    hid_t type;
  } types[] = {{"i8", H5T_STD_I8LE},          {"u8", H5T_STD_U8LE},          {"i16", H5T_STD_I16LE},
               {"u16", H5T_STD_U16LE},        {"i32", H5T_STD_I32LE},        {"u32", H5T_STD_U32LE},
               {"i64", H5T_STD_I64LE},        {"f64", H5T_IEEE_F64LE},       {"i16_turned", H5T_STD_I16BE},
               {"u32_turned", H5T_STD_U32BE}, {"u16_turned", H5T_STD_U16BE}, {"f64_turned", H5T_IEEE_F64BE}};
  float values[12][2][3];
  hsize_t dim[3] = {12, 2, 3}, chunk[3] = {5, 2, 2};
  hid_t file = create("types.h5"), list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 3, chunk), H5Pset_shuffle(list), H5Pset_deflate(list, 6);
  for (int r = 0; r < 12; r++)
    for (int i = 0; i < 2; i++)
      for (int k = 0; k < 3; k++) values[r][i][k] = (float)((5 * r + 3 * i + k) % 11);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    hid_t d = H5Dcreate2(file, types[i].name, types[i].type, H5Screate_simple(3, dim, NULL), H5P_DEFAULT,
                         i % 2 ? list : H5P_DEFAULT, H5P_DEFAULT);
    if (H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) exit(1);
  }
  H5Fclose(file);
}

static void write_text(void) {
  hid_t file = create("text.h5"), type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
  hsize_t dim = RECORDS;
  H5Dcreate2(file, "x", type, H5Screate_simple(1, &dim, NULL), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dcreate2(file, "y", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
}

static void write_group(void) {
  hid_t file = create("group.h5");
  H5Gcreate2(file, "train", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  put(file, "train/x", H5T_IEEE_F32LE, x[0], RECORDS, WIDTH, H5P_DEFAULT);
  put(file, "train/y", H5T_IEEE_F32LE, y, RECORDS, 1, H5P_DEFAULT);
  H5Fclose(file);
}

// x is a link: within the file, to a dataset of another one, and by way of a group of another one.
static void write_links(void) {
  const char *names[] = {"inside.h5", "linked.h5", "by_group.h5"};
  for (int i = 0; i < 3; i++) {
    hid_t file = create(names[i]);
    put(file, "here", H5T_IEEE_F32LE, x[0], RECORDS, WIDTH, H5P_DEFAULT);
    put(file, "y", H5T_IEEE_F32LE, y, RECORDS, 1, H5P_DEFAULT);
    if (i == 1) H5Lcreate_external("plain.h5", "/x", file, "x", H5P_DEFAULT, H5P_DEFAULT);
    else H5Lcreate_soft(i == 0 ? "/here" : "/there/x", file, "x", H5P_DEFAULT, H5P_DEFAULT);
    if (i == 2) H5Lcreate_external("chunks.h5", "/", file, "there", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
  }
}

// A copy of chunks.h5 with a changed byte in the chunk of records 14 to 20, or without its last bytes.
static void damage(const char *name, long cut) {
  static char data[1 << 16];
  hsize_t offset[2] = {14, 0}, size = 0;
  haddr_t at = 0;
  unsigned mask;
  hid_t file = H5Fopen("chunks.h5", H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(file, "x", H5P_DEFAULT);
  if (H5Dget_chunk_info_by_coord(d, offset, &mask, &at, &size) < 0) exit(1);
  H5Fclose(file);
  FILE *from = fopen("chunks.h5", "rb"), *to = fopen(name, "wb");
  size_t n = fread(data, 1, sizeof data, from);
  if (!cut) data[at + size / 2] ^= 0x55;
  fwrite(data, 1, n - (size_t)cut, to);
  fclose(from);
  fclose(to);
}

// A copy of a file with the 4 bytes of value instead of the first 4 of where `found` stands first: of a shape
// (two numbers of 8 bytes) or of a chunk's size with its filters and place.
static void change(const char *from_name, const char *name, const void *found, size_t bytes, unsigned value) {
  static char data[1 << 16];
  FILE *from = fopen(from_name, "rb"), *to = fopen(name, "wb");
  size_t n = fread(data, 1, sizeof data, from);
  char *at = memmem(data, n, found, bytes);
  if (!at) exit(1);
  memcpy(at, &value, sizeof value);
  fwrite(data, 1, n, to);
  fclose(from);
  fclose(to);
}

int main(void) {
  for (int r = 0; r < RECORDS; r++) {
    for (int k = 0; k < WIDTH; k++) x[r][k] = (float)((7 * r + 3 * k) % 11 - 5);
    y[r] = (float)(r % 3 - 1);
  }
  write("plain.h5", H5T_IEEE_F32LE, 0, RECORDS, H5P_DEFAULT);
  write("chunks.h5", H5T_IEEE_F32LE, 0, RECORDS, chunks(7, 2, 1));
  write("i8.h5", H5T_STD_I8LE, 0, RECORDS, H5P_DEFAULT);
  write("i16.h5", H5T_STD_I16BE, 0, RECORDS, chunks(1, 3, 0));
  write("i32.h5", H5T_STD_I32LE, 0, RECORDS, H5P_DEFAULT);
  write("i64.h5", H5T_STD_I64BE, 0, RECORDS, H5P_DEFAULT);
  write("f16.h5", half(), 0, RECORDS, H5P_DEFAULT);
  write("f32.h5", H5T_IEEE_F32BE, 0, RECORDS, H5P_DEFAULT);
  write("part_0.h5", H5T_IEEE_F32LE, 0, 30, chunks(4, 3, 1));
  write("part_1.h5", H5T_IEEE_F32LE, 30, 10, H5P_DEFAULT);
  write("one_chunk.h5", H5T_STD_I32BE, 0, RECORDS, chunks(40, 3, 0));
  write("compact.h5", H5T_IEEE_F32LE, 0, RECORDS, compact());
  write("other.h5", H5T_STD_I16LE, 0, RECORDS, scaled());
  write("u64.h5", H5T_STD_U64LE, 0, RECORDS, H5P_DEFAULT);
  write_huge();
  write_cube();
  write_types();
  write_endless();
  write_text();
  write_group();
  write_links();
  damage("flipped.h5", 0);
  damage("short.h5", 100);
  const unsigned long long shape[2] = {RECORDS, WIDTH}, sixth[4] = {6, 5, 0, 0};   // of 6 bytes, at row 5
  change("plain.h5", "shape.h5", shape, sizeof shape, 1u << 30);
  change("chunks.h5", "chunk_shape.h5", shape, sizeof shape, 1u << 30);
  change("i16.h5", "chunk_size.h5", sixth, sizeof sixth, 2);
  return 0;
}

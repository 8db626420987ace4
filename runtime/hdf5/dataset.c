// The reader `hdf5`: a dataset for each input, its records along the first axis, by the HDF5 library, which finds
// chunks, unpacks them and swaps bytes. This folder is an archive of its own: only programs that read such files are
// linked with it. The library is not asked to be safe for threads: all calls of it are made under one lock.
#include <errno.h>
#include <hdf5.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/runtime.h"

// Of a dataset whose records stay in its file: the library's cache of what describes the file, its buffer for
// contiguous data, and the most that may be taken for the chunks of one record.
enum { METADATA_BYTES = 1 << 20, SIEVE_BYTES = 64 << 10, MAX_CHUNK_BYTES = 256 << 20 };

// Of datasets of at most so many chunks each one is looked at: to find one takes the library a walk over all.
enum { MAX_CHUNKS_LOOKED_AT = 1024 };

typedef struct Hdf5 {
  DataStore store;
  char *name;                                 // Owned; file and dataset, for messages
  hid_t file, dataset, space, type, memory;   // memory: the space of one record; type: of the values in memory
  int rank;
  hsize_t dim[NNC_MAX_RANK + 1];
  hsize_t first;   // the row of the column's record 0
} Hdf5;

static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;

// What goes wrong is told by us. The library keeps that switch for each thread, where it knows threads at all.
static void enter(void) {
  static bool begun;
  pthread_mutex_lock(&library);
  if (!begun) H5dont_atexit();   // an exit must not wait for what reads, nor pull its files away
  begun = true;
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static void leave(void) { pthread_mutex_unlock(&library); }

static herr_t take_cause(unsigned n, const H5E_error2_t *error, void *text) {
  if (n == 0) snprintf(text, 256, "%s", error->desc);
  return 0;
}

// With what the library says, the innermost cause.
static bool report_failure(const char *name, const char *what) {
  char text[256] = "";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_cause, text);
  report_error("%s: %s%s%s", name, what, *text ? ": " : "", text);
  return false;
}

static void close_handles(Hdf5 *h) {
  if (h->type > 0) H5Tclose(h->type);
  if (h->memory > 0) H5Sclose(h->memory);
  if (h->space > 0) H5Sclose(h->space);
  if (h->dataset > 0) H5Dclose(h->dataset);
  if (h->file > 0) H5Fclose(h->file);
}

static void close_store(DataStore *s) {
  Hdf5 *h = (Hdf5 *)s;
  enter();
  close_handles(h);
  leave();
  free(h->name);
  free(h);
}

// ---------------------------------------------------------------------------------------------------------------------
// Opening

static bool is_regular(const char *path) {
  struct stat st;
  int fd = open_to_read(path);
  if (fd < 0) return false;
  bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  close(fd);
  if (!ok) report_error("%s is not a regular file", path);
  return ok;
}

static hid_t open_file(const char *path) {
  H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
  if (access > 0 && H5Pget_mdc_config(access, &cache) >= 0) {
    cache.set_initial_size = true;
    cache.initial_size = cache.max_size = METADATA_BYTES;
    cache.min_size = METADATA_BYTES / 2;
    if (H5Pset_mdc_config(access, &cache) >= 0 && H5Pset_sieve_buf_size(access, SIEVE_BYTES) >= 0)
      file = H5Fopen(path, H5F_ACC_RDONLY, access);
  }
  if (file < 0) report_failure(path, "not an HDF5 file that can be read");
  if (access > 0) H5Pclose(access);
  return file;
}

typedef struct Names {
  int n;
  char **names;   // Owned
} Names;

static herr_t add_dataset(hid_t object, const char *name, const H5O_info_t *info, void *data) {
  Names *l = data;
  (void)object;
  if (info->type != H5O_TYPE_DATASET) return 0;
  l->names = xrealloc(l->names, sizeof *l->names * (size_t)(l->n + 1));
  l->names[l->n++] = xstrdup(name);
  return 0;
}

// It is damaged if it is there, else missing.
static bool report_unopened(const Hdf5 *h, const DataSource *s) {
  Names all = {0};
  bool there = false;
  const char *name = s->field + strspn(s->field, "/");
  if (H5Ovisit2(h->file, H5_INDEX_NAME, H5_ITER_NATIVE, add_dataset, &all, H5O_INFO_BASIC) < 0)
    report_failure(s->path, "its datasets cannot be listed");
  else {
    for (int i = 0; i < all.n; i++) there |= strcmp(all.names[i], name) == 0;
    if (!there) report_absent(s->path, "dataset", s->field, "", all.n, (const char *const *)all.names);
    else if ((H5Dopen2(h->file, s->field, H5P_DEFAULT)) < 0) report_failure(h->name, "it cannot be opened");
  }
  for (int i = 0; i < all.n; i++) free(all.names[i]);
  free(all.names);
  return false;
}

// Bytes of the chunks that a record is spread over; *chunk: of one of them. 0: it is not stored in chunks.
static double chunk_bytes(const Hdf5 *h, double *chunk) {
  hsize_t side[NNC_MAX_RANK + 1] = {0};
  double record;
  hid_t list = H5Dget_create_plist(h->dataset), type = H5Dget_type(h->dataset);
  *chunk = record = 0;
  if (list > 0 && type > 0 && H5Pget_layout(list) == H5D_CHUNKED && H5Pget_chunk(list, h->rank, side) == h->rank) {
    *chunk = record = (double)H5Tget_size(type);
    for (int i = 0; i < h->rank; i++) {
      *chunk *= (double)side[i];
      record *= i && side[i] ? (double)((h->dim[i] + side[i] - 1) / side[i] * side[i]) : (double)side[i];
    }
  }
  if (type > 0) H5Tclose(type);
  if (list > 0) H5Pclose(list);
  return record;
}

// Opened again with a cache for the chunks of one record, so that those of the next ones are there.
static bool plan_cache(Hdf5 *h, const DataSource *s) {
  char needed[32], most[32];
  double chunk, record = chunk_bytes(h, &chunk);
  h->store.bytes = METADATA_BYTES + SIEVE_BYTES;
  if (record == 0) return true;
  if (record + 2 * chunk > MAX_CHUNK_BYTES) {
    if (!s->in_place) return true;   // read once from front to back, as the library does it
    report_error("%s: the chunks that one record is in need %s to be read: more than %s; store it in smaller chunks, "
                 "or "
                 "read it without num_workers",
                 h->name, print_bytes((int64_t)(record + 2 * chunk), needed, sizeof needed),
                 print_bytes(MAX_CHUNK_BYTES, most, sizeof most));
    return false;
  }
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  size_t slots = 10 * (size_t)(record / chunk) + 1;
  bool ok = access > 0 && H5Pset_chunk_cache(access, slots, (size_t)record, 1) >= 0 && H5Dclose(h->dataset) >= 0;
  if (ok) ok = (h->dataset = H5Dopen2(h->file, s->field, access)) > 0;
  if (access > 0) H5Pclose(access);
  h->store.bytes += (int64_t)(record + 2 * chunk);   // of one, what is packed and what a filter makes of it
  return ok || report_failure(h->name, "it cannot be opened");
}

// ---------------------------------------------------------------------------------------------------------------------
// What it holds

static hid_t half_type(void) {
  hid_t t = H5Tcopy(H5T_IEEE_F32LE);
  if (t > 0 && H5Tset_fields(t, 15, 10, 5, 0, 10) >= 0 && H5Tset_size(t, 2) >= 0 && H5Tset_ebias(t, 15) >= 0) return t;
  return -1;
}

// The two bytes of a float are those of f16, in either order.
static bool is_half(hid_t file_type) {
  hid_t own = H5Tcopy(file_type), half = half_type();
  bool same = own > 0 && half > 0 && H5Tset_order(own, H5T_ORDER_LE) >= 0 && H5Tequal(own, half) > 0;
  if (own > 0) H5Tclose(own);
  if (half > 0) H5Tclose(half);
  return same;
}

// As h5py keeps them: an enumeration of FALSE and TRUE.
static bool is_boolean(hid_t type) {
  signed char no = -1, yes = -1;
  return H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 && H5Tenum_valueof(type, "FALSE", &no) >= 0 &&
         H5Tenum_valueof(type, "TRUE", &yes) >= 0 && no == 0 && yes == 1;
}

static bool find_type(Hdf5 *h, hid_t file_type, NncDtype *out) {
  H5T_class_t class = H5Tget_class(file_type);
  size_t bytes = H5Tget_size(file_type);
  if (class == H5T_ENUM && is_boolean(file_type)) {
    *out = NNC_I1;
    return (h->type = H5Tcopy(file_type)) > 0;
  }
  const struct {
    H5T_class_t class;
    bool is_signed;
    size_t bytes;
    NncDtype dtype;
    hid_t type;
  } types[] = {
      {H5T_INTEGER, true, 1, NNC_I8, H5T_STD_I8LE},   {H5T_INTEGER, false, 1, NNC_U8, H5T_STD_U8LE},
      {H5T_INTEGER, true, 2, NNC_I16, H5T_STD_I16LE}, {H5T_INTEGER, false, 2, NNC_U16, H5T_STD_U16LE},
      {H5T_INTEGER, true, 4, NNC_I32, H5T_STD_I32LE}, {H5T_INTEGER, false, 4, NNC_U32, H5T_STD_U32LE},
      {H5T_INTEGER, true, 8, NNC_I64, H5T_STD_I64LE}, {H5T_FLOAT, false, 4, NNC_F32, H5T_IEEE_F32LE},
      {H5T_FLOAT, false, 8, NNC_F64, H5T_IEEE_F64LE},
  };
  bool is_signed = class == H5T_INTEGER && H5Tget_sign(file_type) == H5T_SGN_2;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].class == class && types[i].bytes == bytes && types[i].is_signed == is_signed) {
      *out = types[i].dtype;
      return (h->type = H5Tcopy(types[i].type)) > 0;
    }
  *out = NNC_F16;
  if (class == H5T_FLOAT && bytes == 2 && is_half(file_type)) return (h->type = half_type()) > 0;
  report_error("%s: its elements are %s of %zu bytes; supported are integers of 1, 2, 4 and, with a sign, 8 bytes, "
               "booleans, and f16, f32, f64",
               h->name,
               class == H5T_INTEGER  ? "integers"
               : class == H5T_FLOAT  ? "floats"
               : class == H5T_STRING ? "strings"
                                     : "no numbers",
               bytes);
  return false;
}

static bool find_shape(Hdf5 *h, Column *c) {
  h->space = H5Dget_space(h->dataset);
  if (h->space < 0) return report_failure(h->name, "its shape cannot be read");
  int rank = H5Sget_simple_extent_type(h->space) == H5S_SIMPLE ? H5Sget_simple_extent_ndims(h->space) : 0;
  if (rank < 1) {
    report_error("%s: a single number, not records", h->name);
    return false;
  }
  bool ok = rank <= NNC_MAX_RANK && H5Sget_simple_extent_dims(h->space, h->dim, NULL) == rank;
  c->record_bytes = dtype_bytes(c->dtype);
  for (int i = 0; ok && i < rank; i++) {
    ok = h->dim[i] <= (hsize_t)1 << 40 &&
         (i == 0 || (h->dim[i] > 0 && c->record_bytes <= (1ll << 40) / (int64_t)h->dim[i]));
    if (ok && i > 0) c->dim[i - 1] = (int64_t)h->dim[i], c->record_bytes *= c->dim[i - 1];
  }
  h->rank = rank;
  c->rank = rank - 1;
  c->records = (int64_t)h->dim[0];
  ok = ok && c->records <= INT64_MAX / c->record_bytes;
  if (!ok) report_error("%s: more than %d axes, an axis without elements, or too many of them", h->name, NNC_MAX_RANK);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// Whether what the file says of a dataset fits together. The library believes it: a shape that is damaged takes memory
// for it, a chunk that is stored with fewer bytes than it has is read past its end.

static bool report_damaged(const Hdf5 *h, const char *what, double found, double expected) {
  report_error("%s: %s %.0f, where its shape needs %.0f: the file is damaged, or was not written to its end", h->name,
               what, found, expected);
  return false;
}

static bool check_contiguous(const Hdf5 *h, const Column *c, hsize_t file_bytes) {
  hsize_t stored = H5Dget_storage_size(h->dataset);
  haddr_t at = H5Dget_offset(h->dataset);
  double needed = (double)c->records * (double)c->record_bytes;
  if ((double)stored != needed) return report_damaged(h, "the bytes that it has are", (double)stored, needed);
  if (at == HADDR_UNDEF || (at <= file_bytes && stored <= file_bytes - at)) return true;
  report_error("%s: its bytes lie past the end of the file", h->name);
  return false;
}

// Chunk i. all: the bits of all filters, each of which may have been left out of a chunk.
static bool check_chunk(const Hdf5 *h, hsize_t i, unsigned all, double bytes, hsize_t file_bytes) {
  hsize_t offset[NNC_MAX_RANK + 1], stored = 0;
  haddr_t at = 0;
  unsigned left_out = 0;
  if (H5Dget_chunk_info(h->dataset, h->space, i, offset, &left_out, &at, &stored) < 0)
    return report_failure(h->name, "its chunks cannot be listed");
  if ((left_out & all) == all && (double)stored != bytes)
    return report_damaged(h, "the bytes of a chunk are", (double)stored, bytes);
  if (at <= file_bytes && stored <= file_bytes - at) return true;
  report_error("%s: a chunk lies past the end of the file", h->name);
  return false;
}

static bool check_chunks(const Hdf5 *h, hid_t list, double bytes, hsize_t file_bytes) {
  hsize_t side[NNC_MAX_RANK + 1] = {0}, most[NNC_MAX_RANK + 1] = {0}, stored = 0;
  double needed = 1;
  int filters = H5Pget_nfilters(list);
  if (filters < 0 || H5Pget_chunk(list, h->rank, side) != h->rank ||
      H5Sget_simple_extent_dims(h->space, NULL, most) != h->rank ||
      H5Dget_num_chunks(h->dataset, h->space, &stored) < 0)
    return report_failure(h->name, "its chunks cannot be counted");
  for (int i = 0; i < h->rank; i++) {
    if (side[i] < 1 || (most[i] != H5S_UNLIMITED && side[i] > most[i] && most[i] > 0))
      return report_damaged(h, "the length of a chunk is", (double)side[i], (double)most[i]);
    needed *= (double)(h->dim[i] / side[i] + (h->dim[i] % side[i] > 0));
    bytes *= (double)side[i];
  }
  if ((double)stored != needed) return report_damaged(h, "the chunks that it has are", (double)stored, needed);
  double sum = (double)H5Dget_storage_size(h->dataset);
  if (filters == 0 && sum != needed * bytes)
    return report_damaged(h, "the bytes of its chunks are", sum, needed * bytes);
  bool ok = true;
  unsigned all = filters < 32 ? (1u << filters) - 1 : ~0u;
  for (hsize_t i = 0; ok && stored <= MAX_CHUNKS_LOOKED_AT && i < stored; i++)
    ok = check_chunk(h, i, all, bytes, file_bytes);
  return ok;
}

static bool check_storage(const Hdf5 *h, const Column *c) {
  hsize_t file_bytes = 0;
  hid_t list = H5Dget_create_plist(h->dataset);
  if (list < 0 || H5Fget_filesize(h->file, &file_bytes) < 0) return report_failure(h->name, "it cannot be looked at");
  H5D_layout_t layout = H5Pget_layout(list);
  bool ok = layout == H5D_CHUNKED   ? check_chunks(h, list, (double)dtype_bytes(c->dtype), file_bytes)
            : layout != H5D_VIRTUAL ? check_contiguous(h, c, file_bytes)
                                    : true;
  H5Pclose(list);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading

// Rows [first, first + n), into memory for them. memory: a space of n rows.
static bool read_rows(const Hdf5 *h, hsize_t first, hsize_t n, hid_t memory, void *to) {
  hsize_t start[NNC_MAX_RANK + 1] = {first}, count[NNC_MAX_RANK + 1];
  memcpy(count, h->dim, sizeof count);
  count[0] = n;
  return (H5Sselect_hyperslab(h->space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
          H5Dread(h->dataset, h->type, memory, h->space, H5P_DEFAULT, to) >= 0) ||
         report_failure(h->name, "it cannot be read");
}

static hid_t space_of_rows(const Hdf5 *h, hsize_t n) {
  hsize_t count[NNC_MAX_RANK + 1];
  memcpy(count, h->dim, sizeof count);
  count[0] = n;
  return H5Screate_simple(h->rank, count, NULL);
}

static bool fetch_row(const Column *c, int64_t record, void *room, char *to) {
  int64_t in_piece;
  const DataPiece *p = data_piece(c, record, &in_piece);
  const Hdf5 *h = (const Hdf5 *)p->store;
  (void)room;
  enter();
  bool ok = read_rows(h, h->first + (hsize_t)(in_piece / c->record_bytes), 1, h->memory, to);
  leave();
  return ok;
}

static bool read_all(Hdf5 *h, Column *c) {
  c->block_bytes = c->records * c->record_bytes;
  c->values = c->block = xmalloc((size_t)c->block_bytes);
  hid_t memory = space_of_rows(h, (hsize_t)c->records);
  bool ok = memory > 0 && (c->records == 0 || read_rows(h, h->first, (hsize_t)c->records, memory, c->values));
  if (memory > 0) H5Sclose(memory);
  return ok;
}

static bool open_dataset(Hdf5 *h, const DataSource *s, Column *c) {
  int64_t begin, end;
  h->file = open_file(s->path);
  if (h->file < 0) return false;
  h->dataset = H5Dopen2(h->file, s->field, H5P_DEFAULT);
  if (h->dataset < 0) return report_unopened(h, s);
  hid_t file_type = H5Dget_type(h->dataset);
  bool ok = file_type > 0 ? find_type(h, file_type, &c->dtype) : report_failure(h->name, "its type cannot be read");
  if (file_type > 0) H5Tclose(file_type);
  if (!ok || !find_shape(h, c) || !plan_cache(h, s) || !check_storage(h, c)) return false;
  data_range(s, c->records, &begin, &end);
  h->first = (hsize_t)begin;
  c->records = end - begin;
  c->first_record = begin;
  c->first_byte = -1;
  if (!s->in_place) return read_all(h, c);
  h->memory = space_of_rows(h, 1);
  c->fetch = fetch_row;
  return h->memory > 0 || report_failure(h->name, "its records cannot be read");
}

static bool read_hdf5(const DataSource *s, Column *c) {
  *c = (Column){.path = xstrdup(s->path)};
  if (!is_regular(s->path)) return false;
  Hdf5 *h = xcalloc(1, sizeof *h);
  h->store.close = close_store;
  h->name = xasprintf("%s: %s", s->path, s->field);
  enter();
  bool ok = open_dataset(h, s, c);
  leave();
  if (ok && s->in_place) c->store = &h->store;
  else close_store(&h->store);
  return ok;
}

bool nnc_open_hdf5(const NncData *d, const NncFunction *f, const char *folder, Column *columns) {
  static const DataReader reader = {"hdf5", read_hdf5, .named = true};
  return data_read_with(&reader, d, f, folder, columns);
}

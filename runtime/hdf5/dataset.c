// Records of datasets, read where hdf5_describe says that they are.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/hdf5/hdf5.h"
#include "support/integers.h"

enum { MAX_ROOM_BYTES = 256 << 20 };   // for the chunks that one record is in, of each thread

typedef struct Hdf5 {
  DataStore store;
  char *name;   // Owned; file and dataset, for messages
  int fd;       // Owned
  Hdf5Layout layout;
  int64_t record_bytes, element;
  int64_t rows, chunks_of_rows;   // of a chunk at most; chunks that have the same rows
  int64_t buffer_bytes;
  int64_t first;   // the row of the column's record 0
} Hdf5;

// Of a thread, and zeros at first: the rows that the chunks held last, and what unpacking them takes.
typedef struct Room {
  const Hdf5 *of;   // NULL: no rows yet
  int64_t block;    // rows [block * rows, …)
  char data[];      // rows, two buffers, memory for zlib
} Room;

static void close_store(DataStore *s) {
  Hdf5 *h = (Hdf5 *)s;
  if (h->fd >= 0) close(h->fd);
  free(h->layout.chunks);
  free(h->name);
  free(h);
}

static bool read_at(const Hdf5 *h, int64_t at, char *to, int64_t bytes) {
  while (bytes > 0) {
    ssize_t n = pread(h->fd, to, (size_t)bytes, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      report_error("cannot read %s at byte %lld: %s", h->name, (long long)at,
                   n < 0 ? strerror(errno) : "the file has become shorter");
      return false;
    }
    to += n, at += n, bytes -= n;
  }
  return true;
}

static void swap_bytes(char *p, int64_t bytes, int64_t element) {
  for (char *end = p + bytes; p < end; p += element)
    for (int64_t i = 0; i < element / 2; i++) {
      char c = p[i];
      p[i] = p[element - 1 - i], p[element - 1 - i] = c;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Chunks

static int64_t block_bytes(const Hdf5 *h) { return round_up(h->rows * h->record_bytes, NNC_ALIGN); }

static int64_t room_bytes(const Hdf5 *h) {
  return (int64_t)sizeof(Room) + block_bytes(h) + 2 * h->buffer_bytes + HDF5_ZLIB_BYTES;
}

// The values of chunk `number` of those with the same rows, at most n, into these rows. What of it lies outside of the
// dataset is left out.
static void put_chunk(const Hdf5 *h, int64_t number, int64_t n, const char *values, char *rows) {
  const Hdf5Layout *l = &h->layout;
  int last = l->rank - 1;
  int64_t begin[NNC_MAX_RANK + 1] = {0}, index[NNC_MAX_RANK + 1] = {0}, lines = 1;
  for (int i = last; i > 0; i--) {
    int64_t grid = divide_up(l->dim[i], l->side[i]);
    begin[i] = number % grid * l->side[i];
    number /= grid;
  }
  int64_t run = last == 0 ? 1 : l->dim[last] - begin[last] < l->side[last] ? l->dim[last] - begin[last] : l->side[last];
  for (int i = 0; i < (last ? last : 1); i++) lines *= l->side[i];
  for (int64_t k = 0; k < lines; k++, values += (last ? l->side[last] : 1) * h->element) {
    bool inside = index[0] < n;
    int64_t at = index[0];
    for (int i = 1; i < last; i++) {
      inside = inside && begin[i] + index[i] < l->dim[i];
      at = at * l->dim[i] + begin[i] + index[i];
    }
    if (last) at = at * l->dim[last] + begin[last];
    if (inside) memcpy(rows + at * h->element, values, (size_t)(run * h->element));
    for (int i = last ? last - 1 : 0; i >= 0 && ++index[i] == l->side[i] && i > 0; i--) index[i] = 0;
  }
}

static bool load_block(const Hdf5 *h, int64_t block, Room *room) {
  const Hdf5Layout *l = &h->layout;
  char *buffer = room->data + block_bytes(h), *other = buffer + h->buffer_bytes, *values;
  int64_t left = l->dim[0] - block * l->side[0], n = left < h->rows ? left : h->rows;
  room->of = NULL;
  for (int64_t i = 0; i < h->chunks_of_rows; i++) {
    const Hdf5Chunk *c = &l->chunks[block * h->chunks_of_rows + i];
    if (!read_at(h, c->at, buffer, c->bytes)) return false;
    const char *wrong = hdf5_unpack(l, c, buffer, other, other + h->buffer_bytes, &values);
    if (wrong) {
      report_error("%s: it cannot be read: the chunk at byte %lld %s", h->name, (long long)c->at, wrong);
      return false;
    }
    put_chunk(h, i, n, values, room->data);
  }
  room->of = h, room->block = block;
  return true;
}

static bool read_row(const Hdf5 *h, int64_t row, Room *room, char *to) {
  const Hdf5Layout *l = &h->layout;
  if (l->at >= 0) {
    if (!read_at(h, l->at + row * h->record_bytes, to, h->record_bytes)) return false;
  } else {
    int64_t block = row / l->side[0];
    if ((room->of != h || room->block != block) && !load_block(h, block, room)) return false;
    memcpy(to, room->data + row % l->side[0] * h->record_bytes, (size_t)h->record_bytes);
  }
  if (l->swapped) swap_bytes(to, h->record_bytes, h->element);
  return true;
}

static bool fetch_row(const Column *c, int64_t record, void *room, char *to) {
  int64_t in_piece;
  const Hdf5 *h = (const Hdf5 *)data_piece(c, record, &in_piece)->store;
  return read_row(h, h->first + in_piece / c->record_bytes, room, to);
}

// ---------------------------------------------------------------------------------------------------------------------

static bool read_all(const Hdf5 *h, Column *c) {
  c->block_bytes = c->records * c->record_bytes;
  c->values = c->block = xmalloc((size_t)c->block_bytes);
  if (h->layout.at >= 0) {
    if (!read_at(h, h->layout.at + h->first * c->record_bytes, c->values, c->block_bytes)) return false;
    if (h->layout.swapped) swap_bytes(c->values, c->block_bytes, h->element);
    return true;
  }
  Room *room = xcalloc(1, (size_t)room_bytes(h));
  bool ok = true;
  for (int64_t r = 0; r < c->records && ok; r++) ok = read_row(h, h->first + r, room, c->values + r * c->record_bytes);
  free(room);
  return ok;
}

// What reading takes, where its records stay in the file.
static bool plan_room(const Hdf5 *h, Column *c) {
  char needed[32], most[32];
  c->room_bytes = h->layout.at < 0 ? room_bytes(h) : 0;
  if (c->room_bytes <= MAX_ROOM_BYTES) return true;
  report_error("%s: the chunks that one record is in need %s to be read: more than %s; store it in smaller chunks, or "
               "read it without num_workers",
               h->name, print_bytes(c->room_bytes, needed, sizeof needed),
               print_bytes(MAX_ROOM_BYTES, most, sizeof most));
  return false;
}

static bool open_dataset(Hdf5 *h, const DataSource *s, Column *c) {
  int64_t begin, end;
  Hdf5Layout *l = &h->layout;
  if (!hdf5_describe(s->path, s->field, h->name, l)) return false;
  h->fd = open_to_read(s->path);
  if (h->fd < 0) return false;
  c->dtype = l->dtype;
  c->rank = l->rank - 1;
  c->record_bytes = h->element = dtype_bytes(c->dtype);
  for (int i = 1; i < l->rank; i++) c->record_bytes *= c->dim[i - 1] = l->dim[i];
  h->record_bytes = c->record_bytes;
  h->rows = l->at >= 0 ? 0 : l->side[0] < l->dim[0] ? l->side[0] : l->dim[0];
  h->chunks_of_rows = 1;
  for (int i = 1; i < l->rank && l->at < 0; i++) h->chunks_of_rows *= divide_up(l->dim[i], l->side[i]);
  h->buffer_bytes = l->at < 0 ? hdf5_buffer_bytes(l) : 0;
  h->store.bytes = l->n_chunks * (int64_t)sizeof *l->chunks;
  data_range(s, l->dim[0], &begin, &end);
  h->first = begin;
  c->records = end - begin;
  c->first_record = begin;
  c->first_byte = -1;
  if (!s->in_place) return read_all(h, c);
  c->fetch = fetch_row;
  return plan_room(h, c);
}

static bool is_regular(const char *path) {
  struct stat st;
  int fd = open_to_read(path);
  if (fd < 0) return false;
  bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
  close(fd);
  if (!ok) report_error("%s is not a regular file", path);
  return ok;
}

static bool read_hdf5(const DataSource *s, Column *c) {
  *c = (Column){.path = xstrdup(s->path)};
  if (!is_regular(s->path)) return false;
  Hdf5 *h = xcalloc(1, sizeof *h);
  h->store.close = close_store;
  h->fd = -1;
  h->name = xasprintf("%s: %s", s->path, s->field);
  bool ok = open_dataset(h, s, c);
  if (ok && s->in_place) c->store = &h->store;
  else close_store(&h->store);
  return ok;
}

bool nnc_open_hdf5(const NncData *d, const NncFunction *f, const char *folder, Column *columns) {
  static const DataReader reader = {"hdf5", read_hdf5, .named = true};
  return data_read_with(&reader, d, f, folder, columns);
}

// What a line reads: the reader of each of its files, and the files of a column one after the other.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/runtime.h"

static const DataReader readers[] = {{"idx", data_read_idx, .text = false},
                                     {"npy", data_read_npy, .text = false},
                                     {"npz", data_read_npz, .named = true},
                                     {"safetensors", data_read_safetensors, .named = true},
                                     {"csv", data_read_csv, .named = true},
                                     {"bytes", data_read_bytes, .text = true},
                                     {"tokens", data_read_tokens, .text = true}};

static const DataReader *find_reader(const char *name) {
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
    if (strcmp(readers[i].name, name) == 0) return &readers[i];
  report_internal("unknown reader %s", name);
}

void data_column_free(Column *c) {
  for (int i = 0; i < c->n_pieces && !c->borrows; i++) {
    free(c->pieces[i].path);
    if (c->pieces[i].fd >= 0) close(c->pieces[i].fd);
    if (c->pieces[i].store) c->pieces[i].store->close(c->pieces[i].store);
  }
  if (!c->borrows) free(c->pieces), free(c->block);
  free(c->path);
  memset(c, 0, sizeof *c);
}

// ---------------------------------------------------------------------------------------------------------------------
// Files that are read record by record

static bool read_at(const DataPiece *p, int64_t at, char *to, int64_t bytes) {
  while (bytes > 0) {
    ssize_t n = pread(p->fd, to, (size_t)bytes, p->first_byte + at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      report_error("cannot read %s at byte %lld: %s", p->path, (long long)(p->first_byte + at),
                   n < 0 ? strerror(errno) : "the file has become shorter");
      return false;
    }
    to += n, at += n, bytes -= n;
  }
  return true;
}

static int find_piece(const Column *c, int64_t at) {
  int low = 0, high = c->n_pieces - 1;
  while (low < high) {
    int middle = low + (high - low + 1) / 2;
    if (c->pieces[middle].at <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

const char *data_place(const Column *c, int64_t r, int64_t byte, int64_t *in_file) {
  int64_t at = c->start + r * c->record_bytes + byte;
  int low = find_piece(c, at);
  if (!c->n_pieces) report_internal("a column without files");
  *in_file = c->pieces[low].first_byte < 0 ? -1 : c->pieces[low].first_byte + at - c->pieces[low].at;
  return c->pieces[low].path;
}

const DataPiece *data_piece(const Column *c, int64_t r, int64_t *in_piece) {
  int64_t at = c->start + r * c->record_bytes;
  const DataPiece *p = &c->pieces[find_piece(c, at)];
  *in_piece = at - p->at;
  return p;
}

static bool fetch_bytes(const Column *c, int64_t record, void *room, char *to) {
  int64_t at = c->start + record * c->record_bytes, left = c->record_bytes;
  (void)room;
  for (int i = find_piece(c, at); left > 0; i++) {
    const DataPiece *p = &c->pieces[i];
    int64_t in_piece = at - p->at, n = p->bytes - in_piece < left ? p->bytes - in_piece : left;
    if (!read_at(p, in_piece, to, n)) return false;
    at += n, to += n, left -= n;
  }
  return true;
}

// All files stay open: as many as there may be.
static void allow_open(int n_files) {
  struct rlimit files;
  if (n_files <= 256 || getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

static bool open_pieces(Column *c) {
  for (int i = 0; i < c->n_pieces; i++)
    if ((c->pieces[i].fd = open(c->pieces[i].path, O_RDONLY | O_CLOEXEC)) < 0) {
      report_error("cannot open %s: %s", c->pieces[i].path, strerror(errno));
      return false;
    }
  c->fetch = fetch_bytes;
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// One file after the other

static void add_piece(Column *all, const Column *part) {
  all->pieces = xrealloc(all->pieces, sizeof *all->pieces * (size_t)(all->n_pieces + 1));
  int64_t at = all->n_pieces ? all->pieces[all->n_pieces - 1].at + all->pieces[all->n_pieces - 1].bytes : 0;
  all->pieces[all->n_pieces++] = (DataPiece){xstrdup(part->path), at, part->records * part->record_bytes,
                                             part->first_byte,    -1, part->store};
}

void data_one_piece(Column *c) {
  c->first_byte = -1;
  add_piece(c, c);
}

// The records of the next file go behind those that are there.
static bool append(Column *all, const Column *part) {
  char first[128], here[128];
  if (part->dtype != all->dtype || part->rank != all->rank ||
      memcmp(part->dim, all->dim, sizeof *part->dim * (size_t)part->rank) != 0) {
    report_error("%s: a record is %s%s, in %s it is %s%s", part->path, dtype_name(part->dtype),
                 format_shape(part->rank, part->dim, here, sizeof here), all->path, dtype_name(all->dtype),
                 format_shape(all->rank, all->dim, first, sizeof first));
    return false;
  }
  if (part->block) {
    all->block = xrealloc(all->block, (size_t)(all->block_bytes + part->block_bytes) + 1);
    all->values = all->block;
    memcpy(all->values + all->block_bytes, part->values, (size_t)part->block_bytes);
    all->block_bytes += part->block_bytes;
  }
  if (part->room_bytes > all->room_bytes) all->room_bytes = part->room_bytes;
  all->records += part->records;
  add_piece(all, part);
  return true;
}

// The part of the records of all files together.
static void cut(const DataSource *s, Column *c) {
  int64_t begin, end;
  data_range(s, c->records, &begin, &end);
  c->start = begin * c->record_bytes;
  c->first_record = begin;
  if (c->block) data_take(c, c->start, end - begin);
  c->records = end - begin;
}

static bool read_files(const DataReader *reader, const DataSource *s, const DataPaths *files, Column *c) {
  DataSource one = *s;
  if (files->n > 1) one.begin_permille = 0, one.end_permille = 1000;
  if (s->in_place) allow_open(files->n);
  for (int i = 0; i < files->n; i++) {
    Column part;
    one.path = files->paths[i];
    bool ok = reader->read(&one, &part);
    if (ok && i == 0) {
      *c = part;
      add_piece(c, c);
      continue;
    }
    ok = ok && append(c, &part);
    free(part.block), free(part.path);
    if (!ok && part.store) part.store->close(part.store);
    if (!ok) return false;
  }
  if (files->n > 1) cut(s, c);
  return true;
}

static bool find_all(const NncData *d, int i, const char *folder, DataPaths *out) {
  int first = 0, n = d->file_counts ? d->file_counts[i] : 1;
  for (int k = 0; k < i; k++) first += d->file_counts ? d->file_counts[k] : 1;
  for (int k = first; k < first + n; k++)
    if (!data_find(d->files[k], folder, out)) {
      data_report_missing(d->files[k], folder);
      return false;
    }
  if (out->n == 1 || !d->whole) return true;
  report_error("a tensor that is read whole is in one file: found %s and %s", out->paths[0], out->paths[1]);
  return false;
}

bool data_read_with(const DataReader *reader, const NncData *d, const NncFunction *f, const char *folder,
                    Column *columns) {
  bool csv = strcmp(d->reader, "csv") == 0;
  int field = 0;
  for (int i = 0; i < (reader->text ? 1 : d->n_names); i++) {
    DataPaths files = {0};
    DataSource s = {.field = i < d->n_fields ? d->fields[i]
                             : reader->text  ? NULL
                                             : d->names[i],
                    .begin_permille = d->begin_permille,
                    .end_permille = d->end_permille ? d->end_permille : 1000,
                    .dtype = d->dtype,
                    .in_place = d->num_workers > 0,
                    .whole = d->whole,
                    .line = i > 0 ? columns : NULL,
                    .input = function_input(f, d->names[i])};
    if (csv) {
      s.columns = d->fields + field, s.n_columns = d->field_counts[i];
      s.hash = d->hash, s.separator = (char)d->separator;
      field += d->field_counts[i];
    }
    bool ok = find_all(d, reader->named ? 0 : i, folder, &files) && read_files(reader, &s, &files, &columns[i]);
    data_paths_free(&files);
    if (!ok || (s.in_place && !columns[i].fetch && !open_pieces(&columns[i]))) return false;
    columns[i].whole = d->whole;
  }
  return !reader->text || data_cut_text(d->sequence, &columns[0], d->n_names > 1 ? &columns[1] : NULL);
}

bool data_read_line(const NncData *d, const NncFunction *f, const char *folder, Column *columns) {
  return d->open ? d->open(d, f, folder, columns) : data_read_with(find_reader(d->reader), d, f, folder, columns);
}

// What an HDF5 file says of a dataset, by the HDF5 library, which believes what it reads: a file that is damaged or
// forged can crash it, or keep it busy. So it runs in a process of its own, which sends what it found through a pipe;
// the library never runs in the program itself, and unpacks nothing.
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/hdf5/hdf5.h"

// After which the library is taken to be busy for ever, and to wait for ever, without any processor time.
enum { CPU_SECONDS = 120, IDLE_SECONDS = 60 };

// ---------------------------------------------------------------------------------------------------------------------
// The library's way to the file's bytes. Of a chunk it asks for, where it lies is noted instead: it has no other call
// that tells the place of each chunk without a walk over all of them.

typedef struct Watched {
  H5FD_t base;
  int fd;
  haddr_t end;   // of what the library takes for allocated
} Watched;

static struct {
  bool noting;
  haddr_t at;
  size_t bytes;
} seen;

static H5FD_t *watched_open(const char *path, unsigned flags, hid_t access, haddr_t most) {
  (void)flags, (void)access, (void)most;
  Watched *w = xcalloc(1, sizeof *w);
  w->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (w->fd >= 0) return &w->base;
  free(w);
  return NULL;
}

static herr_t watched_close(H5FD_t *f) {
  close(((Watched *)f)->fd);
  free(f);
  return 0;
}

static haddr_t watched_allocated(const H5FD_t *f, H5FD_mem_t type) {
  (void)type;
  return ((const Watched *)f)->end;
}

static herr_t watched_allocate(H5FD_t *f, H5FD_mem_t type, haddr_t end) {
  (void)type;
  ((Watched *)f)->end = end;
  return 0;
}

static haddr_t watched_end(const H5FD_t *f, H5FD_mem_t type) {
  struct stat st;
  (void)type;
  return fstat(((const Watched *)f)->fd, &st) == 0 ? (haddr_t)st.st_size : 0;
}

static herr_t watched_read(H5FD_t *f, H5FD_mem_t type, hid_t list, haddr_t at, size_t bytes, void *out) {
  (void)list;
  if (seen.noting && type == H5FD_MEM_DRAW) {
    seen.at = at, seen.bytes = bytes;
    return 0;
  }
  for (char *p = out; bytes > 0;) {
    ssize_t n = pread(((Watched *)f)->fd, p, bytes, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    p += n, at += (haddr_t)n, bytes -= (size_t)n;
  }
  return 0;
}

static herr_t watched_write(H5FD_t *f, H5FD_mem_t type, hid_t list, haddr_t at, size_t bytes, const void *data) {
  (void)f, (void)type, (void)list, (void)at, (void)bytes, (void)data;
  return -1;   // the library asks for it
}

static hid_t open_watched(const char *path) {
  static const H5FD_class_t driver = {.name = "watched",
                                      .maxaddr = HADDR_MAX,
                                      .fc_degree = H5F_CLOSE_WEAK,
                                      .open = watched_open,
                                      .close = watched_close,
                                      .get_eoa = watched_allocated,
                                      .set_eoa = watched_allocate,
                                      .get_eof = watched_end,
                                      .read = watched_read,
                                      .write = watched_write,
                                      .fl_map = H5FD_FLMAP_DICHOTOMY};
  hid_t id = H5FDregister(&driver), access = H5Pcreate(H5P_FILE_ACCESS);
  return id > 0 && access > 0 && H5Pset_driver(access, id, NULL) >= 0 ? H5Fopen(path, H5F_ACC_RDONLY, access) : -1;
}

// ---------------------------------------------------------------------------------------------------------------------
// What it holds. Handles are not closed: the process ends.

typedef struct Found {
  const char *name;   // for messages
  hid_t file, dataset, space, list;
  int64_t file_bytes;
  Hdf5Layout layout;
} Found;

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
static bool report_unopened(const Found *h, const char *path, const char *field) {
  Names all = {0};
  bool there = false;
  const char *name = field + strspn(field, "/");
  if (H5Ovisit2(h->file, H5_INDEX_NAME, H5_ITER_NATIVE, add_dataset, &all, H5O_INFO_BASIC) < 0)
    return report_failure(path, "its datasets cannot be listed");
  for (int i = 0; i < all.n; i++) there |= strcmp(all.names[i], name) == 0;
  if (there && H5Dopen2(h->file, field, H5P_DEFAULT) < 0) return report_failure(h->name, "it cannot be opened");
  report_absent(path, "dataset", field, "", all.n, (const char *const *)all.names);
  return false;
}

static hid_t half_type(void) {
  hid_t t = H5Tcopy(H5T_IEEE_F32LE);
  return H5Tset_fields(t, 15, 10, 5, 0, 10) >= 0 && H5Tset_size(t, 2) >= 0 && H5Tset_ebias(t, 15) >= 0 ? t : -1;
}

// As h5py keeps them: an enumeration of FALSE and TRUE.
static bool is_boolean(hid_t type) {
  signed char no = -1, yes = -1;
  return H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 &&
         H5Tenum_valueof(type, "FALSE", &no) >= 0 && H5Tenum_valueof(type, "TRUE", &yes) >= 0 && no == 0 && yes == 1;
}

static bool find_type(Found *h) {
  hid_t type = H5Dget_type(h->dataset);
  if (type < 0) return report_failure(h->name, "its type cannot be read");
  const struct {
    hid_t type;
    NncDtype dtype;
  } types[] = {
      {H5T_STD_I8LE, NNC_I8},    {H5T_STD_U8LE, NNC_U8},    {H5T_STD_I16LE, NNC_I16}, {H5T_STD_U16LE, NNC_U16},
      {H5T_STD_I32LE, NNC_I32},  {H5T_STD_U32LE, NNC_U32},  {H5T_STD_I64LE, NNC_I64}, {half_type(), NNC_F16},
      {H5T_IEEE_F32LE, NNC_F32}, {H5T_IEEE_F64LE, NNC_F64},
  };
  h->layout.dtype = NNC_I1;
  if (is_boolean(type)) return true;
  H5T_class_t class = H5Tget_class(type);
  size_t bytes = H5Tget_size(type);
  if (class == H5T_INTEGER || class == H5T_FLOAT) {
    h->layout.swapped = bytes > 1 && H5Tget_order(type) == H5T_ORDER_BE;
    hid_t turned = H5Tcopy(type);
    if (h->layout.swapped) H5Tset_order(turned, H5T_ORDER_LE);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
      if (H5Tequal(turned, types[i].type) > 0 || (bytes == 1 && H5Tequal(type, types[i].type) > 0)) {
        h->layout.dtype = types[i].dtype;
        return true;
      }
  }
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

static bool find_shape(Found *h) {
  Hdf5Layout *l = &h->layout;
  hsize_t dim[NNC_MAX_RANK + 1];
  h->space = H5Dget_space(h->dataset);
  if (h->space < 0) return report_failure(h->name, "its shape cannot be read");
  int rank = H5Sget_simple_extent_type(h->space) == H5S_SIMPLE ? H5Sget_simple_extent_ndims(h->space) : 0;
  if (rank < 1) {
    report_error("%s: a single number, not records", h->name);
    return false;
  }
  int64_t record = dtype_bytes(l->dtype);
  bool ok = rank <= NNC_MAX_RANK && H5Sget_simple_extent_dims(h->space, dim, NULL) == rank;
  for (int i = rank - 1; ok && i >= 0; i--) {
    ok = dim[i] <= (hsize_t)1 << 40 && (i == 0 || (dim[i] > 0 && record <= (1ll << 40) / (int64_t)dim[i]));
    if (ok && i > 0) record *= (int64_t)dim[i];
    l->dim[i] = (int64_t)dim[i];
  }
  l->rank = rank;
  ok = ok && l->dim[0] <= INT64_MAX / 4 / record;
  if (!ok) report_error("%s: more than %d axes, an axis without elements, or too many of them", h->name, NNC_MAX_RANK);
  return ok;
}

// ---------------------------------------------------------------------------------------------------------------------
// Where its values are

static bool report_damaged(const Found *h, const char *what, double found, double expected) {
  report_error("%s: %s %.0f, where its shape needs %.0f: the file is damaged, or was not written to its end", h->name,
               what, found, expected);
  return false;
}

static bool is_in_file(const Found *h, const char *what, haddr_t at, uint64_t bytes) {
  uint64_t all = (uint64_t)h->file_bytes;
  if (at <= all && bytes <= all - at) return true;
  report_error("%s: %s past the end of the file", h->name, what);
  return false;
}

static bool find_contiguous(Found *h) {
  double needed = (double)dtype_bytes(h->layout.dtype);
  for (int i = 0; i < h->layout.rank; i++) needed *= (double)h->layout.dim[i];
  hsize_t stored = H5Dget_storage_size(h->dataset);
  haddr_t at = H5Dget_offset(h->dataset);
  if ((double)stored != needed) return report_damaged(h, "the bytes that it has are", (double)stored, needed);
  h->layout.at = at == HADDR_UNDEF ? 0 : (int64_t)at;
  return stored == 0 || is_in_file(h, "its bytes lie", at, stored);
}

static bool find_filters(Found *h) {
  Hdf5Layout *l = &h->layout;
  int deflated = 0;
  l->n_filters = H5Pget_nfilters(h->list);
  if (l->n_filters < 0) return report_failure(h->name, "its filters cannot be read");
  for (int i = 0; i < l->n_filters; i++) {
    unsigned flags, values[8] = {0};
    size_t n = sizeof values / sizeof *values;
    char name[64] = "";
    H5Z_filter_t id = i < HDF5_MAX_FILTERS
                          ? H5Pget_filter2(h->list, (unsigned)i, &flags, &n, values, sizeof name, name, NULL)
                          : -1;
    bool known = id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_FLETCHER32;
    deflated += id == H5Z_FILTER_DEFLATE;
    if (!known || deflated > 1) {
      report_error("%s: its chunks went through the filter %.63s (%d); deflate (gzip), shuffle and fletcher32 are "
                   "read: h5repack -f GZIP=4 writes it so",
                   h->name, *name ? name : "without a name", (int)id);
      return false;
    }
    l->filters[i].kind = id == H5Z_FILTER_DEFLATE   ? HDF5_DEFLATE
                         : id == H5Z_FILTER_SHUFFLE ? HDF5_SHUFFLE
                                                    : HDF5_FLETCHER32;
    l->filters[i].element = n > 0 ? values[0] : 0;
    if (id == H5Z_FILTER_SHUFFLE && (n < 1 || values[0] < 1))
      return report_damaged(h, "the bytes that shuffle takes for an element are", values[0], dtype_bytes(l->dtype));
  }
  return true;
}

static bool find_sides(Found *h, int64_t *n_chunks) {
  Hdf5Layout *l = &h->layout;
  hsize_t side[NNC_MAX_RANK + 1] = {0}, most[NNC_MAX_RANK + 1] = {0}, stored = 0;
  double needed = 1, bytes = (double)dtype_bytes(l->dtype);
  if (H5Pget_chunk(h->list, l->rank, side) != l->rank || H5Sget_simple_extent_dims(h->space, NULL, most) != l->rank ||
      H5Dget_num_chunks(h->dataset, h->space, &stored) < 0)
    return report_failure(h->name, "its chunks cannot be counted");
  for (int i = 0; i < l->rank; i++) {
    if (side[i] < 1 || (most[i] != H5S_UNLIMITED && side[i] > most[i] && most[i] > 0))
      return report_damaged(h, "the length of a chunk is", (double)side[i], (double)most[i]);
    needed *= (double)((hsize_t)l->dim[i] / side[i] + ((hsize_t)l->dim[i] % side[i] > 0));
    bytes *= (double)side[i];
    l->side[i] = (int64_t)side[i];
  }
  if (bytes > UINT32_MAX - 4 * HDF5_MAX_FILTERS)
    return report_damaged(h, "the bytes of a chunk are", bytes, UINT32_MAX - 4 * HDF5_MAX_FILTERS);
  if ((double)stored != needed) return report_damaged(h, "the chunks that it has are", (double)stored, needed);
  if (needed > (double)h->file_bytes)
    return report_damaged(h, "the bytes of its chunks are", (double)h->file_bytes, needed);
  *n_chunks = (int64_t)needed;
  return true;
}

// Whether a chunk can be as many bytes as it is stored with. Deflate makes at most 1032 bytes of one.
static bool check_chunk(const Found *h, const Hdf5Chunk *c) {
  const Hdf5Layout *l = &h->layout;
  double bytes = (double)hdf5_chunk_bytes(l);
  bool deflated = false;
  for (int i = 0; i < l->n_filters; i++) {
    if (c->left_out >> i & 1) continue;
    deflated |= l->filters[i].kind == HDF5_DEFLATE;
    bytes += l->filters[i].kind == HDF5_FLETCHER32 ? 4 : 0;
  }
  if (deflated ? 1032.0 * c->bytes + 64 < bytes : (double)c->bytes != bytes)
    return report_damaged(h, "the bytes of a chunk are", c->bytes, bytes);
  return is_in_file(h, "a chunk lies", (haddr_t)c->at, c->bytes);
}

static bool find_chunks(Found *h) {
  Hdf5Layout *l = &h->layout;
  hsize_t offset[NNC_MAX_RANK + 1] = {0};
  if (!find_filters(h) || !find_sides(h, &l->n_chunks)) return false;
  double sum = (double)H5Dget_storage_size(h->dataset), needed = (double)l->n_chunks * (double)hdf5_chunk_bytes(l);
  if (l->n_filters == 0 && sum != needed) return report_damaged(h, "the bytes of its chunks are", sum, needed);
  l->chunks = xcalloc((size_t)l->n_chunks + 1, sizeof *l->chunks);
  for (int64_t i = 0; i < l->n_chunks; i++) {
    Hdf5Chunk *c = &l->chunks[i];
    uint32_t mask = 0;
    char nothing[1];
    seen.noting = true, seen.at = HADDR_UNDEF;
    bool ok = H5Dread_chunk(h->dataset, H5P_DEFAULT, offset, &mask, nothing) >= 0 && seen.at != HADDR_UNDEF;
    seen.noting = false;
    if (!ok) return report_failure(h->name, "its chunks cannot be found");
    *c = (Hdf5Chunk){(int64_t)seen.at, (uint32_t)seen.bytes, mask};
    if (seen.at > (haddr_t)h->file_bytes || seen.bytes > UINT32_MAX) c->bytes = UINT32_MAX;   // refused
    if (!check_chunk(h, c)) return false;
    for (int k = l->rank - 1; k >= 0 && (int64_t)(offset[k] += (hsize_t)l->side[k]) >= l->dim[k] && k > 0; k--)
      offset[k] = 0;
  }
  return true;
}

// A link may lead into another file: the places are then of that one, and this one's bytes would be read at them.
static bool is_of_file(const Found *h) {
  H5O_info_t file, dataset;
  char other[512] = "";
  if (H5Oget_info2(h->file, &file, H5O_INFO_BASIC) < 0 || H5Oget_info2(h->dataset, &dataset, H5O_INFO_BASIC) < 0)
    return report_failure(h->name, "it cannot be looked at");
  if (file.fileno == dataset.fileno) return true;
  H5Fget_name(h->dataset, other, sizeof other);
  report_error("%s: an external link leads from it to the file %s: read that one", h->name, other);
  return false;
}

static bool describe(const char *path, const char *field, Found *h) {
  struct stat st;
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);   // what goes wrong is told by us
  h->file = open_watched(path);
  if (h->file < 0 || stat(path, &st) != 0) return report_failure(path, "not an HDF5 file that can be read");
  h->file_bytes = st.st_size;
  h->dataset = H5Dopen2(h->file, field, H5P_DEFAULT);
  if (h->dataset < 0) return report_unopened(h, path, field);
  if (!is_of_file(h) || !find_type(h) || !find_shape(h)) return false;
  h->list = H5Dget_create_plist(h->dataset);
  if (h->list < 0) return report_failure(h->name, "it cannot be looked at");
  h->layout.at = -1;
  H5D_layout_t layout = H5Pget_layout(h->list);
  if (layout == H5D_CHUNKED) return find_chunks(h);
  if (layout == H5D_CONTIGUOUS && H5Pget_external_count(h->list) == 0) return find_contiguous(h);
  report_error("%s: its values are %s; contiguous ones and chunks are read: h5repack -l CONTI writes it so", h->name,
               layout == H5D_COMPACT   ? "in its header (compact)"
               : layout == H5D_VIRTUAL ? "in other datasets (virtual)"
                                       : "in other files (external)");
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------
// Two processes

typedef struct Answer {
  bool ok;
  char text[1024];   // what is wrong
  Hdf5Layout layout;
} Answer;

typedef struct Hearer {
  Listener listener;
  Answer *answer;
} Hearer;

static void hear(Listener *l, bool is_error, const char *message) {
  if (is_error) snprintf(((Hearer *)l)->answer->text, sizeof((Hearer *)l)->answer->text, "%s", message);
}

static bool send_all(int fd, const void *data, int64_t bytes) {
  for (const char *p = data; bytes > 0;) {
    ssize_t n = write(fd, p, (size_t)bytes);
    if (n <= 0) return false;
    p += n, bytes -= n;
  }
  return true;
}

typedef struct Other {   // the process that is asked
  pid_t id;
  int from;
  bool ended;   // by this one
} Other;

static int64_t nanoseconds_run(pid_t process) {
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0) return -1;
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

// Until there is something to be read, or the end. One that waits for a lock or a disk has its seconds counted here,
// so that those in which both are stopped do not count.
static void wait_for(Other *o) {
  int64_t before = -1;
  for (int idle = 0; idle < IDLE_SECONDS;) {
    int n = poll(&(struct pollfd){.fd = o->from, .events = POLLIN}, 1, 1000);
    if (n > 0 || (n < 0 && errno != EINTR)) return;   // what is wrong read() says
    if (n < 0) continue;
    int64_t now = nanoseconds_run(o->id);
    idle = now == before ? idle + 1 : 0;
    before = now;
  }
  o->ended = kill(o->id, SIGKILL) == 0;
}

static bool receive_all(Other *o, void *data, int64_t bytes) {
  for (char *p = data; bytes > 0;) {
    wait_for(o);
    ssize_t n = o->ended ? 0 : read(o->from, p, (size_t)bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, bytes -= n;
  }
  return true;
}

// Ends the process. What the C library says of a heap that the file made it destroy goes nowhere.
static _Noreturn void answer_and_end(const char *path, const char *field, const char *name, int to) {
  static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}, parents[] = {SIGINT, SIGTERM, SIGHUP};
  Answer answer = {0};
  Hearer hearer = {{.hear = hear}, &answer};
  Found found = {.name = name};
  jmp_buf gone;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) signal(own[i], SIG_DFL);
  for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) signal(parents[i], SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS});
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
  report_listen(&hearer.listener);
  report_give_up_to(&gone);
  if (setjmp(gone) == 0) answer.ok = describe(path, field, &found);
  answer.layout = found.layout;
  bool sent = send_all(to, &answer, sizeof answer) &&
              (!answer.ok || send_all(to, found.layout.chunks, found.layout.n_chunks * (int64_t)sizeof(Hdf5Chunk)));
  _exit(sent ? 0 : 1);
}

static bool take_answer(Other *o, Answer *a) {
  if (!receive_all(o, a, sizeof *a)) return false;
  a->layout.chunks = NULL;
  if (!a->ok) {
    report_error("%s", a->text);
    return true;
  }
  int64_t bytes = a->layout.n_chunks * (int64_t)sizeof(Hdf5Chunk);
  a->layout.chunks = xmalloc((size_t)bytes + 1);
  return receive_all(o, a->layout.chunks, bytes);
}

static void report_unheard(const char *name, const Other *o, int status) {
  int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (o->ended && (by == SIGKILL || by == 0))
    report_error("%s: the HDF5 library has waited for something for %d seconds, and is not waited for any longer", name,
                 IDLE_SECONDS);
  else
    report_error("%s: the file is damaged: the HDF5 library %s on it", name,
                 by == SIGXCPU ? "spends minutes" : "crashes");
}

// One that waits for a disk does not end until that has answered, whoever wants it to: it is left to itself then.
static int status_of(const Other *o) {
  int status = 0;
  for (int i = 0; o->ended && i < 50; i++) {
    if (waitpid(o->id, &status, WNOHANG) != 0) return status;
    poll(NULL, 0, 100);
  }
  while (!o->ended && waitpid(o->id, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

bool hdf5_describe(const char *path, const char *field, const char *name, Hdf5Layout *out) {
  int ends[2];
  Answer answer = {0};
  Other other = {.id = -1};
  bool made = pipe2(ends, O_CLOEXEC) == 0;
  if (made && (other.id = fork()) == 0) answer_and_end(path, field, name, ends[1]);
  if (other.id < 0) {
    report_error("%s: no process to read it in: %s", name, strerror(errno));
    if (made) close(ends[0]), close(ends[1]);
    return false;
  }
  close(ends[1]);
  other.from = ends[0];
  bool heard = take_answer(&other, &answer);
  close(ends[0]);
  int status = status_of(&other);
  *out = answer.layout;
  if (!heard) report_unheard(name, &other, status);
  return heard && answer.ok;
}

// Event files for TensorBoard: TFRecord frames (length, its checksum, message, its checksum; little-endian) of protobuf
// messages `Event` (tensorflow/core/util/event.proto, framework/summary.proto). Each is written and flushed as it
// happens; a run that is resumed goes on behind the last whole one of a step that it does not do again.
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/training.h"

// ---------------------------------------------------------------------------------------------------------------------
// Frames

// CRC-32C (Castagnoli): the polynomial 1EDC6F41, bits reversed.
static uint32_t crc32c(const void *data, size_t n) {
  const unsigned char *at = data;
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; i++) {
    crc ^= at[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

// As TFRecord keeps it: a checksum of data that holds checksums is weak.
static uint32_t masked_crc32c(const void *data, size_t n) {
  uint32_t crc = crc32c(data, n);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

enum { FRAME_HEAD = 12, FRAME_TAIL = 4 };

static bool write_frame(FILE *f, const void *message, size_t n) {
  uint64_t length = n;
  uint32_t head = masked_crc32c(&length, sizeof length), tail = masked_crc32c(message, n);
  return fwrite(&length, sizeof length, 1, f) == 1 && fwrite(&head, sizeof head, 1, f) == 1 &&
         fwrite(message, 1, n, f) == n && fwrite(&tail, sizeof tail, 1, f) == 1 && fflush(f) == 0;
}

// The next message, of at most `limit` bytes. Owned: free(); NULL: there is none that is whole.
static char *read_frame(FILE *f, uint64_t limit, size_t *n) {
  uint64_t length;
  uint32_t head, tail;
  if (fread(&length, sizeof length, 1, f) != 1 || fread(&head, sizeof head, 1, f) != 1 ||
      head != masked_crc32c(&length, sizeof length) || length > limit)
    return NULL;
  char *message = xmalloc((size_t)length + 1);
  *n = (size_t)length;
  if (fread(message, 1, *n, f) == *n && fread(&tail, sizeof tail, 1, f) == 1 && tail == masked_crc32c(message, *n))
    return message;
  free(message);
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Messages

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
// Numbers of the fields.
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_HISTOGRAM = 5 };
enum { HISTOGRAM_MIN = 1, HISTOGRAM_LIMITS = 6, HISTOGRAM_COUNTS = 7 };   // behind min: max, count, sum, sum of squares

typedef struct Message {
  char *data;   // Owned
  size_t n, capacity;
} Message;

static void put_bytes(Message *m, const void *data, size_t n) {
  if (n == 0) return;
  if (m->capacity - m->n < n) {
    m->capacity = 2 * (m->n + n);
    m->data = xrealloc(m->data, m->capacity);
  }
  memcpy(m->data + m->n, data, n);
  m->n += n;
}

static void put_varint(Message *m, uint64_t v) {
  for (; v >= 128; v >>= 7) put_bytes(m, &(unsigned char){(unsigned char)(v | 128)}, 1);
  put_bytes(m, &(unsigned char){(unsigned char)v}, 1);
}

static void put_key(Message *m, int field, int wire) { put_varint(m, (uint64_t)(field << 3 | wire)); }

static void put_double(Message *m, int field, double v) {
  put_key(m, field, WIRE_64);
  put_bytes(m, &v, sizeof v);
}

static void put_text(Message *m, int field, const void *data, size_t n) {
  put_key(m, field, WIRE_BYTES);
  put_varint(m, n);
  put_bytes(m, data, n);
}

// And frees it.
static void put_message(Message *m, int field, Message *inner) {
  put_text(m, field, inner->data, inner->n);
  free(inner->data);
}

static Message begin_event(int64_t step) {
  struct timespec now;
  Message m = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  put_double(&m, EVENT_WALL_TIME, (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
  put_key(&m, EVENT_STEP, WIRE_VARINT);
  put_varint(&m, (uint64_t)step);
  return m;
}

static void end_event(Events *e, Message *m) {
  if (!write_frame(e->file, m->data, m->n) && !e->error) e->error = errno;
  free(m->data);
}

static void put_tag(Message *value, const char *kind, const char *name) {
  char *tag = xasprintf("%s/%s", kind, name);
  put_text(value, VALUE_TAG, tag, strlen(tag));
  free(tag);
}

static void put_scalar(Message *summary, const char *kind, const char *name, double number) {
  Message value = {0};
  float v = (float)number;
  put_tag(&value, kind, name);
  put_key(&value, VALUE_SIMPLE, WIRE_32);
  put_bytes(&value, &v, sizeof v);
  put_message(summary, SUMMARY_VALUE, &value);
}

// ---------------------------------------------------------------------------------------------------------------------
// What is there already

static bool read_varint(const char **at, const char *end, uint64_t *v) {
  *v = 0;
  for (int shift = 0; shift < 64 && *at < end; shift += 7) {
    unsigned char byte = (unsigned char)*(*at)++;
    *v |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

// Step of an event, 0 where none is said, and whether it begins a file. False: it is no event.
static bool read_event(const char *at, size_t n, int64_t *step, bool *begins) {
  const char *end = at + n;
  uint64_t key, v;
  *step = 0, *begins = false;
  while (at < end) {
    if (!read_varint(&at, end, &key)) return false;
    size_t left = (size_t)(end - at), skip = 0;
    switch (key & 7) {
    case WIRE_VARINT:
      if (!read_varint(&at, end, &v)) return false;
      if (key >> 3 == EVENT_STEP) *step = (int64_t)v;
      continue;
    case WIRE_64: skip = 8; break;
    case WIRE_32: skip = 4; break;
    case WIRE_BYTES:
      if (!read_varint(&at, end, &v)) return false;
      left = (size_t)(end - at), skip = v > left ? left + 1 : (size_t)v;
      *begins |= key >> 3 == EVENT_FILE_VERSION;
      break;
    default: return false;
    }
    if (skip > left) return false;
    at += skip;
  }
  return true;
}

// Bytes up to the first event of a step after `last`, or the first frame that is not whole. -1: the file is none of
// events.
static off_t find_end(FILE *f, off_t size, int64_t last) {
  off_t keep = 0;
  size_t n;
  for (char *message; (message = read_frame(f, (uint64_t)(size - keep), &n));) {
    int64_t step;
    bool begins, ok = read_event(message, n, &step, &begins);
    free(message);
    if (keep == 0 && !(ok && begins)) return -1;
    if (!ok || step > last) return keep;
    keep += (off_t)(FRAME_HEAD + n + FRAME_TAIL);
  }
  return keep > 0 || size < FRAME_HEAD ? keep : -1;
}

// Cuts off what comes again, with last < 0 all; a file that is something else is left as it is.
static bool cut_events(const char *path, int64_t last) {
  FILE *f = fopen(path, "r+");
  struct stat st;
  if (!f || fstat(fileno(f), &st) != 0) {
    report_error("cannot write %s: %s", path, strerror(errno));
    if (f) fclose(f);
    return false;
  }
  off_t keep = S_ISREG(st.st_mode) ? find_end(f, st.st_size, last) : -1;
  bool ok = keep >= 0;
  if (!ok) report_error("%s holds something else than events: give another --tensorboard", path);
  else if (ftruncate(fileno(f), last < 0 ? 0 : keep) != 0) {
    report_error("cannot write %s: %s", path, strerror(errno));
    ok = false;
  }
  fclose(f);
  return ok;
}

// The folder, with those around it.
static bool make_folder(const char *folder) {
  char *path = xstrdup(folder);
  for (char *at = path + (*path == '/'); *at; at++) {
    if (*at != '/') continue;
    *at = 0;
    mkdir(path, 0777);   // a failure shows below
    *at = '/';
  }
  int status = mkdir(path, 0777), cause = errno;
  struct stat st;
  free(path);
  if (status == 0 || (cause == EEXIST && stat(folder, &st) == 0 && S_ISDIR(st.st_mode))) return true;
  report_error("--tensorboard: cannot make the folder %s: %s", folder, strerror(cause));
  return false;
}

bool events_open(Events *e, const char *folder, int64_t resumed) {
  *e = (Events){0};
  if (!folder) return true;
  if (!make_folder(folder)) return false;
  // TensorBoard reads files with "tfevents" in their names
  char *path = xasprintf("%s/events.out.tfevents.%s", folder, nnc_program.model);
  int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);   // of a pipe it does not wait
  if (fd < 0) report_error("cannot write %s: %s", path, strerror(errno));
  if (fd >= 0 && file_hold(fd, path, "--tensorboard") && cut_events(path, resumed)) e->file = fdopen(fd, "a");
  if (fd >= 0 && !e->file) close(fd);
  free(path);
  if (e->file && fseeko(e->file, 0, SEEK_END) == 0 && ftello(e->file) == 0) {
    static const char version[] = "brain.Event:2";
    Message m = begin_event(0);
    put_text(&m, EVENT_FILE_VERSION, version, strlen(version));
    end_event(e, &m);
  }
  return e->file != NULL;
}

bool events_close(Events *e) {
  if (!e->file) return true;
  if (fclose(e->file) != 0 && !e->error) e->error = errno;
  e->file = NULL;
  if (e->error) report_error("--tensorboard: the events could not be written completely: %s", strerror(e->error));
  return !e->error;
}

// ---------------------------------------------------------------------------------------------------------------------
// What happens

void events_scalars(Events *e, const char *kind, int64_t step, const Metrics *m, const double *rates, double seconds) {
  if (!e->file) return;
  Message event = begin_event(step), summary = {0};
  for (int i = 0; i < m->n; i++)
    if (m->weights[i] != 0) put_scalar(&summary, kind, m->names[i], m->values[i]);
  for (int i = 0; rates && i < program_phases(); i++) {
    const char *phase = program_phase(i).name;
    char *name = xasprintf("%s%slearning_rate", phase, *phase ? "." : "");
    if (rates[i] > -1) put_scalar(&summary, kind, name, rates[i]);
    free(name);
  }
  if (seconds >= 0) put_scalar(&summary, kind, "step_seconds", seconds);
  put_message(&event, EVENT_SUMMARY, &summary);
  end_event(e, &event);
}

// Four bins to each power of two: the first bits of a float, sign, exponent and two of the fraction, are the number of
// its bin. Bins in the order of their values, from -infinity to infinity.
enum { BIN_SHIFT = 21, BINS = 1 << (31 - BIN_SHIFT) };

static int bin_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  int bin = (int)((bits & 0x7FFFFFFFu) >> BIN_SHIFT);
  return bits >> 31 ? BINS - 1 - bin : BINS + bin;
}

// The largest value of a bin.
static double bin_limit(int bin) {
  bool negative = bin < BINS;
  uint32_t bits = (uint32_t)(negative ? BINS - 1 - bin : bin - BINS + 1) << BIN_SHIFT;
  float v;
  memcpy(&v, &bits, sizeof v);
  return negative ? -(double)v : isfinite(v) ? (double)v : (double)FLT_MAX;
}

typedef struct Histogram {
  double least, most, n, sum, squares;
  int64_t counts[2 * BINS];
} Histogram;

// Numbers that are not finite are in no bin.
static void count_values(Histogram *h, const float *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(v[i])) continue;
    double x = v[i];
    h->counts[bin_of(v[i])]++;
    h->least = fmin(h->least, x), h->most = fmax(h->most, x);
    h->n++, h->sum += x, h->squares += x * x;
  }
}

// Of the bins those that hold something, and before each a limit where it begins.
static void put_bins(Message *histogram, const Histogram *h) {
  Message limits = {0}, counts = {0};
  for (int bin = 0; bin < 2 * BINS; bin++) {
    bool before = bin + 1 < 2 * BINS && h->counts[bin + 1] > 0;
    if (!h->counts[bin] && !before) continue;
    put_bytes(&limits, &(double){bin_limit(bin)}, sizeof(double));
    put_bytes(&counts, &(double){(double)h->counts[bin]}, sizeof(double));
  }
  put_message(histogram, HISTOGRAM_LIMITS, &limits);
  put_message(histogram, HISTOGRAM_COUNTS, &counts);
}

void events_histogram(Events *e, const char *kind, const char *name, int64_t step, const NncTensor *t,
                      const void *values) {
  enum { CHUNK = 4096 };
  float chunk[CHUNK];
  if (!e->file) return;
  Histogram *h = xcalloc(1, sizeof *h);
  h->least = INFINITY, h->most = -INFINITY;
  for (int64_t first = 0, all = tensor_elements(t); first < all; first += CHUNK) {
    int64_t n = all - first < CHUNK ? all - first : CHUNK;
    convert_elements(t->dtype, (const char *)values + first * dtype_bytes(t->dtype), NNC_F32, chunk, n);
    count_values(h, chunk, n);
  }
  Message event = begin_event(step), summary = {0}, value = {0}, histogram = {0};
  const double numbers[] = {h->n > 0 ? h->least : 0, h->n > 0 ? h->most : 0, h->n, h->sum, h->squares};
  for (int i = 0; i < 5; i++) put_double(&histogram, HISTOGRAM_MIN + i, numbers[i]);
  put_bins(&histogram, h);
  put_tag(&value, kind, name);
  put_message(&value, VALUE_HISTOGRAM, &histogram);
  put_message(&summary, SUMMARY_VALUE, &value);
  put_message(&event, EVENT_SUMMARY, &summary);
  end_event(e, &event);
  free(h);
}

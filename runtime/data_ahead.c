// Records that stay in their files are read ahead of the steps: threads fill a ring of batches, in the order in which
// the steps take them, converted and moved as the inputs want them. The ring, a batch beside it and
// a room for each thread are there before the first step; a decoder of images takes its own memory besides, within
// bounds. What a batch holds follows from its place in the sequence alone, not from who reads it
// when.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"
#include "support/integers.h"

typedef struct Slot {   // one batch
  char *data;           // Owned; the inputs one after the other, each as in the arena
  uint32_t *members;    // Owned; of the data set, by row
  bool *failed;         // Owned; rows that could not be read
  int64_t done;         // rows that are there, or failed
  uint64_t epoch;
} Slot;

struct Ahead {
  Dataset *d;             // Borrowed
  const NncFunction *f;   // whose inputs the columns feed
  int64_t *offsets;       // Owned; of each column's input in a slot; -1: it is not in one
  int64_t *own;           // Owned; where in a room each column keeps what it knows from one record to the next
  int64_t value_bytes;    // of the longest record, of which a room holds two before that
  int64_t slot_bytes, room_bytes, batch, chunk;
  int64_t offset, stride, per_epoch;   // batch k of an epoch begins at record offset + k stride
  int n_slots, n_threads;
  Slot *slots;          // Owned; one more for batches beside the sequence
  char **rooms;         // Owned; of each thread, and of the caller
  pthread_t *threads;   // Owned
  pthread_mutex_t mutex;
  pthread_cond_t work, ready;
  // under the mutex
  int64_t head, next, next_row;   // the batch that is taken next; the first record that nobody has begun
  int64_t busy;                   // threads at work
  int64_t order_epoch;            // -1: none yet
  uint64_t order_seed;
  bool started, stop, paused, ordering;
  Slot *held;   // the batch that was taken last, where the phases of a step take it one after the other; NULL: none
  int64_t held_k;
  uint8_t *broken;   // Owned; a bit for each member that is skipped; NULL: none is
  DataWait wait;
};

static int64_t aligned(int64_t bytes) { return round_up(bytes, NNC_ALIGN); }

static int64_t record_of(const Dataset *d, uint32_t member) { return d->members ? d->members[member] : member; }

// ---------------------------------------------------------------------------------------------------------------------
// Reading

static bool read_column(const Ahead *a, int k, const Slot *s, int64_t row, char *room) {
  const Dataset *d = a->d;
  const Column *c = &d->columns[k];
  const NncTensor *input = function_input(a->f, d->names[k]);
  int64_t record = record_of(d, s->members[row]), bytes = input->bytes / a->batch;
  if (!c->fetch(c, record, room + a->own[k], room) || !column_check_limit(c, input, record, room)) return false;
  const char *values = room;
  if (d->shuffled && (c->flip > 0 || c->crop > 0))
    values = dataset_move(c, input, a->order_seed, s->epoch, record, room, room + a->value_bytes);
  stage_record(input, c->dtype, values, s->data + a->offsets[k] + row * bytes, bytes / dtype_bytes(input->dtype));
  return true;
}

static bool read_row(const Ahead *a, const Slot *s, int64_t row, char *room) {
  for (int k = 0; k < a->d->n_columns; k++)
    if (a->offsets[k] >= 0 && !read_column(a, k, s, row, room)) return false;
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// The threads

static bool is_broken(const Ahead *a, uint32_t member) { return a->broken && a->broken[member / 8] >> member % 8 & 1; }

// The member itself, or the next one that is not known as broken.
static uint32_t unbroken(const Ahead *a, uint32_t member) {
  for (int64_t n = 0; is_broken(a, member) && n < a->d->records; n++)
    member = (uint32_t)((member + 1) % (uint32_t)a->d->records);
  return member;
}

static uint32_t member_at(const Ahead *a, int64_t at) {
  const Dataset *d = a->d;
  if (at >= d->records) at = d->records - 1;
  return unbroken(a, d->order ? d->order[at] : (uint32_t)at);
}

// Rows [*first, *first + returned) of the next batch, which the caller reads; 0: there is nothing to do any more. The
// mutex is held.
static int64_t claim(Ahead *a, Slot **slot, int64_t *first) {
  for (;;) {
    if (a->stop) return 0;
    bool open = a->started && !a->paused && !a->ordering && a->next < a->head + a->n_slots;
    int64_t epoch = open ? a->next / a->per_epoch : 0;
    if (open && a->d->shuffled && !a->d->continued && a->order_epoch != epoch) {
      a->ordering = true;
      pthread_mutex_unlock(&a->mutex);
      philox_permutation(a->order_seed, philox_stream("shuffle") + (uint64_t)epoch, a->d->order, a->d->records);
      pthread_mutex_lock(&a->mutex);
      a->order_epoch = epoch;
      a->ordering = false;
      pthread_cond_broadcast(&a->work);
      pthread_cond_broadcast(&a->ready);
      continue;
    }
    if (open) {
      Slot *s = &a->slots[a->next % a->n_slots];
      int64_t from = a->next_row, n = a->batch - from < a->chunk ? a->batch - from : a->chunk;
      int64_t start = a->offset + a->next % a->per_epoch * a->stride;
      s->epoch = (uint64_t)epoch;
      for (int64_t i = from; i < from + n; i++) s->members[i] = member_at(a, start + i);
      a->next_row += n;
      if (a->next_row == a->batch) a->next++, a->next_row = 0;
      a->busy++;
      *slot = s, *first = from;
      return n;
    }
    pthread_cond_wait(&a->work, &a->mutex);
  }
}

static void ignore(Listener *l, bool is_error, const char *message) { (void)l, (void)is_error, (void)message; }

typedef struct Worker {
  Ahead *a;
  int number;
} Worker;

// Without memory, or with a mistake of ours, this does not end the process: that is for whoever takes the batch.
static bool read_row_or_fail(const Ahead *a, const Slot *s, int64_t row, char *room) {
  jmp_buf escape, *before = report_give_up_to(&escape);
  bool ok = false;
  if (!setjmp(escape)) ok = read_row(a, s, row, room);
  report_give_up_to(before);
  return ok;
}

// What fails is only noted: whoever takes the batch reads it again, and says what is wrong.
static void *work(void *context) {
  Worker w = *(Worker *)context;
  Ahead *a = w.a;
  free(context);
  Listener silent = {.hear = ignore};
  report_listen(&silent);
  uselocale(plain_locale());   // a thread begins with that of the process
  Slot *s;
  int64_t first, n;
  pthread_mutex_lock(&a->mutex);
  while ((n = claim(a, &s, &first)) > 0) {
    pthread_mutex_unlock(&a->mutex);
    for (int64_t i = first; i < first + n; i++) s->failed[i] = !read_row_or_fail(a, s, i, a->rooms[w.number]);
    pthread_mutex_lock(&a->mutex);
    s->done += n;
    a->busy--;
    if (s->done == a->batch || a->paused) pthread_cond_broadcast(&a->ready);
  }
  pthread_mutex_unlock(&a->mutex);
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// The caller's side

// The sequence goes on from batch q of the epochs.
static void restart(Ahead *a, int64_t q, uint64_t seed) {
  a->paused = true;
  while (a->busy > 0 || a->ordering) pthread_cond_wait(&a->ready, &a->mutex);
  for (int i = 0; i < a->n_slots; i++) a->slots[i].done = 0;
  a->head = a->next = q;
  a->next_row = 0;
  if (a->order_seed != seed) a->order_epoch = -1;
  a->order_seed = seed;
  a->started = true, a->paused = false;
  pthread_cond_broadcast(&a->work);
}

static Slot *take(Ahead *a, int64_t k) {
  const Dataset *d = a->d;
  pthread_mutex_lock(&a->mutex);
  int64_t q = d->shuffled ? (int64_t)d->epoch * a->per_epoch + k : k;
  bool next = a->started && a->order_seed == d->seed && (d->shuffled ? a->head == q : a->head % a->per_epoch == k);
  if (!next) restart(a, q, d->seed);
  Slot *s = &a->slots[a->head % a->n_slots];
  double begin = seconds_now();
  bool waits = s->done < a->batch;
  while (s->done < a->batch) pthread_cond_wait(&a->ready, &a->mutex);
  pthread_mutex_unlock(&a->mutex);
  a->wait.batches++;
  a->wait.waits += waits;
  if (waits) a->wait.seconds += seconds_now() - begin;
  return s;
}

static void release(Ahead *a, Slot *s) {
  pthread_mutex_lock(&a->mutex);
  s->done = 0;
  a->head++;
  pthread_cond_broadcast(&a->work);
  pthread_mutex_unlock(&a->mutex);
}

static Slot *take_or_held(Ahead *a, int64_t k) {
  bool same = a->held && a->held_k == k && a->order_seed == a->d->seed &&
              (!a->d->shuffled || a->held->epoch == a->d->epoch);
  if (same) return a->held;
  if (a->held) release(a, a->held);
  a->held = NULL;
  return take(a, k);
}

typedef struct Hearer {
  Listener listener;
  char text[1024];
} Hearer;

static void hear(Listener *l, bool is_error, const char *message) {
  if (is_error) snprintf(((Hearer *)l)->text, sizeof((Hearer *)l)->text, "%s", message);
}

// A row that could not be read, once more: now the reason is told. Where that is asked for, the next record that is not
// broken takes its place; what the system cannot read is not broken, nor what there is no memory for.
static bool read_failed(Ahead *a, Slot *s, int64_t row) {
  char *room = a->rooms[a->n_threads];
  if (!a->broken) return read_row(a, s, row, room);
  for (int64_t n = 0; n < a->d->records; n++) {
    Hearer heard = {.listener = {.hear = hear}};
    Listener *before = report_listen(&heard.listener);
    errno = 0;
    bool ok = read_row_or_fail(a, s, row, room);
    int error = errno;
    report_listen(before);
    if (ok) return true;
    if (error || heard.listener.cause) {
      report_cause(heard.listener.cause, "%s", heard.text);
      return false;
    }
    uint32_t member = s->members[row];
    pthread_mutex_lock(&a->mutex);
    bool known = is_broken(a, member);
    a->broken[member / 8] |= (uint8_t)(1 << member % 8);
    s->members[row] = unbroken(a, member);
    pthread_mutex_unlock(&a->mutex);
    if (!known) report_warning("%s; the record after it is taken instead", heard.text);
  }
  report_error("no record of the %s data can be read", a->d->split);
  return false;
}

static void give_column(const Ahead *a, const Slot *s, int k, const NncTensor *input, char *to) {
  const Dataset *d = a->d;
  const Column *c = &d->columns[k];
  int64_t bytes = input->bytes / a->batch, elements = bytes / dtype_bytes(input->dtype);
  if (a->offsets[k] >= 0) {
    memcpy(to, s->data + a->offsets[k], (size_t)input->bytes);
    return;
  }
  if (c->whole) {
    stage_record(input, c->dtype, c->values, to, tensor_elements(input));
    return;
  }
  for (int64_t i = 0; i < a->batch; i++) {
    int64_t record = record_of(d, s->members[i]);
    const char *values = c->values + record * c->record_bytes;
    if (d->shuffled && (c->flip > 0 || c->crop > 0))
      values = dataset_move(c, input, d->seed, s->epoch, record, values, d->moved);
    stage_record(input, c->dtype, values, to + i * bytes, elements);
  }
}

bool ahead_fill(Ahead *a, const NncFunction *f, int64_t first, int64_t fill, char *arena) {
  int64_t k = first - a->offset;
  bool in_sequence = k % a->stride == 0, ok = true;   // else copies of the last record, behind an evaluation
  Slot *s = in_sequence ? take_or_held(a, k / a->stride) : &a->slots[a->n_slots];
  for (int64_t i = 0; i < a->batch && !in_sequence && ok; i++) {
    s->members[i] = member_at(a, first + i < a->d->records ? first + i : fill);
    ok = read_failed(a, s, i);
  }
  for (int64_t i = 0; i < a->batch && in_sequence && ok; i++) ok = !s->failed[i] || read_failed(a, s, i);
  for (int k = 0; k < a->d->n_columns && ok; k++) {
    const NncTensor *input = function_input(f, a->d->names[k]);
    if (input) give_column(a, s, k, input, arena + input->offset);
  }
  if (in_sequence && program_phases() > 1) a->held = s, a->held_k = k / a->stride;
  else if (in_sequence) release(a, s);
  return ok;
}

void ahead_sequence(Ahead *a, int64_t offset, int64_t stride, int64_t per_epoch) {
  pthread_mutex_lock(&a->mutex);
  a->paused = true;
  while (a->busy > 0 || a->ordering) pthread_cond_wait(&a->ready, &a->mutex);
  a->offset = offset, a->stride = stride, a->per_epoch = per_epoch;
  a->started = a->paused = false;
  a->held = NULL;
  pthread_mutex_unlock(&a->mutex);
}

DataWait ahead_wait(const Ahead *a) { return a->wait; }

// ---------------------------------------------------------------------------------------------------------------------

static void measure(Ahead *a) {
  const Dataset *d = a->d;
  a->offsets = xmalloc(sizeof *a->offsets * (size_t)d->n_columns);
  a->own = xcalloc((size_t)d->n_columns, sizeof *a->own);
  for (int k = 0; k < d->n_columns; k++) {
    const Column *c = &d->columns[k];
    const NncTensor *input = function_input(a->f, d->names[k]);
    a->offsets[k] = -1;
    if (!c->fetch || !input) continue;
    a->offsets[k] = a->slot_bytes;
    a->slot_bytes += aligned(input->bytes);
    a->own[k] = a->room_bytes;
    a->room_bytes += aligned(c->room_bytes);
    if (aligned(c->record_bytes) > a->value_bytes) a->value_bytes = aligned(c->record_bytes);
  }
  for (int k = 0; k < d->n_columns; k++) a->own[k] += 2 * a->value_bytes;
  a->room_bytes += 2 * a->value_bytes;
  int64_t row = a->slot_bytes / a->batch, chunk = row > 0 ? (32 << 10) / row : a->batch;
  a->chunk = chunk < 1 ? 1 : chunk > a->batch ? a->batch : chunk;
}

static bool make_threads(Ahead *a, int n) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);   // signals are for the thread that steps
  for (; a->n_threads < n; a->n_threads++) {
    Worker *w = xmalloc(sizeof *w);
    *w = (Worker){a, a->n_threads};
    if (pthread_create(&a->threads[a->n_threads], NULL, work, w) == 0) continue;
    free(w);
    break;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (a->n_threads < n) report_error("cannot make %d threads that read the %s data", n, a->d->split);
  return a->n_threads == n;
}

Ahead *ahead_create(Dataset *d, const NncFunction *f, int n_threads, int n_batches, bool skip_broken) {
  Ahead *a = xcalloc(1, sizeof *a);
  *a = (Ahead){.d = d, .f = f, .n_slots = n_batches, .batch = function_batch(f), .order_epoch = -1};
  a->stride = a->batch;
  a->per_epoch = divide_up(d->records, a->batch);
  measure(a);
  a->slots = xcalloc((size_t)n_batches + 1, sizeof *a->slots);
  for (int i = 0; i <= n_batches; i++)
    a->slots[i] = (Slot){.data = xmalloc((size_t)a->slot_bytes),
                         .members = xmalloc(sizeof(uint32_t) * (size_t)a->batch),
                         .failed = xcalloc((size_t)a->batch, sizeof(bool))};
  a->rooms = xcalloc((size_t)n_threads + 1, sizeof *a->rooms);
  for (int i = 0; i <= n_threads; i++) a->rooms[i] = xmalloc((size_t)a->room_bytes);
  // touched now, so that what is too large fails here
  for (int i = 0; i <= n_batches; i++) memset(a->slots[i].data, 0, (size_t)a->slot_bytes);
  for (int i = 0; i <= n_threads; i++) memset(a->rooms[i], 0, (size_t)a->room_bytes);
  a->threads = xcalloc((size_t)n_threads, sizeof *a->threads);
  if (skip_broken) a->broken = xcalloc((size_t)d->records / 8 + 1, 1);
  a->wait.bytes = (n_batches + 1) * (a->slot_bytes + a->batch * 5) + (n_threads + 1) * a->room_bytes +
                  (skip_broken ? d->records / 8 + 1 : 0);
  a->wait.threads = n_threads, a->wait.n_batches = n_batches;
  pthread_mutex_init(&a->mutex, NULL);
  pthread_cond_init(&a->work, NULL);
  pthread_cond_init(&a->ready, NULL);
  if (make_threads(a, n_threads)) return a;
  ahead_destroy(a);
  return NULL;
}

void ahead_destroy(Ahead *a) {
  if (!a) return;
  pthread_mutex_lock(&a->mutex);
  a->stop = true;
  pthread_cond_broadcast(&a->work);
  pthread_mutex_unlock(&a->mutex);
  for (int i = 0; i < a->n_threads; i++) pthread_join(a->threads[i], NULL);
  for (int i = 0; i <= a->n_slots; i++) free(a->slots[i].data), free(a->slots[i].members), free(a->slots[i].failed);
  for (int i = 0; i <= a->wait.threads; i++) free(a->rooms[i]);
  pthread_mutex_destroy(&a->mutex);
  pthread_cond_destroy(&a->work);
  pthread_cond_destroy(&a->ready);
  free(a->slots), free(a->rooms), free(a->threads), free(a->offsets), free(a->own), free(a->broken);
  free(a);
}

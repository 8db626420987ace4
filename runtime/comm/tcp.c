// Sockets as the engine that moves bytes between ranks that no MPI has started: a connection between each two. On a GPU
// NCCL moves the gradients; what goes this way then are its number and a few losses a step. A thread of its own tells
// the next rank once a second that this one lives, and hears at once where the one before has ended.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/tcp.h"
#include "runtime/runtime.h"
#include "support/clock.h"

typedef struct Transfer {   // with one other rank
  const char *out;
  char *in;
  int64_t n_out, n_in;   // bytes left
} Transfer;

static TcpRanks r;
static Transfer *transfers;      // Owned, per rank
static struct pollfd *waiting;   // Owned, per rank
static pthread_t sign_thread;
static bool signs_run;
static volatile bool is_closing;

// ---------------------------------------------------------------------------------------------------------------------
// Signs of life

enum { SIGN_ALIVE = 1, SIGN_LEAVING = 2, SIGN_ABORT = 3 };

static void send_sign(char sign) {
  ssize_t sent = send(r.sign_next, &sign, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)sent;   // a next rank that is gone is another's to notice
}

_Noreturn static void end_all(int status) {
  send_sign(SIGN_ABORT);
  fflush(stdout);
  safetensors_unlink_pending();
  _exit(status);
}

// What the rank before has said; 0: nothing new. Ends all where it has gone.
static char hear(int previous) {
  char signs[64], said = 0;
  ssize_t n = recv(r.sign_previous, signs, sizeof signs, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    report_error("rank %d of %d (process %d on %s) has ended: all ranks end; the last checkpoint stands", previous,
                 r.size, r.peers[previous].process, r.peers[previous].host);
    end_all(EXIT_DIAGNOSTIC);
  }
  for (ssize_t i = 0; i < n; i++)
    if (signs[i] > said) said = signs[i];
  if (said == SIGN_ABORT) end_all(EXIT_DIAGNOSTIC);   // who has sent it first has said why
  return said;
}

// Until both have said that they leave.
static void *exchange_signs(void *unused) {
  (void)unused;
  int previous = (r.rank + r.size - 1) % r.size;
  double heard = seconds_now(), told = 0, now = heard;
  for (bool leaves = false, left = false; !leaves || !left;) {
    struct pollfd sign = {.fd = r.sign_previous, .events = POLLIN};
    poll(&sign, leaves ? 0 : 1, 50);
    heard += silence_to_excuse(&now);
    if (!left && (is_closing || now - told >= 1)) {
      left = is_closing;
      send_sign(left ? SIGN_LEAVING : SIGN_ALIVE);
      told = now;
    }
    char said = leaves ? 0 : hear(previous);
    if (said) heard = now;
    leaves |= said == SIGN_LEAVING;
    if (!leaves && now - heard > r.timeout) {
      report_error("rank %d of %d (process %d on %s) has given no sign of life for %.0f seconds: all ranks end; the "
                   "last checkpoint stands",
                   previous, r.size, r.peers[previous].process, r.peers[previous].host, r.timeout);
      end_all(EXIT_DIAGNOSTIC);
    }
  }
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Bytes

// The signs tell who has ended, and end this process; they need a moment.
_Noreturn static void lost(int rank) {
  if (signs_run) sleep(5);
  report_error("the connection to rank %d of %d is lost: all ranks end; the last checkpoint stands", rank, r.size);
  end_all(EXIT_DIAGNOSTIC);
}

static void move_bytes(int rank, int events) {
  Transfer *t = &transfers[rank];
  int s = r.peers[rank].socket;
  ssize_t n = 0;
  if (events & POLLOUT) {
    n = send(s, t->out, (size_t)t->n_out, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) t->out += n, t->n_out -= n;
    if (n < 0 && errno != EAGAIN && errno != EINTR) lost(rank);
  }
  if (!(events & (POLLIN | POLLHUP | POLLERR)) || !t->n_in) return;
  n = recv(s, t->in, (size_t)t->n_in, MSG_DONTWAIT);
  if (n > 0) t->in += n, t->n_in -= n;
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) lost(rank);
}

// All that `transfers` holds to receive, and to send, too, unless `receives` is all that is asked for.
static void transfer_until(bool receives) {
  for (;;) {
    int n = 0, n_in = 0;
    for (int k = 0; k < r.size; k++) {
      const Transfer *t = &transfers[k];
      waiting[k] = (struct pollfd){.fd = t->n_out || t->n_in ? r.peers[k].socket : -1,
                                   .events = (short)((t->n_out ? POLLOUT : 0) | (t->n_in ? POLLIN : 0))};
      n += waiting[k].fd >= 0;
      n_in += t->n_in > 0;
    }
    if (!n || (receives && !n_in)) return;
    if (poll(waiting, (nfds_t)r.size, 1000) <= 0) continue;
    for (int k = 0; k < r.size; k++)
      if (waiting[k].fd >= 0 && waiting[k].revents) move_bytes(k, waiting[k].revents);
  }
}

static void transfer(void) { transfer_until(false); }

static void exchange(void *send, const int *count, const int *at, void *staging, CommTake take, const void *context) {
  const void **parts = xcalloc((size_t)r.size, sizeof *parts);
  int part = count[r.rank], chunk = comm_chunk(part);
  for (int k = 0; k < r.size; k++)
    if (k != r.rank) transfers[k] = (Transfer){.out = (char *)send + at[k], .n_out = count[k]};
  for (int i = 0; i < part; i += chunk) {
    int n = chunk < part - i ? chunk : part - i;
    for (int k = 0; k < r.size; k++) {
      char *to = (char *)staging + (int64_t)k * chunk;
      parts[k] = k == r.rank ? (char *)send + at[k] + i : to;
      if (k != r.rank) transfers[k].in = to, transfers[k].n_in = n;
    }
    transfer_until(true);
    take(context, i, n, parts);
  }
  transfer();
  free(parts);
}

static void all_gather(void *all, const int *count, const int *at) {
  for (int k = 0; k < r.size; k++)
    if (k != r.rank) transfers[k] = (Transfer){(char *)all + at[r.rank], (char *)all + at[k], count[r.rank], count[k]};
  transfer();
}

static void send_to(const void *data, int bytes, int to) {
  transfers[to] = (Transfer){.out = data, .n_out = bytes};
  transfer();
}

static void receive_from(void *data, int bytes, int from) {
  transfers[from] = (Transfer){.in = data, .n_in = bytes};
  transfer();
}

static void broadcast(void *data, int bytes, int root) {
  if (r.rank != root) transfers[root] = (Transfer){.in = data, .n_in = bytes};
  for (int k = 0; r.rank == root && k < r.size; k++)
    if (k != root) transfers[k] = (Transfer){.out = data, .n_out = bytes};
  transfer();
}

// ---------------------------------------------------------------------------------------------------------------------

static bool open_tcp(const Starter *starter, int *rank, int *size, double timeout) {
  if (!tcp_join(starter, timeout, &r)) return false;
  *rank = r.rank, *size = r.size;
  transfers = xcalloc((size_t)r.size, sizeof *transfers);
  waiting = xcalloc((size_t)r.size, sizeof *waiting);
  if (r.size == 1) return true;
  sigset_t all, before;   // signals go to the thread that knows of them
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  signs_run = pthread_create(&sign_thread, NULL, exchange_signs, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!signs_run) report_error("cannot start a thread");
  return signs_run;
}

static void close_tcp(void) {
  is_closing = true;
  if (signs_run) pthread_join(sign_thread, NULL);
  for (int k = 0; k < r.size; k++)
    if (r.peers[k].socket >= 0) close(r.peers[k].socket);
  if (r.size > 1) close(r.sign_next), close(r.sign_previous);
  free(r.peers);
  free(transfers);
  free(waiting);
}

static void abort_tcp(int status) { end_all(status); }

const NncComm nnc_comm_tcp = {.name = "TCP",
                              .open = open_tcp,
                              .exchange = exchange,
                              .all_gather = all_gather,
                              .broadcast = broadcast,
                              .send = send_to,
                              .receive = receive_from,
                              .close = close_tcp,
                              .abort = abort_tcp};

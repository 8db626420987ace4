// How ranks find each other where no MPI has started them: each tells rank 0, at an address that all know, who it is
// and where it listens; rank 0 tells everybody all of that, and each connects to those before it.
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/tcp.h"
#include "runtime/runtime.h"
#include "runtime/training.h"
#include "support/clock.h"

#define MAGIC "nncrank1"
enum { FOR_BYTES, FOR_SIGNS };
enum { WAIT = 50 };   // milliseconds until somebody who waits looks again whether this process is asked to end
typedef struct Hello {
  char magic[8];
  int32_t rank, size, purpose, process;
  struct sockaddr_storage at;   // where this rank listens
  char host[60];
} Hello;

typedef struct Joining {
  const Starter *starter;
  TcpRanks *r;
  const char *address, *port;   // of rank 0
  char first_host[256], own_port[16];
  double end;   // by the clock
  int listener;
  Hello own, *all;   // Owned
} Joining;

// All n bytes, within the socket's time limit. False: the other end is gone or late.
static bool tcp_send(int socket, const void *data, size_t n) {
  for (const char *at = data; n > 0;) {
    ssize_t sent = send(socket, at, n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent, n -= (size_t)sent;
  }
  return true;
}

static bool tcp_receive(int socket, void *data, size_t n) {
  for (char *at = data; n > 0;) {
    ssize_t came = recv(socket, at, n, 0);
    if (came < 0 && errno == EINTR) continue;
    if (came <= 0) return false;
    at += came, n -= (size_t)came;
  }
  return true;
}

static void limit_time(int socket, double seconds) {
  struct timeval limit = {.tv_sec = seconds > 1 ? (long)seconds : 1};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static void prepare_socket(const Joining *j, int socket) {
  int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  limit_time(socket, j->end - seconds_now());
}

// ---------------------------------------------------------------------------------------------------------------------
// Where rank 0 is

// The first of "node[07-09,12],other": "node07".
static void first_of_list(const char *list, char *out, size_t size) {
  size_t prefix = strcspn(list, "[,"), from = list[prefix] == '[' ? prefix + 1 : prefix,
         digits = list[prefix] == '[' ? strcspn(list + from, "-,]") : 0;
  snprintf(out, size, "%.*s%.*s", (int)prefix, list, (int)digits, list + from);
}

// Text is the decimal number of a port, and the one `behind` it is a port, too.
static bool is_port(const char *text, int behind) {
  char *end;
  long v = strtol(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && v >= 1 && v + behind <= 65535;
}

// MASTER_ADDR and MASTER_PORT; under srun without them the first of its nodes, and a port by the number of the job. A
// torchrun listens at MASTER_PORT itself.
static bool find_first(Joining *j) {
  const char *nodes = getenv("SLURM_STEP_NODELIST"), *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID"),
             *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
  j->address = getenv("MASTER_ADDR");
  j->port = getenv("MASTER_PORT");
  if (!j->address && nodes) {
    first_of_list(nodes, j->first_host, sizeof j->first_host);
    j->address = j->first_host;
  }
  int behind = agent && strcmp(agent, "True") == 0;
  if (j->port && !is_port(j->port, behind)) {
    report_error("MASTER_PORT is \"%s\", not a number from 1 to %d", j->port, 65535 - behind);
    return false;
  }
  if (j->port && behind) {
    snprintf(j->own_port, sizeof j->own_port, "%d", atoi(j->port) + 1);
    j->port = j->own_port;
  } else if (!j->port && job) {
    snprintf(j->own_port, sizeof j->own_port, "%ld", 20000 + (atol(job) * 16 + (step ? atol(step) : 0)) % 40000);
    j->port = j->own_port;
  }
  if (j->address && j->port) return true;
  report_error("rank %d of %d, started by %s: where rank 0 is must be told by MASTER_ADDR (its machine) and "
               "MASTER_PORT "
               "(a free port there); %s is not set",
               j->r->rank, j->r->size, j->starter->name, j->address ? "MASTER_PORT" : "MASTER_ADDR");
  return false;
}

static struct addrinfo *resolve(const Joining *j) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
  int error = getaddrinfo(j->address, j->port, &hints, &list);
  if (!error) return list;
  report_error("MASTER_ADDR %s, MASTER_PORT %s: %s", j->address, j->port, gai_strerror(error));
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Single connections

static bool listen_at(Joining *j, const struct sockaddr *at, socklen_t length) {
  int on = 1;
  if (j->listener >= 0) close(j->listener);
  j->listener = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (j->listener >= 0) setsockopt(j->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t own = sizeof j->own.at;
  return j->listener >= 0 && bind(j->listener, at, length) == 0 && listen(j->listener, MAX_RANKS) == 0 &&
         getsockname(j->listener, (struct sockaddr *)&j->own.at, &own) == 0;
}

// Where nobody listens at a port that the system hands out itself, a socket can be given that port and reach itself.
static bool is_itself(int s) {
  struct sockaddr_storage own = {0}, other = {0};
  socklen_t length = sizeof own, other_length = sizeof other;
  return getsockname(s, (struct sockaddr *)&own, &length) == 0 &&
         getpeername(s, (struct sockaddr *)&other, &other_length) == 0 && memcmp(&own, &other, sizeof own) == 0;
}

// -1: not possible now.
static int connect_to(const Joining *j, const struct sockaddr *at, socklen_t length) {
  int s = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0) return -1;
  prepare_socket(j, s);
  bool connected = connect(s, at, length) == 0, itself = connected && is_itself(s);
  if (connected && !itself) return s;
  int error = itself ? ECONNREFUSED : errno;
  struct linger at_once = {.l_onoff = 1};   // rank 0 wants the port
  if (itself) setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(s);
  errno = error;
  return -1;
}

// Connects and says who this is. -1 after reporting.
static int greet(Joining *j, int rank, int purpose) {
  const struct sockaddr_storage *at = &j->all[rank].at;
  int s = connect_to(j, (const struct sockaddr *)at,
                     at->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
  j->own.purpose = purpose;
  if (s >= 0 && tcp_send(s, &j->own, sizeof j->own)) return s;
  report_error("rank %d of %d cannot reach rank %d on %s: %s", j->r->rank, j->r->size, rank, j->all[rank].host,
               strerror(errno));
  if (s >= 0) close(s);
  return -1;
}

// The next that comes and is a rank; whoever else comes is sent away. -1: nobody in time, or asked to end.
static int accept_rank(const Joining *j, Hello *hello) {
  for (;;) {
    double left = j->end - seconds_now();
    struct pollfd waiting = {.fd = j->listener, .events = POLLIN};
    if (left <= 0 || signals_stop_requested()) return -1;
    if (poll(&waiting, 1, WAIT) <= 0) continue;
    int s = accept4(j->listener, NULL, NULL, SOCK_CLOEXEC);
    if (s < 0) continue;
    prepare_socket(j, s);
    limit_time(s, left < 5 ? left : 5);   // a rank says at once who it is
    if (tcp_receive(s, hello, sizeof *hello) && memcmp(hello->magic, MAGIC, sizeof hello->magic) == 0) {
      hello->host[sizeof hello->host - 1] = 0;
      return s;
    }
    close(s);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Meeting at rank 0

// False after reporting.
static bool fits(const Joining *j, const Hello *h) {
  const TcpRanks *r = j->r;
  if (h->size != r->size)
    report_error("process %d on %s is rank %d of %d, rank 0 is one of %d: all must be told the same number of ranks",
                 (int)h->process, h->host, (int)h->rank, (int)h->size, r->size);
  else if (h->rank <= 0 || h->rank >= r->size || r->peers[h->rank].socket >= 0)
    report_error("process %d on %s says that it is rank %d of %d, which process %d on %s is", (int)h->process, h->host,
                 (int)h->rank, (int)h->size, (int)j->all[h->rank > 0 && h->rank < r->size ? h->rank : 0].process,
                 j->all[h->rank > 0 && h->rank < r->size ? h->rank : 0].host);
  else return true;
  return false;
}

static void report_missing(const Joining *j) {
  if (signals_stop_requested()) return;
  int missing = 0, first = 0;
  for (int k = j->r->size - 1; k > 0; k--)
    if (j->r->peers[k].socket < 0) missing++, first = k;
  report_error("rank %d of %d%s has not come to %s, port %s, within %.0f seconds%s", first, j->r->size,
               missing > 1 ? ", like others," : "", j->address, j->port, j->r->timeout,
               missing > 1 ? ": are all of them started?" : "");
}

static bool gather_all(Joining *j) {
  struct addrinfo *list = resolve(j);
  if (!list) return false;
  bool ok = false;
  for (const struct addrinfo *i = list; i && !ok; i = i->ai_next) {
    ok = listen_at(j, i->ai_addr, i->ai_addrlen);
    if (!ok && errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) break;   // a name may have ::1 where there is no IPv6
  }
  if (!ok)
    report_error("rank 0 of %d cannot listen at %s, port %s (MASTER_ADDR, MASTER_PORT): %s", j->r->size, j->address,
                 j->port, strerror(errno));
  freeaddrinfo(list);
  j->all[0] = j->own;
  for (int n = 1; ok && n < j->r->size; n++) {
    Hello h;
    int s = accept_rank(j, &h);
    if (s < 0) report_missing(j);
    ok = s >= 0 && fits(j, &h);
    if (!ok && s >= 0) close(s);
    if (!ok) break;
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    getpeername(s, (struct sockaddr *)&from, &length);
    // its port is that of its own socket, its address the one that is seen from here
    if (from.ss_family == AF_INET6)
      ((struct sockaddr_in6 *)&from)->sin6_port = ((struct sockaddr_in6 *)&h.at)->sin6_port;
    else ((struct sockaddr_in *)&from)->sin_port = ((struct sockaddr_in *)&h.at)->sin_port;
    h.at = from;
    j->all[h.rank] = h;
    j->r->peers[h.rank].socket = s;
  }
  for (int k = 1; ok && k < j->r->size; k++)
    ok = tcp_send(j->r->peers[k].socket, j->all, (size_t)j->r->size * sizeof *j->all);
  return ok;
}

static int reach_first(Joining *j, struct sockaddr_storage *at) {
  struct addrinfo *list = resolve(j);
  int s = -1;
  for (const struct addrinfo *i = list; list && s < 0; i = i->ai_next ? i->ai_next : list) {
    s = connect_to(j, i->ai_addr, i->ai_addrlen);
    if (s >= 0) memcpy(at, i->ai_addr, i->ai_addrlen);
    else if (seconds_now() > j->end || signals_stop_requested()) break;
    else nanosleep(&(struct timespec){0, WAIT * 1000000}, NULL);
  }
  if (list && s < 0 && !signals_stop_requested())
    report_error("rank %d of %d cannot reach rank 0 at %s, port %s (MASTER_ADDR, MASTER_PORT), within %.0f seconds: %s",
                 j->r->rank, j->r->size, j->address, j->port, j->r->timeout, strerror(errno));
  if (list) freeaddrinfo(list);
  return s;
}

// Waits for the first bytes. False: none in time, or asked to end.
static bool comes(const Joining *j, int s) {
  struct pollfd waiting = {.fd = s, .events = POLLIN};
  while (seconds_now() < j->end && !signals_stop_requested())
    if (poll(&waiting, 1, WAIT) > 0) return true;
  return false;
}

// Of what was taken for rank 0. False after reporting.
static bool is_table_of_ranks(const Joining *j) {
  for (int k = 0; k < j->r->size; k++) {
    Hello *h = &j->all[k];
    h->host[sizeof h->host - 1] = 0;
    if (memcmp(h->magic, MAGIC, sizeof h->magic) == 0 && h->rank == k) continue;
    report_error("rank %d of %d: what answers at %s, port %s (MASTER_ADDR, MASTER_PORT) is not rank 0", j->r->rank,
                 j->r->size, j->address, j->port);
    return false;
  }
  return true;
}

static bool meet_first(Joining *j) {
  struct sockaddr_storage first = {0}, own = {0};
  socklen_t length = sizeof own;
  int s = j->r->peers[0].socket = reach_first(j, &first);
  if (s < 0) return false;
  getsockname(s, (struct sockaddr *)&own, &length);
  if (own.ss_family == AF_INET6) ((struct sockaddr_in6 *)&own)->sin6_port = 0;
  else ((struct sockaddr_in *)&own)->sin_port = 0;
  if (!listen_at(j, (struct sockaddr *)&own, length)) {
    report_error("rank %d of %d cannot listen: %s", j->r->rank, j->r->size, strerror(errno));
    return false;
  }
  if (tcp_send(s, &j->own, sizeof j->own) && comes(j, s) &&
      tcp_receive(s, j->all, (size_t)j->r->size * sizeof *j->all)) {
    j->all[0].at = first;
    return is_table_of_ranks(j);
  }
  if (!signals_stop_requested())
    report_error("rank %d of %d: rank 0 has given up, or another rank has not come", j->r->rank, j->r->size);
  return false;
}

// ---------------------------------------------------------------------------------------------------------------------

// To each rank before this one, and for signs to the next; from those behind it, and for signs from the one before.
static bool connect_all(Joining *j) {
  TcpRanks *r = j->r;
  for (int k = 1; k < r->rank; k++)
    if ((r->peers[k].socket = greet(j, k, FOR_BYTES)) < 0) return false;
  r->sign_next = greet(j, (r->rank + 1) % r->size, FOR_SIGNS);
  if (r->sign_next < 0) return false;
  for (int n = r->rank == 0 ? 1 : r->size - r->rank; n > 0; n--) {
    Hello h;
    int s = accept_rank(j, &h);
    if (s < 0) {
      if (!signals_stop_requested())
        report_error("rank %d of %d: others have not come within %.0f seconds", r->rank, r->size, r->timeout);
      return false;
    }
    if (h.purpose == FOR_SIGNS) r->sign_previous = s;
    else if (h.rank > r->rank && h.rank < r->size) r->peers[h.rank].socket = s;
    else close(s);
  }
  return true;
}

static void allow_sockets(int n) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  if (files.rlim_cur < (rlim_t)n + 64 && files.rlim_cur < files.rlim_max) files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

bool tcp_join(const Starter *starter, double timeout, TcpRanks *r) {
  *r = (TcpRanks){.rank = starter->rank,
                  .size = starter->size,
                  .timeout = timeout,
                  .peers = xcalloc((size_t)starter->size, sizeof *r->peers),
                  .sign_next = -1,
                  .sign_previous = -1};
  for (int k = 0; k < r->size; k++) r->peers[k].socket = -1;
  if (r->size == 1) return true;
  Joining j = {.starter = starter,
               .r = r,
               .end = seconds_now() + timeout,
               .listener = -1,
               .own = {.magic = MAGIC, .rank = r->rank, .size = r->size, .process = (int)getpid()},
               .all = xcalloc((size_t)r->size, sizeof *j.all)};
  gethostname(j.own.host, sizeof j.own.host - 1);
  allow_sockets(r->size);
  bool ok = find_first(&j) && (r->rank == 0 ? gather_all(&j) : meet_first(&j)) && connect_all(&j);
  if (!ok && signals_stop_requested()) report_error("rank %d of %d: interrupted before all had come", r->rank, r->size);
  for (int k = 0; ok && k < r->size; k++) {
    r->peers[k].process = j.all[k].process;
    memcpy(r->peers[k].host, j.all[k].host, sizeof r->peers[k].host - 1);
  }
  if (j.listener >= 0) close(j.listener);
  free(j.all);
  return ok;
}

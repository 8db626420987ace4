// Runs blocks: every CUDA thread is a fiber that goes on until it waits at a barrier or for the other lanes of its
// warp. When nobody can go on and not all have ended, the barrier is divergent. Also the description of faults.
#include "runtime/cuda/emulator/internal.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Thread_local EmuWorker *emu_worker;

// ---------------------------------------------------------------------------------------------------------------------
// Faults

const char *emu_thread_name(const EmuThread *t, char buf[48]) {
  snprintf(buf, 48, "(%u, %u, %u)", t->id[0], t->id[1], t->id[2]);
  return buf;
}

static void describe(EmuWorker *w, EmuFault fault, const EmuThread *t, const NncEmuSite *site, const char *format,
                     va_list arguments) {
  if (w->fault) return;   // the first one counts
  w->fault = fault;
  char name[48];
  int n = snprintf(w->message, (size_t)w->message_size,
                   "kernel '%s', block (%u, %u, %u), thread %s: ", w->launch->kernel->name, w->block[0], w->block[1],
                   w->block[2], t ? emu_thread_name(t, name) : "(all)");
  if (n < w->message_size) n += vsnprintf(w->message + n, (size_t)(w->message_size - n), format, arguments);
  if (!site || n >= w->message_size) return;
  if (site->file && site->line)
    n += snprintf(w->message + n, (size_t)(w->message_size - n), "\n  at %s:%lld", site->file, (long long)site->line);
  if (n < w->message_size) snprintf(w->message + n, (size_t)(w->message_size - n), "\n  in %s", site->text);
}

void emu_describe(EmuWorker *w, EmuFault fault, const EmuThread *t, const NncEmuSite *site, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  describe(w, fault, t, site, format, arguments);
  va_end(arguments);
}

void emu_fail(EmuFault fault, const NncEmuSite *site, const char *format, ...) {
  EmuWorker *w = emu_worker;
  va_list arguments;
  va_start(arguments, format);
  describe(w, fault, w->running, site, format, arguments);
  va_end(arguments);
  emu_context_switch(&w->running->context, &w->scheduler);
  abort();   // a failed block's threads are never resumed
}

// ---------------------------------------------------------------------------------------------------------------------
// Threads

void emu_yield(void) {
  EmuWorker *w = emu_worker;
  emu_check_repeated(w);
  emu_context_switch(&w->running->context, &w->scheduler);
}

static void thread_main(void *argument) {
  EmuThread *t = argument;
  EmuWorker *w = t->worker;
  emu_context_entered(&w->scheduler);
  w->launch->kernel->entry(w->launch->arguments);
  emu_check_repeated(w);
  emu_wgmma_end(t);
  t->groups++;
  emu_copies_finish(t, 0);   // what nobody waited for lands at the end
  t->state = EMU_DONE;
  w->n_done++;
  emu_context_switch(&t->context, &w->scheduler);
  abort();
}

static void resume(EmuWorker *w, EmuThread *t) {
  if (t->state == EMU_FRESH) {
    emu_context_make(&t->context, thread_main, t);
    t->state = EMU_READY;
  }
  w->running = t;
  emu_context_switch(&w->scheduler, &t->context);
  w->running = NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Barriers

static void release(EmuWorker *w, uint32_t id) {
  EmuBarrier *b = &w->barriers[id];
  emu_order_warps(w, b->warps, b->time, b->waiting);
  const NncEmuSite *sites[EMU_MAX_WARPS] = {0};
  for (int i = 0; i < w->n_threads; i++) {
    EmuThread *t = &w->threads[i];
    t->arrived &= ~(1u << id);
    if (t->state != EMU_AT_BARRIER || t->barrier != id) continue;
    if (t->aligned && sites[t->warp] && sites[t->warp] != t->site) {
      emu_describe(w, EMU_DIVERGENCE, t, t->site,
                   "divergent barrier: other threads of the same warp reached barrier %u at another instruction: %s",
                   id, sites[t->warp]->text);
      return;
    }
    sites[t->warp] = t->site;
    t->state = EMU_READY;
    t->predicate = t->predicate >> 1 == 0 ? b->reduced_and : t->predicate >> 1 == 1 ? b->reduced_or : b->count;
  }
  *b = (EmuBarrier){0};
}

// Counts this thread; kind 0, 1, 2: and, or, popc of the predicate is the result. expected 0: all threads of the block.
static uint32_t arrive(uint32_t id, uint32_t expected, uint32_t kind, uint32_t predicate, bool wait, bool aligned,
                       const NncEmuSite *site) {
  EmuWorker *w = emu_worker;
  EmuThread *t = w->running;
  t->site = site;
  if (id >= EMU_BARRIERS) emu_fail(EMU_DIVERGENCE, site, "barrier %u: there are %d", id, EMU_BARRIERS);
  if (!expected) expected = (uint32_t)((w->n_threads + EMU_LANES - 1) / EMU_LANES * EMU_LANES);
  if (expected % EMU_LANES)
    emu_fail(EMU_DIVERGENCE, site, "barrier %u counts %u threads, not a multiple of the warp", id, expected);
  // The lanes that a last, incomplete warp lacks count as arrived.
  if (expected > (uint32_t)w->n_threads) expected = (uint32_t)w->n_threads;
  EmuBarrier *b = &w->barriers[id];
  if (!b->arrived) *b = (EmuBarrier){.expected = expected, .reduced_and = 1};
  if (b->expected != expected)
    emu_fail(EMU_DIVERGENCE, site, "divergent barrier: barrier %u counts %u threads here and %u elsewhere", id,
             expected, b->expected);
  if (t->arrived >> id & 1)
    emu_fail(EMU_DIVERGENCE, site, "arrives a second time at barrier %u, for which %u of %u threads are there", id,
             b->arrived, b->expected);
  t->arrived |= 1u << id;
  b->arrived++;
  b->reduced_and &= predicate != 0;
  b->reduced_or |= predicate != 0;
  b->count += predicate != 0;
  b->warps |= 1u << t->warp;
  if (!wait) {
    b->time[t->warp] = w->now++;
  } else {
    b->waiting |= 1u << t->warp;
    t->barrier = id;
    t->aligned = aligned;
    t->predicate = kind << 1;
    t->state = EMU_AT_BARRIER;
  }
  if (b->arrived == b->expected) release(w, id);
  if (w->fault || t->state != EMU_READY) emu_yield();
  return t->predicate;
}

#define BARRIER(name, parameters, expected, kind, predicate, wait, aligned, type, result) \
  type name parameters { result arrive(id, expected, kind, predicate, wait, aligned, site); }
BARRIER(nnc_emu_barrier_all, (uint32_t id, const NncEmuSite *site), 0, 0, 0, true, true, void, )
BARRIER(nnc_emu_barrier_count, (uint32_t id, uint32_t n, const NncEmuSite *site), n, 0, 0, true, true, void, )
BARRIER(nnc_emu_barrier_all_unaligned, (uint32_t id, const NncEmuSite *site), 0, 0, 0, true, false, void, )
BARRIER(nnc_emu_barrier_count_unaligned, (uint32_t id, uint32_t n, const NncEmuSite *site), n, 0, 0, true, false,
        void, )
BARRIER(nnc_emu_barrier_arrive, (uint32_t id, uint32_t n, const NncEmuSite *site), n, 0, 0, false, true, void, )
BARRIER(nnc_emu_barrier_and, (uint32_t id, uint32_t predicate, const NncEmuSite *site), 0, 0, predicate, true, true,
        uint32_t, return )
BARRIER(nnc_emu_barrier_or, (uint32_t id, uint32_t predicate, const NncEmuSite *site), 0, 1, predicate, true, true,
        uint32_t, return )
BARRIER(nnc_emu_barrier_popc, (uint32_t id, uint32_t predicate, const NncEmuSite *site), 0, 2, predicate, true, true,
        uint32_t, return )

// ---------------------------------------------------------------------------------------------------------------------
// Warp operations

void emu_warp_operation(EmuWarpOp op, uint32_t mask, const NncEmuSite *site) {
  EmuWorker *w = emu_worker;
  EmuThread *t = w->running, *warp = &w->threads[t->warp * EMU_LANES];
  int lanes = w->n_threads - t->warp * EMU_LANES;
  t->site = site;
  if (!(mask >> (t->index % EMU_LANES) & 1))
    emu_fail(EMU_BAD_LANES, site, "warp operation: lane %d is not in its own mask 0x%08x", t->index % EMU_LANES, mask);
  if (lanes < EMU_LANES && mask >> lanes)
    emu_fail(EMU_BAD_LANES, site, "warp operation: mask 0x%08x names lanes that the block of %d threads does not have",
             mask, w->n_threads);
  t->op = op;
  t->mask = mask;
  t->state = EMU_IN_WARP;
  for (uint32_t rest = mask; rest;) {   // from the last lane, which comes last as a rule
    int lane = 31 - __builtin_clz(rest);
    const EmuThread *other = &warp[lane];
    rest &= ~(1u << lane);
    if (other->state != EMU_IN_WARP || other->op != op || other->mask != mask) {
      emu_yield();
      return;
    }
  }
  for (uint32_t rest = mask; rest; rest &= rest - 1) warp[__builtin_ctz(rest)].state = EMU_READY;
  op(warp, mask);
  if (w->fault) emu_yield();
}

// ---------------------------------------------------------------------------------------------------------------------
// Blocks

// Nobody can go on: says who waits for whom.
static void describe_deadlock(EmuWorker *w) {
  const EmuThread *waiting = NULL, *other = NULL;
  for (int i = 0; i < w->n_threads && !waiting; i++)
    if (w->threads[i].state == EMU_IN_WARP)
      waiting = &w->threads[i];   // rather than those who wait at a barrier for it
  for (int i = 0; i < w->n_threads && !waiting; i++)
    if (w->threads[i].state == EMU_IN_WARPGROUP) waiting = &w->threads[i];
  for (int i = 0; i < w->n_threads && !waiting; i++)
    if (w->threads[i].state == EMU_AT_BARRIER) waiting = &w->threads[i];
  char name[48];
  if (waiting->state == EMU_IN_WARPGROUP) {
    for (int i = waiting->warp / 4 * 4 * EMU_LANES; !other; i++)
      if (w->threads[i].state != EMU_IN_WARPGROUP) other = &w->threads[i];
    emu_describe(w, EMU_DIVERGENCE, waiting, waiting->site, "divergent wgmma: thread %s of the warpgroup %s%s",
                 emu_thread_name(other, name), other->state == EMU_DONE ? "has exited" : "waits elsewhere: ",
                 other->state == EMU_DONE ? "" : other->site->text);
    return;
  }
  if (waiting->state == EMU_IN_WARP) {
    const EmuThread *warp = &w->threads[waiting->warp * EMU_LANES];
    for (uint32_t rest = waiting->mask; rest && !other; rest &= rest - 1) {
      const EmuThread *t = &warp[__builtin_ctz(rest)];
      if (t->state != EMU_IN_WARP || t->op != waiting->op || t->mask != waiting->mask) other = t;
    }
    emu_describe(w, EMU_DIVERGENCE, waiting, waiting->site,
                 "divergent warp operation: thread %s, named in mask 0x%08x, %s%s", emu_thread_name(other, name),
                 waiting->mask, other->state == EMU_DONE ? "has exited" : "waits elsewhere: ",
                 other->state == EMU_DONE ? "" : other->site->text);
    return;
  }
  for (int i = 0; i < w->n_threads && !other; i++)
    if (w->threads[i].state != EMU_AT_BARRIER || w->threads[i].barrier != waiting->barrier) other = &w->threads[i];
  const EmuBarrier *b = &w->barriers[waiting->barrier];
  if (!other)
    emu_describe(w, EMU_DIVERGENCE, waiting, waiting->site,
                 "divergent barrier: barrier %u waits for %u threads, %u arrived", waiting->barrier, b->expected,
                 b->arrived);
  else if (other->state == EMU_DONE)
    emu_describe(w, EMU_DIVERGENCE, waiting, waiting->site,
                 "divergent barrier: barrier %u waits for %u threads, %u arrived; thread %s has exited (%d have)",
                 waiting->barrier, b->expected, b->arrived, emu_thread_name(other, name), w->n_done);
  else
    emu_describe(w, EMU_DIVERGENCE, waiting, waiting->site,
                 "divergent barrier: barrier %u waits for %u threads, %u arrived; thread %s waits elsewhere: %s",
                 waiting->barrier, b->expected, b->arrived, emu_thread_name(other, name), other->site->text);
}

// n things in another order: the i-th is (i a + b) modulo n, a and n are relatively prime.
typedef struct Order {
  uint64_t a, b, n;
} Order;

static Order order_of(const EmuLaunch *launch, uint64_t salt, uint64_t n) {
  if (launch->order == 0 || n >> 32) return (Order){1, 0, n};
  if (launch->order == 1) return (Order){n - 1, n - 1, n};
  uint64_t random = (launch->order + salt * 0x9e3779b97f4a7c15u) * 0xd1342543de82ef95u, a = (random >> 11) % n + 1;
  for (;; a++) {
    uint64_t x = a, y = n;
    for (uint64_t rest; y; x = y, y = rest) rest = x % y;
    if (x == 1) return (Order){a, (random >> 32) % n, n};
  }
}

static uint64_t in_order(const Order *o, uint64_t i) {
  bool same = o->a == 1 && o->b == 0;   // mostly, and a division takes as long as a short part of a thread
  return same ? i : (i * o->a + o->b) % o->n;
}

static void run_block(EmuWorker *w) {
  const uint32_t *dims = w->launch->block;
  for (int i = 0; i < w->n_threads; i++) {
    EmuThread *t = &w->threads[i];
    t->index = (uint16_t)i;
    t->warp = (uint16_t)(i / EMU_LANES);
    t->id[0] = (uint32_t)i % dims[0];
    t->id[1] = (uint32_t)i / dims[0] % dims[1];
    t->id[2] = (uint32_t)i / dims[0] / dims[1];
    t->state = EMU_FRESH;
    t->site = NULL;
    t->n_copies = 0;
    t->arrived = 0;
    t->groups = 0;
    emu_wgmma_begin(t);
  }
  w->n_done = 0;
  memset(w->barriers, 0, sizeof w->barriers);
  emu_memory_begin_block(w);
  for (uint64_t turn = w->block[0]; w->n_done < w->n_threads; turn++) {
    bool moved = false;
    Order warps = order_of(w->launch, turn, (uint64_t)w->n_warps);
    for (int place = 0; place < w->n_warps; place++) {
      int warp = (int)in_order(&warps, (uint64_t)place);
      EmuThread *first = &w->threads[warp * EMU_LANES];
      int lanes = w->n_threads - warp * EMU_LANES;
      if (lanes > EMU_LANES) lanes = EMU_LANES;
      Order order = order_of(w->launch, turn + (uint64_t)warp, (uint64_t)lanes);
      bool again = true;
      while (again) {
        again = false;
        for (int i = 0; i < lanes; i++) {
          int lane = (int)in_order(&order, (uint64_t)i);
          if (first[lane].state != EMU_FRESH && first[lane].state != EMU_READY) continue;
          resume(w, &first[lane]);
          if (w->fault) return;
          again = moved = true;
        }
      }
    }
    if (!moved) {
      describe_deadlock(w);
      return;
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Launches

static void worker_free(EmuWorker *w) {
  if (!w) return;
  for (int i = 0; w->threads && i < EMU_MAX_THREADS; i++) {
    free(w->threads[i].copies);
    free(w->threads[i].results);
    free(w->threads[i].context.platform);
  }
  free(w->scheduler.platform);
  free(w->threads);
  emu_memory_destroy(w);
  emu_wgmma_free(w);
  emu_stacks_unmap(w->mapping, w->mapped);
  free(w);
}

static EmuWorker *worker_create(void) {
  EmuWorker *w = calloc(1, sizeof *w);
  if (w) w->threads = aligned_alloc(_Alignof(EmuThread), EMU_MAX_THREADS * sizeof *w->threads);
  if (w && w->threads) memset(w->threads, 0, EMU_MAX_THREADS * sizeof *w->threads);
  EmuContext *contexts = calloc(EMU_MAX_THREADS, sizeof *contexts);
  bool ok = w && w->threads && contexts &&
            emu_stacks_map(contexts, EMU_MAX_THREADS, EMU_STACK_BYTES, &w->mapping, &w->mapped);
  for (int i = 0; ok && i < EMU_MAX_THREADS; i++) {
    w->threads[i].context = contexts[i];
    w->threads[i].worker = w;
  }
  free(contexts);
  if (ok) return w;
  worker_free(w);
  return NULL;
}

typedef struct Shared {   // of the OS threads of one launch
  const EmuLaunch *launch;
  atomic_ullong next;
  uint64_t blocks;
  Order order;
  atomic_int fault;
  char *message;
  int message_size;
} Shared;

static void run_blocks(Shared *s) {
  EmuWorker *w = emu_worker;
  const EmuLaunch *launch = s->launch;
  char message[2048] = "";
  if (!w) w = emu_worker = worker_create();
  if (w) {
    w->launch = launch;
    w->n_threads = (int)(launch->block[0] * launch->block[1] * launch->block[2]);
    w->n_warps = (w->n_threads + EMU_LANES - 1) / EMU_LANES;
    w->fault = EMU_OK;
    w->message = message;
    w->message_size = sizeof message;
    memset(w->range_of_site, 0, sizeof w->range_of_site);
  }
  if (!w || !emu_memory_begin_launch(w)) {
    int none = EMU_OK;
    if (atomic_compare_exchange_strong(&s->fault, &none, EMU_BAD_LAUNCH))
      snprintf(s->message, (size_t)s->message_size, "the emulator is out of memory");
    return;
  }
  while (!atomic_load(&s->fault)) {
    uint64_t block = atomic_fetch_add(&s->next, 1);
    if (block >= s->blocks) break;
    block = in_order(&s->order, block);
    w->block[0] = (uint32_t)(block % launch->grid[0]);
    w->block[1] = (uint32_t)(block / launch->grid[0] % launch->grid[1]);
    w->block[2] = (uint32_t)(block / launch->grid[0] / launch->grid[1]);
    run_block(w);
    int none = EMU_OK;
    if (w->fault && atomic_compare_exchange_strong(&s->fault, &none, (int)w->fault))
      snprintf(s->message, (size_t)s->message_size, "%s", message);
  }
  if (w->fault) {   // its threads stand in the middle of the kernel
    worker_free(w);
    emu_worker = NULL;
  }
}

static void *os_thread(void *argument) {
  run_blocks(argument);
  worker_free(emu_worker);
  emu_worker = NULL;
  return NULL;
}

static EmuFault check_launch(const EmuLaunch *l, char *message, int size) {
  uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
  const char *name = l->kernel->name;
  if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !threads)
    snprintf(message, (size_t)size, "kernel '%s': an empty grid or block", name);
  else if (threads > EMU_MAX_THREADS || l->block[2] > 64)
    snprintf(message, (size_t)size, "kernel '%s': a block of %llu threads (limit %d, 64 in z)", name,
             (unsigned long long)threads, EMU_MAX_THREADS);
  else if (l->kernel->max_threads && threads > (uint64_t)l->kernel->max_threads)
    snprintf(message, (size_t)size, "kernel '%s': a block of %llu threads, compiled for at most %lld", name,
             (unsigned long long)threads, (long long)l->kernel->max_threads);
  else if (l->grid[0] > 0x7fffffff || l->grid[1] > 65535 || l->grid[2] > 65535)
    snprintf(message, (size_t)size, "kernel '%s': a grid of (%u, %u, %u) (limits 2147483647, 65535, 65535)", name,
             l->grid[0], l->grid[1], l->grid[2]);
  else if (l->kernel->static_bytes + l->dynamic_bytes > EMU_SHARED_OPTIN)
    snprintf(message, (size_t)size, "kernel '%s': %lld bytes of shared memory (limit %d)", name,
             (long long)(l->kernel->static_bytes + l->dynamic_bytes), EMU_SHARED_OPTIN);
  else return EMU_OK;
  return EMU_BAD_LAUNCH;
}

// A module's variables in global memory, the counters of blocks, are there once for all instances that a process has of
// it, where on a GPU each has its own: a launch of one waits until that of another is through and they are zero again.
static pthread_mutex_t launching = PTHREAD_MUTEX_INITIALIZER;

EmuFault emu_launch(const EmuLaunch *launch, char *message, int size) {
  EmuFault bad = check_launch(launch, message, size);
  if (bad) return bad;
  pthread_mutex_lock(&launching);
  Shared s = {.launch = launch,
              .blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2],
              .message = message,
              .message_size = size};
  s.order = order_of(launch, 0, s.blocks);
  pthread_t others[64];
  int n = 0;
  while (n < launch->threads - 1 && n < 64 && (uint64_t)n + 1 < s.blocks &&
         pthread_create(&others[n], NULL, os_thread, &s) == 0)
    n++;
  run_blocks(&s);
  for (int i = 0; i < n; i++) pthread_join(others[i], NULL);
  pthread_mutex_unlock(&launching);
  return (EmuFault)atomic_load(&s.fault);
}

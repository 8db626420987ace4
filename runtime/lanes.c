// Lanes on the host: compute is the calling thread, each other lane that a function has a thread of its own, which
// sleeps between runs. A step that waits sleeps until the lane that it waits for has come so far.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

typedef struct LaneThread {
  Lanes *lanes;   // Borrowed
  NncLane lane;
  pthread_t thread;
} LaneThread;

struct Lanes {
  const NncFunction *f;   // Borrowed
  RunStepFn run;
  void *context;        // Borrowed
  Listener *listener;   // Borrowed: of who made the lanes
  bool *awaited;        // Owned, per step: one of another lane waits for it
  int n_threads;
  LaneThread threads[NNC_LANES];
  pthread_mutex_t lock;    // of all below
  pthread_cond_t moved;    // any of it has changed
  int64_t turn;            // runs begun
  int running;             // threads that have not done all of this one
  int over[NNC_LANES];     // of this run: the last awaited step that is over, -1: none
  bool failed, released;   // a step of this run; all threads end
};

static bool has_lane(const NncFunction *f, NncLane lane) {
  for (int i = 0; i < f->n_steps; i++)
    if (f->steps[i].lane == lane) return true;
  return false;
}

static bool wait_for(Lanes *l, const NncStep *s) {
  if (!s->n_waits) return true;
  pthread_mutex_lock(&l->lock);
  for (int i = 0; i < s->n_waits; i++)
    while (l->over[l->f->steps[s->waits[i]].lane] < s->waits[i] && !l->failed) pthread_cond_wait(&l->moved, &l->lock);
  bool ok = !l->failed;
  pthread_mutex_unlock(&l->lock);
  return ok;
}

static void run_lane(Lanes *l, NncLane lane) {
  bool ok = true;
  for (int i = 0; i < l->f->n_steps && ok; i++) {
    const NncStep *s = &l->f->steps[i];
    if (s->lane != lane) continue;
    ok = wait_for(l, s) && (s->kind == NNC_STEP_TAP || l->run(l->context, i));
    if (ok && !l->awaited[i]) continue;
    pthread_mutex_lock(&l->lock);
    l->over[lane] = i;
    l->failed |= !ok;
    pthread_cond_broadcast(&l->moved);
    pthread_mutex_unlock(&l->lock);
  }
}

// Where messages are heard, a lane that cannot go on has failed, and the others end.
static void run_lane_or_fail(Lanes *l, NncLane lane) {
  jmp_buf escape, *before = NULL;
  if (!l->listener) {
    run_lane(l, lane);
    return;
  }
  before = report_give_up_to(&escape);
  if (!setjmp(escape)) {
    run_lane(l, lane);
  } else {
    pthread_mutex_lock(&l->lock);
    l->failed = true;
    pthread_cond_broadcast(&l->moved);
    pthread_mutex_unlock(&l->lock);
  }
  report_give_up_to(before);
}

static void *run_thread(void *thread) {
  const LaneThread *t = thread;
  Lanes *l = t->lanes;
  report_listen(l->listener);
  pthread_mutex_lock(&l->lock);
  for (int64_t turn = 0;; turn++) {
    while (l->turn == turn && !l->released) pthread_cond_wait(&l->moved, &l->lock);
    if (l->released) break;
    pthread_mutex_unlock(&l->lock);
    run_lane_or_fail(l, t->lane);
    pthread_mutex_lock(&l->lock);
    l->running--;
    pthread_cond_broadcast(&l->moved);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

bool lanes_run(Lanes *l) {
  pthread_mutex_lock(&l->lock);
  for (int lane = 0; lane < NNC_LANES; lane++) l->over[lane] = -1;
  l->failed = false;
  l->running = l->n_threads;
  l->turn++;
  pthread_cond_broadcast(&l->moved);
  pthread_mutex_unlock(&l->lock);
  run_lane_or_fail(l, NNC_LANE_COMPUTE);
  pthread_mutex_lock(&l->lock);
  while (l->running) pthread_cond_wait(&l->moved, &l->lock);
  bool ok = !l->failed;
  pthread_mutex_unlock(&l->lock);
  return ok;
}

void lanes_destroy(Lanes *l) {
  if (!l) return;
  pthread_mutex_lock(&l->lock);
  l->released = true;
  pthread_cond_broadcast(&l->moved);
  pthread_mutex_unlock(&l->lock);
  for (int i = 0; i < l->n_threads; i++) pthread_join(l->threads[i].thread, NULL);
  pthread_cond_destroy(&l->moved);
  pthread_mutex_destroy(&l->lock);
  free(l->awaited);
  free(l);
}

// Signals go to the threads that know of them.
static bool make_threads(Lanes *l) {
  sigset_t all, before;
  int error = 0;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int lane = NNC_LANE_COMPUTE + 1; lane < NNC_LANES && !error; lane++) {
    LaneThread *t = &l->threads[l->n_threads];
    *t = (LaneThread){.lanes = l, .lane = (NncLane)lane};
    if (!has_lane(l->f, t->lane)) continue;
    error = pthread_create(&t->thread, NULL, run_thread, t);
    l->n_threads += !error;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error) report_error("%s: no thread for the steps that run beside the others: %s", l->f->name, strerror(error));
  return !error;
}

bool lanes_wanted(const NncFunction *f) {
  for (int i = 0; i < f->n_steps; i++)
    if (f->steps[i].lane != NNC_LANE_COMPUTE) return true;
  return false;
}

Lanes *lanes_create(const NncFunction *f, RunStepFn run, void *context) {
  Lanes *l = xcalloc(1, sizeof *l);
  *l = (Lanes){.f = f,
               .run = run,
               .context = context,
               .listener = report_listener(),
               .awaited = xcalloc((size_t)f->n_steps, sizeof *l->awaited)};
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->moved, NULL);
  for (int i = 0; i < f->n_steps; i++)
    for (int k = 0; k < f->steps[i].n_waits; k++) l->awaited[f->steps[i].waits[k]] = true;
  if (make_threads(l)) return l;
  lanes_destroy(l);
  return NULL;
}

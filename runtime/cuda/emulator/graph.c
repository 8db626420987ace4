// Stand-in for streams, events and graphs. A capture records commands in the order of their submission; launching the
// graph runs them in that order or, of several streams, another that events allow (nnc_emu_set_lanes). Work runs at
// once, or (nnc_emu_set_late) is queued until somebody waits for it.
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cuda/emulator/device.h"

struct CudaEvent {
  CUgraph capture;   // recorded on a stream that captures
  int before;        // of the capture: the last command of that stream then, -1: none
  bool recorded;
  double seconds;
  CUstream stream;         // of the last record
  int64_t records, done;   // submitted, run
};
struct CudaGraphExec {
  CUgraph graph;
};   // holds a reference

static CUresult stream_create(CUstream *stream, unsigned flags) {
  (void)flags;
  Device *d = emu_device();
  *stream = calloc(1, sizeof **stream);
  if (!*stream) return CUDA_ERROR_OUT_OF_MEMORY;
  (*stream)->next = d->streams;
  d->streams = *stream;
  (*stream)->late = d->n_streams < EMU_LATE_PAGEABLE && d->late >> d->n_streams & 1;
  d->n_streams++;
  return CUDA_SUCCESS;
}

static void release(CUgraph graph) {
  if (--graph->references) return;
  for (int i = 0; i < graph->n; i++) emu_command_free(&graph->commands[i]);
  free(graph->commands);
  free(graph);
}

// The streams of a graph that runs, each at its next command.
typedef struct Run {
  CUgraph graph;   // Borrowed
  int at[EMU_STREAMS];
  uint64_t seed;
} Run;

static int next_of(CUgraph g, int lane, int from) {
  while (from < g->n && g->commands[from].lane != lane) from++;
  return from;
}

static bool can_run(const Run *r, int lane) {
  if (r->at[lane] == r->graph->n) return false;
  const Command *c = &r->graph->commands[r->at[lane]];
  return c->kind != COMMAND_WAIT || r->at[r->graph->commands[c->before].lane] > c->before;
}

// The stream whose next command runs: one that need not wait. Work was captured in one such order.
static int choose_stream(Run *r, uint64_t policy) {
  int can[EMU_STREAMS] = {0}, n = 0, first = 0;
  for (int lane = 0; lane < r->graph->n_lanes; lane++)
    if (can_run(r, lane)) can[n++] = lane;
  if (policy == 1) return can[n - 1];
  if (policy == 2) return can[0];
  if (policy) {
    r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
    return can[(r->seed >> 33) % (uint64_t)n];
  }
  for (int i = 1; i < n; i++)
    if (r->at[can[i]] < r->at[can[first]]) first = i;
  return can[first];
}

static CUresult run_graph(CUgraph graph) {
  CUresult result = emu_device()->broken;
  Run r = {.graph = graph, .seed = emu_device()->lanes};
  for (int lane = 0; lane < graph->n_lanes; lane++) r.at[lane] = next_of(graph, lane, 0);
  for (int left = graph->n; left > 0 && !result; left--) {
    int lane = graph->n_lanes > 1 ? choose_stream(&r, emu_device()->lanes) : 0;
    const Command *c = &graph->commands[r.at[lane]];
    if (c->kind != COMMAND_WAIT) result = emu_execute(c);
    r.at[lane] = next_of(graph, lane, r.at[lane] + 1);
  }
  return result;
}

bool emu_capture(CUstream s, const Command *command) {
  CUgraph g = s->capture;
  if (g->n == g->capacity) {
    Command *more = realloc(g->commands, (size_t)(2 * g->capacity + 16) * sizeof *more);
    if (!more) return false;
    g->commands = more;
    g->capacity = 2 * g->capacity + 16;
  }
  g->commands[g->n] = *command;
  g->commands[g->n++].lane = s->lane;
  return true;
}

static int last_command(CUstream s) {
  int last = s->capture->n - 1;
  while (last >= 0 && s->capture->commands[last].lane != s->lane) last--;
  return last;
}

static void note_record(CUevent event) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  event->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---------------------------------------------------------------------------------------------------------------------
// Queues

static void run_early(CUstream s);

bool emu_queue(CUstream s, const Command *c) {
  if (s->queue_begin == s->queue_end) s->queue_begin = s->queue_end = 0;
  if (s->queue_end == s->queue_capacity) {
    int larger = 2 * s->queue_capacity + 16;
    Command *more = realloc(s->queue, (size_t)larger * sizeof *more);
    if (!more) return false;
    s->queue = more;
    s->queue_capacity = larger;
  }
  s->queue[s->queue_end++] = *c;
  run_early(s);
  return true;
}

static CUresult run_until(CUstream s, CUevent event, int64_t record);

static CUresult run_next(CUstream s) {
  Command c = s->queue[s->queue_begin++];
  switch (c.kind) {
  case COMMAND_WAIT: return run_until(c.event->stream, c.event, c.record);
  case COMMAND_RECORD:
    c.event->done = c.record;
    note_record(c.event);
    for (CUstream other = emu_device()->streams; other; other = other->next) run_early(other);
    return emu_device()->broken;
  case COMMAND_GRAPH: {
    CUresult result = run_graph(c.graph);
    release(c.graph);
    return result;
  }
  default: {
    CUresult result = emu_execute(&c);
    emu_command_free(&c);
    return result;
  }
  }
}

static CUresult run_until(CUstream s, CUevent event, int64_t record) {
  while (event->done < record && s->queue_begin < s->queue_end) run_next(s);
  return emu_device()->broken;
}

static void run_early(CUstream s) {
  while (!s->late && s->queue_begin < s->queue_end) {
    const Command *c = &s->queue[s->queue_begin];
    if (c->kind == COMMAND_WAIT && c->event->done < c->record) return;
    run_next(s);
  }
}

CUresult emu_drain(CUstream s) {
  while (s && s->queue_begin < s->queue_end) run_next(s);
  return emu_device()->broken;
}

CUresult emu_drain_all(void) {
  for (CUstream s = emu_device()->streams; s; s = s->next) emu_drain(s);
  return emu_drain(&emu_device()->null_stream);
}

// ---------------------------------------------------------------------------------------------------------------------

static CUresult stream_destroy(CUstream stream) {
  emu_drain_all();
  for (CUstream *at = &emu_device()->streams; *at; at = &(*at)->next) {
    if (*at != stream) continue;
    *at = stream->next;
    free(stream->queue);
    free(stream->ranges);
    free(stream);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_HANDLE;
}

// A message of NCCL was lost: nothing behind it runs.
static void wait_if_stuck(void) {
  while (emu_device()->stuck) pause();
}

static CUresult stream_query(CUstream stream) {
  CUresult result = emu_drain(stream ? stream : &emu_device()->null_stream);
  return emu_device()->stuck ? CUDA_ERROR_NOT_READY : result;
}

static CUresult stream_synchronize(CUstream stream) {
  wait_if_stuck();
  if (!stream) return emu_drain(&emu_device()->null_stream);
  return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : emu_drain(stream);
}

static CUresult context_synchronize(void) {
  for (CUstream s = emu_device()->streams; s; s = s->next)
    if (s->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return emu_drain_all();
}

// ---------------------------------------------------------------------------------------------------------------------

static CUresult event_create(CUevent *event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof **event);
  return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult event_destroy(CUevent event) {
  emu_drain_all();
  free(event);
  return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream) {
  note_record(event);
  event->recorded = true;
  event->capture = stream ? stream->capture : NULL;
  event->before = event->capture ? last_command(stream) : -1;
  event->records++;
  event->stream = stream;
  bool queued = emu_device()->late && stream && !event->capture;
  if (!queued) event->done = event->records;
  else if (!emu_queue(stream, &(Command){.kind = COMMAND_RECORD, .event = event, .record = event->records}))
    return CUDA_ERROR_OUT_OF_MEMORY;
  return emu_device()->broken;
}

// A stream that waits for an event of a capture takes part in it.
static CUresult stream_wait_event(CUstream stream, CUevent event, unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!event->capture && stream && event->done < event->records &&
      !emu_queue(stream, &(Command){.kind = COMMAND_WAIT, .event = event, .record = event->records}))
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (!event->capture) return emu_device()->broken;
  if (!stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!stream->capture) {
    if (event->capture->n_lanes == EMU_STREAMS) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream->lane = event->capture->n_lanes++;
  }
  stream->capture = event->capture;
  if (event->before < 0) return emu_device()->broken;
  if (++event->capture->n_waits == emu_device()->drop) return emu_device()->broken;
  return emu_capture(stream, &(Command){.kind = COMMAND_WAIT, .before = event->before}) ? emu_device()->broken
                                                                                        : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult event_synchronize(CUevent event) {
  wait_if_stuck();
  if (event->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return event->stream ? run_until(event->stream, event, event->records) : emu_device()->broken;
}

static CUresult event_query(CUevent event) {
  if (event->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CUresult result = event->stream ? run_until(event->stream, event, event->records) : emu_device()->broken;
  return emu_device()->stuck ? CUDA_ERROR_NOT_READY : result;
}

static CUresult event_elapsed_time(float *milliseconds, CUevent from, CUevent to) {
  if (!from->recorded || !to->recorded) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = (float)(1e3 * (to->seconds - from->seconds));
  return emu_device()->broken;
}

// ---------------------------------------------------------------------------------------------------------------------

static CUresult begin_capture(CUstream stream, int mode) {
  (void)mode;
  if (!stream || stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  stream->capture = calloc(1, sizeof *stream->capture);
  if (!stream->capture) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->capture->references = stream->capture->n_lanes = 1;
  stream->origin = true;
  stream->lane = 0;
  return CUDA_SUCCESS;
}

static CUresult end_capture(CUstream stream, CUgraph *graph) {
  if (!stream || !stream->capture || !stream->origin) return CUDA_ERROR_INVALID_VALUE;
  *graph = stream->capture;
  stream->origin = false;
  for (CUstream s = emu_device()->streams; s; s = s->next)
    if (s->capture == *graph) s->capture = NULL;
  return emu_check_graph(*graph);
}

static CUresult graph_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  *exec = malloc(sizeof **exec);
  if (!*exec) return CUDA_ERROR_OUT_OF_MEMORY;
  (*exec)->graph = graph;
  graph->references++;
  return CUDA_SUCCESS;
}

static CUresult graph_launch(CUgraphExec exec, CUstream stream) {
  if (stream && stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!emu_device()->late || !stream) return run_graph(exec->graph);
  exec->graph->references++;
  return emu_queue(stream, &(Command){.kind = COMMAND_GRAPH, .graph = exec->graph}) ? emu_device()->broken
                                                                                    : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult graph_exec_destroy(CUgraphExec exec) {
  release(exec->graph);
  free(exec);
  return CUDA_SUCCESS;
}

static CUresult graph_destroy(CUgraph graph) {
  release(graph);
  return CUDA_SUCCESS;
}

void emu_bind_graphs(CudaApi *api) {
  CudaDriver *d = &api->driver;
  d->CtxSynchronize = context_synchronize;
  d->StreamCreate = stream_create;
  d->StreamDestroy = stream_destroy;
  d->StreamSynchronize = stream_synchronize;
  d->StreamQuery = stream_query;
  d->StreamWaitEvent = stream_wait_event;
  d->EventCreate = event_create;
  d->EventDestroy = event_destroy;
  d->EventRecord = event_record;
  d->EventSynchronize = event_synchronize;
  d->EventQuery = event_query;
  d->EventElapsedTime = event_elapsed_time;
  d->StreamBeginCapture = begin_capture;
  d->StreamEndCapture = end_capture;
  d->GraphInstantiate = graph_instantiate;
  d->GraphLaunch = graph_launch;
  d->GraphExecDestroy = graph_exec_destroy;
  d->GraphDestroy = graph_destroy;
}

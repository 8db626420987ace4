// Stand-in for streams, events and graphs. A capture records commands in the order of their submission; launching the graph runs them in that order.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/cuda/emulator/device.h"

struct CudaEvent {
  CUgraph capture;                       // recorded on a stream that captures
  bool recorded;
  double seconds;
};
struct CudaGraphExec { CUgraph graph; }; // holds a reference

static CUresult stream_create(CUstream *stream, unsigned flags) {
  (void)flags;
  Device *d = emu_device();
  *stream = calloc(1, sizeof **stream);
  if (!*stream) return CUDA_ERROR_OUT_OF_MEMORY;
  (*stream)->next = d->streams;
  d->streams = *stream;
  return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream) {
  for (CUstream *at = &emu_device()->streams; *at; at = &(*at)->next) {
    if (*at != stream) continue;
    *at = stream->next;
    free(stream->ranges);
    free(stream);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_HANDLE;
}

static CUresult stream_synchronize(CUstream stream) { return stream && stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : emu_device()->broken; }

static CUresult context_synchronize(void) {
  for (CUstream s = emu_device()->streams; s; s = s->next)
    if (s->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return emu_device()->broken;
}

// ---------------------------------------------------------------------------------------------------------------------

static CUresult event_create(CUevent *event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof **event);
  return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult event_destroy(CUevent event) {
  free(event);
  return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  event->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  event->recorded = true;
  event->capture = stream ? stream->capture : NULL;
  return emu_device()->broken;
}

// A stream that waits for an event of a capture takes part in it.
static CUresult stream_wait_event(CUstream stream, CUevent event, unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!event->capture) return emu_device()->broken;
  if (!stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream->capture = event->capture;
  return emu_device()->broken;
}

static CUresult event_synchronize(CUevent event) { return event->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : emu_device()->broken; }

static CUresult event_elapsed_time(float *milliseconds, CUevent from, CUevent to) {
  if (!from->recorded || !to->recorded) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = (float)(1e3 * (to->seconds - from->seconds));
  return emu_device()->broken;
}

// ---------------------------------------------------------------------------------------------------------------------

static void release(CUgraph graph) {
  if (--graph->references) return;
  for (int i = 0; i < graph->n; i++) emu_command_free(&graph->commands[i]);
  free(graph->commands);
  free(graph);
}

static CUresult begin_capture(CUstream stream, int mode) {
  (void)mode;
  if (!stream || stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  stream->capture = calloc(1, sizeof *stream->capture);
  if (!stream->capture) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->capture->references = 1;
  stream->origin = true;
  return CUDA_SUCCESS;
}

static CUresult end_capture(CUstream stream, CUgraph *graph) {
  if (!stream || !stream->capture || !stream->origin) return CUDA_ERROR_INVALID_VALUE;
  *graph = stream->capture;
  stream->origin = false;
  for (CUstream s = emu_device()->streams; s; s = s->next)
    if (s->capture == *graph) s->capture = NULL;
  return CUDA_SUCCESS;
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
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < exec->graph->n && !result; i++) result = emu_execute(&exec->graph->commands[i]);
  return result;
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
  d->StreamSynchronize = d->StreamQuery = stream_synchronize;
  d->StreamWaitEvent = stream_wait_event;
  d->EventCreate = event_create;
  d->EventDestroy = event_destroy;
  d->EventRecord = event_record;
  d->EventSynchronize = d->EventQuery = event_synchronize;
  d->EventElapsedTime = event_elapsed_time;
  d->StreamBeginCapture = begin_capture;
  d->StreamEndCapture = end_capture;
  d->GraphInstantiate = graph_instantiate;
  d->GraphLaunch = graph_launch;
  d->GraphExecDestroy = graph_exec_destroy;
  d->GraphDestroy = graph_destroy;
}

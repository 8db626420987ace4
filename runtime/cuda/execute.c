// A function's steps as launches on one stream, or a stream for each lane. The first run of the whole function captures
// them as a graph, later ones launch it: what changes from step to step (inputs, random keys, learning rates) are
// arguments in the arena, so that the graph never changes. Arguments are staged in page-locked memory while the run
// before goes on, and copied by a second stream once that has left its results: the arena has no second place for them.
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

typedef struct CudaStep {
  CUfunction function;      // KERNEL
  CUdeviceptr *addresses;   // Borrowed from CudaProgram.addresses; of the step's buffers
  void **arguments;         // Borrowed from CudaProgram.arguments; pointers to them, as cuLaunchKernel takes them
  CUdeviceptr workspace;    // of a call of cuBLAS
  struct CudaStep *inner;   // SCAN: Borrowed from CudaProgram.steps
} CudaStep;

typedef struct CudaProgram {
  const NncFunction *f;
  CudaMemory *m;
  char *mirror;             // Borrowed: the arena's on the host
  CudaStep *steps;          // Owned; the function's, then those inside of scans
  CUdeviceptr *addresses;   // Owned
  void **arguments;         // Owned
  CudaRange *ranges;        // Owned; of one step, for the emulator
  CUgraph graph;
  CUgraphExec exec;
  CUevent *over;               // Owned, per step: recorded behind one that another lane waits for, else NULL
  CUevent begun;               // before all steps, where there are several lanes
  char *staged[2], *fetched;   // Owned, page-locked: arguments of this run and the next, results; one after the other
  int turn;                    // which of the two was staged last
  bool is_staged;
} CudaProgram;

void cuda_release(void *prepared) {
  CudaProgram *p = prepared;
  if (p->exec) p->m->api.driver.GraphExecDestroy(p->exec);
  if (p->graph) p->m->api.driver.GraphDestroy(p->graph);
  char *pinned[] = {p->staged[0], p->staged[1], p->fetched};
  for (int i = 0; i < 3; i++)
    if (pinned[i]) p->m->api.driver.MemFreeHost(pinned[i]);
  for (int i = 0; p->over && i < p->f->n_steps; i++)
    if (p->over[i]) p->m->api.driver.EventDestroy(p->over[i]);
  if (p->begun) p->m->api.driver.EventDestroy(p->begun);
  free(p->over);
  free(p->steps);
  free(p->addresses);
  free(p->arguments);
  free(p->ranges);
  free(p);
}

static bool prepare_kernel(const CudaMemory *m, const NncStep *s, CudaStep *step) {
  bool found = false;
  for (int i = 0; i + 1 < m->n_modules && !found; i++)
    found = m->api.driver.ModuleGetFunction(&step->function, m->modules[i], s->launch->symbol) == CUDA_SUCCESS;
  if (!found &&
      !CUDA(m, s->launch->symbol, ModuleGetFunction, &step->function, m->modules[m->n_modules - 1], s->launch->symbol))
    return false;
  // Unasked the limit is 48 KiB less the kernel's static part; or what another step that launches it was granted.
  int granted = 0;
  if (s->launch->shared_bytes == 0) return true;
  if (!CUDA(m, s->label, FuncGetAttribute, &granted, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, step->function))
    return false;
  return granted >= s->launch->shared_bytes ||
         CUDA(m, s->label, FuncSetAttribute, step->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
              (int)s->launch->shared_bytes);
}

// Page-locked memory has the same address on the device as on the host.
static CUdeviceptr device_address(const CudaMemory *m, int64_t address) {
  return is_far_address(address) ? (CUdeviceptr)(uintptr_t)(m->far + (address - FAR_ADDRESS))
                                 : m->arena + (CUdeviceptr)address;
}

// `n` counts the arguments given out so far, `inner` is where the prepared steps of the next scan go.
static bool prepare_step(CudaProgram *p, const NncStep *s, CudaStep *step, size_t *n, CudaStep **inner) {
  step->addresses = p->addresses + *n;
  step->arguments = p->arguments + *n;
  for (int j = 0; j < s->n_buffers; j++) {
    step->addresses[j] = device_address(p->m, s->buffers[j]);
    step->arguments[j] = &step->addresses[j];
  }
  int n_numbers = s->launch ? s->launch->n_numbers : 0, shown = s->launch ? s->n_buffers - s->launch->n_hidden : 0;
  for (int j = 0; j < n_numbers; j++) step->arguments[shown + j] = (void *)(uintptr_t)&s->launch->numbers[j];
  *n += (size_t)(s->n_buffers + n_numbers);
  if (s->workspace >= 0) step->workspace = p->m->arena + (CUdeviceptr)s->workspace;
  if (s->kind == NNC_STEP_KERNEL || (s->kind == NNC_STEP_COLLECTIVE && s->launch)) return prepare_kernel(p->m, s, step);
  if (s->kind == NNC_STEP_COLLECTIVE) return true;
  if (step_scratch_bytes(s) >= 0 && !cuda_library_call(s->kind))
    report_internal("step %s of %s: not a step of a GPU program", s->label, p->f->name);
  if (s->kind != NNC_STEP_SCAN) return true;
  step->inner = *inner;
  *inner += s->scan->n_steps;
  for (int i = 0; i < s->scan->n_steps; i++)
    if (!prepare_step(p, &s->scan->steps[i], &step->inner[i], n, inner)) return false;
  return true;
}

static bool make_event(const CudaMemory *m, CUevent *event) {
  return *event || CUDA(m, "making an event", EventCreate, event, CU_EVENT_DISABLE_TIMING);
}

// The last step of a lane, -1: none.
static int last_of(const NncFunction *f, NncLane lane) {
  int last = -1;
  for (int i = 0; i < f->n_steps; i++)
    if (f->steps[i].lane == lane) last = i;
  return last;
}

// A stream for each lane, an event for each step that another lane waits for; at the end compute waits for all.
static bool prepare_lanes(CudaProgram *p) {
  const NncFunction *f = p->f;
  for (int lane = NNC_LANE_COMPUTE + 1; lane < NNC_LANES; lane++) {
    int last = last_of(f, (NncLane)lane);
    if (last < 0) continue;
    if (!p->over) p->over = xcalloc((size_t)f->n_steps, sizeof(CUevent));
    if (!cuda_open_lane(p->m, (NncLane)lane) || !make_event(p->m, &p->begun) || !make_event(p->m, &p->over[last]))
      return false;
  }
  for (int i = 0; p->over && i < f->n_steps; i++) {
    if (cuda_library_call(f->steps[i].kind) && f->steps[i].lane != NNC_LANE_COMPUTE)
      report_internal("step %s of %s: cuBLAS works on lane compute alone", f->steps[i].label, f->name);
    for (int k = 0; k < f->steps[i].n_waits; k++)
      if (!make_event(p->m, &p->over[f->steps[i].waits[k]])) return false;
  }
  return true;
}

// Steps inside of a scan, all arguments, and the most buffers of one step.
static void count_step(const NncStep *s, size_t *n_inside, size_t *n, size_t *most) {
  size_t buffers = (size_t)s->n_buffers;
  *n += buffers + (s->launch ? (size_t)s->launch->n_numbers : 0);
  if (buffers > *most) *most = buffers;
  if (s->scan) *n_inside += (size_t)s->scan->n_steps;
  for (int i = 0; s->scan && i < s->scan->n_steps; i++) count_step(&s->scan->steps[i], n_inside, n, most);
}

// caches: those among them, too
static size_t bytes_of(int n, const NncTensor *tensors, bool caches) {
  size_t sum = 1;   // nothing cannot be allocated
  for (int i = 0; i < n; i++)
    if (!tensors[i].streamed && (caches || tensors[i].role != NNC_CACHE)) sum += (size_t)tensors[i].bytes;
  return sum;
}

void *cuda_prepare(const NncFunction *f, const Arena *arena) {
  CudaProgram *p = xcalloc(1, sizeof *p);
  p->f = f;
  p->mirror = arena->base;
  p->m = arena->memory;
  size_t n = 0, most = 0, n_steps = (size_t)f->n_steps;
  for (int i = 0; i < f->n_steps; i++) count_step(&f->steps[i], &n_steps, &n, &most);
  p->steps = xcalloc(n_steps, sizeof *p->steps);
  p->addresses = xcalloc(n + 1, sizeof *p->addresses);
  p->arguments = xcalloc(n + 1, sizeof *p->arguments);
  p->ranges = xcalloc(most + 1, sizeof *p->ranges);
  CudaStep *inner = p->steps + f->n_steps;
  n = 0;
  for (int i = 0; i < f->n_steps; i++) {
    if (prepare_step(p, &f->steps[i], &p->steps[i], &n, &inner)) continue;
    cuda_release(p);
    return NULL;
  }
  if (!prepare_lanes(p)) {
    cuda_release(p);
    return NULL;
  }
  size_t arguments = bytes_of(f->n_args, f->args, false), results = bytes_of(f->n_results, f->results, true);
  const char *what = "allocating page-locked memory for arguments and results";
  if (cuda_allocate_pinned(p->m, what, arguments, &p->staged[0]) &&
      cuda_allocate_pinned(p->m, what, arguments, &p->staged[1]) &&
      cuda_allocate_pinned(p->m, what, results, &p->fetched))
    return p;
  cuda_release(p);
  return NULL;
}

// ---------------------------------------------------------------------------------------------------------------------
// Steps

// The emulator reports every access outside of the step's buffers.
static void expect_ranges(const CudaProgram *p, const NncStep *s, const CudaStep *step, CUstream stream) {
  if (!p->m->api.expect_ranges || !s->buffer_bytes) return;
  int n = 0;
  for (int j = 0; j < s->n_buffers; j++) {
    bool known = s->buffer_values && s->buffer_values[j] != NNC_NO_VALUES;
    if (s->buffer_bytes[j])
      p->ranges[n++] = (CudaRange){s->label, step->addresses[j], (size_t)s->buffer_bytes[j],
                                   known && !(s->buffer_values[j] & NNC_WRITTEN)};
  }
  if (s->workspace >= 0 && cuda_library_call(s->kind))
    p->ranges[n++] = (CudaRange){"workspace", step->workspace, (size_t)step_scratch_bytes(s), false};
  p->m->api.expect_ranges(stream, n, p->ranges);
}

static bool launch_scan(CudaProgram *p, const NncScan *scan, const CudaStep *step, CUstream stream, StepWatch *w);

static bool run_watched(CudaProgram *p, const NncStep *s, const CudaStep *step, StepWatch *w);

static bool launch_copy(const CudaMemory *m, const NncStep *s, const CudaStep *step, CUstream stream) {
  CUdeviceptr from = step->addresses[0], to = step->addresses[1];
  size_t bytes = (size_t)s->copy_bytes;
  if (is_far_address(s->buffers[0]))
    return CUDA(m, s->label, MemcpyHtoDAsync, to, (const void *)(uintptr_t)from, bytes, stream);
  if (is_far_address(s->buffers[1]))
    return CUDA(m, s->label, MemcpyDtoHAsync, (void *)(uintptr_t)to, from, bytes, stream);
  return CUDA(m, s->label, MemcpyDtoDAsync, to, from, bytes, stream);
}

static bool launch(CudaProgram *p, const NncStep *s, const CudaStep *step, CUstream stream) {
  const CudaMemory *m = p->m;
  switch (s->kind) {
  case NNC_STEP_KERNEL: {
    const NncLaunch *l = s->launch;
    expect_ranges(p, s, step, stream);
    return CUDA(m, s->label, LaunchKernel, step->function, (unsigned)l->grid[0], (unsigned)l->grid[1],
                (unsigned)l->grid[2], (unsigned)l->block[0], (unsigned)l->block[1], (unsigned)l->block[2],
                (unsigned)l->shared_bytes, stream, step->arguments, NULL);
  }
  case NNC_STEP_COPY: return launch_copy(m, s, step, stream);
  case NNC_STEP_TAP: return true;
  case NNC_STEP_SCAN: return launch_scan(p, s->scan, step, stream, NULL);
  case NNC_STEP_COLLECTIVE: return cuda_run_collective(m, s, step->addresses, step->workspace, step->function, stream);
  default: expect_ranges(p, s, step, stream); return cuda_library_call(s->kind)(m, s, step->addresses, step->workspace);
  }
}

// Moves step i of a scan, and what is inside of it, by so many iterations of the loop that is `level` loops around that
// scan.
static void move_step(const NncScan *scan, int i, const CudaStep *step, int level, int64_t by) {
  const NncStep *s = &scan->steps[i];
  for (int j = 0; j < s->n_buffers; j++)
    step->addresses[j] += (CUdeviceptr)(by * scan->strides[i][j * scan->depth + level]);
  for (int k = 0; s->scan && k < s->scan->n_steps; k++) move_step(s->scan, k, &step->inner[k], level + 1, by);
}

// A launch takes the addresses as they are then, also into a graph; they move on after it, and back to the start after
// the last iteration.
static bool launch_scan(CudaProgram *p, const NncScan *scan, const CudaStep *step, CUstream stream, StepWatch *w) {
  int level = w ? w->depth++ : 0;
  for (int64_t t = 1; t <= scan->iterations; t++) {
    if (w && level < (int)(sizeof w->iterations / sizeof *w->iterations)) w->iterations[level] = t - 1;
    for (int i = 0; i < scan->n_steps; i++) {
      if (!(w ? run_watched(p, &scan->steps[i], &step->inner[i], w)
              : launch(p, &scan->steps[i], &step->inner[i], stream)))
        return false;
      move_step(scan, i, &step->inner[i], 0, t < scan->iterations ? 1 : 1 - t);
    }
  }
  if (w) w->depth--;
  return true;
}

// One step, to its end, those of loops one by one.
static bool run_watched(CudaProgram *p, const NncStep *s, const CudaStep *step, StepWatch *w) {
  if (w->over) return true;
  if (s->scan) return launch_scan(p, s->scan, step, p->m->compute, w);
  int64_t *offsets = xmalloc(sizeof *offsets * ((size_t)s->n_buffers + 1));
  for (int j = 0; j < s->n_buffers; j++)
    offsets[j] = is_far_address(s->buffers[j]) ? s->buffers[j] : (int64_t)(step->addresses[j] - p->m->arena);
  w->over = !w->before(w, s, offsets);
  bool ok = w->over || (launch(p, s, step, p->m->compute) && cuda_wait(p->m, s->label));
  if (ok && !w->over) w->over = !w->after(w, s, offsets);
  free(offsets);
  return ok;
}

bool cuda_watch_step(void *prepared, int index, StepWatch *w) {
  CudaProgram *p = prepared;
  p->m->uploaded = NULL;
  return run_watched(p, &p->f->steps[index], &p->steps[index], w);
}

bool cuda_run_step(void *prepared, int index) {
  CudaProgram *p = prepared;
  p->m->uploaded = NULL;
  return launch(p, &p->f->steps[index], &p->steps[index], p->m->compute) && cuda_wait(p->m, p->f->steps[index].label);
}

bool cuda_time_step(void *prepared, int index, double *seconds) {
  CudaProgram *p = prepared;
  const CudaMemory *m = p->m;
  const NncStep *s = &p->f->steps[index];
  float ms = 0;
  bool ok = CUDA(m, s->label, EventRecord, m->before, m->compute) && launch(p, s, &p->steps[index], m->compute) &&
            CUDA(m, s->label, EventRecord, m->after, m->compute) && cuda_wait(m, s->label) &&
            CUDA(m, s->label, EventElapsedTime, &ms, m->before, m->after);
  *seconds = (double)ms * 1e-3;
  return ok;
}

static bool launch_on_lane(CudaProgram *p, int i) {
  const NncStep *s = &p->f->steps[i];
  const CudaMemory *m = p->m;
  CUstream stream = s->lane == NNC_LANE_COMPUTE ? m->compute : m->lanes[s->lane];
  for (int k = 0; k < s->n_waits; k++)
    if (!CUDA(m, s->label, StreamWaitEvent, stream, p->over[s->waits[k]], 0)) return false;
  return launch(p, s, &p->steps[i], stream) &&
         (!p->over || !p->over[i] || CUDA(m, s->label, EventRecord, p->over[i], stream));
}

// All lanes begin behind what compute has done before, and are over where it goes on.
static bool launch_all(CudaProgram *p) {
  const CudaMemory *m = p->m;
  const NncFunction *f = p->f;
  if (p->over && !CUDA(m, f->name, EventRecord, p->begun, m->compute)) return false;
  for (int lane = NNC_LANE_COMPUTE + 1; p->over && lane < NNC_LANES; lane++)
    if (last_of(f, (NncLane)lane) >= 0 && !CUDA(m, f->name, StreamWaitEvent, m->lanes[lane], p->begun, 0)) return false;
  for (int i = 0; i < f->n_steps; i++)
    if (!launch_on_lane(p, i)) return false;
  for (int lane = NNC_LANE_COMPUTE + 1; p->over && lane < NNC_LANES; lane++) {
    int last = last_of(f, (NncLane)lane);
    if (last >= 0 && !CUDA(m, f->name, StreamWaitEvent, m->compute, p->over[last], 0)) return false;
  }
  return true;
}

// Relaxed: the first use of a kernel of cuBLAS loads it, which the driver refuses during a capture of another mode.
// That the launches do nothing unsafe is known.
static bool capture(CudaProgram *p) {
  const CudaMemory *m = p->m;
  const char *what = "capturing the step as a graph";
  if (!CUDA(m, what, StreamBeginCapture, m->compute, CU_STREAM_CAPTURE_MODE_RELAXED)) return false;
  if (!launch_all(p)) {
    m->api.driver.StreamEndCapture(m->compute, &p->graph);   // fails as well, for the reason reported
    return false;
  }
  return CUDA(m, what, StreamEndCapture, m->compute, &p->graph) &&
         CUDA(m, what, GraphInstantiate, &p->exec, p->graph, 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Whole runs. stage may come while another run goes on: in what it overwrites nothing is left to do since that run's
// own arguments were copied before the run before it ended (two buffers).

// Once the results of the run before are on their way: they may lie where the arguments go.
static bool upload(CudaProgram *p) {
  CudaMemory *m = p->m;
  const char *what = "copying arguments to the GPU", *from = p->staged[p->turn];
  if (!CUDA(m, what, StreamWaitEvent, m->copy, m->done, 0)) return false;
  for (int i = 0; i < p->f->n_args; i++) {
    const NncTensor *t = &p->f->args[i];
    if (t->role == NNC_CACHE) continue;   // stays there
    if (t->bytes && !CUDA(m, what, MemcpyHtoDAsync, m->arena + (CUdeviceptr)t->offset, from, (size_t)t->bytes, m->copy))
      return false;
    from += t->bytes;
  }
  m->uploaded = p;
  return CUDA(m, what, EventRecord, m->copied, m->copy);
}

bool cuda_stage(void *prepared) {
  CudaProgram *p = prepared;
  p->turn = !p->turn;
  char *to = p->staged[p->turn];
  for (int i = 0; i < p->f->n_args; i++) {
    const NncTensor *t = &p->f->args[i];
    if (t->role == NNC_CACHE) continue;
    memcpy(to, p->mirror + t->offset, (size_t)t->bytes);
    to += t->bytes;
  }
  p->is_staged = true;
  return upload(p);
}

bool cuda_start(void *prepared) {
  CudaProgram *p = prepared;
  CudaMemory *m = p->m;
  const char *what = "fetching results from the GPU";
  if (!p->exec && !capture(p)) return false;
  // another run has had the arena since
  if (!p->is_staged ? !cuda_stage(p) : m->uploaded != p && !upload(p)) return false;
  p->is_staged = false;
  m->uploaded = NULL;
  if (!CUDA(m, p->f->name, StreamWaitEvent, m->compute, m->copied, 0) ||
      !CUDA(m, p->f->name, GraphLaunch, p->exec, m->compute))
    return false;
  char *to = p->fetched;
  for (int i = 0; i < p->f->n_results; to += p->f->results[i++].bytes) {
    const NncTensor *t = &p->f->results[i];
    if (t->bytes &&
        !CUDA(m, what, MemcpyDtoHAsync, to, m->arena + (CUdeviceptr)t->offset, (size_t)t->bytes, m->compute))
      return false;
  }
  return CUDA(m, what, EventRecord, m->done, m->compute);
}

bool cuda_finish(void *prepared) {
  CudaProgram *p = prepared;
  if (!cuda_wait_event(p->m, p->m->done, p->f->name)) return false;
  const char *from = p->fetched;
  for (int i = 0; i < p->f->n_results; from += p->f->results[i++].bytes)
    memcpy(p->mirror + p->f->results[i].offset, from, (size_t)p->f->results[i].bytes);
  return true;
}

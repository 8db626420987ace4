// What a GPU does not check of a graph of several streams: that streams and events order each two commands of which one
// writes what the other touches. For each command stands, per stream, the last one that is over when it starts (a
// vector clock); what lies behind that on other streams may run beside it, and is looked at one by one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/emulator/device.h"

typedef struct Clock {
  int at[EMU_STREAMS];   // command, -1: none
} Clock;

static void join(Clock *a, const Clock *b) {
  for (int lane = 0; lane < EMU_STREAMS; lane++)
    if (b->at[lane] > a->at[lane]) a->at[lane] = b->at[lane];
}

// after[i]: who is over when command i is, itself among them; *end: at the end of each stream.
static void find_clocks(CUgraph g, Clock *after, Clock *end) {
  memset(end, -1, EMU_STREAMS * sizeof *end);
  for (int i = 0; i < g->n; i++) {
    const Command *c = &g->commands[i];
    Clock *now = &end[c->lane];
    if (c->kind == COMMAND_WAIT) join(now, &after[c->before]);
    now->at[c->lane] = i;
    after[i] = *now;
  }
}

// The k-th range that a command touches; false: there is none.
static bool touched(const Command *c, int k, EmuRange *out) {
  switch (c->kind) {
  case COMMAND_COPY:
    *out = k ? (EmuRange){"a copy", (uintptr_t)c->to, c->bytes, false}
             : (EmuRange){"a copy", (uintptr_t)c->from, c->bytes, true};
    return k < 2;
  case COMMAND_SET: *out = (EmuRange){"a memset", (uintptr_t)c->to, c->bytes, false}; return k < 1;
  case COMMAND_LAUNCH:
  case COMMAND_GEMM:
    if (c->n_ranges) *out = c->ranges[k < c->n_ranges ? k : 0];
    else *out = (EmuRange){"work that may touch all memory", 0, UINT64_MAX, false};
    return k < c->n_ranges || (k < 1 && !c->n_ranges);
  case COMMAND_NCCL: *out = emu_device()->message_range(c, k < c->n_messages ? k : 0); return k < c->n_messages;
  case COMMAND_RECORD:
  case COMMAND_WAIT:
  case COMMAND_GRAPH: break;
  }
  return false;
}

static bool meet(const EmuRange *a, const EmuRange *b) {
  uintptr_t from = a->address > b->address ? a->address : b->address;
  return !(a->read_only && b->read_only) && from - a->address < a->bytes && from - b->address < b->bytes;
}

// Where an address lies in its allocation, and in which memory that is.
static unsigned long long offset_of(uintptr_t address, const char **memory) {
  const Memory *all[] = {&emu_device()->memory, &emu_device()->pinned};
  for (int i = 0; i < 2; i++) {
    const Allocation *a = emu_find(all[i], (const char *)address, 1);
    *memory = all[i]->name;
    if (a) return (unsigned long long)(address - (uintptr_t)a->base);
  }
  *memory = "memory";
  return (unsigned long long)address;
}

static CUresult race(CUgraph g, int first, const EmuRange *a, int second, const EmuRange *b) {
  char message[1024];
  uintptr_t from = a->address > b->address ? a->address : b->address;
  uint64_t left = a->bytes - (from - a->address), bytes = b->bytes - (from - b->address);
  if (left < bytes) bytes = left;
  const char *memory;
  unsigned long long offset = offset_of(from, &memory);
  snprintf(message, sizeof message,
           "race: command %d of the graph, '%s' on stream %d, %s %llu bytes at %llu of %s, which command %d, '%s' on "
           "stream %d, %s, and no event orders them",
           second, b->name, g->commands[second].lane, b->read_only ? "reads" : "writes", (unsigned long long)bytes,
           offset, memory, first, a->name, g->commands[first].lane, a->read_only ? "reads" : "writes");
  return emu_fault(EMU_RACE, message);
}

static CUresult compare(CUgraph g, int first, int second) {
  EmuRange a, b;
  for (int i = 0; touched(&g->commands[first], i, &a); i++)
    for (int k = 0; touched(&g->commands[second], k, &b); k++)
      if (meet(&a, &b)) return race(g, first, &a, second, &b);
  return CUDA_SUCCESS;
}

CUresult emu_check_graph(CUgraph g) {
  if (g->n_lanes < 2) return CUDA_SUCCESS;
  Clock *after = malloc(((size_t)g->n + 1) * sizeof *after), end[EMU_STREAMS];
  if (!after) return CUDA_ERROR_OUT_OF_MEMORY;
  find_clocks(g, after, end);
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < g->n && !result; i++) {
    const Clock *known = &after[i];
    int from = i;   // all before it on other streams are over
    for (int lane = 0; lane < g->n_lanes; lane++)
      if (lane != g->commands[i].lane && known->at[lane] + 1 < from) from = known->at[lane] + 1;
    for (int k = from; k < i && !result; k++)
      if (g->commands[k].lane != g->commands[i].lane && k > known->at[g->commands[k].lane]) result = compare(g, k, i);
  }
  for (int lane = 1; lane < g->n_lanes && !result; lane++)
    if (end[lane].at[lane] > end[0].at[lane])
      result = emu_fault(EMU_RACE, "race: the capture ends while the work of another stream may still go on: it was "
                                   "not joined");
  free(after);
  return result;
}

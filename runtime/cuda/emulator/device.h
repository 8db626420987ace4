// The stand-in device: what driver.c, graph.c and blas.c share. As with the real driver there is one per process.
#ifndef NNC_RUNTIME_CUDA_EMULATOR_DEVICE_H
#define NNC_RUNTIME_CUDA_EMULATOR_DEVICE_H

#include <stddef.h>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/emulator/emulator.h"

typedef struct Gemm {   // cublasGemmStridedBatchedEx, column-major
  int op_a, op_b, m, n, k;
  double alpha, beta;
  const void *a, *b;
  void *c;
  int type_a, type_b, type_c, lda, ldb, ldc;
  long long stride_a, stride_b, stride_c;
  int batch, compute;
  void *workspace;   // overwritten with NaN
  size_t workspace_bytes;
} Gemm;

// RECORD and GRAPH stand only in queues.
typedef enum CommandKind {
  COMMAND_LAUNCH,
  COMMAND_COPY,
  COMMAND_SET,
  COMMAND_GEMM,
  COMMAND_NCCL,
  COMMAND_RECORD,
  COMMAND_WAIT,
  COMMAND_GRAPH
} CommandKind;
typedef struct Command {   // one entry of a stream or node of a graph
  CommandKind kind;
  const NncEmuKernel *kernel;
  uint32_t grid[3], block[3], dynamic_bytes;
  void **arguments;   // Owned, one block of memory with the values behind; COPY: what is copied, where it was read
                      // before
  int n_ranges;
  EmuRange *ranges;   // Owned; what may be touched. n_ranges 0: all allocations
  char *to;
  const char *from;
  size_t bytes;
  bool to_device, from_device;
  uint32_t value;
  int value_bytes;   // 1 or 4
  Gemm gemm;
  int n_messages;
  struct Message *messages;   // NCCL: Owned
  CUevent event;              // RECORD, WAIT: Borrowed
  int64_t record;             // which record of it
  CUgraph graph;              // GRAPH: a reference
  // in a graph: the stream, numbered as they joined the capture, and what WAIT waits for, a command
  int lane, before;
} Command;

enum { EMU_STREAMS = 8 };   // of a capture

struct CudaGraph {
  int n, capacity;
  Command *commands;   // Owned
  int n_lanes;         // streams, at most EMU_STREAMS
  uint64_t n_waits;    // for events, so far
  int references;      // the graph itself and what was instantiated from it
};
struct CudaStream {
  CUgraph capture;   // Borrowed; NULL: not capturing
  bool origin;       // of the capture, not joined by an event
  int lane;          // of the capture
  int n_ranges;
  EmuRange *ranges;   // Owned; for the next command
  Command *queue;     // Owned; what has not run yet, where work runs late
  int queue_begin, queue_end, queue_capacity;
  bool late;   // else its work runs as soon as the events allow
  struct CudaStream *next;
};
struct CudaFunction {
  const NncEmuKernel *kernel;
  int max_dynamic_bytes;
  struct CudaFunction *next;
};

typedef struct Allocation {
  char *base;
  size_t bytes;
} Allocation;
typedef struct Memory {
  const char *name;   // for messages
  size_t alignment;
  uint64_t used;   // bytes, in whole units of the alignment
  int n, capacity;
  Allocation *allocations;   // Owned; sorted by address
} Memory;
// Of Device.late: copies from pageable memory arrive when somebody waits for the default stream.
enum { EMU_LATE_PAGEABLE = 31 };
typedef struct Device {
  bool initialised;
  uint64_t total;          // bytes of memory
  Memory memory, pinned;   // the device's own; what is page-locked of the host's
  struct CudaStream null_stream;
  struct CudaStream *streams;   // Owned
  CUresult broken;              // of the first fault; all later work fails with it, as on a device
  char error[4096];
  int threads;
  uint64_t order, lanes, drop;
  unsigned late;        // bit i: work of the i-th stream made runs when somebody waits for it; EMU_LATE_PAGEABLE
  unsigned n_streams;   // made so far
  // NCCL's calls of this process, and which of them fails; its messages, and which is lost, after which nothing goes on
  uint64_t nccl_calls, nccl_fail, nccl_messages, nccl_lose;
  bool stuck;
  // nccl.c, which is bound where there are ranks: a command's messages are exchanged; what the i-th of them touches
  CUresult (*pass_messages)(const Command *command);
  EmuRange (*message_range)(const Command *command, int i);
} Device;
Device *emu_device(void);

// Runs the command now, or records it where the stream captures. Takes its memory.
CUresult emu_submit(CUstream stream, Command *command);
CUresult emu_execute(const Command *command);
bool emu_queue(CUstream stream, const Command *command);   // and runs what may run early; false: out of memory
CUresult emu_drain(CUstream stream);                       // runs what is queued, and before that what it waits for
CUresult emu_drain_all(void);
void emu_command_free(Command *command);
// The allocation that holds all of these bytes; NULL: none.
const Allocation *emu_find(const Memory *memory, const void *p, size_t bytes);
// The sorted ranges that the command may touch. Owned: free.
EmuRange *emu_ranges(const Command *command, int *n);
bool emu_capture(CUstream stream, const Command *command);   // false: out of memory
// What a capture of several streams has recorded: each two commands that touch the same bytes, one of them writing,
// must be ordered by streams and events, and all of them before the end of the first stream. Else a fault.
CUresult emu_check_graph(CUgraph graph);
CUresult emu_fault(EmuFault fault, const char *message);   // notes and prints it
bool emu_ranges_contain(const EmuRange *ranges, int n, const void *p, size_t bytes);

void emu_bind_graphs(CudaApi *api);   // graph.c: streams, events, graphs
void emu_bind_blas(CudaApi *api);     // blas.c
EmuFault emu_gemm(const Command *command, char *message, size_t size);

#endif

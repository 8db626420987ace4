// The emulator's inside: a worker runs one block at a time, its threads as fibers, grouped in warps.
#ifndef NNC_RUNTIME_CUDA_EMULATOR_INTERNAL_H
#define NNC_RUNTIME_CUDA_EMULATOR_INTERNAL_H

#include <stddef.h>

#include "runtime/cuda/emulator/emulator.h"

enum {
  EMU_LANES = 32,
  EMU_MAX_THREADS = 1024,
  EMU_MAX_WARPS = EMU_MAX_THREADS / EMU_LANES,
  EMU_BARRIERS = 16,
  EMU_SHARED_DEFAULT = 48 * 1024,   // bytes without opting in
  EMU_SHARED_OPTIN = 227 * 1024,    // compute capability 9.0
  EMU_STACK_BYTES = 256 * 1024,
  EMU_RANGE_CACHE = 256,
  EMU_FENCES = 16,
};

// ---------------------------------------------------------------------------------------------------------------------
// fiber.c: stacks and switches between them

typedef struct EmuContext {
  void *stack_pointer;   // saved while not running
  void *stack;           // lowest address
  size_t stack_bytes;
  void *platform;     // ucontext_t where there is no own switch
  void *fake_stack;   // AddressSanitizer's
} EmuContext;
// with a guard page below each
bool emu_stacks_map(EmuContext *contexts, int n, size_t stack_bytes, void **mapping, size_t *mapped);
void emu_stacks_unmap(void *mapping, size_t mapped);
// The next switch to `to` calls start(argument) on its stack; start must not return.
void emu_context_make(EmuContext *to, void (*start)(void *), void *argument);
void emu_context_switch(EmuContext *from, EmuContext *to);
void emu_context_entered(EmuContext *from);   // first thing that start does; from: where the switch came from

// ---------------------------------------------------------------------------------------------------------------------
// block.c: threads, barriers, faults

typedef enum EmuState { EMU_FRESH, EMU_READY, EMU_AT_BARRIER, EMU_IN_WARP, EMU_IN_WARPGROUP, EMU_DONE } EmuState;

typedef struct EmuCopy {          // cp.async that has not landed
  uint32_t to;                    // offset in shared memory
  uint32_t bytes, source_bytes;   // the rest is filled with zeros
  const char *from;
  uint64_t group;
} EmuCopy;

typedef struct EmuResult EmuResult;             // of wgmma, on its way
typedef struct EmuMatrixReads EmuMatrixReads;   // of shared memory, by a wgmma in flight

typedef struct EmuWorker EmuWorker;
typedef struct EmuThread EmuThread;
typedef void (*EmuWarpOp)(EmuThread *warp, uint32_t mask);   // warp: its 32 threads

// First a line of the cache with all that the other lanes of a warp operation look at, and one with what they change.
struct EmuThread {
  EmuState state;
  uint32_t mask;   // in a warp operation
  EmuWarpOp op;
  union {
    uint32_t u[12];
    float f[12];
    double d[6];
    uint64_t w[6];
  } in;
  union {
    uint32_t u[8];
    float f[8];
    double d[4];
    uint64_t w[4];
  } out;
  const NncEmuSite *site;   // last operation
  EmuWorker *worker;
  uint16_t index, warp;   // in the block
  uint32_t id[3];
  EmuContext context;
  // at a barrier
  uint32_t barrier;
  uint32_t arrived;   // a bit for each barrier that has not completed since
  bool aligned;
  uint32_t predicate;   // in: of barrier.red; out: its result
  // asynchronous copies
  EmuCopy *copies;   // Owned
  int n_copies, max_copies;
  uint64_t groups;   // committed
  // wgmma
  uint64_t *words;   // Borrowed: operands of the one it waits for the others in
  int n_words;
  EmuResult *results;   // Owned
  int n_results;
  uint64_t wgmma_groups, wgmma_waited;   // committed, waited for
  bool wgmma_fenced;                     // since the last commit or wait
  uint32_t async_fences[EMU_FENCES];     // times of the last fences of the asynchronous proxy
  uint32_t n_async_fences;
  uint32_t fence_knows[EMU_MAX_WARPS];   // times of the other warps that its warp knew of at the last of them
} __attribute__((aligned(64)));

typedef struct EmuBarrier {
  uint32_t arrived, expected;
  uint32_t reduced_and, reduced_or, count;
  uint32_t warps, waiting;        // a bit each that takes part, that waits
  uint32_t time[EMU_MAX_WARPS];   // of the arrival of warps that do not wait: later accesses are not ordered
} EmuBarrier;

typedef struct EmuCell EmuCell;

struct EmuWorker {
  const EmuLaunch *launch;
  EmuContext scheduler;
  EmuThread *threads;   // Owned, EMU_MAX_THREADS
  EmuThread *running;
  void *mapping;   // Owned: stacks
  size_t mapped;
  int n_threads, n_warps, n_done;
  uint32_t block[3];
  EmuBarrier barriers[EMU_BARRIERS];
  // shared memory and what is known about each of its granules
  char *shared;                       // Owned
  uint8_t *states, *initial_states;   // Owned; one per granule
  EmuCell *cells;                     // Owned; one per granule
  const NncEmuSite **write_sites;     // Owned; one per granule, of its last write
  uint32_t *in_flight;                // Owned; one per granule, warps for which a wgmma may still read it
  uint32_t shared_bytes;              // of this launch, with gaps
  uint32_t dynamic_begin;             // of its dynamic part
  uint32_t capacity;
  int granule_shift;
  // Order of events. A clock counts synchronisations; known[w][v] is the time of the last one that warp w knows warp v
  // to have passed.
  uint32_t now;
  uint32_t known[EMU_MAX_WARPS][EMU_MAX_WARPS];
  struct {
    uint32_t offset, bytes;   // 0: none
    char before[16];
    uint16_t other;
    const NncEmuSite *site;
  } repeated;                     // a lane's store to where another lane stored with the same instruction
  EmuMatrixReads *matrix_reads;   // Owned
  int n_matrix_reads;
  const EmuRange *range_of_site[EMU_RANGE_CACHE];   // where an instruction's last access went, by a hash of its site
  EmuFault fault;
  char *message;   // Borrowed
  int message_size;
};

extern _Thread_local EmuWorker *emu_worker;   // of this OS thread
static inline EmuThread *emu_thread(void) { return emu_worker->running; }

// Ends the block: describes the fault and never returns to the kernel.
_Noreturn void emu_fail(EmuFault fault, const NncEmuSite *site, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void emu_describe(EmuWorker *w, EmuFault fault, const EmuThread *t, const NncEmuSite *site, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void emu_yield(void);   // to the scheduler, until this thread's state is EMU_READY
// All lanes of mask meet; the last runs op over the warp's threads, then all go on.
void emu_warp_operation(EmuWarpOp op, uint32_t mask, const NncEmuSite *site);
const char *emu_thread_name(const EmuThread *t, char buf[48]);   // "(1, 0, 0)"

// ---------------------------------------------------------------------------------------------------------------------
// memory.c: shared memory's shadow, bounds of global memory

enum { EMU_GAP, EMU_UNWRITTEN, EMU_COPYING, EMU_WRITTEN };   // states of a granule
struct EmuCell {   // all that reads look at beside the state, in a quarter of a line of the cache
  uint32_t write_time, read_time;
  uint32_t read_warps;         // a bit each; 0: not read since the last write
  uint16_t writer : 15;        // thread
  uint16_t atomic : 1;         // the last write was one
  uint16_t reader : 15;        // thread
  uint16_t many_readers : 1;   // more than `reader` alone
};
_Static_assert(sizeof(EmuCell) == 16 && EMU_MAX_THREADS <= 1 << 15, "small, and threads have numbers of 15 bits");
void emu_memory_destroy(EmuWorker *w);
bool emu_memory_begin_launch(EmuWorker *w);   // false: out of memory
void emu_memory_begin_block(EmuWorker *w);
// What `releasing` warps did up to their times (NULL: until now) is before what `acquiring` warps, a part of them, do
// next.
void emu_order_warps(EmuWorker *w, uint32_t releasing, const uint32_t *times, uint32_t acquiring);
void emu_shared_access(EmuThread *t, const void *p, uint32_t bytes, uint32_t align, uint32_t kind,
                       const NncEmuSite *site);
void emu_global_access(EmuThread *t, const void *p, uint64_t bytes, uint32_t align, uint32_t kind,
                       const NncEmuSite *site);
void emu_check_repeated(EmuWorker *w);   // that it stored the same value
void emu_mark_copying(EmuThread *t, const void *p, uint32_t bytes, const NncEmuSite *site);
void emu_mark_copied(EmuThread *t, uint32_t offset, uint32_t bytes);

// A wgmma reads for the warp of t; and that it no longer may.
void emu_matrix_access(EmuThread *t, uint32_t offset, uint32_t bytes, const NncEmuSite *site);
void emu_matrix_release(EmuThread *t, uint32_t offset, uint32_t bytes);

// wgmma.c
void emu_wgmma_begin(EmuThread *t);
void emu_wgmma_end(EmuThread *t);   // faults if one is in flight
void emu_wgmma_free(EmuWorker *w);

// tensor_core.c, math.c: conversions
float emu_from_bf16(uint16_t bits);
float emu_from_f16(uint16_t bits);
uint32_t nnc_emu_f2bf16(float x);
uint32_t nnc_emu_f2tf32_rna(float x);
uint32_t nnc_emu_ff2f16x2(float high, float low);

// copy.c: cp.async
void emu_copies_finish(EmuThread *t, uint64_t groups_pending);

#endif

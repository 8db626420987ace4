// A CUDA device for machines that have none: kernels run on the host, every CUDA thread a fiber, and accesses that a
// GPU would let pass in silence are reported with kernel, block, thread and instruction. codegen/cuda/emulate/emulate.c
// rewrites a kernel module for it (what it writes into the module is declared here); driver.c and blas.c stand in for
// libcuda and libcublas. A test device: exact and slow.
#ifndef NNC_RUNTIME_CUDA_EMULATOR_H
#define NNC_RUNTIME_CUDA_EMULATOR_H

#include <stdbool.h>
#include <stdint.h>

// ---------------------------------------------------------------------------------------------------------------------
// What an emulated module's object contains. ORDER EMULATE: codegen/cuda/emulate/emulate_table.c writes the same
// fields.

// Where an access or a collective operation stands in the kernel.
typedef struct NncEmuSite {
  const char *text;   // the instruction as LLVM IR
  const char *file;   // of the debug location, or NULL
  int64_t line;       // 0: unknown
} NncEmuSite;

typedef struct NncEmuVariable {   // a static shared variable
  const char *name;
  // offset from the block's shared memory; between two variables lies a gap that must not be touched
  int64_t offset, bytes;
} NncEmuVariable;

typedef struct NncEmuKernel {
  const char *name;
  void (*entry)(void **arguments);   // one CUDA thread; arguments as for cuLaunchKernel
  const NncEmuVariable *variables;
  int64_t n_variables;
  int64_t static_bytes;   // shared memory of the variables as a GPU lays them out, bytes
  int64_t layout_bytes;   // the same with the gaps: dynamic shared memory begins here
  int64_t granule;        // bytes of the smallest access to shared memory: 1, 2 or 4
  int64_t max_threads;    // of a block, from nvvm.maxntid or nvvm.reqntid; 0: not given
  int64_t n_parameters;
  const int64_t *parameter_bytes;
} NncEmuKernel;

#define NNC_EMU_MAGIC "nncemu1"
typedef struct NncEmuModule {
  char magic[8];
  int64_t n_kernels;
  const NncEmuKernel *kernels;
} NncEmuModule;

// ---------------------------------------------------------------------------------------------------------------------
// What can be called from emulated kernels

enum { EMU_READ = 1, EMU_WRITE = 2, EMU_ATOMIC = 4 };      // kind of access
enum { EMU_HAS_SITE = 1, EMU_PURE = 2, EMU_PACKED = 4 };   // flags of an intrinsic

// Intrinsics have one calling convention, so that no C ABI question arises: i1, i8, i16, half and bfloat are passed as
// uint32_t bits, vectors of 32 bits too; float, double, 32 and 64 bit integers and pointers as themselves. A struct is
// returned through a first argument uint64_t *, one field each. With EMU_HAS_SITE the site is the last argument. With
// EMU_PACKED operands of at most 64 bits come as the bits in an array uint64_t *, in which results go back, then how
// many there are and the site.
typedef struct NncEmuSymbol {
  const char *intrinsic;   // "shfl.sync.bfly.f32" without "llvm.nvvm."; "asm.NAME" for a function "nnc.asm.NAME", where
                           // a * at the end stands for anything; "" for helpers
  const char *symbol;      // the C function
  void (*address)(void);
  int flags;
} NncEmuSymbol;
const NncEmuSymbol *nnc_emu_symbols(int *n);                      // static, not sorted
const NncEmuSymbol *nnc_emu_find_symbol(const char *intrinsic);   // NULL: not emulated

// Start of the block's shared memory; called once at the start of a kernel that has shared variables.
void *nnc_emu_shared_base(void);
void *nnc_emu_dynamic_base(void);   // of its dynamic part
// Before every load, store and atomic: address, bytes, alignment the instruction promises, kind.
void nnc_emu_check_shared(const void *p, int64_t bytes, int64_t align, uint32_t kind, const NncEmuSite *site);
void nnc_emu_check_global(const void *p, int64_t bytes, int64_t align, uint32_t kind, const NncEmuSite *site);
void nnc_emu_check_generic(const void *p, int64_t bytes, int64_t align, uint32_t kind, const NncEmuSite *site);

// ---------------------------------------------------------------------------------------------------------------------
// Running kernels without the driver's stand-in (driver.c uses the same)

typedef enum EmuFault {
  EMU_OK,
  EMU_UNINITIALIZED,   // read of shared memory that nothing was written to
  EMU_PENDING_COPY,    // access to shared memory before cp.async.wait, to accumulators before wgmma.wait_group
  EMU_OUT_OF_BOUNDS,
  EMU_MISALIGNED,
  EMU_RACE,         // two threads of a block, no barrier in between
  EMU_DIVERGENCE,   // a barrier or warp operation that some threads never reach
  EMU_BAD_LANES,    // a warp operation whose mask or source lane is wrong
  EMU_BAD_LAUNCH,   // sizes that no GPU accepts
  EMU_UNFENCED,     // wgmma of shared memory that no fence.proxy.async made ready for it
} EmuFault;

typedef struct EmuRange {   // memory that a kernel may touch
  const char *name;         // Borrowed
  uintptr_t address;
  uint64_t bytes;
  bool read_only;   // nothing there is written; for the order of commands on several streams
} EmuRange;

typedef struct EmuTraffic {
  uint64_t read, written;
} EmuTraffic;   // bytes of global memory, each access counted

typedef struct EmuLaunch {
  const NncEmuKernel *kernel;
  uint32_t grid[3], block[3];
  uint32_t dynamic_bytes;
  void **arguments;
  int n_ranges;
  const EmuRange *ranges;   // sorted by address, not overlapping unless equal ends meet
  int threads;              // OS threads for blocks; <= 1: one, in order, deterministic also where f32 atomics add
  // Threads of several warps that store one value to one place with one instruction are no race.
  bool equal_stores;
  // Dynamic shared memory begins at a multiple of 1024, as on a GPU where there is no static part, whatever alignment
  // the module promises; else at a multiple of that and of no more.
  bool aligned_shared;
  // In which blocks run, and the threads that can: 0 from the first to the last, 1 from the last to the first, else
  // random by this seed. What a kernel computes must not depend on it.
  uint64_t order;
  EmuTraffic *traffic;   // is added to; of one OS thread. NULL: not counted
} EmuLaunch;

// Runs all blocks. Returns EMU_OK or the first fault, whose description (no newline at the end) is written to message.
EmuFault emu_launch(const EmuLaunch *launch, char *message, int size);

// ---------------------------------------------------------------------------------------------------------------------
// The stand-in driver's extras, for tests

const char *nnc_emu_last_error(void);   // description of the last fault, "" if none; valid until the next launch
void nnc_emu_reset(void);               // forgets a fault (a real context would stay broken), frees nothing
// Bit i: work submitted to the i-th stream that is made runs when somebody waits for it, in the latest order that
// events allow; that of the other streams as early as they allow. A program that forgets to wait computes something
// else with one of the sets. Bit 31: what cuMemcpyHtoD has read arrives when somebody waits for the default stream.
// NNC_EMU_LATE=N does the same.
void nnc_emu_set_late(unsigned streams);
// In which order graphs of several streams run: 0 as their work was captured, 1 that of the streams that joined as
// early as events allow, 2 as late as they allow, else random by this seed. NNC_EMU_LANES=N does the same.
void nnc_emu_set_lanes(uint64_t lanes);
// The n-th wait for an event in a capture, from 1, is forgotten: the capture must fail, or it was for nothing.
// NNC_EMU_DROP=N does the same.
void nnc_emu_set_drop(uint64_t n);
void nnc_emu_set_memory(uint64_t bytes);   // device memory that the stand-in pretends to have; default 2 GiB
int64_t nnc_emu_allocated_bytes(void);     // by cuMemAlloc, now

#endif

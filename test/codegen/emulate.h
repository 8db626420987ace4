// Kernels as LLVM IR text, compiled in the process for the emulator and launched: for tests of the emulator and of
// kernel templates.
#ifndef NNC_TEST_CODEGEN_EMULATE_H
#define NNC_TEST_CODEGEN_EMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda/emulator/emulator.h"
#include "llvm-c/Core.h"

// Inputs/cuda/NAME of this folder. Owned: free. Ends the test program if it cannot be read.
char *emulate_read(const char *name);
// text with the first occurrence of `from` replaced, which must be there. Frees text.
char *emulate_edit(char *text, const char *from, const char *to);

typedef struct Emulated Emulated;
typedef struct Record Record;
// NULL after printing why: the text is not valid IR, or the emulator lacks something; *error, if wanted, gets the
// reason instead (free).
Emulated *emulate_text(const char *ir, char **error);
// The same of a module, which it takes together with its context.
Emulated *emulate_take_module(LLVMModuleRef module, char **error);
void emulate_free(Emulated *e);
// The module for the emulator as FOLDER/NAME.so, whose test_kernels is its NncEmuModule: what bench/gpu/replay.c runs
// where there is no GPU.
void emulate_library(LLVMModuleRef module, const char *folder, const char *name);
const NncEmuModule *emulate_module(const Emulated *e);
const NncEmuKernel *emulate_kernel(const Emulated *e, const char *name);   // ends the program if absent

// A launch over host memory. Arguments are given as pairs of address and bytes for memory the kernel may touch, bytes 0
// for a scalar's address.
typedef struct EmulateArgument {
  const char *name;
  void *data;
  uint64_t bytes;
} EmulateArgument;
typedef struct EmulateLaunch {
  uint32_t grid[3], block[3], dynamic_bytes;
  int n;
  const EmulateArgument *arguments;
  int threads;
  bool equal_stores, aligned_shared;   // of EmuLaunch
  uint64_t order;                      // likewise
  // For a comparison with a GPU (record.c). Per argument: 'f' f32, 'd' f64, 'b' bf16, 'h' f16, 'i' bytes that are
  // equal, '-' not compared. NULL: all f32.
  const char *types;
  double tolerance;      // of the largest value; 0: 1e-5 in f32, 1e-12 in f64, 1e-2 in 16 bits
  EmuTraffic *traffic;   // gets the bytes of global memory that are read and written; NULL: not counted
} EmulateLaunch;
// Orders for launches whose results must not depend on it: forwards, backwards, random, and so on.
uint64_t emulate_order(void);
EmuFault emulate_run(const Emulated *e, const char *kernel, const EmulateLaunch *launch, char *message, int size);

// PTX of the module for an architecture ("sm_90a"), by the passes that the compiler runs on templates. NULL after
// printing why. Owned: free.
char *emulate_ptx(const char *ir, const char *arch);
// The same, through ptxas where it is found in PATH: false if ptxas refuses it (its output is printed) or warns that
// products of warpgroups cannot overlap. *registers and *spills, if wanted, get the largest values it reports; -1
// without ptxas.
bool emulate_assemble(const char *ptx, const char *arch, int *registers, int *spills);
// What ptxas says of each kernel, bytes of shared memory (the static part) and of spills: how many kernels; -1: there
// is no ptxas, 0: it refuses the text or warns as above, after printing what it says.
typedef struct EmulateResources {
  char name[256];
  int registers, shared, spills;
} EmulateResources;
int emulate_resources(const char *ptx, const char *arch, EmulateResources *out, int most);

uint16_t emulate_to_bf16(float x);
float emulate_from_bf16(uint16_t bits);

#endif

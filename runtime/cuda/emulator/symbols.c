// The table of functions that emulated kernels call: by intrinsic for the rewriting, by address for a just-in-time
// compiler in tests.
#include <string.h>

#include "runtime/cuda/emulator/emulator.h"

// The functions have many types; here only their addresses count.
enum { S = EMU_HAS_SITE, P = EMU_PURE, A = EMU_PACKED };
#define X(intrinsic, function, flags) extern char address_of_##function[] __asm__(#function);
#include "runtime/cuda/emulator/symbols.def"
#undef X

static const NncEmuSymbol symbols[] = {
#define X(intrinsic, function, flags) {intrinsic, #function, (void (*)(void))(uintptr_t)address_of_##function, flags},
#include "runtime/cuda/emulator/symbols.def"
#undef X
};

const NncEmuSymbol *nnc_emu_symbols(int *n) {
  *n = (int)(sizeof symbols / sizeof *symbols);
  return symbols;
}

const NncEmuSymbol *nnc_emu_find_symbol(const char *intrinsic) {
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    const char *name = symbols[i].intrinsic;
    size_t length = strlen(name);
    bool family = length && name[length - 1] == '*';
    if (length && (family ? !strncmp(name, intrinsic, length - 1) : !strcmp(name, intrinsic))) return &symbols[i];
  }
  return NULL;
}

// The loops of products for each instruction set: gemm_loops.inc for vectors, gemm_amx.inc.
#include <string.h>

#include "runtime/gemm_internal.h"
#include "runtime/library.h"

#define LOOPS "runtime/gemm_loops.inc"
#include "runtime/tile_loops.inc"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include "runtime/gemm_amx.inc"

const Loops *gemm_loops(const Gemm *g) {
  if (g->type == NNC_F32) return g->result == NNC_F32 ? loops_here() : NULL;
  return g->type == NNC_BF16 && nnc_library_has_amx() ? &loops_amx : NULL;
}
#else
const Loops *gemm_loops(const Gemm *g) { return (void)g, loops_here(); }
#endif

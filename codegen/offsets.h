// The plan's arena offsets of all values of a function, for code that is made for them.
#ifndef NNC_CODEGEN_OFFSETS_H
#define NNC_CODEGEN_OFFSETS_H

#include "ir/ir.h"
#include "passes/plan/plan.h"
#include "support/ptr_map.h"

typedef struct Offsets {
  PtrMap ids;   // MlirValue -> index into at
  int n;
  int64_t *at;   // Owned
} Offsets;

// Requires a function after `plan`. An alias lies in its operand's buffer, a region's result is what it yields. Owned:
// offsets_free.
void offsets_build(Offsets *o, MlirOperation func, const NnStepList *steps);
int64_t offsets_of(const Offsets *o, MlirValue v);   // bytes
void offsets_free(Offsets *o);

// Where the buffers of one step of a scan really are: offsets in the plan of the function that calls
// it, which may be the step of another scan.
typedef struct ScanPlace {
  const struct ScanPlace *around;   // Borrowed; of that other scan, NULL: none
  int64_t workspace;                // offset of what is the step's own
  int64_t arena;                    // bytes of that; the offsets of arguments begin here
  int n;
  int64_t *from, *bytes;   // Owned; by argument: its offset in the body's plan, its size
  int64_t *to, *stride;    // Owned; its offset in the first iteration, and how it moves
} ScanPlace;
// Of a scan that is called where values have these offsets, in the step of the scan `around` or, NULL, in a function.
// Owned: scan_place_free.
ScanPlace scan_place_create(const Offsets *offsets, const ScanPlace *around, const NnScan *s, MlirOperation call);
void scan_place_free(ScanPlace *p);
// Where byte `offset` of the body's plan is in that of the caller; *stride 0 or how it moves.
int64_t scan_place(const ScanPlace *p, int64_t offset, int64_t *stride);

#endif

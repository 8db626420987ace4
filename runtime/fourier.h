// Fourier transforms of rows on the host (fourier.c), for what goes along an axis (rows.c).
#ifndef NNC_RUNTIME_FOURIER_H
#define NNC_RUNTIME_FOURIER_H

#include "runtime/program.h"

// Whether the loops take rows of this length: its prime factors are at most 13, and a longer one than a few thousand is
// a product of two lengths that vectors fit in.
bool fourier_fits(int64_t length, NncDtype dtype);
int64_t fourier_bytes(const NncRows *r, int threads);   // workspace
// Rows by NNC_ROWS_SPECTRUM, OF_SPECTRUM or FOURIER; how a row is computed depends on its length and whether rows are
// few, never on the threads.
void fourier_execute(const NncRows *r, const void *from, void *to, void *workspace);

#endif

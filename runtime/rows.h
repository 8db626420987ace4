// Sorting one row (rows_sort.c), for what goes along an axis on the host (rows.c).
#ifndef NNC_RUNTIME_ROWS_H
#define NNC_RUNTIME_ROWS_H

#include "runtime/program.h"

int64_t rows_sort_bytes(const NncRows *r);   // workspace of one thread
// Row i of outer x inner ones: the first r->count indices that sort it, as the op argsort says.
void rows_sort(const NncRows *r, int64_t i, const void *from, int32_t *to, void *workspace);

#endif

// What the pass `decode` leaves behind.
#ifndef NNC_PASSES_DECODE_H
#define NNC_PASSES_DECODE_H

#include "ir/ir.h"

int64_t decode_cache_bytes(MlirModule module);   // of the caches of @decode; 0: there are none

#endif

// Checksums of files: XXH3 with 64 bits, of the xxHash library, whose header alone is compiled in.
#ifndef NNC_RUNTIME_CHECKSUM_H
#define NNC_RUNTIME_CHECKSUM_H

#include <stdint.h>

enum { CHECKSUM_DIGITS = 16 };

typedef struct Checksum Checksum;
Checksum *checksum_begin(void);   // never NULL
void checksum_add(Checksum *c, const void *data, int64_t bytes);
uint64_t checksum_end(Checksum *c);                      // frees c, which may be NULL: of nothing
uint64_t checksum_of(const void *data, int64_t bytes);   // of all at once
void checksum_print(uint64_t sum, char *out);            // CHECKSUM_DIGITS hexadecimal digits and no end

#endif

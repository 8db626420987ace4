// Sizes of memory as people write and read them.
#ifndef NNC_SUPPORT_BYTES_H
#define NNC_SUPPORT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// "512MiB", "4 GB", "1000": *bytes, and *percent is 0. "50%": *percent is 50 and *bytes -50; refused when percent is
// NULL. K, M, G and T alone are binary (1K = 1024). False if malformed.
bool parse_bytes(const char *text, int64_t *bytes, double *percent);
// "3.98 GiB", written to buf, which is returned.
const char *print_bytes(int64_t bytes, char *buf, size_t size);

#endif

// Input of mutate.test: each kind of mistake, and where none may be planted.
#include <assert.h>
#define LIMIT (3 + 4)

static const int table[] = {1 + 2, -3};
enum { FIRST = 1, LAST = FIRST + 1 };

int clamp(int low, int high, int x) {
  static const int most = 7 - 1;
  assert(low < high);   // low < high, a promise
  const char *name = "a < b && c";
  switch (x) {
  case LAST - 1: return most;
  default: break;
  }
  if (x < low || !name) return low;
  return clamp(high, low, table[1]) - x;
}

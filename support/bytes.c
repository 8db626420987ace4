// See bytes.h.
#include "support/bytes.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool unit_scale(const char *unit, double *scale) {
  static const char prefixes[] = "kmgt";
  *scale = 1;
  if (*unit == 0 || strcasecmp(unit, "b") == 0) return true;
  const char *prefix = strchr(prefixes, tolower((unsigned char)*unit));
  if (!prefix) return false;
  double base;
  if (strcasecmp(unit + 1, "ib") == 0 || unit[1] == 0) base = 1024;
  else if (strcasecmp(unit + 1, "b") == 0) base = 1000;
  else return false;
  for (const char *p = prefixes; p <= prefix; p++) *scale *= base;
  return true;
}

bool parse_bytes(const char *text, int64_t *bytes, double *percent) {
  if (!isdigit((unsigned char)*text)) return false;   // strtod would take signs, "inf" and hexadecimal numbers
  if (text[0] == '0' && tolower((unsigned char)text[1]) == 'x') return false;
  char *end;
  double number = strtod(text, &end), scale;
  while (*end == ' ') end++;
  if (strcmp(end, "%") == 0) {
    if (!percent || number <= 0 || number > 1e6) return false;
    *percent = number;
    *bytes = -(int64_t)fmax(1, round(number));
    return true;
  }
  if (!unit_scale(end, &scale) || number * scale > 0x1p62) return false;
  if (percent) *percent = 0;
  *bytes = (int64_t)(number * scale);
  return true;
}

const char *print_bytes(int64_t bytes, char *buf, size_t size) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = (double)bytes;
  size_t unit = 0;
  for (; fabs(value) >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1024;
  if (unit == 0) snprintf(buf, size, "%lld %s", (long long)bytes, bytes == 1 ? "byte" : "bytes");
  else snprintf(buf, size, "%.*f %s", fabs(value) < 10 ? 2 : fabs(value) < 100 ? 1 : 0, value, units[unit]);
  return buf;
}

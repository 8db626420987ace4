// Sizes as users write them in --memory-budget and in pass options, and as messages show them.
#include <stdio.h>
#include <string.h>

#include "passes/passes.h"
#include "support/bytes.h"

static int failed;

static void expect_size(const char *text, int64_t bytes, double percent) {
  int64_t found = -1;
  double found_percent = -1;
  if (parse_bytes(text, &found, &found_percent) && found == bytes && found_percent == percent) return;
  printf("FAILED: '%s' is %lld bytes, %g %%\n", text, (long long)found, found_percent);
  failed++;
}

static void expect_refused(const char *text) {
  int64_t bytes;
  double percent;
  if (!parse_bytes(text, &bytes, &percent)) return;
  printf("FAILED: '%s' is taken as %lld bytes\n", text, (long long)bytes);
  failed++;
}

static void expect_text(int64_t bytes, const char *text) {
  char buf[32];
  if (strcmp(print_bytes(bytes, buf, sizeof buf), text) == 0) return;
  printf("FAILED: %lld bytes are written '%s', not '%s'\n", (long long)bytes, buf, text);
  failed++;
}

int main(void) {
  expect_size("1000", 1000, 0);
  expect_size("0", 0, 0);
  expect_size("512MiB", (int64_t)512 << 20, 0);
  expect_size("512 mib", (int64_t)512 << 20, 0);
  expect_size("512M", (int64_t)512 << 20, 0);
  expect_size("4 GB", 4000000000, 0);
  expect_size("1.5KiB", 1536, 0);
  expect_size("2TiB", (int64_t)2 << 40, 0);
  expect_size("12b", 12, 0);
  expect_size("50%", -50, 50);
  expect_size("0.4%", -1, 0.4);
  static const char *const refused[] = {"",    "much",  "-5", "+5",  "12parsecs",      "5MiBs", "0x10", "nan",
                                        "inf", "1e300", "0%", "-5%", "99999999999TiB", "%",     "KiB"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) expect_refused(refused[i]);
  int64_t bytes;
  if (parse_bytes("50%", &bytes, NULL)) printf("FAILED: a percentage where none is wanted\n"), failed++;
  expect_text(0, "0 bytes");
  expect_text(1, "1 byte");
  expect_text(1023, "1023 bytes");
  expect_text(1536, "1.50 KiB");
  expect_text((int64_t)12 << 20, "12.0 MiB");
  expect_text((int64_t)512 << 20, "512 MiB");
  expect_text(4273492460, "3.98 GiB");
  printf("%s\n", failed ? "sizes: FAILED" : "sizes: all passed");
  return failed != 0;
}

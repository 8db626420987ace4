// See layouts.h.
#include "test/codegen/layouts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------------------------------------------------------------
// Published

const Fragment fragment_m16n8k16 = {"mma.m16n8k16",
                                    16,
                                    8,
                                    16,
                                    "((4,8),(2,2,2)):((32,1),(16,8,128))",
                                    "((4,8),(2,2)):((16,1),(8,64))",
                                    "((4,8),(2,2)):((32,1),(16,8))"};
const Fragment fragment_m16n8k8 =
    {"mma.m16n8k8", 16, 8, 8, "((4,8),(2,2)):((32,1),(16,8))", "((4,8),2):((16,1),8)", "((4,8),(2,2)):((32,1),(16,8))"};
const Fragment fragment_m16n8k8_tf32 = {"mma.m16n8k8.tf32",
                                        16,
                                        8,
                                        8,
                                        "((4,8),(2,2)):((16,1),(8,64))",
                                        "((4,8),2):((8,1),32)",
                                        "((4,8),(2,2)):((32,1),(16,8))"};
const Fragment fragment_m16n8k4_tf32 =
    {"mma.m16n8k4.tf32", 16, 8, 4, "((4,8),2):((16,1),8)", "((4,8),1):((8,1),0)", "((4,8),(2,2)):((32,1),(16,8))"};
const Fragment fragment_m8n8k4_f64 = {"mma.m8n8k4.f64",      8, 8, 4, "((4,8),1):((8,1),0)", "((4,8),1):((8,1),0)",
                                      "((4,8),2):((16,1),8)"};
const Fragment fragment_wgmma = {"wgmma.m64k16",
                                 64,
                                 0,
                                 16,
                                 "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))",
                                 NULL,
                                 "((4,8,4),(2,2,m)):((128,1,16),(64,8,512))"};

const char *const layout_ldmatrix = "(32,(2,4)):(2,(1,64))";
const char *const layout_ldmatrix_trans = "((4,8),(2,4)):((16,1),(8,64))";

const char *const canonical_k_major[SWIZZLES] = {
    [SWIZZLE_NONE] = "((8,m),(T,2k)):((1T,SBO),(1,LBO))",
    [SWIZZLE_32] = "((8,m),(T,2k)):((2T,SBO),(1,T))",
    [SWIZZLE_64] = "((8,m),(T,2k)):((4T,SBO),(1,T))",
    [SWIZZLE_128] = "((8,m),(T,2k)):((8T,SBO),(1,T))",
};
const char *const canonical_mn_major[SWIZZLES] = {
    [SWIZZLE_NONE] = "((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))",
    [SWIZZLE_32] = "((T,2,m),(8,k)):((1,T,LBO),(2T,SBO))",
    [SWIZZLE_64] = "((T,4,m),(8,k)):((1,T,LBO),(4T,SBO))",
    [SWIZZLE_128] = "((T,8,m),(8,k)):((1,T,LBO),(8T,SBO))",
};

// Swizzle<B, 4, 3>: bits 4 to 4 + B are joined by exclusive or with those 3 further up.
uint64_t layout_swizzle(int mode, uint64_t address) {
  static const int widths[SWIZZLES] = {[SWIZZLE_NONE] = 0, [SWIZZLE_32] = 1, [SWIZZLE_64] = 2, [SWIZZLE_128] = 3};
  for (int bit = 0; bit < widths[mode]; bit++)
    if (address >> (4 + 3 + bit) & 1) address ^= (uint64_t)1 << (4 + bit);
  return address;
}

uint64_t layout_descriptor(int mode, uint64_t address, uint64_t lbo, uint64_t sbo, uint64_t base_offset) {
  const struct {
    int first_bit;
    uint64_t value;
  } fields[] = {{0, (address & 0x3ffff) >> 4},
                {16, (lbo & 0x3ffff) >> 4},
                {32, (sbo & 0x3ffff) >> 4},
                {49, base_offset},
                {62, (uint64_t)mode}};
  uint64_t descriptor = 0;
  for (int i = 0; i < 5; i++) descriptor += fields[i].value << fields[i].first_bit;
  return descriptor;
}

// ---------------------------------------------------------------------------------------------------------------------
// Notation

static void refuse(const char *text) {
  printf("not a layout: %s\n", text);
  exit(1);
}

// A number, a letter, or a number of them.
static int64_t term(const char **at, const LayoutLetters *letters) {
  enum { UNBOUNDED = 1 << 20 };
  char *end;
  int64_t value = isdigit((unsigned char)**at) ? strtol(*at, &end, 10) : (end = (char *)(uintptr_t)*at, 1);
  const char *text = *at;
  *at = end;
  if (!strncmp(end, "LBO", 3)) value *= letters->lbo, *at = end + 3;
  else if (!strncmp(end, "SBO", 3)) value *= letters->sbo, *at = end + 3;
  else if (*end == 'T') value *= letters->t, *at = end + 1;
  else if (*end == 'm' || *end == 'k') value = UNBOUNDED, *at = end + 1;
  else if (end == text) refuse(text);
  return value;
}

static int tuple(const char **at, int64_t out[4], const LayoutLetters *letters) {
  int n = 0;
  if (**at != '(') {
    out[0] = term(at, letters);
    return 1;
  }
  do {
    ++*at;
    if (n == 4) refuse(*at);
    out[n++] = term(at, letters);
  } while (**at == ',');
  if (*(*at)++ != ')') refuse(*at - 1);
  return n;
}

static void expect(const char **at, char c) {
  if (**at != c) refuse(*at);
  ++*at;
}

Layout layout_parse(const char *text, const LayoutLetters *letters) {
  Layout l;
  for (int half = 0; half < 2; half++) {
    if (half) expect(&text, ':');
    for (int i = 0; i < 2; i++) {
      expect(&text, i ? ',' : '(');
      int n = tuple(&text, half ? l.mode[i].stride : l.mode[i].shape, letters);
      if (half && n != l.mode[i].n) refuse(text);
      l.mode[i].n = n;
    }
    expect(&text, ')');
  }
  return l;
}

int64_t layout_size(const Layout *l, int mode) {
  int64_t size = 1;
  for (int i = 0; i < l->mode[mode].n; i++) size *= l->mode[mode].shape[i];
  return size;
}

int64_t layout_at(const Layout *l, int64_t i, int64_t j) {
  int64_t index[2] = {i, j}, sum = 0;
  for (int mode = 0; mode < 2; mode++)
    for (int part = 0; part < l->mode[mode].n; part++) {
      sum += index[mode] % l->mode[mode].shape[part] * l->mode[mode].stride[part];
      index[mode] /= l->mode[mode].shape[part];
    }
  return sum;
}

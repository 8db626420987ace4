// The layouts of NVIDIA's tensor cores as published, in the notation of CuTe ("CuTe Layouts", CUTLASS's
// documentation): shape:stride, each a pair of modes, each mode a number or a tuple. An index into a mode is taken
// apart by its shape, first part fastest, and the parts times their strides add up. An oracle for the generator of
// kernels and the emulator: it is written from the documents named here and shares no code with either.
#ifndef NNC_TEST_CODEGEN_LAYOUTS_H
#define NNC_TEST_CODEGEN_LAYOUTS_H

#include <stdint.h>

typedef struct LayoutMode {
  int n;
  int64_t shape[4], stride[4];
} LayoutMode;
typedef struct Layout {
  LayoutMode mode[2];
} Layout;

// What stands for letters in a shape or stride, all in elements; m and k are as large as they need to be.
typedef struct LayoutLetters {
  int64_t t, lbo, sbo;
} LayoutLetters;

Layout layout_parse(const char *text, const LayoutLetters *letters);   // ends the program at a text that is none
int64_t layout_at(const Layout *l, int64_t i, int64_t j);
int64_t layout_size(const Layout *l, int mode);

// Fragments: (thread, value) -> row + rows column of the matrix that the threads hold together. The matrices a (M, K),
// b (N, K) and c (M, N) are those of the instruction. (PTX ISA, "Matrix Fragments for mma" and "Register Fragments" of
// wgmma, figures; as shapes and strides: CUTLASS, cute/atom/mma_traits_sm80.hpp, mma_traits_sm90_gmma.hpp.)
typedef struct Fragment {
  const char *name;
  int m, n, k;
  const char *a, *b, *c;   // b NULL: in shared memory
} Fragment;
extern const Fragment fragment_m16n8k16, fragment_m16n8k8, fragment_m16n8k8_tf32, fragment_m16n8k4_tf32,
    fragment_m8n8k4_f64, fragment_wgmma;   // of wgmma: a and c, n is any multiple of 8

// ldmatrix .x4 of 8 by 8 matrices below each other: (lane, value) -> offset in elements of 16 bits, as it is and
// transposed. Lane i gives the address of row i. (PTX ISA, "ldmatrix"; cute/atom/copy_traits_sm75.hpp.)
extern const char *const layout_ldmatrix, *const layout_ldmatrix_trans;

// Swizzling modes by their number in a descriptor, and the canonical layout of an operand in shared memory, (row or
// column, depth) -> offset in elements. (PTX ISA, "Matrix Descriptor Format", "Canonical Layouts" of wgmma.)
enum { SWIZZLE_NONE, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32, SWIZZLES };
extern const char *const canonical_k_major[SWIZZLES], *const canonical_mn_major[SWIZZLES];
uint64_t layout_swizzle(int mode, uint64_t address);   // of a byte's address: Swizzle<B, 4, 3>
uint64_t layout_descriptor(int mode, uint64_t address, uint64_t lbo, uint64_t sbo, uint64_t base_offset);   // bytes

#endif

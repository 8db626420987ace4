// mma.sync, ldmatrix and stmatrix with the register layouts of the PTX ISA ("Matrix multiply-accumulate operation using
// mma instruction"). Lane l is in group g = l / 4 with place p = l % 4; a 16 by 8 accumulator holds rows g and g + 8,
// columns 2 p and 2 p + 1. Products are summed in double and rounded once: a GPU's own order of summation is not
// documented, results differ from it by rounding only.
#include "runtime/cuda/emulator/internal.h"

#include <string.h>

float emu_from_bf16(uint16_t bits) {
  return (union {
           uint32_t u;
           float f;
         }){.u = (uint32_t)bits << 16}
      .f;
}
float emu_from_f16(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31)
    return (union {
             uint32_t u;
             float f;
           }){.u = sign | 0x7f800000u | fraction << 13}
        .f;
  if (exponent)
    return (union {
             uint32_t u;
             float f;
           }){.u = sign | (exponent + 112) << 23 | fraction << 13}
        .f;
  float value = (float)fraction * 0x1p-24f;
  return sign ? -value : value;
}
// A GPU reads the upper 19 bits of a tf32 operand.
static float from_tf32(uint32_t bits) {
  return (union {
           uint32_t u;
           float f;
         }){.u = bits & 0xffffe000u}
      .f;
}

static float half_of(uint32_t pair, int which, bool bf16) {
  uint16_t bits = (uint16_t)(pair >> 16 * which);
  return bf16 ? emu_from_bf16(bits) : emu_from_f16(bits);
}

// d = a b + c with a (16, k), b (k, 8), c (16, 8)
static void multiply(EmuThread *warp, int k, float a[16][16], float b[16][8], int accumulator) {
  for (int lane = 0; lane < EMU_LANES; lane++) {
    EmuThread *t = &warp[lane];
    for (int i = 0; i < 4; i++) {
      int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      double sum = (double)t->in.f[accumulator + i];
      for (int j = 0; j < k; j++) sum += (double)a[row][j] * (double)b[j][column];
      t->out.f[i] = (float)sum;
    }
  }
}

static void mma_half(EmuThread *warp, int k, bool bf16) {
  float a[16][16], b[16][8];
  int a_registers = k / 4;
  for (int lane = 0; lane < EMU_LANES; lane++) {
    const uint32_t *in = warp[lane].in.u;
    for (int r = 0; r < a_registers; r++)
      for (int h = 0; h < 2; h++) a[lane / 4 + 8 * (r % 2)][lane % 4 * 2 + 8 * (r / 2) + h] = half_of(in[r], h, bf16);
    for (int r = 0; r < k / 8; r++)
      for (int h = 0; h < 2; h++) b[lane % 4 * 2 + 8 * r + h][lane / 4] = half_of(in[a_registers + r], h, bf16);
  }
  multiply(warp, k, a, b, a_registers + k / 8);
}

static void mma_tf32(EmuThread *warp, int k) {
  float a[16][16], b[16][8];
  int a_registers = k / 2;
  for (int lane = 0; lane < EMU_LANES; lane++) {
    const uint32_t *in = warp[lane].in.u;
    for (int r = 0; r < a_registers; r++) a[lane / 4 + 8 * (r % 2)][lane % 4 + 4 * (r / 2)] = from_tf32(in[r]);
    for (int r = 0; r < k / 4; r++) b[lane % 4 + 4 * r][lane / 4] = from_tf32(in[a_registers + r]);
  }
  multiply(warp, k, a, b, a_registers + k / 4);
}

static void op_bf16_16(EmuThread *warp, uint32_t mask) {
  (void)mask;
  mma_half(warp, 16, true);
}
static void op_bf16_8(EmuThread *warp, uint32_t mask) {
  (void)mask;
  mma_half(warp, 8, true);
}
static void op_f16_16(EmuThread *warp, uint32_t mask) {
  (void)mask;
  mma_half(warp, 16, false);
}
static void op_f16_8(EmuThread *warp, uint32_t mask) {
  (void)mask;
  mma_half(warp, 8, false);
}
static void op_tf32_8(EmuThread *warp, uint32_t mask) {
  (void)mask;
  mma_tf32(warp, 8);
}
static void op_tf32_4(EmuThread *warp, uint32_t mask) {
  (void)mask;
  mma_tf32(warp, 4);
}

// m8n8k4: a (8, 4) one element a lane, b (4, 8), two elements of c
static void op_f64(EmuThread *warp, uint32_t mask) {
  (void)mask;
  for (int lane = 0; lane < EMU_LANES; lane++) {
    EmuThread *t = &warp[lane];
    for (int i = 0; i < 2; i++) {
      double sum = t->in.d[2 + i];
      for (int j = 0; j < 4; j++)
        sum = __builtin_fma(warp[lane / 4 * 4 + j].in.d[0], warp[(lane % 4 * 2 + i) * 4 + j].in.d[1], sum);
      t->out.d[i] = sum;
    }
  }
}

static void run(EmuWarpOp op, int n, const uint32_t *operands, const float c[4], uint64_t *out,
                const NncEmuSite *site) {
  EmuThread *t = emu_thread();
  memcpy(t->in.u, operands, (size_t)n * 4);
  memcpy(t->in.f + n, c, 16);
  emu_warp_operation(op, 0xffffffffu, site);
  for (int i = 0; i < 4; i++) out[i] = t->out.u[i];
}

#define MMA6(name)                                                                                                     \
  void nnc_emu_mma_##name(uint64_t *out, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1, \
                          float c0, float c1, float c2, float c3, const NncEmuSite *site) {                            \
    run(op_##name, 6, (uint32_t[]){a0, a1, a2, a3, b0, b1}, (float[]){c0, c1, c2, c3}, out, site);                     \
  }
#define MMA3(name)                                                                                            \
  void nnc_emu_mma_##name(uint64_t *out, uint32_t a0, uint32_t a1, uint32_t b0, float c0, float c1, float c2, \
                          float c3, const NncEmuSite *site) {                                                 \
    run(op_##name, 3, (uint32_t[]){a0, a1, b0}, (float[]){c0, c1, c2, c3}, out, site);                        \
  }
MMA6(bf16_16)
MMA6(f16_16)
MMA6(tf32_8)
MMA3(bf16_8)
MMA3(f16_8)
MMA3(tf32_4)
void nnc_emu_mma_f64(uint64_t *out, double a, double b, double c0, double c1, const NncEmuSite *site) {
  EmuThread *t = emu_thread();
  memcpy(t->in.d, (double[]){a, b, c0, c1}, 32);
  emu_warp_operation(op_f64, 0xffffffffu, site);
  memcpy(out, t->out.d, 16);
}

// ---------------------------------------------------------------------------------------------------------------------
// 8 by 8 matrices of 16 bits. Lane 8 m + r gives the address of row r of matrix m; register m of lane l holds row l /
// 4, columns 2 (l % 4) and the next.

static void load_matrices(EmuThread *warp, int n, bool transposed) {
  uint16_t rows[4][8][8];
  for (int i = 0; i < 8 * n; i++) memcpy(rows[i / 8][i % 8], (const void *)(uintptr_t)warp[i].in.w[0], 16);
  for (int lane = 0; lane < EMU_LANES; lane++)
    for (int m = 0; m < n; m++) {
      int row = lane / 4, column = lane % 4 * 2;
      uint32_t low = transposed ? rows[m][column][row] : rows[m][row][column],
               high = transposed ? rows[m][column + 1][row] : rows[m][row][column + 1];
      warp[lane].out.u[m] = low | high << 16;
    }
}

static void store_matrices(EmuThread *warp, int n, bool transposed) {
  for (int i = 0; i < 8 * n; i++) {
    uint16_t row[8];
    for (int c = 0; c < 8; c++) {
      int lane = transposed ? c * 4 + i % 8 / 2 : i % 8 * 4 + c / 2, half = transposed ? i % 2 : c % 2;
      row[c] = (uint16_t)(warp[lane].in.u[2 + i / 8] >> 16 * half);
    }
    memcpy((void *)(uintptr_t)warp[i].in.w[0], row, 16);
  }
}

#define MATRICES(n, suffix, transposed)                           \
  static void load_##n##suffix(EmuThread *warp, uint32_t mask) {  \
    (void)mask;                                                   \
    load_matrices(warp, n, transposed);                           \
  }                                                               \
  static void store_##n##suffix(EmuThread *warp, uint32_t mask) { \
    (void)mask;                                                   \
    store_matrices(warp, n, transposed);                          \
  }
MATRICES(1, , false)
MATRICES(2, , false)
MATRICES(4, , false)
MATRICES(1, t, true)
MATRICES(2, t, true)
MATRICES(4, t, true)

static void address_row(const void *p, int n, uint32_t kind, const NncEmuSite *site) {
  EmuThread *t = emu_thread();
  t->in.w[0] = (uintptr_t)p;
  if (t->index % EMU_LANES < 8 * n) emu_shared_access(t, p, 16, 16, kind, site);
}

static void load(EmuWarpOp op, int n, const void *p, uint64_t *out, const NncEmuSite *site) {
  address_row(p, n, EMU_READ, site);
  emu_warp_operation(op, 0xffffffffu, site);
  for (int i = 0; i < n; i++) out[i] = emu_thread()->out.u[i];
}

static void store(EmuWarpOp op, int n, void *p, const uint32_t *values, const NncEmuSite *site) {
  address_row(p, n, EMU_WRITE, site);
  memcpy(emu_thread()->in.u + 2, values, (size_t)n * 4);
  emu_warp_operation(op, 0xffffffffu, site);
}

uint32_t nnc_emu_ldmatrix_x1(const void *p, const NncEmuSite *site) {
  uint64_t out[1];
  load(load_1, 1, p, out, site);
  return (uint32_t)out[0];
}
uint32_t nnc_emu_ldmatrix_x1t(const void *p, const NncEmuSite *site) {
  uint64_t out[1];
  load(load_1t, 1, p, out, site);
  return (uint32_t)out[0];
}
void nnc_emu_ldmatrix_x2(uint64_t *out, const void *p, const NncEmuSite *site) { load(load_2, 2, p, out, site); }
void nnc_emu_ldmatrix_x2t(uint64_t *out, const void *p, const NncEmuSite *site) { load(load_2t, 2, p, out, site); }
void nnc_emu_ldmatrix_x4(uint64_t *out, const void *p, const NncEmuSite *site) { load(load_4, 4, p, out, site); }
void nnc_emu_ldmatrix_x4t(uint64_t *out, const void *p, const NncEmuSite *site) { load(load_4t, 4, p, out, site); }
#define STORE(t)                                                                                                 \
  void nnc_emu_stmatrix_x1##t(void *p, uint32_t a, const NncEmuSite *site) {                                     \
    store(store_1##t, 1, p, (uint32_t[]){a}, site);                                                              \
  }                                                                                                              \
  void nnc_emu_stmatrix_x2##t(void *p, uint32_t a, uint32_t b, const NncEmuSite *site) {                         \
    store(store_2##t, 2, p, (uint32_t[]){a, b}, site);                                                           \
  }                                                                                                              \
  void nnc_emu_stmatrix_x4##t(void *p, uint32_t a, uint32_t b, uint32_t c, uint32_t d, const NncEmuSite *site) { \
    store(store_4##t, 4, p, (uint32_t[]){a, b, c, d}, site);                                                     \
  }
STORE()
STORE(t)

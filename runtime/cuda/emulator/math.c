// Special registers, approximate functions (exact here: tolerances are the caller's), conversions and what the host's
// libgcc may lack.
#include "runtime/cuda/emulator/internal.h"

#include <math.h>
#include <string.h>

#define REGISTER(name, value) \
  uint32_t nnc_emu_##name(void) { return (uint32_t)(value); }
REGISTER(tid_x, emu_thread()->id[0])
REGISTER(tid_y, emu_thread()->id[1])
REGISTER(tid_z, emu_thread()->id[2])
REGISTER(ntid_x, emu_worker->launch->block[0])
REGISTER(ntid_y, emu_worker->launch->block[1])
REGISTER(ntid_z, emu_worker->launch->block[2])
REGISTER(ctaid_x, emu_worker->block[0])
REGISTER(ctaid_y, emu_worker->block[1])
REGISTER(ctaid_z, emu_worker->block[2])
REGISTER(nctaid_x, emu_worker->launch->grid[0])
REGISTER(nctaid_y, emu_worker->launch->grid[1])
REGISTER(nctaid_z, emu_worker->launch->grid[2])
REGISTER(laneid, emu_thread()->index % EMU_LANES)
REGISTER(warpid, emu_thread()->warp)
REGISTER(warpsize, EMU_LANES)
REGISTER(dynamic_smem_size, emu_worker->launch->dynamic_bytes)
REGISTER(total_smem_size, emu_worker->launch->dynamic_bytes + emu_worker->launch->kernel->static_bytes)
REGISTER(lanemask_eq, 1u << emu_thread()->index % EMU_LANES)
REGISTER(lanemask_lt, (1u << emu_thread()->index % EMU_LANES) - 1)
REGISTER(lanemask_le, (2u << emu_thread()->index % EMU_LANES) - 1)
REGISTER(lanemask_ge, ~((1u << emu_thread()->index % EMU_LANES) - 1))
REGISTER(lanemask_gt, ~((2u << emu_thread()->index % EMU_LANES) - 1))

void nnc_emu_nothing(void) {}   // fences: one block runs at a time and its threads see every write
void nnc_emu_sleep(uint32_t nanoseconds) { (void)nanoseconds; }

static float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
float nnc_emu_ex2(float x) { return exp2f(x); }
float nnc_emu_ex2_ftz(float x) { return flush(exp2f(flush(x))); }
float nnc_emu_lg2(float x) { return log2f(x); }
float nnc_emu_lg2_ftz(float x) { return log2f(flush(x)); }
float nnc_emu_rcp(float x) { return 1 / x; }
float nnc_emu_rcp_ftz(float x) { return flush(1 / flush(x)); }
double nnc_emu_rcp_d(double x) { return 1 / x; }
float nnc_emu_rsqrt(float x) { return 1 / sqrtf(x); }
float nnc_emu_rsqrt_ftz(float x) { return 1 / sqrtf(flush(x)); }
double nnc_emu_rsqrt_d(double x) { return 1 / sqrt(x); }
float nnc_emu_sqrt(float x) { return sqrtf(x); }
double nnc_emu_sqrt_d(double x) { return sqrt(x); }
float nnc_emu_sin(float x) { return sinf(x); }
float nnc_emu_cos(float x) { return cosf(x); }
float nnc_emu_tanh(float x) { return tanhf(x); }
float nnc_emu_div(float a, float b) { return a / b; }
float nnc_emu_fma(float a, float b, float c) { return fmaf(a, b, c); }
double nnc_emu_fma_d(double a, double b, double c) { return fma(a, b, c); }
float nnc_emu_add(float a, float b) { return a + b; }
float nnc_emu_mul(float a, float b) { return a * b; }
float nnc_emu_fmax(float a, float b) { return fmaxf(a, b); }
float nnc_emu_fmin(float a, float b) { return fminf(a, b); }

// Byte selection: nibble i of the selector names one of 8 bytes; its top bit replicates the sign.
uint32_t nnc_emu_prmt(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t nibble = selector >> 4 * i & 15;
    uint32_t byte = (uint32_t)(bytes >> 8 * (nibble & 7)) & 255;
    if (nibble & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// Conversions

static uint32_t bits_of(float x) {
  return (union {
           float f;
           uint32_t u;
         }){.f = x}
      .u;
}

uint32_t nnc_emu_f2bf16(float x) {   // to nearest, ties to even
  uint32_t u = bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
uint32_t nnc_emu_f2bf16_rz(float x) { return bits_of(x) >> 16; }
uint32_t nnc_emu_ff2bf16x2(float high, float low) { return nnc_emu_f2bf16(high) << 16 | nnc_emu_f2bf16(low); }

static uint32_t f2f16(float x) {
  uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00;                                // 65520 and more round to infinity
  if (magnitude < 0x38800000u) return sign | (uint32_t)lrintf(fabsf(x) * 0x1p24f);   // subnormal in f16
  return sign | ((magnitude - 0x38000000u + 0xfff + (magnitude >> 13 & 1)) >> 13);
}
uint32_t nnc_emu_ff2f16x2(float high, float low) { return f2f16(high) << 16 | f2f16(low); }

uint32_t nnc_emu_f2tf32_rna(float x) {   // to nearest, ties away from zero, 10 bits of fraction
  uint32_t u = bits_of(x);
  if ((u & 0x7f800000u) == 0x7f800000u) return u;
  return (u + 0x1000) & 0xffffe000u;
}
uint32_t nnc_emu_f2tf32_rn(float x) {
  uint32_t u = bits_of(x);
  if ((u & 0x7f800000u) == 0x7f800000u) return u;
  return (u + 0xfff + (u >> 13 & 1)) & 0xffffe000u;
}

// LLVM calls these for fptrunc to bfloat; GCC's libgcc has them from version 13 on. The result's 16 bits are returned
// in the low part of xmm0, which is where a float is returned.
__attribute__((weak)) float __truncsfbf2(float x) {
  return (union {
           uint32_t u;
           float f;
         }){.u = nnc_emu_f2bf16(x)}
      .f;
}
__attribute__((weak)) float __truncdfbf2(double x) {
  // Round to odd first, so that the second rounding is right.
  float nearest = (float)x;
  if ((double)nearest != x && !isnan(x) && !isinf(nearest)) {
    uint32_t u = bits_of(nearest);
    if (fabs((double)nearest) > fabs(x)) u--;
    nearest = (union {
                uint32_t u;
                float f;
              }){.u = u | 1}
                  .f;
  }
  return __truncsfbf2(nearest);
}

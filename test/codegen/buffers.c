// Tensors of the reference interpreter in memory, in guarded buffers: what tests of kernels share. No byte around a
// buffer may be written.
#ifndef NNC_TEST_CODEGEN_BUFFERS
#define NNC_TEST_CODEGEN_BUFFERS
#include "runtime/narrow.h"
#include "test/ir/reference.c"

#include <assert.h>

static double element(NnDtype dtype, const void *p, int64_t i) {
  switch (dtype) {
  case NN_F32: return (double)((const float *)p)[i];
  case NN_F64: return ((const double *)p)[i];
  case NN_BF16: return (double)bf16_to_float(((const uint16_t *)p)[i]);
  case NN_F16: return (double)f16_to_float(((const uint16_t *)p)[i]);
  case NN_I32: return (double)((const int32_t *)p)[i];
  case NN_I64: return (double)((const int64_t *)p)[i];
  default: return (double)((const uint8_t *)p)[i];
  }
}

// How a recording compares elements (EmulateLaunch.types).
__attribute__((unused)) static char type_letter(NnDtype dtype) {
  return dtype == NN_F32 ? 'f' : dtype == NN_F64 ? 'd' : dtype == NN_BF16 ? 'b' : dtype == NN_F16 ? 'h' : 'i';
}

static void to_memory(const Tensor *t, void *p) {
  for (int64_t i = 0; i < nn_type_elements(&t->type); i++) {
    switch (t->type.dtype) {
    case NN_F32: ((float *)p)[i] = (float)t->data[i]; break;
    case NN_F64: ((double *)p)[i] = t->data[i]; break;
    case NN_BF16: ((uint16_t *)p)[i] = float_to_bf16((float)t->data[i]); break;
    case NN_F16: ((uint16_t *)p)[i] = float_to_f16((float)t->data[i]); break;
    case NN_I32: ((int32_t *)p)[i] = (int32_t)t->data[i]; break;
    case NN_I64: ((int64_t *)p)[i] = (int64_t)t->data[i]; break;
    default: ((uint8_t *)p)[i] = (uint8_t)t->data[i]; break;
    }
  }
}

// Aligned as those of the arena are.
#define GUARD 256
static unsigned char *buffer_new(int64_t bytes) {
  unsigned char *p = aligned_alloc(64, (size_t)((bytes + 2 * GUARD + 63) / 64 * 64));
  assert(p);
  memset(p, 0xA5, (size_t)(bytes + 2 * GUARD));
  return p + GUARD;
}
static bool buffer_intact(const unsigned char *p, int64_t bytes) {
  for (int i = 1; i <= GUARD; i++)
    if (p[-i] != 0xA5 || p[bytes + i - 1] != 0xA5) return false;
  return true;
}
static void buffer_free(unsigned char *p) { free(p - GUARD); }

#endif

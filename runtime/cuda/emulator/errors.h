// Names and texts of the driver's errors, as libcuda has them: for its stand-ins, the emulator and that of the tests of
// errors.
#ifndef NNC_RUNTIME_CUDA_EMULATOR_ERRORS_H
#define NNC_RUNTIME_CUDA_EMULATOR_ERRORS_H

#include <stddef.h>

#include "runtime/cuda/driver.h"

typedef struct CudaErrorText {
  CUresult code;
  const char *name, *text;
} CudaErrorText;

// NULL: not among them.
static inline const CudaErrorText *cuda_error_text(CUresult code) {
#define ERROR(code, text) \
  { code, #code, text }
  static const CudaErrorText errors[] = {
      ERROR(CUDA_SUCCESS, "no error"),
      ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
      ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
      ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
      ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
      ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
      ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
      ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
      ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
      ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
      ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
      ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
      ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
      ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
      ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
      ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
      ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
      ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
      ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
      ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "forward compatibility was attempted on non supported HW"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
      ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
  };
#undef ERROR
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code) return &errors[i];
  return NULL;
}

#endif

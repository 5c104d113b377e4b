// SPDX-License-Identifier: Apache-2.0
//
// One-line errors for kernels that cannot run. Each error states the operation,
// the reason and the next step. The functions are static, because their
// messages contain the architectures of the cuda_library that includes this
// header.

#ifndef TORCH_GOOGLE_CUDA_LAUNCH_H_
#define TORCH_GOOGLE_CUDA_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

// cuda_library defines this macro for .cu files, as a list of architectures
// such as "sm_80, sm_90".
#ifndef TORCH_GOOGLE_CUDA_ARCHS
#error \
    "launch.h is for .cu files of cuda_library and par_cuda_extension; include it there"
#endif

namespace torch_google::cuda {

static inline std::string release(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

// Returns the reason for an error and the user's next step.
static inline std::string explain(cudaError_t error) {
  int driver = 0;
  switch (error) {
    case cudaErrorInsufficientDriver:
      // Get the driver's version, which is 0 if there is no driver.
      cudaDriverGetVersion(&driver);
      if (driver == 0) {
        return "this machine has no NVIDIA driver (libcuda.so.1 cannot be "
               "loaded). Install driver 525 "
               "or newer and make libcuda.so.1 visible to this process, or "
               "keep the tensors on the CPU";
      }
      return "the NVIDIA driver supports CUDA " + release(driver) +
             ", and the kernel needs CUDA 12.0 or newer. Install driver 525 or "
             "newer, or keep the "
             "tensors on the CPU";
    case cudaErrorNoDevice:
      return "the NVIDIA driver finds no GPU. Check nvidia-smi and "
             "CUDA_VISIBLE_DEVICES, or keep the "
             "tensors on the CPU";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
      return "the kernel was compiled for " TORCH_GOOGLE_CUDA_ARCHS
             ", and this GPU runs none of them. Add its architecture to "
             "`archs` of the extension";
    case cudaErrorUnsupportedPtxVersion:
      return "the kernel was compiled for " TORCH_GOOGLE_CUDA_ARCHS
             ", and the driver is too old to compile it for this GPU. Install "
             "a newer driver, or add "
             "the GPU's architecture to `archs` of the extension";
    default:
      return std::string(cudaGetErrorName(error)) + ", " +
             cudaGetErrorString(error) +
             ". Run again with CUDA_LAUNCH_BLOCKING=1 to find the kernel";
  }
}

// Throws std::runtime_error unless `error` is cudaSuccess. The message begins
// with `operation`.
static inline void check(const char* operation, cudaError_t error) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(operation) + ": " + explain(error) +
                             ".");
  }
}

// Throws std::runtime_error unless this process has a driver and a GPU.
static inline void require_device(const char* operation) {
  int devices = 0;
  check(operation, cudaGetDeviceCount(&devices));
}

}  // namespace torch_google::cuda

#endif  // TORCH_GOOGLE_CUDA_LAUNCH_H_

// SPDX-License-Identifier: Apache-2.0
//
// The kernel and the function that launches it. This file does not include
// torch's headers, because they would be compiled again for each GPU
// architecture.

#include "examples/scaled_tanh.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "third_party/cuda/launch.h"

namespace torch_google::examples {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 65535;

__global__ void scaled_tanh_kernel(const float* x, float* y, std::int64_t count,
                                   float scale) {
  std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t i = first; i < count; i += step) {
    y[i] = scale * tanhf(x[i]);
  }
}

}  // namespace

void require_gpu() { cuda::require_device("scaled_tanh"); }

void launch_scaled_tanh(const float* x, float* y, std::int64_t count,
                        float scale, int device, void* stream) {
  if (count == 0) {
    return;
  }
  // This library contains a second CUDA runtime, whose current device is
  // independent of the one in torch's runtime.
  cuda::check("scaled_tanh", cudaSetDevice(device));
  std::int64_t blocks = std::min((count + kThreads - 1) / kThreads, kMaxBlocks);
  scaled_tanh_kernel<<<static_cast<unsigned>(blocks), kThreads, 0,
                       static_cast<cudaStream_t>(stream)>>>(x, y, count, scale);
  cuda::check("scaled_tanh", cudaGetLastError());
}

}  // namespace torch_google::examples

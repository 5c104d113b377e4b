// SPDX-License-Identifier: Apache-2.0
//
// A kernel and all of its host code. They use parts of CUDA that clang might
// miscompile: a math function from libdevice, half precision, a texture type,
// shared memory and cooperative groups.

#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cub/warp/warp_reduce.cuh>

#include "third_party/cuda/launch.h"
#include "third_party/cuda/tests/doubled.h"

namespace cg = cooperative_groups;
using torch_google::cuda::check;

constexpr int kThreads = 128;

extern "C" __global__ void doubled_kernel(const float* values, float* results,
                                          int count) {
  __shared__ float staged[kThreads];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  staged[threadIdx.x] = i < count ? values[i] : 0.0F;
  cg::this_thread_block().sync();
  if (i < count) {
    results[i] = ldexpf(staged[threadIdx.x], 1);
  }
}

// This kernel is never launched. It shows that the headers for half precision
// and CUB compile for each architecture.
extern "C" __global__ void warp_sums_kernel(const __half* values, float* sums) {
  using Reduce = cub::WarpReduce<float>;
  __shared__ Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(__half2float(values[threadIdx.x]));
  if (threadIdx.x == 0) {
    *sums = sum;
  }
}

extern "C" __global__ void texture_kernel(cudaTextureObject_t texture,
                                          float* results) {
  results[threadIdx.x] = tex2D<float>(texture, threadIdx.x, 0.0F);
}

namespace {

// Owns GPU memory for `count` floats.
class Memory {
 public:
  explicit Memory(size_t count) {
    check("doubled",
          cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(float)));
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

}  // namespace

std::vector<float> doubled(const std::vector<float>& values) {
  torch_google::cuda::require_device("doubled");
  std::vector<float> results(values.size());
  if (values.empty()) {
    return results;
  }
  int count = static_cast<int>(values.size());
  size_t bytes = values.size() * sizeof(float);
  Memory input(values.size()), output(values.size());
  check("doubled",
        cudaMemcpy(input.data(), values.data(), bytes, cudaMemcpyHostToDevice));
  doubled_kernel<<<(count + kThreads - 1) / kThreads, kThreads>>>(
      input.data(), output.data(), count);
  check("doubled", cudaGetLastError());
  check("doubled", cudaMemcpy(results.data(), output.data(), bytes,
                              cudaMemcpyDeviceToHost));
  return results;
}

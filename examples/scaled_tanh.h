// SPDX-License-Identifier: Apache-2.0

#ifndef TORCH_GOOGLE_EXAMPLES_SCALED_TANH_H_
#define TORCH_GOOGLE_EXAMPLES_SCALED_TANH_H_

#include <cstdint>

namespace torch_google::examples {

// Starts y[i] = scale * tanh(x[i]) for `count` floats in the memory of GPU
// number `device`, on `stream` (a cudaStream_t; null: the default stream).
// Returns at once. Throws std::runtime_error.
void launch_scaled_tanh(const float* x, float* y, std::int64_t count,
                        float scale, int device, void* stream);

// Throws std::runtime_error unless this process has an NVIDIA driver and a GPU.
void require_gpu();

}  // namespace torch_google::examples

#endif  // TORCH_GOOGLE_EXAMPLES_SCALED_TANH_H_

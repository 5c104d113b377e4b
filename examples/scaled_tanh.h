// SPDX-License-Identifier: Apache-2.0

#ifndef TORCH_GOOGLE_EXAMPLES_SCALED_TANH_H_
#define TORCH_GOOGLE_EXAMPLES_SCALED_TANH_H_

#include <cstdint>

namespace torch_google::examples {

// Enqueues y[i] = scale * tanh(x[i]) for `count` floats on GPU `device`, on
// `stream` (a cudaStream_t, or null for the default stream). Does not wait for
// the result. Throws std::runtime_error if the kernel cannot be launched.
void launch_scaled_tanh(const float* x, float* y, std::int64_t count,
                        float scale, int device, void* stream);

// Throws std::runtime_error unless this process has an NVIDIA driver and a GPU.
void require_gpu();

}  // namespace torch_google::examples

#endif  // TORCH_GOOGLE_EXAMPLES_SCALED_TANH_H_

// SPDX-License-Identifier: Apache-2.0

#ifndef TORCH_GOOGLE_CUDA_TESTS_DOUBLED_H_
#define TORCH_GOOGLE_CUDA_TESTS_DOUBLED_H_

#include <vector>

// Multiplies the values by two on the GPU, and returns the results. Throws
// std::runtime_error if the kernel cannot run.
std::vector<float> doubled(const std::vector<float>& values);

#endif  // TORCH_GOOGLE_CUDA_TESTS_DOUBLED_H_

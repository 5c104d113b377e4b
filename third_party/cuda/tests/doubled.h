// SPDX-License-Identifier: Apache-2.0

#ifndef TORCH_GOOGLE_CUDA_TESTS_DOUBLED_H_
#define TORCH_GOOGLE_CUDA_TESTS_DOUBLED_H_

#include <vector>

// Returns twice each value, computed on the GPU. Throws std::runtime_error.
std::vector<float> doubled(const std::vector<float>& values);

#endif  // TORCH_GOOGLE_CUDA_TESTS_DOUBLED_H_

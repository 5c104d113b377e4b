// SPDX-License-Identifier: Apache-2.0
// Host memory that malloc can reuse when it is freed.
#pragma once

#include <ATen/ATen.h>

namespace torch_google::tpu {

// Returns a contiguous CPU tensor with undefined values, like at::empty. Large
// arrays that are freed and allocated repeatedly should use this function.
//
// at::empty asks malloc for aligned memory. glibc then needs a free block that
// is larger than the request, so the block that a previous tensor of the same
// size left does not suffice. Each call then takes new pages from the operating
// system, and a page fault for each of them costs eight times as much as
// copying the data. This function aligns the memory itself.
at::Tensor host_empty(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// Allocates host memory that malloc can reuse once the memory is freed.
#pragma once

#include <ATen/ATen.h>

namespace torch_google::tpu {

// Returns a contiguous CPU tensor with undefined values, like at::empty. Large
// arrays that are freed and allocated repeatedly should use this function.
//
// at::empty asks malloc for aligned memory. glibc then needs a free block that
// is larger than the request, so a block that was freed by a tensor of the same
// size is too small. Each call then gets new pages from the operating system,
// and the page faults cost eight times as much as copying the data. This
// function aligns the memory itself.
at::Tensor host_empty(at::IntArrayRef sizes, at::ScalarType dtype);

}  // namespace torch_google::tpu

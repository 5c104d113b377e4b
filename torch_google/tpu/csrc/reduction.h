// SPDX-License-Identifier: Apache-2.0
// torch.distributed's reductions, implemented with the reductions that gloo
// provides.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>

namespace torch_google::tpu {

// Returns an operation's name in torch.distributed.ReduceOp.
const char* name_of(c10d::ReduceOp::RedOpType op);
// Throws TypeError if the tensor's dtype does not support the reduction. `name`
// is the collective's name.
void check_reduction(const at::Tensor& tensor, const c10d::ReduceOp& op,
                     const std::string& name);
// Returns the gloo operation that implements `op` if scale() is called before
// it and complete() after it.
c10d::ReduceOp gloo_op(const c10d::ReduceOp& op, c10::ScalarType dtype);
// Returns the tensor in a dtype that gloo can reduce: a view if possible,
// otherwise a copy.
at::Tensor reducible(const at::Tensor& tensor);
// Multiplies `numbers` by PREMUL_SUM's factor. A no-op for other reductions.
void scale(const at::Tensor& numbers, const c10d::ReduceOp& op);
// Computes `output` from the reduced `numbers`: divides by `size` for AVG, and
// converts to the dtype of `output`.
void complete(const at::Tensor& output, at::Tensor numbers,
              const c10d::ReduceOp& op, int size);
// Combines another rank's values, `more`, into `total`. `op` must be an
// operation that gloo supports.
void combine(const at::Tensor& total, const at::Tensor& more,
             const c10d::ReduceOp& op);

}  // namespace torch_google::tpu

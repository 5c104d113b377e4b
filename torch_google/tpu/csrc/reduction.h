// SPDX-License-Identifier: Apache-2.0
// Reductions of torch.distributed in terms of those that gloo has.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>

namespace torch_google::tpu {

// The name in torch.distributed.ReduceOp.
const char* name_of(c10d::ReduceOp::RedOpType op);
// Throws TypeError if a dtype does not have a reduction. `name` is the
// collective's.
void check_reduction(const at::Tensor& tensor, const c10d::ReduceOp& op,
                     const std::string& name);
// The operation by which gloo does another one, after `scale` and before
// `complete`.
c10d::ReduceOp gloo_op(const c10d::ReduceOp& op, c10::ScalarType dtype);
// `tensor` as numbers that gloo reduces: over the same memory, or a copy.
at::Tensor reducible(const at::Tensor& tensor);
// Multiplies the numbers by the factor of PREMUL_SUM.
void scale(const at::Tensor& numbers, const c10d::ReduceOp& op);
// Stores the reduced numbers of `size` ranks in an output.
void complete(const at::Tensor& output, at::Tensor numbers,
              const c10d::ReduceOp& op, int size);
// Combines another rank's numbers into `total`, by an operation of gloo.
void combine(const at::Tensor& total, const at::Tensor& more,
             const c10d::ReduceOp& op);

}  // namespace torch_google::tpu

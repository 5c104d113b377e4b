// SPDX-License-Identifier: Apache-2.0
// Operators on small CPU tensors, without torch's dispatcher and iterators,
// which take longer than the arithmetic.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>

namespace torch_google::tpu {

// The operators that have a small kernel. All but the last two are elementwise.
enum class SmallKernel {
  add,
  subtract,
  multiply,
  divide,
  negate,
  square,
  reciprocal_root,
  concatenate,
  row_mean
};

// Returns the kernel with this name, such as "add". Throws c10::Error if there
// is none.
SmallKernel small_kernel_named(const std::string& name);

// Returns the result of an operator. It is bitwise equal to that of torch's
// kernel and has the same sizes and strides. Only a mean may differ in its last
// bits: it is accumulated in double precision.
//
// `operands` depends on the kernel:
// - elementwise: one or two tensors or numbers; the others, such as alpha, are
//   ignored
// - concatenate: the tensors, then the dimension
// - row_mean: the arguments of aten::mean.dim for the last dimension
//
// If `target` is defined, it is the first operand of an elementwise operator,
// and its memory is overwritten with the result.
//
// Returns nullopt, without writing anything, if torch's own kernel must run.
// That is the case for dtypes other than float32, for more than 8,192 elements,
// and for strides that cannot be collapsed to rows of contiguous elements. A
// concatenation may have any dtype and up to 1 MiB.
std::optional<at::Tensor> run_small_kernel(
    SmallKernel kernel, c10::ArrayRef<const c10::IValue*> operands,
    const at::Tensor& target);

}  // namespace torch_google::tpu

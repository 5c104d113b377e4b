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

// The kinds of operators. All but the last two are elementwise.
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

// Returns the kind with this name, such as "add". Throws c10::Error if there is
// none.
SmallKernel small_kernel_named(const std::string& name);

// Returns the result of an operator, with the sizes and strides that torch's
// operator gives it, and the same bits, except for `row_mean`. Returns nullopt,
// and has written nothing, if torch's own kernel must run: for dtypes other
// than float32, more than 8,192 elements, or operands that are not the rows of
// matrices. A concatenation may have any dtype and up to 1 MiB.
//
// `operands` are tensors and numbers: one or two of an elementwise operator,
// and then any others; the tensors of `concatenate`, and the dimension; of
// `row_mean`, the arguments of aten::mean.dim, whose dimension is the last. Its
// sums are in double precision. If `target` is defined, it is the first operand
// of an elementwise operator, and its memory is overwritten with the result.
std::optional<at::Tensor> run_small(SmallKernel kind,
                                    c10::ArrayRef<const c10::IValue*> operands,
                                    const at::Tensor& target);

}  // namespace torch_google::tpu

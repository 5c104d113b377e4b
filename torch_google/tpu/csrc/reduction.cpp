// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/reduction.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {
namespace {

using at::Tensor;
using c10d::ReduceOp;

ReduceOp::RedOpType kind(const ReduceOp& op) { return op.op_; }

// Returns the dtype in which gloo reduces tensors of the given dtype.
c10::ScalarType reduced_dtype(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return at::kByte;
    case at::kShort:
    case at::kUInt16:
      return at::kInt;
    case at::kUInt32:
    case at::kUInt64:
      return at::kLong;
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2fnuz:
      return at::kFloat;
    default:
      return dtype;
  }
}

}  // namespace

const char* name_of(ReduceOp::RedOpType op) {
  constexpr const char* kNames[] = {"SUM", "AVG",  "PRODUCT",
                                    "MIN", "MAX",  "BAND",
                                    "BOR", "BXOR", "PREMUL_SUM"};
  return op < ReduceOp::UNUSED ? kNames[op] : "UNUSED";
}

void check_reduction(const Tensor& tensor, const ReduceOp& op,
                     const std::string& name) {
  const auto dtype = tensor.scalar_type();
  const auto refuse = [&](const char* remedy) {
    TORCH_CHECK_TYPE(false, "tpu: torch.distributed: ", name, ": ",
                     name_of(kind(op)), " is not defined for ", dtype, ". ",
                     remedy);
  };
  const bool integral = at::isIntegralType(dtype, /*includeBool=*/true);
  switch (kind(op)) {
    case ReduceOp::BAND:
    case ReduceOp::BOR:
    case ReduceOp::BXOR:
      if (!integral) {
        refuse("Use an integer or bool tensor");
      }
      break;
    case ReduceOp::PRODUCT:
    case ReduceOp::MIN:
    case ReduceOp::MAX:
      if (at::isComplexType(dtype)) {
        refuse("Complex numbers have only SUM, AVG and PREMUL_SUM");
      }
      if (dtype == at::kUInt64 && kind(op) != ReduceOp::PRODUCT) {
        refuse("Convert the tensor to another dtype");
      }
      break;
    case ReduceOp::AVG:
    case ReduceOp::PREMUL_SUM:
      if (integral) {
        refuse("Use a floating-point tensor, or SUM");
      }
      break;
    case ReduceOp::UNUSED:
      refuse("Use an operation of torch.distributed.ReduceOp");
      break;
    default:
      break;
  }
}

ReduceOp gloo_op(const ReduceOp& op, c10::ScalarType dtype) {
  const auto wanted = kind(op);
  if (dtype == at::kBool) {
    // Bools are reduced as 0 and 1, so a sum acts as "or" and a product as
    // "and".
    if (wanted == ReduceOp::SUM || wanted == ReduceOp::BOR) {
      return ReduceOp::MAX;
    }
    if (wanted == ReduceOp::PRODUCT || wanted == ReduceOp::BAND) {
      return ReduceOp::MIN;
    }
  }
  if (wanted == ReduceOp::AVG || wanted == ReduceOp::PREMUL_SUM) {
    return ReduceOp::SUM;
  }
  return wanted;
}

Tensor reducible(const Tensor& tensor) {
  Tensor numbers = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
  const auto dtype = reduced_dtype(numbers.scalar_type());
  return dtype == numbers.scalar_type() ? numbers : numbers.to(dtype);
}

void scale(const Tensor& numbers, const ReduceOp& op) {
  if (kind(op) != ReduceOp::PREMUL_SUM) {
    return;
  }
  const auto* supplement =
      dynamic_cast<c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_INTERNAL_ASSERT(supplement, "tpu: PREMUL_SUM without a factor");
  if (supplement->tensor_factor.defined()) {
    numbers.mul_(supplement->tensor_factor);
  } else {
    numbers.mul_(supplement->double_factor);
  }
}

void complete(const Tensor& output, Tensor numbers, const ReduceOp& op,
              int size) {
  if (kind(op) == ReduceOp::AVG) {
    numbers.div_(size);
  }
  if (output.is_complex()) {
    numbers = at::view_as_complex(numbers);
  }
  if (!numbers.is_alias_of(output)) {
    output.copy_(numbers.view(output.sizes()));
  }
}

void combine(const Tensor& total, const Tensor& more, const ReduceOp& op) {
  switch (kind(op)) {
    case ReduceOp::SUM:
      total.add_(more);
      break;
    case ReduceOp::PRODUCT:
      total.mul_(more);
      break;
    case ReduceOp::MIN:
      total.copy_(at::minimum(total, more));
      break;
    case ReduceOp::MAX:
      total.copy_(at::maximum(total, more));
      break;
    case ReduceOp::BAND:
      total.bitwise_and_(more);
      break;
    case ReduceOp::BOR:
      total.bitwise_or_(more);
      break;
    case ReduceOp::BXOR:
      total.bitwise_xor_(more);
      break;
    default:
      TORCH_INTERNAL_ASSERT(false, "tpu: no reduction ", name_of(kind(op)));
  }
}

}  // namespace torch_google::tpu

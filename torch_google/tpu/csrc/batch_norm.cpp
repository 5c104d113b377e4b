// SPDX-License-Identifier: Apache-2.0
// The schema of native_batch_norm does not declare that it updates the running
// statistics. Redirect it to _native_batch_norm_legit, whose schema does.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <torch/library.h>

namespace torch_google::tpu {
namespace {

using at::Tensor;

std::tuple<Tensor, Tensor, Tensor> native_batch_norm(
    const Tensor& input, const std::optional<Tensor>& weight,
    const std::optional<Tensor>& bias,
    const std::optional<Tensor>& running_mean,
    const std::optional<Tensor>& running_var, bool training, double momentum,
    double epsilon) {
  if (running_mean && running_mean->defined() && running_var &&
      running_var->defined()) {
    Tensor mean = *running_mean;
    Tensor variance = *running_var;
    return at::_native_batch_norm_legit(input, weight, bias, mean, variance,
                                        training, momentum, epsilon);
  }
  return at::_native_batch_norm_legit(input, weight, bias, training, momentum,
                                      epsilon);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("native_batch_norm", native_batch_norm);
}

}  // namespace torch_google::tpu

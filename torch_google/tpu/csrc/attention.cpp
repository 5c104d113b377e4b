// SPDX-License-Identifier: Apache-2.0
// Which kernel of attention torch should call: it asks before each call.
#include <cstdint>

// v2.6 of it needs what is above.
#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace torch_google::tpu {
namespace {

using at::Tensor;

int64_t choose_attention(const Tensor& query, const Tensor& key,
                         const Tensor& value, const std::optional<Tensor>&,
                         double, bool, std::optional<double>, bool) {
  const bool plain = query.dim() == 4 && key.dim() == 4 && value.dim() == 4 &&
                     !query.is_nested() && !key.is_nested() &&
                     !value.is_nested();
  if (!plain || query.size(0) != key.size(0) ||
      query.size(0) != value.size(0) || query.size(3) != key.size(3) ||
      key.size(2) != value.size(2) || key.size(1) != value.size(1) ||
      key.size(1) == 0 || query.size(1) % key.size(1) != 0) {
    return static_cast<int64_t>(at::SDPBackend::math);
  }
  return static_cast<int64_t>(at::SDPBackend::efficient_attention);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_fused_sdp_choice", choose_attention);
}

}  // namespace torch_google::tpu

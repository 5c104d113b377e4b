// SPDX-License-Identifier: Apache-2.0
// Autocast for the tpu device, with torch's own lists of the operators that run
// in lower precision or in float32.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace at::autocast {
namespace {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

// torch's macros expect the library to be named `m`. They refer to torch's cast
// policies without a namespace, so they must be expanded inside at::autocast.
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define TORCH_GOOGLE_LOWER(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(TORCH_GOOGLE_LOWER)
#undef TORCH_GOOGLE_LOWER

#define TORCH_GOOGLE_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(TORCH_GOOGLE_FP32)
#undef TORCH_GOOGLE_FP32

#define TORCH_GOOGLE_FP32_DTYPE(...) \
  KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(TORCH_GOOGLE_FP32_DTYPE)
#undef TORCH_GOOGLE_FP32_DTYPE

  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(
      KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)

#define TORCH_GOOGLE_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(TORCH_GOOGLE_PROMOTE)
#undef TORCH_GOOGLE_PROMOTE
}

}  // namespace
}  // namespace at::autocast

// SPDX-License-Identifier: Apache-2.0
// Creates, views and resizes tensors without reading any values.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch_google/tpu/csrc/box.h"

namespace torch_google::tpu {

// Creates a tensor with a new storage whose natural shape (see box.h) is
// `natural`.
at::Tensor make_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       c10::IntArrayRef natural, c10::ScalarType dtype,
                       c10::DeviceIndex device);

}  // namespace torch_google::tpu

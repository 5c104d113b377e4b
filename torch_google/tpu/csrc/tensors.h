// SPDX-License-Identifier: Apache-2.0
// Tensors over boxes: made, viewed and resized without a look at any value.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch_google/tpu/csrc/box.h"

namespace torch_google::tpu {

// A new tensor of the device; `natural` is the shape of its box.
at::Tensor make_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       c10::IntArrayRef natural, c10::ScalarType dtype,
                       c10::DeviceIndex device);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The backend `tpu` of torch.distributed.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_google::tpu {

// Defines the class `Backend`. Call after torch.distributed's C++ classes are
// defined.
void define_backend(pybind11::module_& module);

}  // namespace torch_google::tpu

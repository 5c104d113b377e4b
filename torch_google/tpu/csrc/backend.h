// SPDX-License-Identifier: Apache-2.0
// The backend `tpu` of torch.distributed.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>

#include "torch_google/tpu/csrc/host_group.h"

namespace torch_google::tpu {

// Defines the class `Backend`. Call after torch.distributed's C++ classes are
// defined.
void define_backend(pybind11::module_& module);

// Returns the ranks of the process group with this name. Call with the GIL.
// Throws if this process has no such group with the backend `tpu`.
std::shared_ptr<HostGroup> host_group(const std::string& name);

}  // namespace torch_google::tpu

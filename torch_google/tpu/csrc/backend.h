// SPDX-License-Identifier: Apache-2.0
// The `tpu` backend for torch.distributed.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>

#include "torch_google/tpu/csrc/host_group.h"

namespace torch_google::tpu {

// Defines the Python class `Backend`. Call it after torch.distributed has
// defined its C++ classes.
void define_backend(pybind11::module_& module);

// Returns the host group of the process group with this name. Throws if this
// process has no such group with the `tpu` backend. The caller must hold the
// GIL.
std::shared_ptr<HostGroup> host_group(const std::string& name);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// Collectives whose data moves from device to device, without gloo. Python
// (collectives/transport.py) compiles and runs their programs.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "torch_google/tpu/csrc/host_group.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/transfer.h"

namespace torch_google::tpu {

// Passes the inputs to the transport, and waits until they are computed. The
// `on_device` function of the returned Results runs the collective.
// prepare_on_device() must be called in the group's thread.
HostGroup::Results prepare_on_device(const Transfer& transfer,
                                     const Collective& collective,
                                     PyObject* transport);
// Describes how the tensors are laid out in their storages. If all ranks have
// the same description, the collective's program can include the copies to and
// from views.
std::string layout_of(const Transfer& transfer);
// Returns the transport for the subgroup that consists of these ranks. The
// caller must hold the GIL.
SharedObject part_of(PyObject* transport, const std::vector<int>& ranks);

}  // namespace torch_google::tpu

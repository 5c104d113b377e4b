// SPDX-License-Identifier: Apache-2.0
// Collectives whose data moves from device to device, without gloo. Python
// compiles and runs the program (collectives/transport.py).
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "torch_google/tpu/csrc/host_group.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/transfer.h"

namespace torch_google::tpu {

// Passes the inputs to the transport, and waits until they are computed.
// `on_device` of the returned Results runs the collective. Call it in the
// group's thread.
HostGroup::Results prepare_on_device(const Transfer& transfer,
                                     const Collective& collective,
                                     PyObject* transport);
// Returns a description of the tensors' layouts in their storages. If it is the
// same on all ranks, one program can include the copies to and from views.
std::string layout_of(const Transfer& transfer);
// Returns the transport for a subgroup of these ranks. Call it with the GIL.
SharedObject part_of(PyObject* transport, const std::vector<int>& ranks);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// Stores the results of a graph that ran on CPU kernels in tensors on the
// device.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "torch_google/tpu/csrc/arrival.h"
#include "torch_google/tpu/csrc/box.h"

namespace torch_google::tpu {

// Returns the box of a tensor on the device, with a shape and a dtype.
Box& settled_box(const at::Tensor& tensor);

// Creates a tensor on the device with the values, sizes and strides of a CPU
// tensor. If `owns`, it takes over the CPU tensor's memory, unless that memory
// has elements outside the tensor. Otherwise, it gets a copy.
at::Tensor on_device(const at::Tensor& value, bool owns,
                     c10::DeviceIndex device);

// The values that a graph writes to its arguments. The caller holds the GIL
// from add() to apply().
class GraphWrites {
 public:
  // Chooses the memory for a write. It is the storage's own if nothing else can
  // read that memory, and otherwise a copy of it. Throws torch's error if the
  // target must not be written to.
  void add(const at::Tensor& target, at::Tensor value);
  // Stores the new values. Nothing here can fail halfway: the values have the
  // sizes and dtypes of their targets, and compile/cpu_graph.py refuses targets
  // whose elements overlap.
  void apply();

 private:
  struct Write {
    at::Tensor target;
    at::Tensor value;
    // The flat memory to which the value is written, and its owner. If the
    // owner is null, the memory is new, and becomes the storage's.
    at::Tensor memory;
    std::shared_ptr<Arrival> owner;
  };
  std::vector<Write> writes_;
};

}  // namespace torch_google::tpu

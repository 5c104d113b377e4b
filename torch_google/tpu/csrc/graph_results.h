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

// Returns the box of a tensor on the device, after setting its shape and dtype
// if they are not set.
Box& settled_box(const at::Tensor& tensor);

// Creates a tensor on the device with the values, sizes and strides of a CPU
// tensor. If `owns`, the new tensor takes over the CPU tensor's memory, unless
// that memory begins before its first element or ends after its last one.
// Otherwise, the elements are copied.
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
  // with a stride of 0, to which torch does not write.
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

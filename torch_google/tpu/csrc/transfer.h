// SPDX-License-Identifier: Apache-2.0
// The device side of a collective: the values to read and the storages to write
// to.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/host_group.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

// The layout of a tensor in its storage.
struct Layout {
  Sizes sizes;
  Sizes strides;
  int64_t offset;
  c10::ScalarType dtype;
  bool is_conj;
  bool is_neg;

  explicit Layout(const at::Tensor& tensor)
      : sizes(tensor.sizes()),
        strides(tensor.strides()),
        offset(tensor.storage_offset()),
        dtype(tensor.scalar_type()),
        is_conj(tensor.is_conj()),
        is_neg(tensor.is_neg()) {}

  // Returns a tensor with this layout that views a CPU storage.
  at::Tensor view(const at::Tensor& storage) const;
};

// How a collective's data moves: through the host (with gloo) or between
// devices (with XLA).
enum class Place { host, device };

// The storage of an input: a value on the device, the result of an earlier
// collective, or zeros.
class Source {
 public:
  // Flushes the trace that computes the value, without waiting for the result.
  // The caller must hold the GIL.
  Source(Box& box, Place place);
  ~Source() { release(array_); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Waits for the value and returns it. The caller must not write to it.
  at::Tensor storage();
  // Returns the array, whose value may not be ready yet. Waits for an earlier
  // collective if the array is its result. The caller must hold the GIL.
  Ref array();
  // The shape of the array.
  const Sizes& shape() const { return shape_; }

 private:
  void read();

  const size_t bytes_;
  const Sizes shape_;
  const c10::ScalarType dtype_;
  const c10::DeviceIndex device_;
  PyObject* array_ = nullptr;
  std::shared_ptr<Arrival> arrival_;
  size_t output_ = 0;
  at::Tensor storage_;
};

// A storage that a collective writes to.
struct Target {
  Box* box;  // used only with the GIL held, before the collective starts
  size_t bytes;
  Sizes shape;
  c10::ScalarType dtype;
  c10::DeviceIndex device;
  // The previous contents, if the outputs do not cover the whole storage.
  std::shared_ptr<Source> old;
};

// Everything that the group's thread needs to run a collective.
struct Transfer {
  std::vector<std::shared_ptr<Source>> sources;
  std::vector<Layout> inputs;
  std::vector<Target> targets;
  // The layout of each output, and the index of its target.
  std::vector<std::pair<Layout, size_t>> outputs;

  // Replaces the device tensors of `collective` with contiguous CPU tensors.
  HostGroup::Results prepare(Collective& collective) const;
};

// Collects the sources and targets of a collective. The caller must hold the
// GIL.
std::shared_ptr<Transfer> transfer_of(const Collective& collective,
                                      Place place);

}  // namespace torch_google::tpu

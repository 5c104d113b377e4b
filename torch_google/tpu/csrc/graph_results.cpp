// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/graph_results.h"

#include <ATen/ops/clone.h>

#include <utility>

#include "torch_google/tpu/csrc/donation.h"
#include "torch_google/tpu/csrc/host_values.h"
#include "torch_google/tpu/csrc/partial_write.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {
namespace {

// Returns how many elements the memory from a tensor's first element to its
// last can hold.
int64_t extent(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) {
      return 0;
    }
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return last + 1;
}

}  // namespace

Box& settled_box(const at::Tensor& tensor) {
  auto* implementation = tensor.unsafeGetTensorImpl();
  Box& box = box_of(*implementation);
  box.settle(*implementation);
  return box;
}

at::Tensor on_device(const at::Tensor& value, bool owns,
                     c10::DeviceIndex device) {
  const int64_t elements = extent(value);
  const auto bytes = static_cast<size_t>(elements) * value.itemsize();
  at::Tensor values;
  if (owns && value.storage_offset() == 0 &&
      value.storage().nbytes() == bytes) {
    values = flat(value);
  } else {
    values = value.as_strided({elements}, {1}, value.storage_offset()).clone();
  }
  const Sizes natural = value.is_non_overlapping_and_dense()
                            ? dense_shape(value)
                            : Sizes{elements};
  at::Tensor tensor = make_tensor(value.sizes(), value.strides(), natural,
                                  value.scalar_type(), device);
  box_of(*tensor.unsafeGetTensorImpl()).expect(arrived(std::move(values)), 0);
  return tensor;
}

void GraphWrites::add(const at::Tensor& target, at::Tensor value) {
  check_writable(target);
  Box& box = settled_box(target);
  HostValues current = host_values(box);
  const bool is_own = current.arrival && !box.is_shared() &&
                      current.arrival.use_count() == 2 &&
                      current.values.use_count() == 2 &&
                      current.values.storage().use_count() == 1;
  if (is_own) {
    writes_.push_back({target, std::move(value), std::move(current.values),
                       std::move(current.arrival)});
  } else {
    writes_.push_back(
        {target, std::move(value), current.values.clone(), nullptr});
  }
}

void GraphWrites::apply() {
  // Destroyed at the end, because destructors may release the GIL.
  std::vector<Ref> replaced;
  for (const Write& write : writes_) {
    over(write.memory.storage(), write.target).copy_(write.value);
    if (write.owner) {
      count_in_place_write();
    } else {
      settled_box(write.target).expect(arrived(write.memory), 0, replaced);
    }
    write.target.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace torch_google::tpu

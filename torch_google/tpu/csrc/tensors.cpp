// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/tensors.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <array>

#include "torch_google/tpu/csrc/allocator.h"
#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {
namespace {

using at::Tensor;

c10::DeviceIndex index_of(std::optional<c10::Device> device) {
  if (!device || !device->has_index()) {
    return current_device();
  }
  check_device(device->index());
  return device->index();
}

void check_strided(std::optional<c10::Layout> layout) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !layout || *layout == c10::kStrided, "tpu: tensors of layout ", *layout,
      " are not supported. Make a strided tensor, or keep this one on the CPU");
}

Tensor over_new_storage(size_t bytes, c10::ScalarType dtype,
                        c10::DeviceIndex device) {
  auto& allocator = Allocator::get();
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      allocator.allocate_on(bytes, device), &allocator,
      /*resizable=*/true);
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
}

// Returns whether uninitialized memory must have the same contents in every
// run.
bool is_determined() {
  const auto& context = at::globalContext();
  return C10_UNLIKELY(context.deterministicAlgorithms() &&
                      context.deterministicFillUninitializedMemory());
}

Tensor determined(Tensor fresh) {
  if (is_determined()) {
    if (fresh.scalar_type() == at::kUInt64) {
      // torch v2.6 cannot pass the largest uint64 to fill_(), so pass -1, which
      // has the same bits.
      fresh.fill_(-1);
    } else {
      at::native::fill_empty_deterministic_(fresh);
    }
  }
  return fresh;
}

Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype,
             std::optional<c10::Layout> layout,
             std::optional<c10::Device> device, std::optional<bool>,
             std::optional<c10::MemoryFormat> format) {
  check_strided(layout);
  at::detail::check_size_nonnegative(sizes);
  const auto type = c10::dtype_or_default(dtype);
  const auto bytes =
      at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(type));
  Tensor result = over_new_storage(bytes, type, index_of(device));
  auto* tensor = result.unsafeGetTensorImpl();
  tensor->generic_set_sizes_contiguous(sizes);
  if (format && *format != c10::MemoryFormat::Contiguous) {
    tensor->empty_tensor_restride(*format);
  }
  box_of(*tensor).settle(*tensor);
  return determined(std::move(result));
}

// If `self` is sharded, the new tensor gets the same sharding, so that an
// optimizer's state is distributed like its parameters.
Tensor empty_like(const Tensor& self, std::optional<c10::ScalarType> dtype,
                  std::optional<c10::Layout> layout,
                  std::optional<c10::Device> device, std::optional<bool> pinned,
                  std::optional<c10::MemoryFormat> format) {
  Tensor result =
      at::native::empty_like(self, dtype, layout, device, pinned, format);
  if (self.device() == result.device() && self.layout() == c10::kStrided &&
      result.layout() == c10::kStrided) {
    const auto& like = box_of(*self.unsafeGetTensorImpl());
    if (like.sharding() != kOneDevice) {
      Gil gil;
      auto& box = box_of(*result.unsafeGetTensorImpl());
      if (box.is_blank() && like.shape == box.shape) {
        box.set_blank_sharding(like.sharding());
      }
    }
  }
  return result;
}

Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                     std::optional<c10::ScalarType> dtype,
                     std::optional<c10::Layout> layout,
                     std::optional<c10::Device> device, std::optional<bool>) {
  check_strided(layout);
  const auto type = c10::dtype_or_default(dtype);
  const auto bytes =
      at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  Tensor result = over_new_storage(bytes, type, index_of(device));
  auto* tensor = result.unsafeGetTensorImpl();
  tensor->set_sizes_and_strides(sizes, strides);
  box_of(*tensor).settle(*tensor);
  return determined(std::move(result));
}

// Grows the storage so that it can hold all elements of a tensor.
void fit(c10::TensorImpl& tensor) {
  if (tensor.numel() == 0) {
    return;
  }
  const auto bytes = at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.dtype().itemsize(),
      tensor.storage_offset());
  auto* storage = tensor.unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) {
    TORCH_CHECK(storage->resizable(), "tpu: a storage of ", storage->nbytes(),
                " bytes cannot be resized to ", bytes);
    Gil gil;
    box_of(*storage).resize(bytes);
    storage->set_nbytes(bytes);
  }
}

// In deterministic mode, fills the part of the storage that a resize has added.
void determine_beyond(const Tensor& resized, size_t old_bytes) {
  if (!is_determined()) {
    return;
  }
  const auto item = resized.itemsize();
  const auto from = static_cast<int64_t>(old_bytes / item);
  const auto to = static_cast<int64_t>(resized.storage().nbytes() / item);
  if (to > from) {
    Tensor rest = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(resized.storage()),
        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), resized.dtype());
    const std::array<int64_t, 1> sizes{to - from};
    const std::array<int64_t, 1> strides{1};
    rest.unsafeGetTensorImpl()->set_sizes_and_strides(
        c10::IntArrayRef(sizes), c10::IntArrayRef(strides), from);
    determined(std::move(rest));
  }
}

const Tensor& resize_(const Tensor& self, c10::IntArrayRef sizes,
                      std::optional<c10::MemoryFormat> format) {
  auto* tensor = self.unsafeGetTensorImpl();
  const size_t old_bytes = self.storage().nbytes();
  if (self.sizes() != sizes) {
    const Sizes old_sizes(self.sizes());
    const Sizes old_strides(self.strides());
    tensor->generic_set_sizes_contiguous(sizes);
    try {
      fit(*tensor);
    } catch (...) {
      // The storage could not grow, so restore the old view.
      tensor->set_sizes_and_strides(old_sizes, old_strides);
      throw;
    }
  }
  if (format && *format != c10::MemoryFormat::Preserve) {
    tensor->empty_tensor_restride(*format);
  }
  determine_beyond(self, old_bytes);
  return self;
}

bool is_set_to(const Tensor& self, const Tensor& other) {
  return other.device() == self.device() &&
         other.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
             self.unsafeGetTensorImpl()
                 ->unsafe_storage()
                 .unsafeGetStorageImpl() &&
         other.storage_offset() == self.storage_offset() &&
         other.sizes() == self.sizes() && other.strides() == self.strides();
}

Tensor& set_storage(Tensor& self, c10::Storage source, int64_t offset,
                    c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  TORCH_CHECK(source.device() == self.device(), "tpu: set_() of a tensor on ",
              self.device(), " to a storage on ", source.device(),
              ". Move the source with .to('", self.device(), "') first");
  auto* tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(source));
  tensor->set_storage_offset(offset);
  if (strides.empty()) {
    tensor->set_sizes_contiguous(sizes);
  } else {
    tensor->set_sizes_and_strides(sizes, strides, offset);
  }
  fit(*tensor);
  {
    Gil gil;
    box_of(*tensor).resettle(*tensor);
  }
  return self;
}

Tensor& set_whole_storage(Tensor& self, c10::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {elements}, {1});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  if (!self.is_same(source)) {
    set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                source.strides());
  }
  return self;
}

// A no-op: values are immutable, and each one lives until the last program that
// reads it has finished.
void record_stream(Tensor&, c10::Stream) {}

Tensor& set_nothing(Tensor& self) {
  Tensor fresh = over_new_storage(0, self.scalar_type(), self.device().index());
  return set_storage(self, fresh.storage(), 0, {0}, {1});
}

}  // namespace

at::Tensor make_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       c10::IntArrayRef natural, c10::ScalarType dtype,
                       c10::DeviceIndex device) {
  size_t bytes = c10::elementSize(dtype);
  for (const auto size : natural) {
    bytes *= static_cast<size_t>(size);
  }
  Tensor result = over_new_storage(bytes, dtype, device);
  auto* tensor = result.unsafeGetTensorImpl();
  tensor->set_sizes_and_strides(sizes, strides);
  auto& box = box_of(*tensor);
  box.shape.assign(natural.begin(), natural.end());
  box.dtype = dtype;
  return result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("empty_like", empty_like);
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  library.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  library.impl("resize_", resize_);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("set_.source_Storage", set_whole_storage);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("set_", set_nothing);
  library.impl("record_stream", record_stream);
  library.impl("is_set_to", is_set_to);
}

}  // namespace torch_google::tpu

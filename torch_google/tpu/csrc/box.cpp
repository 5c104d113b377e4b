// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/box.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "torch_google/tpu/csrc/allocator.h"
#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/memory_history.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/torch_release.h"
#include "torch_google/tpu/csrc/trace.h"

namespace torch_google::tpu {
namespace {

// Head of the intrusive list of all boxes in the process.
Box* live = nullptr;

c10::ScalarType dtype_of(const c10::TensorImpl& tensor) {
#if TORCH_GOOGLE_TORCH_2_6
  return c10::typeMetaToScalarType(tensor.dtype());
#else
  return tensor.dtype().toScalarType();
#endif
}

// Returns the shape and dtype of a flat array that fills a storage of `bytes`
// bytes. The dtype is `dtype`, or uint8 if its elements do not fill the
// storage.
std::pair<Sizes, c10::ScalarType> flat_of(size_t bytes, c10::ScalarType dtype) {
  const size_t item = c10::elementSize(dtype);
  if (bytes % item != 0) {
    return {{static_cast<int64_t>(bytes)}, c10::ScalarType::Byte};
  }
  return {{static_cast<int64_t>(bytes / item)}, dtype};
}

// Returns the natural shape (box.h) and the dtype of a tensor's storage.
// `bytes` is the size of the storage.
std::pair<Sizes, c10::ScalarType> natural_of(const c10::TensorImpl& tensor,
                                             size_t bytes) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const size_t item = tensor.dtype().itemsize();
  const bool covers = static_cast<size_t>(tensor.numel()) * item == bytes;
  Sizes shape;
  if (covers && tensor.is_contiguous()) {
    shape.assign(sizes.begin(), sizes.end());
  } else if (covers && tensor.is_non_overlapping_and_dense()) {
    // Order the dimensions of a permuted tensor, such as a channels_last one,
    // by stride.
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return strides[a] > strides[b];
    });
    for (const size_t dimension : order) {
      shape.push_back(sizes[dimension]);
    }
  } else {
    return flat_of(bytes, dtype_of(tensor));
  }
  return {std::move(shape), dtype_of(tensor)};
}

}  // namespace

std::mutex& Box::mutex() {
  // Never destroyed, because boxes (storage contents) owned by static variables
  // may be destroyed later.
  static auto* instance = new std::mutex;
  return *instance;
}

Box::Box(c10::DeviceIndex device_index, size_t size, const void* address)
    : device(device_index), address_(address), bytes_(size) {
  auto stack = MemoryHistory::get().stack();
  std::lock_guard<std::mutex> lock(mutex());
  Allocator::get().check_room_locked(device, bytes_, "a new tensor");
  Allocator::get().count(device, static_cast<int64_t>(bytes_), 1);
  MemoryHistory::get().allocated(device, address_, bytes_, std::move(stack));
  next_ = live;
  if (live) {
    live->previous_ = this;
  }
  live = this;
}

Box::~Box() {
  std::shared_ptr<Arrival> dropped;
  {
    std::lock_guard<std::mutex> lock(mutex());
    dropped = unlink();
    (previous_ ? previous_->next_ : live) = next_;
    if (next_) {
      next_->previous_ = previous_;
    }
    Allocator::get().count(device, -static_cast<int64_t>(bytes_), -1);
    MemoryHistory::get().freed(address_);
  }
  release(value_);
  release(error_);
}

Box* Box::at(const void* address) {
  std::lock_guard<std::mutex> lock(mutex());
  Box* box = live;
  while (box && box->address_ != address) {
    box = box->next_;
  }
  return box;
}

std::shared_ptr<Arrival> Box::unlink() {
  if (writer_) {
    writer_->forget_slot(slot_);
    writer_ = nullptr;
  }
  if (reader_) {
    reader_->forget_external(external_);
    reader_ = nullptr;
  }
  return std::exchange(arrival_, nullptr);
}

void Box::settle(const c10::TensorImpl& tensor) {
  if (!has_shape()) {
    std::tie(shape, dtype) = natural_of(tensor, bytes_);
  }
}

void Box::resettle(const c10::TensorImpl& tensor) {
  auto [sizes, kind] = natural_of(tensor, bytes_);
  const bool sees_all =
      tensor.storage_offset() == 0 &&
      static_cast<size_t>(tensor.numel()) * tensor.dtype().itemsize() ==
          bytes_ &&
      tensor.is_non_overlapping_and_dense();
  if (dtype != c10::ScalarType::Byte || kind == dtype || !sees_all) {
    return;
  }
  std::vector<Ref> replaced;
  while (value_ || writer_ || arrival_) {
    const Ref bytes = Ref::borrow(value(Reason::host_read));
    Ref elements = Ref::checked(
        PyObject_CallFunction(callbacks().of_bytes, "OOO", bytes.get(),
                              tuple_of(sizes).get(), torch::getTHPDtype(kind)));
    if (elements.get() == Py_None) {
      return;
    }
    // Another thread may have written to the box during the call.
    if (holds(bytes.get())) {
      store(elements.give(), replaced);
      break;
    }
  }
  shape = std::move(sizes);
  dtype = kind;
  ++layout_version;
}

PyObject* Box::value(Reason reason) {
  start();  // throws in a forked child, where arrays would never become ready
  auto kind = c10::ScalarType::Byte;
  for (;;) {
    while (writer_) {
      writer_->finish(reason);
    }
    if (arrival_) {
      receive();
      continue;
    }
    if (error_) {
      throw_again(error_);
    }
    if (value_) {
      return value_;
    }
    if (!has_shape()) {
      // Another thread resized the storage after the caller had settled it.
      std::tie(shape, dtype) = flat_of(bytes_, kind);
    }
    kind = dtype;
    const Sharding sharding = sharding_;
    const uint64_t version = layout_version;
    Ref zeros = Ref::checked(PyObject_CallFunction(
        callbacks().zeros, "OOii", tuple_of(shape).get(),
        torch::getTHPDtype(dtype), static_cast<int>(device), sharding));
    // Another thread may have written to the box or reshaped it during the
    // call.
    if (is_blank() && sharding_ == sharding && layout_version == version) {
      value_ = zeros.give();
      value_sharding_ = sharding;
    }
  }
}

void Box::store(PyObject* array, Sharding sharding) {
  std::vector<Ref> replaced;
  store(array, replaced, sharding);
}

void Box::store(PyObject* array, std::vector<Ref>& replaced,
                Sharding sharding) {
  stream_ = current_stream(device).id();
  std::shared_ptr<Arrival> dropped;
  {
    std::lock_guard<std::mutex> lock(mutex());
    dropped = unlink();
  }
  shared_ = false;
  sharding_ = value_sharding_ = sharding;
  replaced.emplace_back(std::exchange(error_, nullptr));
  replaced.emplace_back(std::exchange(value_, array));
}

void Box::reshard(PyObject* array, Sizes sizes, c10::ScalarType kind,
                  Sharding sharding) {
  std::vector<Ref> replaced;
  store(array, replaced, sharding);
  shape = std::move(sizes);
  dtype = kind;
  is_padded = false;
  ++layout_version;
}

void Box::expect(std::shared_ptr<Arrival> arrival, size_t output) {
  std::vector<Ref> replaced;
  expect(std::move(arrival), output, replaced);
}

void Box::expect(std::shared_ptr<Arrival> arrival, size_t output,
                 std::vector<Ref>& replaced) {
  store(nullptr, replaced);
  arrival_ = std::move(arrival);
  output_ = output;
}

PyObject* Box::take(std::shared_ptr<Arrival> arrival, size_t output,
                    Py_ssize_t others) {
  if (!value_ || writer_ || arrival_ || error_ || shared_ ||
      Py_REFCNT(value_) > 1 + others) {
    return nullptr;
  }
  arrival_ = std::move(arrival);
  output_ = output;
  return std::exchange(value_, nullptr);
}

void Box::receive() {
  const auto arrival = arrival_;
  arrival->wait();
  // Another thread may have received or replaced the value during the wait.
  if (arrival_ != arrival) {
    return;
  }
  Ref array;
  Ref error;
  try {
    if (const auto delivered = arrival->array(output_)) {
      array = Ref::borrow(delivered.get());
    } else {
      array = Ref::checked(PyObject_CallFunction(
          callbacks().received, "NOOi",
          THPVariable_Wrap(arrival->storage(output_)), tuple_of(shape).get(),
          torch::getTHPDtype(dtype), static_cast<int>(device)));
    }
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    error = caught();
  }
  // Another thread may also have replaced the value during the conversion.
  if (arrival_ != arrival) {
    return;
  }
  arrival_.reset();
  value_ = array.give();
  error_ = error.give();
}

void Box::share() {
  std::lock_guard<std::mutex> lock(mutex());
  shared_ = true;
  if (reader_) {
    reader_->share_external(external_);
  }
}

void Box::resize(size_t bytes) {
  if (bytes == bytes_) {
    return;
  }
  start();
  if (bytes > bytes_) {
    Allocator::get().check_room(device, bytes - bytes_, "a tensor that grows");
  }
  // Destroyed after everything is set, because destructors may run other code.
  std::vector<Ref> replaced;
  while (has_shape() && (value_ || writer_ || arrival_)) {
    const auto kept =
        bytes % c10::elementSize(dtype) == 0 ? dtype : c10::ScalarType::Byte;
    const auto elements = static_cast<int64_t>(bytes / c10::elementSize(kept));
    const Ref old = Ref::borrow(value(Reason::host_read));
    Ref grown = Ref::checked(PyObject_CallFunction(
        callbacks().resized, "OLO", old.get(), static_cast<long long>(elements),
        torch::getTHPDtype(kept)));
    // Another thread may have written to the box during the call.
    if (holds(old.get())) {
      store(grown.give(), replaced);
      shape.assign({elements});
      dtype = kept;
      break;
    }
  }
  is_padded = false;
  ++layout_version;
  if (!value_ && !writer_ && !arrival_) {
    // The storage has no value, so the next tensor that uses it sets the shape.
    dtype = c10::ScalarType::Undefined;
    shape.clear();
    sharding_ = kOneDevice;
  }
  auto stack = MemoryHistory::get().stack();
  std::lock_guard<std::mutex> lock(mutex());
  Allocator::get().count(
      device, static_cast<int64_t>(bytes) - static_cast<int64_t>(bytes_), 0);
  bytes_ = bytes;
  MemoryHistory::get().freed(address_);
  MemoryHistory::get().allocated(device, address_, bytes_, std::move(stack));
}

std::vector<PyObject*> Box::values(c10::DeviceIndex device,
                                   std::optional<c10::StreamId> stream) {
  FusedTrace::finish_all(device, Reason::sync);
  std::vector<PyObject*> found;
  std::lock_guard<std::mutex> lock(mutex());
  for (Box* box = live; box; box = box->next_) {
    if (box->value_ && box->device == device &&
        (!stream || box->stream_ == *stream)) {
      Py_INCREF(box->value_);
      found.push_back(box->value_);
    }
  }
  return found;
}

std::vector<std::shared_ptr<Arrival>> Box::arrivals(c10::DeviceIndex device) {
  std::vector<std::shared_ptr<Arrival>> pending;
  std::lock_guard<std::mutex> lock(mutex());
  for (const Box* box = live; box; box = box->next_) {
    if (box->arrival_ && box->device == device) {
      pending.push_back(box->arrival_);
    }
  }
  return pending;
}

bool is_deleted(PyObject* array) {
  const Ref answer =
      Ref::checked(PyObject_CallMethod(array, "is_deleted", nullptr));
  return PyObject_IsTrue(answer.get()) == 1;
}

bool is_intact(PyObject* array) {
  try {
    return !is_deleted(array);
  } catch (const std::exception&) {
    PyErr_Clear();
    return false;
  }
}

Ref tuple_of(const Sizes& sizes) {
  Ref tuple = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(sizes.size())));
  for (size_t i = 0; i < sizes.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), i, PyLong_FromLongLong(sizes[i]));
  }
  return tuple;
}

Box& box_of(const c10::StorageImpl& storage) {
  const auto& pointer = storage.data_ptr();
  // A storage may lack a box: torch also creates storages over raw addresses
  // as sources for copies, for example when it unpickles a tensor.
  Box* box =
      pointer.device().is_privateuseone() ? Allocator::box(pointer) : nullptr;
  TORCH_CHECK(box, "tpu: a storage on ", storage.device(),
              " was not allocated by the tpu device. Create tensors with "
              "device='tpu'");
  return *box;
}

Box& box_of(const c10::TensorImpl& tensor) {
  return box_of(*tensor.unsafe_storage().unsafeGetStorageImpl());
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// What a storage of the device holds: one immutable jax.Array, replaced by
// every write.
#pragma once

#include <Python.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <mutex>
#include <optional>
#include <vector>

#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

using Sizes = c10::SmallVector<int64_t, 5>;

class FusedTrace;

// Why a trace ends.
enum class Reason : int {
  host_read,
  sync,
  strict,  // an operator of another mode takes a value of the trace
  collective,
  optimizer_step,
  length,
  bytes,
  repetition,
};
constexpr size_t kReasons = 8;

// Values and shapes are read and written under the GIL. Links between boxes and
// traces are guarded by mutex() as well, as a box may die without the GIL.
class Box {
 public:
  Box(c10::DeviceIndex device, size_t bytes, const void* address);
  ~Box();
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  // The natural shape: elements in the order of the storage's bytes, all of
  // which they have.
  Sizes shape;
  // Undefined until a first tensor lies over the storage.
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  const c10::DeviceIndex device;

  bool has_shape() const { return dtype != c10::ScalarType::Undefined; }
  // Gives a box its natural shape, if it has none, from the first tensor that
  // looks at it.
  void settle(const c10::TensorImpl& tensor);
  // Gives a box of bytes, as torch makes it where it copies a storage, the
  // natural shape of a tensor that sees all of it. Programs are then those of
  // the tensor that was copied.
  void resettle(const c10::TensorImpl& tensor);
  // A borrowed reference; a box that nobody wrote reads as zeros. Runs the
  // trace that the value is yet to come from, or waits for the thread that
  // does.
  PyObject* value(Reason reason);
  // Whether that is the value, and nothing else is on its way.
  bool holds(const PyObject* array) const {
    return value_ == array && !writer_ && !error_;
  }
  // Replaces the value; takes the reference. What it replaces is given back
  // when the caller says so: that may run anything.
  void store(PyObject* array, std::vector<Ref>& replaced);
  void store(PyObject* array);
  // Makes the storage this long: old elements stay, new ones are zeros.
  void resize(size_t bytes);
  size_t bytes() const { return bytes_; }
  // Others may look at the memory of the value: it is not to be reused.
  void share();
  bool is_shared() const { return shared_; }

  // New references to the values that exist on a device, of one stream or of
  // all.
  static std::vector<PyObject*> values(c10::DeviceIndex device,
                                       std::optional<c10::StreamId> stream);
  static std::mutex& mutex();
  // The box that lives at an address, or none. Slow.
  static Box* at(const void* address);

 private:
  friend class FusedTrace;

  // Forgets the traces that know this box. Called with the mutex.
  void unlink();

  const void* const address_;
  PyObject* value_ = nullptr;
  // The exception of the program that was to compute the value.
  PyObject* error_ = nullptr;
  size_t bytes_;
  c10::StreamId stream_ = 0;
  bool shared_ = false;
  // The trace that computes the value, and where in it.
  FusedTrace* writer_ = nullptr;
  uint32_t slot_ = 0;
  // The trace that has taken the value as an input, and as which.
  FusedTrace* reader_ = nullptr;
  uint32_t external_ = 0;
  Box* previous_ = nullptr;
  Box* next_ = nullptr;
};

// The box of a storage, or of a tensor's storage; raises for a tensor that has
// none.
Box& box_of(const c10::StorageImpl& storage);
Box& box_of(const c10::TensorImpl& tensor);

}  // namespace torch_google::tpu

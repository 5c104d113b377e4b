// SPDX-License-Identifier: Apache-2.0
// The contents of one storage: an immutable jax.Array, which every write
// replaces.
#pragma once

#include <Python.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "torch_google/tpu/csrc/arrival.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

using Sizes = c10::SmallVector<int64_t, 5>;

class FusedTrace;

// The reason for flushing a trace.
enum class Reason : int {
  host_read,
  sync,
  strict,  // an operator outside fused mode reads a value
  collective,
  optimizer_step,
  length,
  bytes,
  repetition,
  mesh,  // the next operator runs on a different mesh
};
constexpr size_t kReasons = 9;

// Identifies how an array is distributed over devices: an index into the table
// in shardings.py.
using Sharding = int32_t;
constexpr Sharding kOneDevice = 0;

// The contents of one storage. The GIL guards values and shapes.
// Pointers between boxes and traces are guarded by mutex() as well, because a
// box may be destroyed without the GIL.
class Box {
 public:
  Box(c10::DeviceIndex device, size_t bytes, const void* address);
  ~Box();
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  // The natural shape: the shape of the jax.Array that contains all elements of
  // the storage in order.
  Sizes shape;
  // Whether the array is flat and longer than the tensors need, so that the
  // same programs serve other sizes. See eager/padded_op.py.
  bool is_padded = false;
  // Counts the changes of `shape` and `dtype`.
  uint64_t layout_version = 0;
  // Undefined until the first tensor that uses the storage is created.
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  const c10::DeviceIndex device;

  // The sharding of the current value, which may not have been computed yet.
  Sharding sharding() const { return sharding_; }

  bool has_shape() const { return dtype != c10::ScalarType::Undefined; }
  // Derives `shape` and `dtype` from a tensor that uses this storage, unless
  // they are already set.
  void settle(const c10::TensorImpl& tensor);
  // torch copies a storage through a one-dimensional tensor of bytes, which
  // gives the new box the shape of that tensor. If the box has such a shape and
  // `tensor` covers the whole storage, adopts the shape and dtype of `tensor`,
  // so that operators on the copy use the same programs as on the original.
  void resettle(const c10::TensorImpl& tensor);
  // Returns a borrowed reference to the value. First runs the trace that
  // computes the value, or waits for the collective that does. A box that was
  // never written to contains zeros.
  PyObject* value(Reason reason);
  // Returns whether `array` is the current value, with no pending write or
  // error.
  bool holds(const PyObject* array) const {
    return value_ == array && !writer_ && !arrival_ && !error_;
  }
  // Replaces the value and steals the reference. Moves the replaced objects to
  // `replaced`, so that the caller decides when to destroy them: their
  // destructors may run arbitrary code.
  void store(PyObject* array, std::vector<Ref>& replaced,
             Sharding sharding = kOneDevice);
  void store(PyObject* array, Sharding sharding = kOneDevice);
  // Replaces the value and its shape, dtype and sharding. The new array must
  // contain the same bytes in the same order. `array` may be null only if the
  // box was never written to. Its array of zeros, which is created on first
  // use, then gets this sharding.
  void reshard(PyObject* array, Sizes sizes, c10::ScalarType kind,
               Sharding sharding);
  // Takes the value out of the box and returns the owned reference. `arrival`
  // then delivers the next value as its output `output`. Does nothing and
  // returns null if there is no value, if a write is pending or has failed, if
  // code outside the runtime may use the value, or if the value has more than
  // `others` other owners.
  PyObject* take(std::shared_ptr<Arrival> arrival, size_t output = 0,
                 Py_ssize_t others = 0);
  // Sets the sharding of a box that was never written to.
  void set_blank_sharding(Sharding sharding) { sharding_ = sharding; }
  // Makes an output of a collective the next value of the box. If the box is
  // written to before that output is read, the output is dropped.
  // `replaced` is as in store().
  void expect(std::shared_ptr<Arrival> arrival, size_t output,
              std::vector<Ref>& replaced);
  void expect(std::shared_ptr<Arrival> arrival, size_t output);
  // Returns the arrival that delivers the value, or null.
  const std::shared_ptr<Arrival>& arrival() const { return arrival_; }
  size_t output() const { return output_; }
  // Returns whether the box reads as zeros because it was never written to.
  bool is_blank() const { return !value_ && !writer_ && !arrival_ && !error_; }
  // Resizes the storage. Keeps existing elements, and fills new ones with
  // zeros.
  void resize(size_t bytes);
  size_t bytes() const { return bytes_; }
  // Marks the value's buffer as visible to code outside the tpu device's
  // runtime, so that it is never donated.
  void share();
  bool is_shared() const { return shared_; }

  // Returns new references to the values on a device. With `stream`, returns
  // only those whose writes were issued while that stream was current.
  static std::vector<PyObject*> values(c10::DeviceIndex device,
                                       std::optional<c10::StreamId> stream);
  // Returns the collectives whose outputs the boxes of a device have not
  // received yet.
  static std::vector<std::shared_ptr<Arrival>> arrivals(
      c10::DeviceIndex device);
  static std::mutex& mutex();
  // Returns the box at an address, or null. Takes time linear in the number of
  // boxes.
  static Box* at(const void* address);

 private:
  friend class FusedTrace;

  // Removes this box from the traces that refer to it, and drops the collective
  // that it waits for. The caller must hold mutex().
  // Returns the collective, which the caller must destroy without mutex():
  // that may need the GIL.
  std::shared_ptr<Arrival> unlink();
  // Waits for the collective, and stores its output or its error.
  void receive();

  const void* const address_;
  PyObject* value_ = nullptr;
  Sharding sharding_ = kOneDevice;
  // The sharding of value_. It may differ from sharding_ while a trace computes
  // the next value.
  Sharding value_sharding_ = kOneDevice;
  // The exception raised by the program that should have computed the value.
  PyObject* error_ = nullptr;
  size_t bytes_;
  c10::StreamId stream_ = 0;
  bool shared_ = false;
  // The trace that computes the value, and the value's slot in that trace.
  FusedTrace* writer_ = nullptr;
  uint32_t slot_ = 0;
  // The collective that computes the value. While it is set, value_ is null.
  std::shared_ptr<Arrival> arrival_;
  size_t output_ = 0;
  // The trace that reads the value, and the value's index among the trace's
  // externals (inputs from outside the trace).
  FusedTrace* reader_ = nullptr;
  uint32_t external_ = 0;
  Box* previous_ = nullptr;
  Box* next_ = nullptr;
};

// Returns whether a jax.Array has no buffer, because a program overwrote it.
bool is_deleted(PyObject* array);
// Returns whether a jax.Array still has its buffer, or false if that cannot be
// determined. Does not throw.
bool is_intact(PyObject* array);

// Returns sizes as a Python tuple. The caller must hold the GIL.
Ref tuple_of(const Sizes& sizes);

// Returns the box of a storage or of a tensor's storage. Throws if the storage
// does not come from the tpu device's allocator.
Box& box_of(const c10::StorageImpl& storage);
Box& box_of(const c10::TensorImpl& tensor);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The content of one storage: an immutable jax.Array, which every write
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

// Why a trace is flushed.
enum class Reason : int {
  host_read,
  sync,
  strict,  // an operator outside of fused mode reads a value of the trace
  collective,
  optimizer_step,
  length,
  bytes,
  repetition,
  mesh,  // the next operator runs on the devices of another mesh
};
constexpr size_t kReasons = 9;

// Identifies how an array is distributed over devices: an index into the table
// in runtime/shardings.py.
using Sharding = int32_t;
constexpr Sharding kOneDevice = 0;

// Values and shapes are accessed under the GIL. Links between boxes and traces
// are guarded by mutex() as well, because a box may be destroyed without the
// GIL.
class Box {
 public:
  Box(c10::DeviceIndex device, size_t bytes, const void* address);
  ~Box();
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  // The shape of the array. Its elements are the storage's bytes in order, all
  // of them.
  Sizes shape;
  // Undefined until the first tensor is created over the storage.
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  const c10::DeviceIndex device;

  // The sharding of the content, which a pending program may still compute.
  Sharding sharding() const { return sharding_; }

  bool has_shape() const { return dtype != c10::ScalarType::Undefined; }
  // Sets the natural shape from a tensor over this storage, unless it is set
  // already.
  void settle(const c10::TensorImpl& tensor);
  // Changes the natural shape of a byte storage to that of a tensor that covers
  // all of it. torch creates byte storages when it copies a storage. The copy
  // then uses the same programs as the original tensor.
  void resettle(const c10::TensorImpl& tensor);
  // Returns a borrowed reference. A box that was never written reads as zeros.
  // Runs the trace that computes the value, or waits for the thread that runs
  // it, or waits for a collective.
  PyObject* value(Reason reason);
  // Whether `array` is the current value and no write or error is pending.
  bool holds(const PyObject* array) const {
    return value_ == array && !writer_ && !arrival_ && !error_;
  }
  // Replaces the value and steals the reference. The replaced objects are moved
  // to `replaced`. Their destruction may run arbitrary code, so the caller
  // chooses the moment.
  void store(PyObject* array, std::vector<Ref>& replaced,
             Sharding sharding = kOneDevice);
  void store(PyObject* array, Sharding sharding = kOneDevice);
  // Replaces the value, its shape, dtype and sharding. The elements are the
  // same bytes in the same order. Without an array, an unwritten box gets the
  // sharding that its zeros will have.
  void reshard(PyObject* array, Sizes sizes, c10::ScalarType kind,
               Sharding sharding);
  // Sets the sharding of an unwritten box.
  void set_blank_sharding(Sharding sharding) { sharding_ = sharding; }
  // The next value is one output of a collective, over the whole storage. A
  // write before anybody has read it drops it.
  void expect(std::shared_ptr<Arrival> arrival, size_t output);
  // The collective that computes the value, with its output, or null.
  const std::shared_ptr<Arrival>& arrival() const { return arrival_; }
  size_t output() const { return output_; }
  // Whether the box reads as zeros because nothing was ever written.
  bool is_blank() const { return !value_ && !writer_ && !arrival_ && !error_; }
  // Resizes the storage. Existing elements stay; new ones are zeros.
  void resize(size_t bytes);
  size_t bytes() const { return bytes_; }
  // Marks the value's buffer as visible to code outside of the device, so that
  // it is never donated.
  void share();
  bool is_shared() const { return shared_; }

  // New references to the values on a device, for one stream or for all
  // streams.
  static std::vector<PyObject*> values(c10::DeviceIndex device,
                                       std::optional<c10::StreamId> stream);
  // The collectives that boxes of a device wait for.
  static std::vector<std::shared_ptr<Arrival>> arrivals(
      c10::DeviceIndex device);
  static std::mutex& mutex();
  // The box at an address, or null. Linear in the number of boxes.
  static Box* at(const void* address);

 private:
  friend class FusedTrace;

  // Removes this box from the traces that refer to it, and forgets the
  // collective that it waits for. Call with mutex() held.
  void unlink();
  // Waits for the collective, and takes its output or its error.
  void receive();

  const void* const address_;
  PyObject* value_ = nullptr;
  Sharding sharding_ = kOneDevice;
  // The sharding of value_. It differs from sharding_ if a trace computes the
  // next value.
  Sharding value_sharding_ = kOneDevice;
  // The exception of the program that failed to compute the value.
  PyObject* error_ = nullptr;
  size_t bytes_;
  c10::StreamId stream_ = 0;
  bool shared_ = false;
  // The trace that computes the value, and the slot of the value in it.
  FusedTrace* writer_ = nullptr;
  uint32_t slot_ = 0;
  // The collective that computes the value. There is no other value then.
  std::shared_ptr<Arrival> arrival_;
  size_t output_ = 0;
  // The trace that reads the value, and the index of the value among its
  // externals.
  FusedTrace* reader_ = nullptr;
  uint32_t external_ = 0;
  Box* previous_ = nullptr;
  Box* next_ = nullptr;
};

// The box of a storage, or of a tensor's storage. Throws if the storage was not
// allocated by this device.
Box& box_of(const c10::StorageImpl& storage);
Box& box_of(const c10::TensorImpl& tensor);

}  // namespace torch_google::tpu

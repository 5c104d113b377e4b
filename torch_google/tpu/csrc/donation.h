// SPDX-License-Identifier: Apache-2.0
// The arrays that a compiled graph donates to its program.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "torch_google/tpu/csrc/arrival.h"
#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

// Throws torch's error if a tensor is an inference tensor and inference mode is
// off. torch throws it only after the write.
void check_writable(const at::Tensor& tensor);

// While a program runs, the storages whose arrays it may overwrite have no
// value. Other threads that read them wait for the new values. Guarded by the
// GIL.
class Donation {
 public:
  // Takes arrays out of the storages of `tensors`. `indices` are the positions
  // of these tensors, and of their arrays in the list `arrays`. An array stays
  // in its storage, and its index is added to refused(), if anything but the
  // storage and the list refers to it, if code outside the runtime may use its
  // buffer, or if the storage has another value. Takes nothing if
  // check_writable() throws.
  Donation(PyObject* tensors, PyObject* arrays,
           const std::vector<size_t>& indices);
  // Unless finish() or fail() was called, fails with an error that says that
  // the program was interrupted.
  ~Donation();
  Donation(const Donation&) = delete;
  Donation& operator=(const Donation&) = delete;

  // The indices of the arrays that must be copied, because only the copies can
  // be donated.
  const std::vector<size_t>& refused() const { return refused_; }
  // Wakes the waiting threads. Call it after the new values have been stored.
  void finish();
  // Puts the arrays back into the storages that have no new values. A storage
  // whose array the program has overwritten gets the error. Same as finish() if
  // all storages have new values.
  void fail(PyObject* error);

 private:
  struct Item {
    at::Tensor tensor;
    Ref array;
  };

  std::shared_ptr<Arrival> arrival_;
  std::vector<Item> items_;
  std::vector<size_t> refused_;
};

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/donation.h"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <exception>
#include <utility>

namespace torch_google::tpu {

void check_writable(const at::Tensor& tensor) {
  if (tensor.is_inference() && !c10::InferenceMode::is_enabled()) {
    tensor.unsafeGetTensorImpl()->bump_version();
  }
}

Donation::Donation(PyObject* tensors, PyObject* arrays,
                   const std::vector<size_t>& indices)
    : arrival_(pending_write()) {
  // Check all tensors before taking any array. If a check failed after the
  // program ran, the other storages would have no values.
  for (const size_t index : indices) {
    const Ref object = Ref::checked(
        PySequence_GetItem(tensors, static_cast<Py_ssize_t>(index)));
    check_writable(THPVariable_Unpack(object.get()));
  }
  items_.reserve(indices.size());
  for (const size_t index : indices) {
    const auto position = static_cast<Py_ssize_t>(index);
    const Ref object = Ref::checked(PySequence_GetItem(tensors, position));
    const at::Tensor& tensor = THPVariable_Unpack(object.get());
    PyObject* array = PyList_GetItem(arrays, position);
    if (!array) {
      raise();
    }
    Box& box = box_of(*tensor.unsafeGetTensorImpl());
    Ref taken(box.holds(array) ? box.take(arrival_, items_.size(), 1)
                               : nullptr);
    if (taken.get()) {
      items_.push_back({tensor, std::move(taken)});
    } else {
      refused_.push_back(index);
    }
  }
}

Donation::~Donation() {
  if (items_.empty()) {
    return;
  }
  try {
    const Ref error = Ref::checked(PyObject_CallFunction(
        PyExc_RuntimeError, "s",
        "tpu: the program that writes to this tensor was interrupted"));
    fail(error.get());
  } catch (const std::exception&) {
    PyErr_Clear();
  }
}

void Donation::finish() {
  arrival_->deliver_arrays({});
  // Destroyed last, because destructors may run arbitrary code.
  const auto items = std::exchange(items_, {});
}

void Donation::fail(PyObject* error) {
  const auto items = std::exchange(items_, {});
  std::vector<Ref> replaced;
  std::vector<Box*> lost;
  bool wrote_all = true;
  for (const auto& [tensor, array] : items) {
    Box& box = box_of(*tensor.unsafeGetTensorImpl());
    if (box.arrival() != arrival_) {
      continue;
    }
    wrote_all = false;
    if (is_intact(array.get())) {
      box.store(Ref::borrow(array.get()).give(), replaced, box.sharding());
    } else {
      lost.push_back(&box);
    }
  }
  if (wrote_all) {
    arrival_->deliver_arrays({});
    return;
  }
  try {
    throw_again(without_trace(error).get());
  } catch (...) {
    arrival_->fail(std::current_exception());
  }
  for (Box* box : lost) {
    // Let the box store the error instead of the arrival, which must not be
    // destroyed under a lock.
    try {
      box->value(Reason::strict);
    } catch (const std::exception&) {
      PyErr_Clear();
    }
  }
}

}  // namespace torch_google::tpu

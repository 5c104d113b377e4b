// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/host_values.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace torch_google::tpu {

at::Tensor copied_elements(PyObject* array, c10::ScalarType dtype) {
  if (dtype == at::kBFloat16) {
    return at::Tensor();
  }
  Py_buffer buffer;
  if (PyObject_GetBuffer(array, &buffer, PyBUF_SIMPLE) != 0) {
    if (!PyErr_ExceptionMatches(PyExc_BufferError)) {
      raise();
    }
    PyErr_Clear();
    return at::Tensor();
  }
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> owner(
      &buffer, PyBuffer_Release);
  const auto bytes = static_cast<size_t>(buffer.len);
  at::Tensor values =
      at::empty({static_cast<int64_t>(bytes / c10::elementSize(dtype))},
                at::TensorOptions(dtype));
  std::memcpy(values.mutable_data_ptr(), buffer.buf, bytes);
  return values;
}

at::Tensor arrived_values(const Box& box) {
  const auto& arrival = box.arrival();
  return arrival ? arrival->storage_on_host(box.output()) : at::Tensor();
}

HostValues host_values(Box& box) {
  for (;;) {
    if (at::Tensor values = arrived_values(box); values.defined()) {
      return {std::move(values), box.arrival(), Ref()};
    }
    // Destroyed at the end: destroying an array may release the GIL, and then
    // another thread may write to the box.
    Ref array;
    Ref answer;
    at::Tensor values;
    if (box.is_blank()) {
      const int64_t count = std::accumulate(box.shape.begin(), box.shape.end(),
                                            int64_t{1}, std::multiplies<>());
      values = at::zeros({count}, at::TensorOptions(box.dtype));
    } else {
      array = Ref::borrow(box.value(Reason::strict));
      // Copy the values, because JAX owns the array's memory and may reuse it.
      values = copied_elements(array.get(), box.dtype);
      if (!values.defined()) {
        answer = Ref::checked(
            PyObject_CallFunction(callbacks().to_host, "O", array.get()));
        values = THPVariable_Unpack(answer.get()).clone();
      }
      if (!box.holds(array.get())) {
        continue;  // another thread has written to the box during the call
      }
      if (box.is_shared()) {
        return {std::move(values), nullptr, std::move(array)};
      }
    }
    auto arrival = arrived(values);
    box.expect(arrival, 0);
    return {std::move(values), std::move(arrival), Ref()};
  }
}

std::shared_ptr<Arrival> arrived(at::Tensor flat) {
  auto arrival = std::make_shared<Arrival>([] {});
  arrival->deliver({std::move(flat)});
  return arrival;
}

at::Tensor over(c10::Storage storage, const at::Tensor& like) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      like.sizes(), like.strides(), like.storage_offset());
  return tensor;
}

at::Tensor flat(const at::Tensor& values) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(values.storage()),
      c10::DispatchKeySet(c10::DispatchKey::CPU), values.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(
      {static_cast<int64_t>(values.storage().nbytes() / values.itemsize())});
  return tensor;
}

Sizes dense_shape(const at::Tensor& tensor) {
  Sizes natural(tensor.sizes());
  if (tensor.numel() != 0) {
    std::vector<size_t> order(static_cast<size_t>(tensor.dim()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return tensor.strides()[a] > tensor.strides()[b];
    });
    for (size_t i = 0; i < order.size(); ++i) {
      natural[i] = tensor.sizes()[order[i]];
    }
  }
  return natural;
}

}  // namespace torch_google::tpu

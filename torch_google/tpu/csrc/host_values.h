// SPDX-License-Identifier: Apache-2.0
// Storages of the device whose values are in host memory. CPU kernels read
// this memory directly, and their results become the values of new storages.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "torch_google/tpu/csrc/arrival.h"
#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

// Returns the flat host memory in which the values of a box (box.h) arrived, or
// an undefined tensor if they are elsewhere or have not arrived. The memory
// must not be written to.
at::Tensor arrived_values(const Box& box);

// Returns a flat copy of an array's elements, which it reads with Python's
// buffer protocol. That takes a tenth of the time of the Python function
// `to_host`. Returns an undefined tensor if the array does not support the
// protocol, or if its computation has failed. JAX supports it for arrays on one
// CPU device, except those of bfloat16 and other dtypes that NumPy lacks.
at::Tensor copied_elements(PyObject* array, c10::ScalarType dtype);

// The values of a box as flat host memory, which must not be written to. The
// box keeps them in `arrival`, or in `array` if `values` is a copy.
struct HostValues {
  at::Tensor values;
  std::shared_ptr<Arrival> arrival;
  Ref array;
};

// Returns the values of a box. The box keeps its values in the returned memory
// until a program needs them, unless other code may use the memory of its
// array. The caller must hold the GIL.
HostValues host_values(Box& box);
// Returns a finished arrival that delivers a flat CPU tensor.
std::shared_ptr<Arrival> arrived(at::Tensor flat);
// Returns a CPU tensor over `storage` with the dtype, sizes, strides and offset
// of `like`.
at::Tensor over(c10::Storage storage, const at::Tensor& like);
// Returns the whole storage of a CPU tensor as a flat tensor.
at::Tensor flat(const at::Tensor& values);
// Returns the natural shape (see box.h) of a tensor whose elements are dense:
// its sizes, in the order in which its dimensions are laid out.
Sizes dense_shape(const at::Tensor& tensor);

}  // namespace torch_google::tpu

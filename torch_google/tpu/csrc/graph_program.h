// SPDX-License-Identifier: Apache-2.0
// The program of a compiled graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/donation.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

class GraphProgram {
 public:
  // `executable` is a jax.stages.Compiled that returns a tuple of arrays.
  explicit GraphProgram(PyObject* executable)
      : executable_(Ref::borrow(executable)) {}

  // Calls the program, and stores result i in the storage of tensors[i], unless
  // that is empty. Then finishes `donation`, unless that is null. Returns all
  // results. `inputs` is a list. `shardings` is empty if every array is on a
  // single device.
  //
  // No signal handler runs between the call and the last store. Otherwise, an
  // exception such as KeyboardInterrupt would lose the new values after the
  // program has overwritten the old ones, or would store only some of them. But
  // if the program calls Python functions, a signal handler may run in them.
  Ref run(PyObject* inputs,
          const std::vector<std::optional<at::Tensor>>& tensors,
          const std::vector<Sharding>& shardings, Donation* donation);

 private:
  Ref call(PyObject* inputs);

  const Ref executable_;
  // The function to call: one that runs no Python code after its first call, if
  // JAX has such a function. Null before the first call.
  Ref entry_;
  bool has_run_ = false;
};

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The program of a compiled graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

class GraphProgram {
 public:
  // `executable` is a jax.stages.Compiled that returns a tuple of arrays.
  explicit GraphProgram(PyObject* executable)
      : executable_(Ref::borrow(executable)) {}

  // Calls the program, and stores result i in the storage of tensors[i], unless
  // that is empty. Returns all results. `inputs` is a list. `shardings` is
  // empty if every array is on a single device.
  //
  // No signal handler runs between the call and the last store. Otherwise, an
  // exception such as KeyboardInterrupt would lose the new values after the
  // program has overwritten the old ones, or would store only some of them.
  Ref run(PyObject* inputs,
          const std::vector<std::optional<at::Tensor>>& tensors,
          const std::vector<Sharding>& shardings);

 private:
  Ref call(PyObject* inputs);

  const Ref executable_;
  // The function for all calls after the first. It runs no Python code, if JAX
  // has such a function. Null until then.
  Ref entry_;
};

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// A compiled program of one operator, and how Python makes one on a cache miss.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <vector>

#include "torch_google/tpu/csrc/key.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {

// One result of an operator: a new tensor, one of its arguments, or none.
struct Result {
  enum Kind { fresh, argument, undefined } kind;
  size_t position = 0;  // of the argument, among the tensors
  Sizes sizes;
  Sizes strides;
  Sizes natural;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};

class Program {
 public:
  // Reads what miss() returned: see runtime/miss.py, class Compiled.
  explicit Program(PyObject* compiled);

  // Runs on the values of a call that has this program's key; stores what it
  // wrote.
  std::vector<at::Tensor> run(const c10::FunctionSchema& schema,
                              const Call& call) const;

 private:
  Ref function_;
  std::vector<size_t>
      inputs_;  // whose values the function takes, among the tensors
  std::vector<size_t>
      written_;  // whose boxes get a new value: the function's first results
  std::vector<Result> results_;
  bool random_;
};

struct Miss {
  enum Outcome { compiled, done, again } outcome;
  std::unique_ptr<Program> program;
  Ref results;  // a list, where Python ran the operator itself
};

Miss build(const c10::OperatorHandle& handle,
           c10::ArrayRef<c10::IValue> arguments, const Call& call, bool lift);

void push_results(const c10::FunctionSchema& schema,
                  std::vector<at::Tensor> results, torch::jit::Stack& stack);
void push_python(const c10::OperatorHandle& handle, PyObject* results,
                 torch::jit::Stack& stack);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// A compiled program of one operator, and how Python makes one on a cache miss.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/key.h"
#include "torch_google/tpu/csrc/last_use.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {

using Results = c10::SmallVector<at::Tensor, 3>;

// One result of an operator: a new tensor, one of its arguments, or none.
struct Result {
  enum Kind { new_tensor, argument, undefined } kind;
  size_t position = 0;  // of the argument, among the tensors
  Sizes sizes;
  Sizes strides;
  Sizes natural;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};

// Reads what eager/normalized_call.py calls a result: a NewTensor, a position
// or None.
Result read_result(PyObject* object);

class Program : public LastUse {
 public:
  // Reads what miss() returned: see eager/compiled_op.py, class CompiledOp.
  explicit Program(PyObject* compiled);

  // Runs on the values of a call that has this program's key; stores what it
  // wrote. In debug mode it waits for all of it.
  Results run(const Call& call, bool debug) const;

  // The parts of run(), for who runs it later.
  Results results(const Call& call) const;
  // The boxes that the values are for, in their order.
  template <typename Function>
  void each_target(const Call& call, const Results& results,
                   Function function) const {
    for (const size_t position : written_) {
      function(box_of(*call.tensors[position]->unsafeGetTensorImpl()));
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].kind == Result::new_tensor) {
        function(box_of(*results[i].unsafeGetTensorImpl()));
      }
    }
  }
  // The values, as a tuple, for arguments behind one place that is left free.
  Ref call(c10::SmallVectorImpl<PyObject*>& arguments) const;
  // The seed and the offset of a call.
  std::pair<int64_t, int64_t> draw(const Call& call) const;

  // Known by this number to all traces of the process.
  uint32_t id() const { return id_; }
  const std::string& name() const { return name_; }
  // Whose values the function takes, among the tensors.
  c10::ArrayRef<size_t> inputs() const { return inputs_; }
  // The kinds of the numbers that follow, 'f' or 'i': with seed and offset.
  const std::string& numbers() const { return numbers_; }
  bool random() const { return random_; }
  PyObject* compiled() const { return compiled_.get(); }

 private:
  // Whether the storages that are written in part still hold what the function
  // was given: another thread may have written the rest of one meanwhile.
  bool is_up_to_date(const Call& call,
                     const c10::SmallVectorImpl<PyObject*>& arguments) const;

  // What runs it. The first to ask loads a program that the compile cache has.
  PyObject* function() const;

  const uint32_t id_;
  Ref compiled_;
  // None until it is loaded, then never another.
  mutable Ref function_;
  std::string name_;
  c10::SmallVector<size_t, 4> inputs_;
  // Whose boxes get a new value: the function's first results.
  c10::SmallVector<size_t, 4> written_;
  // Which of the inputs are written, too.
  c10::SmallVector<size_t, 4> updated_;
  c10::SmallVector<Result, 1> results_;
  std::string numbers_;
  bool random_;
};

struct Miss {
  enum Outcome { compiled, done, again } outcome;
  std::unique_ptr<Program> program;
  Ref results;  // a list, where Python ran the operator itself
};

Miss build(const c10::OperatorHandle& handle,
           c10::ArrayRef<c10::IValue> arguments, const Call& call,
           const SchemaInfo& schema_info, bool scalars_are_inputs);

void push_results(const c10::FunctionSchema& schema, Results results,
                  torch::jit::Stack& stack);
void push_python(const c10::OperatorHandle& handle, PyObject* results,
                 torch::jit::Stack& stack);

}  // namespace torch_google::tpu

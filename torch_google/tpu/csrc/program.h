// SPDX-License-Identifier: Apache-2.0
// Compiled programs for operator calls, and the cache misses that create them.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/key.h"
#include "torch_google/tpu/csrc/last_use.h"
#include "torch_google/tpu/csrc/partial_write.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {

using Results = c10::SmallVector<at::Tensor, 3>;

// Describes one result of an operator: a new tensor, an argument, or an
// undefined tensor.
struct Result {
  enum Kind { new_tensor, argument, undefined } kind;
  size_t position = 0;  // index of the argument among the tensor arguments
  Sizes sizes;
  Sizes strides;
  Sizes natural;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
};

// Parses a result from Python: a NewTensor (eager/normalized_call.py), the
// index of an argument, or None.
Result read_result(PyObject* object);

// Thrown if another thread has changed the shape of a storage since the call
// was described. Nothing has been stored.
struct LayoutChanged : std::exception {};

// The seed and the offset that a random program takes.
using Draw = std::array<int64_t, 2>;

class Program : public LastUse {
 public:
  // Parses a CompiledOp (eager/compiled_op.py), which Python's miss() returns.
  explicit Program(PyObject* compiled);

  // Runs the program for a call with a matching key, and stores the values of
  // the new tensors and of those that the operator writes to. In debug mode,
  // waits until all values have been computed. Throws LayoutChanged if another
  // thread has changed the shape of a storage; nothing has been stored then. A
  // random program sets `drawn`, unless an earlier attempt for the same call
  // has set it: the call draws once, however often it is repeated.
  Results run(const Call& call, bool debug, std::optional<Draw>& drawn) const;

  // The functions below are the steps of run(). Fused mode calls them
  // separately, because it runs the program later.
  Results results(const Call& call) const;
  // Calls `function` with the destination box (box.h) of each value that the
  // program returns, in order.
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
  // Appends the values of inputs_ and the scalars to `arguments`. `owned` keeps
  // them alive, because another thread may replace the value of a box (box.h)
  // while the program runs.
  void read(const Call& call, c10::SmallVectorImpl<PyObject*>& arguments,
            c10::SmallVectorImpl<Ref>& owned) const;
  // Runs the program and returns its values as a tuple. The vectorcall protocol
  // requires the caller to leave arguments[0] free.
  Ref call(c10::SmallVectorImpl<PyObject*>& arguments) const;
  // Draws a seed and an offset for a call.
  Draw draw(const Call& call) const;

  // An identifier that is unique within the process. Traces use it in their
  // keys.
  uint32_t id() const { return id_; }
  const std::string& name() const { return name_; }
  // Indices of the tensor arguments that are inputs of the function.
  c10::ArrayRef<size_t> inputs() const { return inputs_; }
  // The types of the scalar inputs, which are passed after the tensors: 'f' for
  // a float, 'i' for an integer. The seed and the offset are included.
  const std::string& numbers() const { return numbers_; }
  bool random() const { return random_; }
  // Whether the program pads its arrays, so that calls with other sizes share
  // its executable. Fused mode runs such a program alone, because a trace that
  // contains it would be compiled for one set of sizes.
  bool is_padded() const { return is_padded_; }
  // Whether the operator usually writes to few elements of its argument.
  bool writes_few() const { return writes_few_; }
  // Returns the sharding of an array that is replicated across this program's
  // mesh, or kOneDevice if the program runs on one device.
  Sharding mesh() const { return mesh_; }
  // Returns the sharding of the value that the program returns at index
  // `value`.
  Sharding sharding(size_t value) const {
    return mesh_ == kOneDevice ? kOneDevice : shardings_[value];
  }
  // Replaces each input that is on a single device with a copy that is
  // replicated across the mesh. `arguments` has the same format as in call().
  // `owned` keeps the copies alive.
  void replicate(c10::SmallVectorImpl<PyObject*>& arguments,
                 c10::SmallVectorImpl<Ref>& owned) const;
  PyObject* compiled() const { return compiled_.get(); }

 private:
  // Returns whether the storages still have their shapes, and whether those
  // that the operator both reads and writes still contain the values that the
  // function read. Another thread may have changed one of them in the meantime.
  // `read` starts with the values of inputs_.
  bool is_up_to_date(const Call& call,
                     const c10::SmallVectorImpl<Ref>& read) const;

  // Returns the executable. Loads it from the compile cache on first use.
  PyObject* function() const;

  const uint32_t id_;
  Ref compiled_;
  // None until the executable is loaded; never changes after that.
  mutable Ref function_;
  std::string name_;
  c10::SmallVector<size_t, 4> inputs_;
  // Indices of the tensor arguments whose boxes (box.h) get new values. The
  // function returns these values first.
  c10::SmallVector<size_t, 4> written_;
  // Positions in inputs_ of the tensors that the operator also writes to.
  c10::SmallVector<size_t, 4> updated_;
  c10::SmallVector<Result, 1> results_;
  std::string numbers_;
  bool random_;
  bool writes_few_;
  bool is_padded_;
  Sharding mesh_ = kOneDevice;
  c10::SmallVector<Sharding, 2> shardings_;
  // Positions in inputs_ of the tensors that are on a single device and must be
  // replicated. Empty if the program runs on one device.
  c10::SmallVector<size_t, 4> on_one_device_;
  // Set if updating one storage is all that the program does.
  mutable std::optional<PartialWrite> partial_write_;
};

struct Miss {
  enum Outcome { compiled, done, again } outcome;
  std::unique_ptr<Program> program;
  Ref results;  // a list of results, if Python ran the operator
};

Miss build(const c10::OperatorHandle& handle,
           c10::ArrayRef<c10::IValue> arguments, const Call& call,
           const SchemaInfo& schema_info, bool scalars_are_inputs);

void push_results(const c10::FunctionSchema& schema, Results results,
                  torch::jit::Stack& stack);
void push_python(const c10::OperatorHandle& handle, PyObject* results,
                 torch::jit::Stack& stack);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// A graph of torch.compile that runs on torch's CPU kernels, on a platform
// whose buffers are host memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "torch_google/tpu/csrc/cpu_views.h"
#include "torch_google/tpu/csrc/small_kernels.h"

namespace torch_google::tpu {

// Interprets a graph without side effects. Each step is an operator, a view, a
// Python function of numbers, or the selection of an item of an earlier result.
// Values are in registers, the first of which hold the graph's arguments. A
// call moves no data: the kernels read the storages of the arguments, and the
// results become storages. All member functions need the GIL.
class CpuGraph {
 public:
  // compile/cpu_graph.py describes the format of the steps and operands. The
  // first outputs are the new values of the arguments `written`. The others are
  // the results. Raises RuntimeError if a constant does not fit its operator.
  CpuGraph(int64_t arguments, const pybind11::list& steps,
           const pybind11::list& outputs, std::vector<size_t> written,
           c10::DeviceIndex device);

  // Runs the graph. Returns None, and has written nothing, if the settings of
  // this thread or the layouts of the arguments need a program, or if a kernel
  // throws. In the first call, `expected` describes each output as (dtype,
  // sizes, strides): the strides may be None, and the whole item is None for a
  // number. If an output differs or a kernel throws, that call has written
  // nothing and returns the reason as a string.
  pybind11::object run(const pybind11::list& arguments,
                       const pybind11::object& expected) const;

 private:
  struct Operand {
    enum Kind { constant, value, integers, tensors, optional_tensors };
    Kind kind = constant;
    c10::IValue item;            // of a constant
    size_t index = 0;            // of a register
    bool is_last = false;        // whether this is the register's last use
    bool is_float = false;       // whether the operator expects a float
    bool is_tensor = false;      // whether it expects a tensor
    std::vector<Operand> items;  // of a list
  };
  struct Step {
    enum Kind { operation, view, function, selection };
    Kind kind = operation;
    std::optional<c10::OperatorHandle> handle;
    // The operator that overwrites its first operand with the result, if the
    // result may have the operand's memory.
    std::optional<c10::OperatorHandle> in_place;
    // The kernel that runs instead of the operator if the operands are small.
    std::optional<SmallKernel> small_kernel;
    View view_kind = View::alias;
    pybind11::object python;
    size_t position = 0;  // of the selected item
    std::vector<Operand> operands;
    size_t result = 0;
    bool is_used = false;
    // Whether all operands are constants or results of such steps.
    bool is_constant = false;
  };
  using Registers = std::vector<c10::IValue>;

  // Sets the operator that a step runs, and its operands.
  static void set_operation(Step& step, const std::string& name,
                            const std::string& overload, bool overwrites,
                            const pybind11::list& operands);
  static Operand operand(const pybind11::handle& description,
                         const c10::TypePtr& type, std::optional<int32_t> size);
  static Operand plain_operand(const pybind11::handle& description);
  static void find_last_uses(Operand& operand, std::vector<Operand*>& last);
  void find_used_and_constant_steps();
  static c10::IValue take(const Operand& operand, Registers& registers);
  // Runs a step, unless its result is already known.
  void execute(const Step& step, Registers& registers) const;
  static c10::IValue compute(const Step& step, Registers& registers);
  static std::optional<at::Tensor> run_step_with_small_kernel(
      const Step& step, Registers& registers);
  static bool matches(const std::vector<c10::IValue>& outputs,
                      const pybind11::list& expected);
  std::vector<at::Tensor> create_results(
      const std::vector<c10::IValue>& outputs,
      const std::vector<at::Tensor>& arguments) const;

  size_t arguments_;
  size_t registers_;
  std::vector<Step> steps_;
  std::vector<Operand> outputs_;
  std::vector<size_t> written_;
  c10::DeviceIndex device_;
  // The results of constant steps, by step. None for steps that have not run
  // or whose results are too large to keep.
  mutable std::vector<c10::IValue> constants_;
};

// Defines the Python class CpuGraph.
void define_cpu_graph(pybind11::module_& module);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// Runs operators with torch's CPU kernels on platforms whose buffers are host
// memory, so that calls with new sizes need no compilation.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <unordered_map>

#include "torch_google/tpu/csrc/host_call.h"
#include "torch_google/tpu/csrc/key.h"

namespace torch_google::tpu {

// Which calls use CPU kernels in strict and fused mode. Graphs of torch.compile
// may use CPU kernels unless this is `never`.
enum class CpuKernelUse {
  never,
  // Calls without a program, until they recur and get one; see
  // CompileRecurring.
  until_recurring,
  // In strict mode all calls that a kernel can run, even if they have a
  // program; in fused mode as with `until_recurring`.
  always,
};

// Python sets this when it initializes PJRT, and when the user calls
// set_cpu_kernels or set_size_buckets.
CpuKernelUse cpu_kernel_use();
void set_cpu_kernel_use(CpuKernelUse use);
// Returns whether CPU kernels are enabled.
bool uses_cpu_kernels();

// Sets the Python function that decides which calls may use CPU kernels; see
// eager/cpu_kernels.py. The function takes the same arguments as miss(). If the
// call may use its CPU kernel, it returns a pair: the expected results, and an
// InPlace. Otherwise, it returns an Admission.
void set_cpu_kernel_policy(PyObject* admit);

// Ends the current round and starts the next one. A round usually lasts until
// the host reads a value, because a read usually follows a training step or the
// generation of a token. A call recurs if it has occurred in enough rounds.
void end_round();

// Notes that the current round has a new call: an operator call that has not
// occurred before, or a graph that runs on CPU kernels.
void note_new_call();

// The number of the current round. eager/size_patterns.py counts rounds as
// well.
uint64_t round_number();

// The number of operator calls that ran on CPU kernels.
uint64_t cpu_kernel_calls();
void reset_cpu_kernel_calls();

// When a call that recurs gets a program.
enum class CompileRecurring {
  never,
  // Once the last kStableRounds rounds had no new call. While sizes keep
  // changing, calls with new sizes run on kernels. If recurring calls ran as
  // programs, their results would have to be copied for those kernels, which is
  // slower.
  in_stable_rounds,
  at_once,
};

// For one operator, runs the calls that are allowed to use CPU kernels. The
// caller must hold the GIL.
class CpuKernels {
 public:
  enum Outcome {
    done,     // the results replaced the arguments on the stack
    again,    // numbers became inputs, or constants: describe the call again
    compile,  // the call needs a program
  };

  // Runs the call with a CPU kernel if the policy allows it. If the kernel
  // throws, nothing has been written, and the result is `compile`: the caller
  // then compiles a program, or Python raises the error. Also returns `compile`
  // for a call that recurs, if `compile_recurring` permits that now.
  Outcome run(const c10::OperatorHandle& handle, const SchemaInfo& schema_info,
              torch::jit::Stack& stack, const Call& call,
              bool scalars_are_inputs, CompileRecurring compile_recurring);

 private:
  // A kind: all calls whose keys differ only in sizes.
  struct Kind {
    bool allowed = false;
    bool is_checked = false;  // whether a result had the expected layout
    InPlace in_place = InPlace::never;
    size_t sizes = 0;  // the number of different keys
  };
  struct Recurrence {
    uint64_t round = 0;
    uint32_t rounds = 0;
  };

  // Counts the call, and returns whether it has occurred in enough rounds.
  bool recurs(const Call& call, Kind& kind);

  std::unordered_map<Key, Kind, KeyHash> kinds_;
  std::unordered_map<Key, Recurrence, KeyHash> recurrences_;
};

// The arguments of miss() for a call: the operator, the argument values, and
// the storages of the tensors. See miss.cpp.
struct PythonCall {
  pybind11::object op;
  pybind11::list values;
  pybind11::list bases;
};
PythonCall python_call(const c10::OperatorHandle& handle,
                       c10::ArrayRef<c10::IValue> arguments, const Call& call,
                       const SchemaInfo& schema_info, bool scalars_are_inputs);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The key of an operator call in the program cache, and the inputs that the
// call passes to its program.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <variant>
#include <vector>

namespace torch_google::tpu {

using Key = std::vector<int64_t>;

struct KeyHash {
  size_t operator()(const Key& key) const;
};

// A Python number that is an input of the program.
using Number = std::variant<double, int64_t>;

// Whether an operator accepts the call's numbers: the parameters of a
// distribution, or a fill value that the dtype can represent.
struct Call;
using Admits = bool (*)(const Call& call, c10::ArrayRef<c10::IValue> arguments);

// The parts of a schema that describe() needs, computed once.
struct SchemaInfo {
  explicit SchemaInfo(const c10::FunctionSchema& schema);

  // The schema this was computed from. An operator may be redefined, so the
  // recorder compares it.
  const c10::FunctionSchema* schema;
  // For each argument, whether a number of that type may be an input of the
  // program.
  struct Argument {
    bool doubles = false;
    bool integers = false;
  };
  c10::SmallVector<Argument, 8> arguments;
  bool writes = false;
  // Rejected arguments get a distinct key, so they always miss the cache and
  // Python raises the error. Null if any number is accepted.
  Admits admits = nullptr;

  bool is_number(size_t argument, const c10::IValue& value,
                 bool scalars_are_inputs) const {
    return scalars_are_inputs &&
           ((value.isDouble() && arguments[argument].doubles) ||
            (value.isInt() && arguments[argument].integers));
  }
};

struct Call {
  Key key;
  // The device tensors, in the order of the arguments.
  c10::SmallVector<const at::Tensor*, 8> tensors;
  // The numbers that are inputs and so not part of the key, in the order of the
  // arguments.
  c10::SmallVector<Number, 4> numbers;
  c10::DeviceIndex device = -1;
  at::Generator generator;

  void clear();
};

// Fills `call` from the operator's arguments on the stack. Throws if tensors
// are on several devices. `precision` is the precision of matrix products, 0
// for the platform's default. The key includes it, and torch's default dtype if
// that is not float32.
void describe(const SchemaInfo& schema_info,
              c10::ArrayRef<c10::IValue> arguments, bool scalars_are_inputs,
              int precision, Call& call);

// Whether describe() makes a CPU scalar tensor an input instead of a part of
// the key.
bool is_number(const at::Tensor& tensor, bool scalars_are_inputs);

}  // namespace torch_google::tpu

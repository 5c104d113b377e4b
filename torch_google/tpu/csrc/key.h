// SPDX-License-Identifier: Apache-2.0
// Computes the cache key of an operator call, and collects the inputs that the
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

// A Python number that is passed to the program as an input.
using Number = std::variant<double, int64_t>;

// Returns whether an operator accepts a call's scalar arguments: a
// distribution's parameters must be in range, and the dtype must be able to
// represent a fill value.
struct Call;
using Admits = bool (*)(const Call& call, c10::ArrayRef<c10::IValue> arguments);

// The parts of a schema that describe() needs, computed once.
struct SchemaInfo {
  explicit SchemaInfo(const c10::FunctionSchema& schema);

  // The schema that these fields describe. The recorder compares it with the
  // operator's current one, because an operator may be redefined.
  const c10::FunctionSchema* schema;
  // Whether a Python float or integer passed for an argument may be a program
  // input.
  struct Argument {
    bool doubles = false;
    bool integers = false;
  };
  c10::SmallVector<Argument, 8> arguments;
  bool writes = false;
  // If this function returns false, the call gets a distinct key. It then
  // always misses the cache, and Python raises the error. Null if the operator
  // accepts all scalars.
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
  // The numbers that are program inputs and therefore not in the key, in the
  // order of the arguments.
  c10::SmallVector<Number, 4> numbers;
  c10::DeviceIndex device = -1;
  at::Generator generator;
  // The sum of the tensors' Box::layout_version when the key was computed.
  uint64_t layout_version = 0;

  void clear();
  // Returns whether the storages still have the shapes that are in the key.
  // Another thread may have lengthened one of them.
  bool is_current() const;
};

// Fills `call` from an operator's arguments. Throws if the tensors are on
// several devices. `precision` is the precision of matmuls, or 0 for the
// platform's default. The key includes the precision, and also torch's default
// dtype unless that is float32.
void describe(const SchemaInfo& schema_info,
              c10::ArrayRef<c10::IValue> arguments, bool scalars_are_inputs,
              int precision, Call& call);

// Returns whether describe() treats a CPU scalar tensor as a program input
// instead of putting its value into the key.
bool is_number(const at::Tensor& tensor, bool scalars_are_inputs);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// What tells two calls of an operator apart, and what a call hands to its
// program.
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

// Whether an operator takes such numbers: of a distribution its parameters, of
// what fills with a number one that the dtype has.
struct Call;
using Admits = bool (*)(const Call& call, c10::ArrayRef<c10::IValue> arguments);

// What a schema says of a call's description, worked out once.
struct SchemaInfo {
  explicit SchemaInfo(const c10::FunctionSchema& schema);

  // Whose this is: an operator may be defined anew.
  const c10::FunctionSchema* schema;
  // Whether numbers may be inputs of the program, for each argument.
  struct Argument {
    bool doubles = false;
    bool integers = false;
  };
  c10::SmallVector<Argument, 8> arguments;
  bool writes = false;
  // What is not admitted has a key of its own: nobody has a program for it, and
  // who is asked for one refuses. Null where any number will do.
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
  // The tensors of the device, in the order of the arguments.
  c10::SmallVector<const at::Tensor*, 8> tensors;
  // The numbers that are no part of the key, in the order of the arguments.
  c10::SmallVector<Number, 4> numbers;
  c10::DeviceIndex device = -1;
  at::Generator generator;

  void clear();
};

// Fills a call from the operator's arguments on the stack. Tensors on several
// devices raise. `precision` is of products, where it is not the platform's;
// the key has it, and torch's default dtype, where that is not float32.
void describe(const SchemaInfo& schema_info,
              c10::ArrayRef<c10::IValue> arguments, bool scalars_are_inputs,
              int precision, Call& call);

// Whether describe() takes a tensor that is a wrapped Python number out of the
// key.
bool is_number(const at::Tensor& tensor, bool scalars_are_inputs);

}  // namespace torch_google::tpu

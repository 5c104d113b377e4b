// SPDX-License-Identifier: Apache-2.0
// Looks up an operator's special treatment in a table that operator_policy.py
// generates. That file documents each property.
#pragma once

#include <cstdint>
#include <string_view>

namespace torch_google::tpu {

// A condition on the numbers that a call passes.
enum class NumberCheck : uint8_t {
  none,
  ascending,
  not_negative,
  positive,
  probability,
  open_probability,
  fits_tensor,
  fits_dtype,
};

struct OperatorPolicy {
  // The operator's name with its namespace, but without its overload.
  std::string_view name;
  bool crosses_devices = false;
  bool takes_indices = false;
  NumberCheck numbers = NumberCheck::none;
};

// Returns the policy of the operator with this name. The name may include an
// overload. The lookup is a string search, so call this once per operator, not
// on every call.
const OperatorPolicy& policy_of(std::string_view name);

// Returns whether the key includes the value of an integer argument with this
// name.
bool is_keyed_integer(std::string_view argument);

}  // namespace torch_google::tpu

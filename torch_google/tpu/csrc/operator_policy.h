// SPDX-License-Identifier: Apache-2.0
// Looks up the special treatment of an operator. operator_policy.py is the
// source of the table, and documents each property.
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

// Returns the policy of an operator by its name, with or without an overload.
// A search of strings: call it once per operator, not per call.
const OperatorPolicy& policy_of(std::string_view name);

// Whether integers stay in the key if the scalar argument has this name.
bool is_keyed_integer(std::string_view argument);

}  // namespace torch_google::tpu

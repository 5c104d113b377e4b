// SPDX-License-Identifier: Apache-2.0
// The treatment of operators by name. operator_policy.py has the table, and the
// meaning and reason of each row.
#pragma once

#include <cstdint>
#include <string_view>

namespace torch_google::tpu {

// Conditions on the numbers of a call.
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
  // With its namespace, without an overload.
  std::string_view name;
  bool crosses_devices = false;
  bool takes_indices = false;
  NumberCheck numbers = NumberCheck::none;
};

// Returns the policy of an operator by its name, with or without an overload.
// A search of strings: call it once per operator, not per call.
const OperatorPolicy& policy_of(std::string_view name);

// Whether integers of a scalar argument stay in the key.
bool is_keyed_integer(std::string_view argument);

}  // namespace torch_google::tpu

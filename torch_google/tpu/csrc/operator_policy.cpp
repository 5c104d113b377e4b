// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/operator_policy.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace torch_google::tpu {
namespace {

#include "torch_google/tpu/csrc/operator_policy_table.inc"

static_assert(std::ranges::adjacent_find(kPolicies,
                                         std::ranges::greater_equal{},
                                         &OperatorPolicy::name) ==
                  std::end(kPolicies),
              "sorted and without duplicates");

}  // namespace

const OperatorPolicy& policy_of(std::string_view name) {
  static constexpr OperatorPolicy kNone;
  name = name.substr(0, name.find('.'));
  const auto* policy =
      std::ranges::lower_bound(kPolicies, name, {}, &OperatorPolicy::name);
  return policy != std::end(kPolicies) && policy->name == name ? *policy
                                                               : kNone;
}

bool is_keyed_integer(std::string_view argument) {
  return std::ranges::find(kKeyedIntegers, argument) !=
         std::end(kKeyedIntegers);
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The kernel of every operator: a cache of compiled programs, keyed by the
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace torch_google::tpu {

// Registers the recorder for operators by name. A backend fallback is not
// enough, because torch's own kernels for structured operators take precedence
// over it and silently lose results. Idempotent per name.
void record_operators(const std::vector<std::string>& names);

// Sets whether an operator's scalar arguments are inputs of its programs or
// part of their keys.
void set_scalars_are_inputs(const std::string& name, bool scalars_are_inputs);

struct Counts {
  uint64_t operators;
  uint64_t hits;
  uint64_t misses;
  uint64_t forgotten;
};
Counts counts();
void reset_counts();
// Evicts the least recently used half of all programs. Returns how many were
// evicted.
size_t forget_unused();
// Evicts all programs.
void clear_programs();

}  // namespace torch_google::tpu

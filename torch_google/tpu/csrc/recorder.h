// SPDX-License-Identifier: Apache-2.0
// The kernel for every operator. It looks up a call's compiled program in a
// cache, and runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace torch_google::tpu {

// Registers the recorder as the kernel of these operators. A backend fallback
// is not enough: torch's own kernels for structured operators take precedence
// over a fallback, and silently lose results. Registering a name twice has no
// effect.
void record_operators(const std::vector<std::string>& names);

// Sets whether an operator's scalar arguments are inputs of its programs
// instead of parts of their keys.
void set_scalars_are_inputs(const std::string& name, bool scalars_are_inputs);

struct Counts {
  uint64_t operators;
  uint64_t hits;
  uint64_t misses;
  uint64_t forgotten;
};
Counts counts();
void reset_counts();
// Evicts the least recently used half of all programs. Returns the number of
// evicted programs.
size_t forget_unused();
// Evicts all programs and forgets which calls recur. For tests: operators then
// run as in a new process.
void clear_programs();

}  // namespace torch_google::tpu

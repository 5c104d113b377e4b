// SPDX-License-Identifier: Apache-2.0
// Every operator of the device: a compiled program for each way in which it is
// called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace torch_google::tpu {

// Registers the recorder for operators by name. A backend fallback alone would
// not do: the kernels that torch makes for structured operators win over it,
// and lose results in silence. A name that is registered already is left alone.
void record_operators(const std::vector<std::string>& names);

// Whether numbers among an operator's arguments are inputs of its programs, or
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
// Forgets the half of all programs that was not of use for the longest time,
// and says how many these are.
size_t forget_unused();
// Forgets all programs.
void clear_programs();

}  // namespace torch_google::tpu

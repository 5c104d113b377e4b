// SPDX-License-Identifier: Apache-2.0
// Runs a trace, as one fused program or operator by operator.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "torch_google/tpu/csrc/last_use.h"
#include "torch_google/tpu/csrc/trace.h"

namespace torch_google::tpu {

// Runs a trace that is no longer being recorded. Afterwards, each box (box.h)
// that waited for the trace contains its value or its error. Throws an error if
// a program fails.
void run(FusedTrace& trace, Reason reason);

// Sets the executable of a fused program that was compiled in the background.
// None means that the compilation failed; the program's traces then run
// operator by operator.
void resolve_fused(uint64_t token, PyObject* executable);
// Appends the time of each fused program's last use to `uses`.
void collect_fused_uses(std::vector<uint64_t>& uses);
// Moves the programs that were last used before `since` to `forgotten`. The
// caller must destroy them when no map is in use.
void forget_fused(uint64_t since,
                  std::vector<std::shared_ptr<const LastUse>>& forgotten);
// Evicts all fused programs.
void clear_fused();

struct FusedCounts {
  uint64_t hits;
  uint64_t misses;
  // The number of traces that ran operator by operator because their program
  // was still being compiled.
  uint64_t served;
  std::array<uint64_t, kReasons> flushes;
};
FusedCounts fused_counts();
void reset_fused_counts();

}  // namespace torch_google::tpu

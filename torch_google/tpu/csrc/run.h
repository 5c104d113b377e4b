// SPDX-License-Identifier: Apache-2.0
// How a trace runs: as one fused program, or operator by operator.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "torch_google/tpu/csrc/last_use.h"
#include "torch_google/tpu/csrc/trace.h"

namespace torch_google::tpu {

// Runs a trace that no device records any longer: its boxes have their values
// then, or their errors. Raises what a program raised.
void run(FusedTrace& trace, Reason reason);

// The executable of a fused program whose compilation was put off, or None if
// it failed: its traces run operator by operator from then on.
void resolve_fused(uint64_t token, PyObject* executable);
// When each fused program was of use last, and forgetting those that were not
// since: they die when the caller says so.
void collect_fused_uses(std::vector<uint64_t>& uses);
void forget_fused(uint64_t since,
                  std::vector<std::shared_ptr<const LastUse>>& forgotten);
// Forgets all fused programs.
void clear_fused();

struct FusedCounts {
  uint64_t hits;
  uint64_t misses;
  // How often a trace ran operator by operator as its program was not there
  // yet.
  uint64_t served;
  std::array<uint64_t, kReasons> flushes;
};
FusedCounts fused_counts();
void reset_fused_counts();

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group must agree on before the data of a collective
// moves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "torch_google/tpu/csrc/collective.h"

namespace torch_google::tpu {

struct Agreement {
  // For error messages: operation, dtypes and shapes.
  std::string text;
  // Equal on all ranks.
  std::string common;
  // Bytes that this rank sends to each rank, and expects from each. Empty if
  // `common` settles it.
  std::vector<int64_t> sends;
  std::vector<int64_t> expects;
};

// Throws c10::Error (ValueError, TypeError) for arguments that no rank could
// accept. Values are not read, so the tensors may be on any device.
Agreement agreement_of(const Collective& collective, int rank, int size);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The properties that all ranks of a group must agree on before a collective
// moves any data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "torch_google/tpu/csrc/collective.h"

namespace torch_google::tpu {

struct Agreement {
  // The operation, dtypes and shapes, for error messages.
  std::string text;
  // A description that must be identical on all ranks.
  std::string common;
  // The number of bytes that this rank sends to each rank and expects from each
  // rank. Empty if equal `common` strings imply equal sizes.
  std::vector<int64_t> sends;
  std::vector<int64_t> expects;
};

// Describes this rank's arguments to a collective. Throws ValueError or
// TypeError if they are invalid regardless of the other ranks' arguments. Does
// not read values, so the tensors may be on any device.
Agreement agreement_of(const Collective& collective, int rank, int size);

}  // namespace torch_google::tpu

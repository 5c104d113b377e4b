// SPDX-License-Identifier: Apache-2.0
// A dependency of the deferred library. Its own constructors are not deferred.
#include "third_party/torch/source/tests/deferred/registers.h"

volatile int neighbours = 0;

namespace {

struct Neighbour {
  Neighbour() { neighbours = neighbours + 1; }
} neighbour;

}  // namespace

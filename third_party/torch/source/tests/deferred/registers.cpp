// SPDX-License-Identifier: Apache-2.0
// A library that does something as it loads.
#include "third_party/torch/source/tests/deferred/registers.h"

int registered = 0;

namespace {

struct Registration {
  Registration() { ++registered; }
} registration;

}  // namespace

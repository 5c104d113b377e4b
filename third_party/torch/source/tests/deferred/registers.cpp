// SPDX-License-Identifier: Apache-2.0
// A library with a static constructor.
#include "third_party/torch/source/tests/deferred/registers.h"

volatile int registered = 0;

namespace {

struct Registration {
  Registration() { registered = registered + 1; }
} registration;

}  // namespace

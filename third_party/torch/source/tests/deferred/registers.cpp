// SPDX-License-Identifier: Apache-2.0
// The library whose static constructor is deferred.
#include "third_party/torch/source/tests/deferred/registers.h"

volatile int registered = 0;

namespace {

struct Registration {
  Registration() { registered = registered + 1; }
} registration;

}  // namespace

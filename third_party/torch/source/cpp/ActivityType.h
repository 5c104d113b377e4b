// SPDX-License-Identifier: Apache-2.0
// What torch's profiler names of Kineto, which is not linked: kinds of events. Records of torch's own
// profiler carry these numbers, and they are Kineto's.

#pragma once

namespace libkineto {

enum class ActivityType {
  CPU_OP = 0,
  USER_ANNOTATION = 1,
  GPU_USER_ANNOTATION = 2,
  CPU_INSTANT_EVENT = 9,
  PYTHON_FUNCTION = 10,
};

}  // namespace libkineto

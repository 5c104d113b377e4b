// SPDX-License-Identifier: Apache-2.0
// The event kinds from Kineto that torch's profiler refers to; Kineto itself is
// not linked. The values equal Kineto's, because torch's own profiler records
// them.

#pragma once

namespace libkineto {

enum class ActivityType {
  CPU_OP,
  USER_ANNOTATION,
  GPU_USER_ANNOTATION,
  GPU_MEMCPY,
  GPU_MEMSET,
  CONCURRENT_KERNEL,
  EXTERNAL_CORRELATION,
  CUDA_RUNTIME,
  CUDA_DRIVER,
  CPU_INSTANT_EVENT,
  PYTHON_FUNCTION,
  OVERHEAD,
  MTIA_RUNTIME,
  MTIA_CCP_EVENTS,
  CUDA_SYNC,
  GLOW_RUNTIME,
  CUDA_PROFILER_RANGE,
  HPU_OP,
  XPU_RUNTIME,
  COLLECTIVE_COMM,
  MTIA_WORKLOADD,
  PRIVATEUSE1_RUNTIME,
  PRIVATEUSE1_DRIVER,
};

}  // namespace libkineto

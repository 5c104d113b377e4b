// SPDX-License-Identifier: Apache-2.0
// What torch v2.6 has not yet, under the names of later releases, for which the
// device is written. With those releases nothing here is compiled.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/version.h>

#define TORCH_GOOGLE_TORCH_2_6 \
  (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 6)

#if TORCH_GOOGLE_TORCH_2_6

#include <ATen/core/GeneratorForPrivateuseone.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <utility>

// Streams are asked for where nothing may be thrown.
#define TORCH_GOOGLE_STREAM_NOEXCEPT noexcept

namespace c10 {

namespace CachingAllocator = CachingDeviceAllocator;
using MempoolId_t = std::pair<unsigned long long, unsigned long long>;

// torch.accelerator does not ask it yet: torch.tpu does, by module.cpp.
struct DeviceAllocator : Allocator {
  virtual bool initialized() = 0;
  virtual void emptyCache(MempoolId_t pool) = 0;
  virtual void recordStream(const DataPtr& pointer, Stream stream) = 0;
  virtual CachingDeviceAllocator::DeviceStats getDeviceStats(
      DeviceIndex device) = 0;
  virtual std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) = 0;
  virtual void resetAccumulatedStats(DeviceIndex device) = 0;
  virtual void resetPeakStats(DeviceIndex device) = 0;
};

}  // namespace c10

namespace at {

struct HostStats {};

// The hooks name the allocator of the host's memory: there is no other way yet.
struct HostAllocator : c10::Allocator {
  virtual bool record_event(void* data, void* context, c10::Stream stream) = 0;
  virtual void empty_cache() = 0;
  virtual HostStats get_stats() = 0;
  virtual void reset_accumulated_stats() = 0;
  virtual void reset_peak_stats() = 0;
};

inline void setHostAllocator(c10::DeviceType, HostAllocator*) {}

}  // namespace at

namespace torch_google::tpu {

// It refuses them before anybody is called.
inline bool needs_unsigned(const c10::IValue&) { return false; }

}  // namespace torch_google::tpu

#else

#define TORCH_GOOGLE_STREAM_NOEXCEPT

namespace torch_google::tpu {

// Whether it is an integer that only an unsigned type has.
inline bool needs_unsigned(const c10::IValue& value) {
  return !value.isInt() && value.isUnsigned();
}

}  // namespace torch_google::tpu

#endif

// SPDX-License-Identifier: Apache-2.0
// Substitutes for functions that torch v2.6 lacks, under the names that later
// releases use. With later releases, none of the substitutes is compiled.
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
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <utility>

// torch v2.6 declares the functions that return streams as noexcept.
#define TORCH_GOOGLE_STREAM_NOEXCEPT noexcept

namespace c10 {

namespace CachingAllocator = CachingDeviceAllocator;
using MempoolId_t = std::pair<unsigned long long, unsigned long long>;

// torch v2.6 lacks this interface of torch.accelerator, but module.cpp needs it
// for torch.tpu.
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

// torch v2.6 finds the host memory allocator only through the hooks.
struct HostAllocator : c10::Allocator {
  virtual bool record_event(void* data, void* context, c10::Stream stream) = 0;
  virtual void empty_cache() = 0;
  virtual HostStats get_stats() = 0;
  virtual void reset_accumulated_stats() = 0;
  virtual void reset_peak_stats() = 0;
};

inline void setHostAllocator(c10::DeviceType, HostAllocator*) {}

}  // namespace at

namespace c10d {

// In torch v2.6, the names of the following class and function contain NCCL.
using PreMulSumSupplement = NCCLPreMulSumSupplement;
template <typename Factor>
ReduceOp makePreMulSum(const Factor& factor) {
  return makeNCCLPreMulSum(factor);
}

}  // namespace c10d

namespace torch_google::tpu {

// torch v2.6 rejects unsigned integers above the int64 range before it calls a
// kernel.
inline bool needs_unsigned(const c10::IValue&) { return false; }

}  // namespace torch_google::tpu

#else

#define TORCH_GOOGLE_STREAM_NOEXCEPT

namespace torch_google::tpu {

// Returns whether a value is an integer that only an unsigned type can
// represent.
inline bool needs_unsigned(const c10::IValue& value) {
  return !value.isInt() && value.isUnsigned();
}

}  // namespace torch_google::tpu

#endif

// SPDX-License-Identifier: Apache-2.0
// Storages of the device: addresses that nobody may follow, and statistics of
// their sizes.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <atomic>

#include "torch_google/tpu/csrc/guard.h"

namespace torch_google::tpu {

class Box;

class Allocator final : public c10::DeviceAllocator {
 public:
  static Allocator& get();

  c10::DataPtr allocate(size_t bytes) override;
  c10::DataPtr allocate_on(size_t bytes, c10::DeviceIndex device);
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  // The box behind an address of a storage, or none.
  static Box* box(const c10::DataPtr& pointer);
  void copy_data(void* target, const void* source,
                 std::size_t bytes) const override;

  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool) override {}
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex device) override;
  // Free and all bytes of a device.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;

  // Called by boxes as they come, go and change their size, with their mutex.
  void count(c10::DeviceIndex device, int64_t bytes, int64_t storages);

 private:
  struct Statistics {
    c10::CachingAllocator::Stat bytes;
    c10::CachingAllocator::Stat storages;
  };
  std::array<Statistics, kMostDevices> statistics_;
  std::atomic<uintptr_t> next_address_{uintptr_t{1} << 12};
};

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The tpu device's allocator. It returns fake addresses that must not be
// dereferenced, and keeps memory statistics.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <atomic>
#include <limits>
#include <string>

#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {

class Box;

class Allocator final : public c10::DeviceAllocator {
 public:
  static Allocator& get();

  c10::DataPtr allocate(size_t bytes) override;
  c10::DataPtr allocate_on(size_t bytes, c10::DeviceIndex device);
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  // Returns the box (box.h) of the storage with this data pointer, or null if
  // the pointer does not come from this allocator.
  static Box* box(const c10::DataPtr& pointer);
  void copy_data(void* target, const void* source,
                 std::size_t bytes) const override;

  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool) override {}
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex device) override;
  // Returns a device's free and total memory in bytes.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;

  // Sets the maximum total size of all storages on a device, in bytes. By
  // default, there is no limit.
  void set_limit(c10::DeviceIndex device, size_t bytes);
  size_t limit(c10::DeviceIndex device) const;
  // Returns the total size of live storages and the limit, formatted for an
  // error message.
  std::string usage(c10::DeviceIndex device);
  bool has_room(c10::DeviceIndex device, size_t bytes) const;
  // Throws c10::OutOfMemoryError unless `bytes` more bytes fit on the device.
  // The error message begins with `what`.
  void check_room(c10::DeviceIndex device, size_t bytes,
                  const std::string& what);

  // Updates the statistics. Boxes (box.h) call it when they are created,
  // destroyed or resized, with Box::mutex() held.
  void count(c10::DeviceIndex device, int64_t bytes, int64_t storages);
  // Like check_room(), but the caller must hold Box::mutex().
  void check_room_locked(c10::DeviceIndex device, size_t bytes,
                         const char* what) const;

 private:
  struct Statistics {
    c10::CachingAllocator::Stat bytes;
    c10::CachingAllocator::Stat storages;
    size_t limit = std::numeric_limits<size_t>::max();
  };
  std::string usage_locked(c10::DeviceIndex device) const;

  std::array<Statistics, kMaxDevices> statistics_;
  std::atomic<uintptr_t> next_address_{uintptr_t{1} << 12};
};

}  // namespace torch_google::tpu

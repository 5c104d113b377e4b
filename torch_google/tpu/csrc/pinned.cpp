// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/pinned.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CPUAllocator.h>

#include <map>
#include <mutex>

#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {
namespace {

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* block =
        new PinnedBlock{*this, c10::GetCPUAllocator()->allocate(bytes), bytes};
    void* data = block->memory.get();
    if (bytes) {
      std::lock_guard<std::mutex> lock(mutex_);
      ends_[data] = static_cast<char*>(data) + bytes;
    }
    return {data, block, &drop, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* target, const void* source,
                 std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

  bool has(const void* data) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto behind = ends_.upper_bound(data);
    return behind != ends_.begin() && data < (--behind)->second;
  }

  // Do not track events or cache freed memory, because a transfer has finished
  // copying when it returns.
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

 private:
  struct PinnedBlock {
    PinnedAllocator& owner;
    c10::DataPtr memory;
    size_t bytes;
  };

  static void drop(void* context) {
    std::unique_ptr<PinnedBlock> block(static_cast<PinnedBlock*>(context));
    if (block->bytes) {
      std::lock_guard<std::mutex> lock(block->owner.mutex_);
      block->owner.ends_.erase(block->memory.get());
    }
  }

  std::mutex mutex_;
  // Maps the start address of each block to its end address.
  std::map<const void*, const void*> ends_;
};

PinnedAllocator& instance() {
  // Never destroyed, because tensors owned by static variables may be destroyed
  // later.
  static auto* instance = new PinnedAllocator;
  return *instance;
}

}  // namespace

c10::Allocator* pinned_allocator() { return &instance(); }

bool is_pinned(const void* data) { return instance().has(data); }

void register_pinned_allocator() { at::setHostAllocator(kDevice, &instance()); }

}  // namespace torch_google::tpu

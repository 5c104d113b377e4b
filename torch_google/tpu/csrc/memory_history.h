// SPDX-License-Identifier: Apache-2.0
// Records which storages are allocated and freed, with the Python stack of each
// allocation. Off by default.
#pragma once

#include <Python.h>
#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

class MemoryHistory {
 public:
  struct Stack {
    // The code object and instruction offset of each frame, innermost frame
    // first.
    std::vector<std::pair<SharedObject, int>> frames;
    // The module_name() (origin.h) of the allocating thread at the time of the
    // allocation.
    std::string module;
  };
  using StackRef = std::shared_ptr<const Stack>;

  struct Event {
    bool allocates;
    c10::DeviceIndex device;
    const void* address;
    size_t bytes;
    int64_t microseconds;  // since the epoch
    StackRef stack;        // of the allocation
  };

  static MemoryHistory& get();

  // Discards earlier events and starts recording. Keeps the last `entries`
  // events, with at most `frames` frames each. If `entries` is 0, stops
  // recording.
  void start(size_t entries, size_t frames);
  bool is_recording() const { return recording_; }
  // Returns the events, oldest first.
  std::vector<Event> events() const;
  // Returns the allocations since start() that have not been freed, in
  // unspecified order.
  std::vector<Event> live() const;

  // Returns the stack of this thread, or null if recording is off. Do not call
  // it while holding Box::mutex(), because it creates Python objects. Without
  // the GIL, the stack has no frames.
  StackRef stack() const;

  // Boxes (box.h) call these functions with Box::mutex() held.
  void allocated(c10::DeviceIndex device, const void* address, size_t bytes,
                 StackRef stack);
  void freed(const void* address);

 private:
  void add(Event event);

  std::atomic<bool> recording_{false};
  std::atomic<size_t> max_frames_{0};
  size_t max_entries_ = 0;
  std::deque<Event> events_;
  std::unordered_map<const void*, Event> live_;
};

}  // namespace torch_google::tpu

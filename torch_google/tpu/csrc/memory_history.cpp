// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/memory_history.h"

#include <chrono>
#include <mutex>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/origin.h"

namespace torch_google::tpu {
namespace {

int64_t epoch_microseconds() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

}  // namespace

MemoryHistory& MemoryHistory::get() {
  // Never destroyed, because boxes (box.h) owned by static variables may be
  // destroyed later.
  static auto* instance = new MemoryHistory;
  return *instance;
}

void MemoryHistory::start(size_t entries, size_t frames) {
  // Declared before the lock, and thus destroyed after it is released, because
  // the events own Python objects.
  std::deque<Event> old_events;
  std::unordered_map<const void*, Event> old_live;
  std::lock_guard<std::mutex> lock(Box::mutex());
  old_events.swap(events_);
  old_live.swap(live_);
  max_entries_ = entries;
  max_frames_ = frames;
  recording_ = entries != 0;
}

std::vector<MemoryHistory::Event> MemoryHistory::events() const {
  std::lock_guard<std::mutex> lock(Box::mutex());
  return {events_.begin(), events_.end()};
}

std::vector<MemoryHistory::Event> MemoryHistory::live() const {
  std::vector<Event> found;
  std::lock_guard<std::mutex> lock(Box::mutex());
  for (const auto& [address, event] : live_) {
    found.push_back(event);
  }
  return found;
}

MemoryHistory::StackRef MemoryHistory::stack() const {
  if (!recording_) {
    return nullptr;
  }
  auto stack = std::make_shared<Stack>();
  stack->module = module_name();
  if (!PyGILState_Check()) {
    return stack;
  }
  const size_t most = max_frames_;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame && stack->frames.size() < most) {
    auto* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
    stack->frames.emplace_back(shared_object(code), PyFrame_GetLasti(frame));
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return stack;
}

void MemoryHistory::allocated(c10::DeviceIndex device, const void* address,
                              size_t bytes, StackRef stack) {
  if (!recording_) {
    return;
  }
  Event event{
      true, device, address, bytes, epoch_microseconds(), std::move(stack)};
  live_.insert_or_assign(address, event);
  add(std::move(event));
}

void MemoryHistory::freed(const void* address) {
  if (!recording_) {
    return;
  }
  // Storages that were allocated before start() are not in the map.
  const auto found = live_.find(address);
  if (found == live_.end()) {
    return;
  }
  Event event = std::move(found->second);
  live_.erase(found);
  event.allocates = false;
  event.microseconds = epoch_microseconds();
  add(std::move(event));
}

void MemoryHistory::add(Event event) {
  events_.push_back(std::move(event));
  if (events_.size() > max_entries_) {
    events_.pop_front();
  }
}

}  // namespace torch_google::tpu

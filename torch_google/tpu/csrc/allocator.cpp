// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/allocator.h"

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {
namespace {

constexpr size_t kAlignment = 512;
constexpr auto kAll =
    static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

void drop(void* box) { delete static_cast<Box*>(box); }

void change(c10::CachingAllocator::Stat& stat, int64_t by) {
  if (by > 0) {
    stat.increase(static_cast<size_t>(by));
  } else if (by < 0) {
    stat.decrease(static_cast<size_t>(-by));
  }
}

bool fits(size_t limit, int64_t live, size_t bytes) {
  const auto held = static_cast<size_t>(live);
  return bytes == 0 || (held <= limit && bytes <= limit - held);
}

}  // namespace

Allocator& Allocator::get() {
  // Never destroyed, because boxes (box.h) owned by static variables may be
  // destroyed later.
  static auto* instance = new Allocator;
  return *instance;
}

c10::DataPtr Allocator::allocate(size_t bytes) {
  return allocate_on(bytes, current_device());
}

c10::DataPtr Allocator::allocate_on(size_t bytes, c10::DeviceIndex device) {
  start();
  check_device(device);
  // Use distinct address ranges, so that torch's overlap checks see separate
  // storages.
  const size_t span = (bytes / kAlignment + 1) * kAlignment;
  auto* address = reinterpret_cast<void*>(next_address_.fetch_add(span));
  return {address, new Box(device, bytes, address), &drop,
          c10::Device(kDevice, device)};
}

Box* Allocator::box(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &drop
             ? static_cast<Box*>(pointer.get_context())
             : Box::at(pointer.get());
}

void Allocator::copy_data(void*, const void*, std::size_t) const {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              "tpu: storages of the device have no host "
                              "address. Copy tensors with copy_()");
}

bool Allocator::initialized() { return started(); }

c10::CachingDeviceAllocator::DeviceStats Allocator::getDeviceStats(
    c10::DeviceIndex device) {
  check_device(device);
  auto& of = statistics_[device];
  std::lock_guard<std::mutex> lock(Box::mutex());
  c10::CachingDeviceAllocator::DeviceStats result;
  for (auto* bytes : {&result.allocated_bytes, &result.active_bytes,
                      &result.reserved_bytes, &result.requested_bytes}) {
    (*bytes)[kAll] = of.bytes;
  }
  result.allocation[kAll] = of.storages;
  result.active[kAll] = of.storages;
  result.num_device_alloc = of.storages.allocated;
  result.num_device_free = of.storages.freed;
  return result;
}

std::pair<size_t, size_t> Allocator::getMemoryInfo(c10::DeviceIndex device) {
  check_device(device);
  Gil gil;
  const Ref info = Ref::checked(PyObject_CallFunction(
      callbacks().mem_get_info, "i", static_cast<int>(device)));
  size_t free = 0;
  size_t total = 0;
  if (!PyArg_ParseTuple(info.get(), "nn", &free, &total)) {
    raise();
  }
  return {free, total};
}

void Allocator::resetAccumulatedStats(c10::DeviceIndex device) {
  check_device(device);
  auto& of = statistics_[device];
  std::lock_guard<std::mutex> lock(Box::mutex());
  of.bytes.reset_accumulated();
  of.storages.reset_accumulated();
}

void Allocator::resetPeakStats(c10::DeviceIndex device) {
  check_device(device);
  auto& of = statistics_[device];
  std::lock_guard<std::mutex> lock(Box::mutex());
  of.bytes.reset_peak();
  of.storages.reset_peak();
}

void Allocator::set_limit(c10::DeviceIndex device, size_t bytes) {
  // Do not call check_device() here, because it may initialize PJRT.
  TORCH_CHECK_INDEX(device >= 0 && device < kMaxDevices,
                    "tpu: no device tpu:", static_cast<int>(device),
                    "; there are at most ", static_cast<int>(kMaxDevices));
  std::lock_guard<std::mutex> lock(Box::mutex());
  statistics_[device].limit = bytes;
}

size_t Allocator::limit(c10::DeviceIndex device) const {
  check_device(device);
  std::lock_guard<std::mutex> lock(Box::mutex());
  return statistics_[device].limit;
}

std::string Allocator::usage(c10::DeviceIndex device) {
  check_device(device);
  std::lock_guard<std::mutex> lock(Box::mutex());
  return usage_locked(device);
}

std::string Allocator::usage_locked(c10::DeviceIndex device) const {
  const auto& of = statistics_[device];
  std::string limit;
  if (of.limit != std::numeric_limits<size_t>::max()) {
    limit = c10::str(" of the ", of.limit, " that this process may use");
  }
  return c10::str("Live tensors of tpu:", static_cast<int>(device), " hold ",
                  of.bytes.current, " bytes", limit, "; free some");
}

void Allocator::check_room(c10::DeviceIndex device, size_t bytes,
                           const std::string& what) {
  check_device(device);
  std::lock_guard<std::mutex> lock(Box::mutex());
  check_room_locked(device, bytes, what.c_str());
}

void Allocator::check_room_locked(c10::DeviceIndex device, size_t bytes,
                                  const char* what) const {
  const auto& of = statistics_[device];
  TORCH_CHECK_WITH(OutOfMemoryError, fits(of.limit, of.bytes.current, bytes),
                   "tpu: ", what, " ran out of memory: it takes ", bytes,
                   " bytes. ", usage_locked(device));
}

bool Allocator::has_room(c10::DeviceIndex device, size_t bytes) const {
  std::lock_guard<std::mutex> lock(Box::mutex());
  const auto& of = statistics_[device];
  return fits(of.limit, of.bytes.current, bytes);
}

void Allocator::count(c10::DeviceIndex device, int64_t bytes,
                      int64_t storages) {
  auto& of = statistics_[device];
  change(of.bytes, bytes);
  change(of.storages, storages);
}

}  // namespace torch_google::tpu

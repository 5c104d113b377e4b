// SPDX-License-Identifier: Apache-2.0
// Measures the duration of DistributedDataParallel's steps for its logger.
// Without a timer for the device, the logger prints a warning in each program.
#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <optional>

namespace torch_google::tpu {
namespace {

// Measures host time when an event is recorded, like torch's timer for the CPU.
class ReducerTimer final : public c10d::Timer {
 public:
  explicit ReducerTimer(c10::Device) {}

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t difference = getTimeRef(end) - getTimeRef(start);
    // The time is negative if this iteration has not recorded the end event
    // yet.
    if (difference < 0) {
      return std::nullopt;
    }
    return difference;
  }
};

}  // namespace
}  // namespace torch_google::tpu

namespace c10d {

C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1,
                         torch_google::tpu::ReducerTimer);

}  // namespace c10d

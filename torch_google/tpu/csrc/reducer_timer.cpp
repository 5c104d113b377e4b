// SPDX-License-Identifier: Apache-2.0
// The timer that DistributedDataParallel's logger uses for steps on the tpu
// device. Without a timer, the logger prints a warning in every process.
#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <optional>

namespace torch_google::tpu {
namespace {

// Uses the host time at which each event is recorded, like torch's timer for
// the CPU.
class ReducerTimer final : public c10d::Timer {
 public:
  explicit ReducerTimer(c10::Device) {}

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t difference = getTimeRef(end) - getTimeRef(start);
    // The difference is negative if this iteration has not recorded its end
    // event yet.
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

// SPDX-License-Identifier: Apache-2.0
// Times of DistributedDataParallel's steps, for its logging data. Without a
// timer for the device, its logger warns in each program.
#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <optional>

namespace torch_google::tpu {
namespace {

// Like torch's timer for the CPU: the times at which the host records events.
class ReducerTimer final : public c10d::Timer {
 public:
  explicit ReducerTimer(c10::Device) {}

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t difference = getTimeRef(end) - getTimeRef(start);
    // An event that this iteration has not recorded yet has an old time.
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

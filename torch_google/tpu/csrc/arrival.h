// SPDX-License-Identifier: Apache-2.0
// Values that a thread of the host computes: the results of one collective.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace torch_google::tpu {

// How often a waiting thread looks for failures elsewhere, and for signals.
inline constexpr std::chrono::milliseconds kPollInterval{200};

// Boxes wait for an arrival, and read it when somebody needs their value. So no
// thread needs the GIL to deliver it. All functions are safe in any thread.
class Arrival {
 public:
  // `poll` runs about five times a second in each waiting thread, without the
  // GIL. It may end the arrival.
  explicit Arrival(std::function<void()> poll) : poll_(std::move(poll)) {}

  // Ends the arrival. Only the first call of the two has an effect; returns
  // whether this was it. `storages` are contiguous tensors on the CPU, in the
  // order of the collective's outputs.
  bool deliver(std::vector<at::Tensor> storages);
  bool fail(std::exception_ptr error);

  bool is_done() const;
  // Null while the arrival has not ended, or has ended well.
  std::exception_ptr error() const;
  // Waits for the end, without the GIL. Returns false if `timeout` passed
  // first; a zero timeout never does. Ctrl-C in the main thread throws
  // KeyboardInterrupt.
  bool wait(std::chrono::milliseconds timeout = {});
  // The storage of one output. Throws the error of a failed collective. Call
  // after the end.
  at::Tensor storage(size_t output) const;
  // Calls `callback` at the end, in the thread that ends it, or now if it has
  // ended.
  void on_end(std::function<void()> callback);

 private:
  bool end(std::vector<at::Tensor> storages, std::exception_ptr error);

  const std::function<void()> poll_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::vector<at::Tensor> storages_;
  std::exception_ptr error_;
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace torch_google::tpu

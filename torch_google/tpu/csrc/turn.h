// SPDX-License-Identifier: Apache-2.0
// The order in which the process groups of this process use the device.
#pragma once

#include <cstdint>

namespace torch_google::tpu {

// A position in this process's queue of collectives that run on the device. If
// programs span several processes, XLA requires all processes to start them in
// the same order. Each process group has its own thread, so the threads take
// turns, in the order in which the collectives were called.
class Turn {
 public:
  // Joins the end of the queue.
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Waits until all earlier collectives have left the queue.
  void wait() const;

 private:
  const uint64_t ticket_;
};

}  // namespace torch_google::tpu

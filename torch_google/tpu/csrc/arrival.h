// SPDX-License-Identifier: Apache-2.0
// The pending values of boxes (box.h): the results of one collective, which a
// background thread delivers, or of a program that overwrites its argument.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

// How often a waiting thread checks for failures of other ranks and for
// signals.
inline constexpr std::chrono::milliseconds kPollInterval{200};

// A box (box.h) keeps a pointer to an arrival, and reads the results only when
// the box's value is needed. Therefore the delivering thread does not need the
// GIL. All member functions are thread-safe.
class Arrival {
 public:
  // wait() calls `poll` about five times a second, without the GIL. `poll` may
  // call deliver() or fail().
  explicit Arrival(std::function<void()> poll) : poll_(std::move(poll)) {}

  // Completes the arrival with contiguous CPU tensors, in the order of the
  // collective's outputs. The first call to deliver(), deliver_arrays() or
  // fail() returns true. Later calls have no effect and return false.
  bool deliver(std::vector<at::Tensor> storages);
  // Completes the arrival with arrays on the device, in the order of the
  // collective's outputs.
  bool deliver_arrays(std::vector<SharedObject> arrays);
  bool fail(std::exception_ptr error);

  bool is_done() const;
  // Returns the error if the collective has failed, otherwise null.
  std::exception_ptr error() const;
  // Waits until is_done(), without the GIL. Returns false on timeout; a zero
  // timeout means to wait forever. Throws KeyboardInterrupt on Ctrl-C in the
  // main thread.
  bool wait(std::chrono::milliseconds timeout = {});
  // Returns the storage of one output. Throws the error if the collective
  // failed. Call it only if is_done().
  at::Tensor storage(size_t output) const;
  // Returns the storage of one output, or an undefined tensor if the outputs
  // have not arrived, have failed, or are arrays on the device.
  at::Tensor storage_on_host(size_t output) const;
  // Returns one output as a jax.Array, or null if the outputs are on the host.
  // Throws the error if the collective failed. Call it only if is_done().
  SharedObject array(size_t output) const;
  // Calls `callback` in the thread that completes the arrival, or immediately
  // if is_done().
  void on_end(std::function<void()> callback);

 private:
  bool end(std::vector<at::Tensor> storages, std::vector<SharedObject> arrays,
           std::exception_ptr error);

  const std::function<void()> poll_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::vector<at::Tensor> storages_;
  std::vector<SharedObject> arrays_;
  std::exception_ptr error_;
  std::vector<std::function<void()>> callbacks_;
};

// Returns an arrival that this thread will complete when it has written to a
// storage. wait() throws an error if this thread calls it, for example from a
// signal handler, because it would wait forever.
std::shared_ptr<Arrival> pending_write();

}  // namespace torch_google::tpu

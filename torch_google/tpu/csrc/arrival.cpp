// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/arrival.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {
namespace {

// Releases the GIL for the lifetime of the object, if this thread holds it.
class WithoutGil {
 public:
  WithoutGil() : saved_(PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (saved_) {
      PyEval_RestoreThread(saved_);
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* saved_;
};

// Runs Python's pending signal handlers. A no-op except in the main thread.
void check_signals() {
  Gil gil;
  if (PyErr_CheckSignals() != 0) {
    raise();
  }
}

}  // namespace

bool Arrival::deliver(std::vector<at::Tensor> storages) {
  return end(std::move(storages), {}, nullptr);
}

bool Arrival::deliver_arrays(std::vector<SharedObject> arrays) {
  return end({}, std::move(arrays), nullptr);
}

bool Arrival::fail(std::exception_ptr error) {
  return end({}, {}, std::move(error));
}

bool Arrival::end(std::vector<at::Tensor> storages,
                  std::vector<SharedObject> arrays, std::exception_ptr error) {
  std::vector<std::function<void()>> callbacks;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (done_) {
      return false;
    }
    storages_ = std::move(storages);
    arrays_ = std::move(arrays);
    error_ = std::move(error);
    done_ = true;
    callbacks.swap(callbacks_);
  }
  ended_.notify_all();
  for (const auto& callback : callbacks) {
    callback();
  }
  return true;
}

bool Arrival::is_done() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return done_;
}

std::exception_ptr Arrival::error() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

bool Arrival::wait(std::chrono::milliseconds timeout) {
  if (is_done()) {
    return true;
  }
  using Clock = std::chrono::steady_clock;
  const auto deadline = timeout.count() > 0
                            ? std::optional(Clock::now() + timeout)
                            : std::nullopt;
  for (;;) {
    {
      const WithoutGil released;
      auto until = Clock::now() + kPollInterval;
      if (deadline) {
        until = std::min(until, *deadline);
      }
      std::unique_lock<std::mutex> lock(mutex_);
      if (ended_.wait_until(lock, until, [&] { return done_; })) {
        return true;
      }
      lock.unlock();
      if (deadline && Clock::now() >= *deadline) {
        return is_done();
      }
      poll_();
    }
    check_signals();
  }
}

at::Tensor Arrival::storage(size_t output) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (error_) {
    std::rethrow_exception(error_);
  }
  return storages_.at(output);
}

at::Tensor Arrival::storage_on_host(size_t output) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!done_ || error_ || !arrays_.empty()) {
    return {};
  }
  return storages_.at(output);
}

SharedObject Arrival::array(size_t output) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (error_) {
    std::rethrow_exception(error_);
  }
  return arrays_.empty() ? nullptr : arrays_.at(output);
}

void Arrival::on_end(std::function<void()> callback) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!done_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

std::shared_ptr<Arrival> pending_write() {
  return std::make_shared<Arrival>([writer = std::this_thread::get_id()] {
    TORCH_CHECK(std::this_thread::get_id() != writer,
                "tpu: a tensor was read while an operator of the same thread "
                "was writing to it, as by a signal handler. Read it after the "
                "operator");
  });
}

}  // namespace torch_google::tpu

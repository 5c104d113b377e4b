// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/work.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "torch_google/tpu/csrc/guard.h"

namespace torch_google::tpu {
namespace {

using c10::ivalue::Future;

// A thread pool that starts another thread if no thread is idle, so that
// functions never block each other.
struct Threads {
  std::mutex mutex;
  std::condition_variable queued;
  std::deque<std::function<void()>> functions;
  size_t idle = 0;
};

Threads& threads() {
  // Never destroyed, because the pool's threads may outlive static variables.
  static auto* instance = new Threads;
  return *instance;
}

void serve() {
  constexpr std::chrono::seconds kIdleTimeout{10};
  auto& pool = threads();
  std::unique_lock<std::mutex> lock(pool.mutex);
  for (;;) {
    ++pool.idle;
    pool.queued.wait_for(lock, kIdleTimeout,
                         [&] { return !pool.functions.empty(); });
    --pool.idle;
    if (pool.functions.empty()) {
      return;
    }
    const auto function = std::move(pool.functions.front());
    pool.functions.pop_front();
    lock.unlock();
    function();
    lock.lock();
  }
}

c10::intrusive_ptr<Future> new_future(const std::vector<at::Tensor>& outputs) {
  std::vector<c10::Device> devices;
  for (const auto& output : outputs) {
    if (!output.device().is_cpu() &&
        std::find(devices.begin(), devices.end(), output.device()) ==
            devices.end()) {
      devices.push_back(output.device());
    }
  }
  return c10::make_intrusive<Future>(
      c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

void finish_future(const c10::intrusive_ptr<Future>& future,
                   const std::exception_ptr& error,
                   const std::vector<at::Tensor>& outputs) {
  if (error) {
    future->setErrorIfNeeded(error);
    return;
  }
  try {
    future->markCompleted(c10::IValue(outputs));
  } catch (const std::exception&) {
    future->setErrorIfNeeded(std::current_exception());
  }
}

}  // namespace

void run_apart(std::function<void()> function) {
  auto& pool = threads();
  bool is_short = false;
  {
    std::lock_guard<std::mutex> lock(pool.mutex);
    pool.functions.push_back(std::move(function));
    is_short = pool.functions.size() > pool.idle;
  }
  if (is_short) {
    std::thread(serve).detach();
  }
  pool.queued.notify_one();
}

CollectiveWork::CollectiveWork(int rank, c10d::OpType type, std::string text,
                               uint64_t sequence,
                               std::shared_ptr<Arrival> arrival,
                               std::vector<at::Tensor> outputs,
                               std::shared_ptr<int> source)
    : Work(rank, type),
      text_(std::move(text)),
      sequence_(sequence),
      arrival_(std::move(arrival)),
      outputs_(std::move(outputs)),
      source_(std::move(source)) {}

bool CollectiveWork::isCompleted() { return arrival_->is_done(); }

bool CollectiveWork::isSuccess() const {
  return arrival_->is_done() && !arrival_->error();
}

std::exception_ptr CollectiveWork::exception() const {
  return arrival_->error();
}

int CollectiveWork::sourceRank() const {
  TORCH_CHECK(source_, "tpu: torch.distributed: only recv has a source rank");
  return *source_;
}

std::vector<at::Tensor> CollectiveWork::result() { return outputs_; }

void CollectiveWork::synchronize() { wait(kNoTimeout); }

bool CollectiveWork::wait(std::chrono::milliseconds timeout) {
  if (!arrival_->wait(timeout)) {
    C10_THROW_ERROR(DistBackendError,
                    c10::str("tpu: torch.distributed: ", text_,
                             " has not ended within the timeout of wait(), ",
                             timeout.count(), " ms. It goes on"));
  }
  if (const auto error = arrival_->error()) {
    std::rethrow_exception(error);
  }
  return true;
}

void CollectiveWork::abort() {
  arrival_->fail(std::make_exception_ptr(c10::DistBackendError(
      {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
      "tpu: torch.distributed: " + text_ + " was aborted by Work.abort()")));
}

c10::intrusive_ptr<Future> CollectiveWork::getFuture() {
  std::lock_guard<std::mutex> lock(future_mutex_);
  if (!future_) {
    future_ = new_future(outputs_);
    // The future's callbacks may wait for other collectives, so they must not
    // run in the group's thread.
    arrival_->on_end([arrival = std::weak_ptr<Arrival>(arrival_),
                      future = future_, outputs = outputs_] {
      const auto held = arrival.lock();
      const auto error = held ? held->error() : nullptr;
      run_apart([=] { finish_future(future, error, outputs); });
    });
  }
  return future_;
}

uint64_t CollectiveWork::getSequencenumber() const { return sequence_; }

CoalescedWork::CoalescedWork(int rank,
                             std::vector<c10::intrusive_ptr<Work>> works)
    : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(),
                     [](const auto& work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(),
                     [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& work : works_) {
    if (const auto error = work->exception()) {
      return error;
    }
  }
  return nullptr;
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> outputs;
  for (const auto& work : works_) {
    for (const auto& output : work->result()) {
      outputs.push_back(output);
    }
  }
  return outputs;
}

void CoalescedWork::synchronize() { wait(kNoTimeout); }

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : works_) {
    work->wait(timeout);
  }
  return true;
}

c10::intrusive_ptr<Future> CoalescedWork::getFuture() {
  const auto outputs = result();
  auto future = new_future(outputs);
  run_apart([works = works_, future, outputs] {
    std::exception_ptr error;
    try {
      for (const auto& work : works) {
        work->wait();
      }
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    finish_future(future, error, outputs);
  });
  return future;
}

}  // namespace torch_google::tpu

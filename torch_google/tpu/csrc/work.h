// SPDX-License-Identifier: Apache-2.0
// The object that torch.distributed returns for a collective in progress.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "torch_google/tpu/csrc/arrival.h"

namespace torch_google::tpu {

// One collective in progress. It completes when the results are on the host or,
// if the device moves the data, on the device. Boxes (box.h) fetch the results
// only when their values are needed.
class CollectiveWork final : public c10d::Work {
 public:
  CollectiveWork(int rank, c10d::OpType type, std::string text,
                 uint64_t sequence, std::shared_ptr<Arrival> arrival,
                 std::vector<at::Tensor> outputs,
                 std::shared_ptr<int> source = nullptr);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override;

 private:
  const std::string text_;
  const uint64_t sequence_;
  const std::shared_ptr<Arrival> arrival_;
  const std::vector<at::Tensor> outputs_;
  const std::shared_ptr<int> source_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Represents the collectives of a coalescing block as a single piece of work.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

// Runs a function in a separate thread, where it may wait for any collective.
// Idle threads are reused.
void run_apart(std::function<void()> function);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The ranks of a process group, connected by gloo. A group runs collectives in
// order, in its own threads.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/agreement.h"
#include "torch_google/tpu/csrc/arrival.h"
#include "torch_google/tpu/csrc/collective.h"
#include "torch_google/tpu/csrc/flight_recorder.h"
#include "torch_google/tpu/csrc/turn.h"

namespace torch_google::tpu {

// Before a collective moves any data, the ranks exchange descriptions of their
// calls. If the descriptions differ, every rank throws an error that lists
// them. Without the exchange, gloo would abort a process that receives more
// than it expects. The data of small collectives travels with the descriptions.
//
// If the connection fails, every rank learns about it from the store within a
// fraction of a second. The group is then broken, and each later call throws.
class HostGroup : public std::enable_shared_from_this<HostGroup> {
 public:
  struct Names {
    std::string group;
    std::vector<int64_t> global_ranks;
  };
  // The outcome of the exchange that starts a collective.
  struct Exchanged {
    Tensors payloads;         // the payload of each rank
    int64_t largest = 0;      // bytes of the largest part sent to a rank
    bool same_layout = true;  // whether all ranks passed the same layout
  };
  struct Results {
    Tensors storages;  // the outputs, which the arrival delivers
    // Pairs of a view and a contiguous output, which is copied to the view
    // after the collective.
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;
    // If set, this function runs the collective instead of gloo. It returns the
    // outputs as arrays on the device.
    std::function<std::vector<SharedObject>(const Exchanged&)> on_device;
  };
  // Replaces the device tensors of `collective` with contiguous CPU tensors.
  // Runs in the group's thread.
  using Prepare = std::function<Results(Collective& collective)>;

  HostGroup(c10::intrusive_ptr<c10d::Backend> gloo,
            c10::intrusive_ptr<c10d::Store> store, Names names,
            std::chrono::milliseconds timeout);

  // Queues a collective, send or recv. Throws if this rank's arguments are
  // invalid; for a collective, the other ranks then get an error as well. If
  // the device moves the data, `layout` describes the tensors' layouts in their
  // storages; otherwise it is empty. The caller must hold the GIL.
  std::shared_ptr<Arrival> post(Collective collective, Prepare prepare,
                                std::shared_ptr<int> source = nullptr,
                                std::string layout = "");
  // Ends all pending work with an error, and rejects new work.
  void abort(const std::string& reason);
  // Tells the group's threads to exit when they have finished the queued work.
  void close();

  int rank() const { return gloo_->getRank(); }
  int size() const { return gloo_->getSize(); }
  // Sets the name of the group for error messages.
  void set_description(const std::string& description);
  std::string description() const;
  const Names& names() const { return names_; }
  std::chrono::milliseconds timeout() const;
  void set_timeout(std::chrono::milliseconds timeout);
  // Returns the number of collectives that have been posted so far.
  uint64_t sequence() const;

 private:
  struct Job {
    Collective collective;
    Agreement agreement;
    // The reason why this rank rejects the collective. Empty if it accepts the
    // collective.
    std::string refusal;
    Prepare prepare;
    std::shared_ptr<Arrival> arrival;
    // The sender's rank is stored here if recv accepts messages from any rank.
    // Otherwise null.
    std::shared_ptr<int> source;
    std::string layout;
    std::unique_ptr<Turn> turn;  // null unless the device moves the data
    uint64_t sequence = 0;
    std::shared_ptr<FlightRecord> record;
  };
  // A queue of jobs that run one after another: all collectives, or all
  // messages with the same tag to or from one rank.
  struct Lane {
    std::deque<Job> jobs;
    uint64_t next_sequence = 0;
    bool has_thread = false;
    std::string current;  // the current job, for error messages
  };
  using LaneKey = std::tuple<c10d::OpType, int, int>;

  void work(LaneKey key);
  void run_job(Job& job);
  void run_collective(Job& job, Results results);
  void deliver(Job& job, Results results);
  void run_send(Job& job);
  void run_recv(Job& job);
  std::vector<SharedObject> run_on_device(const Job& job,
                                          const Results& results);
  // Exchanges the headers and small payloads of all ranks. Throws if the ranks
  // disagree.
  Exchanged exchange(const Job& job, const at::Tensor& payload);
  // Checks whether another rank has failed or the device has timed out. Called
  // by threads that wait for the results (arrival.h) of a collective or
  // message.
  void poll();
  // Breaks the group: notifies the other ranks, and ends all pending work with
  // an error.
  void fail(const std::string& what, const std::string& why);
  // Returns the error message, which includes the state of each rank.
  std::string explain(const std::string& what, const std::string& why);
  void publish(const std::string& state);
  std::string state_of(const Job& job) const;
  [[noreturn]] void throw_broken() const;

  const c10::intrusive_ptr<c10d::Backend> gloo_;
  const Names names_;

  std::mutex store_mutex_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::chrono::steady_clock::time_point next_poll_;

  mutable std::mutex mutex_;
  std::condition_variable queued_;
  bool closed_ = false;
  std::chrono::milliseconds timeout_;
  std::map<LaneKey, Lane> lanes_;
  std::vector<std::weak_ptr<Arrival>> pending_;
  std::string description_;
  // The time by which the device must finish the current collective.
  std::optional<std::chrono::steady_clock::time_point> device_deadline_;
  std::string broken_;  // error for every later call; empty if not broken
};

}  // namespace torch_google::tpu

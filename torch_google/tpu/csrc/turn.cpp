// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/turn.h"

#include <condition_variable>
#include <mutex>
#include <set>

namespace torch_google::tpu {
namespace {

struct Queue {
  std::mutex mutex;
  std::condition_variable left;
  std::set<uint64_t> tickets;
  uint64_t next = 0;
};

Queue& queue() {
  // Never destroyed, because the threads of process groups may outlive static
  // variables.
  static auto* instance = new Queue;
  return *instance;
}

uint64_t take_ticket() {
  auto& all = queue();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.tickets.insert(all.next);
  return all.next++;
}

}  // namespace

Turn::Turn() : ticket_(take_ticket()) {}

Turn::~Turn() {
  auto& all = queue();
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    all.tickets.erase(ticket_);
  }
  all.left.notify_all();
}

void Turn::wait() const {
  auto& all = queue();
  std::unique_lock<std::mutex> lock(all.mutex);
  all.left.wait(lock, [&] { return *all.tickets.begin() == ticket_; });
}

}  // namespace torch_google::tpu

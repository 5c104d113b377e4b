// SPDX-License-Identifier: Apache-2.0
#include <ATen/thread_team.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace at::internal {
namespace {

// The number of polls before a waiting thread sleeps: 50 to 100 microseconds. A
// sleeping thread needs about as long to wake up, longer than most loops take.
constexpr int kPolls = 2000;

// A flag that one thread changes and another one waits for. One thread waits
// for it to become true, and another one for it to become false.
class Flag {
 public:
  void Set(bool value) {
    value_.store(value);
    if (sleeping_[!value].load()) {
      syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }

  // Waits while the flag is `value`: polls `polls` times, then sleeps.
  void WaitWhile(bool value, int polls) {
    for (int i = 0; i < polls; ++i) {
      if (value_.load(std::memory_order_acquire) != value) return;
      _mm_pause();
    }
    // Set() stores the value before it reads sleeping_, so either it sees this
    // thread sleeping, or this thread sees the new value.
    sleeping_[value].store(true);
    while (value_.load() == value) {
      syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, uint32_t{value}, nullptr,
              nullptr, 0);
    }
    sleeping_[value].store(false);
  }

 private:
  std::atomic<uint32_t> value_{false};
  // One for each value, because a thread that waits while the flag is true may
  // start before the one that waited while it was false has returned.
  std::atomic<bool> sleeping_[2] = {};
};

using Task = std::function<void(int, size_t)>;

class Team {
 public:
  explicit Team(int threads) : workers_(threads - 1) {
    cpu_set_t processors;
    if (sched_getaffinity(0, sizeof(processors), &processors) == 0 &&
        threads > CPU_COUNT(&processors)) {
      polls_ = 0;  // A waiting thread would delay one that works.
    }
    try {
      for (; started_ < workers_.size(); ++started_) {
        std::thread([this, i = started_ + 1] { Work(i); }).detach();
      }
    } catch (const std::exception&) {
      // There is not enough memory, or the system allows no more threads. Run()
      // refuses larger loops. The team remains, because its threads use it.
    }
  }

  bool Run(const Task& task, size_t count) {
    std::unique_lock<std::mutex> lock(busy_, std::try_to_lock);
    if (!lock || count > started_ + 1) return false;
    for (size_t i = 1; i < count; ++i) {
      Worker& worker = workers_[i - 1];
      worker.task = &task;
      worker.called.Set(true);
    }
    if (count > 0) task(0, 0);
    for (size_t i = 1; i < count; ++i) {
      workers_[i - 1].called.WaitWhile(true, polls_);
    }
    return true;
  }

 private:
  // One cache line for each worker, to avoid false sharing.
  struct alignas(64) Worker {
    Flag called;
    const Task* task = nullptr;
  };

  void Work(size_t index) {
    pthread_setname_np(pthread_self(), "PTThreadTeam");
    Worker& self = workers_[index - 1];
    while (true) {
      self.called.WaitWhile(false, polls_);
      (*self.task)(static_cast<int>(index), index);
      self.called.Set(false);
    }
  }

  std::vector<Worker> workers_;
  size_t started_ = 0;  // the number of workers that have a thread
  int polls_ = kPolls;
  std::mutex busy_;
};

// One team for each number of threads. Teams are never deleted, because their
// threads run until the process ends.
struct Teams {
  std::mutex mutex;
  std::map<int, std::unique_ptr<Team>> by_threads;
};

std::atomic<Teams*> teams{new Teams};

// A forked process starts with no teams: it has none of their threads, and
// their locks may be held. The handler is registered before any loop. If a loop
// registered it, a fork could happen in between; the new process would then
// wait for a registration that never ends.
const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { teams = new Teams; });

}  // namespace

bool RunInTeam(const Task& task, size_t count, int threads) {
  if (count > static_cast<size_t>(threads) || fork_handler != 0) return false;
  Team* team;
  {
    Teams& all = *teams.load();
    std::lock_guard<std::mutex> lock(all.mutex);
    std::unique_ptr<Team>& slot = all.by_threads[threads];
    if (!slot) slot = std::make_unique<Team>(threads);
    team = slot.get();
  }
  return team->Run(task, count);
}

}  // namespace at::internal

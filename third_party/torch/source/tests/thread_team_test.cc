// SPDX-License-Identifier: Apache-2.0
// Every part of a loop runs once: after threads have slept, after a fork, while
// the team is busy, and after threads could not be started.
#include <ATen/thread_team.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "expect.h"

namespace {

// The number of allocations until one fails, or -1 if none will fail.
std::atomic<int> allocations{-1};

}  // namespace

void* operator new(size_t size) {
  if (allocations >= 0 && allocations-- == 0) throw std::bad_alloc();
  if (void* memory = malloc(size)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace {

using at::internal::RunInTeam;

// Runs a loop, and returns whether each part ran once, on its own thread.
bool RunsEachPart(size_t count, int threads) {
  std::vector<std::thread::id> ids(count);
  std::unique_ptr<std::atomic<int>[]> calls(new std::atomic<int>[count]());
  const bool ran = RunInTeam(
      [&](int number, size_t part) {
        if (static_cast<size_t>(number) == part) ++calls[part];
        ids[part] = std::this_thread::get_id();
      },
      count, threads);
  return ran && std::set(ids.begin(), ids.end()).size() == count &&
         std::all_of(
             &calls[0], &calls[0] + count,
             [](const std::atomic<int>& number) { return number == 1; });
}

void LoopsOfEverySize() {
  for (int threads : {1, 2, 3, 9}) {
    for (int i = 0; i < 2000; ++i) {
      Expect(RunsEachPart(i % threads + 1, threads), "a loop did not run once");
    }
  }
  Expect(!RunsEachPart(3, 2), "three parts ran on two threads");
}

void ThreadsThatSleep() {
  for (int pause : {0, 10, 100, 1000}) {
    for (int i = 0; i < 50; ++i) {
      Expect(RunsEachPart(2, 2), "a loop after a pause did not run once");
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
    }
  }
  // The threads of a team of 33 sleep without polling, because few machines
  // have as many processors.
  for (int i = 0; i < 300; ++i) {
    Expect(RunsEachPart(33, 33), "a loop on 33 threads did not run once");
  }
}

void ALoopOfAnotherThread() {
  std::atomic<bool> inside{false};
  std::atomic<bool> refused{false};
  std::thread other([&] {
    RunInTeam(
        [&](int, size_t) {
          inside = true;
          while (!refused) std::this_thread::yield();
        },
        2, 2);
  });
  while (!inside) std::this_thread::yield();
  Expect(!RunsEachPart(2, 2), "the team ran two loops at once");
  Expect(RunsEachPart(3, 3), "another team did not run a loop");
  refused = true;
  other.join();
  Expect(RunsEachPart(2, 2), "the team ran no loop after the other one");
}

void AForkedProcess() {
  std::atomic<bool> inside{false};
  std::atomic<bool> forked{false};
  std::thread other([&] {
    RunInTeam(
        [&](int, size_t) {
          inside = true;
          while (!forked) std::this_thread::yield();
        },
        2, 2);
  });
  while (!inside) std::this_thread::yield();
  const Ended ended = InChild([] {
    alarm(60);
    if (!RunsEachPart(2, 2) || !RunsEachPart(4, 4)) abort();
  });
  forked = true;
  other.join();
  Expect(ended.signal == 0, "a forked process did not run its loops");
}

// Must run before any loop of this process.
void AForkDuringTheFirstLoop() {
  const Ended ended = InChild([] {
    static std::atomic<bool> forking{false};
    // While this handler runs, pthread_atfork() blocks in other threads.
    pthread_atfork(
        [] {
          forking = true;
          usleep(100'000);
        },
        nullptr, nullptr);
    std::thread other([] {
      while (!forking) std::this_thread::yield();
      if (!RunsEachPart(2, 2)) abort();
    });
    const Ended forked = InChild([] {
      alarm(60);
      if (!RunsEachPart(2, 2)) abort();
    });
    other.join();
    if (forked.signal != 0) abort();
  });
  Expect(ended.signal == 0, "a process forked during a loop cannot run loops");
}

void TooLittleMemory() {
  int failed = 0;
  for (int number = 0; number < 12; ++number) {
    const Ended ended = InChild([number] {
      alarm(60);
      allocations = number;
      try {
        RunInTeam([](int, size_t) {}, 1, 8);
      } catch (const std::bad_alloc&) {
      }
      allocations = -1;
      for (int i = 0; i < 2000; ++i) {
        if (!RunsEachPart(2, 2)) abort();
        // The team has fewer threads if the allocation for one has failed.
        RunsEachPart(8, 8);
      }
    });
    failed += ended.signal != 0;
  }
  Expect(failed == 0, "loops failed after an allocation had failed");
}

void TooFewThreads() {
  const Ended ended = InChild([] {
    // Too little for the stacks of 64 threads.
    const rlimit limit = {256 << 20, 256 << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) abort();
    alarm(60);
    if (!RunsEachPart(2, 64) || RunsEachPart(64, 64)) abort();
  });
  Expect(ended.signal == 0, "a team without all its threads failed");
}

}  // namespace

int main() {
  AForkDuringTheFirstLoop();
  LoopsOfEverySize();
  ThreadsThatSleep();
  ALoopOfAnotherThread();
  AForkedProcess();
  TooFewThreads();
  TooLittleMemory();
  return failures;
}

// SPDX-License-Identifier: Apache-2.0
// The thread pool that oneDNN uses.
#ifndef ONEDNN_THREAD_POOL_H_
#define ONEDNN_THREAD_POOL_H_

#include <functional>

namespace onednn_threads {

struct Pool {
  // Returns how many threads a call on this thread may use: 1 on a thread that
  // already runs a task of the pool.
  int (*max_threads)();
  // Calls task(i) for each i in [0, count). Returns once all calls have
  // returned. The calls may run in any order, and need not run concurrently.
  void (*run)(int count, const std::function<void(int)>& task);
};

// Makes oneDNN use `pool`. Call it before any primitive is created. Without a
// pool, everything runs on the calling thread.
void SetPool(const Pool& pool);

int MaxThreads();

void Run(int count, const std::function<void(int)>& task);

}  // namespace onednn_threads

#endif  // ONEDNN_THREAD_POOL_H_

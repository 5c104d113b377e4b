// SPDX-License-Identifier: Apache-2.0
// Lets oneDNN use the threads of torch's own operators.

#include <ATen/Parallel.h>
#include <thread_pool.h>

namespace {

// 1 inside a parallel region, where at::parallel_for does not start threads.
int MaxThreads() {
  return at::in_parallel_region() ? 1 : at::get_num_threads();
}

void Run(int count, const std::function<void(int)>& task) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) task(static_cast<int>(i));
  });
}

const bool registered = [] {
  onednn_threads::SetPool({MaxThreads, Run});
  return true;
}();

}  // namespace

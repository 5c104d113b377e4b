// SPDX-License-Identifier: Apache-2.0
#include "thread_pool.h"

namespace onednn_threads {
namespace {

Pool pool = {
    [] { return 1; },
    [](int count, const std::function<void(int)>& task) {
      for (int i = 0; i < count; ++i) task(i);
    },
};

}  // namespace

void SetPool(const Pool& value) { pool = value; }

int MaxThreads() { return pool.max_threads(); }

void Run(int count, const std::function<void(int)>& task) {
  pool.run(count, task);
}

}  // namespace onednn_threads

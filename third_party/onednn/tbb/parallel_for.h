// SPDX-License-Identifier: Apache-2.0
// The form of tbb::parallel_for that oneDNN calls, implemented with
// thread_pool.h.
#ifndef ONEDNN_TBB_PARALLEL_FOR_H_
#define ONEDNN_TBB_PARALLEL_FOR_H_

#include "thread_pool.h"

namespace tbb {

struct static_partitioner {};

template <class Function>
void parallel_for(int first, int last, const Function& function,
                  const static_partitioner&) {
  onednn_threads::Run(last - first, [&](int i) { function(first + i); });
}

}  // namespace tbb

#endif  // ONEDNN_TBB_PARALLEL_FOR_H_

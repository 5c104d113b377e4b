// SPDX-License-Identifier: Apache-2.0
// The number of threads, by the name under which oneDNN asks TBB for it.
#ifndef ONEDNN_TBB_TASK_ARENA_H_
#define ONEDNN_TBB_TASK_ARENA_H_

#include "thread_pool.h"

namespace tbb::this_task_arena {

inline int max_concurrency() { return onednn_threads::MaxThreads(); }

}  // namespace tbb::this_task_arena

#endif  // ONEDNN_TBB_TASK_ARENA_H_

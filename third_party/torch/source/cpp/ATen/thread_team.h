// SPDX-License-Identifier: Apache-2.0
// Threads for parallel loops, which wait for the next loop without sleeping.
#ifndef ATEN_THREAD_TEAM_H_
#define ATEN_THREAD_TEAM_H_

#include <cstddef>
#include <functional>

namespace at::internal {

// Calls task(i, i) for each i in [0, count), concurrently: the first call on
// the calling thread, and each of the others on its own thread of a team of
// `threads` threads (including the caller's). Returns true once all calls have
// returned. `task` must not throw.
//
// Returns false and calls nothing if another thread is running a loop on the
// team, if `count` is greater than `threads`, or if the system did not allow
// enough threads.
bool RunInTeam(const std::function<void(int, size_t)>& task, size_t count,
               int threads);

}  // namespace at::internal

#endif  // ATEN_THREAD_TEAM_H_

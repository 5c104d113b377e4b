// SPDX-License-Identifier: Apache-2.0
// Records when each program was last used, for least-recently-used eviction.
#pragma once

#include <cstdint>

namespace torch_google::tpu {

// Base class for programs. Guarded by the GIL.
class LastUse {
 public:
  void use() const { used_ = ++uses_; }
  // Returns the logical time of the last use: a count that increases with every
  // use of any program.
  uint64_t used() const { return used_; }

 private:
  static inline uint64_t uses_ = 0;
  mutable uint64_t used_ = ++uses_;
};

}  // namespace torch_google::tpu

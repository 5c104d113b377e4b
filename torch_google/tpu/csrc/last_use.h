// SPDX-License-Identifier: Apache-2.0
// When a program was of use: those that were not for the longest time are the
// first to be forgotten.
#pragma once

#include <cstdint>

namespace torch_google::tpu {

// What every program is. All of it is read and written under the GIL.
class LastUse {
 public:
  void use() const { used_ = ++uses_; }
  // When that was last: a later use has a greater number.
  uint64_t used() const { return used_; }

 private:
  static inline uint64_t uses_ = 0;
  mutable uint64_t used_ = ++uses_;
};

}  // namespace torch_google::tpu

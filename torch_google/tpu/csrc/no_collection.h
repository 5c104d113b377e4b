// SPDX-License-Identifier: Apache-2.0
// Keeps Python's garbage collector from running.
#pragma once

#include <Python.h>

#include <cstddef>

namespace torch_google::tpu {

// Disables Python's garbage collector while a program runs that may overwrite
// its inputs. Otherwise, a finalizer could read a box (box.h), which has no
// value during the run. If several threads run such programs concurrently, the
// last one to finish re-enables the collector.
class NoCollection {
 public:
  NoCollection() {
    if (count_++ == 0) {
      was_enabled_ = PyGC_Disable() == 1;
    }
  }
  ~NoCollection() {
    if (--count_ == 0 && was_enabled_) {
      PyGC_Enable();
    }
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  // The GIL guards both variables.
  static inline size_t count_ = 0;
  static inline bool was_enabled_ = false;
};

}  // namespace torch_google::tpu

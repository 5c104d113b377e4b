// SPDX-License-Identifier: Apache-2.0
#include "third_party/clang/tests/through.h"

namespace {

struct Mark {
  bool* left;
  ~Mark() { *left = true; }
};

}  // namespace

void through(void (*function)(), bool* left) {
  Mark mark{left};
  function();
}

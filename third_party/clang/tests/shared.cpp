// SPDX-License-Identifier: Apache-2.0
// Tests that an exception that passes through a shared object is caught by its
// type.
#include <iostream>
#include <stdexcept>

#include "third_party/clang/tests/through.h"

int main() {
  bool left = false;
  try {
    through([] { throw std::out_of_range("thrown"); }, &left);
  } catch (const std::out_of_range& error) {
    std::cout << error.what() << (left ? ", passed, caught\n" : ", caught\n");
    return 0;
  }
  return 1;
}

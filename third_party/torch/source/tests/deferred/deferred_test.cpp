// SPDX-License-Identifier: Apache-2.0
// Tests that the constructors of one library run only when the program calls
// them, and that those of other libraries run before main.
#include <cstdio>

#include "third_party/torch/source/tests/deferred/registers.h"

using Constructor = void (*)(int, char**, char**);

extern "C" Constructor __start_tests_deferred_init_array[];
extern "C" Constructor __stop_tests_deferred_init_array[];

int main(int argc, char** argv) {
  const int before = registered;
  for (Constructor* each = __start_tests_deferred_init_array;
       each < __stop_tests_deferred_init_array; ++each) {
    (*each)(argc, argv, nullptr);
  }
  if (before == 0 && registered == 1 && neighbours == 1) {
    return 0;
  }
  std::fprintf(
      stderr,
      "deferred_library: the constructor had run %d times before it "
      "was called and %d after, that of a dependency %d times; "
      "expected 0, 1 and 1. See third_party/torch/source/deferred.bzl\n",
      before, registered, neighbours);
  return 1;
}

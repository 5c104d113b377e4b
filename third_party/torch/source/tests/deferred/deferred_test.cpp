// SPDX-License-Identifier: Apache-2.0
// The constructors of one library run when this program calls them; other
// libraries' constructors are not deferred.
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

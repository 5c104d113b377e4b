// SPDX-License-Identifier: Apache-2.0
//
// A stub of libcuda.so.1 whose two functions return the values of environment
// variables. NVIDIA's own runtime loads it, calls both functions, and then
// fails.

#include <stdlib.h>

int cuDriverGetVersion(int* version) {
  *version = atoi(getenv("STUB_DRIVER_VERSION"));
  return 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  return atoi(getenv("STUB_DRIVER_INIT"));
}

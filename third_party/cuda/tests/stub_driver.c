// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 that fails as the environment says. NVIDIA's own runtime loads
// it, and stops after these two calls.

#include <stdlib.h>

int cuDriverGetVersion(int* version) {
  *version = atoi(getenv("STUB_DRIVER_VERSION"));
  return 0;
}

int cuInit(unsigned flags) {
  (void)flags;
  return atoi(getenv("STUB_DRIVER_INIT"));
}

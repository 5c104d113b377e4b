// SPDX-License-Identifier: Apache-2.0
// Compares the CPU features that cpuinfo detects with those that the compiler's
// builtin functions detect.
#include <stdio.h>

#include "cpuinfo.h"

static int Agree(const char* name, bool detected, bool expected) {
  printf("%s: %s\n", name, detected ? "yes" : "no");
  if (detected == expected) return 0;
  fprintf(stderr, "cpuinfo_test: %s: cpuid says otherwise\n", name);
  return 1;
}

int main(void) {
  if (!cpuinfo_initialize()) {
    fprintf(stderr, "cpuinfo_test: cpuinfo_initialize failed\n");
    return 1;
  }
  printf("%s: %u processors, %u cores\n", cpuinfo_get_package(0)->name,
         cpuinfo_get_processors_count(), cpuinfo_get_cores_count());
  int failures = 0;
  if (cpuinfo_get_processors_count() < 1) {
    fprintf(stderr, "cpuinfo_test: no processor\n");
    ++failures;
  }
  __builtin_cpu_init();
  failures +=
      Agree("avx2", cpuinfo_has_x86_avx2(), __builtin_cpu_supports("avx2"));
  failures +=
      Agree("fma3", cpuinfo_has_x86_fma3(), __builtin_cpu_supports("fma"));
  failures += Agree("avx512f", cpuinfo_has_x86_avx512f(),
                    __builtin_cpu_supports("avx512f"));
  failures += Agree("sse4.2", cpuinfo_has_x86_sse4_2(),
                    __builtin_cpu_supports("sse4.2"));
  cpuinfo_deinitialize();
  return failures;
}

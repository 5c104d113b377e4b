// SPDX-License-Identifier: Apache-2.0
// What it finds on this machine, against the compiler's own look at the
// processor.
#include <stdio.h>

#include "cpuinfo.h"

static int Agree(const char* name, bool found, bool wanted) {
  printf("%s: %s\n", name, found ? "yes" : "no");
  if (found == wanted) return 0;
  fprintf(stderr, "cpuinfo_test: %s: cpuid says otherwise\n", name);
  return 1;
}

int main(void) {
  if (!cpuinfo_initialize()) {
    fprintf(stderr, "cpuinfo_test: it does not start\n");
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

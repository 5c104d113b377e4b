// SPDX-License-Identifier: Apache-2.0
// A program inside the launcher that prints its arguments.
#include <stdio.h>

int extensions_program_main(int argc, char** argv) {
  for (int i = 0; i < argc; i++) puts(argv[i]);
  return argc;
}

// Exported to shared libraries that are loaded at run time.
int extensions_exported_answer(void) { return 42; }

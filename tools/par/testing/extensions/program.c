// SPDX-License-Identifier: Apache-2.0
// A C program, linked into the launcher, that prints its arguments.
#include <stdio.h>

int extensions_program_main(int argc, char** argv) {
  for (int i = 0; i < argc; i++) puts(argv[i]);
  return argc;
}

// Shared libraries that are loaded at run time can call this function.
int extensions_exported_answer(void) { return 42; }

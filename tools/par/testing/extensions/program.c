// SPDX-License-Identifier: Apache-2.0
// A C program that prints its arguments. It is linked into the launcher.
#include <stdio.h>

int extensions_program_main(int argc, char** argv) {
  for (int i = 0; i < argc; i++) puts(argv[i]);
  return argc;
}

// A function that shared libraries loaded at run time can call.
int extensions_exported_answer(void) { return 42; }

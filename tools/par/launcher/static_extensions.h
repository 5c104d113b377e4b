// SPDX-License-Identifier: Apache-2.0
// Tables of the C extensions and C programs that are linked into a launcher.
#ifndef TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_
#define TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_

#include <Python.h>

struct par_static_extension {
  const char* name;  // "package.module"; NULL ends the table
  PyObject* (*init)(void);
};

// A C program that the launcher runs instead of Python if the base name of
// argv[0] is `name`. It replaces a separate executable that a library would
// otherwise start.
struct par_static_program {
  const char* name;  // NULL ends the table
  int (*main)(int argc, char** argv);
};

// Every launcher defines both tables. If the par_binary has static extensions,
// they are in a generated file, and otherwise in no_static_extensions.c.
extern const struct par_static_extension par_static_extensions[];
extern const struct par_static_program par_static_programs[];

#endif  // TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_

// SPDX-License-Identifier: Apache-2.0
// The table of C extensions that are linked into a launcher, by dotted name.
#ifndef TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_
#define TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_

#include <Python.h>

struct par_static_extension {
  const char* name;  // "package.module"; NULL ends the table
  PyObject* (*init)(void);
};

// A C program inside the launcher, run instead of Python if argv[0] has that
// name. A library would otherwise start it from a separate executable.
struct par_static_program {
  const char* name;  // NULL ends the table
  int (*main)(int argc, char** argv);
};

// Both are defined once per launcher: in a generated file for a par_binary with
// static extensions, else in no_static_extensions.c.
extern const struct par_static_extension par_static_extensions[];
extern const struct par_static_program par_static_programs[];

#endif  // TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_

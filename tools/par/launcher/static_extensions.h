// SPDX-License-Identifier: Apache-2.0
// The table of C extensions that are linked into a launcher, by dotted name.
#ifndef TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_
#define TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_

#include <Python.h>

struct par_static_extension {
  const char* name;  // "package.module"; NULL ends the table
  PyObject* (*init)(void);
};

// Defined once per launcher: generated for a par_binary with static
// extensions, no_static_extensions.c otherwise.
extern const struct par_static_extension par_static_extensions[];

#endif  // TOOLS_PAR_LAUNCHER_STATIC_EXTENSIONS_H_

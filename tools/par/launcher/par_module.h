// SPDX-License-Identifier: Apache-2.0
// The built-in module `_par`: C functions for the PAR runtime, which is written
// in Python.
#ifndef TOOLS_PAR_LAUNCHER_PAR_MODULE_H_
#define TOOLS_PAR_LAUNCHER_PAR_MODULE_H_

#include <Python.h>

PyObject* PyInit__par(void);

#endif  // TOOLS_PAR_LAUNCHER_PAR_MODULE_H_

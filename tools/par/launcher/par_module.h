// SPDX-License-Identifier: Apache-2.0
// The built-in module `_par`: C functions that the PAR runtime, written in
// Python, calls.
#ifndef TOOLS_PAR_LAUNCHER_PAR_MODULE_H_
#define TOOLS_PAR_LAUNCHER_PAR_MODULE_H_

#include <Python.h>

PyObject* PyInit__par(void);

#endif  // TOOLS_PAR_LAUNCHER_PAR_MODULE_H_

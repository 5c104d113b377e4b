// SPDX-License-Identifier: Apache-2.0
// Validation of the index and its sections. The runtime relies on the shapes
// checked here.
#ifndef TOOLS_PAR_LAUNCHER_TABLES_H_
#define TOOLS_PAR_LAUNCHER_TABLES_H_

#include <Python.h>

// Returns 1 if the index has every table and each row has the right types,
// ranges inside a file of `size` bytes, and paths that stay below their root.
// Sets no exception.
int par_index_fits(PyObject* index, uint64_t size);

// The same for a section of one bundle: "files", "natives", "developer" or
// "info".
int par_section_fits(const char* kind, PyObject* section, uint64_t size);

#endif  // TOOLS_PAR_LAUNCHER_TABLES_H_

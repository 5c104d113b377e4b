// SPDX-License-Identifier: Apache-2.0
// Validates the index and its sections. The runtime relies on the types and
// sizes that these functions check.
#ifndef TOOLS_PAR_LAUNCHER_TABLES_H_
#define TOOLS_PAR_LAUNCHER_TABLES_H_

#include <Python.h>

// Returns 1 if the index has every table, every row has the right types, all
// ranges are inside a file of `size` bytes, and all paths stay under their
// root. Never sets an exception.
int par_index_fits(PyObject* index, uint64_t size);

// Like par_index_fits(), but checks one section of one bundle. `kind` is
// "files", "natives", "developer" or "info".
int par_section_fits(const char* kind, PyObject* section, uint64_t size);

#endif  // TOOLS_PAR_LAUNCHER_TABLES_H_

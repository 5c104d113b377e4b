// SPDX-License-Identifier: Apache-2.0
// The shape of the index and its sections: what the runtime takes for granted
// about them.
#ifndef TOOLS_PAR_LAUNCHER_TABLES_H_
#define TOOLS_PAR_LAUNCHER_TABLES_H_

#include <Python.h>

// Returns 1 if the index has every table, with rows of the right types whose
// ranges lie in a file of `size` bytes and whose paths stay below their root.
// Sets no exception.
int par_index_fits(PyObject* index, uint64_t size);

// The same for a section of one bundle: "files", "natives", "developer" or
// "info".
int par_section_fits(const char* kind, PyObject* section, uint64_t size);

#endif  // TOOLS_PAR_LAUNCHER_TABLES_H_

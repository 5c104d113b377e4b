// SPDX-License-Identifier: Apache-2.0
// Python modules frozen into the launcher: the boot code that opens the
// archive, and the text codecs that Python needs before the archive is open.
#ifndef TOOLS_PAR_LAUNCHER_FROZEN_H_
#define TOOLS_PAR_LAUNCHER_FROZEN_H_

#include <Python.h>

// The table of frozen modules, which compiler/freeze.py generates.
extern const struct _frozen par_frozen_modules[];

#endif  // TOOLS_PAR_LAUNCHER_FROZEN_H_

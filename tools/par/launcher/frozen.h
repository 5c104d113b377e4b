// SPDX-License-Identifier: Apache-2.0
// Python modules frozen into the launcher: the boot code that opens the
// archive, and the text codecs that start-up needs before that.
#ifndef TOOLS_PAR_LAUNCHER_FROZEN_H_
#define TOOLS_PAR_LAUNCHER_FROZEN_H_

#include <Python.h>

// compiler/freeze.py generates this table.
extern const struct _frozen par_frozen_modules[];

#endif  // TOOLS_PAR_LAUNCHER_FROZEN_H_

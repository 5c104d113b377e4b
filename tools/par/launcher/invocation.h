// SPDX-License-Identifier: Apache-2.0
// Determines how this process was started: which program it runs, and whether
// it runs as that program or as a Python interpreter.
#ifndef TOOLS_PAR_LAUNCHER_INVOCATION_H_
#define TOOLS_PAR_LAUNCHER_INVOCATION_H_

#include <limits.h>

enum par_layout {
  PAR_LAYOUT_PACKED,    // the archive follows this executable's own bytes
  PAR_LAYOUT_RUNFILES,  // <executable>.par_config lists archives and roots
  PAR_LAYOUT_TOOL,      // --par-stdlib=DIR: a plain interpreter for builds
};

struct par_invocation {
  enum par_layout layout;
  int interpreter;         // 1 to run as a Python interpreter
  int raised;              // the result of par_raised()
  char program[PATH_MAX];  // absolute path of the PAR or runfiles launcher
  // PAR_LAYOUT_PACKED: the path at which to open the PAR. It is /proc/self/exe,
  // which refers to the executed file even after that is replaced, or `program`
  // if /proc is not mounted.
  const char* file;
  // PAR_LAYOUT_RUNFILES: the path of the .par_config file. PAR_LAYOUT_PACKED:
  // the path of the list of the archive's parts, or "" if the archive is one
  // file.
  char config[PATH_MAX];
  const char* tool_stdlib;  // the standard library, for PAR_LAYOUT_TOOL
  int argc;                 // number of arguments for the program
  char** argv;
};

// Fills in `out`. Returns 0 on success, else prints a one-line error and
// returns an exit status.
int par_read_invocation(int argc, char** argv, struct par_invocation* out);

#endif  // TOOLS_PAR_LAUNCHER_INVOCATION_H_

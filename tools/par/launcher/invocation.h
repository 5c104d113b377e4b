// SPDX-License-Identifier: Apache-2.0
// How this process was started: which program it runs, and in which role.
#ifndef TOOLS_PAR_LAUNCHER_INVOCATION_H_
#define TOOLS_PAR_LAUNCHER_INVOCATION_H_

#include <limits.h>

enum par_layout {
  PAR_LAYOUT_PACKED,    // the archive follows this executable's own bytes
  PAR_LAYOUT_RUNFILES,  // <executable>.par_config names archives and roots
  PAR_LAYOUT_TOOL,      // --par-stdlib=DIR: a plain interpreter for builds
};

struct par_invocation {
  enum par_layout layout;
  int interpreter;         // 1: accept -c, -m, FILE, or show a prompt
  int raised;              // par_raised()
  char program[PATH_MAX];  // the PAR, or the runfiles launcher, absolute
  // Packed only: the path to open the PAR by. It is /proc/self/exe, which stays
  // the executed file even if its path is replaced, or `program` if /proc is
  // not mounted.
  const char* file;
  char config[PATH_MAX];    // runfiles only
  const char* tool_stdlib;  // tool only
  int argc;                 // the arguments left for the program
  char** argv;
};

// Returns 0, or prints one line and returns an exit status.
int par_read_invocation(int argc, char** argv, struct par_invocation* out);

#endif  // TOOLS_PAR_LAUNCHER_INVOCATION_H_

// SPDX-License-Identifier: Apache-2.0
// "Doors" are the PAR_* environment variables. A PAR ignores them if it runs
// with elevated privileges or was built with doors = False.
#ifndef TOOLS_PAR_LAUNCHER_DOORS_H_
#define TOOLS_PAR_LAUNCHER_DOORS_H_

// Returns 1 if this process has privileges that its caller lacks, because of a
// set-user-ID bit, a set-group-ID bit or file capabilities. In this case, the
// caller's environment, arguments, file names and directories must not
// determine which code runs.
int par_raised(void);

// Returns 1 if the environment variable `name` has a value other than "" and
// "0".
int par_door(const char* name);

// Removes all PAR_* variables from the environment of this process, so that its
// children do not inherit them.
void par_close_doors(void);

// Removes every environment variable that starts with `prefix`.
void par_drop_environment(const char* prefix);

// Returns 1 if the parent process is running the same executable file.
int par_started_by_itself(void);

#endif  // TOOLS_PAR_LAUNCHER_DOORS_H_

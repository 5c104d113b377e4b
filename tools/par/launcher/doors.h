// SPDX-License-Identifier: Apache-2.0
// "Doors" are the PAR_* environment variables. A PAR ignores them if it runs
// with elevated privileges or was built with doors = False.
#ifndef TOOLS_PAR_LAUNCHER_DOORS_H_
#define TOOLS_PAR_LAUNCHER_DOORS_H_

// Returns 1 if this process has privileges that its caller lacks, from
// set-user-ID, set-group-ID or file capabilities. If so, the caller's
// environment, arguments, file names and directories must not determine which
// code runs.
int par_raised(void);

// Returns 1 if the environment variable `name` is set and is neither empty nor
// "0".
int par_door(const char* name);

// Removes all PAR_* variables from the environment of this process, so its
// children do not inherit them.
void par_close_doors(void);

// Removes every environment variable that starts with `prefix`.
void par_drop_environment(const char* prefix);

// Returns 1 if the parent process runs the same executable file as this one.
int par_started_by_itself(void);

#endif  // TOOLS_PAR_LAUNCHER_DOORS_H_

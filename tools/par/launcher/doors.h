// SPDX-License-Identifier: Apache-2.0
// The doors: environment variables that a PAR obeys unless it runs with raised
// rights or was built with doors = False.
#ifndef TOOLS_PAR_LAUNCHER_DOORS_H_
#define TOOLS_PAR_LAUNCHER_DOORS_H_

// Returns 1 if the kernel gave this process rights that its caller lacks:
// set-user-ID, set-group-ID or file capabilities. The caller's environment,
// arguments, file names and directories must not choose any code then.
int par_raised(void);

// Returns 1 if the door `name` is set and neither empty nor "0".
int par_door(const char* name);

// Removes every door from the environment of this process and its children.
void par_close_doors(void);

// Removes every variable that starts with `prefix`.
void par_drop_environment(const char* prefix);

// Returns 1 if the parent process runs the same executable file as this one.
int par_started_by_itself(void);

#endif  // TOOLS_PAR_LAUNCHER_DOORS_H_

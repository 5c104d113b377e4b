// SPDX-License-Identifier: Apache-2.0
// Runs the code that the command line specifies (-c CODE, -m MODULE or FILE) if
// a PAR is used as an interpreter.
#ifndef TOOLS_PAR_LAUNCHER_RUN_CODE_H_
#define TOOLS_PAR_LAUNCHER_RUN_CODE_H_

// par_run_code() returns this if it ran nothing. The caller must then call
// Py_RunMain().
#define PAR_NOT_CODE (-1000)

// Runs the code that the command line specifies, as Py_RunMain() does, but
// never finalizes the interpreter, not even on SystemExit. Returns the exit
// status, or -SIGINT after an uncaught KeyboardInterrupt. Returns PAR_NOT_CODE
// for an interactive prompt, standard input, -i, -x, or a file that is not
// Python source.
int par_run_code(void);

#endif  // TOOLS_PAR_LAUNCHER_RUN_CODE_H_

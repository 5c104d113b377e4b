// SPDX-License-Identifier: Apache-2.0
// The code of a PAR that runs as an interpreter: -c CODE, -m MODULE or FILE.
#ifndef TOOLS_PAR_LAUNCHER_RUN_CODE_H_
#define TOOLS_PAR_LAUNCHER_RUN_CODE_H_

// par_run_code() has run nothing; the caller must call Py_RunMain().
#define PAR_NOT_CODE (-1000)

// Runs the code that the command line names as Py_RunMain() does, but does not
// finalize the interpreter, not even on SystemExit. Returns the exit status, or
// -SIGINT after an uncaught KeyboardInterrupt. Returns PAR_NOT_CODE for a
// prompt, standard input, -i, -x, and a file other than Python source.
int par_run_code(void);

#endif  // TOOLS_PAR_LAUNCHER_RUN_CODE_H_

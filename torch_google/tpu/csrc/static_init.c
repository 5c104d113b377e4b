// SPDX-License-Identifier: Apache-2.0
// torch_google.tpu._C as a built-in module of the interpreter. Its static
// constructors register kernels with torch, so they run when it is imported,
// like a shared library's, and after torch's.

#include <Python.h>

// PyInit__C of module.cpp, renamed by BUILD.
extern PyObject* torch_google_tpu_module(void);
extern void torch_static_constructors(void);

typedef void (*constructor)(int, char**, char**);

// Start and end of the section, named by the linker.
extern constructor __start_torch_google_tpu_init_array[];
extern constructor __stop_torch_google_tpu_init_array[];

extern char** environ;

PyObject* torch_google_tpu_static_init(void) {
  static int done;
  if (!done) {
    done = 1;
    torch_static_constructors();
    static char* no_arguments[] = {"", NULL};
    for (constructor* each = __start_torch_google_tpu_init_array;
         each < __stop_torch_google_tpu_init_array; ++each) {
      (*each)(1, no_arguments, environ);
    }
  }
  return torch_google_tpu_module();
}

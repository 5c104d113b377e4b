// SPDX-License-Identifier: Apache-2.0
// torch_google.tpu._C as a module of the interpreter's own table. Its
// constructors register kernels with torch, so they run when it is imported, as
// those of a shared library would, and after torch's.

#include <Python.h>

// PyInit__C of module.cpp, by another name; BUILD has it.
extern PyObject* torch_google_tpu_module(void);
extern void torch_static_constructors(void);

typedef void (*constructor)(int, char**, char**);

// The linker's names for the two ends of the section.
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

// SPDX-License-Identifier: Apache-2.0
// Makes torch_google.tpu._C a built-in module of the interpreter. Its static
// constructors register kernels with torch, so they must run after torch's own.
// As in a shared library, they run when the module is imported.

#include <Python.h>

// PyInit__C from module.cpp. BUILD renames it.
extern PyObject* torch_google_tpu_module(void);
extern void torch_static_constructors(void);

typedef void (*constructor)(int, char**, char**);

// The linker defines these symbols at the start and end of the section
// torch_google_tpu_init_array.
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

// SPDX-License-Identifier: Apache-2.0
// torch._C and functorch._C as modules of the interpreter's own table. The
// constructors of torch's libraries were put aside by deferred.bzl: the first
// import of either module runs them, once, as the loader of a shared library
// would.

#include <Python.h>

// Both are upstream's. torch._C's module function is called by the stub of a
// shared library elsewhere; functorch's is the only PyInit__C of the program.
extern PyObject* initModule(void);
extern PyObject* PyInit__C(void);

typedef void (*constructor)(int, char**, char**);

// The linker's names for the two ends of the section.
extern constructor __start_torch_init_array[];
extern constructor __stop_torch_init_array[];

extern char** environ;

// With the GIL: only one thread comes here at a time. Also for whoever
// registers something with torch.
void torch_static_constructors(void) {
  static int done;
  if (done) return;
  done = 1;
  static char* no_arguments[] = {"", NULL};
  for (constructor* each = __start_torch_init_array;
       each < __stop_torch_init_array; ++each) {
    (*each)(1, no_arguments, environ);
  }
}

PyObject* torch_static_init(void) {
  torch_static_constructors();
  return initModule();
}

PyObject* functorch_static_init(void) {
  torch_static_constructors();
  return PyInit__C();
}

// C++'s name for manager.cpp's main, which is no longer main.
extern int torch_manager_main(int,
                              char**) __asm__("_Z22torch_shm_manager_mainiPPc");

int torch_static_shm_manager(int argc, char** argv) {
  return torch_manager_main(argc, argv);
}

// SPDX-License-Identifier: Apache-2.0
// torch._C and functorch._C as built-in modules of the interpreter.
// deferred.bzl defers the constructors of torch's libraries. The first import
// of either module runs them once, as loading a shared library would.

#include <Python.h>

// Upstream defines both functions. initModule creates torch._C; in other
// builds, a stub library calls it. The only PyInit__C in the program is
// functorch's.
extern PyObject* initModule(void);
extern PyObject* PyInit__C(void);

typedef void (*constructor)(int, char**, char**);

// The start and the end of the constructors' section. The linker defines both.
extern constructor __start_torch_init_array[];
extern constructor __stop_torch_init_array[];

extern char** environ;

// Runs torch's constructors once. The caller holds the GIL, so only one thread
// runs this. Other extensions call it before they register kernels with torch.
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

// The mangled name of manager.cpp's main, which the build renames.
extern int torch_manager_main(int,
                              char**) __asm__("_Z22torch_shm_manager_mainiPPc");

int torch_static_shm_manager(int argc, char** argv) {
  return torch_manager_main(argc, argv);
}

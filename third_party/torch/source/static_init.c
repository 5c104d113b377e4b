// SPDX-License-Identifier: Apache-2.0
// Makes torch._C and functorch._C built-in modules of the interpreter.
// deferred.bzl defers the static constructors of torch's libraries. The first
// import of one of these modules runs them, as loading a shared library would.

#include <Python.h>

// Upstream defines both functions. initModule creates torch._C; in upstream's
// build, the PyInit__C of a stub library calls it. The PyInit__C in this
// program creates functorch._C.
extern PyObject* initModule(void);
extern PyObject* PyInit__C(void);

typedef void (*constructor)(int, char**, char**);

// The start and the end of the constructors' section, defined by the linker.
extern constructor __start_torch_init_array[];
extern constructor __stop_torch_init_array[];

extern char** environ;

// Runs torch's constructors if they have not run yet. The caller must hold the
// GIL. Other extensions call this before they register kernels with torch.
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

// The main function in manager.cpp. The build renames this function, so the
// declaration uses the mangled form of the new name.
extern int torch_manager_main(int,
                              char**) __asm__("_Z22torch_shm_manager_mainiPPc");

int torch_static_shm_manager(int argc, char** argv) {
  return torch_manager_main(argc, argv);
}

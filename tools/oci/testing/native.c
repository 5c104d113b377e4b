// SPDX-License-Identifier: Apache-2.0
// An extension module that is linked into a program's interpreter.

#include <Python.h>

static PyObject* answer(PyObject* self, PyObject* unused) {
  (void)self;
  (void)unused;
  return PyLong_FromLong(42);
}

static PyMethodDef methods[] = {
    {"answer", answer, METH_NOARGS, "Returns 42."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tools.oci.testing._native", NULL, 0, methods,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }

// SPDX-License-Identifier: Apache-2.0
// An extension module that needs a library in another wheel.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

int par_test_needed_value(void);

static PyObject* value(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyLong_FromLong(par_test_needed_value());
}

static PyMethodDef methods[] = {
    {"value", value, METH_NOARGS, "The other library's number."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "par_test_needy",
                                        NULL,
                                        0,
                                        methods,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit_par_test_needy(void) {
  return PyModule_Create(&definition);
}

// SPDX-License-Identifier: Apache-2.0
// A module with single-phase initialization, which takes its name from the
// importer while its init function runs.
#include <Python.h>

static PyObject* answer(PyObject* self, PyObject* unused) {
  (void)self;
  (void)unused;
  return PyLong_FromLong(1);
}

static PyMethodDef methods[] = {
    {"answer", answer, METH_NOARGS, "answer() -> 1"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&definition); }

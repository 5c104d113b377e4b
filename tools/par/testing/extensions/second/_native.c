// SPDX-License-Identifier: Apache-2.0
// A module with multi-phase initialization. Like the first extension's module,
// it is named _native.
#include <Python.h>

static PyObject* answer(PyObject* self, PyObject* unused) {
  (void)self;
  (void)unused;
  return PyLong_FromLong(2);
}

static PyMethodDef methods[] = {
    {"answer", answer, METH_NOARGS, "answer() -> 2"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_size = 0,
    .m_methods = methods,  .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }

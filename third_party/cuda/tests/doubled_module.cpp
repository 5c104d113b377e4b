// SPDX-License-Identifier: Apache-2.0
//
// The Python module `_doubled`. Its function `doubled` accepts and returns a
// list of floats.

#include <Python.h>

#include <exception>
#include <vector>

#include "third_party/cuda/tests/doubled.h"

namespace {

PyObject* doubled_list(PyObject*, PyObject* list) {
  std::vector<float> values;
  Py_ssize_t size = PySequence_Size(list);
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PySequence_GetItem(list, i);
    values.push_back(item ? static_cast<float>(PyFloat_AsDouble(item)) : 0.0F);
    Py_XDECREF(item);
  }
  if (PyErr_Occurred()) {
    return nullptr;
  }
  try {
    values = doubled(values);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
  PyObject* results = PyList_New(0);
  for (float value : values) {
    PyObject* item = PyFloat_FromDouble(value);
    if (!item || PyList_Append(results, item) != 0) {
      Py_XDECREF(item);
      Py_DECREF(results);
      return nullptr;
    }
    Py_DECREF(item);
  }
  return results;
}

PyMethodDef methods[] = {
    {"doubled", doubled_list, METH_O,
     "Return twice each float, computed on the GPU."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "_doubled",
                      nullptr,
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__doubled(void) { return PyModule_Create(&module); }

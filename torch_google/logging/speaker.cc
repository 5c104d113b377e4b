// SPDX-License-Identifier: Apache-2.0
// Logs messages the way torch's C++ code does, for the tests.

#include <Python.h>

#include <thread>

#include "absl/base/log_severity.h"
#include "absl/flags/flag.h"
#include "absl/log/log.h"

// In a real program, torch defines this flag.
ABSL_FLAG(int, c10_caffe2_log_level, 1, "");

namespace {

PyObject* Say(PyObject*, PyObject* arguments) {
  int severity;
  const char* text;
  if (!PyArg_ParseTuple(arguments, "is", &severity, &text)) return nullptr;
  LOG(LEVEL(static_cast<absl::LogSeverity>(severity))) << text;
  Py_RETURN_NONE;
}

PyObject* SayVerbosely(PyObject*, PyObject* arguments) {
  int level;
  const char* text;
  if (!PyArg_ParseTuple(arguments, "is", &level, &text)) return nullptr;
  VLOG(level) << text;
  Py_RETURN_NONE;
}

// Logs from a new C++ thread and waits for it without releasing the GIL.
PyObject* SayMuch(PyObject*, PyObject* arguments) {
  int count;
  if (!PyArg_ParseTuple(arguments, "i", &count)) return nullptr;
  std::thread speaker([count] {
    for (int i = 0; i < count; ++i) LOG(WARNING) << "number " << i;
  });
  speaker.join();
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"say", Say, METH_VARARGS, nullptr},
    {"say_verbosely", SayVerbosely, METH_VARARGS, nullptr},
    {"say_much", SayMuch, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "_speaker",
                      nullptr,
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__speaker(void) { return PyModule_Create(&module); }

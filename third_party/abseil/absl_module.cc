// SPDX-License-Identifier: Apache-2.0
// The Python module `_absl`, which gives access to Abseil's C++ log and flags
// in an interpreter that is linked with Abseil. The module sets no policy:
// Python code chooses the log levels and flag values.

#include <Python.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "absl/base/log_severity.h"
#include "absl/flags/reflection.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/internal/globals.h"
#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace {

// A sink that writes messages to standard error in a format that identifies
// them as C++ messages and can be parsed:
//
//   [W1121 18:27:56.372313983 socket.cpp:955] text
//
// A message may come from a thread that does not hold the GIL, even from one
// that the holder of the GIL is waiting for, so this code never calls Python.
// Python code can read these lines in another thread and turn them into log
// records.
class Tagged : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    // Abseil sends a fatal message twice, the second time with a stack trace.
    if (!entry.stacktrace().empty()) {
      Write(entry.stacktrace());
      return;
    }
    const timespec time = absl::ToTimespec(entry.timestamp());
    tm local;
    localtime_r(&time.tv_sec, &local);
    char head[64];
    snprintf(head, sizeof(head), "[%c%02d%02d %02d:%02d:%02d.%09ld ",
             Letter(entry), local.tm_mon + 1, local.tm_mday, local.tm_hour,
             local.tm_min, local.tm_sec, static_cast<long>(time.tv_nsec));
    std::string line = head;
    line.append(entry.source_basename());
    line += ':' + std::to_string(entry.source_line()) + "] ";
    line.append(entry.text_message());
    line += '\n';
    Write(line);
  }

 private:
  static char Letter(const absl::LogEntry& entry) {
    if (entry.verbosity() > 0) return 'V';
    return absl::LogSeverityName(entry.log_severity())[0];
  }

  // Writes `text` in as few system calls as the kernel allows, because other
  // code also writes to standard error.
  static void Write(absl::string_view text) {
    while (!text.empty()) {
      const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return;
      text.remove_prefix(written);
    }
  }
};

// Initializes the log, unless another library has done so in this process.
void InitializeOnce() {
  if (!absl::log_internal::IsInitialized()) absl::InitializeLog();
}

PyObject* SetLogLevels(PyObject*, PyObject* arguments) {
  int least, verbosity;
  if (!PyArg_ParseTuple(arguments, "ii", &least, &verbosity)) return nullptr;
  if (least < 0 || least > static_cast<int>(absl::LogSeverityAtLeast::kFatal)) {
    return PyErr_Format(PyExc_ValueError,
                        "_absl.set_log_levels: severity %d; give 0 (INFO), 1 "
                        "(WARNING), 2 (ERROR) or 3 (FATAL)",
                        least);
  }
  absl::SetMinLogLevel(static_cast<absl::LogSeverityAtLeast>(least));
  absl::SetGlobalVLogLevel(verbosity);
  Py_RETURN_NONE;
}

PyObject* SetModuleLevel(PyObject*, PyObject* arguments) {
  const char* pattern;
  int level;
  if (!PyArg_ParseTuple(arguments, "si", &pattern, &level)) return nullptr;
  absl::SetVLogLevel(pattern, level);
  Py_RETURN_NONE;
}

PyObject* TagMessages(PyObject*, PyObject* argument) {
  const int on = PyObject_IsTrue(argument);
  if (on < 0) return nullptr;
  static Tagged* const sink = new Tagged;
  static bool tagged = false;
  if (on && !tagged) {
    // Before initialization, Abseil writes all messages to standard error.
    InitializeOnce();
    absl::AddLogSink(sink);
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  } else if (!on && tagged) {
    absl::RemoveLogSink(sink);
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfo);
  }
  tagged = on;
  Py_RETURN_NONE;
}

PyObject* GetFlags(PyObject*, PyObject*) {
  PyObject* flags = PyDict_New();
  if (!flags) return nullptr;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (flag->IsRetired()) continue;
    const std::string value = flag->CurrentValue();
    PyObject* key = PyUnicode_DecodeUTF8(name.data(), name.size(), "replace");
    PyObject* text =
        PyUnicode_DecodeUTF8(value.data(), value.size(), "replace");
    const bool stored = key && text && PyDict_SetItem(flags, key, text) == 0;
    Py_XDECREF(key);
    Py_XDECREF(text);
    if (!stored) {
      Py_DECREF(flags);
      return nullptr;
    }
  }
  return flags;
}

PyObject* SetFlag(PyObject*, PyObject* arguments) {
  const char* name;
  const char* value;
  if (!PyArg_ParseTuple(arguments, "ss", &name, &value)) return nullptr;
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(name);
  if (!flag) {
    return PyErr_Format(PyExc_LookupError,
                        "_absl.set_flag: no C++ flag is called '%s'; "
                        "_absl.flags() lists them",
                        name);
  }
  std::string error;
  if (!flag->ParseFrom(value, &error)) {
    return PyErr_Format(PyExc_ValueError, "_absl.set_flag: %s", error.c_str());
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_log_levels", SetLogLevels, METH_VARARGS,
     "set_log_levels(least, verbosity): set the least severity that is logged, "
     "and the highest VLOG level."},
    {"set_module_level", SetModuleLevel, METH_VARARGS,
     "set_module_level(pattern, level): set the highest VLOG level of files by "
     "name without extension. Takes precedence over earlier patterns."},
    {"tag_messages", TagMessages, METH_O,
     "tag_messages(on): write messages to standard error as `[W1121 "
     "18:27:56.372313983 file.cc:955] text`, each in one write."},
    {"flags", GetFlags, METH_NOARGS, "flags() -> {name: value}, as text."},
    {"set_flag", SetFlag, METH_VARARGS,
     "set_flag(name, value). Raises LookupError or ValueError."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    "_absl",
    "Abseil's C++ log and flags.",
    -1,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__absl(void) { return PyModule_Create(&module); }

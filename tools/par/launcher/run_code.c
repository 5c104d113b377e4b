// SPDX-License-Identifier: Apache-2.0
// These functions follow Modules/main.c and Python/pythonrun.c of CPython 3.11
// step by step, but unlike Py_RunMain(), they never finalize the interpreter.
#include "tools/par/launcher/run_code.h"

#include <Python.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// CPython exports these functions and variables, but its public headers do not
// declare them.
extern int _Py_HandleSystemExit(int* status);
extern int _Py_UnhandledKeyboardInterrupt;
extern int _PyPathConfig_ComputeSysPath0(const PyWideStringList* argv,
                                         PyObject** path);

static int status_of_error(void) {
  int status;
  if (_Py_HandleSystemExit(&status)) return status & 0xFF;
  int interrupted = _Py_UnhandledKeyboardInterrupt;
  PyErr_Print();  // calls sys.excepthook, which may reset the variable
  return interrupted ? -SIGINT : 1;
}

static int status_of_result(PyObject* result) {
  if (!result) return status_of_error();
  Py_DECREF(result);
  return 0;
}

// Inserts the script's directory or, without a script, the current directory at
// the start of sys.path. Returns 0, or -1 with an exception set.
static int add_first_path(const PyConfig* config) {
  PyObject* path = NULL;
  if (config->safe_path) return 0;
  int computed = _PyPathConfig_ComputeSysPath0(&config->argv, &path);
  if (computed <= 0) return computed;
  PyObject* list = PySys_GetObject("path");
  int result = 0;
  if (!list) {
    PyErr_SetString(PyExc_RuntimeError, "unable to get sys.path");
    result = -1;
  } else {
    result = PyList_Insert(list, 0, path);
  }
  Py_DECREF(path);
  return result;
}

static PyObject* main_namespace(void) {
  PyObject* module = PyImport_AddModule("__main__");
  return module ? PyModule_GetDict(module) : NULL;
}

static int run_command(const wchar_t* command) {
  PyObject* text = PyUnicode_FromWideChar(command, -1);
  PyObject* bytes = NULL;
  if (text && PySys_Audit("cpython.run_command", "O", text) == 0) {
    bytes = PyUnicode_AsUTF8String(text);
  }
  Py_XDECREF(text);
  if (!bytes) {
    if (PyErr_ExceptionMatches(PyExc_UnicodeError)) {
      PySys_WriteStderr(
          "Unable to decode the command from the command line:\n");
    }
    return status_of_error();
  }
  PyCompilerFlags flags = _PyCompilerFlags_INIT;
  flags.cf_flags |= PyCF_IGNORE_COOKIE;
  PyObject* names = main_namespace();
  PyObject* result =
      names ? PyRun_StringFlags(PyBytes_AS_STRING(bytes), Py_file_input, names,
                                names, &flags)
            : NULL;
  Py_DECREF(bytes);
  return status_of_result(result);
}

static int run_module(const wchar_t* name) {
  if (PySys_Audit("cpython.run_module", "u", name) < 0) {
    return status_of_error();
  }
  PyObject* runpy = PyImport_ImportModule("runpy");
  PyObject* module = runpy ? PyUnicode_FromWideChar(name, -1) : NULL;
  PyObject* result = NULL;
  _Py_UnhandledKeyboardInterrupt = 0;
  if (module) {
    result = PyObject_CallMethod(runpy, "_run_module_as_main", "OO", module,
                                 Py_True);
  }
  if (!result && PyErr_Occurred() == PyExc_KeyboardInterrupt) {
    _Py_UnhandledKeyboardInterrupt = 1;
  }
  Py_XDECREF(module);
  Py_XDECREF(runpy);
  return status_of_result(result);
}

// Opens the file `path` if it is Python source. Returns NULL, without setting
// an exception, if it is something else (a directory or archive with a
// __main__.py, a .pyc file or a terminal) or cannot be opened. Py_RunMain()
// then runs it or reports the error.
static FILE* open_source(PyObject* name, const char* path) {
  PyObject* importer = PyImport_GetImporter(name);
  int plain = importer == Py_None;
  Py_XDECREF(importer);
  PyErr_Clear();
  if (!plain) return NULL;
  size_t length = strlen(path);
  if (length >= 4 && strcmp(path + length - 4, ".pyc") == 0) return NULL;
  FILE* file = fopen(path, "rbe");
  struct stat status;
  unsigned char magic[2];
  if (!file) return NULL;
  unsigned half = (unsigned)PyImport_GetMagicNumber() & 0xFFFF;
  if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
      (fread(magic, 1, 2, file) != 2 ||
       ((unsigned)magic[1] << 8 | magic[0]) != half)) {
    rewind(file);
    return file;
  }
  fclose(file);
  return NULL;
}

static int set_file(PyObject* names, PyObject* name) {
  PyObject* external = PyImport_ImportModule("_frozen_importlib_external");
  PyObject* loader = external
                         ? PyObject_CallMethod(external, "SourceFileLoader",
                                               "sO", "__main__", name)
                         : NULL;
  int result = -1;
  if (loader && PyDict_SetItemString(names, "__file__", name) == 0 &&
      PyDict_SetItemString(names, "__cached__", Py_None) == 0) {
    result = PyDict_SetItemString(names, "__loader__", loader);
  }
  Py_XDECREF(loader);
  Py_XDECREF(external);
  return result;
}

static int run_file(PyObject* name, const char* path, FILE* file) {
  PyObject* names = main_namespace();
  if (PySys_Audit("cpython.run_file", "O", name) < 0 || !names ||
      Py_MakePendingCalls() < 0 || set_file(names, name) < 0) {
    fclose(file);
    return status_of_error();
  }
  PyCompilerFlags flags = _PyCompilerFlags_INIT;
  int status = status_of_result(
      PyRun_FileExFlags(file, path, Py_file_input, names, names, 1, &flags));
  if (PyDict_DelItemString(names, "__file__") < 0) PyErr_Clear();
  if (PyDict_DelItemString(names, "__cached__") < 0) PyErr_Clear();
  return status;
}

int par_run_code(void) {
  const PyConfig* config = _Py_GetConfig();
  if (config->inspect || config->skip_source_first_line) return PAR_NOT_CODE;
  if (config->run_command || config->run_module) {
    if (add_first_path(config) < 0) return status_of_error();
    return config->run_command ? run_command(config->run_command)
                               : run_module(config->run_module);
  }
  if (!config->run_filename) return PAR_NOT_CODE;
  PyObject* name = PyUnicode_FromWideChar(config->run_filename, -1);
  PyObject* path = name ? PyUnicode_EncodeFSDefault(name) : NULL;
  FILE* file = path ? open_source(name, PyBytes_AS_STRING(path)) : NULL;
  int status = PAR_NOT_CODE;
  if (file) {
    if (add_first_path(config) < 0) {
      fclose(file);
      status = status_of_error();
    } else {
      status = run_file(name, PyBytes_AS_STRING(path), file);
    }
  }
  PyErr_Clear();
  Py_XDECREF(path);
  Py_XDECREF(name);
  return status;
}

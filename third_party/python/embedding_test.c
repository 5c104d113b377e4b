// SPDX-License-Identifier: Apache-2.0
// Tests that a program that embeds :libpython with :stdlib, as the PAR launcher
// does, exports the C API and can use the standard library.
// usage: embedding_test STDLIB_DIRECTORY
#include <Python.h>
#include <dlfcn.h>
#include <stdio.h>

static const char kProgram[] =
    "import _ctypes, _lzma, os, ssl, sqlite3, sys\n"
    "paths = [os.path.abspath(path) for path in sys.path]\n"
    "assert paths == [os.path.dirname(ssl.__file__)], (paths, ssl)\n"
    "query = sqlite3.connect(':memory:').execute('select 6 * 7')\n"
    "assert query.fetchone() == (42,)\n";

int main(int argc, char** argv) {
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.site_import = 0;
  config.module_search_paths_set = 1;
  wchar_t* stdlib = Py_DecodeLocale(argc > 1 ? argv[1] : "", NULL);
  PyStatus status =
      PyWideStringList_Append(&config.module_search_paths, stdlib);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  if (PyStatus_Exception(status)) Py_ExitStatusException(status);

  if (!dlsym(RTLD_DEFAULT, "PyCapsule_Import")) {
    fputs("embedding_test: the executable does not export the C API\n", stderr);
    return 1;
  }
  int result = PyRun_SimpleString(kProgram);
  return Py_FinalizeEx() < 0 || result != 0;
}

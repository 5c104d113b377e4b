// SPDX-License-Identifier: Apache-2.0
// The main function of a PAR, which runs CPython with a configuration that does
// not depend on anything installed on the machine.

#include <Python.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/par/launcher/archive.h"
#include "tools/par/launcher/doors.h"
#include "tools/par/launcher/frozen.h"
#include "tools/par/launcher/invocation.h"
#include "tools/par/launcher/par_module.h"
#include "tools/par/launcher/run_code.h"
#include "tools/par/launcher/static_extensions.h"

#define STDLIB_IN_ARCHIVE "lib/python3.11"

static int fail(PyStatus status, PyConfig* config) {
  if (config) PyConfig_Clear(config);
  if (PyStatus_IsExit(status)) return status.exitcode;
  Py_ExitStatusException(status);
  return 1;
}

static PyStatus set_path(PyConfig* config, wchar_t** field, const char* path) {
  return PyConfig_SetBytesString(config, field, path);
}

static PyStatus add_search_path(PyConfig* config, const char* path) {
  wchar_t* wide = Py_DecodeLocale(path, NULL);
  if (!wide) return PyStatus_NoMemory();
  PyStatus status = PyWideStringList_Append(&config->module_search_paths, wide);
  PyMem_RawFree(wide);
  return status;
}

// Returns 1 if the category in a warning filter
// (action:message:category:module:line) contains a dot. The warnings module
// would import the part of the category before the dot.
static int imports_a_module(const char* option) {
  for (int colons = 0; colons < 2; colons++) {
    option = strchr(option, ':');
    if (!option) return 0;
    option++;
  }
  return memchr(option, '.', strcspn(option, ":")) != NULL;
}

// Reads the environment variables that change how code runs, but not which code
// runs. PYTHONPATH, PYTHONHOME and similar variables are ignored.
static PyStatus read_harmless_environment(PyConfig* config,
                                          const char* program) {
  const char* value = getenv("PYTHONHASHSEED");
  if (value && *value && strcmp(value, "random") != 0) {
    char* end;
    unsigned long seed = strtoul(value, &end, 10);
    if (*end == '\0' && seed <= 4294967295UL) {
      config->use_hash_seed = 1;
      config->hash_seed = seed;
    }
  }
  if ((value = getenv("PYTHONUNBUFFERED")) && *value) {
    config->buffered_stdio = 0;
  }
  if ((value = getenv("PYTHONFAULTHANDLER")) && *value) {
    config->faulthandler = 1;
  }
  if (!(value = getenv("PYTHONWARNINGS")) || !*value) return PyStatus_Ok();
  char* copy = strdup(value);
  PyStatus status = PyStatus_Ok();
  char* rest = NULL;
  for (char* option = copy ? strtok_r(copy, ",", &rest) : NULL;
       option && !PyStatus_Exception(status);
       option = strtok_r(NULL, ",", &rest)) {
    if (imports_a_module(option)) {
      fprintf(stderr,
              "%s: PYTHONWARNINGS: '%s' is ignored: it would import its "
              "category's module; name a builtin category\n",
              program, option);
      continue;
    }
    wchar_t* wide = Py_DecodeLocale(option, NULL);
    status = wide ? PyWideStringList_Append(&config->warnoptions, wide)
                  : PyStatus_NoMemory();
    PyMem_RawFree(wide);
  }
  free(copy);
  return status;
}

#define TRY(expression)                            \
  do {                                             \
    status = (expression);                         \
    if (PyStatus_Exception(status)) return status; \
  } while (0)

static PyStatus configure(PyConfig* config, const struct par_invocation* in) {
  PyStatus status;
  char stdlib[PATH_MAX + sizeof(STDLIB_IN_ARCHIVE) + 1];
  if (in->layout == PAR_LAYOUT_TOOL) {
    snprintf(stdlib, sizeof(stdlib), "%s", in->tool_stdlib);
  } else {
    snprintf(stdlib, sizeof(stdlib), "%s/%s", in->program, STDLIB_IN_ARCHIVE);
  }
  config->site_import = 0;
  config->write_bytecode = 0;
  config->pathconfig_warnings = 0;
  config->install_signal_handlers = 1;
  config->parse_argv = in->interpreter;
  if (in->interpreter) {
    // As in CPython, sys.path starts with the script's directory, or with the
    // current directory if there is no script. The environment and the user's
    // site-packages are still ignored.
    config->isolated = 0;
    config->safe_path = 0;
  }
  TRY(read_harmless_environment(config, in->program));
  TRY(set_path(config, &config->program_name, in->program));
  TRY(set_path(config, &config->executable, in->program));
  TRY(set_path(config, &config->base_executable, in->program));
  TRY(set_path(config, &config->home, in->program));
  TRY(set_path(config, &config->prefix, in->program));
  TRY(set_path(config, &config->base_prefix, in->program));
  TRY(set_path(config, &config->exec_prefix, in->program));
  TRY(set_path(config, &config->base_exec_prefix, in->program));
  TRY(set_path(config, &config->stdlib_dir, stdlib));
  config->module_search_paths_set = 1;
  if (in->layout == PAR_LAYOUT_PACKED) {
    TRY(add_search_path(config, in->program));
  }
  if (in->layout != PAR_LAYOUT_RUNFILES) TRY(add_search_path(config, stdlib));
  return PyConfig_SetBytesArgv(config, in->argc, in->argv);
}

// Moves the warning filters from `config` to `out`. If they stayed, CPython
// would import the warnings module before boot() has opened the archive that
// contains it. Only the filters for -b and -X dev stay in `config`, because
// CPython adds them again.
static PyStatus hold_back_warning_filters(PyConfig* config,
                                          PyWideStringList* out) {
  PyStatus status = PyConfig_Read(config);
  if (PyStatus_Exception(status)) return status;
  *out = config->warnoptions;
  config->warnoptions.length = 0;
  config->warnoptions.items = NULL;
  return status;
}

// Appends `filters` to sys.warnoptions and frees them. The warnings module
// reads sys.warnoptions when it is imported. On failure, sets an exception and
// returns -1.
static int restore_warning_filters(PyWideStringList* filters) {
  PyObject* options = PySys_GetObject("warnoptions");
  int status = 0;
  for (Py_ssize_t i = 0; i < filters->length; i++) {
    PyObject* filter = PyUnicode_FromWideChar(filters->items[i], -1);
    if (!filter || PyList_Append(options, filter) != 0) status = -1;
    Py_XDECREF(filter);
    PyMem_RawFree(filters->items[i]);
  }
  PyMem_RawFree(filters->items);
  return status;
}

static int register_modules(void) {
  static struct _inittab table[2] = {{"_par", PyInit__par}, {NULL, NULL}};
  if (PyImport_ExtendInittab(table) != 0) return -1;
  for (const struct par_static_extension* e = par_static_extensions; e->name;
       e++) {
    if (PyImport_AppendInittab(e->name, e->init) != 0) return -1;
  }
  PyImport_FrozenModules = par_frozen_modules;
  return 0;
}

// Calls _par_boot.start(layout, program, file, config, interpreter, raised) and
// returns its result: an exit status, None or a function.
static PyObject* boot(const struct par_invocation* in) {
  PyObject* module = PyImport_ImportModule("_par_boot");
  if (!module) return NULL;
  PyObject* program = PyUnicode_DecodeFSDefault(in->program);
  PyObject* config = PyUnicode_DecodeFSDefault(in->config);
  PyObject* result = NULL;
  if (program && config) {
    result = PyObject_CallMethod(
        module, "start", "sOzOii",
        in->layout == PAR_LAYOUT_PACKED ? "packed" : "runfiles", program,
        in->file, config, in->interpreter, in->raised);
  }
  Py_XDECREF(program);
  Py_XDECREF(config);
  Py_DECREF(module);
  return result;
}

// If PAR_VERIFY=1, checks the whole file before Python starts. Returns 0 on
// success, else prints a one-line error and returns an exit status.
static int verify(const struct par_invocation* in) {
  if (!par_door("PAR_VERIFY")) return 0;
  unsetenv("PAR_VERIFY");  // children need not check the same file again
  if (in->layout != PAR_LAYOUT_PACKED) return 0;
  struct par_archive archive;
  const char* problem =
      par_archive_open(in->file, in->config[0] ? in->config : NULL, &archive);
  if (!problem) problem = par_archive_verify(&archive);
  par_archive_close(&archive);
  if (!problem) return 0;
  fprintf(stderr, "%s: PAR_VERIFY: %s; build or copy the file again\n",
          in->program, problem);
  return 1;
}

// Finalizes the interpreter and returns the exit status `code`. If `code` is
// negative, kills the process with the signal -code instead, as Python does
// after Ctrl-C.
static int finish(int code) {
  if (Py_FinalizeEx() < 0) code = 120;
  if (code >= 0) return code;
  signal(-code, SIG_DFL);
  kill(getpid(), -code);
  return 128 - code;
}

// Runs the code that the command line specifies, then calls `leave`, which
// exits the process. If a stream cannot be flushed, `leave` returns instead,
// and the interpreter is finalized, because only finalization reports that
// error.
static int run_interpreter(PyObject* leave) {
  int code = par_run_code();
  if (code == PAR_NOT_CODE) return Py_RunMain();
  PyObject* result = PyObject_CallFunction(leave, "i", code);
  if (!result) PyErr_Print();
  Py_XDECREF(result);
  return finish(code);
}

static const struct par_static_program* called_by_name(const char* name) {
  const char* slash = strrchr(name, '/');
  if (slash) name = slash + 1;
  const struct par_static_program* program = par_static_programs;
  while (program->name && strcmp(program->name, name) != 0) program++;
  return program->name ? program : NULL;
}

int main(int argc, char** argv) {
  const struct par_static_program* program =
      argc > 0 && !par_raised() ? called_by_name(argv[0]) : NULL;
  if (program) return program->main(argc, argv);
  struct par_invocation in;
  int code = par_read_invocation(argc, argv, &in);
  if (code == 0) code = verify(&in);
  if (code != 0) return code;
  // Even in an isolated interpreter, sysconfig reads the _PYTHON_* variables,
  // one of which specifies a module to import.
  if (in.layout != PAR_LAYOUT_TOOL) par_drop_environment("_PYTHON_");

  PyPreConfig preconfig;
  PyPreConfig_InitIsolatedConfig(&preconfig);
  preconfig.utf8_mode = 1;  // use UTF-8 on every machine
  PyStatus status = Py_PreInitialize(&preconfig);
  if (PyStatus_Exception(status)) return fail(status, NULL);
  if (register_modules() != 0) return fail(PyStatus_NoMemory(), NULL);

  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  status = configure(&config, &in);
  PyWideStringList filters = {0, NULL};
  if (!PyStatus_Exception(status) && in.layout == PAR_LAYOUT_RUNFILES) {
    status = hold_back_warning_filters(&config, &filters);
  }
  if (PyStatus_Exception(status)) return fail(status, &config);
  status = Py_InitializeFromConfig(&config);
  if (PyStatus_Exception(status)) return fail(status, &config);
  PyConfig_Clear(&config);

  if (in.layout == PAR_LAYOUT_TOOL) return Py_RunMain();
  PyObject* result = restore_warning_filters(&filters) ? NULL : boot(&in);
  if (!result) {
    PyErr_Print();  // exits for a SystemExit, such as ArchiveError
    Py_FinalizeEx();
    return 1;
  }
  if (result == Py_None) return Py_RunMain();
  if (!PyLong_Check(result)) return run_interpreter(result);
  code = (int)PyLong_AsLong(result);
  Py_DECREF(result);
  return finish(code);
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/invocation.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/par/launcher/seal.h"

__attribute__((used)) volatile const struct par_seal par_seal = {
    .magic = PAR_SEAL_MAGIC,
    .file_size = 0,
};

static const char kStdlibFlag[] = "--par-stdlib=";
// The only argument of a "#!" line that stands in for a python3 link where no
// directory is writable; runtime/executable.py writes it.
static const char kInterpreterFlag[] = "--par-interpreter";

static const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// "python", "python3", "python3.11": a program may well be called
// python_something.
static int is_interpreter_name(const char* path) {
  static const char kPython[] = "python";
  const char* name = base_name(path);
  size_t length = strlen(kPython);
  if (strncmp(name, kPython, length) != 0) return 0;
  return name[length + strspn(name + length, "0123456789.")] == '\0';
}

// The path that was executed, absolute, links not resolved: a runfiles tree
// and a python3 link are told apart from the file that they point to.
static void executed_path(const char* argv0, char out[PATH_MAX]) {
  const char* path = (const char*)getauxval(AT_EXECFN);
  if (!path || !*path) path = argv0;
  char here[PATH_MAX];
  int n;
  if (path[0] == '/' || !getcwd(here, sizeof(here))) {
    n = snprintf(out, PATH_MAX, "%s", path);
  } else {
    n = snprintf(out, PATH_MAX, "%s/%s", here, path);
  }
  if (n >= PATH_MAX) out[0] = '\0';
}

static int own_file(const char* argv0, char out[PATH_MAX]) {
  ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
  if (n > 0) {
    out[n] = '\0';
    return 0;
  }
  char executed[PATH_MAX];
  executed_path(argv0, executed);
  if (realpath(executed, out)) return 0;
  fprintf(stderr,
          "%s: cannot find its own file: /proc is not mounted and the path it "
          "was started by is gone; mount /proc or start it by its full path\n",
          argv0);
  return 3;
}

static int check_size(const char* path) {
  struct stat st;
  if (stat(path, &st) != 0) {
    fprintf(stderr, "%s: cannot stat: %s\n", path, strerror(errno));
    return 3;
  }
  if ((uint64_t)st.st_size != par_seal.file_size) {
    fprintf(stderr,
            "%s: the file has %" PRIu64 " bytes and should have %" PRIu64
            ": it is truncated or was changed; build or copy it again\n",
            path, (uint64_t)st.st_size, (uint64_t)par_seal.file_size);
    return 1;
  }
  return 0;
}

static int truthy(const char* name) {
  const char* value = getenv(name);
  return value && *value && strcmp(value, "0") != 0;
}

int par_read_invocation(int argc, char** argv, struct par_invocation* out) {
  memset(out, 0, sizeof(*out));
  out->argc = argc;
  out->argv = argv;
  char executed[PATH_MAX];
  executed_path(argv[0], executed);
  out->interpreter = is_interpreter_name(executed) ||
                     is_interpreter_name(argv[0]) || truthy("PAR_INTERPRETER");

  if (par_seal.file_size != 0) {
    out->layout = PAR_LAYOUT_PACKED;
    int status = own_file(argv[0], out->program);
    if (status == 0) status = check_size(out->program);
    if (status != 0) return status;
    if (argc > 1 && strcmp(argv[1], kInterpreterFlag) == 0) {
      // "#!PAR --par-interpreter": argv is PAR, the flag, the script, the rest.
      out->interpreter = 1;
      out->argc -= 2;
      out->argv += 2;
    }
    return 0;
  }

  if (argc > 1 && strncmp(argv[1], kStdlibFlag, sizeof(kStdlibFlag) - 1) == 0) {
    out->layout = PAR_LAYOUT_TOOL;
    out->interpreter = 1;
    out->tool_stdlib = argv[1] + sizeof(kStdlibFlag) - 1;
    snprintf(out->program, sizeof(out->program), "%s", executed);
    argv[1] = argv[0];
    out->argc -= 1;
    out->argv += 1;
    return 0;
  }

  out->layout = PAR_LAYOUT_RUNFILES;
  snprintf(out->program, sizeof(out->program), "%s", executed);
  int n = snprintf(out->config, sizeof(out->config), "%s.par_config", executed);
  if (n >= (int)sizeof(out->config) || access(out->config, R_OK) != 0) {
    fprintf(stderr,
            "%s: this launcher holds no program: %s is not there; build a "
            "par_binary and run that\n",
            argv[0], out->config);
    return 3;
  }
  return 0;
}

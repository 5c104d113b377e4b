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

#include "tools/par/launcher/doors.h"
#include "tools/par/launcher/seal.h"

__attribute__((used)) volatile const struct par_seal par_seal = {
    .magic = PAR_SEAL_MAGIC,
    .file_size = 0,
    .flags = 0,
};

static const char kStdlibFlag[] = "--par-stdlib=";
// The argument in the "#!" line of a python3 script.
// runtime/par_runtime/executable.py writes this script if it finds no writable
// directory for a python3 link.
static const char kInterpreterFlag[] = "--par-interpreter";
static const char kOwnFile[] = "/proc/self/exe";

static const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Returns 1 for names such as "python", "python3" and "python3.11", but 0 for
// "python_tool".
static int is_interpreter_name(const char* path) {
  static const char kPython[] = "python";
  const char* name = base_name(path);
  size_t length = strlen(kPython);
  if (strncmp(name, kPython, length) != 0) return 0;
  return name[length + strspn(name + length, "0123456789.")] == '\0';
}

// Stores the absolute path that was executed, without resolving symbolic links:
// a link's own path identifies a runfiles launcher or a python3 link. Returns
// 0, or an exit status on failure.
static int executed_path(const char* argv0, char out[PATH_MAX]) {
  const char* path = (const char*)getauxval(AT_EXECFN);
  if (!path || !*path) path = argv0;
  char cwd[PATH_MAX];
  int n;
  if (path[0] == '/' || !getcwd(cwd, sizeof(cwd))) {
    n = snprintf(out, PATH_MAX, "%s", path);
  } else {
    n = snprintf(out, PATH_MAX, "%s/%s", cwd, path);
  }
  if (n < PATH_MAX) return 0;
  fprintf(stderr,
          "%s: its path has %d bytes and the limit is %d; start it from a "
          "shorter path\n",
          path, n, PATH_MAX - 1);
  return 3;
}

static int own_file(const char* argv0, struct par_invocation* out) {
  ssize_t n = readlink(kOwnFile, out->program, PATH_MAX - 1);
  if (n > 0) {
    out->program[n] = '\0';
    out->file = kOwnFile;
    return 0;
  }
  if (out->raised) {
    fprintf(stderr,
            "%s: it runs with raised rights and opens no path that its caller "
            "may have replaced: mount /proc or clear the setuid bit\n",
            argv0);
    return 3;
  }
  char executed[PATH_MAX];
  int status = executed_path(argv0, executed);
  if (status != 0) return status;
  out->file = out->program;
  if (realpath(executed, out->program)) return 0;
  fprintf(stderr,
          "%s: cannot find its own file: /proc is not mounted and the path it "
          "was started by is gone; mount /proc or start it by its full path\n",
          argv0);
  return 3;
}

static int check_size(const char* path, const char* file) {
  struct stat st;
  if (stat(file, &st) != 0) {
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

// Returns 1 if this process executes a script whose "#!" line is "#!PAR
// --par-interpreter". `argv` is then the PAR, the flag, the script and its
// arguments. Returns 0 if the caller itself passed the flag: in that case, the
// kernel does not report a script as the executed file.
static int is_script_line(int argc, char** argv) {
  const char* executed = (const char*)getauxval(AT_EXECFN);
  return argc > 2 && strcmp(argv[1], kInterpreterFlag) == 0 && executed &&
         strcmp(executed, argv[2]) == 0;
}

// Returns 1 if the .par_config file `config` contains the line that
// par_binary(doors = False) writes to it.
static int config_has_no_doors(const char* config) {
  FILE* stream = fopen(config, "re");
  if (!stream) return 0;
  char line[PATH_MAX];
  int no_doors = 0;
  while (!no_doors && fgets(line, sizeof(line), stream)) {
    no_doors = strcmp(line, "doors\t0\n") == 0;
  }
  fclose(stream);
  return no_doors;
}

// Decides whether this process runs as a Python interpreter. `asked` is 1 if
// the executed path, argv[0] or a script's "#!" line requests this. If `closed`
// is 1, the PAR_* variables are ignored and removed from the environment.
// Returns 0, or an exit status on failure.
static int read_doors(const char* name, int asked, int closed,
                      struct par_invocation* out) {
  if (closed) {
    par_close_doors();
    // Allow only the program's own children to run as interpreters.
    // multiprocessing and torchrun start such children with sys.executable.
    if (asked && (out->raised || !par_started_by_itself())) {
      fprintf(stderr,
              "%s: this program %s, so it is no Python interpreter for other "
              "programs; start it by its own name\n",
              name, out->raised ? "runs with raised rights" : "has no doors");
      return 1;
    }
  }
  out->interpreter = asked || par_door("PAR_INTERPRETER");
  return 0;
}

// Stores the path of the file that lists the archive's parts. Returns 0, or an
// exit status on failure.
static int find_parts(struct par_invocation* out) {
  if (out->raised) {
    fprintf(stderr,
            "%s: a program in parts loads code from files next to it; clear "
            "the setuid bit, or set it on a PAR that is one file\n",
            out->program);
    return 1;
  }
  int n =
      snprintf(out->config, sizeof(out->config), "%s.par_parts", out->program);
  if (n < (int)sizeof(out->config)) return 0;
  fprintf(stderr, "%s: its path is too long; start it from a shorter path\n",
          out->program);
  return 3;
}

static int read_packed(const char* name, int asked,
                       struct par_invocation* out) {
  out->layout = PAR_LAYOUT_PACKED;
  int status = own_file(name, out);
  if (status == 0) status = check_size(out->program, out->file);
  if (status != 0) return status;
  if (par_seal.flags & PAR_SEAL_IN_PARTS) {
    status = find_parts(out);
    if (status != 0) return status;
  }
  int script = is_script_line(out->argc, out->argv);
  int closed = out->raised || (par_seal.flags & PAR_SEAL_NO_DOORS);
  status = read_doors(name, asked || script, closed, out);
  if (status == 0 && script) {
    out->argc -= 2;
    out->argv += 2;
  }
  return status;
}

int par_read_invocation(int argc, char** argv, struct par_invocation* out) {
  memset(out, 0, sizeof(*out));
  out->argc = argc;
  out->argv = argv;
  out->raised = par_raised();
  const char* name = argc > 0 ? argv[0] : "par";  // execve allows argc == 0
  if (out->raised) par_drop_environment("PYTHON");
  char executed[PATH_MAX];
  int status = executed_path(name, executed);
  if (status != 0) return status;
  int asked = is_interpreter_name(executed) || is_interpreter_name(name);
  if (par_seal.file_size != 0) return read_packed(name, asked, out);
  if (out->raised) {
    fprintf(stderr,
            "%s: a launcher without a program loads code from files next to "
            "it; clear the setuid bit, or set it on a packed program\n",
            name);
    return 1;
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
            "%s: this launcher contains no program: %s does not exist; build a "
            "par_binary and run that\n",
            name, out->config);
    return 3;
  }
  return read_doors(name, asked, config_has_no_doors(out->config), out);
}

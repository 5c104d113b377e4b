// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/doors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

extern char** environ;

// The PAR_* variables, each documented in runtime/par_runtime/doors.py.
static const char* const kDoors[] = {
    "PAR_CACHE_DIR",  "PAR_DEBUG",         "PAR_FAST_EXIT", "PAR_HELP",
    "PAR_INFO",       "PAR_INTERPRETER",   "PAR_LIST",      "PAR_MAIN",
    "PAR_STARTUP_GC", "PAR_TRACE_IMPORTS", "PAR_VERIFY",
};

int par_raised(void) { return getauxval(AT_SECURE) != 0; }

int par_door(const char* name) {
  const char* value = getenv(name);
  return value && *value && strcmp(value, "0") != 0;
}

void par_close_doors(void) {
  for (size_t i = 0; i < sizeof(kDoors) / sizeof(*kDoors); i++) {
    unsetenv(kDoors[i]);
  }
}

void par_drop_environment(const char* prefix) {
  size_t length = strlen(prefix);
  char** kept = environ;
  if (!kept) return;
  for (char** entry = environ; *entry; entry++) {
    if (strncmp(*entry, prefix, length) != 0) *kept++ = *entry;
  }
  *kept = NULL;
}

int par_started_by_itself(void) {
  char parent[64];
  struct stat parent_file, own_file;
  snprintf(parent, sizeof(parent), "/proc/%ld/exe", (long)getppid());
  return stat(parent, &parent_file) == 0 &&
         stat("/proc/self/exe", &own_file) == 0 &&
         parent_file.st_dev == own_file.st_dev &&
         parent_file.st_ino == own_file.st_ino;
}

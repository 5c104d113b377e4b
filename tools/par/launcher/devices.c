// SPDX-License-Identifier: Apache-2.0
// Emulates /dev/urandom if the file system has no /dev, because PyTorch's
// library opens /dev/urandom while it is being loaded. The dynamic linker
// searches the executable before the C library, so shared libraries call this
// open().

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

// The size of the emulated file. Callers read only a few bytes as a seed.
#define RANDOM_BYTES 4096

static int random_file(void) {
  char bytes[RANDOM_BYTES];
  size_t have = 0;
  while (have < sizeof(bytes)) {
    ssize_t n = getrandom(bytes + have, sizeof(bytes) - have, 0);
    if (n > 0) have += (size_t)n;
    if (n < 0 && errno != EINTR) return -1;
  }
  int fd = memfd_create("urandom", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (pwrite(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes)) return fd;
  close(fd);
  errno = ENOENT;
  return -1;
}

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  int fd = openat(AT_FDCWD, path, flags, mode);
  if (fd < 0 && errno == ENOENT && strcmp(path, "/dev/urandom") == 0) {
    return random_file();
  }
  return fd;
}

// Code compiled with _FILE_OFFSET_BITS=64 calls open64() instead of open().
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

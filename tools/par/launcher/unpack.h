// SPDX-License-Identifier: Apache-2.0
// Decompresses zstd frames into open files, in several threads.
#ifndef TOOLS_PAR_LAUNCHER_UNPACK_H_
#define TOOLS_PAR_LAUNCHER_UNPACK_H_

#include <stddef.h>
#include <stdint.h>

struct par_frame {
  const char* name;  // name of the file, for messages
  int fd;
  uint64_t target;  // offset at which to write the output to fd
  const unsigned char* data;
  size_t compressed;
  size_t size;  // uncompressed bytes
};

enum par_unpack_status {
  PAR_UNPACK_OK = 0,
  PAR_UNPACK_DAMAGED,  // the frame's checksum or length is wrong
  PAR_UNPACK_IO,       // an I/O error; *error is its errno value
};

// Decompresses all frames in at most `threads` threads. On failure, *failed is
// the index of a frame that could not be decompressed or written.
enum par_unpack_status par_unpack(const struct par_frame* frames, size_t count,
                                  int threads, size_t* failed, int* error);

#endif  // TOOLS_PAR_LAUNCHER_UNPACK_H_

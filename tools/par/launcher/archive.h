// SPDX-License-Identifier: Apache-2.0
// A PAR archive, mapped: a zip file whose end-of-file comment names an index.
#ifndef TOOLS_PAR_LAUNCHER_ARCHIVE_H_
#define TOOLS_PAR_LAUNCHER_ARCHIVE_H_

#include <stddef.h>
#include <stdint.h>

// From the zip comment, a line of text that compiler/container.py writes:
// "PAR index OFFSET SIZE HASH FILESIZE START LAUNCHER ARCHIVE\n", each number
// 16 lower-case hexadecimal digits. The last two are the XXH64 of [0, START)
// and of [START, the last two).
struct par_footer {
  uint64_t index_offset;
  uint64_t index_size;
  uint64_t index_hash;
  uint64_t file_size;
  uint64_t start;
  uint64_t launcher_hash;
  uint64_t archive_hash;
};

#define PAR_FOOTER_SIZE 129
#define PAR_FOOTER_HASHES 34  // bytes of the last two numbers

struct par_archive {
  const unsigned char* base;
  size_t size;
  struct par_footer footer;
};

// Maps `path` and checks its footer and its index. Returns NULL, or a message
// that says what is wrong (static storage, no file name in it).
const char* par_archive_open(const char* path, struct par_archive* archive);
void par_archive_close(struct par_archive* archive);

// Reads every byte of the file. Returns NULL, or a message as above that names
// the damaged part.
const char* par_archive_verify(const struct par_archive* archive);

// 1 when [offset, offset + size) lies in the file and has this XXH64.
int par_archive_intact(const struct par_archive* archive, uint64_t offset,
                       uint64_t size, uint64_t hash);

#endif  // TOOLS_PAR_LAUNCHER_ARCHIVE_H_

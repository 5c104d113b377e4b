// SPDX-License-Identifier: Apache-2.0
// A memory-mapped PAR archive: a zip file whose comment locates an index.
#ifndef TOOLS_PAR_LAUNCHER_ARCHIVE_H_
#define TOOLS_PAR_LAUNCHER_ARCHIVE_H_

#include <stddef.h>
#include <stdint.h>

// The zip's comment, a line of text that compiler/container.py writes: "PAR
// index OFFSET SIZE HASH FILESIZE START LAUNCHER ARCHIVE\n". Each number has 16
// lower-case hexadecimal digits. LAUNCHER is the XXH64 of [0, START). ARCHIVE
// is the XXH64 of the bytes from START up to the LAUNCHER digits.
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
#define PAR_FOOTER_HASHES 34  // length of "LAUNCHER ARCHIVE\n"

struct par_archive {
  const unsigned char* base;
  size_t size;
  struct par_footer footer;
};

// Maps the file `path` into memory and checks its footer and index. If `parts`
// is not NULL, it is the path of a list of files that continue the archive.
// They are mapped after `path` in the list's order, as if all were one file.
// Returns NULL on success, else an error message in static storage that does
// not name the file.
const char* par_archive_open(const char* path, const char* parts,
                             struct par_archive* archive);
void par_archive_close(struct par_archive* archive);

// Checks the hashes of the whole file. Returns NULL on success, else an error
// message in static storage that names the damaged part.
const char* par_archive_verify(const struct par_archive* archive);

// Returns 1 if [offset, offset + size) is inside the file and its XXH64 is
// `hash`, else 0.
int par_archive_intact(const struct par_archive* archive, uint64_t offset,
                       uint64_t size, uint64_t hash);

#endif  // TOOLS_PAR_LAUNCHER_ARCHIVE_H_

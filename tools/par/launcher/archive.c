// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zstd_xxhash.h"

static const char* errno_message(const char* what) {
  static char message[256];
  snprintf(message, sizeof(message), "%s: %s", what, strerror(errno));
  return message;
}

int par_archive_intact(const struct par_archive* archive, uint64_t offset,
                       uint64_t size, uint64_t hash) {
  if (offset > archive->size || size > archive->size - offset) return 0;
  return XXH64(archive->base + offset, size, 0) == hash;
}

static int read_footer(struct par_archive* archive) {
  char text[PAR_FOOTER_SIZE + 1];
  if (archive->size < PAR_FOOTER_SIZE) return 0;
  memcpy(text, archive->base + archive->size - PAR_FOOTER_SIZE,
         PAR_FOOTER_SIZE);
  text[PAR_FOOTER_SIZE] = '\0';
  struct par_footer* footer = &archive->footer;
  return sscanf(text,
                "PAR index %16" SCNx64 " %16" SCNx64 " %16" SCNx64
                " %16" SCNx64,
                &footer->index_offset, &footer->index_size, &footer->index_hash,
                &footer->file_size) == 4;
}

static const char* check(struct par_archive* archive) {
  struct par_footer* footer = &archive->footer;
  if (!read_footer(archive) || footer->file_size != archive->size) {
    return "the end of the archive is missing: the file is truncated, or "
           "bytes were added to it";
  }
  if (!par_archive_intact(archive, footer->index_offset, footer->index_size,
                          footer->index_hash)) {
    return "the index is damaged";
  }
  return NULL;
}

const char* par_archive_open(const char* path, struct par_archive* archive) {
  memset(archive, 0, sizeof(*archive));
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_message("cannot open");
  struct stat st;
  if (fstat(fd, &st) != 0) {
    close(fd);
    return errno_message("cannot stat");
  }
  void* base =
      st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                 : MAP_FAILED;
  close(fd);
  if (base == MAP_FAILED) {
    return st.st_size ? errno_message("cannot map") : "the file is empty";
  }
  archive->base = base;
  archive->size = (size_t)st.st_size;
  const char* problem = check(archive);
  if (problem) par_archive_close(archive);
  return problem;
}

void par_archive_close(struct par_archive* archive) {
  if (archive->base) munmap((void*)archive->base, archive->size);
  archive->base = NULL;
  archive->size = 0;
}

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

// Parses 16 lower-case hexadecimal digits. Returns 0 if `text` does not start
// with 16 of them.
static int read_number(const char* text, uint64_t* number) {
  static const char kDigits[] = "0123456789abcdef";
  *number = 0;
  for (int i = 0; i < 16; i++) {
    const char* digit = text[i] ? strchr(kDigits, text[i]) : NULL;
    if (!digit) return 0;
    *number = *number << 4 | (uint64_t)(digit - kDigits);
  }
  return 1;
}

static int read_footer(struct par_archive* archive) {
  static const char kHead[] = "PAR index";
  if (archive->size < PAR_FOOTER_SIZE) return 0;
  const char* text =
      (const char*)archive->base + archive->size - PAR_FOOTER_SIZE;
  if (memcmp(text, kHead, sizeof(kHead) - 1) != 0) return 0;
  text += sizeof(kHead) - 1;
  struct par_footer* footer = &archive->footer;
  uint64_t* const numbers[] = {
      &footer->index_offset, &footer->index_size, &footer->index_hash,
      &footer->file_size,    &footer->start,      &footer->launcher_hash,
      &footer->archive_hash,
  };
  for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
    if (text[0] != ' ' || !read_number(text + 1, numbers[i])) return 0;
    text += 17;
  }
  return *text == '\n';
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

const char* par_archive_verify(const struct par_archive* archive) {
  static char message[256];
  const struct par_footer* footer = &archive->footer;
  uint64_t end = archive->size - PAR_FOOTER_HASHES;
  if (footer->start > end) return "the end of the archive is damaged";
  if (!par_archive_intact(archive, 0, footer->start, footer->launcher_hash)) {
    snprintf(message, sizeof(message),
             "the launcher, its first %" PRIu64 " bytes, is damaged",
             footer->start);
    return message;
  }
  if (!par_archive_intact(archive, footer->start, end - footer->start,
                          footer->archive_hash)) {
    snprintf(message, sizeof(message),
             "the archive, from byte %" PRIu64 " on, is damaged",
             footer->start);
    return message;
  }
  return NULL;
}

void par_archive_close(struct par_archive* archive) {
  if (archive->base) munmap((void*)archive->base, archive->size);
  archive->base = NULL;
  archive->size = 0;
}

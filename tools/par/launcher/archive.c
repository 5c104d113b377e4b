// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zstd_xxhash.h"

// The page size. compiler/parts.py cuts a PAR only at multiples of it.
enum { kPartAlignment = 4096 };

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

// Maps the file `path` directly after the files that are already mapped. `room`
// is the size of the range reserved for the archive, or 0 if none is reserved.
// If `size` is not 0, the file must have that size.
static const char* map_file(const char* path, uint64_t size, uint64_t room,
                            struct par_archive* archive) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno_message("cannot open");
  struct stat st;
  if (fstat(fd, &st) != 0) {
    close(fd);
    return errno_message("cannot stat");
  }
  uint64_t found = (uint64_t)st.st_size;
  void* base = MAP_FAILED;
  const char* problem = NULL;
  if (found == 0) {
    problem = "the file is empty";
  } else if ((size && found != size) || (room && found > room)) {
    problem = "its size is wrong";
  } else {
    void* address = room ? (void*)(archive->base + archive->size) : NULL;
    base = mmap(address, (size_t)found, PROT_READ,
                MAP_PRIVATE | (room ? MAP_FIXED : 0), fd, 0);
    if (base == MAP_FAILED) problem = errno_message("cannot map");
  }
  close(fd);
  if (problem) return problem;
  if (!room) archive->base = base;
  archive->size += (size_t)found;
  return NULL;
}

// Maps each file in the list `text` after the files that are already mapped.
// The list's lines are "SIZE PATH\n". SIZE has 16 hexadecimal digits. PATH is
// relative to `directory`, which ends with "/".
static const char* map_listed(const char* text, const char* directory,
                              uint64_t room, struct par_archive* archive) {
  static char message[PATH_MAX + 256];
  while (*text) {
    uint64_t size;
    size_t length = strcspn(text, "\n");
    if (length < 18 || !text[length] || !read_number(text, &size) ||
        text[16] != ' ' || size == 0) {
      return "the list of its parts is damaged";
    }
    // Only the last file may end in the middle of a page.
    if (size > room - archive->size || archive->size % kPartAlignment) {
      return "the list of its parts is damaged";
    }
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s%.*s", directory,
                     (int)(length - 17), text + 17);
    if (n >= (int)sizeof(path)) return "the path of a part is too long";
    const char* problem = map_file(path, size, room, archive);
    if (problem) {
      snprintf(message, sizeof(message), "its part %s: %s", path, problem);
      return message;
    }
    text += length + 1;
  }
  return archive->size == room ? NULL : "the list of its parts is damaged";
}

// Reads the list of parts. On failure, sets errno and returns NULL.
static char* read_list(const char* path) {
  FILE* stream = fopen(path, "re");
  if (!stream) return NULL;
  char* text = NULL;
  size_t capacity = 0;
  ssize_t n = getdelim(&text, &capacity, '\0', stream);
  fclose(stream);
  if (n > 0) return text;
  free(text);
  errno = EINVAL;
  return NULL;
}

// Maps the file `path` and the files in the list `parts`. The list begins with
// the line "PAR parts TOTAL\n". TOTAL, 16 hexadecimal digits, is the size of
// all files, including `path`.
static const char* map_parts(const char* path, const char* parts,
                             struct par_archive* archive) {
  static const char kHead[] = "PAR parts ";
  static const char kDamaged[] = "the list of its parts is damaged";
  const size_t head = sizeof(kHead) - 1;
  char* text = read_list(parts);
  if (!text) return errno_message("cannot read the list of its parts");
  uint64_t total;
  const char* problem = kDamaged;
  if (strncmp(text, kHead, head) == 0 && read_number(text + head, &total) &&
      text[head + 16] == '\n' && total > 0 && total < SIZE_MAX / 2) {
    // Reserve the whole address range first, so that the files can be
    // contiguous.
    void* base = mmap(NULL, (size_t)total, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      problem = errno_message("cannot map");
    } else {
      char directory[PATH_MAX];
      const char* slash = strrchr(parts, '/');
      snprintf(directory, sizeof(directory), "%.*s",
               slash ? (int)(slash + 1 - parts) : 0, parts);
      archive->base = base;
      problem = map_file(path, 0, total, archive);
      if (!problem) {
        problem = map_listed(text + head + 17, directory, total, archive);
      }
      archive->size = (size_t)total;  // par_archive_close unmaps this range
    }
  }
  free(text);
  return problem;
}

const char* par_archive_open(const char* path, const char* parts,
                             struct par_archive* archive) {
  memset(archive, 0, sizeof(*archive));
  const char* problem =
      parts ? map_parts(path, parts, archive) : map_file(path, 0, 0, archive);
  if (!problem) problem = check(archive);
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

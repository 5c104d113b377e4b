// SPDX-License-Identifier: Apache-2.0
#include "tools/par/launcher/unpack.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "zstd.h"

#define MAX_THREADS 16

struct work {
  const struct par_frame* frames;
  size_t count;
  atomic_size_t next;
  atomic_int status;
  size_t failed;
  int error;
};

static void give_up(struct work* work, size_t index, int status, int error) {
  int expected = PAR_UNPACK_OK;
  if (atomic_compare_exchange_strong(&work->status, &expected, status)) {
    work->failed = index;
    work->error = error;
  }
}

static int write_all(int fd, const char* data, size_t size, uint64_t offset) {
  while (size) {
    ssize_t n = pwrite(fd, data, size, (off_t)offset);
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    data += n;
    offset += (uint64_t)n;
    size -= (size_t)n;
  }
  return 0;
}

static void* run(void* argument) {
  struct work* work = argument;
  ZSTD_DCtx* context = ZSTD_createDCtx();
  char* buffer = NULL;
  size_t capacity = 0;
  for (;;) {
    size_t i = atomic_fetch_add(&work->next, 1);
    if (i >= work->count || atomic_load(&work->status) != PAR_UNPACK_OK) break;
    const struct par_frame* frame = &work->frames[i];
    if (ZSTD_getFrameContentSize(frame->data, frame->compressed) !=
        frame->size) {  // check the size before the allocation
      give_up(work, i, PAR_UNPACK_DAMAGED, 0);
      break;
    }
    if (frame->size > capacity) {
      free(buffer);
      capacity = frame->size;
      buffer = malloc(capacity);
    }
    if (!context || (frame->size && !buffer)) {
      give_up(work, i, PAR_UNPACK_IO, ENOMEM);
      break;
    }
    size_t got = ZSTD_decompressDCtx(context, buffer, frame->size, frame->data,
                                     frame->compressed);
    if (ZSTD_isError(got) || got != frame->size) {
      give_up(work, i, PAR_UNPACK_DAMAGED, 0);
      break;
    }
    int error = write_all(frame->fd, buffer, frame->size, frame->target);
    if (error) {
      give_up(work, i, PAR_UNPACK_IO, error);
      break;
    }
  }
  free(buffer);
  ZSTD_freeDCtx(context);
  return NULL;
}

enum par_unpack_status par_unpack(const struct par_frame* frames, size_t count,
                                  int threads, size_t* failed, int* error) {
  struct work work = {.frames = frames, .count = count};
  pthread_t ids[MAX_THREADS];
  int started = 0;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  if ((size_t)threads > count) threads = (int)count;
  // This thread also unpacks frames, so if creating other threads fails,
  // unpacking is only slower.
  while (started < threads - 1 &&
         pthread_create(&ids[started], NULL, run, &work) == 0) {
    started++;
  }
  run(&work);
  for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
  *failed = work.failed;
  *error = work.error;
  return (enum par_unpack_status)atomic_load(&work.status);
}

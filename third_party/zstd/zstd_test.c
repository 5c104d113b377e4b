// SPDX-License-Identifier: Apache-2.0
// Tests zstd as PARs use it: several threads compress, one decompresses, and
// XXH64 verifies the result.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zstd.h"
#include "zstd_xxhash.h"

enum { kSize = 1 << 22 };

static int Fail(const char* what) {
  fprintf(stderr, "zstd_test: %s\n", what);
  return 1;
}

int main(void) {
  // The published XXH64 value for an empty input.
  if (XXH64("", 0, 0) != 0xef46db3751d8e999ULL)
    return Fail("XXH64 of nothing is wrong");

  unsigned char *data = malloc(kSize), *back = malloc(kSize);
  size_t bound = ZSTD_compressBound(kSize);
  unsigned char* packed = malloc(bound);
  for (size_t i = 0; i < kSize; ++i) data[i] = (unsigned char)((i * i) >> 11);

  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_nbWorkers, 2))) {
    return Fail("built without threads");
  }
  size_t size = ZSTD_compress2(context, packed, bound, data, kSize);
  if (ZSTD_isError(size)) return Fail(ZSTD_getErrorName(size));
  if (size >= kSize / 2) return Fail("repetitive data did not shrink");
  if (ZSTD_decompress(back, kSize, packed, size) != kSize)
    return Fail("wrong length after unpacking");
  if (memcmp(data, back, kSize) != 0)
    return Fail("wrong bytes after unpacking");
  if (XXH64(data, kSize, 0) != XXH64(back, kSize, 0))
    return Fail("same bytes, different hash");
  packed[size / 2] ^= 0x40;
  size = ZSTD_decompress(back, kSize, packed, size);
  if (!ZSTD_isError(size) && memcmp(data, back, kSize) == 0)
    return Fail("a flipped bit went unseen");
  return 0;
}

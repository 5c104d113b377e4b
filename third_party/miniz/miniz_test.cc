// SPDX-License-Identifier: Apache-2.0
// An archive in memory, written and read again.
#include <cstdio>
#include <string>

#include "miniz.h"

// The function that torch brings (caffe2/serialize/crc.cc), one bit at a time.
extern "C" mz_ulong mz_crc32(mz_ulong crc, const mz_uint8* data, size_t size) {
  mz_uint32 state = ~static_cast<mz_uint32>(crc);
  for (size_t i = 0; i < size; ++i) {
    state ^= data[i];
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1) ^ (0xedb88320u & (0u - (state & 1)));
    }
  }
  return ~state;
}

namespace {

int Fail(const char* what) {
  std::fprintf(stderr, "miniz_test: %s\n", what);
  return 1;
}

}  // namespace

int main() {
  const std::string content(100000, 'a');
  mz_zip_archive writer{};
  if (!mz_zip_writer_init_heap(&writer, 0, 0)) return Fail("no writer");
  if (!mz_zip_writer_add_mem(&writer, "dir/file", content.data(),
                             content.size(), MZ_BEST_SPEED)) {
    return Fail("no file was added");
  }
  void* archive = nullptr;
  size_t size = 0;
  if (!mz_zip_writer_finalize_heap_archive(&writer, &archive, &size)) {
    return Fail("no archive");
  }
  mz_zip_writer_end(&writer);
  if (size >= content.size() / 10) return Fail("one letter did not shrink");

  mz_zip_archive reader{};
  if (!mz_zip_reader_init_mem(&reader, archive, size, 0)) {
    return Fail("the archive cannot be read");
  }
  const int index = mz_zip_reader_locate_file(&reader, "dir/file", nullptr, 0);
  mz_zip_archive_file_stat stat{};
  if (index < 0 || !mz_zip_reader_file_stat(&reader, index, &stat)) {
    return Fail("the file is not in it");
  }
  if (stat.m_crc32 != 0x1be2fa87u) return Fail("another CRC-32 was written");
  std::string back(content.size(), '\0');
  if (!mz_zip_reader_extract_to_mem(&reader, index, back.data(), back.size(),
                                    0) ||
      back != content) {
    return Fail("other bytes came back");
  }
  mz_zip_reader_end(&reader);
  mz_free(archive);
  return 0;
}

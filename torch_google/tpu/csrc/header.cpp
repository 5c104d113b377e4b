// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/header.h"

#include <algorithm>
#include <cstring>

namespace torch_google::tpu {
namespace {

// Returns the FNV-1a hash of a string. Unlike std::hash, it is the same in
// every process.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 14695981039346656037ULL;
  for (const unsigned char character : text) {
    hash = (hash ^ character) * 1099511628211ULL;
  }
  return hash;
}

}  // namespace

int64_t inline_bytes(int size) { return size <= 16 ? 3840 : 768; }

Header header_of(uint64_t sequence, const std::string& common,
                 const std::string& text, bool refused, int64_t bytes,
                 const std::string& layout) {
  Header header{};
  header.sequence = sequence;
  header.hash = hash_of(common);
  header.layout = layout.empty() ? 0 : hash_of(layout);
  header.bytes = bytes;
  header.refused = refused ? 1 : 0;
  header.length =
      static_cast<uint32_t>(std::min(text.size(), sizeof(header.text)));
  std::memcpy(header.text, text.data(), header.length);
  return header;
}

Header read_header(const at::Tensor& part) {
  Header header;
  std::memcpy(&header, part.const_data_ptr(), sizeof(header));
  return header;
}

std::string text_of(const Header& header) {
  std::string text(header.text,
                   std::min<size_t>(header.length, sizeof(header.text)));
  return header.length == sizeof(header.text) ? text + "..." : text;
}

}  // namespace torch_google::tpu

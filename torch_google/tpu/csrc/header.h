// SPDX-License-Identifier: Apache-2.0
// The header that ranks exchange before they exchange data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace torch_google::tpu {

// Precedes each rank's data in an exchange, and the data of each message.
struct Header {
  uint64_t sequence;
  uint64_t hash;     // hash of `common`
  uint64_t layout;   // hash of `layout`, or 0
  int64_t bytes;     // size of a message's payload
  uint32_t refused;  // 1 if the rank refuses; `text` says why
  uint32_t length;   // length of `text`
  char text[216];
};
static_assert(sizeof(Header) == 256);

// Returns the number of payload bytes that fit into the same transmission as
// the header, for a group of `size` ranks.
int64_t inline_bytes(int size);
// Returns the header of a collective or message. `common` must be the same on
// all ranks, but `layout` may differ. `text` is used in error messages.
Header header_of(uint64_t sequence, const std::string& common,
                 const std::string& text, bool refused, int64_t bytes = 0,
                 const std::string& layout = "");
// Reads the header at the start of a byte tensor.
Header read_header(const at::Tensor& part);
std::string text_of(const Header& header);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The header that ranks exchange before data moves.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace torch_google::tpu {

// The start of each rank's part of an exchange, and of each message.
struct Header {
  uint64_t sequence;
  uint64_t hash;     // of what must be equal
  int64_t bytes;     // of the payload of a message
  uint32_t refused;  // 1: `text` is the reason
  uint32_t length;   // of `text`
  char text[224];
};
static_assert(sizeof(Header) == 256);

// Payloads up to this size travel with the header.
int64_t inline_bytes(int size);
// `common` must be equal on all ranks, `text` is for error messages.
Header header_of(uint64_t sequence, const std::string& common,
                 const std::string& text, bool refused, int64_t bytes = 0);
// The header at the start of a tensor of bytes.
Header read_header(const at::Tensor& part);
std::string text_of(const Header& header);

}  // namespace torch_google::tpu

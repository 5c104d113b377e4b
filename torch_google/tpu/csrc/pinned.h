// SPDX-License-Identifier: Apache-2.0
// Pinned host memory for transfers. PJRT can copy from any host memory, so
// `pinned` only means that this allocator allocated the memory.
#pragma once

#include <c10/core/Allocator.h>

namespace torch_google::tpu {

c10::Allocator* pinned_allocator();
// Returns whether this allocator allocated the memory at an address.
bool is_pinned(const void* data);
// Registers the allocator with torch as the device's host allocator.
void register_pinned_allocator();

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// Pinned host memory for transfers. PJRT copies from any host memory, so
// `pinned` only means that the memory came from this allocator.
#pragma once

#include <c10/core/Allocator.h>

namespace torch_google::tpu {

c10::Allocator* pinned_allocator();
// Whether an address is in memory from this allocator.
bool is_pinned(const void* data);
// Registers the allocator with torch as the host allocator of this device.
void register_pinned_allocator();

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// Memory of the host for transfers. PJRT copies from any: what is pinned is
// what was asked for as such.
#pragma once

#include <c10/core/Allocator.h>

namespace torch_google::tpu {

c10::Allocator* pinned_allocator();
// Whether memory is of that allocator.
bool is_pinned(const void* data);
// Lets torch find the allocator as the one of the host for this device.
void register_pinned_allocator();

}  // namespace torch_google::tpu

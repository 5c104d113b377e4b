// SPDX-License-Identifier: Apache-2.0
// What torch asks of its accelerator by name.
#pragma once

namespace torch_google::tpu {

void register_hooks();

}  // namespace torch_google::tpu

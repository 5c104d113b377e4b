// SPDX-License-Identifier: Apache-2.0
// PrivateUse1 hooks: torch's interface to its accelerator.
#pragma once

namespace torch_google::tpu {

void register_hooks();

}  // namespace torch_google::tpu

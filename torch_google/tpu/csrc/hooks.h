// SPDX-License-Identifier: Apache-2.0
// The tpu device's PrivateUse1 hooks: the functions that torch calls for its
// current accelerator.
#pragma once

namespace torch_google::tpu {

void register_hooks();

}  // namespace torch_google::tpu

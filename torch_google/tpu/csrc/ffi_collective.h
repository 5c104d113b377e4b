// SPDX-License-Identifier: Apache-2.0
// Collectives inside compiled programs, implemented as an XLA custom call.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_google::tpu {

// Returns the handler to register with XLA's FFI on the `cpu` platform. Its
// operands and results are those of the collective, plus a token that orders
// the calls in a program. Its attributes are `collective`, `group` (a name),
// `reduction`, `root`, `input_splits` and `output_splits`.
//
// The handler queues the collective in the group and returns. In the meantime,
// XLA runs operations that do not depend on the results.
pybind11::capsule collective_handler();

}  // namespace torch_google::tpu

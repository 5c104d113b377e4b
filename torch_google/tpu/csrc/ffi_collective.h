// SPDX-License-Identifier: Apache-2.0
// Collectives within compiled programs: a custom call of XLA.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace torch_google::tpu {

// The handler to register with XLA's FFI on the platform `cpu`. Its operands
// and results are those of the collective, and a token, which orders the calls
// of a program. Its attributes: collective, group (a name), reduction, root,
// input_splits and output_splits.
//
// The handler posts the collective to the group's queue and returns. XLA goes
// on with whatever does not depend on the results.
pybind11::capsule collective_handler();

}  // namespace torch_google::tpu

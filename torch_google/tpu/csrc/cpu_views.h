// SPDX-License-Identifier: Apache-2.0
// Views of CPU tensors, created without torch's dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace torch_google::tpu {

// The kinds of views, each with the numbers that it needs.
enum class View {
  alias,             // none
  matrix_transpose,  // none
  reshape,           // sizes
  permute,           // dimensions
  expand,            // sizes
  squeeze,           // dimensions
  transpose,         // two dimensions
  unsqueeze,         // a dimension
  select,            // a dimension and an index
  slice              // a dimension, start, end and step
};

// Returns the kind of view with this name, such as "reshape". Throws c10::Error
// if there is none.
View view_named(const std::string& name);

// Returns a view of a strided tensor, with the strides that torch's operator
// gives it. `numbers` has the sizes, dimensions or other numbers of the
// operator in order. Throws c10::Error if they do not fit the tensor.
at::Tensor create_view(View kind, const at::Tensor& source,
                       c10::IntArrayRef numbers);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/host_memory.h"

#include <c10/core/alignment.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <cstdlib>
#include <memory>

namespace torch_google::tpu {

at::Tensor host_empty(at::IntArrayRef sizes, at::ScalarType dtype) {
  const auto bytes = static_cast<size_t>(c10::multiply_integers(sizes)) *
                     c10::elementSize(dtype);
  size_t room = bytes + c10::gAlignment;
  void* const block = std::malloc(room);
  TORCH_CHECK_WITH(OutOfMemoryError, block,
                   "tpu: torch.distributed: the host has no memory for ", bytes,
                   " bytes. Use smaller tensors, or fewer ranks on this host");
  void* data = block;
  std::align(c10::gAlignment, bytes, data, room);
  return at::from_blob(
      data, sizes, [block](void*) { std::free(block); }, at::dtype(dtype));
}

}  // namespace torch_google::tpu

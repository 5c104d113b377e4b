// SPDX-License-Identifier: Apache-2.0
// One torch.distributed collective on CPU tensors, run by gloo.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {

using Tensors = std::vector<at::Tensor>;

#if TORCH_GOOGLE_TORCH_2_6
// torch v2.6 has no name for this type. The value is the one that later
// releases use.
inline constexpr auto kReduceScatterTensorCoalesced = c10d::OpType{19};
#else
inline constexpr auto kReduceScatterTensorCoalesced =
    c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#endif

// A collective only reads `inputs` and only writes to `outputs`. The tensor of
// an in-place all_reduce is in both lists. A rank that contributes nothing has
// no inputs, and a rank that receives nothing has no outputs.
struct Collective {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::string name;  // the name in torch.distributed, such as all_reduce
  Tensors inputs;
  Tensors outputs;
  bool reduces = false;
  c10d::ReduceOp op;
  // The rank within the group that sends or receives all data, or -1 if the
  // collective has no such rank.
  int root = -1;
  // Only for send and recv: the other rank and the message's tag. `peer` is -1
  // if recv accepts messages from any rank.
  int peer = -1;
  int tag = 0;
  // For all_to_all_single: the size of each rank's part in dimension 0. Empty
  // means equal parts.
  std::vector<int64_t> input_splits;
  std::vector<int64_t> output_splits;
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

// Returns the inputs, or the outputs if this rank has no inputs.
const Tensors& shown(const Collective& collective);
// Returns whether the operation is a send or a recv.
bool is_message(c10d::OpType type);
// Returns the number of bytes in each rank's part of a tensor. `splits` lists
// the sizes of the parts in dimension 0. If it is empty, the parts are equal.
std::vector<int64_t> split_bytes(const at::Tensor& tensor,
                                 const std::vector<int64_t>& splits, int size);

// Returns the number of bytes that each rank contributes if the collective can
// be implemented as an exchange of small messages, otherwise -1.
int64_t exchanged_bytes(const Collective& collective);
// Computes the outputs from the exchanged bytes of all ranks. Combines them in
// rank order, so that every rank gets the same result.
void finish_exchange(const Collective& collective, const Tensors& ranks);
// Returns this rank's contribution to the exchange: a view of its input, or
// zeros if it has no input.
at::Tensor bytes_to_exchange(const Collective& collective);

// Runs the collective. All tensors must be contiguous and on the CPU.
void run(const Collective& collective, c10d::Backend& gloo);

// Waits for a gloo operation, and throws its error if it failed.
void wait(const c10::intrusive_ptr<c10d::Work>& work,
          std::chrono::milliseconds timeout = kNoTimeout);

int64_t byte_count(const at::Tensor& tensor);
// Returns a contiguous tensor's bytes as a flat tensor over the same memory.
at::Tensor bytes_of(const at::Tensor& tensor);

}  // namespace torch_google::tpu

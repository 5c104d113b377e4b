// SPDX-License-Identifier: Apache-2.0
// One collective of torch.distributed on tensors of the host, run by gloo.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace torch_google::tpu {

using Tensors = std::vector<at::Tensor>;

// The tensors of `inputs` are read only, those of `outputs` are written only:
// all_reduce of a tensor has it in both. A rank that contributes nothing has no
// inputs, and a rank that receives nothing has no outputs.
struct Collective {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::string name;  // as in torch.distributed
  Tensors inputs;
  Tensors outputs;
  bool reduces = false;
  c10d::ReduceOp op;
  // The rank within the group that sends or receives everything, or -1.
  int root = -1;
  // Of send and recv. The peer is -1 in a recv from any rank.
  int peer = -1;
  int tag = 0;
  // all_to_all_single: sizes of dimension 0 by rank. Empty: equal parts.
  std::vector<int64_t> input_splits;
  std::vector<int64_t> output_splits;
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

// The inputs, or the outputs of a rank that contributes nothing.
const Tensors& shown(const Collective& collective);
// Whether it is a send or recv.
bool is_message(c10d::OpType type);
// The parts of a tensor in bytes, by rank. `splits` are sizes of dimension 0;
// empty: equal parts.
std::vector<int64_t> split_bytes(const at::Tensor& tensor,
                                 const std::vector<int64_t>& splits, int size);

// The bytes that each rank contributes to a collective that is cheaper as one
// exchange of small messages, or -1 if it is not one.
int64_t exchanged_bytes(const Collective& collective);
// Computes the outputs from all ranks' bytes, in rank order, so that every rank
// gets the same result.
void finish_exchange(const Collective& collective, const Tensors& ranks);
// The bytes of this rank: a view of its input, or a tensor of zeros.
at::Tensor bytes_to_exchange(const Collective& collective);

// Runs the collective. All tensors are contiguous and on the CPU.
void run(const Collective& collective, c10d::Backend& gloo);

// Waits for an operation of gloo, and throws its error.
void wait(const c10::intrusive_ptr<c10d::Work>& work,
          std::chrono::milliseconds timeout = kNoTimeout);

int64_t byte_count(const at::Tensor& tensor);
// A contiguous tensor's bytes, as a flat tensor over the same memory.
at::Tensor bytes_of(const at::Tensor& tensor);

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/collective.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>

#include "torch_google/tpu/csrc/host_memory.h"
#include "torch_google/tpu/csrc/reduction.h"
#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {
namespace {

using at::Tensor;
using c10d::OpType;

template <typename Options>
Options with_timeout(const Collective& collective) {
  Options options;
  options.timeout = collective.timeout;
  return options;
}

template <typename Options>
Options with_root(const Collective& collective) {
  auto options = with_timeout<Options>(collective);
  options.rootRank = collective.root;
  return options;
}

void all_reduce(const Collective& collective, const Tensor& output,
                c10d::Backend& gloo) {
  Tensors numbers{reducible(output)};
  scale(numbers[0], collective.op);
  auto options = with_timeout<c10d::AllreduceOptions>(collective);
  options.reduceOp = gloo_op(collective.op, output.scalar_type());
  if (output.numel() > 0) {
    wait(gloo.allreduce(numbers, options));
  }
  complete(output, numbers[0], collective.op, gloo.getSize());
}

void reduce(const Collective& collective, const Tensor& input,
            const Tensor& output, c10d::Backend& gloo, int root) {
  // gloo may write to the tensor on every rank, not only on the root, so reduce
  // a copy of the input.
  Tensors numbers{reducible(input)};
  if (numbers[0].is_alias_of(input)) {
    numbers[0] = numbers[0].clone();
  }
  scale(numbers[0], collective.op);
  auto options = with_timeout<c10d::ReduceOptions>(collective);
  options.reduceOp = gloo_op(collective.op, input.scalar_type());
  options.rootRank = root;
  if (input.numel() > 0) {
    wait(gloo.reduce(numbers, options));
  }
  if (output.defined()) {
    complete(output, numbers[0], collective.op, gloo.getSize());
  }
}

void reduce_scatter(const Collective& collective, const Tensor& input,
                    const Tensor& output, c10d::Backend& gloo) {
  Tensor numbers = reducible(input);
  if (collective.op.op_ == c10d::ReduceOp::PREMUL_SUM) {
    if (numbers.is_alias_of(input)) {
      numbers = numbers.clone();
    }
    scale(numbers, collective.op);
  }
  Tensor part = reducible(output);
#if TORCH_GOOGLE_TORCH_2_6
  // In v2.6, gloo's reduce_scatter ignores the timeout and the reduction: it
  // computes sums.
  using Options = c10d::AllreduceOptions;
#else
  using Options = c10d::ReduceScatterOptions;
#endif
  auto options = with_timeout<Options>(collective);
  options.reduceOp = gloo_op(collective.op, output.scalar_type());
  if (output.numel() > 0) {
    Tensor flat_part = part.view(-1);
    Tensor flat = numbers.view(-1);
#if TORCH_GOOGLE_TORCH_2_6
    Tensors all{flat.is_alias_of(input) ? flat.clone() : flat};
    wait(gloo.allreduce(all, options));
    const int64_t length = flat_part.numel();
    flat_part.copy_(all[0].narrow(0, gloo.getRank() * length, length));
#else
    wait(gloo._reduce_scatter_base(flat_part, flat, options));
#endif
  }
  complete(output, part, collective.op, gloo.getSize());
}

void all_gather(const Collective& collective, const Tensor& input,
                const Tensor& output, c10d::Backend& gloo) {
  Tensor from = bytes_of(input);
  Tensor to = bytes_of(output);
  if (from.numel() > 0) {
    wait(gloo._allgather_base(
        to, from, with_timeout<c10d::AllgatherOptions>(collective)));
  }
}

void broadcast(const Collective& collective, const Tensor& data,
               c10d::Backend& gloo, int root) {
  Tensors tensors{bytes_of(data)};
  auto options = with_timeout<c10d::BroadcastOptions>(collective);
  options.rootRank = root;
  if (tensors[0].numel() > 0) {
    wait(gloo.broadcast(tensors, options));
  }
}

void all_gather_list(const Collective& collective, c10d::Backend& gloo) {
  const auto& input = collective.inputs[0];
  const auto& outputs = collective.outputs;
  const bool even = std::all_of(
      outputs.begin(), outputs.end(),
      [&](const Tensor& output) { return output.numel() == input.numel(); });
  if (even) {
    Tensor all = host_empty({gloo.getSize() * byte_count(input)}, at::kByte);
    all_gather(collective, input, all, gloo);
    const auto parts = all.chunk(gloo.getSize());
    for (size_t i = 0; i < outputs.size() && input.numel() > 0; ++i) {
      bytes_of(outputs[i]).copy_(parts[i]);
    }
    return;
  }
  outputs[gloo.getRank()].copy_(input.view(outputs[gloo.getRank()].sizes()));
  for (int i = 0; i < gloo.getSize(); ++i) {
    broadcast(collective, outputs[i], gloo, i);
  }
}

Tensors bytes_of_each(const Tensors& tensors) {
  Tensors result;
  for (const auto& tensor : tensors) {
    result.push_back(bytes_of(tensor));
  }
  return result;
}

void all_to_all(const Collective& collective, c10d::Backend& gloo) {
  const bool is_list = collective.type == OpType::ALLTOALL;
  const auto inputs = bytes_of_each(collective.inputs);
  const auto outputs = bytes_of_each(collective.outputs);
  Tensor from = is_list ? at::cat(inputs) : inputs[0];
  Tensor to =
      is_list ? host_empty(
                    {std::accumulate(outputs.begin(), outputs.end(), int64_t{0},
                                     [](int64_t sum, const Tensor& output) {
                                       return sum + output.numel();
                                     })},
                    at::kByte)
              : outputs[0];
  std::vector<int64_t> sends;
  std::vector<int64_t> expects;
  if (is_list) {
    for (const auto& input : inputs) {
      sends.push_back(input.numel());
    }
    for (const auto& output : outputs) {
      expects.push_back(output.numel());
    }
  } else {
    const int size = gloo.getSize();
    sends = split_bytes(collective.inputs[0], collective.input_splits, size);
    expects =
        split_bytes(collective.outputs[0], collective.output_splits, size);
  }
  wait(gloo.alltoall_base(to, from, expects, sends,
                          with_timeout<c10d::AllToAllOptions>(collective)));
  if (is_list) {
    int64_t offset = 0;
    for (const auto& output : outputs) {
      output.copy_(to.narrow(0, offset, output.numel()));
      offset += output.numel();
    }
  }
}

// Runs reduce_scatter on a list of inputs: a single reduce_scatter if they have
// equal sizes, otherwise one reduce per rank.
void reduce_scatter_list(const Collective& collective, c10d::Backend& gloo) {
  const auto& inputs = collective.inputs;
  const auto& output = collective.outputs[0];
  const bool even = std::all_of(
      inputs.begin(), inputs.end(),
      [&](const Tensor& input) { return input.numel() == output.numel(); });
  if (even) {
    Tensors flat;
    for (const auto& input : inputs) {
      flat.push_back(input.view(-1));
    }
    reduce_scatter(collective, at::cat(flat), output, gloo);
    return;
  }
  for (int i = 0; i < gloo.getSize(); ++i) {
    reduce(collective, inputs[i], i == gloo.getRank() ? output : Tensor(), gloo,
           i);
  }
}

}  // namespace

void wait(const c10::intrusive_ptr<c10d::Work>& work,
          std::chrono::milliseconds timeout) {
  const bool done = work->wait(timeout);
  // Check for an error, because wait() of gloo's reduce_scatter does not throw
  // if the operation failed.
  if (const auto error = work->exception()) {
    std::rethrow_exception(error);
  }
  TORCH_CHECK(done && work->isSuccess(), "gloo ended without a result");
}

Tensor bytes_of(const Tensor& tensor) {
  return tensor.reshape(-1).view(at::kByte);
}

int64_t byte_count(const Tensor& tensor) {
  return static_cast<int64_t>(tensor.numel() * tensor.itemsize());
}

const Tensors& shown(const Collective& collective) {
  return collective.inputs.empty() ? collective.outputs : collective.inputs;
}

bool is_message(OpType type) {
  return type == OpType::SEND || type == OpType::RECV ||
         type == OpType::RECVANYSOURCE;
}

std::vector<int64_t> split_bytes(const Tensor& tensor,
                                 const std::vector<int64_t>& splits, int size) {
  const int64_t total = byte_count(tensor);
  if (splits.empty()) {
    return std::vector<int64_t>(size, total / size);
  }
  const int64_t rows = tensor.dim() ? tensor.size(0) : 0;
  std::vector<int64_t> result;
  for (const int64_t split : splits) {
    result.push_back(rows ? split * (total / rows) : 0);
  }
  return result;
}

int64_t exchanged_bytes(const Collective& collective) {
  switch (collective.type) {
    case OpType::BARRIER:
      return 0;
    case OpType::ALLREDUCE:
    case OpType::REDUCE:
    case OpType::BROADCAST:
    case OpType::_ALLGATHER_BASE:
      return shown(collective).size() == 1 ? byte_count(shown(collective)[0])
                                           : -1;
    default:
      return -1;
  }
}

Tensor bytes_to_exchange(const Collective& collective) {
  if (collective.inputs.empty()) {
    return at::zeros({exchanged_bytes(collective)}, at::kByte);
  }
  return bytes_of(collective.inputs[0]);
}

void finish_exchange(const Collective& collective, const Tensors& ranks) {
  if (collective.outputs.empty() || collective.type == OpType::BARRIER) {
    return;
  }
  const auto& output = collective.outputs[0];
  if (output.numel() == 0) {
    return;
  }
  if (collective.type == OpType::BROADCAST) {
    bytes_of(output).copy_(ranks[collective.root]);
    return;
  }
  if (collective.type == OpType::_ALLGATHER_BASE) {
    bytes_of(output).copy_(at::cat(ranks));
    return;
  }
  const auto numbers_of = [&](const Tensor& raw) {
    // Clone the bytes to align them, because a tensor can be viewed as a
    // different dtype only if it is aligned.
    Tensor numbers =
        reducible(raw.clone().view(output.scalar_type()).view(output.sizes()));
    scale(numbers, collective.op);
    return numbers;
  };
  Tensor total = numbers_of(ranks[0]);
  const auto op = gloo_op(collective.op, output.scalar_type());
  for (size_t i = 1; i < ranks.size(); ++i) {
    combine(total, numbers_of(ranks[i]), op);
  }
  complete(output, total, collective.op, static_cast<int>(ranks.size()));
}

void run(const Collective& collective, c10d::Backend& gloo) {
  const auto& inputs = collective.inputs;
  const auto& outputs = collective.outputs;
  switch (collective.type) {
    case OpType::ALLREDUCE:
      for (size_t i = 0; i < outputs.size(); ++i) {
        outputs[i].copy_(inputs[i]);
        all_reduce(collective, outputs[i], gloo);
      }
      break;
    case OpType::REDUCE:
      reduce(collective, inputs[0], outputs.empty() ? Tensor() : outputs[0],
             gloo, collective.root);
      break;
    case OpType::BROADCAST:
      broadcast(collective, shown(collective)[0], gloo, collective.root);
      break;
    case OpType::_ALLGATHER_BASE:
      for (size_t i = 0; i < outputs.size(); ++i) {
        all_gather(collective, inputs[i], outputs[i], gloo);
      }
      break;
    case OpType::ALLGATHER:
      all_gather_list(collective, gloo);
      break;
    case OpType::GATHER: {
      Tensors from = bytes_of_each(inputs);
      std::vector<Tensors> to;
      if (!outputs.empty()) {
        to.push_back(bytes_of_each(outputs));
      }
      if (from[0].numel() > 0) {
        wait(gloo.gather(to, from, with_root<c10d::GatherOptions>(collective)));
      }
      break;
    }
    case OpType::SCATTER: {
      Tensors to = bytes_of_each(outputs);
      std::vector<Tensors> from;
      if (!inputs.empty()) {
        from.push_back(bytes_of_each(inputs));
      }
      if (to[0].numel() > 0) {
        wait(gloo.scatter(to, from,
                          with_root<c10d::ScatterOptions>(collective)));
      }
      break;
    }
    case OpType::_REDUCE_SCATTER_BASE:
    case kReduceScatterTensorCoalesced:
      for (size_t i = 0; i < outputs.size(); ++i) {
        reduce_scatter(collective, inputs[i], outputs[i], gloo);
      }
      break;
    case OpType::REDUCE_SCATTER:
      reduce_scatter_list(collective, gloo);
      break;
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
      all_to_all(collective, gloo);
      break;
    case OpType::BARRIER:
      break;
    default:
      TORCH_INTERNAL_ASSERT(false, "tpu: no collective ", collective.name);
  }
}

}  // namespace torch_google::tpu

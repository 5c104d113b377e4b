// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/collective.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {
namespace {

using at::Tensor;
using c10d::OpType;
using c10d::ReduceOp;

const char* name_of(ReduceOp::RedOpType op) {
  constexpr const char* kNames[] = {"SUM", "AVG",  "PRODUCT",
                                    "MIN", "MAX",  "BAND",
                                    "BOR", "BXOR", "PREMUL_SUM"};
  return op < ReduceOp::UNUSED ? kNames[op] : "UNUSED";
}

ReduceOp::RedOpType kind(const ReduceOp& op) { return op.op_; }

// The dtype in which gloo reduces tensors of a dtype.
c10::ScalarType reduced_dtype(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
      return at::kByte;
    case at::kShort:
    case at::kUInt16:
      return at::kInt;
    case at::kUInt32:
    case at::kUInt64:
      return at::kLong;
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e5m2:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2fnuz:
      return at::kFloat;
    default:
      return dtype;
  }
}

void check_reduction(const Tensor& tensor, const ReduceOp& op,
                     const std::string& name) {
  const auto dtype = tensor.scalar_type();
  const auto refuse = [&](const char* remedy) {
    TORCH_CHECK_TYPE(false, "tpu: torch.distributed: ", name, ": ",
                     name_of(kind(op)), " is not defined for ", dtype, ". ",
                     remedy);
  };
  const bool integral = at::isIntegralType(dtype, /*includeBool=*/true);
  switch (kind(op)) {
    case ReduceOp::BAND:
    case ReduceOp::BOR:
    case ReduceOp::BXOR:
      if (!integral) {
        refuse("Use an integer or bool tensor");
      }
      break;
    case ReduceOp::PRODUCT:
    case ReduceOp::MIN:
    case ReduceOp::MAX:
      if (at::isComplexType(dtype)) {
        refuse("Complex numbers have only SUM, AVG and PREMUL_SUM");
      }
      if (dtype == at::kUInt64 && kind(op) != ReduceOp::PRODUCT) {
        refuse("Convert the tensor to another dtype");
      }
      break;
    case ReduceOp::AVG:
    case ReduceOp::PREMUL_SUM:
      if (integral) {
        refuse("Use a floating-point tensor, or SUM");
      }
      break;
    case ReduceOp::UNUSED:
      refuse("Use an operation of torch.distributed.ReduceOp");
      break;
    default:
      break;
  }
}

// The operation by which gloo does another one, after `prepared` and before
// `completed`.
ReduceOp gloo_op(const ReduceOp& op, c10::ScalarType dtype) {
  const auto wanted = kind(op);
  if (dtype == at::kBool) {
    // With values of 0 and 1, a sum is an "or" and a product an "and".
    if (wanted == ReduceOp::SUM || wanted == ReduceOp::BOR) {
      return ReduceOp::MAX;
    }
    if (wanted == ReduceOp::PRODUCT || wanted == ReduceOp::BAND) {
      return ReduceOp::MIN;
    }
  }
  if (wanted == ReduceOp::AVG || wanted == ReduceOp::PREMUL_SUM) {
    return ReduceOp::SUM;
  }
  return wanted;
}

// `tensor` as numbers that gloo reduces: over the same memory, or a copy.
Tensor reducible(const Tensor& tensor) {
  Tensor numbers = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
  const auto dtype = reduced_dtype(numbers.scalar_type());
  return dtype == numbers.scalar_type() ? numbers : numbers.to(dtype);
}

void scale(const Tensor& numbers, const ReduceOp& op) {
  if (kind(op) != ReduceOp::PREMUL_SUM) {
    return;
  }
  const auto* supplement =
      dynamic_cast<c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_INTERNAL_ASSERT(supplement, "tpu: PREMUL_SUM without a factor");
  if (supplement->tensor_factor.defined()) {
    numbers.mul_(supplement->tensor_factor);
  } else {
    numbers.mul_(supplement->double_factor);
  }
}

// Puts the reduced numbers into an output.
void complete(const Tensor& output, Tensor numbers, const ReduceOp& op,
              int size) {
  if (kind(op) == ReduceOp::AVG) {
    numbers.div_(size);
  }
  if (output.is_complex()) {
    numbers = at::view_as_complex(numbers);
  }
  if (!numbers.is_alias_of(output)) {
    output.copy_(numbers.view(output.sizes()));
  }
}

int64_t bytes(const Tensor& tensor) {
  return static_cast<int64_t>(tensor.numel() * tensor.itemsize());
}

void append(std::ostream& out, const Tensor& tensor) {
  out << c10::getDtypeNames(tensor.scalar_type()).first << tensor.sizes();
}

bool is_send_or_recv(OpType type) {
  return type == OpType::SEND || type == OpType::RECV ||
         type == OpType::RECVANYSOURCE;
}

// The tensors that `text` shows.
const Tensors& shown(const Collective& collective) {
  return collective.inputs.empty() ? collective.outputs : collective.inputs;
}

std::string text_of(const Collective& collective) {
  std::ostringstream out;
  out << collective.name;
  if (collective.reduces) {
    out << ' ' << name_of(kind(collective.op));
  }
  const auto& tensors = shown(collective);
  for (size_t i = 0; i < tensors.size() && i < 4; ++i) {
    out << (i ? ", " : " of ");
    append(out, tensors[i]);
  }
  if (tensors.size() > 4) {
    out << ", and " << tensors.size() - 4 << " more tensors";
  }
  if (collective.root >= 0) {
    out << ", root " << collective.root;
  }
  return out.str();
}

// Rows of dimension 0 as bytes, by rank.
std::vector<int64_t> split_bytes(const Tensor& tensor,
                                 const std::vector<int64_t>& splits, int size) {
  const int64_t total = bytes(tensor);
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

void check_splits(const Collective& collective, const Tensor& tensor,
                  const std::vector<int64_t>& splits, int size,
                  const char* which) {
  const int64_t rows = tensor.dim() ? tensor.size(0) : 0;
  if (splits.empty()) {
    TORCH_CHECK_VALUE(
        rows % size == 0, "tpu: torch.distributed: ", collective.name,
        ": dimension 0 of the ", which, ", ", rows,
        ", is not divisible by the ", size, " ranks. Give the split sizes");
    return;
  }
  TORCH_CHECK_VALUE(
      static_cast<int>(splits.size()) == size &&
          std::accumulate(splits.begin(), splits.end(), int64_t{0}) == rows,
      "tpu: torch.distributed: ", collective.name, ": the ", which,
      " splits are ", c10::IntArrayRef(splits), ", but must be ", size,
      " numbers with the sum ", rows, ", the size of dimension 0");
}

void check_count(const Collective& collective, const Tensors& tensors,
                 size_t count, const char* which) {
  TORCH_CHECK_VALUE(tensors.size() == count,
                    "tpu: torch.distributed: ", collective.name, ": found ",
                    tensors.size(), " ", which, " tensors, but it takes ",
                    count, ", one for each rank");
}

void check_numel(const Collective& collective, const Tensor& tensor,
                 int64_t expected, const char* which) {
  TORCH_CHECK_VALUE(tensor.numel() == expected,
                    "tpu: torch.distributed: ", collective.name, ": the ",
                    which, " has ", tensor.numel(), " elements, but must have ",
                    expected);
}

// Fills sends and expects, and checks the arguments of this rank.
void describe_sizes(const Collective& collective, int rank, int size,
                    Agreement& agreement) {
  const auto& inputs = collective.inputs;
  const auto& outputs = collective.outputs;
  const auto each_pair = [&](int64_t ratio) {
    // ratio: elements of the larger tensor for one of the smaller, or -size.
    TORCH_CHECK_VALUE(inputs.size() == outputs.size(),
                      "tpu: torch.distributed: ", collective.name, ": found ",
                      inputs.size(), " inputs and ", outputs.size(),
                      " outputs. Give as many of both");
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (ratio > 0) {
        check_numel(collective, outputs[i], inputs[i].numel() * ratio,
                    "output");
      } else {
        check_numel(collective, inputs[i], outputs[i].numel() * -ratio,
                    "input");
      }
    }
  };
  switch (collective.type) {
    case OpType::_ALLGATHER_BASE:
      each_pair(size);
      break;
    case OpType::_REDUCE_SCATTER_BASE:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      each_pair(-size);
      break;
    case OpType::ALLGATHER:
      check_count(collective, outputs, size, "output");
      check_numel(collective, outputs[rank], inputs[0].numel(),
                  "own part of the output");
      agreement.sends.assign(size, bytes(inputs[0]));
      for (const auto& output : outputs) {
        agreement.expects.push_back(bytes(output));
      }
      break;
    case OpType::GATHER:
      if (rank == collective.root) {
        check_count(collective, outputs, size, "output");
        for (const auto& output : outputs) {
          check_numel(collective, output, inputs[0].numel(), "output");
        }
      }
      break;
    case OpType::SCATTER:
      if (rank == collective.root) {
        check_count(collective, inputs, size, "input");
        for (const auto& input : inputs) {
          check_numel(collective, input, outputs[0].numel(), "input");
        }
      }
      break;
    case OpType::REDUCE_SCATTER:
      check_count(collective, inputs, size, "input");
      check_numel(collective, outputs[0], inputs[rank].numel(), "output");
      break;
    case OpType::ALLTOALL:
      check_count(collective, inputs, size, "input");
      check_count(collective, outputs, size, "output");
      for (int i = 0; i < size; ++i) {
        agreement.sends.push_back(bytes(inputs[i]));
        agreement.expects.push_back(bytes(outputs[i]));
      }
      break;
    case OpType::ALLTOALL_BASE:
      check_splits(collective, inputs[0], collective.input_splits, size,
                   "input");
      check_splits(collective, outputs[0], collective.output_splits, size,
                   "output");
      agreement.sends = split_bytes(inputs[0], collective.input_splits, size);
      agreement.expects =
          split_bytes(outputs[0], collective.output_splits, size);
      break;
    default:
      break;
  }
}

// The part of a collective that is equal on all ranks.
std::string common_of(const Collective& collective, int size) {
  std::ostringstream out;
  out << static_cast<int>(collective.type) << ' ' << collective.name << ' '
      << collective.root;
  if (collective.reduces) {
    out << ' ' << name_of(kind(collective.op));
  }
  const auto numbers = [&](const Tensors& tensors, int64_t factor = 1) {
    for (const auto& tensor : tensors) {
      out << ' ' << static_cast<int>(tensor.scalar_type()) << ':'
          << tensor.numel() * factor;
    }
  };
  switch (collective.type) {
    case OpType::ALLREDUCE:
    case OpType::REDUCE:
    case OpType::GATHER:
    case OpType::_ALLGATHER_BASE:
    case OpType::_REDUCE_SCATTER_BASE:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
    case OpType::REDUCE_SCATTER:
      numbers(collective.inputs);
      break;
    case OpType::BROADCAST:
      numbers(shown(collective));
      break;
    case OpType::SCATTER:
      numbers(collective.outputs);
      break;
    case OpType::ALLGATHER:
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
      out << ' ' << static_cast<int>(collective.inputs[0].scalar_type());
      break;
    default:
      break;
  }
  return out.str();
}

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
  // gloo may write to the tensor on every rank.
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
  if (kind(collective.op) == ReduceOp::PREMUL_SUM) {
    if (numbers.is_alias_of(input)) {
      numbers = numbers.clone();
    }
    scale(numbers, collective.op);
  }
  Tensor part = reducible(output);
  auto options = with_timeout<c10d::ReduceScatterOptions>(collective);
  options.reduceOp = gloo_op(collective.op, output.scalar_type());
  if (output.numel() > 0) {
    Tensor flat_part = part.view(-1);
    Tensor flat = numbers.view(-1);
    wait(gloo._reduce_scatter_base(flat_part, flat, options));
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
    Tensor all = at::empty({gloo.getSize() * bytes(input)}, at::kByte);
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
      is_list ? at::empty(
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

// reduce_scatter of a list: one reduction if all parts are equal in size.
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

// Combines another rank's numbers into `total`.
void combine(const Tensor& total, const Tensor& more, ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
      total.add_(more);
      break;
    case ReduceOp::PRODUCT:
      total.mul_(more);
      break;
    case ReduceOp::MIN:
      total.copy_(at::minimum(total, more));
      break;
    case ReduceOp::MAX:
      total.copy_(at::maximum(total, more));
      break;
    case ReduceOp::BAND:
      total.bitwise_and_(more);
      break;
    case ReduceOp::BOR:
      total.bitwise_or_(more);
      break;
    case ReduceOp::BXOR:
      total.bitwise_xor_(more);
      break;
    default:
      TORCH_INTERNAL_ASSERT(false, "tpu: no reduction ", name_of(op));
  }
}

}  // namespace

void wait(const c10::intrusive_ptr<c10d::Work>& work,
          std::chrono::milliseconds timeout) {
  const bool done = work->wait(timeout);
  // The work of gloo's reduce_scatter returns from wait() after an error.
  if (const auto error = work->exception()) {
    std::rethrow_exception(error);
  }
  TORCH_CHECK(done && work->isSuccess(), "gloo ended without a result");
}

Tensor bytes_of(const Tensor& tensor) {
  return tensor.reshape(-1).view(at::kByte);
}

Agreement agreement_of(const Collective& collective, int rank, int size) {
  Agreement agreement;
  agreement.text = text_of(collective);
  for (const auto* tensors : {&collective.inputs, &collective.outputs}) {
    for (const auto& tensor : *tensors) {
      TORCH_CHECK_TYPE(tensor.layout() == at::kStrided,
                       "tpu: torch.distributed: ", collective.name,
                       " takes dense tensors, got one with the layout ",
                       tensor.layout(), ". Use to_dense()");
      TORCH_CHECK_TYPE(
          tensor.scalar_type() == shown(collective)[0].scalar_type() ||
              collective.type == OpType::COALESCED ||
              collective.type == OpType::ALLREDUCE,
          "tpu: torch.distributed: ", collective.name, ": found the dtypes ",
          shown(collective)[0].scalar_type(), " and ", tensor.scalar_type(),
          ". Use the same dtype for all tensors");
    }
  }
  if (collective.reduces) {
    for (const auto& tensor : collective.inputs) {
      check_reduction(tensor, collective.op, collective.name);
    }
  }
  if (is_send_or_recv(collective.type)) {
    return agreement;
  }
  TORCH_CHECK_VALUE(collective.root < size,
                    "tpu: torch.distributed: ", collective.name,
                    ": the root is rank ", collective.root,
                    ", but the group has ", size, " ranks");
  describe_sizes(collective, rank, size, agreement);
  agreement.common = common_of(collective, size);
  return agreement;
}

int64_t exchanged_bytes(const Collective& collective) {
  switch (collective.type) {
    case OpType::BARRIER:
      return 0;
    case OpType::ALLREDUCE:
    case OpType::REDUCE:
    case OpType::BROADCAST:
    case OpType::_ALLGATHER_BASE:
      return shown(collective).size() == 1 ? bytes(shown(collective)[0]) : -1;
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
    // The copy is aligned, as views of another dtype must be.
    Tensor numbers =
        reducible(raw.clone().view(output.scalar_type()).view(output.sizes()));
    scale(numbers, collective.op);
    return numbers;
  };
  Tensor total = numbers_of(ranks[0]);
  const auto op = kind(gloo_op(collective.op, output.scalar_type()));
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
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
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

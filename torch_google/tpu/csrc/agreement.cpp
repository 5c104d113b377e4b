// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/agreement.h"

#include <c10/util/Exception.h>

#include <numeric>
#include <sstream>

#include "torch_google/tpu/csrc/reduction.h"

namespace torch_google::tpu {
namespace {

using at::Tensor;
using c10d::OpType;

void append(std::ostream& out, const Tensor& tensor) {
  out << c10::getDtypeNames(tensor.scalar_type()).first << tensor.sizes();
}

std::string text_of(const Collective& collective) {
  std::ostringstream out;
  out << collective.name;
  if (collective.reduces) {
    out << ' ' << name_of(collective.op.op_);
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

// Checks the sizes of this rank's arguments, and fills in `agreement.sends` and
// `agreement.expects`.
void describe_sizes(const Collective& collective, int rank, int size,
                    Agreement& agreement) {
  const auto& inputs = collective.inputs;
  const auto& outputs = collective.outputs;
  const auto each_pair = [&](int64_t ratio) {
    // `ratio` is n if each output has n times as many elements as its input,
    // and -n if each input has n times as many as its output.
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
    case kReduceScatterTensorCoalesced:
      each_pair(-size);
      break;
    case OpType::ALLGATHER:
      check_count(collective, outputs, size, "output");
      check_numel(collective, outputs[rank], inputs[0].numel(),
                  "own part of the output");
      agreement.sends.assign(size, byte_count(inputs[0]));
      for (const auto& output : outputs) {
        agreement.expects.push_back(byte_count(output));
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
        agreement.sends.push_back(byte_count(inputs[i]));
        agreement.expects.push_back(byte_count(outputs[i]));
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

// Returns a string with the properties of a collective that must be equal on
// all ranks.
std::string common_of(const Collective& collective, int size) {
  std::ostringstream out;
  out << static_cast<int>(collective.type) << ' ' << collective.name << ' '
      << collective.root;
  if (collective.reduces) {
    out << ' ' << name_of(collective.op.op_);
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
    case kReduceScatterTensorCoalesced:
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

}  // namespace

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
  if (is_message(collective.type)) {
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

}  // namespace torch_google::tpu

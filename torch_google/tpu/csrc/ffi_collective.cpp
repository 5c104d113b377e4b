// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/ffi_collective.h"

#include <ATen/ATen.h>

#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/backend.h"
#include "torch_google/tpu/csrc/host_group.h"
#include "torch_google/tpu/csrc/host_memory.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/work.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wreturn-type"
#include "xla/ffi/api/ffi.h"
#pragma GCC diagnostic pop

namespace torch_google::tpu {
namespace {

namespace ffi = xla::ffi;
using c10d::OpType;
using c10d::ReduceOp;
using Splits = ffi::Span<const int64_t>;

struct Kind {
  std::string_view name;
  OpType type;
};

// These names match those of eager collectives, so that one rank may run a
// collective in a compiled program while another rank runs it eagerly.
constexpr Kind kKinds[] = {
    {"all_gather_into_tensor", OpType::_ALLGATHER_BASE},
    {"all_gather_into_tensor_coalesced", OpType::_ALLGATHER_BASE},
    {"all_reduce", OpType::ALLREDUCE},
    {"all_reduce_coalesced", OpType::ALLREDUCE},
    {"all_to_all", OpType::ALLTOALL},
    {"all_to_all_single", OpType::ALLTOALL_BASE},
    {"broadcast", OpType::BROADCAST},
    {"reduce_scatter_tensor", OpType::_REDUCE_SCATTER_BASE},
    {"reduce_scatter_tensor_coalesced", kReduceScatterTensorCoalesced},
};

constexpr std::pair<std::string_view, ReduceOp::RedOpType> kReductions[] = {
    {"avg", ReduceOp::AVG},         {"band", ReduceOp::BAND},
    {"bor", ReduceOp::BOR},         {"bxor", ReduceOp::BXOR},
    {"max", ReduceOp::MAX},         {"min", ReduceOp::MIN},
    {"product", ReduceOp::PRODUCT}, {"sum", ReduceOp::SUM},
};

c10::ScalarType dtype_of(ffi::DataType dtype) {
  switch (dtype) {
    case ffi::PRED:
      return at::kBool;
    case ffi::S8:
      return at::kChar;
    case ffi::S16:
      return at::kShort;
    case ffi::S32:
      return at::kInt;
    case ffi::S64:
      return at::kLong;
    case ffi::U8:
      return at::kByte;
    case ffi::U16:
      return at::kUInt16;
    case ffi::U32:
      return at::kUInt32;
    case ffi::U64:
      return at::kUInt64;
    case ffi::F16:
      return at::kHalf;
    case ffi::BF16:
      return at::kBFloat16;
    case ffi::F32:
      return at::kFloat;
    case ffi::F64:
      return at::kDouble;
    case ffi::C64:
      return at::kComplexFloat;
    case ffi::C128:
      return at::kComplexDouble;
    case ffi::F8E4M3FN:
      return at::kFloat8_e4m3fn;
    case ffi::F8E4M3FNUZ:
      return at::kFloat8_e4m3fnuz;
    case ffi::F8E5M2:
      return at::kFloat8_e5m2;
    case ffi::F8E5M2FNUZ:
      return at::kFloat8_e5m2fnuz;
    default:
      TORCH_CHECK_TYPE(false,
                       "tpu: torch.distributed: no collective takes XLA's type "
                       "number ",
                       static_cast<int>(dtype), ". Convert the tensor");
  }
}

// Returns a tensor over XLA's memory.
at::Tensor view_of(const ffi::AnyBuffer& buffer) {
  const auto sizes = buffer.dimensions();
  return at::from_blob(buffer.untyped_data(),
                       at::IntArrayRef(sizes.begin(), sizes.size()),
                       at::dtype(dtype_of(buffer.element_type())));
}

void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  if (from.nbytes() > 0) {
    std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
  }
}

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const auto& tensor : tensors) {
    copies.push_back(host_empty(tensor.sizes(), tensor.scalar_type()));
    copy_bytes(copies.back(), tensor);
  }
  return copies;
}

// A single call to the handler. XLA's buffers are valid until the promise is
// fulfilled. If the group fails, the promise is fulfilled while gloo may still
// use its tensors, so gloo gets copies of the buffers.
class HandlerCall {
 public:
  HandlerCall(Collective collective, Tensors inputs, Tensors outputs)
      : collective_(std::move(collective)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}

  ffi::Future future() { return ffi::Future(promise_); }

  // Queues the collective in its group. Throws if this rank's arguments are
  // invalid.
  std::shared_ptr<Arrival> post(const std::string& group_name,
                                const std::shared_ptr<HandlerCall>& self) {
    Gil gil;
    const auto group = host_group(group_name);
    Collective collective = collective_;
    collective.inputs = inputs_;
    collective.outputs = outputs_;
    if (collective.type == OpType::BROADCAST) {
      is_root_ = group->rank() == collective.root;
      (is_root_ ? collective.outputs : collective.inputs).clear();
    }
    return group->post(std::move(collective),
                       [self](Collective& job) { return self->prepare(job); });
  }

  // Copies the results to XLA's buffers and fulfills the promise. `error` is
  // null if the collective succeeded.
  void end(const Arrival* arrival, std::exception_ptr error) {
    if (!error) {
      if (is_root_) {
        copy_bytes(outputs_[0], inputs_[0]);
      } else {
        for (size_t i = 0; i < outputs_.size(); ++i) {
          copy_bytes(outputs_[i], arrival->storage(i));
        }
      }
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    if (error) {
      promise_.SetError(translated(error));
    } else {
      promise_.SetAvailable();
    }
  }

 private:
  // Runs in the group's thread.
  HostGroup::Results prepare(Collective& job) {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!ended_, "tpu: torch.distributed: the program has ended");
    if (job.type == OpType::ALLREDUCE) {
      job.inputs = job.outputs = copies_of(inputs_);
    } else {
      job.inputs = job.inputs.empty() ? Tensors() : copies_of(inputs_);
      for (auto& output : job.outputs) {
        output = host_empty(output.sizes(), output.scalar_type());
      }
    }
    return {job.outputs, {}};
  }

  // Converts an exception to an XLA error. runtime/errors.py converts that to a
  // Python exception, whose type depends on the error code.
  static ffi::Error translated(std::exception_ptr error) {
    try {
      std::rethrow_exception(error);
    } catch (const c10::ValueError& reason) {
      return ffi::Error::InvalidArgument(reason.what_without_backtrace());
    } catch (const c10::TypeError& reason) {
      return ffi::Error(ffi::ErrorCode::kFailedPrecondition,
                        reason.what_without_backtrace());
    } catch (const c10::Error& reason) {
      return ffi::Error::Internal(reason.what_without_backtrace());
    } catch (const std::exception& reason) {
      return ffi::Error::Internal(std::string("tpu: torch.distributed: ") +
                                  reason.what());
    }
  }

  const Collective collective_;
  const Tensors inputs_;
  const Tensors outputs_;
  bool is_root_ = false;
  ffi::Promise promise_;
  std::mutex mutex_;
  bool ended_ = false;
};

template <typename Table>
auto look_up(const Table& table, std::string_view name, const char* what) {
  for (const auto& row : table) {
    const auto& [key, value] = row;
    if (key == name) {
      return value;
    }
  }
  TORCH_CHECK_VALUE(false, "tpu: torch.distributed: unknown ", what, " '", name,
                    "'. See torch_google/tpu/csrc/ffi_collective.cpp");
}

Collective collective_of(std::string_view name, std::string_view reduction,
                         int64_t root, Splits input_splits,
                         Splits output_splits) {
  Collective collective;
  collective.type = look_up(kKinds, name, "collective");
  collective.name = name;
  if (!reduction.empty()) {
    collective.reduces = true;
    collective.op = look_up(kReductions, reduction, "reduction");
  }
  collective.root = static_cast<int>(root);
  collective.input_splits.assign(input_splits.begin(), input_splits.end());
  collective.output_splits.assign(output_splits.begin(), output_splits.end());
  return collective;
}

ffi::Future run_call(std::string_view name, std::string_view group,
                     std::string_view reduction, int64_t root,
                     Splits input_splits, Splits output_splits,
                     ffi::RemainingArgs arguments, ffi::RemainingRets results) {
  Tensors inputs;
  Tensors outputs;
  Collective collective;
  std::exception_ptr error;
  try {
    // The last argument and the last result are tokens, which have no data.
    for (size_t i = 0; i + 1 < arguments.size(); ++i) {
      inputs.push_back(view_of(*arguments.get<ffi::AnyBuffer>(i)));
    }
    for (size_t i = 0; i + 1 < results.size(); ++i) {
      outputs.push_back(view_of(**results.get<ffi::AnyBuffer>(i)));
    }
    collective =
        collective_of(name, reduction, root, input_splits, output_splits);
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  const auto call = std::make_shared<HandlerCall>(
      std::move(collective), std::move(inputs), std::move(outputs));
  auto future = call->future();
  std::shared_ptr<Arrival> arrival;
  if (!error) {
    try {
      arrival = call->post(std::string(group), call);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
  }
  if (error) {
    call->end(nullptr, error);
    return future;
  }
  // Fulfill the promise in a separate thread, because XLA runs the dependent
  // operations in the thread that fulfills it, and the group's thread must stay
  // free. wait() also checks for failures of other ranks.
  run_apart([call, arrival] {
    arrival->wait();
    call->end(arrival.get(), arrival->error());
  });
  return future;
}

XLA_FFI_DEFINE_HANDLER(kHandler, run_call,
                       ffi::Ffi::Bind()
                           .Attr<std::string_view>("collective")
                           .Attr<std::string_view>("group")
                           .Attr<std::string_view>("reduction")
                           .Attr<int64_t>("root")
                           .Attr<Splits>("input_splits")
                           .Attr<Splits>("output_splits")
                           .RemainingArgs()
                           .RemainingRets());

}  // namespace

pybind11::capsule collective_handler() {
  return pybind11::capsule(reinterpret_cast<void*>(kHandler),
                           "xla._CUSTOM_CALL_TARGET");
}

}  // namespace torch_google::tpu

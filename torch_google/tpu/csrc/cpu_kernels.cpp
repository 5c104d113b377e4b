// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/cpu_kernels.h"

#include <ATen/Context.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "torch_google/tpu/csrc/arrival.h"
#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/call_kind.h"
#include "torch_google/tpu/csrc/program.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

// Fused mode compiles a call once it has occurred in this many rounds. See
// end_round() in cpu_kernels.h.
constexpr uint32_t kRounds = 3;
// If a kind of call has occurred with more than kManySizes sizes, a call must
// occur in kManyRounds rounds instead of kRounds, because a program for one of
// so many sizes is unlikely to be reused for long.
constexpr size_t kManySizes = 16;
constexpr uint32_t kManyRounds = 8;
// A round ends after this many calls, unless the host reads a value earlier.
constexpr uint64_t kLongestRound = 4096;
// The counts of an operator are reset after it has been called with this many
// different sizes.
constexpr size_t kMostSizes = 8192;
// Values returned by the Python function `admit`. See Admission in
// eager/cpu_kernels.py.
constexpr long kNever = 0;
constexpr long kAgain = 1;
constexpr long kUndecided = 2;

bool enabled = false;
PyObject* admit = nullptr;
uint64_t calls = 0;
uint64_t round_number = 1;
uint64_t calls_in_round = 0;

bool is_same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Returns whether CPU kernels compute the same values as the device for this
// call. Its tensors must be unsharded, without a conj or neg bit. If the
// operator writes to a tensor, no two of the tensors may be different views of
// the same storage.
bool is_plain(const SchemaInfo& schema_info, const Call& call) {
  if (call.generator.defined() ||
      at::globalContext().float32MatmulPrecision() !=
          at::Float32MatmulPrecision::HIGHEST) {
    return false;
  }
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const at::Tensor& tensor = *call.tensors[i];
    const auto* implementation = tensor.unsafeGetTensorImpl();
    const Box& box = box_of(*implementation);
    if (box.sharding() != kOneDevice || implementation->is_conj() ||
        implementation->is_neg()) {
      return false;
    }
    for (size_t j = 0; schema_info.writes && j < i; ++j) {
      if (storage_of(tensor) == storage_of(*call.tensors[j]) &&
          !is_same_view(tensor, *call.tensors[j])) {
        return false;
      }
    }
  }
  return true;
}

at::Tensor over(c10::Storage storage, const at::Tensor& like) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      like.sizes(), like.strides(), like.storage_offset());
  return tensor;
}

std::shared_ptr<Arrival> arrived(at::Tensor flat) {
  auto arrival = std::make_shared<Arrival>([] {});
  arrival->deliver({std::move(flat)});
  return arrival;
}

// Returns the values of a box (box.h) as flat host memory, which must not be
// written to. The box keeps its values in that memory until a program needs
// them.
at::Tensor host_values(Box& box) {
  for (;;) {
    if (const auto& arrival = box.arrival(); arrival && arrival->is_done() &&
                                             !arrival->error() &&
                                             !arrival->array(box.output())) {
      return arrival->storage(box.output());
    }
    if (box.is_blank()) {
      const int64_t count = std::accumulate(box.shape.begin(), box.shape.end(),
                                            int64_t{1}, std::multiplies<>());
      at::Tensor zeros = at::zeros({count}, at::TensorOptions(box.dtype));
      box.expect(arrived(zeros), 0);
      return zeros;
    }
    const Ref array = Ref::borrow(box.value(Reason::strict));
    const Ref answer = Ref::checked(
        PyObject_CallFunction(callbacks().to_host, "O", array.get()));
    const at::Tensor& alias = THPVariable_Unpack(answer.get());
    if (box.is_shared() || !box.holds(array.get())) {
      return alias.clone();  // other code may use the array's memory
    }
    // Copy the values, because JAX owns the array's memory and may reuse it.
    at::Tensor values = alias.clone();
    box.expect(arrived(values), 0);
    return values;
  }
}

// Returns the result, cloned if necessary, as a tensor that covers its own
// storage and has the strides that the result would have on the device.
at::Tensor owned(const at::Tensor& result,
                 const std::vector<const c10::StorageImpl*>& others) {
  const bool is_own = std::find(others.begin(), others.end(),
                                storage_of(result)) == others.end();
  if (!result.is_non_overlapping_and_dense()) {
    return result.clone(at::MemoryFormat::Contiguous);
  }
  const auto bytes = static_cast<size_t>(result.numel()) * result.itemsize();
  if (is_own && result.storage_offset() == 0 &&
      result.storage().nbytes() == bytes) {
    return result;
  }
  return result.clone(at::MemoryFormat::Preserve);
}

// Returns the whole storage of a CPU tensor as a flat tensor.
at::Tensor flat(const at::Tensor& values) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(values.storage()),
      c10::DispatchKeySet(c10::DispatchKey::CPU), values.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(
      {static_cast<int64_t>(values.storage().nbytes() / values.itemsize())});
  return tensor;
}

// Creates a tensor on the device whose value is a result of a CPU kernel.
at::Tensor to_device(const at::Tensor& result, c10::DeviceIndex device) {
  Sizes natural(result.sizes());
  if (result.numel() != 0) {
    std::vector<size_t> order(static_cast<size_t>(result.dim()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return result.strides()[a] > result.strides()[b];
    });
    for (size_t i = 0; i < order.size(); ++i) {
      natural[i] = result.sizes()[order[i]];
    }
  }
  at::Tensor tensor = make_tensor(result.sizes(), result.strides(), natural,
                                  result.scalar_type(), device);
  box_of(*tensor.unsafeGetTensorImpl()).expect(arrived(flat(result)), 0);
  return tensor;
}

// A single call to a CPU kernel.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& handle, const SchemaInfo& schema_info,
           c10::ArrayRef<c10::IValue> arguments, const Call& call)
      : handle_(handle),
        schema_(*schema_info.schema),
        arguments_(arguments),
        call_(call) {}

  // Runs the kernel. Returns false if it throws, or if it resized an argument.
  bool run() {
    mine_.clear();
    written_.clear();
    read_.clear();
    copies_.clear();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const auto* alias = schema_.arguments()[i].alias_info();
      mine_.push_back(moved(arguments_[i], alias && alias->isWrite()));
    }
    if (is_lazy_) {
      return false;
    }
    try {
      // Hold the GIL, because another thread could otherwise donate an input.
      handle_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU),
                              &mine_);
    } catch (const std::exception&) {
      PyErr_Clear();
      return false;
    }
    return std::none_of(written_.begin(), written_.end(), [](const auto& pair) {
      return !is_same_view(pair.first, pair.second);
    });
  }

  // Returns whether the storages that the operator writes to still contain the
  // values that the kernel read. Another thread may have replaced them.
  bool is_up_to_date() const {
    return std::all_of(copies_.begin(), copies_.end(), [](const Copy& copy) {
      const auto& now = copy.box->arrival();
      return now && now == copy.arrival;
    });
  }

  // Collects the new results as CPU tensors. Returns false if a result is not a
  // plain CPU tensor. Undefined results stay undefined.
  bool collect_results() {
    results_.clear();
    std::vector<const c10::StorageImpl*> others;
    for (const auto& tensor : read_) {
      others.push_back(storage_of(tensor));
    }
    for (size_t i = 0; i < mine_.size(); ++i) {
      const auto* alias = schema_.returns()[i].alias_info();
      if (alias && alias->isWrite()) {
        continue;
      }
      const auto add = [&](const at::Tensor& tensor) {
        if (!tensor.defined()) {
          results_.emplace_back();
          return true;
        }
        if (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided ||
            tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor()) {
          return false;
        }
        results_.push_back(owned(tensor, others));
        others.push_back(storage_of(results_.back()));
        return true;
      };
      if (mine_[i].isTensor()) {
        if (!add(mine_[i].toTensor())) {
          return false;
        }
      } else if (mine_[i].isTensorList()) {
        for (const at::Tensor& tensor : mine_[i].toTensorVector()) {
          if (!add(tensor)) {
            return false;
          }
        }
      } else if (mine_[i].isNone()) {
        results_.emplace_back();
      } else {
        return false;
      }
    }
    return true;
  }

  // Returns whether the results have the layouts that a program would give
  // them. `expected` has the format of CompiledOp.results.
  bool matches(PyObject* expected) const {
    const Ref items =
        Ref::checked(PySequence_Fast(expected, "tpu: expected results"));
    size_t next = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
      const Result result =
          read_result(PySequence_Fast_GET_ITEM(items.get(), i));
      if (result.kind == Result::argument) {
        continue;
      }
      if (next == results_.size()) {
        return false;
      }
      const at::Tensor& mine = results_[next++];
      if (result.kind == Result::undefined || !mine.defined()) {
        if (mine.defined() || result.kind != Result::undefined) {
          return false;
        }
        continue;
      }
      if (mine.scalar_type() != result.dtype ||
          mine.sizes() != c10::IntArrayRef(result.sizes) ||
          mine.strides() != c10::IntArrayRef(result.strides)) {
        return false;
      }
    }
    return next == results_.size();
  }

  // Creates new results on the device, and only then updates the arguments that
  // the operator writes to, so that none is changed if memory runs out. Returns
  // the operator's return values.
  std::vector<c10::IValue> store() {
    std::vector<at::Tensor> created;
    for (const auto& result : results_) {
      created.push_back(result.defined() ? to_device(result, call_.device)
                                         : at::Tensor());
    }
    for (const Copy& copy : copies_) {
      copy.box->expect(arrived(copy.values), 0);
    }
    std::vector<c10::IValue> returned;
    size_t next = 0;
    for (size_t i = 0; i < schema_.returns().size(); ++i) {
      const auto& item = schema_.returns()[i];
      if (item.alias_info() && item.alias_info()->isWrite()) {
        returned.push_back(argument_of(*item.alias_info()));
      } else if (mine_[i].isTensorList()) {
        const size_t count = mine_[i].toTensorVector().size();
        c10::List<at::Tensor> list;
        for (size_t k = 0; k < count; ++k) {
          list.push_back(created[next++]);
        }
        returned.emplace_back(std::move(list));
      } else {
        returned.emplace_back(created[next++]);
      }
    }
    return returned;
  }

 private:
  // A storage that the operator writes to, and its new values.
  struct Copy {
    Box* box;
    at::Tensor values;
    std::shared_ptr<Arrival> arrival;  // contains the values the kernel read
  };

  c10::IValue moved(const c10::IValue& value, bool is_written) {
    if (value.isTensor()) {
      return on_host(value.toTensor(), is_written);
    }
    if (value.isDevice()) {
      return value.toDevice().is_privateuseone() ? c10::Device(c10::kCPU)
                                                 : value.toDevice();
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        list.push_back(on_host(tensor, is_written));
      }
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor && tensor->defined()
                           ? std::optional(on_host(*tensor, is_written))
                           : std::nullopt);
      }
      return list;
    }
    return value;
  }

  at::Tensor on_host(const at::Tensor& tensor, bool is_written) {
    if (!tensor.defined()) {
      return tensor;
    }
    // The dispatcher resolves the conj, neg and zero-tensor keys before it
    // calls a kernel, but this call bypasses the dispatcher. Reading such a
    // tensor here would give wrong values, and a zero tensor has no memory.
    is_lazy_ = is_lazy_ || tensor.is_conj() || tensor.is_neg() ||
               tensor._is_zerotensor();
    if (is_lazy_ || !tensor.device().is_privateuseone()) {
      return tensor;
    }
    Box& box = box_of(*tensor.unsafeGetTensorImpl());
    const auto copied =
        std::find_if(copies_.begin(), copies_.end(),
                     [&](const Copy& copy) { return copy.box == &box; });
    at::Tensor values;
    if (copied != copies_.end()) {
      values = copied->values;
    } else {
      values = host_values(box);
      if (is_written) {
        values = values.clone();
        copies_.push_back({&box, values, box.arrival()});
      }
    }
    at::Tensor mine = over(values.storage(), tensor);
    read_.push_back(values);
    if (is_written) {
      written_.emplace_back(tensor, mine);
    }
    return mine;
  }

  // Returns the argument that a result with this alias annotation aliases, and
  // that the operator writes to.
  const c10::IValue& argument_of(const c10::AliasInfo& alias) const {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const auto* own = schema_.arguments()[i].alias_info();
      if (own && own->isWrite() && own->beforeSets() == alias.beforeSets()) {
        return arguments_[i];
      }
    }
    TORCH_INTERNAL_ASSERT(false, "tpu: ", schema_.operator_name(),
                          " returns no argument");
  }

  const c10::OperatorHandle& handle_;
  const c10::FunctionSchema& schema_;
  const c10::ArrayRef<c10::IValue> arguments_;
  const Call& call_;
  bool is_lazy_ = false;
  torch::jit::Stack mine_;
  std::vector<at::Tensor> read_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
  std::vector<Copy> copies_;
  std::vector<at::Tensor> results_;
};

}  // namespace

bool uses_cpu_kernels() { return enabled; }

void set_uses_cpu_kernels(bool value) { enabled = value; }

void set_cpu_kernel_policy(PyObject* function) {
  Py_XINCREF(function);
  Py_XDECREF(std::exchange(admit, function));
}

void end_round() {
  ++round_number;
  calls_in_round = 0;
}

uint64_t cpu_kernel_calls() { return calls; }

void reset_cpu_kernel_calls() { calls = 0; }

CpuKernels::Outcome CpuKernels::run(const c10::OperatorHandle& handle,
                                    const SchemaInfo& schema_info,
                                    torch::jit::Stack& stack, const Call& call,
                                    bool scalars_are_inputs, bool may_record) {
  const size_t arity = schema_info.schema->arguments().size();
  const auto arguments = torch::jit::last(stack, arity);
  Key key;
  KindKey kind_key(key);
  for (const auto& argument : arguments) {
    kind_key.add(argument);
  }
  auto known = kinds_.find(key);
  Ref expected;
  if (known == kinds_.end() || !known->second.is_checked) {
    if (known != kinds_.end() && !known->second.allowed) {
      return compile;
    }
    if (!admit || !is_plain(schema_info, call)) {
      return compile;
    }
    const auto python =
        python_call(handle, arguments, call, schema_info, scalars_are_inputs);
    expected = Ref::checked(PyObject_CallFunction(
        admit, "OOOi", python.op.ptr(), python.values.ptr(), python.bases.ptr(),
        static_cast<int>(call.device)));
    // `admit` may have run other operators, which may have changed kinds_.
    if (PyLong_Check(expected.get())) {
      const long answer = PyLong_AsLong(expected.get());
      if (answer == kNever) {
        kinds_[key] = {};
      }
      return answer == kAgain ? again : compile;
    }
    known = kinds_.try_emplace(key).first;
    known->second.allowed = true;
  } else if (!is_plain(schema_info, call)) {
    return compile;
  }
  if (may_record && recurs(call, known->second)) {
    return compile;
  }
  // Make sure that kernels and copies operate on plain CPU tensors. Otherwise,
  // an active torch.func transform would wrap the tensors.
  const c10::impl::ForceDispatchKeyGuard plain(
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
          c10::autocast_dispatch_keyset);
  for (;;) {
    HostCall host(handle, schema_info, arguments, call);
    if (!host.run() || !host.collect_results()) {
      return compile;
    }
    if (expected.get() && !host.matches(expected.get())) {
      kinds_[key] = {};
      return compile;
    }
    if (!host.is_up_to_date()) {
      continue;
    }
    auto returned = host.store();
    if (expected.get()) {
      kinds_[key].is_checked = true;
    }
    ++calls;
    if (++calls_in_round > kLongestRound) {
      end_round();
    }
    torch::jit::drop(stack, arity);
    std::move(returned.begin(), returned.end(), std::back_inserter(stack));
    return done;
  }
}

bool CpuKernels::recurs(const Call& call, Kind& kind) {
  if (recurrences_.size() > kMostSizes) {
    recurrences_.clear();
  }
  auto& recurrence = recurrences_[call.key];
  if (recurrence.rounds == 0) {
    ++kind.sizes;
  }
  if (recurrence.round != round_number) {
    recurrence.round = round_number;
    ++recurrence.rounds;
  }
  return recurrence.rounds >= (kind.sizes > kManySizes ? kManyRounds : kRounds);
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/cpu_kernels.h"

#include <ATen/Context.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/call_kind.h"
#include "torch_google/tpu/csrc/host_call.h"
#include "torch_google/tpu/csrc/program.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

// A call is compiled once it has occurred in this many rounds. See end_round()
// in cpu_kernels.h.
constexpr uint32_t kRounds = 3;
// If a kind of call has occurred with more than kManySizes sizes, a call must
// occur in kManyRounds rounds instead of kRounds, because a program for one of
// so many sizes is unlikely to be reused for long.
constexpr size_t kManySizes = 16;
constexpr uint32_t kManyRounds = 8;
// With CompileRecurring::in_stable_rounds, calls are compiled only after this
// many consecutive rounds without a new call. A step may have several rounds,
// because the host may read several values.
constexpr uint64_t kStableRounds = 4;
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

CpuKernelUse use = CpuKernelUse::never;
PyObject* admit = nullptr;
uint64_t calls = 0;
uint64_t current_round = 1;
uint64_t calls_in_round = 0;
uint64_t last_round_with_new_call = 0;

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

}  // namespace

CpuKernelUse cpu_kernel_use() { return use; }

void set_cpu_kernel_use(CpuKernelUse value) { use = value; }

bool uses_cpu_kernels() { return use != CpuKernelUse::never; }

void set_cpu_kernel_policy(PyObject* function) {
  Py_XINCREF(function);
  Py_XDECREF(std::exchange(admit, function));
}

void end_round() {
  ++current_round;
  calls_in_round = 0;
}

void note_new_call() { last_round_with_new_call = current_round; }

uint64_t round_number() { return current_round; }

uint64_t cpu_kernel_calls() { return calls; }

void reset_cpu_kernel_calls() { calls = 0; }

CpuKernels::Outcome CpuKernels::run(const c10::OperatorHandle& handle,
                                    const SchemaInfo& schema_info,
                                    torch::jit::Stack& stack, const Call& call,
                                    bool scalars_are_inputs,
                                    CompileRecurring compile_recurring) {
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
    const Ref admission = Ref::checked(PyObject_CallFunction(
        admit, "OOOi", python.op.ptr(), python.values.ptr(), python.bases.ptr(),
        static_cast<int>(call.device)));
    // `admit` may have run other operators, which may have changed kinds_.
    if (PyLong_Check(admission.get())) {
      const long answer = PyLong_AsLong(admission.get());
      if (answer == kNever) {
        kinds_[key] = {};
      }
      return answer == kAgain ? again : compile;
    }
    known = kinds_.try_emplace(key).first;
    known->second.allowed = true;
    known->second.in_place = static_cast<InPlace>(
        PyLong_AsLong(PyTuple_GET_ITEM(admission.get(), 1)));
    expected = Ref::borrow(PyTuple_GET_ITEM(admission.get(), 0));
  } else if (!is_plain(schema_info, call)) {
    return compile;
  }
  const InPlace in_place =
      known->second.is_checked ? known->second.in_place : InPlace::never;
  if (compile_recurring != CompileRecurring::never &&
      recurs(call, known->second) &&
      (compile_recurring == CompileRecurring::at_once ||
       current_round > last_round_with_new_call + kStableRounds)) {
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
    // The first call of a kind writes to a copy, which is dropped if the
    // kernel's results differ from the expected ones.
    if (!host.run(in_place) || !host.collect_results()) {
      return compile;
    }
    if (expected.get() && !host.matches(expected.get())) {
      kinds_[key] = {};
      return compile;
    }
    host.create_results();
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
    note_new_call();
  }
  if (recurrence.round != current_round) {
    recurrence.round = current_round;
    ++recurrence.rounds;
  }
  return recurrence.rounds >= (kind.sizes > kManySizes ? kManyRounds : kRounds);
}

}  // namespace torch_google::tpu

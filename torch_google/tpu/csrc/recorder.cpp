// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/recorder.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/cpu_kernels.h"
#include "torch_google/tpu/csrc/generator.h"
#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/key.h"
#include "torch_google/tpu/csrc/mode.h"
#include "torch_google/tpu/csrc/operator_policy.h"
#include "torch_google/tpu/csrc/program.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/run.h"
#include "torch_google/tpu/csrc/torch_release.h"
#include "torch_google/tpu/csrc/trace.h"

namespace torch_google::tpu {
namespace {

// The programs and properties of one operator. Guarded by the GIL.
struct Operator {
  bool scalars_are_inputs = false;
  bool crosses_devices = false;
  bool takes_indices = false;
  bool takes_one_element = false;
  std::optional<SchemaInfo> schema_info;
  // Shared pointers keep a program alive if it is evicted while it runs.
  std::unordered_map<Key, std::shared_ptr<const Program>, KeyHash> programs;
  CpuKernels cpu_kernels;
};

std::unordered_map<std::string, std::unique_ptr<Operator>>& operators() {
  static auto* all =
      new std::unordered_map<std::string, std::unique_ptr<Operator>>;
  return *all;
}

Operator& operator_named(const std::string& name) {
  auto& found = operators()[name];
  if (!found) {
    found = std::make_unique<Operator>();
    const auto& policy = policy_of(name);
    found->crosses_devices = policy.crosses_devices;
    found->takes_indices = policy.takes_indices;
    found->takes_one_element = policy.takes_one_element;
  }
  return *found;
}

Counts counters{};

// Performs a copy_ between devices, as a transfer instead of a program. Returns
// false if both tensors are on the same device.
bool transferred(torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, 3);
  const at::Tensor target = arguments[0].toTensor();
  const at::Tensor source = arguments[1].toTensor();
  if (target.device() == source.device()) {
    return false;
  }
  Ref to(THPVariable_Wrap(target));
  Ref from(THPVariable_Wrap(source));
  Ref::checked(
      PyObject_CallFunction(callbacks().transfer, "OOO", to.get(), from.get(),
                            arguments[2].toBool() ? Py_True : Py_False));
  torch::jit::drop(stack, 3);
  torch::jit::push(stack, target);
  return true;
}

// Moves the index tensors of x[i] to x's device. Zero-dimensional indices stay
// on the CPU, because they are treated as scalars. uint8 masks cause a warning,
// as on all devices.
void bring_indices(torch::jit::Stack& stack, size_t arity) {
  const auto arguments = torch::jit::last(stack, arity);
  const at::Device device = arguments[0].toTensor().device();
  // Accept any list, because TorchScript passes the indices as a generic list.
  const auto indices = arguments[1].toListRef();
  const auto is_elsewhere = [&](const at::Tensor& index) {
    return device.is_privateuseone() && index.device().is_cpu() &&
           index.dim() > 0;
  };
  bool any = false;
  c10::List<std::optional<at::Tensor>> brought;
  for (const c10::IValue& given : indices) {
    std::optional<at::Tensor> index;
    if (given.isTensor() && given.toTensor().defined()) {
      index = given.toTensor();
      TORCH_CHECK(!device.is_cpu() || index->device().is_cpu(),
                  "indices should be either on cpu or on the same device as "
                  "the indexed tensor (cpu), but one is on ",
                  index->device(), ". Move it with .to()");
      if (index->scalar_type() == at::kByte) {
        TORCH_WARN("a mask of torch.uint8 is deprecated: use torch.bool");
      }
      if (is_elsewhere(*index)) {
        index = index->to(device);
        any = true;
      }
    }
    brought.push_back(std::move(index));
  }
  if (!any) {
    return;
  }
  stack[stack.size() - arity + 1] = std::move(brought);
}

// Reshapes one-element CPU tensors to scalars, which are 0-dimensional.
void reshape_to_scalars(torch::jit::Stack& stack, size_t arity) {
  for (size_t i = stack.size() - arity; i < stack.size(); ++i) {
    auto& argument = stack[i];
    if (argument.isTensor() && argument.toTensor().defined() &&
        argument.toTensor().is_cpu() && argument.toTensor().numel() == 1) {
      argument = argument.toTensor().reshape({});
    }
  }
}

void record(Operator& self, const c10::OperatorHandle& handle,
            torch::jit::Stack& stack) {
  start();
  Gil gil;
  // Drop the references that were released without the GIL. The main thread
  // also drops them when it runs Python code, but not while it waits for a
  // backward pass, whose thread releases values without ever running Python
  // code.
  collect_released();
  ++counters.operators;
  if (self.crosses_devices && transferred(stack)) {
    return;
  }
  const auto& schema = handle.schema();
  if (!self.schema_info || self.schema_info->schema != &schema) {
    self.schema_info.emplace(schema);
  }
  const size_t arity = schema.arguments().size();
  if (self.takes_indices) {
    bring_indices(stack, arity);
  }
  if (self.takes_one_element) {
    reshape_to_scalars(stack, arity);
  }
  const ThreadSettings settings;
  // Keep a pool of Call objects, because building a program may run other
  // operators in this thread.
  thread_local std::vector<std::unique_ptr<Call>> spare;
  std::unique_ptr<Call> call;
  if (spare.empty()) {
    call = std::make_unique<Call>();
  } else {
    call = std::move(spare.back());
    spare.pop_back();
  }
  std::optional<Draw> drawn;
  for (;;) {
    const auto arguments = torch::jit::last(stack, arity);
    describe(*self.schema_info, arguments, self.scalars_are_inputs,
             settings.get(Setting::precision), *call);
    auto found = self.programs.find(call->key);
    const Mode mode = settings.mode();
    // Kernels and programs may round differently. With `always`, strict mode
    // therefore runs a call on its kernel even if it has a program, so that
    // equal calls give equal results. Fused mode compiles a recurring call at
    // once, because only programs can be fused.
    const auto compile_recurring = mode == Mode::fused
                                       ? CompileRecurring::at_once
                                   : cpu_kernel_use() == CpuKernelUse::always
                                       ? CompileRecurring::never
                                       : CompileRecurring::in_stable_rounds;
    if (C10_UNLIKELY(uses_cpu_kernels() && mode != Mode::debug &&
                     settings.get(Setting::precision) == 0 &&
                     (compile_recurring == CompileRecurring::never ||
                      found == self.programs.end()))) {
      const auto outcome =
          self.cpu_kernels.run(handle, *self.schema_info, stack, *call,
                               self.scalars_are_inputs, compile_recurring);
      if (outcome == CpuKernels::again) {
        continue;
      }
      if (outcome == CpuKernels::done) {
        break;
      }
      found = self.programs.find(call->key);
    }
    std::shared_ptr<const Program> program;
    if (found != self.programs.end()) {
      ++counters.hits;
      program = found->second;
      program->use();
    } else {
      Miss miss = build(handle, arguments, *call, *self.schema_info,
                        self.scalars_are_inputs);
      if (miss.outcome == Miss::again) {
        continue;
      }
      if (miss.outcome == Miss::done) {
        torch::jit::drop(stack, arity);
        push_python(handle, miss.results.get(), stack);
        break;
      }
      if (!call->is_current()) {
        continue;
      }
      ++counters.misses;
      program = std::move(miss.program);
      TORCH_INTERNAL_ASSERT(program->numbers().size() ==
                                call->numbers.size() + 2 * program->random(),
                            "tpu: ", program->name(), " takes other numbers (",
                            program->numbers(), ") than its call has");
      // Another thread may have added a program for the same key in the
      // meantime. Swap, so that the other program is destroyed when the map is
      // consistent again: destruction may release the GIL.
      std::shared_ptr<const Program> replaced = program;
      self.programs[call->key].swap(replaced);
    }
    Results results;
    try {
      results = mode == Mode::fused && !program->is_padded()
                    ? FusedTrace::record(std::move(program), *call, drawn)
                    : program->run(*call, mode == Mode::debug, drawn);
    } catch (const LayoutChanged&) {
      continue;
    }
    torch::jit::drop(stack, arity);
    push_results(schema, std::move(results), stack);
    break;
  }
  call->clear();
  spare.push_back(std::move(call));
}

class Recorder final : public c10::OperatorKernel {
 public:
  explicit Recorder(Operator& recorded) : operator_(recorded) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
    record(operator_, handle, *stack);
  }

 private:
  Operator& operator_;
};

std::string full_name(const c10::OperatorHandle& handle) {
  const auto& name = handle.operator_name();
  return name.overload_name.empty() ? name.name
                                    : name.name + "." + name.overload_name;
}

// Handles operators that other libraries define, and torch operators that
// record_operators() has not registered.
void fall_back(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  Operator* recorded;
  {
    Gil gil;
    recorded = &operator_named(full_name(handle));
  }
  record(*recorded, handle, *stack);
}

}  // namespace

void record_operators(const std::vector<std::string>& names) {
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten",
                         c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static auto* recorded = new std::unordered_set<std::string>;
  for (const auto& name : names) {
    if (!recorded->insert(name).second) {
      continue;
    }
    library->impl(name.c_str(),
                  torch::CppFunction::makeFromBoxedFunctor(
                      std::make_unique<Recorder>(operator_named(name))));
  }
}

void set_scalars_are_inputs(const std::string& name, bool scalars_are_inputs) {
  operator_named(name).scalars_are_inputs = scalars_are_inputs;
}

Counts counts() { return counters; }

void reset_counts() {
  counters = {};
  reset_cpu_kernel_calls();
  reset_in_place_writes();
  reset_fused_counts();
}

size_t forget_unused() {
  std::vector<uint64_t> uses;
  for (const auto& [name, from] : operators()) {
    for (const auto& [key, program] : from->programs) {
      uses.push_back(program->used());
    }
  }
  collect_fused_uses(uses);
  const auto middle = uses.begin() + static_cast<ptrdiff_t>(uses.size() / 2);
  std::nth_element(uses.begin(), middle, uses.end());
  const uint64_t since = middle == uses.end() ? 0 : *middle;
  // Declared first, and thus destroyed last, when no map is in use: destroying
  // programs may release the GIL.
  std::vector<std::shared_ptr<const LastUse>> forgotten;
  for (auto& [name, from] : operators()) {
    std::erase_if(from->programs, [&](auto& entry) {
      if (entry.second->used() >= since) {
        return false;
      }
      forgotten.push_back(std::move(entry.second));
      return true;
    });
  }
  forget_fused(since, forgotten);
  counters.forgotten += forgotten.size();
  return forgotten.size();
}

void clear_programs() {
  // Declared first, and thus destroyed last, when no map is in use: destroying
  // programs may release the GIL.
  std::vector<decltype(Operator::programs)> forgotten;
  for (auto& [name, cleared] : operators()) {
    forgotten.push_back(std::exchange(cleared->programs, {}));
    cleared->cpu_kernels = {};
  }
  clear_fused();
}

#if TORCH_GOOGLE_TORCH_2_6
// torch v2.6 lacks this fallback for PrivateUse1. It handles library operators
// without a gradient formula.
TORCH_LIBRARY_IMPL(_, AutogradPrivateUse1, library) {
  library.fallback(torch::autograd::basicAutogradNotImplementedFallback());
}
#endif

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// A single operator call that runs on torch's CPU kernel.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/arrival.h"
#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/host_values.h"
#include "torch_google/tpu/csrc/key.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

// How a kernel may overwrite the memory of the tensor that it writes to. See
// the class of the same name in eager/cpu_kernels.py.
enum class InPlace : long { never, pointwise, indexed };

// Returns whether two tensors have the same dtype, sizes, strides and offset.
bool is_same_view(const at::Tensor& a, const at::Tensor& b);
const c10::StorageImpl* storage_of(const at::Tensor& tensor);

// The caller must hold the GIL.
class HostCall {
 public:
  HostCall(const c10::OperatorHandle& handle, const SchemaInfo& schema_info,
           c10::ArrayRef<c10::IValue> arguments, const Call& call)
      : handle_(handle),
        schema_(*schema_info.schema),
        arguments_(arguments),
        call_(call) {}

  // Runs the kernel. Returns false if it throws, or if it resized an argument.
  // The kernel writes to a copy of a storage. If `in_place` allows it and
  // nothing else can read the storage's memory, it writes to that memory.
  bool run(InPlace in_place);
  // Returns whether the storages that the operator writes to still contain the
  // values that the kernel read. Another thread may have replaced them.
  bool is_up_to_date() const;
  // Collects the new results as CPU tensors. Returns false if a result is not a
  // plain CPU tensor. Undefined results stay undefined.
  bool collect_results();
  // Returns whether the results have the layouts that a program would give
  // them. `expected` has the format of CompiledOp.results.
  bool matches(PyObject* expected) const;
  // Creates the new results on the device. Call it before store(), so that no
  // argument is changed if memory runs out.
  void create_results();
  // Updates the storages that the operator writes to, and returns its return
  // values. Call it only if the storages are up to date.
  std::vector<c10::IValue> store();

 private:
  // A storage that the operator writes to, and its new values.
  struct Copy {
    Box* box;
    at::Tensor values;
    // The values that the kernel read. Either `arrival` or `array` is set.
    std::shared_ptr<Arrival> arrival;
    Ref array;
    bool in_place;  // whether `values` are those of `arrival`
  };

  static bool is_current(const Copy& copy);
  // Replaces the device's tensors with CPU tensors.
  void move_arguments(bool in_place);
  // Returns whether the operands of a pointwise operator broadcast to the sizes
  // of the tensor that it writes to. Otherwise, it would fail or resize.
  bool keeps_sizes() const;
  // Returns whether the values of the argument `index` are valid positions in
  // the written tensor's dimension `dim`. For other values, the kernel could
  // throw after it has written to some positions.
  bool has_valid_indices() const;
  // Returns whether this call, the box and its arrival are the only owners of
  // the memory that the kernel overwrites. Call it directly before the kernel,
  // because another thread may read a storage while Python code runs.
  bool owns_what_it_overwrites() const;
  c10::IValue moved(const c10::IValue& value, bool is_written);
  at::Tensor on_host(const at::Tensor& tensor, bool is_written);
  // Returns the argument that a result with this alias annotation aliases, and
  // that the operator writes to.
  const c10::IValue& argument_of(const c10::AliasInfo& alias) const;

  const c10::OperatorHandle& handle_;
  const c10::FunctionSchema& schema_;
  const c10::ArrayRef<c10::IValue> arguments_;
  const Call& call_;
  bool is_lazy_ = false;
  bool in_place_ = false;
  torch::jit::Stack mine_;
  std::vector<at::Tensor> read_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
  std::vector<Copy> copies_;
  // The values that the kernel only reads.
  std::vector<std::pair<Box*, HostValues>> sources_;
  std::vector<at::Tensor> results_;
  std::vector<at::Tensor> created_;
};

}  // namespace torch_google::tpu

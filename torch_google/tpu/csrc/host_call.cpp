// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/host_call.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <optional>

#include "torch_google/tpu/csrc/host_values.h"
#include "torch_google/tpu/csrc/partial_write.h"
#include "torch_google/tpu/csrc/program.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {
namespace {

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

// Creates a tensor on the device whose value is a result of a CPU kernel.
at::Tensor to_device(const at::Tensor& result, c10::DeviceIndex device) {
  at::Tensor tensor =
      make_tensor(result.sizes(), result.strides(), dense_shape(result),
                  result.scalar_type(), device);
  box_of(*tensor.unsafeGetTensorImpl()).expect(arrived(flat(result)), 0);
  return tensor;
}

}  // namespace

bool is_same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.storage_offset() == b.storage_offset();
}

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool HostCall::run(InPlace in_place) {
  move_arguments(in_place == InPlace::indexed ||
                 (in_place == InPlace::pointwise && keeps_sizes()));
  if (is_lazy_) {
    return false;
  }
  if (!owns_what_it_overwrites() ||
      (in_place == InPlace::indexed && !has_valid_indices())) {
    move_arguments(false);
  }
  try {
    // Hold the GIL, because another thread could otherwise donate an input.
    handle_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &mine_);
  } catch (const std::exception&) {
    PyErr_Clear();
    return false;
  }
  return std::none_of(written_.begin(), written_.end(), [](const auto& pair) {
    return !is_same_view(pair.first, pair.second);
  });
}

bool HostCall::is_up_to_date() const {
  return std::all_of(copies_.begin(), copies_.end(), &is_current);
}

bool HostCall::collect_results() {
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

bool HostCall::matches(PyObject* expected) const {
  const Ref items =
      Ref::checked(PySequence_Fast(expected, "tpu: expected results"));
  size_t next = 0;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    const Result result = read_result(PySequence_Fast_GET_ITEM(items.get(), i));
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

void HostCall::create_results() {
  created_.clear();
  for (const auto& result : results_) {
    created_.push_back(result.defined() ? to_device(result, call_.device)
                                        : at::Tensor());
  }
}

std::vector<c10::IValue> HostCall::store() {
  // Destroyed after all storages are updated, because destructors may release
  // the GIL.
  std::vector<Ref> replaced;
  for (const Copy& copy : copies_) {
    if (copy.in_place) {
      count_in_place_write();
    } else {
      copy.box->expect(arrived(copy.values), 0, replaced);
    }
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
        list.push_back(created_[next++]);
      }
      returned.emplace_back(std::move(list));
    } else {
      returned.emplace_back(created_[next++]);
    }
  }
  return returned;
}

bool HostCall::is_current(const Copy& copy) {
  if (copy.array.get()) {
    return copy.box->holds(copy.array.get());
  }
  const auto& now = copy.box->arrival();
  return now && now == copy.arrival;
}

void HostCall::move_arguments(bool in_place) {
  in_place_ = in_place;
  mine_.clear();
  written_.clear();
  read_.clear();
  copies_.clear();
  sources_.clear();
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const auto* alias = schema_.arguments()[i].alias_info();
    mine_.push_back(moved(arguments_[i], alias && alias->isWrite()));
  }
}

bool HostCall::keeps_sizes() const {
  std::vector<int64_t> sizes;
  const at::Tensor* target = nullptr;
  try {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (!arguments_[i].isTensor() || !arguments_[i].toTensor().defined()) {
        continue;
      }
      const auto& argument = schema_.arguments()[i];
      const at::Tensor& tensor = arguments_[i].toTensor();
      const bool is_written =
          argument.alias_info() && argument.alias_info()->isWrite();
      target = is_written ? &tensor : target;
      if (!argument.is_out()) {
        sizes = at::infer_size(sizes, tensor.sizes());
      }
    }
  } catch (const std::exception&) {
    return false;
  }
  return target && target->sizes() == c10::IntArrayRef(sizes);
}

bool HostCall::has_valid_indices() const {
  const at::Tensor* target = nullptr;
  const at::Tensor* index = nullptr;
  std::optional<int64_t> dimension;
  for (size_t i = 0; i < mine_.size(); ++i) {
    const auto& argument = schema_.arguments()[i];
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      target = &mine_[i].toTensor();
    } else if (argument.name() == "index" && mine_[i].isTensor()) {
      index = &mine_[i].toTensor();
    } else if (argument.name() == "dim" && mine_[i].isInt()) {
      dimension = mine_[i].toInt();
    }
  }
  if (!target || !index || !dimension || index->scalar_type() != at::kLong ||
      *dimension < -target->dim() || *dimension >= target->dim()) {
    return false;
  }
  const bool is_aliased =
      std::any_of(copies_.begin(), copies_.end(), [&](const Copy& copy) {
        return std::count_if(read_.begin(), read_.end(), [&](const auto& read) {
                 return read.is_same(copy.values);
               }) > 1;
      });
  if (is_aliased) {
    return false;  // the kernel could overwrite an index before it is checked
  }
  const int64_t size = target->size(*dimension);
  const at::Tensor values = index->contiguous();
  const auto* first = values.const_data_ptr<int64_t>();
  return std::all_of(first, first + values.numel(), [size](int64_t value) {
    return 0 <= value && value < size;
  });
}

bool HostCall::owns_what_it_overwrites() const {
  return std::all_of(copies_.begin(), copies_.end(), [&](const Copy& copy) {
    // Each entry of read_ also has a tensor in mine_ over the same storage.
    const auto reads = static_cast<size_t>(std::count_if(
        read_.begin(), read_.end(),
        [&](const auto& tensor) { return tensor.is_same(copy.values); }));
    return !copy.in_place || (is_current(copy) && !copy.box->is_shared() &&
                              copy.arrival.use_count() == 2 &&
                              copy.values.use_count() == 2 + reads &&
                              copy.values.storage().use_count() == 1 + reads);
  });
}

c10::IValue HostCall::moved(const c10::IValue& value, bool is_written) {
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

at::Tensor HostCall::on_host(const at::Tensor& tensor, bool is_written) {
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
    const auto earlier =
        std::find_if(sources_.begin(), sources_.end(),
                     [&](const auto& source) { return source.first == &box; });
    // If the tensor is also an input, keep the values that were read then:
    // is_up_to_date() must notice if another thread has replaced them.
    HostValues read;
    if (earlier != sources_.end()) {
      read = std::move(earlier->second);
      sources_.erase(earlier);
    } else {
      read = host_values(box);
    }
    const bool in_place = in_place_ && read.arrival;
    values = is_written && !in_place ? read.values.clone() : read.values;
    if (is_written) {
      copies_.push_back({&box, values, std::move(read.arrival),
                         std::move(read.array), in_place});
    } else {
      sources_.emplace_back(&box, std::move(read));
    }
  }
  at::Tensor mine = over(values.storage(), tensor);
  read_.push_back(values);
  if (is_written) {
    written_.emplace_back(tensor, mine);
  }
  return mine;
}

const c10::IValue& HostCall::argument_of(const c10::AliasInfo& alias) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    const auto* own = schema_.arguments()[i].alias_info();
    if (own && own->isWrite() && own->beforeSets() == alias.beforeSets()) {
      return arguments_[i];
    }
  }
  TORCH_INTERNAL_ASSERT(false, "tpu: ", schema_.operator_name(),
                        " returns no argument");
}

}  // namespace torch_google::tpu

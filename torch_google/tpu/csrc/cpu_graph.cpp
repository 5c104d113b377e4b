// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/cpu_graph.h"

#include <ATen/Context.h>
#include <ATen/ScalarOps.h>
#include <ATen/ops/clone.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/cpu_kernels.h"
#include "torch_google/tpu/csrc/host_values.h"
#include "torch_google/tpu/csrc/mode.h"
#include "torch_google/tpu/csrc/partial_write.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

// A storage that a graph writes to, and its new values.
struct Write {
  at::Tensor target;
  at::Tensor value;
  // The flat memory to which the value is written, and its owner. If the owner
  // is null, the memory is new, and becomes the storage's.
  at::Tensor memory;
  std::shared_ptr<Arrival> owner;
};

Box& settled_box(const at::Tensor& tensor) {
  auto* implementation = tensor.unsafeGetTensorImpl();
  Box& box = box_of(*implementation);
  box.settle(*implementation);
  return box;
}

const c10::StorageImpl* storage_in(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Returns whether CPU kernels may run in this thread.
bool is_allowed() {
  return uses_cpu_kernels() && ThreadSettings().mode() != Mode::debug &&
         at::globalContext().float32MatmulPrecision() ==
             at::Float32MatmulPrecision::HIGHEST;
}

bool is_lazy(const at::Tensor& tensor) {
  return tensor.layout() != c10::kStrided || tensor.is_conj() ||
         tensor.is_neg() || tensor._is_zerotensor();
}

// Returns the number of elements from a tensor's first to its last.
int64_t extent(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) {
      return 0;
    }
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return last + 1;
}

// Creates a tensor on the device with the values, sizes and strides of a CPU
// tensor. If `owns`, it takes over the CPU tensor's memory, unless that memory
// has elements outside the tensor. Otherwise, it gets a copy.
at::Tensor on_device(const at::Tensor& value, bool owns,
                     c10::DeviceIndex device) {
  const int64_t elements = extent(value);
  const auto bytes = static_cast<size_t>(elements) * value.itemsize();
  at::Tensor values;
  if (owns && value.storage_offset() == 0 &&
      value.storage().nbytes() == bytes) {
    values = flat(value);
  } else {
    values = value.as_strided({elements}, {1}, value.storage_offset()).clone();
  }
  const Sizes natural = value.is_non_overlapping_and_dense()
                            ? dense_shape(value)
                            : Sizes{elements};
  at::Tensor tensor = make_tensor(value.sizes(), value.strides(), natural,
                                  value.scalar_type(), device);
  box_of(*tensor.unsafeGetTensorImpl()).expect(arrived(std::move(values)), 0);
  return tensor;
}

// Chooses the memory for a write. It is the storage's own if nothing else can
// read that memory, and otherwise a copy of it.
Write prepare(const at::Tensor& target, const at::Tensor& value) {
  Box& box = settled_box(target);
  HostValues current = host_values(box);
  const bool is_own = current.arrival && !box.is_shared() &&
                      current.arrival.use_count() == 2 &&
                      current.values.use_count() == 2 &&
                      current.values.storage().use_count() == 1;
  if (is_own) {
    return {target, value, std::move(current.values),
            std::move(current.arrival)};
  }
  return {target, value, current.values.clone(), nullptr};
}

// Stores the new values. Nothing here can fail halfway: the values have the
// sizes and dtypes of their targets, and compile/cpu_graph.py refuses targets
// whose elements overlap.
void apply(const std::vector<Write>& writes) {
  // Destroyed at the end, because destructors may release the GIL.
  std::vector<Ref> replaced;
  for (const Write& write : writes) {
    over(write.memory.storage(), write.target).copy_(write.value);
    if (write.owner) {
      count_in_place_write();
    } else {
      settled_box(write.target).expect(arrived(write.memory), 0, replaced);
    }
    write.target.unsafeGetTensorImpl()->bump_version();
  }
}

py::object number_to_python(const c10::IValue& value) {
  if (value.isInt()) {
    return py::int_(value.toInt());
  }
  if (value.isBool()) {
    return py::bool_(value.toBool());
  }
  if (value.isDouble()) {
    return py::float_(value.toDouble());
  }
  if (value.isNone()) {
    return py::none();
  }
  TORCH_CHECK(false, "tpu: a graph computes a ", value.tagKind());
}

c10::IValue number_from_python(const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) {
    return value.cast<bool>();
  }
  if (py::isinstance<py::int_>(value)) {
    return value.cast<int64_t>();
  }
  if (py::isinstance<py::float_>(value)) {
    return value.cast<double>();
  }
  TORCH_CHECK(false, "tpu: a graph needs a number");
}

c10::IValue item_of(const c10::IValue& value, size_t position) {
  if (value.isTuple()) {
    return value.toTupleRef().elements().at(position);
  }
  return value.toListRef().at(position);
}

}  // namespace

CpuGraph::CpuGraph(int64_t arguments, const py::list& steps,
                   const py::list& outputs, std::vector<size_t> written,
                   c10::DeviceIndex device)
    : arguments_(static_cast<size_t>(arguments)),
      registers_(arguments_ + steps.size()),
      written_(std::move(written)),
      device_(device) {
  for (const auto& description : steps) {
    const auto parts = description.cast<py::tuple>();
    Step step;
    step.result = arguments_ + steps_.size();
    const auto operands = parts[1].cast<py::list>();
    if (py::isinstance<py::int_>(parts[0])) {
      step.kind = Step::selection;
      step.position = parts[0].cast<size_t>();
    } else if (py::isinstance<py::tuple>(parts[0])) {
      const auto name = parts[0].cast<std::pair<std::string, std::string>>();
      step.handle = c10::Dispatcher::singleton().findSchemaOrThrow(
          name.first.c_str(), name.second.c_str());
      const auto& types = step.handle->schema().arguments();
      for (size_t i = 0; i < operands.size(); ++i) {
        step.operands.push_back(
            operand(operands[i], types.at(i).type(), types[i].N()));
      }
    } else {
      step.kind = Step::function;
      step.python = parts[0];
    }
    if (step.operands.empty()) {
      for (const auto& each : operands) {
        step.operands.push_back(plain_operand(each));
      }
    }
    steps_.push_back(std::move(step));
  }
  for (const auto& output : outputs) {
    outputs_.push_back(plain_operand(output));
  }
  std::vector<Operand*> last(registers_);
  for (auto& step : steps_) {
    for (auto& each : step.operands) {
      find_last_uses(each, last);
    }
  }
  for (auto& output : outputs_) {
    find_last_uses(output, last);
  }
  for (size_t i = 0; i < registers_; ++i) {
    if (last[i]) {
      last[i]->is_last = true;
      if (i >= arguments_) {
        steps_[i - arguments_].is_used = true;
      }
    }
  }
}

py::object CpuGraph::run(const py::list& arguments,
                         const py::object& expected) const {
  if (!is_allowed() || arguments.size() != arguments_) {
    return py::none();
  }
  collect_released();
  // A graph usually runs once per step, and the host may not read its results.
  end_round();
  std::vector<at::Tensor> tensors(arguments_);
  Registers registers(registers_);
  for (size_t i = 0; i < arguments_; ++i) {
    PyObject* argument = PyList_GET_ITEM(arguments.ptr(), i);
    if (!THPVariable_Check(argument)) {
      registers[i] =
          argument == Py_None ? c10::IValue() : number_from_python(argument);
      continue;
    }
    tensors[i] = THPVariable_Unpack(argument);
    if (is_lazy(tensors[i]) ||
        (tensors[i].device().is_privateuseone() &&
         settled_box(tensors[i]).sharding() != kOneDevice)) {
      return py::none();
    }
  }
  for (size_t i = 0; i < written_.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (storage_in(tensors[written_[i]]) ==
          storage_in(tensors[written_[k]])) {
        return py::none();
      }
    }
  }
  // Make sure that kernels and copies operate on plain CPU tensors. Otherwise,
  // autocast or an active dispatch mode would intercept them.
  const c10::impl::ForceDispatchKeyGuard plain(
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
          c10::autocast_dispatch_keyset);
  // The memory of the arguments, which no result may take over.
  std::vector<at::Tensor> values(arguments_);
  for (size_t i = 0; i < arguments_; ++i) {
    if (!tensors[i].defined()) {
      continue;
    }
    if (tensors[i].device().is_privateuseone()) {
      values[i] = over(host_values(settled_box(tensors[i])).values.storage(),
                       tensors[i]);
    } else {
      values[i] = tensors[i].detach();
    }
    registers[i] = values[i];
  }
  std::vector<c10::IValue> outputs;
  try {
    // Do not release the GIL: another thread could donate an argument.
    for (const Step& step : steps_) {
      execute(step, registers);
    }
    for (const Operand& output : outputs_) {
      outputs.push_back(take(output, registers));
    }
  } catch (const std::exception&) {
    PyErr_Clear();
    if (expected.is_none()) {
      return py::none();
    }
    return py::bool_(false);
  }
  if (!expected.is_none() && !matches(outputs, expected)) {
    return py::bool_(false);
  }
  const std::vector<at::Tensor> created = create_results(outputs, values);
  // Drop all references to the memory of the arguments, so that writes know
  // whether they may overwrite it.
  registers.clear();
  values.clear();
  for (size_t i = written_.size(); i < outputs.size(); ++i) {
    if (created[i].defined()) {
      outputs[i] = {};
    }
  }
  std::vector<Write> writes;
  for (size_t i = 0; i < written_.size(); ++i) {
    // Move the value, so that nothing else refers to its storage.
    at::Tensor value = std::move(outputs[i]).toTensor();
    writes.push_back(prepare(tensors[written_[i]], std::move(value)));
  }
  apply(writes);
  py::list results(outputs_.size() - written_.size());
  for (size_t i = written_.size(); i < outputs_.size(); ++i) {
    const at::Tensor& tensor = created[i];
    results[i - written_.size()] =
        tensor.defined()
            ? py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor))
            : number_to_python(outputs[i]);
  }
  return results;
}

CpuGraph::Operand CpuGraph::operand(const py::handle& description,
                                    const c10::TypePtr& type,
                                    std::optional<int32_t> size) {
  const auto parts = description.cast<py::tuple>();
  const auto kind = parts[0].cast<std::string>();
  const auto optional = type->cast<c10::OptionalType>();
  const c10::TypePtr& own = optional ? optional->getElementType() : type;
  Operand result;
  if (kind == "constant") {
    const auto value = parts[1].cast<py::object>();
    const torch::jit::ToIValueAllowNumbersAsTensors numbers(true);
    result.item = torch::jit::toIValue(value, type, size);
    return result;
  }
  if (kind == "value") {
    result = plain_operand(description);
    result.is_float = own->kind() == c10::TypeKind::FloatType;
    result.is_tensor = own->kind() == c10::TypeKind::TensorType;
    return result;
  }
  const auto list = own->cast<c10::ListType>();
  TORCH_CHECK(list, "tpu: an operator does not take a list");
  const auto& item = list->getElementType();
  switch (item->kind()) {
    case c10::TypeKind::TensorType:
      result.kind = Operand::tensors;
      break;
    case c10::TypeKind::OptionalType:
      result.kind = Operand::optional_tensors;
      break;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      result.kind = Operand::integers;
      break;
    default:
      TORCH_CHECK(false, "tpu: an operator takes a list of ", item->str());
  }
  for (const auto& each : parts[1].cast<py::list>()) {
    result.items.push_back(operand(each, item, std::nullopt));
  }
  return result;
}

CpuGraph::Operand CpuGraph::plain_operand(const py::handle& description) {
  const auto parts = description.cast<py::tuple>();
  Operand result;
  if (parts[0].cast<std::string>() == "value") {
    result.kind = Operand::value;
    result.index = parts[1].cast<size_t>();
  } else if (!parts[1].is_none()) {
    result.item = number_from_python(parts[1]);
  }
  return result;
}

void CpuGraph::find_last_uses(Operand& operand, std::vector<Operand*>& last) {
  if (operand.kind == Operand::value) {
    last.at(operand.index) = &operand;
  }
  for (auto& item : operand.items) {
    find_last_uses(item, last);
  }
}

c10::IValue CpuGraph::take(const Operand& operand, Registers& registers) {
  switch (operand.kind) {
    case Operand::constant:
      return operand.item;
    case Operand::value: {
      auto& stored = registers[operand.index];
      if (operand.is_float && stored.isInt()) {
        return static_cast<double>(stored.toInt());
      }
      if (operand.is_tensor && stored.isScalar()) {
        return at::native::wrapped_scalar_tensor(stored.toScalar());
      }
      return operand.is_last ? std::move(stored) : stored;
    }
    case Operand::integers: {
      c10::List<int64_t> list;
      list.reserve(operand.items.size());
      for (const auto& item : operand.items) {
        list.push_back(take(item, registers).toInt());
      }
      return list;
    }
    case Operand::tensors: {
      c10::List<at::Tensor> list;
      list.reserve(operand.items.size());
      for (const auto& item : operand.items) {
        list.push_back(take(item, registers).toTensor());
      }
      return list;
    }
    case Operand::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& item : operand.items) {
        list.push_back(take(item, registers).toOptional<at::Tensor>());
      }
      return list;
    }
  }
  TORCH_INTERNAL_ASSERT(false, "tpu: an unknown kind of operand");
}

void CpuGraph::execute(const Step& step, Registers& registers) {
  auto& result = registers[step.result];
  if (step.kind == Step::selection) {
    result = item_of(take(step.operands[0], registers), step.position);
    return;
  }
  if (step.kind == Step::function) {
    py::tuple numbers(step.operands.size());
    for (size_t i = 0; i < step.operands.size(); ++i) {
      numbers[i] = number_to_python(take(step.operands[i], registers));
    }
    result = number_from_python(step.python(*numbers));
    return;
  }
  torch::jit::Stack stack;
  stack.reserve(std::max<size_t>(step.operands.size(), 4));
  for (const auto& operand : step.operands) {
    stack.push_back(take(operand, registers));
  }
  step.handle->callBoxed(stack);
  if (!step.is_used) {
    return;
  }
  if (stack.size() == 1) {
    result = std::move(stack[0]);
  } else {
    result = c10::ivalue::Tuple::create(std::move(stack));
  }
}

bool CpuGraph::matches(const std::vector<c10::IValue>& outputs,
                       const py::list& expected) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].isTensor()) {
      if (!py::object(expected[i]).is_none()) {
        return false;
      }
      continue;
    }
    const at::Tensor& tensor = outputs[i].toTensor();
    if (py::object(expected[i]).is_none() || !tensor.defined() ||
        !tensor.device().is_cpu() || is_lazy(tensor)) {
      return false;
    }
    const auto parts = py::object(expected[i]).cast<py::tuple>();
    const auto dtype = parts[0].cast<at::ScalarType>();
    const auto sizes = parts[1].cast<std::vector<int64_t>>();
    if (tensor.scalar_type() != dtype ||
        tensor.sizes() != c10::IntArrayRef(sizes)) {
      return false;
    }
    if (parts[2].is_none() || tensor.numel() == 0) {
      continue;
    }
    const auto strides = parts[2].cast<std::vector<int64_t>>();
    for (int64_t k = 0; k < tensor.dim(); ++k) {
      if (tensor.size(k) != 1 && tensor.stride(k) != strides.at(k)) {
        return false;
      }
    }
  }
  return true;
}

std::vector<at::Tensor> CpuGraph::create_results(
    const std::vector<c10::IValue>& outputs,
    const std::vector<at::Tensor>& arguments) const {
  // No result takes over the memory of an argument, of a new value for one, or
  // of another result.
  std::unordered_set<const c10::StorageImpl*> claimed;
  for (const auto& argument : arguments) {
    if (argument.defined()) {
      claimed.insert(storage_in(argument));
    }
  }
  std::vector<at::Tensor> created(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].isTensor()) {
      continue;
    }
    const at::Tensor& value = outputs[i].toTensor();
    const bool owns = claimed.insert(storage_in(value)).second;
    if (i >= written_.size()) {
      created[i] = on_device(value, owns, device_);
    }
  }
  return created;
}

void define_cpu_graph(py::module_& module) {
  py::class_<CpuGraph>(module, "CpuGraph")
      .def(py::init<int64_t, const py::list&, const py::list&,
                    std::vector<size_t>, c10::DeviceIndex>())
      .def("run", torch::wrap_pybind_function(&CpuGraph::run));
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/cpu_graph.h"

#include <ATen/Context.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/DimVector.h>
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
#include "torch_google/tpu/csrc/graph_results.h"
#include "torch_google/tpu/csrc/host_call.h"
#include "torch_google/tpu/csrc/host_values.h"
#include "torch_google/tpu/csrc/mode.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/tensors.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

// The results of constant steps are kept if they are at most this large.
constexpr size_t kMaxConstantBytes = 1 << 20;

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

bool takes_same(const c10::FunctionSchema& schema,
                const std::vector<c10::Argument>& arguments) {
  return std::equal(
      schema.arguments().begin(), schema.arguments().end(), arguments.begin(),
      arguments.end(), [](const c10::Argument& a, const c10::Argument& b) {
        return *a.type() == *b.type() && a.kwarg_only() == b.kwarg_only();
      });
}

// Returns whether nothing else refers to a tensor or its memory, which holds
// exactly its elements, with the strides of a new tensor.
bool is_only_owner(const c10::IValue& value) {
  if (!value.isTensor()) {
    return false;
  }
  const at::Tensor& tensor = value.toTensor();
  if (!tensor.defined() || tensor.use_count() != 1 ||
      tensor.storage().use_count() != 1 ||
      tensor.nbytes() != tensor.storage().nbytes()) {
    return false;
  }
  int64_t stride = 1;
  for (int64_t i = tensor.dim() - 1; i >= 0; --i) {
    if (tensor.stride(i) != stride) {
      return false;
    }
    stride *= std::max<int64_t>(tensor.size(i), 1);
  }
  return true;
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
    } else if (py::isinstance<py::str>(parts[0])) {
      step.kind = Step::view;
      step.view_kind = view_named(parts[0].cast<std::string>());
    } else if (py::isinstance<py::tuple>(parts[0])) {
      const auto name = parts[0].cast<py::tuple>();
      set_operation(step, name[0].cast<std::string>(),
                    name[1].cast<std::string>(), name[2].cast<bool>(),
                    operands);
      if (!name[3].is_none()) {
        step.small_kernel = small_kernel_named(name[3].cast<std::string>());
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
  constants_.resize(steps_.size());
  find_used_and_constant_steps();
  std::vector<Operand*> last(registers_);
  for (auto& step : steps_) {
    if (step.is_used) {
      for (auto& each : step.operands) {
        find_last_uses(each, last);
      }
    }
  }
  for (auto& output : outputs_) {
    find_last_uses(output, last);
  }
  for (Operand* operand : last) {
    if (operand) {
      operand->is_last = true;
    }
  }
}

void CpuGraph::find_used_and_constant_steps() {
  std::vector<bool> is_used(registers_);
  std::vector<bool> is_constant(registers_);
  const auto for_registers = [](const Operand& operand, const auto& visit) {
    const auto walk = [&](const Operand& each, const auto& self) -> void {
      if (each.kind == Operand::value) {
        visit(each.index);
      }
      for (const auto& item : each.items) {
        self(item, self);
      }
    };
    walk(operand, walk);
  };
  for (const auto& output : outputs_) {
    for_registers(output, [&](size_t index) { is_used[index] = true; });
  }
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    step->is_used = is_used[step->result];
    for (const auto& operand : step->operands) {
      for_registers(operand, [&](size_t index) {
        is_used[index] = is_used[index] || step->is_used;
      });
    }
  }
  for (auto& step : steps_) {
    step.is_constant = true;
    for (const auto& operand : step.operands) {
      for_registers(operand, [&](size_t index) {
        step.is_constant = step.is_constant && is_constant[index];
      });
    }
    is_constant[step.result] = step.is_constant;
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
  note_new_call();
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
      if (storage_of(tensors[written_[i]]) ==
          storage_of(tensors[written_[k]])) {
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
      if (step.is_used) {
        execute(step, registers);
      }
    }
    for (const Operand& output : outputs_) {
      outputs.push_back(take(output, registers));
    }
  } catch (const std::exception& error) {
    PyErr_Clear();
    if (expected.is_none()) {
      return py::none();
    }
    const std::string text = error.what();
    return py::str("a kernel failed: " + text.substr(0, text.find('\n')));
  }
  if (!expected.is_none() && !matches(outputs, expected)) {
    return py::str("the results of a kernel differ from a program's");
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
  GraphWrites writes;
  for (size_t i = 0; i < written_.size(); ++i) {
    // Move the value, so that nothing else refers to its storage.
    writes.add(tensors[written_[i]], std::move(outputs[i]).toTensor());
  }
  writes.apply();
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

void CpuGraph::set_operation(Step& step, const std::string& name,
                             const std::string& overload, bool overwrites,
                             const py::list& operands) {
  auto& dispatcher = c10::Dispatcher::singleton();
  step.handle = dispatcher.findSchemaOrThrow(name.c_str(), overload.c_str());
  const auto& types = step.handle->schema().arguments();
  if (overwrites) {
    step.in_place = dispatcher.findSchema({name + "_", overload});
    if (step.in_place && !takes_same(step.in_place->schema(), types)) {
      step.in_place.reset();
    }
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    step.operands.push_back(
        operand(operands[i], types.at(i).type(), types[i].N()));
  }
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

void CpuGraph::execute(const Step& step, Registers& registers) const {
  auto& result = registers[step.result];
  if (!step.is_constant) {
    result = compute(step, registers);
    return;
  }
  auto& known = constants_[step.result - arguments_];
  if (known.isNone()) {
    result = compute(step, registers);
    const bool is_small =
        result.isTensor()
            ? result.toTensor().defined() &&
                  result.toTensor().storage().nbytes() <= kMaxConstantBytes
            : result.isScalar();
    if (is_small) {
      known = result;
    }
    return;
  }
  result = known;
}

c10::IValue CpuGraph::compute(const Step& step, Registers& registers) {
  if (step.kind == Step::selection) {
    return item_of(take(step.operands[0], registers), step.position);
  }
  if (step.kind == Step::view) {
    at::DimVector numbers;
    for (size_t i = 1; i < step.operands.size(); ++i) {
      numbers.push_back(take(step.operands[i], registers).toInt());
    }
    const c10::IValue source = take(step.operands[0], registers);
    return create_view(step.view_kind, source.toTensor(), numbers);
  }
  if (step.kind == Step::function) {
    py::tuple numbers(step.operands.size());
    for (size_t i = 0; i < step.operands.size(); ++i) {
      numbers[i] = number_to_python(take(step.operands[i], registers));
    }
    return number_from_python(step.python(*numbers));
  }
  if (step.small_kernel) {
    if (auto small = run_step_with_small_kernel(step, registers)) {
      return *std::move(small);
    }
  }
  torch::jit::Stack stack;
  stack.reserve(std::max<size_t>(step.operands.size(), 4));
  for (const auto& operand : step.operands) {
    stack.push_back(take(operand, registers));
  }
  if (step.in_place && is_only_owner(stack[0])) {
    step.in_place->callBoxed(stack);
  } else {
    step.handle->callBoxed(stack);
  }
  if (stack.size() == 1) {
    return std::move(stack[0]);
  }
  return c10::ivalue::Tuple::create(std::move(stack));
}

std::optional<at::Tensor> CpuGraph::run_step_with_small_kernel(
    const Step& step, Registers& registers) {
  const auto& operands = step.operands;
  c10::SmallVector<const Operand*, 4> parts;
  for (const auto& operand : operands) {
    if (operand.kind != Operand::tensors) {
      parts.push_back(&operand);
    }
    for (const auto& item : operand.items) {
      parts.push_back(&item);
    }
  }
  c10::SmallVector<const c10::IValue*, 4> values;
  for (const Operand* part : parts) {
    values.push_back(part->kind == Operand::value ? &registers[part->index]
                                                  : &part->item);
  }
  const bool overwrites =
      step.in_place && operands[0].is_last && is_only_owner(*values[0]);
  auto result =
      run_small_kernel(*step.small_kernel, values,
                       overwrites ? values[0]->toTensor() : at::Tensor());
  for (const Operand* part : parts) {
    if (result && part->kind == Operand::value && part->is_last) {
      registers[part->index] = {};
    }
  }
  return result;
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
  // No result takes over the memory of an argument, of a constant, of a new
  // value for an argument, or of another result.
  std::unordered_set<const c10::StorageImpl*> claimed;
  for (const auto& argument : arguments) {
    if (argument.defined()) {
      claimed.insert(storage_of(argument));
    }
  }
  for (const auto& constant : constants_) {
    if (constant.isTensor()) {
      claimed.insert(storage_of(constant.toTensor()));
    }
  }
  std::vector<at::Tensor> created(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].isTensor()) {
      continue;
    }
    const at::Tensor& value = outputs[i].toTensor();
    const bool owns = claimed.insert(storage_of(value)).second;
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

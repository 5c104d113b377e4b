// SPDX-License-Identifier: Apache-2.0
// Converts between dispatcher values and Python objects. Used on cache misses
// only.
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "torch_google/tpu/csrc/cpu_kernels.h"
#include "torch_google/tpu/csrc/program.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

py::object plain_number(const at::Tensor& tensor) {
  const at::Scalar scalar = tensor.item();
  if (scalar.isBoolean()) {
    return py::bool_(scalar.toBool());
  }
  if (scalar.isFloatingPoint()) {
    return py::float_(scalar.toDouble());
  }
  if (scalar.isComplex()) {
    return py::cast(
        static_cast<std::complex<double>>(scalar.toComplexDouble()));
  }
  if (tensor.scalar_type() == at::kUInt64) {
    return py::int_(scalar.toUInt64());
  }
  return py::int_(scalar.toLong());
}

class Translator {
 public:
  Translator(const SchemaInfo& schema_info, bool scalars_are_inputs)
      : schema_info_(schema_info),
        scalars_are_inputs_(scalars_are_inputs),
        number_(
            py::module_::import("torch_google.tpu.program").attr("Number")) {}

  py::object argument(size_t position, const c10::IValue& value) const {
    const auto& argument = schema_info_.schema->arguments()[position];
    if (value.isInt() && is_kind<c10::ScalarTypeType>(*argument.real_type())) {
      return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(
          torch::getTHPDtype(static_cast<c10::ScalarType>(value.toInt()))));
    }
    if (value.isInt() &&
        is_kind<c10::MemoryFormatType>(*argument.real_type())) {
      return py::reinterpret_borrow<py::object>(
          torch::utils::getTHPMemoryFormat(
              static_cast<c10::MemoryFormat>(value.toInt())));
    }
    py::object plain = this->value(value);
    return schema_info_.is_number(position, value, scalars_are_inputs_)
               ? number_(plain)
               : plain;
  }

 private:
  template <typename T>
  static bool is_kind(const c10::Type& type) {
    if (const auto* optional = type.castRaw<c10::OptionalType>()) {
      return is_kind<T>(*optional->getElementType());
    }
    return type.castRaw<T>() != nullptr;
  }

  py::object value(const c10::IValue& value) const {
    if (value.isTensor() && value.toTensor().defined()) {
      const auto& tensor = value.toTensor();
      if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
        py::object plain = plain_number(tensor);
        return is_number(tensor, scalars_are_inputs_) ? number_(plain) : plain;
      }
    }
    if (value.isTensor() && !value.toTensor().defined()) {
      return py::none();
    }
    return torch::jit::toPyObject(value);
  }

  const SchemaInfo& schema_info_;
  const bool scalars_are_inputs_;
  const py::object number_;
};

py::object base_of(const at::Tensor& tensor) {
  const auto& box = box_of(*tensor.unsafeGetTensorImpl());
  py::tuple shape(box.shape.size());
  for (size_t i = 0; i < box.shape.size(); ++i) {
    shape[i] = box.shape[i];
  }
  return py::make_tuple(
      shape,
      py::reinterpret_borrow<py::object>(
          reinterpret_cast<PyObject*>(torch::getTHPDtype(box.dtype))),
      reinterpret_cast<uintptr_t>(&box), box.sharding());
}

}  // namespace

PythonCall python_call(const c10::OperatorHandle& handle,
                       c10::ArrayRef<c10::IValue> arguments, const Call& call,
                       const SchemaInfo& schema_info, bool scalars_are_inputs) {
  const Translator translator(schema_info, scalars_are_inputs);
  py::list values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    values.append(translator.argument(i, arguments[i]));
  }
  py::list bases;
  for (const auto* tensor : call.tensors) {
    bases.append(base_of(*tensor));
  }
  return {py::reinterpret_borrow<py::object>(
              torch::detail::getTorchApiFunction(handle)),
          std::move(values), std::move(bases)};
}

Miss build(const c10::OperatorHandle& handle,
           c10::ArrayRef<c10::IValue> arguments, const Call& call,
           const SchemaInfo& schema_info, bool scalars_are_inputs) {
  Ref answer;
  {
    const auto python =
        python_call(handle, arguments, call, schema_info, scalars_are_inputs);
    answer = Ref::checked(PyObject_CallFunction(
        callbacks().miss, "OOOi", python.op.ptr(), python.values.ptr(),
        python.bases.ptr(), static_cast<int>(call.device)));
  }
  if (answer.get() == Py_None) {
    return {Miss::again, nullptr, Ref()};
  }
  if (PyList_Check(answer.get())) {
    return {Miss::done, nullptr, std::move(answer)};
  }
  return {Miss::compiled, std::make_unique<Program>(answer.get()), Ref()};
}

void push_results(const c10::FunctionSchema& schema, Results results,
                  torch::jit::Stack& stack) {
  const auto& returns = schema.returns();
  if (returns.size() == 1 &&
      returns[0].type()->kind() == c10::TypeKind::ListType) {
    stack.emplace_back(c10::List<at::Tensor>(results));
    return;
  }
  for (size_t i = 0; i < returns.size(); ++i) {
    stack.emplace_back(std::move(results[i]));
  }
}

void push_python(const c10::OperatorHandle& handle, PyObject* results,
                 torch::jit::Stack& stack) {
  const auto& returns = handle.schema().returns();
  for (size_t i = 0; i < returns.size(); ++i) {
    stack.push_back(torch::jit::toIValue(
        py::reinterpret_borrow<py::object>(PyList_GET_ITEM(results, i)),
        returns[i].type()));
  }
}

}  // namespace torch_google::tpu

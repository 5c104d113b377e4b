// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/device_transfer.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <sstream>

#include "torch_google/tpu/csrc/reduction.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

py::object dtype_object(c10::ScalarType dtype) {
  return py::reinterpret_borrow<py::object>(
      reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype)));
}

py::object own(Ref reference) {
  return py::reinterpret_steal<py::object>(reference.give());
}

// Returns a layout as the constructor arguments of View in runtime/strides.py.
py::tuple view_of(const Layout& layout) {
  return py::make_tuple(
      own(tuple_of(layout.sizes)), own(tuple_of(layout.strides)), layout.offset,
      dtype_object(layout.dtype), layout.is_conj, layout.is_neg);
}

// Returns the factor of PREMUL_SUM: a float, or a tensor on the CPU. Returns
// None for other operations.
py::object factor_of(const Collective& collective) {
  const auto* supplement =
      dynamic_cast<c10d::PreMulSumSupplement*>(collective.op.supplement_.get());
  if (!collective.reduces || !supplement) {
    return py::none();
  }
  if (supplement->tensor_factor.defined()) {
    return py::reinterpret_steal<py::object>(
        THPVariable_Wrap(supplement->tensor_factor));
  }
  return py::float_(supplement->double_factor);
}

void append(std::ostream& out, const Layout& layout) {
  out << c10::IntArrayRef(layout.sizes) << c10::IntArrayRef(layout.strides)
      << layout.offset << ':' << static_cast<int>(layout.dtype)
      << layout.is_conj << layout.is_neg << ';';
}

}  // namespace

HostGroup::Results prepare_on_device(const Transfer& transfer,
                                     const Collective& collective,
                                     PyObject* transport) {
  Gil gil;
  py::list inputs;
  for (size_t i = 0; i < transfer.inputs.size(); ++i) {
    inputs.append(py::make_tuple(own(transfer.sources[i]->array()),
                                 view_of(transfer.inputs[i])));
  }
  py::list targets;
  for (const auto& target : transfer.targets) {
    targets.append(
        py::make_tuple(target.old ? own(target.old->array()) : py::none(),
                       own(tuple_of(target.shape)), dtype_object(target.dtype),
                       static_cast<int>(target.device)));
  }
  py::list outputs;
  for (const auto& [layout, index] : transfer.outputs) {
    outputs.append(py::make_tuple(index, view_of(layout)));
  }
  const py::object factor = factor_of(collective);
  const py::object splits =
      py::make_tuple(collective.input_splits, collective.output_splits);
  const auto run = shared_object(
      Ref::checked(PyObject_CallMethod(
                       transport, "prepare", "ssOiOOOO",
                       collective.name.c_str(),
                       collective.reduces ? name_of(collective.op.op_) : "",
                       factor.ptr(), collective.root, inputs.ptr(),
                       targets.ptr(), outputs.ptr(), splits.ptr()))
          .give());
  HostGroup::Results results;
  results.on_device = [run](const HostGroup::Exchanged& exchanged) {
    Gil gil;
    const Ref arrays = Ref::checked(PyObject_CallFunction(
        run.get(), "Li", static_cast<long long>(exchanged.largest),
        exchanged.same_layout ? 1 : 0));
    const Ref sequence = Ref::checked(
        PySequence_Fast(arrays.get(), "tpu: expected a sequence of arrays"));
    std::vector<SharedObject> result;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i) {
      result.push_back(shared_object(
          Ref::borrow(PySequence_Fast_GET_ITEM(sequence.get(), i)).give()));
    }
    return result;
  };
  return results;
}

std::string layout_of(const Transfer& transfer) {
  std::ostringstream out;
  for (size_t i = 0; i < transfer.inputs.size(); ++i) {
    out << "in" << c10::IntArrayRef(transfer.sources[i]->shape());
    append(out, transfer.inputs[i]);
  }
  for (const auto& target : transfer.targets) {
    out << "target" << c10::IntArrayRef(target.shape)
        << static_cast<int>(target.dtype) << (target.old != nullptr);
  }
  for (const auto& [layout, index] : transfer.outputs) {
    out << "out" << index;
    append(out, layout);
  }
  return out.str();
}

SharedObject part_of(PyObject* transport, const std::vector<int>& ranks) {
  const py::object list = py::cast(ranks);
  return shared_object(
      Ref::checked(PyObject_CallMethod(transport, "part", "O", list.ptr()))
          .give());
}

}  // namespace torch_google::tpu

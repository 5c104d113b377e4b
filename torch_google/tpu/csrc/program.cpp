// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/program.h"

#include <torch/csrc/Dtype.h>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/generator.h"
#include "torch_google/tpu/csrc/mode.h"

namespace torch_google::tpu {
namespace {

Ref attribute(PyObject* object, const char* name) {
  return Ref::checked(PyObject_GetAttrString(object, name));
}

template <typename Out>
void read_integers(PyObject* object, Out& out) {
  Ref sequence = Ref::checked(
      PySequence_Fast(object, "tpu: expected a sequence of integers"));
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence.get());
  for (Py_ssize_t i = 0; i < size; ++i) {
    out.push_back(
        PyLong_AsLongLong(PySequence_Fast_GET_ITEM(sequence.get(), i)));
  }
  if (PyErr_Occurred()) {
    raise();
  }
}

Result read_result(PyObject* object) {
  Result result;
  if (object == Py_None) {
    result.kind = Result::undefined;
  } else if (PyLong_Check(object)) {
    result.kind = Result::argument;
    result.position = PyLong_AsSize_t(object);
  } else {
    result.kind = Result::fresh;
    read_integers(attribute(object, "sizes").get(), result.sizes);
    read_integers(attribute(object, "strides").get(), result.strides);
    read_integers(attribute(object, "natural").get(), result.natural);
    result.dtype = reinterpret_cast<THPDtype*>(attribute(object, "dtype").get())
                       ->scalar_type;
  }
  return result;
}

// The error of a program in the user's terms; Python raises it.
[[noreturn]] void explain(const c10::FunctionSchema& schema) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) {
    PyException_SetTraceback(value, trace);
  }
  Ref kind(type), error(value), traceback(trace);
  const auto name = c10::toString(schema.operator_name());
  Ref::checked(PyObject_CallFunction(callbacks().explain, "sO", name.c_str(),
                                     error.get()));
  raise();
}

Ref number(const Number& number) {
  return Ref::checked(std::holds_alternative<double>(number)
                          ? PyFloat_FromDouble(std::get<double>(number))
                          : PyLong_FromLongLong(std::get<int64_t>(number)));
}

}  // namespace

Program::Program(PyObject* compiled)
    : function_(attribute(compiled, "function")) {
  read_integers(attribute(compiled, "inputs").get(), inputs_);
  read_integers(attribute(compiled, "written").get(), written_);
  Ref results = Ref::checked(
      PySequence_Fast(attribute(compiled, "results").get(), "results"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(results.get()); ++i) {
    results_.push_back(read_result(PySequence_Fast_GET_ITEM(results.get(), i)));
  }
  random_ = PyObject_IsTrue(attribute(compiled, "random").get()) == 1;
}

std::vector<at::Tensor> Program::run(const c10::FunctionSchema& schema,
                                     const Call& call) const {
  // Own references: while the function runs, another thread may replace a box's
  // value.
  c10::SmallVector<Ref, 12> owned;
  c10::SmallVector<PyObject*, 13> arguments{nullptr};
  const auto pass = [&](Ref argument) {
    arguments.push_back(argument.get());
    owned.push_back(std::move(argument));
  };
  for (const size_t input : inputs_) {
    pass(Ref::borrow(
        box_of(*call.tensors[input]->unsafeGetTensorImpl()).value()));
  }
  for (const auto& value : call.numbers) {
    pass(number(value));
  }
  if (random_) {
    const auto& generator = call.generator.defined()
                                ? call.generator
                                : default_generator(call.device);
    TORCH_CHECK(generator.device().is_privateuseone(), schema.operator_name(),
                ": expected a generator of tpu, but found one of ",
                generator.device(),
                ". Make it with torch.Generator(device='tpu')");
    const auto [seed, offset] = generator.get<Generator>()->draw();
    pass(number(static_cast<int64_t>(seed)));
    pass(number(static_cast<int64_t>(offset)));
  }
  const size_t count = arguments.size() - 1;
  PyObject* returned;
  if (mode() == Mode::debug) {
    Ref list = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (size_t i = 0; i < count; ++i) {
      PyTuple_SET_ITEM(list.get(), i, owned[i].give());
    }
    const auto name = c10::toString(schema.operator_name());
    returned = PyObject_CallFunction(callbacks().debug, "sOO", name.c_str(),
                                     function_.get(), list.get());
    if (!returned) {
      raise();
    }
  } else {
    returned =
        PyObject_Vectorcall(function_.get(), arguments.data() + 1,
                            count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
    if (!returned) {
      explain(schema);
    }
  }
  Ref arrays(returned);
  TORCH_INTERNAL_ASSERT(PyTuple_CheckExact(returned));
  Py_ssize_t next = 0;
  const auto store = [&](const at::Tensor& tensor) {
    PyObject* array = PyTuple_GET_ITEM(returned, next++);
    Py_INCREF(array);
    box_of(*tensor.unsafeGetTensorImpl()).store(array);
  };
  for (const size_t position : written_) {
    store(*call.tensors[position]);
  }
  std::vector<at::Tensor> results;
  results.reserve(results_.size());
  for (const auto& result : results_) {
    switch (result.kind) {
      case Result::argument:
        results.push_back(*call.tensors[result.position]);
        break;
      case Result::undefined:
        results.emplace_back();
        break;
      case Result::fresh:
        results.push_back(make_tensor(result.sizes, result.strides,
                                      result.natural, result.dtype,
                                      call.device));
        store(results.back());
    }
  }
  return results;
}

}  // namespace torch_google::tpu

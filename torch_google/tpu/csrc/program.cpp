// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/program.h"

#include <torch/csrc/Dtype.h>

#include <algorithm>
#include <optional>
#include <set>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/generator.h"

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

Ref number(const Number& number) {
  return Ref::checked(std::holds_alternative<double>(number)
                          ? PyFloat_FromDouble(std::get<double>(number))
                          : PyLong_FromLongLong(std::get<int64_t>(number)));
}

std::string read_text(PyObject* object, const char* name) {
  const Ref text = attribute(object, name);
  const char* characters = PyUnicode_AsUTF8(text.get());
  if (!characters) {
    raise();
  }
  return characters;
}

uint32_t next_id = 0;

}  // namespace

Result read_result(PyObject* object) {
  Result result;
  if (object == Py_None) {
    result.kind = Result::undefined;
  } else if (PyLong_Check(object)) {
    result.kind = Result::argument;
    result.position = PyLong_AsSize_t(object);
  } else {
    result.kind = Result::new_tensor;
    read_integers(attribute(object, "sizes").get(), result.sizes);
    read_integers(attribute(object, "strides").get(), result.strides);
    read_integers(attribute(object, "natural").get(), result.natural);
    result.dtype = reinterpret_cast<THPDtype*>(attribute(object, "dtype").get())
                       ->scalar_type;
  }
  return result;
}

Program::Program(PyObject* compiled)
    : id_(next_id++),
      compiled_(Ref::borrow(compiled)),
      function_(attribute(compiled, "function")),
      name_(read_text(compiled, "name")),
      numbers_(read_text(compiled, "numbers")) {
  read_integers(attribute(compiled, "inputs").get(), inputs_);
  read_integers(attribute(compiled, "written").get(), written_);
  const std::set<size_t> written(written_.begin(), written_.end());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (written.contains(inputs_[i])) {
      updated_.push_back(i);
    }
  }
  Ref results = Ref::checked(
      PySequence_Fast(attribute(compiled, "results").get(), "results"));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(results.get()); ++i) {
    results_.push_back(read_result(PySequence_Fast_GET_ITEM(results.get(), i)));
  }
  random_ = PyObject_IsTrue(attribute(compiled, "random").get()) == 1;
  writes_few_ = PyObject_IsTrue(attribute(compiled, "writes_few").get()) == 1;
  is_padded_ = PyObject_IsTrue(attribute(compiled, "is_padded").get()) == 1;
  mesh_ = static_cast<Sharding>(
      PyLong_AsLongLong(attribute(compiled, "mesh").get()));
  if (mesh_ != kOneDevice) {
    read_integers(attribute(compiled, "shardings").get(), shardings_);
    c10::SmallVector<Sharding, 4> inputs;
    read_integers(attribute(compiled, "input_shardings").get(), inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == kOneDevice) {
        on_one_device_.push_back(i);
      }
    }
  }
  const bool creates = std::any_of(
      results_.begin(), results_.end(),
      [](const Result& result) { return result.kind == Result::new_tensor; });
  if (updated_.size() == 1 && written_.size() == 1 && !creates && !random_ &&
      mesh_ == kOneDevice) {
    partial_write_.emplace(updated_[0]);
  }
}

void Program::replicate(c10::SmallVectorImpl<PyObject*>& arguments,
                        c10::SmallVectorImpl<Ref>& owned) const {
  for (const size_t input : on_one_device_) {
    owned.push_back(Ref::checked(PyObject_CallFunction(
        callbacks().replicated, "Oi", arguments[input + 1], mesh_)));
    arguments[input + 1] = owned.back().get();
  }
}

Results Program::run(const Call& call, bool debug,
                     std::optional<Draw>& drawn) const {
  // Allocate the results first, so that an out-of-memory error is thrown before
  // random numbers are drawn or anything is computed.
  Results results = this->results(call);
  if (partial_write_ && !debug && partial_write_->run(*this, call)) {
    return results;
  }
  for (;;) {
    c10::SmallVector<Ref, 12> owned;
    c10::SmallVector<PyObject*, 13> arguments{nullptr};
    read(call, arguments, owned);
    if (C10_UNLIKELY(!call.is_current())) {
      throw LayoutChanged();
    }
    if (random_) {
      if (!drawn) {
        drawn = draw(call);
      }
      for (const int64_t value : *drawn) {
        owned.push_back(number(value));
        arguments.push_back(owned.back().get());
      }
    }
    if (mesh_ != kOneDevice) {
      replicate(arguments, owned);
    }
    Ref arrays;
    if (debug) {
      const size_t count = arguments.size() - 1;
      Ref list = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
      for (size_t i = 0; i < count; ++i) {
        PyTuple_SET_ITEM(list.get(), i, Ref::borrow(arguments[i + 1]).give());
      }
      arrays = Ref::checked(PyObject_CallFunction(
          callbacks().debug, "sOO", name_.c_str(), function(), list.get()));
    } else {
      arrays = this->call(arguments);
    }
    // Run again if another thread has replaced a value that the operator reads
    // and writes. If a shape has changed, the next iteration throws
    // LayoutChanged. One of the competing threads always succeeds in storing
    // its values.
    if (!is_up_to_date(call, owned)) {
      continue;
    }
    // Destroy the replaced objects only after the loop has stored all values,
    // because their destructors may release the GIL.
    std::vector<Ref> replaced;
    Py_ssize_t next = 0;
    each_target(call, results, [&](Box& box) {
      box.store(Ref::borrow(PyTuple_GET_ITEM(arrays.get(), next)).give(),
                replaced, sharding(next));
      ++next;
    });
    return results;
  }
}

void Program::read(const Call& call, c10::SmallVectorImpl<PyObject*>& arguments,
                   c10::SmallVectorImpl<Ref>& owned) const {
  for (const size_t input : inputs_) {
    owned.push_back(
        Ref::borrow(box_of(*call.tensors[input]->unsafeGetTensorImpl())
                        .value(Reason::strict)));
  }
  for (const auto& value : call.numbers) {
    owned.push_back(number(value));
  }
  for (const auto& argument : owned) {
    arguments.push_back(argument.get());
  }
}

bool Program::is_up_to_date(const Call& call,
                            const c10::SmallVectorImpl<Ref>& read) const {
  return call.is_current() &&
         std::all_of(updated_.begin(), updated_.end(), [&](size_t input) {
           return box_of(*call.tensors[inputs_[input]]->unsafeGetTensorImpl())
               .holds(read[input].get());
         });
}

Results Program::results(const Call& call) const {
  Results results;
  for (const auto& result : results_) {
    switch (result.kind) {
      case Result::argument:
        results.push_back(*call.tensors[result.position]);
        break;
      case Result::undefined:
        results.emplace_back();
        break;
      case Result::new_tensor:
        results.push_back(make_tensor(result.sizes, result.strides,
                                      result.natural, result.dtype,
                                      call.device));
        box_of(*results.back().unsafeGetTensorImpl()).is_padded = is_padded_;
    }
  }
  return results;
}

Ref Program::call(c10::SmallVectorImpl<PyObject*>& arguments) const {
  Ref returned(PyObject_Vectorcall(
      function(), arguments.data() + 1,
      (arguments.size() - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!returned.get()) {
    explain(name_);
  }
  TORCH_INTERNAL_ASSERT(PyTuple_CheckExact(returned.get()));
  return returned;
}

PyObject* Program::function() const {
  if (function_.get() == Py_None) {
    Ref loaded =
        Ref::checked(PyObject_CallMethod(compiled_.get(), "load", nullptr));
    // Another thread may have loaded the function in the meantime. Keep that
    // function, because the other thread may be running it.
    if (function_.get() == Py_None) {
      function_ = std::move(loaded);
    }
  }
  return function_.get();
}

Draw Program::draw(const Call& call) const {
  const auto& generator = call.generator.defined()
                              ? call.generator
                              : default_generator(call.device);
  TORCH_CHECK(generator.device().is_privateuseone(), name_,
              ": expected a generator of tpu, but found one of ",
              generator.device(),
              ". Make it with torch.Generator(device='tpu')");
  const auto [seed, offset] = generator.get<Generator>()->draw();
  return {static_cast<int64_t>(seed), static_cast<int64_t>(offset)};
}

}  // namespace torch_google::tpu

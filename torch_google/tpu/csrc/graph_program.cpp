// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/graph_program.h"

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

#include "torch_google/tpu/csrc/donation.h"
#include "torch_google/tpu/csrc/no_collection.h"

namespace torch_google::tpu {
namespace {

// Returns whether Python may run signal handlers in this thread.
bool handles_signals() { return getpid() == gettid(); }

// Calls a function in a new thread, which holds the GIL, and waits until it
// returns. If no thread can be created, calls it in this thread. The function
// must not throw.
template <typename Function>
void run_in_new_thread(Function function) {
  const pybind11::gil_scoped_release without_gil;
  const auto locked = [&function] {
    const Gil gil;
    function();
  };
  std::thread thread;
  try {
    thread = std::thread(locked);
  } catch (const std::system_error&) {
    locked();
    return;
  }
  thread.join();
}

}  // namespace

Ref GraphProgram::run(PyObject* inputs,
                      const std::vector<std::optional<at::Tensor>>& tensors,
                      const std::vector<Sharding>& shardings) {
  // Throw this error before the program runs and overwrites the old values.
  for (const auto& tensor : tensors) {
    if (tensor) {
      check_writable(*tensor);
    }
  }
  Ref results = call(inputs);
  // Destroyed last, because destructors may run arbitrary code.
  std::vector<Ref> replaced;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]) {
      continue;
    }
    at::TensorImpl& tensor = *tensors[i]->unsafeGetTensorImpl();
    Box& box = box_of(tensor);
    box.settle(tensor);
    PyObject* array =
        PyTuple_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i));
    box.store(Ref::borrow(array).give(), replaced,
              shardings.empty() ? kOneDevice : shardings[i]);
    tensor.bump_version();
  }
  return results;
}

Ref GraphProgram::call(PyObject* inputs) {
  Ref results, error;
  // Holds a reference, because another thread may replace entry_ during the
  // call.
  const Ref entry = Ref::borrow(entry_.get());
  const auto call = [&] {
    PyObject* function = entry.get() ? entry.get() : executable_.get();
    results = Ref(PyObject_Vectorcall(
        function, PySequence_Fast_ITEMS(inputs),
        static_cast<size_t>(PySequence_Fast_GET_SIZE(inputs)), nullptr));
    if (results.get() && !entry.get()) {
      entry_ =
          Ref(PyObject_CallFunction(callbacks().entry, "O", executable_.get()));
    }
    if (PyErr_Occurred()) {
      error = caught();
    }
  };
  // If JAX runs Python code in the call, make the call in another thread,
  // because Python runs signal handlers only in the main thread. A handler that
  // raised an exception after the program has run would lose the results. JAX
  // runs Python code in the first call, and in every call of a program that
  // calls Python functions.
  const NoCollection quiet;
  const bool in_python = !entry.get() || PyFunction_Check(entry.get()) ||
                         entry.get() == executable_.get();
  if (in_python && handles_signals()) {
    run_in_new_thread(call);
  } else {
    call();
  }
  if (!results.get()) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                    error.get());
    raise();
  }
  TORCH_INTERNAL_ASSERT(PyTuple_CheckExact(results.get()));
  return results;
}

}  // namespace torch_google::tpu

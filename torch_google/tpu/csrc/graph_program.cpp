// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/graph_program.h"

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <system_error>
#include <thread>
#include <utility>

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
                      const std::vector<Sharding>& shardings,
                      Donation* donation) {
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
  if (donation) {
    donation->finish();
  }
  return results;
}

Ref GraphProgram::call(PyObject* inputs) {
  if (!entry_.get()) {
    Ref entry = Ref::checked(
        PyObject_CallFunction(callbacks().entry, "O", executable_.get()));
    // Another thread may have set entry_ during the call, and may be using it.
    if (!entry_.get()) {
      entry_ = std::move(entry);
    }
  }
  Ref results, error;
  const auto call = [&] {
    results = Ref(PyObject_Vectorcall(
        entry_.get(), PySequence_Fast_ITEMS(inputs),
        static_cast<size_t>(PySequence_Fast_GET_SIZE(inputs)), nullptr));
    if (!results.get()) {
      error = caught();
    }
  };
  const NoCollection quiet;
  // JAX makes the first call in Python. Make it in another thread, because
  // Python runs signal handlers only in the main thread. A handler that raised
  // an exception after the program has run would lose the results. For a
  // program that calls Python functions, JAX has only Python functions. Such a
  // program runs in this thread, because its functions may depend on it.
  const bool calls_python =
      PyFunction_Check(entry_.get()) || entry_.get() == executable_.get();
  if (!has_run_ && !calls_python && handles_signals() && !_Py_IsFinalizing()) {
    run_in_new_thread(call);
  } else {
    call();
  }
  if (!results.get()) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                    error.get());
    raise();
  }
  has_run_ = true;
  TORCH_INTERNAL_ASSERT(PyTuple_CheckExact(results.get()));
  return results;
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/python.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace torch_google::tpu {
namespace {

// What was given back without the GIL.
std::mutex abandoned_mutex;
std::vector<PyObject*> abandoned;
bool scheduled = false;
// Whether there is any: asked for each operator.
std::atomic<bool> any_abandoned{false};

void collect() {
  std::vector<PyObject*> dead;
  {
    std::lock_guard<std::mutex> lock(abandoned_mutex);
    dead.swap(abandoned);
    any_abandoned.store(false, std::memory_order_relaxed);
  }
  // This may run anything.
  for (PyObject* object : dead) {
    Py_DECREF(object);
  }
}

int collect_scheduled(void*) {
  {
    std::lock_guard<std::mutex> lock(abandoned_mutex);
    scheduled = false;
  }
  collect();
  return 0;
}

}  // namespace

Callbacks& callbacks() {
  static Callbacks instance;
  return instance;
}

void release(PyObject* object) {
  // Tensors outlive the interpreter when a static holds one: their memory is
  // the process's to free.
  if (!object || !Py_IsInitialized()) {
    return;
  }
  if (PyGILState_Check()) {
    Py_DECREF(object);
    return;
  }
  // Waiting for the GIL here could deadlock with whoever holds a lock of the
  // caller's.
  std::lock_guard<std::mutex> lock(abandoned_mutex);
  abandoned.push_back(object);
  any_abandoned.store(true, std::memory_order_relaxed);
  // The interpreter makes pending calls in the main thread alone, which may
  // wait for another one, and takes 32 at most.
  scheduled = scheduled || Py_AddPendingCall(collect_scheduled, nullptr) == 0;
}

void collect_released() {
  if (any_abandoned.load(std::memory_order_relaxed)) {
    collect();
  }
}

Ref caught() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) {
    PyException_SetTraceback(value, trace);
  }
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return Ref(value);
}

void throw_again(PyObject* error) {
  const Ref fresh = without_trace(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(fresh.get())),
                  fresh.get());
  raise();
}

Ref without_trace(PyObject* error) {
  // Without __init__, whose arguments need not be those of the exception.
  const Ref arguments = Ref::checked(PyObject_GetAttrString(error, "args"));
  Ref fresh = Ref::checked(
      Py_TYPE(error)->tp_new(Py_TYPE(error), arguments.get(), nullptr));
  const Ref attributes =
      Ref::checked(PyObject_GetAttrString(error, "__dict__"));
  const Ref own = Ref::checked(PyObject_GetAttrString(fresh.get(), "__dict__"));
  if (PyDict_Update(own.get(), attributes.get()) != 0) {
    raise();
  }
  return fresh;
}

void explain(const std::string& program) {
  const Ref error = caught();
  Ref::checked(PyObject_CallFunction(callbacks().explain, "sO", program.c_str(),
                                     error.get()));
  raise();
}

void raise() {
  const Ref error = caught();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                  error.get());
  python_error thrown;
  thrown.persist();
  throw thrown;
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/python.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace torch_google::tpu {
namespace {

// References that were released without the GIL. collect() drops them.
std::mutex abandoned_mutex;
std::vector<PyObject*> abandoned;
bool scheduled = false;
// Whether `abandoned` has entries. Every operator checks this flag, without
// locking the mutex.
std::atomic<bool> any_abandoned{false};

void collect() {
  std::vector<PyObject*> dead;
  {
    std::lock_guard<std::mutex> lock(abandoned_mutex);
    dead.swap(abandoned);
    any_abandoned.store(false, std::memory_order_relaxed);
  }
  // Unlock the mutex before this loop: destructors may run arbitrary code.
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
  // A tensor owned by a static variable may outlive the interpreter. Leak its
  // value, because the process is about to exit.
  if (!object || !Py_IsInitialized()) {
    return;
  }
  if (PyGILState_Check()) {
    Py_DECREF(object);
    return;
  }
  // Waiting for the GIL here could deadlock, because its holder may wait for a
  // lock that our caller holds.
  std::lock_guard<std::mutex> lock(abandoned_mutex);
  abandoned.push_back(object);
  any_abandoned.store(true, std::memory_order_relaxed);
  // Schedule at most one pending call. The interpreter queues at most 32, and
  // runs them only in the main thread, which may be waiting for this thread.
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
  // Do not call __init__: its parameters may differ from the exception's
  // `args`.
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

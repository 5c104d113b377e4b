// SPDX-License-Identifier: Apache-2.0
// Wrappers for the Python C API: the GIL, references to Python objects, and
// Python functions that C++ calls.
#pragma once

#include <Python.h>
#include <torch/csrc/Exceptions.h>

#include <memory>
#include <string>
#include <utility>

namespace torch_google::tpu {

// Python functions that C++ calls. torch_google/tpu/registration.py sets them
// once, when it registers the device.
struct Callbacks {
  PyObject* start = nullptr;  // () -> number of devices
  PyObject* miss = nullptr;   // creates a program for a call, see recorder.cpp
  PyObject* explain =
      nullptr;  // (operator, exception): raises an error for the user
  PyObject* debug =
      nullptr;  // (operator, function, arguments) -> results, all computed
  PyObject* to_host = nullptr;  // jax.Array -> its elements on the CPU
  // (elements on the CPU, shape, dtype, device) -> jax.Array
  PyObject* received = nullptr;
  // rank -> path of the file with the most recent collectives, or ""
  PyObject* dump_flight_record = nullptr;
  // (shape, dtype, device, sharding) -> jax.Array
  PyObject* zeros = nullptr;
  // (array on one device, sharding) -> copies on all devices of the sharding
  PyObject* replicated = nullptr;
  // (tuple of arrays, positions in it, device) -> the tuple, in which each
  // replicated array at these positions is replaced by its copy on the device
  PyObject* localized = nullptr;
  // (array, number of elements, dtype) -> flat jax.Array
  PyObject* resized = nullptr;
  // (array of bytes, shape, dtype) -> jax.Array, or None if the dtype cannot
  // represent all of the bytes
  PyObject* of_bytes = nullptr;
  PyObject* transfer =
      nullptr;  // (target, source, non_blocking): copies across devices
  // (arrays, timing, device, stream or -1 for all) -> Marker
  PyObject* mark = nullptr;
  PyObject* mem_get_info = nullptr;  // device -> (free, total), in bytes
  PyObject* fuse = nullptr;          // compiles a trace, see run.cpp
  PyObject* scratch = nullptr;       // executable -> bytes of temporary memory
  // (executable, arguments, donated) -> (a tuple of the results, or a list of
  // the arguments if the run failed; the exception that interrupted the run, or
  // None)
  PyObject* attempt = nullptr;
  // executable -> the function that runs it, see fused/fusion.py
  PyObject* entry = nullptr;
  // code object -> Origins::Kind, see origin.h
  PyObject* frame_kind = nullptr;
};

Callbacks& callbacks();

// Drops a reference. If the caller does not hold the GIL, the object stays
// alive until the main thread runs Python code, or until collect_released() is
// called.
void release(PyObject* object);
// Drops the references that were released without the GIL. The caller must hold
// the GIL.
void collect_released();

// Throws the current Python error, translated by runtime/errors.py. `program`
// is the name of the program that failed.
[[noreturn]] void explain(const std::string& program);

// Throws the current Python error with its type and traceback.
[[noreturn]] void raise();
[[noreturn]] void throw_again(PyObject* error);

// An owned reference that may be dropped without the GIL.
using SharedObject = std::shared_ptr<PyObject>;
// Takes ownership of the reference.
inline SharedObject shared_object(PyObject* stolen) {
  return SharedObject(stolen, release);
}

class Ref;
// Returns a copy of an exception without its traceback. A traceback keeps the
// callers' frames and their tensors alive. If the box (box.h) of such a tensor
// owned the exception, neither of them would ever be freed.
Ref without_trace(PyObject* error);

// Holds the GIL for its lifetime.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// An owned reference. Use it only while holding the GIL.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* stolen) : object_(stolen) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  // Takes ownership of the reference that a Python call returned. If the call
  // raised an error, throws it.
  static Ref checked(PyObject* stolen) {
    if (!stolen) {
      raise();
    }
    return Ref(stolen);
  }

  PyObject* get() const { return object_; }
  PyObject* give() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

// Returns the current Python error and clears it.
Ref caught();

}  // namespace torch_google::tpu

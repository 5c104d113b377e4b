// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of its Python half, and how references travel between
// the two.
#pragma once

#include <Python.h>
#include <torch/csrc/Exceptions.h>

#include <string>
#include <utility>

namespace torch_google::tpu {

// The Python functions that C++ calls: see torch_google/tpu/registration.py.
// Set once, when the device registers.
struct Callbacks {
  PyObject* start = nullptr;  // () -> number of devices
  PyObject* miss = nullptr;   // see recorder.cpp
  PyObject* explain =
      nullptr;  // (operator, exception): raises what the user should see
  PyObject* debug =
      nullptr;  // (operator, function, arguments) -> results, all of them ready
  PyObject* zeros = nullptr;  // (shape, dtype, device) -> jax.Array
  // (array, number of elements, their dtype) -> flat jax.Array
  PyObject* resized = nullptr;
  // (array of bytes, shape, dtype) -> jax.Array, or None where the dtype cannot
  // say all of the bytes
  PyObject* of_bytes = nullptr;
  PyObject* transfer =
      nullptr;  // (target, source, non_blocking): copies across devices
  // (arrays, timing, device, stream or -1 for all) -> Marker
  PyObject* mark = nullptr;
  PyObject* mem_get_info = nullptr;  // device -> (free, total), in bytes
  PyObject* fuse = nullptr;          // see run.cpp
  PyObject* scratch = nullptr;       // executable -> bytes while it runs
  // (executable, arguments, donated) -> a tuple of the results, or a list of
  // the arguments if it failed; and what interrupted it, or None
  PyObject* attempt = nullptr;
  // executable that has run -> what runs it from now on
  PyObject* entry = nullptr;
};

Callbacks& callbacks();

// Gives a reference back; may be called without the GIL. It is then kept until
// the main thread runs Python, or anybody collects.
void release(PyObject* object);
// Gives back what was released without the GIL, which this needs.
void collect_released();

// Throws, for the Python error that is set, what runtime/errors.py makes of it
// for the user.
[[noreturn]] void explain(const std::string& program);

// Throws the Python error that is set, with its type and traceback.
[[noreturn]] void raise();
[[noreturn]] void throw_again(PyObject* error);

class Ref;
// A new exception that says the same, without a traceback: who keeps that keeps
// the frames of whoever called, with their tensors, for good if one of these
// keeps the exception.
Ref without_trace(PyObject* error);

// Holds the GIL.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// An owned reference, used under the GIL.
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
  // Takes a new reference that a call into Python returned; throws what the
  // call raised.
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

// The Python error that is set, and no longer is.
Ref caught();

}  // namespace torch_google::tpu

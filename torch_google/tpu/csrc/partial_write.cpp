// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/partial_write.h"

#include <exception>
#include <memory>
#include <utility>

#include "torch_google/tpu/csrc/allocator.h"
#include "torch_google/tpu/csrc/arrival.h"
#include "torch_google/tpu/csrc/no_collection.h"
#include "torch_google/tpu/csrc/program.h"

namespace torch_google::tpu {
namespace {

// A smaller storage is copied in a few microseconds.
constexpr size_t kMinStorageBytes = 256 << 10;
// Compile the variant for the call that repeats the program so many times.
constexpr uint32_t kCallsBeforeDonation = 8;
// Never run a variant again after so many failures.
constexpr uint32_t kMostFailures = 8;

uint64_t written_in_place = 0;

// Ends an arrival that replaced a box's value. Unless another thread has
// written to the box in the meantime, the array becomes the box's value.
void put(Box& box, const std::shared_ptr<Arrival>& arrival, const Ref& array) {
  arrival->deliver_arrays({shared_object(Ref::borrow(array.get()).give())});
  if (box.arrival() == arrival) {
    box.store(Ref::borrow(array.get()).give());
  }
}

}  // namespace

uint64_t in_place_writes() { return written_in_place; }

void reset_in_place_writes() { written_in_place = 0; }

void count_in_place_write() { ++written_in_place; }

bool PartialWrite::run(const Program& program, const Call& call) {
  if (!is_suitable(program, call) || !is_compiled(program)) {
    return false;
  }
  Box& box =
      box_of(*call.tensors[program.inputs()[input_]]->unsafeGetTensorImpl());
  c10::SmallVector<Ref, 12> owned;
  c10::SmallVector<PyObject*, 13> arguments{nullptr};
  program.read(call, arguments, owned);
  if (!Allocator::get().has_room(call.device, scratch_)) {
    return false;
  }
  if (C10_UNLIKELY(!call.is_current())) {
    throw LayoutChanged();
  }
  const NoCollection quiet;
  const auto arrival = pending_write();
  owned[input_] = Ref();
  Ref old(box.take(arrival));
  if (!old.get()) {
    return false;
  }
  arguments[input_ + 1] = old.get();
  try {
    Ref error;
    const bool is_first = state_ == trial;
    const Ref array = is_first ? attempt(arguments, old, error)
                               : this->call(arguments, error);
    if (array.get()) {
      put(box, arrival, array);
      count_in_place_write();
    } else if (error.get() && is_deleted(old.get())) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                      error.get());
      explain(program.name());
    } else {
      put(box, arrival, old);
      state_ = is_first || ++failures_ == kMostFailures ? failed : state_;
    }
    // Throw the exception of a signal handler, such as Ctrl-C. Ignore an error
    // of the run, because the program itself may succeed.
    if (error.get() &&
        (is_first || PyObject_IsInstance(error.get(), PyExc_Exception) == 0)) {
      throw_again(error.get());
    }
    return array.get() != nullptr;
  } catch (...) {
    if (is_intact(old.get())) {
      put(box, arrival, old);
    } else if (arrival->fail(std::current_exception())) {
      // Let the box store the error instead of the arrival, which must not be
      // destroyed under a lock.
      try {
        box.value(Reason::strict);
      } catch (const std::exception&) {
        PyErr_Clear();
      }
    }
    throw;
  }
}

Ref PartialWrite::attempt(const c10::SmallVectorImpl<PyObject*>& arguments,
                          Ref& old, Ref& error) {
  const auto count = static_cast<Py_ssize_t>(arguments.size()) - 1;
  const Ref list = Ref::checked(PyList_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyList_SET_ITEM(list.get(), i, Ref::borrow(arguments[i + 1]).give());
  }
  const Ref answer = Ref::checked(
      PyObject_CallFunction(callbacks().attempt, "OO[n]", function_.get(),
                            list.get(), static_cast<Py_ssize_t>(input_)));
  PyObject* values = PyTuple_GET_ITEM(answer.get(), 0);
  PyObject* interruption = PyTuple_GET_ITEM(answer.get(), 1);
  if (interruption != Py_None) {
    error = Ref::borrow(interruption);
  }
  if (!PyTuple_CheckExact(values)) {
    old = Ref::borrow(PyList_GET_ITEM(values, static_cast<Py_ssize_t>(input_)));
    return Ref();
  }
  Ref entry(PyObject_CallFunction(callbacks().entry, "O", function_.get()));
  if (entry.get()) {
    function_ = std::move(entry);
    state_ = ready;
  } else {
    error = caught();  // the next run tries again
  }
  return Ref::borrow(PyTuple_GET_ITEM(values, 0));
}

Ref PartialWrite::call(const c10::SmallVectorImpl<PyObject*>& arguments,
                       Ref& error) const {
  // Another thread may replace function_ during the run.
  const Ref function = Ref::borrow(function_.get());
  const Ref arrays(PyObject_Vectorcall(
      function.get(), arguments.data() + 1,
      (arguments.size() - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!arrays.get()) {
    error = caught();
    return Ref();
  }
  return Ref::borrow(PyTuple_GET_ITEM(arrays.get(), 0));
}

bool PartialWrite::is_suitable(const Program& program, const Call& call) const {
  const at::Tensor& tensor = *call.tensors[program.inputs()[input_]];
  const Box& box = box_of(*tensor.unsafeGetTensorImpl());
  const size_t bytes = static_cast<size_t>(tensor.numel()) * tensor.itemsize();
  if (state_ == failed || box.bytes() < kMinStorageBytes ||
      !(program.writes_few() || bytes <= box.bytes() / 2)) {
    return false;
  }
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    const at::Tensor& other = *call.tensors[program.inputs()[i]];
    if (i != input_ && &box_of(*other.unsafeGetTensorImpl()) == &box) {
      return false;
    }
  }
  return true;
}

bool PartialWrite::is_compiled(const Program& program) {
  if (state_ == counting && ++uses_ >= kCallsBeforeDonation) {
    // Other threads use the program itself until the variant is compiled. An
    // error leaves it at that.
    state_ = failed;
    Ref function = Ref::checked(PyObject_CallMethod(
        program.compiled(), "donating", "n", static_cast<Py_ssize_t>(input_)));
    if (function.get() != Py_None) {
      const Ref bytes = Ref::checked(
          PyObject_CallFunction(callbacks().scratch, "O", function.get()));
      scratch_ = PyLong_AsSize_t(bytes.get());
      function_ = std::move(function);
      state_ = trial;
    }
  }
  return state_ == trial || state_ == ready;
}

}  // namespace torch_google::tpu

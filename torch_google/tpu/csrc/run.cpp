// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/run.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include <torch/csrc/utils/pybind.h>

#include <pybind11/numpy.h>

#include "torch_google/tpu/csrc/allocator.h"
#include "torch_google/tpu/csrc/no_collection.h"
#include "torch_google/tpu/csrc/origin.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

// Traces with fewer operators than this run operator by operator.
constexpr size_t kMinFusedOps = 4;

struct FusedProgram : LastUse {
  // `trial` means that the program is compiled but has never run.
  enum State { compiling, trial, ready, failed } state = compiling;
  Ref function;
  // The name of the program in a profiler trace.
  std::string name;
  // The size in bytes of the temporary memory that each run needs.
  size_t scratch = 0;
};

// The fused programs of this process. Guarded by the GIL.
struct FusedProgramCache {
  std::unordered_map<Key, std::shared_ptr<FusedProgram>, KeyHash> programs;
  std::unordered_map<uint64_t, std::shared_ptr<FusedProgram>> unresolved;
  uint64_t next_token = 0;
};

FusedProgramCache& cache() {
  static auto* instance = new FusedProgramCache;
  return *instance;
}

FusedCounts fused_counters{};

template <typename Items>
py::list list_of(const Items& items) {
  py::list list;
  for (const auto item : items) {
    list.append(item);
  }
  return list;
}

// A single run of a trace.
class Run {
 public:
  explicit Run(FusedTrace& trace)
      : trace_(trace),
        values_(trace.slots.size()),
        pairs_(trace.detach(kept_, donated_)) {}

  void run() {
    if (kept_.empty()) {
      return;
    }
    try {
      if (trace_.steps.size() < kMinFusedOps || !run_fused()) {
        run_each();
      }
    } catch (python_error& error) {
      fail(error.value);
      throw;
    } catch (const std::exception& error) {
      fail(py::module_::import("builtins")
               .attr("RuntimeError")(error.what())
               .ptr());
      throw;
    }
    if (refused_.get()) {
      throw_again(refused_.get());
    }
  }

 private:
  // Runs the fused program if it is compiled and fits in memory. Returns
  // whether it ran.
  bool run_fused() {
    const auto program = find();
    if (program->state != FusedProgram::ready &&
        program->state != FusedProgram::trial) {
      fused_counters.served += program->state == FusedProgram::compiling;
      return false;
    }
    ++fused_counters.hits;
    if (!Allocator::get().has_room(trace_.device, program->scratch)) {
      // Run operator by operator, which needs less memory. This is possible
      // because nothing has been donated yet.
      return false;
    }
    own_what_is_donated();
    c10::SmallVector<PyObject*, 64> arguments{nullptr};
    c10::SmallVector<Ref, 8> replicas;
    for (const auto& external : trace_.externals) {
      if (C10_UNLIKELY(is_replicated(external))) {
        replicas.push_back(Ref::checked(PyObject_CallFunction(
            callbacks().replicated, "Oi", external.array.get(), trace_.mesh)));
        arguments.push_back(replicas.back().get());
      } else {
        arguments.push_back(external.array.get());
      }
    }
    py::object floats, integers;
    if (!trace_.floats.empty()) {
      floats = py::array_t<double>(
          static_cast<py::ssize_t>(trace_.floats.size()), trace_.floats.data());
      arguments.push_back(floats.ptr());
    }
    if (!trace_.integers.empty()) {
      integers =
          py::array_t<int64_t>(static_cast<py::ssize_t>(trace_.integers.size()),
                               trace_.integers.data());
      arguments.push_back(integers.ptr());
    }
    if (C10_UNLIKELY(Origins::is_recording())) {
      Origins::get().ran(program->name, origins());
    }
    if (program->state == FusedProgram::trial) {
      return run_trial(*program, arguments);
    }
    // Hold an owned reference to the function, because the cache may be cleared
    // while it runs.
    const Ref function = Ref::borrow(program->function.get());
    const Ref arrays(PyObject_Vectorcall(
        function.get(), arguments.data() + 1,
        (arguments.size() - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    if (arrays.get()) {
      store(arrays.get());
      return true;
    }
    // Retry operator by operator, which may need less memory. This is not
    // possible if donated inputs have been deleted.
    const Ref error = caught();
    for (const uint32_t i : donated_) {
      if (is_deleted(trace_.externals[i].array.get())) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                        error.get());
        explain("a fused program of " + std::to_string(trace_.steps.size()) +
                " operators");
      }
    }
    if (PyObject_IsInstance(error.get(), PyExc_Exception) == 0) {
      // Defer an interruption, such as Ctrl-C.
      refused_ = Ref::borrow(error.get());
    }
    return false;
  }

  // Runs a program for the first time. If the run fails, Python restores the
  // donated inputs. Later runs do not need this protection, because after one
  // successful run the program needs no additional memory.
  bool run_trial(FusedProgram& program,
                 const c10::SmallVectorImpl<PyObject*>& arguments) {
    py::list given;
    for (size_t i = 1; i < arguments.size(); ++i) {
      given.append(py::handle(arguments[i]));
    }
    const Ref answer = Ref::checked(PyObject_CallFunction(
        callbacks().attempt, "OOO", program.function.get(), given.ptr(),
        list_of(donated_).ptr()));
    PyObject* values = PyTuple_GET_ITEM(answer.get(), 0);
    PyObject* interruption = PyTuple_GET_ITEM(answer.get(), 1);
    if (interruption != Py_None) {
      refused_ = Ref::borrow(interruption);
    }
    if (PyTuple_CheckExact(values)) {
      store(values);
      Ref entry(PyObject_CallFunction(callbacks().entry, "O",
                                      program.function.get()));
      if (entry.get()) {
        program.function = std::move(entry);
        program.state = FusedProgram::ready;
      } else {
        // The state stays `trial`, so the next run tries again.
        refused_ = caught();
      }
      return true;
    }
    // An interruption such as Ctrl-C does not mean that the program is broken,
    // so only other errors mark it as failed.
    if (interruption == Py_None ||
        PyObject_IsInstance(interruption, PyExc_Exception) == 1) {
      program.state = FusedProgram::failed;
    }
    for (size_t i = 0; i < trace_.externals.size(); ++i) {
      if (!is_replicated(trace_.externals[i])) {
        trace_.externals[i].array = Ref::borrow(PyList_GET_ITEM(values, i));
      }
    }
    return false;
  }

  // Returns whether the fused program gets a copy of the array on every device.
  bool is_replicated(const FusedTrace::External& external) const {
    return trace_.mesh != kOneDevice && external.sharding == kOneDevice;
  }

  // Stores the results of the fused program. On a mesh, the program returns all
  // values on all devices, so values that belong on a single device are
  // extracted first.
  void store(PyObject* arrays) {
    py::list positions;
    if (trace_.mesh != kOneDevice) {
      for (size_t i = 0; i < kept_.size(); ++i) {
        if (trace_.slots[kept_[i]].sharding == kOneDevice) {
          positions.append(i);
        }
      }
    }
    if (positions.empty()) {
      trace_.store(kept_, arrays);
      return;
    }
    for (;;) {
      const Ref localized(PyObject_CallFunction(
          callbacks().localized, "OOi", arrays, positions.ptr(),
          static_cast<int>(trace_.device)));
      if (localized.get()) {
        trace_.store(kept_, localized.get());
        return;
      }
      // Defer an interruption, such as Ctrl-C, because the values have been
      // computed and the donated inputs no longer exist.
      Ref error = caught();
      if (PyObject_IsInstance(error.get(), PyExc_Exception) == 1) {
        throw_again(error.get());
      }
      refused_ = std::move(error);
    }
  }

  std::shared_ptr<FusedProgram> find() {
    Key key = trace_.key;
    key.push_back(static_cast<int64_t>(pairs_));
    for (const auto* part : {&kept_, &donated_}) {
      key.push_back(static_cast<int64_t>(part->size()));
      key.insert(key.end(), part->begin(), part->end());
    }
    auto& found = cache().programs[key];
    if (found) {
      found->use();
      return found;
    }
    ++fused_counters.misses;
    found = std::make_shared<FusedProgram>();
    // Copy the pointer: `found` points into the map, which may rehash while
    // Python runs.
    const auto made = found;
    const auto token = cache().next_token++;
    cache().unresolved.emplace(token, made);
    const py::list steps = described();
    const Ref answer(PyObject_CallFunction(
        callbacks().fuse, "KiOOOn", static_cast<unsigned long long>(token),
        static_cast<int>(trace_.device), steps.ptr(), list_of(kept_).ptr(),
        list_of(donated_).ptr(), static_cast<Py_ssize_t>(pairs_)));
    if (!answer.get()) {
      // Defer the error until the pending values have been stored.
      refused_ = caught();
      cache().unresolved.erase(token);
      cache().programs.erase(key);
      return made;
    }
    const auto [name, executable] =
        py::cast<std::pair<std::string, py::object>>(py::handle(answer.get()));
    made->name = name;
    if (!executable.is_none()) {
      resolve_fused(token, executable.ptr());
    }
    return made;
  }

  std::vector<Origins::Id> origins() const {
    std::vector<Origins::Id> origins;
    for (const auto& step : trace_.steps) {
      origins.push_back(step.origin);
    }
    return origins;
  }

  // Returns each step's CompiledOp and the wires (sources) of its inputs.
  py::list described() const {
    py::list steps;
    for (const auto& step : trace_.steps) {
      const size_t count = step.program->inputs().size();
      py::tuple wires(count);
      for (size_t i = 0; i < count; ++i) {
        wires[i] = trace_.wires[step.wires + i];
      }
      steps.append(py::make_tuple(py::handle(step.program->compiled()), wires));
    }
    return steps;
  }

  // Copies donated arrays that have other owners, so that the trace can still
  // use the program that donates them.
  void own_what_is_donated() {
    for (const uint32_t i : donated_) {
      auto& array = trace_.externals[i].array;
      if (Py_REFCNT(array.get()) > 1) {
        array = Ref::checked(PyObject_CallMethod(array.get(), "copy", nullptr));
      }
    }
  }

  void run_each() {
    const auto last = last_uses();
    size_t next_float = 0;
    size_t next_integer = 0;
    size_t dead = 0;
    for (size_t at = 0; at < trace_.steps.size(); ++at) {
      const auto& step = trace_.steps[at];
      c10::SmallVector<PyObject*, 13> arguments{nullptr};
      c10::SmallVector<Ref, 8> numbers;
      for (size_t i = 0; i < step.program->inputs().size(); ++i) {
        const auto wire = trace_.wires[step.wires + i];
        arguments.push_back(wire < 0 ? trace_.externals[~wire].array.get()
                                     : values_[wire].get());
      }
      for (const char kind : step.program->numbers()) {
        numbers.push_back(Ref::checked(
            kind == 'f'
                ? PyFloat_FromDouble(trace_.floats[next_float++])
                : PyLong_FromLongLong(trace_.integers[next_integer++])));
        arguments.push_back(numbers.back().get());
      }
      c10::SmallVector<Ref, 8> replicas;
      if (step.program->mesh() != kOneDevice) {
        step.program->replicate(arguments, replicas);
      }
      const Ref arrays = step.program->call(arguments);
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arrays.get()); ++i) {
        values_[step.slots + i] =
            Ref::borrow(PyTuple_GET_ITEM(arrays.get(), i));
      }
      for (; dead < last.size() && last[dead].first <= at; ++dead) {
        values_[last[dead].second] = Ref();
      }
    }
    Ref arrays =
        Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(kept_.size())));
    for (size_t i = 0; i < kept_.size(); ++i) {
      PyTuple_SET_ITEM(arrays.get(), i, values_[kept_[i]].give());
    }
    trace_.store(kept_, arrays.get());
  }

  // Returns a pair (step, slot) for each slot (value) that is not in kept_,
  // ordered by step. The step is the last one that computes or reads the slot's
  // value, or computes the next value of the same box (box.h), so no later step
  // needs the value.
  std::vector<std::pair<size_t, uint32_t>> last_uses() const {
    std::vector<size_t> uses(trace_.slots.size());
    size_t slot = 0;
    for (size_t at = 0; at < trace_.steps.size(); ++at) {
      const auto& step = trace_.steps[at];
      const size_t end = at + 1 < trace_.steps.size()
                             ? trace_.steps[at + 1].slots
                             : trace_.slots.size();
      for (; slot < end; ++slot) {
        uses[slot] = at;
        if (const auto previous = trace_.slots[slot].previous; previous >= 0) {
          uses[previous] = at;
        }
      }
      for (size_t i = 0; i < step.program->inputs().size(); ++i) {
        if (const auto wire = trace_.wires[step.wires + i]; wire >= 0) {
          uses[wire] = at;
        }
      }
    }
    std::vector<bool> is_kept(uses.size());
    for (const uint32_t slot : kept_) {
      is_kept[slot] = true;
    }
    std::vector<std::pair<size_t, uint32_t>> last;
    for (uint32_t i = 0; i < uses.size(); ++i) {
      if (!is_kept[i]) {
        last.emplace_back(uses[i], i);
      }
    }
    std::sort(last.begin(), last.end());
    return last;
  }

  void fail(PyObject* error) {
    std::vector<bool> deleted;
    for (const auto& external : trace_.externals) {
      deleted.push_back(is_deleted(external.array.get()));
    }
    trace_.fail(values_, without_trace(error).get(), deleted);
  }

  FusedTrace& trace_;
  std::vector<Ref> values_;
  std::vector<uint32_t> kept_;
  std::vector<uint32_t> donated_;
  size_t pairs_;
  // The exception to throw after the values are stored: one that a signal
  // handler raised, or one from the Python function that compiles programs.
  Ref refused_;
};

}  // namespace

void run(FusedTrace& trace, Reason reason) {
  ++fused_counters.flushes[static_cast<size_t>(reason)];
  const NoCollection quiet;
  // Detach the trace before another thread can acquire the GIL. After this, no
  // box (box.h) refers to the trace.
  Run prepared(trace);
  // First drop references that were released without the GIL. Otherwise,
  // donated arrays would look shared and be copied.
  collect_released();
  prepared.run();
}

void resolve_fused(uint64_t token, PyObject* executable) {
  // Call Python before using the map, because Python may release the GIL.
  size_t scratch = 0;
  if (executable != Py_None) {
    const Ref bytes = Ref::checked(
        PyObject_CallFunction(callbacks().scratch, "O", executable));
    scratch = PyLong_AsSize_t(bytes.get());
  }
  const auto found = cache().unresolved.find(token);
  if (found == cache().unresolved.end()) {
    return;  // the cache was cleared in the meantime
  }
  auto& program = *found->second;
  if (executable == Py_None) {
    program.state = FusedProgram::failed;
  } else {
    program.scratch = scratch;
    program.function = Ref::borrow(executable);
    program.state = FusedProgram::trial;
  }
  cache().unresolved.erase(found);
}

void collect_fused_uses(std::vector<uint64_t>& uses) {
  for (const auto& [key, program] : cache().programs) {
    uses.push_back(program->used());
  }
}

void forget_fused(uint64_t since,
                  std::vector<std::shared_ptr<const LastUse>>& forgotten) {
  std::erase_if(cache().programs, [&](auto& entry) {
    if (entry.second->state == FusedProgram::compiling ||
        entry.second->used() >= since) {
      return false;
    }
    forgotten.push_back(std::move(entry.second));
    return true;
  });
}

void clear_fused() {
  // Destroy the evicted programs last, when no map is in use, because
  // destructors may run arbitrary code.
  const auto programs = std::exchange(cache().programs, {});
  cache().unresolved.clear();
}

FusedCounts fused_counts() { return fused_counters; }

void reset_fused_counts() { fused_counters = {}; }

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/trace.h"

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/run.h"

namespace torch_google::tpu {
namespace {

// For each device, the trace that is being recorded, or null.
std::array<std::unique_ptr<FusedTrace>, kMaxDevices>& traces() {
  static auto* all = new std::array<std::unique_ptr<FusedTrace>, kMaxDevices>;
  return *all;
}

// The traces that are running, and the thread that is running each of them.
class Running {
 public:
  void begin(const FusedTrace& trace) {
    std::lock_guard<std::mutex> lock(mutex_);
    traces_.push_back({trace.serial, trace.device, std::this_thread::get_id()});
  }
  void end(const FusedTrace& trace) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      std::erase_if(traces_, [&](const RunningTrace& entry) {
        return entry.serial == trace.serial;
      });
    }
    ended_.notify_all();
  }
  // Waits, with the GIL released, until no running trace satisfies `which`.
  template <typename Which>
  void wait(Which which) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (std::none_of(traces_.begin(), traces_.end(), which)) {
      return;
    }
    TORCH_CHECK(std::none_of(traces_.begin(), traces_.end(),
                             [&](const RunningTrace& entry) {
                               return which(entry) &&
                                      entry.thread ==
                                          std::this_thread::get_id();
                             }),
                "tpu: a value is read while this thread computes it, by a "
                "signal handler or a finalizer. Read it later");
    lock.unlock();
    PyThreadState* saved = PyEval_SaveThread();
    lock.lock();
    ended_.wait(lock, [&] {
      return std::none_of(traces_.begin(), traces_.end(), which);
    });
    lock.unlock();
    PyEval_RestoreThread(saved);
  }

  struct RunningTrace {
    uint64_t serial;
    c10::DeviceIndex device;
    std::thread::id thread;
  };

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<RunningTrace> traces_;
};

Running& running() {
  static auto* instance = new Running;
  return *instance;
}

uint64_t next_serial = 0;

void run_now(std::unique_ptr<FusedTrace> trace, Reason reason) {
  struct Scope {
    explicit Scope(const FusedTrace& trace) : trace_(trace) {
      running().begin(trace_);
    }
    ~Scope() { running().end(trace_); }
    const FusedTrace& trace_;
  } scope(*trace);
  run(*trace, reason);
}

}  // namespace

Limits& limits() {
  static Limits instance;
  return instance;
}

FusedTrace::FusedTrace(c10::DeviceIndex index)
    : device(index), serial(next_serial++) {}

Results FusedTrace::record(std::shared_ptr<const Program> program,
                           const Call& call, std::optional<Draw>& drawn) {
  // Find the origin before reading the current trace: this may run Python code,
  // which may release the GIL.
  const Origins::Id origin =
      C10_UNLIKELY(Origins::is_recording()) ? Origins::get().of(call) : 0;
  // Allocate the results first, for the reasons in Program::run().
  Results results = program->results(call);
  auto& now = traces()[call.device];
  for (bool ready = false; !ready;) {
    if (!now) {
      now = std::make_unique<FusedTrace>(call.device);
    }
    ready = true;
    if (now->mesh != kOneDevice && program->mesh() != kOneDevice &&
        now->mesh != program->mesh()) {
      now->finish(Reason::mesh);
      ready = false;
      continue;
    }
    for (const size_t input : program->inputs()) {
      Box& box = box_of(*call.tensors[input]->unsafeGetTensorImpl());
      if (!now->is_ready_for(box)) {
        // Other threads may flush the current trace while this call waits.
        box.value(Reason::strict);
        ready = false;
        break;
      }
    }
  }
  if (C10_UNLIKELY(!call.is_current())) {
    throw LayoutChanged();
  }
  if (program->random() && !drawn) {
    drawn = program->draw(call);
  }
  // From here on, nothing throws and the GIL is not released.
  FusedTrace& trace = *now;
  const auto stream = current_stream(call.device).id();
  {
    std::lock_guard<std::mutex> lock(Box::mutex());
    trace.steps.push_back({nullptr, static_cast<uint32_t>(trace.wires.size()),
                           static_cast<uint32_t>(trace.slots.size()), origin});
    trace.key.push_back(program->id());
    for (const size_t input : program->inputs()) {
      const Wire wire =
          trace.wire(box_of(*call.tensors[input]->unsafeGetTensorImpl()));
      trace.wires.push_back(wire);
      trace.key.push_back(wire);
    }
    size_t value = 0;
    program->each_target(call, results, [&](Box& box) {
      trace.wait(box, stream, program->sharding(value++));
    });
    if (program->mesh() != kOneDevice) {
      trace.mesh = program->mesh();
    }
  }
  for (const auto& number : call.numbers) {
    if (std::holds_alternative<double>(number)) {
      trace.floats.push_back(std::get<double>(number));
    } else {
      trace.integers.push_back(std::get<int64_t>(number));
    }
  }
  if (program->random()) {
    trace.integers.insert(trace.integers.end(), drawn->begin(), drawn->end());
  }
  trace.repeats_ = trace.repetition_.add(program->id());
  trace.steps.back().program = std::move(program);
  if (const auto reason = trace.end()) {
    trace.finish(*reason);
  }
  return results;
}

bool FusedTrace::is_ready_for(Box& box) const {
  return box.writer_ == this || (!box.writer_ && box.value_ && !box.error_);
}

FusedTrace::Wire FusedTrace::wire(Box& box) {
  if (box.writer_ == this) {
    return static_cast<Wire>(box.slot_);
  }
  if (box.reader_ != this) {
    box.reader_ = this;
    box.external_ = static_cast<uint32_t>(externals.size());
    externals.push_back(
        {Ref::borrow(box.value_), &box, box.shared_, -1, box.value_sharding_});
    bytes_ += box.bytes_;
  }
  return ~static_cast<Wire>(box.external_);
}

void FusedTrace::wait(Box& box, c10::StreamId stream, Sharding sharding) {
  int64_t previous = -1;
  if (box.writer_ == this) {
    previous = box.slot_;
  }
  if (box.writer_) {
    box.writer_->forget_slot(box.slot_);
  }
  box.arrival_.reset();
  box.writer_ = this;
  box.slot_ = static_cast<uint32_t>(slots.size());
  box.stream_ = stream;
  box.sharding_ = sharding;
  slots.push_back({&box, previous, sharding});
  bytes_ += box.bytes_;
}

std::optional<Reason> FusedTrace::end() const {
  if (repeats_) {
    return Reason::repetition;
  }
  if (steps.size() >= limits().operators) {
    return Reason::length;
  }
  if (bytes_ >= limits().bytes) {
    return Reason::bytes;
  }
  return std::nullopt;
}

void FusedTrace::finish(Reason reason) {
  auto& now = traces()[device];
  if (now.get() == this) {
    run_now(std::move(now), reason);
    return;
  }
  running().wait([serial = serial](const Running::RunningTrace& entry) {
    return entry.serial == serial;
  });
}

void FusedTrace::finish_all(c10::DeviceIndex device, Reason reason) {
  for (c10::DeviceIndex i = 0; i < kMaxDevices; ++i) {
    if ((device < 0 || i == device) && traces()[i]) {
      run_now(std::move(traces()[i]), reason);
    }
  }
  running().wait([device](const Running::RunningTrace& entry) {
    return device < 0 || entry.device == device;
  });
}

size_t FusedTrace::detach(std::vector<uint32_t>& kept,
                          std::vector<uint32_t>& donated) {
  std::lock_guard<std::mutex> lock(Box::mutex());
  std::vector<uint32_t> dead;
  for (uint32_t i = 0; i < externals.size(); ++i) {
    auto& external = externals[i];
    Box* box = std::exchange(external.box, nullptr);
    if (box) {
      box->reader_ = nullptr;
    }
    if (external.shared || (box && box->writer_ != this)) {
      continue;
    }
    if (!box) {
      dead.push_back(i);
      continue;
    }
    // The external holds another reference, so this does not destroy the value.
    Py_DECREF(box->value_);
    box->value_ = nullptr;
    external.slot = box->slot_;
    donated.push_back(i);
    kept.push_back(box->slot_);
  }
  const size_t pairs = donated.size();
  donated.insert(donated.end(), dead.begin(), dead.end());
  std::vector<bool> paired(slots.size());
  for (const uint32_t slot : kept) {
    paired[slot] = true;
  }
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (slots[i].box && !paired[i]) {
      kept.push_back(i);
    }
  }
  return pairs;
}

void FusedTrace::store(c10::ArrayRef<uint32_t> kept, PyObject* arrays) {
  // Declared before the lock, so that the values are destroyed after the mutex
  // is unlocked: destructors may run arbitrary code.
  std::vector<Ref> replaced;
  std::lock_guard<std::mutex> lock(Box::mutex());
  Py_ssize_t next = 0;
  for (const uint32_t slot : kept) {
    PyObject* array = PyTuple_GET_ITEM(arrays, next++);
    put(slot, Ref::borrow(array), slots[slot].sharding, replaced);
  }
}

void FusedTrace::fail(c10::ArrayRef<Ref> computed, PyObject* error,
                      const std::vector<bool>& deleted) {
  // Declared before the lock, so that the values are destroyed after the mutex
  // is unlocked: destructors may run arbitrary code.
  std::vector<Ref> replaced;
  std::lock_guard<std::mutex> lock(Box::mutex());
  for (size_t i = 0; i < externals.size(); ++i) {
    const auto& external = externals[i];
    Box* box = external.slot < 0 ? nullptr : slots[external.slot].box;
    if (box && !box->value_ && !deleted[i]) {
      box->value_ = Ref::borrow(external.array.get()).give();
    }
  }
  for (uint32_t i = 0; i < slots.size(); ++i) {
    Box* box = slots[i].box;
    if (!box) {
      continue;
    }
    int64_t found = i;
    while (found >= 0 && !computed[found].get()) {
      found = slots[found].previous;
    }
    if (found >= 0) {
      put(i, Ref::borrow(computed[found].get()), slots[found].sharding,
          replaced);
      continue;
    }
    if (!box->value_) {
      replaced.emplace_back(
          std::exchange(box->error_, Ref::borrow(error).give()));
    }
    box->sharding_ = box->value_sharding_;
    box->writer_ = nullptr;
    slots[i].box = nullptr;
  }
}

void FusedTrace::put(uint32_t slot, Ref array, Sharding sharding,
                     std::vector<Ref>& replaced) {
  Box* box = std::exchange(slots[slot].box, nullptr);
  if (!box) {
    return;  // the box was destroyed in the meantime
  }
  box->writer_ = nullptr;
  box->shared_ = false;
  box->sharding_ = box->value_sharding_ = sharding;
  replaced.emplace_back(std::exchange(box->error_, nullptr));
  replaced.emplace_back(std::exchange(box->value_, array.give()));
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/guard.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {
namespace {

enum class PlatformState { cold, running, forked };

std::atomic<PlatformState> state{PlatformState::cold};
std::atomic<c10::DeviceIndex> devices{1};
std::atomic<c10::StreamId> last_stream{0};
// Whether a thread has selected a device, even device 0.
std::atomic<bool> selected{false};
thread_local c10::DeviceIndex this_device = 0;
thread_local std::array<c10::StreamId, kMaxDevices> these_streams{};

// Throws in a forked child, because XLA's threads do not survive a fork.
void refuse_child() {
  TORCH_CHECK(state.load(std::memory_order_acquire) != PlatformState::forked,
              "tpu: this process was forked after the device had started, and "
              "a platform does not survive a fork. Use multiprocessing's "
              "'spawn' start method, or use the device only in the children");
}

// An event wraps a Marker (runtime/events.py), which references the values that
// existed when the event was recorded.
struct Event {
  PyObject* marker;
};

Ref mark(c10::DeviceIndex device, std::optional<c10::StreamId> stream,
         bool timing) {
  refuse_child();
  const auto values = Box::values(device, stream);
  Ref arrays =
      Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) {
    PyTuple_SET_ITEM(arrays.get(), i, values[i]);
  }
  // A stream of -1 means all streams.
  return Ref::checked(PyObject_CallFunction(
      callbacks().mark, "OOiL", arrays.get(), timing ? Py_True : Py_False,
      static_cast<int>(device),
      static_cast<long long>(stream.value_or(c10::StreamId{-1}))));
}

bool is_ready(PyObject* marker) {
  Ref answer = Ref::checked(PyObject_CallMethod(marker, "ready", nullptr));
  return PyObject_IsTrue(answer.get()) == 1;
}

void wait_for(PyObject* marker) {
  Ref::checked(PyObject_CallMethod(marker, "wait", nullptr));
}

// Waits for the collectives on a device. Throws the error of the first one that
// failed.
void wait_for_collectives(c10::DeviceIndex device) {
  for (const auto& arrival : Box::arrivals(device)) {
    arrival->wait();
    if (const auto error = arrival->error()) {
      std::rethrow_exception(error);
    }
  }
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const auto old = getDevice();
    check_device(device.index());
    this_device = device.index();
    return old;
  }
  c10::Device getDevice() const override { return {kDevice, this_device}; }
  // Device guards call exchangeDevice and uncheckedSetDevice. Functions that
  // users call to select a device call setDevice.
  void setDevice(c10::Device device) const override {
    exchangeDevice(device);
    selected = true;
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    this_device = device.index();
  }
#if !TORCH_GOOGLE_TORCH_2_6
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    // Keep these dtypes in sync with torch_google/tpu/dtypes.py.
    c10::DeviceCapability known;
    known.capability_data.capability_bits = 0;
    auto& types = known.capability_data.supported_scalar_types;
    types.has_Bool = types.has_Byte = types.has_Char = types.has_Short = 1;
    types.has_Int = types.has_Long = types.has_UInt16 = types.has_UInt32 = 1;
    types.has_UInt64 = types.has_Half = types.has_BFloat16 = 1;
    types.has_Float = types.has_Double = types.has_ComplexFloat = 1;
    types.has_ComplexDouble = types.has_Float8_e5m2 = 1;
    types.has_Float8_e4m3fn = types.has_Float8_e5m2fnuz = 1;
    types.has_Float8_e4m3fnuz = 1;
    return known;
  }
#endif
  c10::DeviceIndex deviceCount() const noexcept override { return devices; }

  c10::Stream getStream(c10::Device device) const
      TORCH_GOOGLE_STREAM_NOEXCEPT override {
    return current_stream(device.index());
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    start();
    const auto index = device.has_index() ? device.index() : this_device;
    check_device(index);
    return c10::Stream(c10::Stream::UNSAFE, {kDevice, index}, ++last_stream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const
      TORCH_GOOGLE_STREAM_NOEXCEPT override {
    const auto old = current_stream(stream.device_index());
    these_streams[stream.device_index()] = stream.id();
    return old;
  }
  bool queryStream(const c10::Stream& stream) const override {
    Gil gil;
    const auto pending = Box::arrivals(stream.device_index());
    if (std::any_of(pending.begin(), pending.end(),
                    [](const auto& arrival) { return !arrival->is_done(); })) {
      return false;
    }
    return is_ready(mark(stream.device_index(), stream.id(), false).get());
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    Gil gil;
    wait_for_collectives(stream.device_index());
    wait_for(mark(stream.device_index(), stream.id(), false).get());
  }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    Gil gil;
    wait_for_collectives(device);
    wait_for(mark(device, std::nullopt, false).get());
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex device,
              c10::EventFlag flag) const override {
    Gil gil;
    Ref marker = mark(stream.device_index(), stream.id(),
                      flag == c10::EventFlag::BACKEND_DEFAULT);
    destroyEvent(*event, device);
    *event = new Event{marker.give()};
  }
  // Makes later waits for `stream` also wait for the event. Operators issued
  // later on the stream are not delayed: values are immutable, and an operator
  // waits for the values that it reads.
  void block(void* event, const c10::Stream& stream) const override {
    Gil gil;
    refuse_child();
    if (event) {
      Ref::checked(PyObject_CallMethod(static_cast<Event*>(event)->marker,
                                       "block", "iL",
                                       static_cast<int>(stream.device_index()),
                                       static_cast<long long>(stream.id())));
    }
  }
  bool queryEvent(void* event) const override {
    Gil gil;
    refuse_child();
    return !event || is_ready(static_cast<Event*>(event)->marker);
  }
  void synchronizeEvent(void* event) const override {
    Gil gil;
    refuse_child();
    if (event) {
      wait_for(static_cast<Event*>(event)->marker);
    }
  }
  double elapsedTime(void* first, void* second,
                     c10::DeviceIndex) const override {
    Gil gil;
    TORCH_CHECK(first && second,
                "tpu: elapsed_time() of an event that was not recorded. Call "
                "record() on both");
    Ref milliseconds = Ref::checked(
        PyObject_CallMethod(static_cast<Event*>(first)->marker, "elapsed", "O",
                            static_cast<Event*>(second)->marker));
    return PyFloat_AsDouble(milliseconds.get());
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event) {
      release(static_cast<Event*>(event)->marker);
      delete static_cast<Event*>(event);
    }
  }
};

}  // namespace

void start() {
  const auto now = state.load(std::memory_order_acquire);
  if (now == PlatformState::running) {
    return;
  }
  refuse_child();
  Gil gil;
  // The call may release the GIL, but startup.start() serializes concurrent
  // calls.
  Ref count = Ref::checked(PyObject_CallNoArgs(callbacks().start));
  const long found = PyLong_AsLong(count.get());
  TORCH_CHECK(found > 0 && found <= kMaxDevices, "tpu: the platform has ",
              found, " devices; 1 to ", static_cast<int>(kMaxDevices),
              " are supported");
  devices = static_cast<c10::DeviceIndex>(found);
  state.store(PlatformState::running, std::memory_order_release);
}

bool started() {
  return state.load(std::memory_order_acquire) == PlatformState::running;
}

void finish() {
  struct Engine : torch::autograd::Engine {
    using torch::autograd::Engine::stop;
  };
  if (started()) {
    PyThreadState* saved = PyEval_SaveThread();
    (torch::autograd::Engine::get_default_engine().*(&Engine::stop))();
    PyEval_RestoreThread(saved);
  }
}

void forked() {
  if (started()) {
    state = PlatformState::forked;
  }
}

bool is_forked() { return state == PlatformState::forked; }

void expect_devices(c10::DeviceIndex count) {
  if (!started()) {
    devices = count;
  }
}

c10::DeviceIndex device_count() { return devices; }

c10::DeviceIndex current_device() { return this_device; }

bool is_device_selected() { return selected; }

void check_device(c10::DeviceIndex device) {
  if (device >= 0 && device < devices) {
    return;
  }
  start();
  TORCH_CHECK(device >= 0 && device < devices,
              "tpu: no device tpu:", static_cast<int>(device),
              "; this process has ", static_cast<int>(devices),
              ". Use a smaller index, or set TORCH_TPU_CPU_DEVICES if the "
              "platform is cpu");
}

c10::Stream current_stream(c10::DeviceIndex device) {
  if (device < 0) {
    device = this_device;
  }
  check_device(device);
  return c10::Stream(c10::Stream::UNSAFE, {kDevice, device},
                     these_streams[device]);
}

void register_guard() {
  static c10::impl::DeviceGuardImplRegistrar registrar(kDevice, new Guard);
}

}  // namespace torch_google::tpu

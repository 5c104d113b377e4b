// SPDX-License-Identifier: Apache-2.0
// torch_google.tpu._C: what the Python half of the runtime calls.
#include <c10/core/Allocator.h>
#include <torch/csrc/utils/pybind.h>

#include "torch_google/tpu/csrc/allocator.h"
#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/generator.h"
#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/hooks.h"
#include "torch_google/tpu/csrc/mode.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/recorder.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

void connect(const py::dict& functions) {
  auto& to = callbacks();
  const std::pair<const char*, PyObject**> slots[] = {
      {"start", &to.start},       {"miss", &to.miss},
      {"explain", &to.explain},   {"debug", &to.debug},
      {"zeros", &to.zeros},       {"resized", &to.resized},
      {"transfer", &to.transfer}, {"mark", &to.mark},
  };
  for (const auto& [name, slot] : slots) {
    *slot = py::object(functions[name]).release().ptr();
  }
}

py::object value_of(const at::Tensor& tensor) {
  auto& box = box_of(*tensor.unsafeGetTensorImpl());
  box.settle(*tensor.unsafeGetTensorImpl());
  return py::reinterpret_borrow<py::object>(box.value());
}

py::tuple shape_of(const at::Tensor& tensor) {
  auto& box = box_of(*tensor.unsafeGetTensorImpl());
  box.settle(*tensor.unsafeGetTensorImpl());
  py::tuple shape(box.shape.size());
  for (size_t i = 0; i < box.shape.size(); ++i) {
    shape[i] = box.shape[i];
  }
  return shape;
}

c10::ScalarType dtype_of(const at::Tensor& tensor) {
  auto& box = box_of(*tensor.unsafeGetTensorImpl());
  box.settle(*tensor.unsafeGetTensorImpl());
  return box.dtype;
}

// The tensor's box holds this array from now on, which has the box's natural
// shape and dtype.
void store(const at::Tensor& tensor, py::object array) {
  auto& box = box_of(*tensor.unsafeGetTensorImpl());
  box.settle(*tensor.unsafeGetTensorImpl());
  box.store(array.release().ptr());
  tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  c10::SetAllocator(kDevice, &Allocator::get());
  register_guard();
  register_hooks();

  py::enum_<Mode>(module, "Mode")
      .value("strict", Mode::strict)
      .value("debug", Mode::debug);
  module.def("connect", connect);
  module.def("record_operators", record_operators);
  module.def("set_lift", set_lift);
  module.def("start", start);
  module.def("started", started);
  module.def("forked", forked);
  module.def("is_forked", is_forked);
  module.def("device_count", device_count);
  module.def("current_device", current_device);
  module.def("default_generator", default_generator);
  module.def("seed_all", seed_all);
  module.def("expect_devices", expect_devices);
  module.def("set_global_mode", set_global_mode);
  module.def("global_mode", global_mode);
  module.def("set_thread_mode", set_thread_mode);
  module.def("thread_mode", thread_mode);
  module.def("set_thread_fallback", set_thread_fallback);
  module.def("thread_fallback", thread_fallback);
  module.def("value", value_of);
  module.def("natural_shape", shape_of);
  module.def("natural_dtype", dtype_of);
  module.def("store", store);
  module.def("counts", [] {
    const auto now = counts();
    return std::make_tuple(now.operators, now.hits, now.misses);
  });
  module.def("reset_counts", reset_counts);
  module.def("clear_programs", clear_programs);
}

}  // namespace torch_google::tpu

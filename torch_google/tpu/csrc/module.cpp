// SPDX-License-Identifier: Apache-2.0
// Bindings of the module torch_google.tpu._C: the functions that Python calls.
#include <c10/core/Allocator.h>
#include <torch/csrc/utils/pybind.h>

#include "torch_google/tpu/csrc/allocator.h"
#include "torch_google/tpu/csrc/backend.h"
#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/cpu_graph.h"
#include "torch_google/tpu/csrc/cpu_kernels.h"
#include "torch_google/tpu/csrc/donation.h"
#include "torch_google/tpu/csrc/ffi_collective.h"
#include "torch_google/tpu/csrc/flight_recorder.h"
#include "torch_google/tpu/csrc/generator.h"
#include "torch_google/tpu/csrc/graph_program.h"
#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/hooks.h"
#include "torch_google/tpu/csrc/host_values.h"
#include "torch_google/tpu/csrc/memory_history.h"
#include "torch_google/tpu/csrc/mode.h"
#include "torch_google/tpu/csrc/origin.h"
#include "torch_google/tpu/csrc/partial_write.h"
#include "torch_google/tpu/csrc/program.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/recorder.h"
#include "torch_google/tpu/csrc/run.h"
#include "torch_google/tpu/csrc/torch_release.h"
#include "torch_google/tpu/csrc/trace.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;

void connect(const py::dict& functions) {
  auto& to = callbacks();
  const std::pair<const char*, PyObject**> slots[] = {
      {"start", &to.start},
      {"miss", &to.miss},
      {"explain", &to.explain},
      {"debug", &to.debug},
      {"zeros", &to.zeros},
      {"resized", &to.resized},
      {"transfer", &to.transfer},
      {"mark", &to.mark},
      {"fuse", &to.fuse},
      {"mem_get_info", &to.mem_get_info},
      {"attempt", &to.attempt},
      {"scratch", &to.scratch},
      {"entry", &to.entry},
      {"frame_kind", &to.frame_kind},
      {"of_bytes", &to.of_bytes},
      {"to_host", &to.to_host},
      {"received", &to.received},
      {"dump_flight_record", &to.dump_flight_record},
      {"replicated", &to.replicated},
      {"localized", &to.localized},
  };
  for (const auto& [name, slot] : slots) {
    *slot = py::object(functions[name]).release().ptr();
  }
}

py::object stored_value(const at::Tensor& tensor) {
  auto& box = box_of(*tensor.unsafeGetTensorImpl());
  box.settle(*tensor.unsafeGetTensorImpl());
  end_round();
  return py::reinterpret_borrow<py::object>(box.value(Reason::host_read));
}

// The largest storage, in bytes, that is copied as a whole when the host reads
// a part of it. Copying it takes less time than a call to Python.
constexpr size_t kSmallBytes = 64 << 10;

// Returns the elements of a tensor's storage if they are in host memory, where
// a CPU kernel left them, or can be copied there without Python. Otherwise,
// returns None.
std::optional<at::Tensor> host_value(const at::Tensor& tensor) {
  Box& box = box_of(*tensor.unsafeGetTensorImpl());
  at::Tensor values = arrived_values(box);
  if (!values.defined() && uses_cpu_kernels() && box.bytes() <= kSmallBytes) {
    box.settle(*tensor.unsafeGetTensorImpl());
    const Ref array = Ref::borrow(box.value(Reason::host_read));
    values = copied_elements(array.get(), box.dtype);
  }
  if (!values.defined()) {
    return std::nullopt;
  }
  end_round();
  // A new tensor, because a Python object of the arrival's own tensor would
  // have to be destroyed under Box::mutex(), and that needs the GIL.
  return flat(values);
}

// Stores host memory as the elements of a tensor's storage. The caller must not
// use the memory again.
void store_host_value(const at::Tensor& tensor, const at::Tensor& values) {
  check_writable(tensor);
  Box& box = box_of(*tensor.unsafeGetTensorImpl());
  box.settle(*tensor.unsafeGetTensorImpl());
  box.expect(arrived(flat(values)), 0);
  tensor.unsafeGetTensorImpl()->bump_version();
}

py::list values_of(const std::vector<at::Tensor>& tensors) {
  // Drop released references once per call to a compiled graph, as recorder.cpp
  // does for each eager operator.
  collect_released();
  py::list values;
  for (const auto& tensor : tensors) {
    values.append(stored_value(tensor));
  }
  return values;
}

// Creates a tensor for each array. `results` contains the NewTensor
// (eager/normalized_call.py) that describes each tensor. `shardings` is empty
// if every array is on a single device.
std::vector<at::Tensor> new_tensors(const py::sequence& arrays,
                                    const py::sequence& results,
                                    c10::DeviceIndex device,
                                    const std::vector<Sharding>& shardings) {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto result = read_result(py::object(results[i]).ptr());
    tensors.push_back(make_tensor(result.sizes, result.strides, result.natural,
                                  result.dtype, device));
    box_of(*tensors.back().unsafeGetTensorImpl())
        .store(py::object(arrays[i]).release().ptr(),
               shardings.empty() ? kOneDevice : shardings[i]);
  }
  return tensors;
}

py::object run_program(GraphProgram& program, const py::list& inputs,
                       const std::vector<std::optional<at::Tensor>>& tensors,
                       const std::vector<Sharding>& shardings,
                       Donation* donation) {
  return py::reinterpret_steal<py::object>(
      program.run(inputs.ptr(), tensors, shardings, donation).give());
}

Box& box_in(const at::Tensor& tensor) {
  return box_of(*tensor.unsafeGetTensorImpl());
}

const std::pair<const char*, Reason> kReasonNames[kReasons] = {
    {"host read", Reason::host_read},
    {"sync", Reason::sync},
    {"mode change", Reason::strict},
    {"collective", Reason::collective},
    {"optimizer step", Reason::optimizer_step},
    {"length", Reason::length},
    {"bytes", Reason::bytes},
    {"repetition", Reason::repetition},
    {"mesh", Reason::mesh},
};

void flush(const std::string& name) {
  for (const auto& [known, reason] : kReasonNames) {
    if (name == known) {
      FusedTrace::finish_all(-1, reason);
      return;
    }
  }
  TORCH_CHECK_VALUE(false, "tpu: unknown flush reason '", name,
                    "'. See torch_google/tpu/csrc/module.cpp");
}

py::dict flushes() {
  py::dict found;
  const auto counted = fused_counts().flushes;
  for (const auto& [name, reason] : kReasonNames) {
    if (const auto count = counted[static_cast<size_t>(reason)]) {
      found[name] = count;
    }
  }
  return found;
}

// Defines Python functions for a setting: accessors for the process's and the
// thread's value, and a function that returns the effective value.
template <typename Value>
void define_setting(py::module_& module, const std::string& name,
                    Setting setting) {
  module.def(("set_global_" + name).c_str(), [setting](Value value) {
    set_global(setting, static_cast<int>(value));
  });
  module.def(("global_" + name).c_str(),
             [setting] { return static_cast<Value>(global(setting)); });
  module.def(
      ("set_thread_" + name).c_str(), [setting](std::optional<Value> value) {
        set_thread(setting, value ? std::optional(static_cast<int>(*value))
                                  : std::nullopt);
      });
  module.def(("thread_" + name).c_str(), [setting]() -> std::optional<Value> {
    const auto value = of_thread(setting);
    return value ? std::optional(static_cast<Value>(*value)) : std::nullopt;
  });
  module.def(name.c_str(), [setting] {
    return static_cast<Value>(ThreadSettings().get(setting));
  });
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

c10::ScalarType natural_dtype_of(const at::Tensor& tensor) {
  auto& box = box_of(*tensor.unsafeGetTensorImpl());
  box.settle(*tensor.unsafeGetTensorImpl());
  return box.dtype;
}

// Stores an array in the tensor's box (box.h). The array must have the box's
// shape and dtype.
void store(const at::Tensor& tensor, py::object array, Sharding sharding) {
  check_writable(tensor);
  auto& box = box_of(*tensor.unsafeGetTensorImpl());
  box.settle(*tensor.unsafeGetTensorImpl());
  box.store(array.release().ptr(), sharding);
  tensor.unsafeGetTensorImpl()->bump_version();
}

// Returns the sharding of each tensor, or an empty list if no tensor is
// sharded.
std::vector<Sharding> shardings_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Sharding> shardings;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& tensor = tensors[i];
    const auto sharding = tensor.device().is_privateuseone()
                              ? box_in(tensor).sharding()
                              : kOneDevice;
    if (sharding != kOneDevice && shardings.empty()) {
      shardings.resize(tensors.size());
    }
    if (!shardings.empty()) {
      shardings[i] = sharding;
    }
  }
  return shardings;
}

// Replaces the array, shape and sharding of the tensor's box (box.h). The
// elements must stay the same. `array` may be None only if the box was never
// written to.
void reshard(const at::Tensor& tensor, const py::object& array,
             const std::vector<int64_t>& shape, Sharding sharding) {
  auto& box = box_in(tensor);
  box.reshard(array.is_none() ? nullptr : py::object(array).release().ptr(),
              Sizes(shape.begin(), shape.end()), box.dtype, sharding);
}

// Returns (module name, frames). Each frame is (file, function, line).
py::tuple describe_stack(const MemoryHistory::StackRef& stack) {
  py::list frames;
  if (!stack) {
    return py::make_tuple(py::str(), frames);
  }
  for (const auto& [object, instruction] : stack->frames) {
    auto* code = reinterpret_cast<PyCodeObject*>(object.get());
    frames.append(
        py::make_tuple(py::reinterpret_borrow<py::object>(code->co_filename),
                       py::reinterpret_borrow<py::object>(code->co_qualname),
                       PyCode_Addr2Line(code, instruction)));
  }
  return py::make_tuple(py::str(stack->module), frames);
}

py::list describe_events(const std::vector<MemoryHistory::Event>& events) {
  py::list described;
  for (const auto& event : events) {
    described.append(
        py::make_tuple(event.allocates, static_cast<int>(event.device),
                       reinterpret_cast<uintptr_t>(event.address), event.bytes,
                       event.microseconds, describe_stack(event.stack)));
  }
  return described;
}

// Returns two lists: the origins as (module, file, line, is_backward), and the
// runs as (program, indices). `indices` has an entry for each operator of the
// program: the index of its origin, or -1 if that is unknown.
py::tuple describe_origins(
    const std::pair<std::vector<Origins::Origin>, std::vector<Origins::Run>>&
        recorded) {
  py::list origins, runs;
  for (const auto& origin : recorded.first) {
    auto* code = reinterpret_cast<PyCodeObject*>(origin.code.get());
    auto file = py::reinterpret_borrow<py::object>(code ? code->co_filename
                                                        : py::str().ptr());
    origins.append(
        py::make_tuple(origin.module, file,
                       code ? PyCode_Addr2Line(code, origin.instruction) : 0,
                       origin.is_backward));
  }
  for (const auto& run : recorded.second) {
    runs.append(py::make_tuple(run.program, run.operators));
  }
  return py::make_tuple(origins, runs);
}

// Lengthens the tensor's storage to this number of elements, and marks it as
// padded. Sizes, strides and values of tensors do not change.
void pad_storage(const at::Tensor& tensor, size_t elements) {
  const size_t bytes = elements * tensor.itemsize();
  auto* storage =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  auto& box = box_of(*storage);
  box.resize(bytes);
  storage->set_nbytes(bytes);
  box.settle(*tensor.unsafeGetTensorImpl());
  box.is_padded = true;
}

bool is_padded(const at::Tensor& tensor) {
  return box_of(*tensor.unsafeGetTensorImpl()).is_padded;
}

bool is_blank(const at::Tensor& tensor) { return box_in(tensor).is_blank(); }

#if TORCH_GOOGLE_TORCH_2_6

// Returns memory statistics in the format of torch.accelerator.memory_stats(),
// which torch v2.6 lacks.
py::dict memory_stats(c10::DeviceIndex device) {
  const auto stats = Allocator::get().getDeviceStats(device);
  py::dict found;
  const std::pair<const char*, const c10::CachingAllocator::StatArray*>
      arrays[] = {{"active", &stats.active},
                  {"active_bytes", &stats.active_bytes},
                  {"allocated_bytes", &stats.allocated_bytes},
                  {"allocation", &stats.allocation},
                  {"requested_bytes", &stats.requested_bytes},
                  {"reserved_bytes", &stats.reserved_bytes}};
  for (const auto& [name, array] : arrays) {
    // The device has no memory pools, so report only the aggregate.
    const auto& all = (*array)[0];
    const auto key = [name = name](const char* kind) {
      return py::str(std::string(name) + ".all." + kind);
    };
    found[key("allocated")] = all.allocated;
    found[key("current")] = all.current;
    found[key("freed")] = all.freed;
    found[key("peak")] = all.peak;
  }
  found["num_device_alloc"] = stats.num_device_alloc;
  found["num_device_free"] = stats.num_device_free;
  return found;
}

void define_memory(py::module_& module) {
  module.def("memory_stats", torch::wrap_pybind_function(memory_stats));
  module.def("reset_accumulated_memory_stats",
             torch::wrap_pybind_function([](c10::DeviceIndex device) {
               Allocator::get().resetAccumulatedStats(device);
             }));
  module.def("reset_peak_memory_stats",
             torch::wrap_pybind_function([](c10::DeviceIndex device) {
               Allocator::get().resetPeakStats(device);
             }));
}

#endif

}  // namespace

PYBIND11_MODULE(_C, module) {
  c10::SetAllocator(kDevice, &Allocator::get());
  register_guard();
  register_hooks();

  py::enum_<Mode>(module, "Mode")
      .value("strict", Mode::strict)
      .value("debug", Mode::debug)
      .value("fused", Mode::fused);
  py::enum_<CpuKernelUse>(module, "CpuKernelUse")
      .value("never", CpuKernelUse::never)
      .value("until_recurring", CpuKernelUse::until_recurring)
      .value("always", CpuKernelUse::always);
  module.def("connect", connect);
  module.def("record_operators", record_operators);
  module.def("set_scalars_are_inputs", set_scalars_are_inputs);
  module.def("set_cpu_kernel_use", set_cpu_kernel_use);
  module.def("uses_cpu_kernels", uses_cpu_kernels);
  module.def("set_cpu_kernel_policy", [](const py::object& admit) {
    set_cpu_kernel_policy(admit.ptr());
  });
  module.def("cpu_kernel_calls", cpu_kernel_calls);
  module.def("round_number", round_number);
  module.def("in_place_writes", in_place_writes);
  define_cpu_graph(module);
  module.def("start", start);
  module.def("started", started);
  module.def("forked", forked);
  module.def("finish", finish);
  module.def("is_forked", is_forked);
  module.def("device_count", device_count);
  module.def("current_device", current_device);
  module.def("is_device_selected", is_device_selected);
  module.def("default_generator", default_generator);
  module.def("seed_all", seed_all);
  module.def("expect_devices", expect_devices);
  define_setting<Mode>(module, "mode", Setting::mode);
  define_setting<bool>(module, "fallback", Setting::fallback);
  define_setting<int>(module, "precision", Setting::precision);
  define_setting<bool>(module, "cache_only", Setting::cache_only);
  module.def("define_backend", [module]() mutable { define_backend(module); });
  module.def("collective_handler", collective_handler);
  module.def("flight_records", [] { return FlightRecorder::get().describe(); });
  module.def("flush", flush);
  module.def("set_limits", [](size_t operators, size_t bytes) {
    limits() = {operators, bytes};
  });
  module.def("limits",
             [] { return std::make_pair(limits().operators, limits().bytes); });
  module.def("resolve_fused", [](uint64_t token, const py::object& executable) {
    resolve_fused(token, executable.ptr());
  });
  module.def("fused_counts", [] {
    const auto now = fused_counts();
    return std::make_tuple(now.hits, now.misses, now.served);
  });
  module.def("flushes", flushes);
  module.def("set_memory_limit", [](c10::DeviceIndex device, size_t bytes) {
    Allocator::get().set_limit(device, bytes);
  });
  module.def("memory_limit", [](c10::DeviceIndex device) {
    return Allocator::get().limit(device);
  });
  module.def("start_memory_history", [](size_t entries, size_t frames) {
    MemoryHistory::get().start(entries, frames);
  });
  module.def("is_memory_recorded",
             [] { return MemoryHistory::get().is_recording(); });
  module.def("memory_events",
             [] { return describe_events(MemoryHistory::get().events()); });
  module.def("recorded_storages",
             [] { return describe_events(MemoryHistory::get().live()); });
  module.def("set_module_name", set_module_name);
  module.def("start_origins", [] { Origins::get().start(); });
  module.def("stop_origins",
             [] { return describe_origins(Origins::get().stop()); });
  module.def("memory_usage", [](c10::DeviceIndex device) {
    return Allocator::get().usage(device);
  });
  module.def(
      "check_room",
      torch::wrap_pybind_function(
          [](c10::DeviceIndex device, size_t bytes, const std::string& what) {
            Allocator::get().check_room(device, bytes, what);
          }));
  module.def("draw", [](c10::DeviceIndex device) {
    return default_generator(device).get<Generator>()->draw();
  });
  module.def("share", [](const at::Tensor& tensor) { box_in(tensor).share(); });
  module.def("shared", [](const at::Tensor& tensor) {
    return box_in(tensor).is_shared();
  });
  module.def("values", values_of);
  py::class_<Donation>(module, "Donation")
      .def(py::init([](const py::sequence& tensors, const py::list& arrays,
                       const std::vector<size_t>& indices) {
        return std::make_unique<Donation>(tensors.ptr(), arrays.ptr(), indices);
      }))
      .def_property_readonly("refused", &Donation::refused)
      .def("finish", &Donation::finish)
      .def("fail", [](Donation& self, const py::object& error) {
        self.fail(error.ptr());
      });
  py::class_<GraphProgram>(module, "GraphProgram")
      .def(py::init([](const py::object& executable) {
        return std::make_unique<GraphProgram>(executable.ptr());
      }))
      .def("run", torch::wrap_pybind_function(run_program), py::arg("inputs"),
           py::arg("tensors"), py::arg("shardings"),
           py::arg("donation").none(true));
  module.def("new_tensors", torch::wrap_pybind_function(new_tensors),
             py::arg("arrays"), py::arg("results"), py::arg("device"),
             py::arg("shardings") = std::vector<Sharding>());
  module.def("sharding", [](const at::Tensor& tensor) {
    return box_in(tensor).sharding();
  });
  module.def("shardings", shardings_of);
  module.def("reshard", reshard);
  module.def("is_blank", is_blank);
  module.def("is_padded", is_padded);
  module.def("pad_storage", pad_storage);
  module.def("value", stored_value);
  module.def("host_value", host_value);
  module.def("store_host_value", store_host_value);
  module.def("natural_shape", shape_of);
  module.def("natural_dtype", natural_dtype_of);
  module.def("store", store, py::arg("tensor"), py::arg("array"),
             py::arg("sharding") = kOneDevice);
  module.def("counts", [] {
    const auto now = counts();
    return std::make_tuple(now.operators, now.hits, now.misses, now.forgotten);
  });
  module.def("reset_counts", reset_counts);
  module.def("forget_unused", forget_unused);
  module.def("clear_programs", clear_programs);
#if TORCH_GOOGLE_TORCH_2_6
  define_memory(module);
#endif
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/mode.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <c10/core/SafePyObject.h>
#include <torch/csrc/PyInterpreter.h>

#include <atomic>
#include <memory>

#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {
namespace {

std::atomic<Mode> process_mode{Mode::strict};
// Whether any thread has ever set anything: most processes never look any
// further.
std::atomic<bool> threads_differ{false};

constexpr const char* kModeKey = "torch_google.tpu.mode";
constexpr const char* kFallbackKey = "torch_google.tpu.cpu_fallback";

using Objects = at::impl::ThreadLocalPythonObjects;

long setting(const char* key, long otherwise) {
  if (!threads_differ || !Objects::contains(key)) {
    return otherwise;
  }
  return PyLong_AsLong(Objects::get(key)->ptr(getPyInterpreter()));
}

void set(const char* key, long value) {
  threads_differ = true;
  Objects::set(key, std::make_shared<c10::SafePyObject>(PyLong_FromLong(value),
                                                        getPyInterpreter()));
}

constexpr long kUnset = -1;

}  // namespace

void set_global_mode(Mode mode) { process_mode = mode; }

Mode global_mode() { return process_mode; }

void set_thread_mode(std::optional<Mode> mode) {
  set(kModeKey, mode ? static_cast<long>(*mode) : kUnset);
}

std::optional<Mode> thread_mode() {
  const long value = setting(kModeKey, kUnset);
  return value == kUnset ? std::nullopt
                         : std::optional(static_cast<Mode>(value));
}

void set_thread_fallback(bool allowed) { set(kFallbackKey, allowed); }

bool thread_fallback() { return setting(kFallbackKey, 0) == 1; }

Mode mode() { return thread_mode().value_or(process_mode); }

}  // namespace torch_google::tpu

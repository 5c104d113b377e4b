// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/mode.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <c10/core/SafePyObject.h>
#include <torch/csrc/PyInterpreter.h>

#include <atomic>
#include <memory>
#include <string>

namespace torch_google::tpu {
namespace {

std::atomic<int64_t> process{0};
// Whether any thread has ever overridden a setting. Usually none has, so
// lookups can skip the thread-local settings.
std::atomic<bool> threads_differ{false};

// This name is short enough for std::string to store it without a heap
// allocation.
const std::string& name() {
  static const auto* name = new std::string("tpu.settings");
  return *name;
}

using Objects = at::impl::ThreadLocalPythonObjects;

Settings thread() {
  if (!threads_differ.load(std::memory_order_relaxed) ||
      !Objects::contains(name())) {
    return Settings();
  }
  return Settings(
      PyLong_AsLongLong(Objects::get(name())->ptr(getPyInterpreter())));
}

}  // namespace

void set_global(Setting setting, int value) {
  process = Settings(process).with(setting, value).word();
}

int global(Setting setting) {
  return Settings(process).get(setting).value_or(0);
}

void set_thread(Setting setting, std::optional<int> value) {
  const auto word = thread().with(setting, value).word();
  threads_differ = true;
  Objects::set(name(), std::make_shared<c10::SafePyObject>(
                           PyLong_FromLongLong(word), getPyInterpreter()));
}

std::optional<int> of_thread(Setting setting) { return thread().get(setting); }

ThreadSettings::ThreadSettings() : process_(process), thread_(thread()) {}

}  // namespace torch_google::tpu

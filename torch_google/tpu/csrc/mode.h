// SPDX-License-Identifier: Apache-2.0
// Execution settings. Each has a process-wide value, which a thread may
// override.
#pragma once

#include <Python.h>

#include <cstdint>
#include <optional>

namespace torch_google::tpu {

enum class Mode : int { strict = 0, debug = 1, fused = 2 };

// Settings whose values are integers from 0 to 14.
enum class Setting : int { mode, fallback, precision, cache_only };

// All settings packed into one word, four bits each. 0 means unset.
class Settings {
 public:
  explicit Settings(int64_t word = 0) : word_(word) {}

  std::optional<int> get(Setting setting) const {
    const auto bits = static_cast<int>(word_ >> shift(setting)) & 15;
    return bits ? std::optional(bits - 1) : std::nullopt;
  }
  Settings with(Setting setting, std::optional<int> value) const {
    const auto cleared = word_ & ~(int64_t{15} << shift(setting));
    return Settings(cleared |
                    (int64_t{value ? *value + 1 : 0} << shift(setting)));
  }
  int64_t word() const { return word_; }

 private:
  static int shift(Setting setting) { return 4 * static_cast<int>(setting); }

  int64_t word_;
};

void set_global(Setting setting, int value);
int global(Setting setting);

// Sets a value for this thread. Autograd's threads inherit the values of the
// thread that calls backward().
void set_thread(Setting setting, std::optional<int> value);
std::optional<int> of_thread(Setting setting);

// A snapshot of the settings that are in effect for this thread. The creating
// thread must hold the GIL.
class ThreadSettings {
 public:
  ThreadSettings();
  int get(Setting setting) const {
    return thread_.get(setting).value_or(process_.get(setting).value_or(0));
  }
  Mode mode() const { return static_cast<Mode>(get(Setting::mode)); }

 private:
  Settings process_;
  Settings thread_;
};

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// Applies torch's logging settings to Abseil.
#include <algorithm>

#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/internal/globals.h"
#include "c10/util/Flags.h"
#include "c10/util/Logging.h"

C10_DECLARE_int(caffe2_log_level);

namespace c10 {
namespace {

// Initializes Abseil's log, unless the program has already done so. Doing it
// twice would abort the process.
void InitializeOnce() {
  if (!absl::log_internal::IsInitialized()) absl::InitializeLog();
  // By default, torch prints warnings to standard error and Abseil does not.
  if (absl::StderrThreshold() == absl::LogSeverityAtLeast::kError) {
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfo);
  }
}

}  // namespace

// Applies TORCH_CPP_LOG_LEVEL, which torch has stored in caffe2_log_level.
// Levels 0 to 3 are Abseil's severities; a negative level also enables verbose
// messages. If the level has its default value, Abseil's --minloglevel applies.
void UpdateLoggingLevelsFromFlags() {
  InitializeOnce();
  const int level = FLAGS_caffe2_log_level;
  if (level == GLOG_WARNING &&
      absl::MinLogLevel() != absl::LogSeverityAtLeast::kInfo) {
    return;
  }
  absl::SetMinLogLevel(
      static_cast<absl::LogSeverityAtLeast>(std::clamp(level, 0, 3)));
  if (level < 0) absl::SetGlobalVLogLevel(-level);
}

void ShowLogInfoToStderr() {
  InitializeOnce();
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kInfo);
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfo);
}

}  // namespace c10

// SPDX-License-Identifier: Apache-2.0
// How torch's own settings of its log reach Abseil's.
#include <algorithm>
#include <mutex>

#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "c10/util/Flags.h"
#include "c10/util/Logging.h"

C10_DECLARE_int(caffe2_log_level);

namespace c10 {

// TORCH_CPP_LOG_LEVEL, which torch has read into its flag: 0 to 3 are Abseil's
// severities, and what is below zero asks for verbose messages too.
void UpdateLoggingLevelsFromFlags() {
  static std::once_flag initialized;
  std::call_once(initialized, absl::InitializeLog);
  const int level = FLAGS_caffe2_log_level;
  absl::SetMinLogLevel(
      static_cast<absl::LogSeverityAtLeast>(std::clamp(level, 0, 3)));
  if (level < 0) absl::SetGlobalVLogLevel(-level);
}

void ShowLogInfoToStderr() {
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kInfo);
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfo);
}

}  // namespace c10

// SPDX-License-Identifier: Apache-2.0
// How torch's own settings of its log reach Abseil's.
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

// A program may have done it: a second time would end the process.
void InitializeOnce() {
  if (!absl::log_internal::IsInitialized()) absl::InitializeLog();
  // Abseil's own default keeps warnings from standard error; torch's does not.
  if (absl::StderrThreshold() == absl::LogSeverityAtLeast::kError) {
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfo);
  }
}

}  // namespace

// TORCH_CPP_LOG_LEVEL, which torch has read into its flag: 0 to 3 are Abseil's
// severities, and what is below zero asks for verbose messages too. Where torch
// was told nothing, what Abseil was told (--minloglevel) holds.
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

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

// The program may have initialised the log already; doing it twice would abort
// the process.
void InitializeOnce() {
  if (!absl::log_internal::IsInitialized()) absl::InitializeLog();
  // By default, torch prints warnings to standard error and Abseil does not.
  if (absl::StderrThreshold() == absl::LogSeverityAtLeast::kError) {
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfo);
  }
}

}  // namespace

// torch has stored TORCH_CPP_LOG_LEVEL in its flag: 0 to 3 are Abseil's
// severities, and a negative level also enables verbose messages. If it is at
// its default, Abseil's own setting (--minloglevel) applies.
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

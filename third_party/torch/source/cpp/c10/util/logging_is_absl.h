// SPDX-License-Identifier: Apache-2.0
// Maps torch's logging macros to Abseil's. c10/util/Logging.h includes this
// file after its own implementation, of which only the printing of containers
// is used.
#ifndef C10_UTIL_LOGGING_IS_ABSL_H_
#define C10_UTIL_LOGGING_IS_ABSL_H_

#undef LOG
#undef LOG_IF
#undef VLOG
#undef VLOG_IF
#undef VLOG_IS_ON
#undef LOG_AT_FILE_LINE
#undef FATAL_IF
#undef CHECK
#undef DCHECK
#undef DLOG
#undef TORCH_CHECK_OP
#undef TORCH_CHECK_EQ
#undef TORCH_CHECK_NE
#undef TORCH_CHECK_LE
#undef TORCH_CHECK_LT
#undef TORCH_CHECK_GE
#undef TORCH_CHECK_GT
#undef TORCH_DCHECK_EQ
#undef TORCH_DCHECK_NE
#undef TORCH_DCHECK_LE
#undef TORCH_DCHECK_LT
#undef TORCH_DCHECK_GE
#undef TORCH_DCHECK_GT
#undef TORCH_CHECK_NOTNULL
#undef TORCH_DCHECK_NOTNULL

#include "absl/base/log_severity.h"
#include "absl/log/absl_check.h"
#include "absl/log/absl_log.h"
#include "absl/log/absl_vlog_is_on.h"
#include "absl/log/die_if_null.h"
#include "absl/log/log_streamer.h"

// torch's sources and its users log with these unprefixed names.
#define LOG(severity) ABSL_LOG(severity)
#define LOG_IF(severity, condition) ABSL_LOG_IF(severity, condition)
#define VLOG(level) ABSL_VLOG(level)
#define VLOG_IF(level, condition) \
  ABSL_LOG_IF(INFO, ABSL_VLOG_IS_ON(level) && (condition))
#define VLOG_IS_ON(level) ABSL_VLOG_IS_ON(level)
#define DLOG(severity) ABSL_DLOG(severity)
#define CHECK(condition) ABSL_CHECK(condition)
#define DCHECK(condition) ABSL_DCHECK(condition)
#define FATAL_IF(condition) ABSL_LOG_IF(FATAL, !(condition))

#define LOG_EVERY_N(severity, n) ABSL_LOG_EVERY_N(severity, n)
#define LOG_FIRST_N(severity, n) ABSL_LOG_FIRST_N(severity, n)
#define LOG_EVERY_MS(severity, ms) ABSL_LOG_EVERY_N_SEC(severity, (ms) / 1000.0)

// LOG_AT_FILE_LINE logs a message that names another source location.
#define C10_ABSL_SEVERITY_INFO ::absl::LogSeverity::kInfo
#define C10_ABSL_SEVERITY_WARNING ::absl::LogSeverity::kWarning
#define C10_ABSL_SEVERITY_ERROR ::absl::LogSeverity::kError
#define C10_ABSL_SEVERITY_FATAL ::absl::LogSeverity::kFatal
#define LOG_AT_FILE_LINE(severity, file, line) \
  ::absl::LogStreamer(C10_ABSL_SEVERITY_##severity, file, line).stream()

#define TORCH_CHECK_EQ(a, b) ABSL_CHECK_EQ(a, b)
#define TORCH_CHECK_NE(a, b) ABSL_CHECK_NE(a, b)
#define TORCH_CHECK_LE(a, b) ABSL_CHECK_LE(a, b)
#define TORCH_CHECK_LT(a, b) ABSL_CHECK_LT(a, b)
#define TORCH_CHECK_GE(a, b) ABSL_CHECK_GE(a, b)
#define TORCH_CHECK_GT(a, b) ABSL_CHECK_GT(a, b)
#define TORCH_DCHECK_EQ(a, b) ABSL_DCHECK_EQ(a, b)
#define TORCH_DCHECK_NE(a, b) ABSL_DCHECK_NE(a, b)
#define TORCH_DCHECK_LE(a, b) ABSL_DCHECK_LE(a, b)
#define TORCH_DCHECK_LT(a, b) ABSL_DCHECK_LT(a, b)
#define TORCH_DCHECK_GE(a, b) ABSL_DCHECK_GE(a, b)
#define TORCH_DCHECK_GT(a, b) ABSL_DCHECK_GT(a, b)
#define TORCH_CHECK_NOTNULL(value) ABSL_DIE_IF_NULL(value)
#ifndef NDEBUG
#define TORCH_DCHECK_NOTNULL(value) ABSL_DIE_IF_NULL(value)
#else
#define TORCH_DCHECK_NOTNULL(value) \
  while (false) ABSL_DIE_IF_NULL(value)
#endif

#endif  // C10_UTIL_LOGGING_IS_ABSL_H_

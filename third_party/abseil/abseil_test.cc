// SPDX-License-Identifier: Apache-2.0
// Tests Abseil's command-line flags, log sinks and Status.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#include "absl/log/vlog_is_on.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

ABSL_FLAG(int, answer, 0, "A number.");

namespace {

int failures = 0;

void Expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "abseil_test: %s\n", what);
  ++failures;
}

class Lines : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    absl::MutexLock lock(&mutex_);
    lines_.push_back(absl::StrCat(absl::LogSeverityName(entry.log_severity()),
                                  " ", entry.text_message()));
  }
  std::vector<std::string> lines() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> lines_;
};

absl::StatusOr<int> Half(int value) {
  if (value % 2) {
    absl::Status status = absl::InvalidArgumentError("odd");
    status.SetPayload("value", absl::Cord(absl::StrCat(value)));
    return status;
  }
  return value / 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  Expect(rest.size() == 2 && std::string(rest[1]) == "rest",
         "the remaining arguments are wrong");
  Expect(absl::GetFlag(FLAGS_answer) == 42, "--answer is not 42");
  Expect(absl::FindCommandLineFlag("stderrthreshold") != nullptr,
         "the flags of the log are missing");
  Expect(absl::MinLogLevel() == absl::LogSeverityAtLeast::kWarning,
         "--minloglevel did nothing");

  absl::InitializeLog();
  Lines sink;
  absl::AddLogSink(&sink);
  LOG(INFO) << "below the level";
  LOG(WARNING) << "seen " << 1;
  Expect(VLOG_IS_ON(2) && !VLOG_IS_ON(3), "--vmodule did nothing");
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kInfo);
  VLOG(2) << "verbose";
  absl::RemoveLogSink(&sink);
  Expect(sink.lines() ==
             std::vector<std::string>{"WARNING seen 1", "INFO verbose"},
         "the sink has the wrong lines");

  Expect(*Half(4) == 2, "half of four is not two");
  const absl::Status status = Half(3).status();
  Expect(status.ToString() == "INVALID_ARGUMENT: odd [value='3']",
         status.ToString().c_str());

  const absl::flat_hash_map<std::string, int> map = {{"a", 1}, {"b", 2}};
  Expect(map.at("b") == 2, "a table lost an entry");
  Expect(absl::StrFormat("%05.1f|%s", 3.14159, "x") == "003.1|x",
         "StrFormat wrote the wrong text");
  const std::vector<std::string> parts = absl::StrSplit("a,b,,c", ',');
  Expect(parts.size() == 4, "StrSplit returned the wrong parts");
  Expect(absl::FormatTime(absl::FromUnixSeconds(0), absl::UTCTimeZone()) ==
             "1970-01-01T00:00:00+00:00",
         "the epoch has the wrong time");
  Expect(absl::Now() > absl::FromUnixSeconds(0), "the clock is before 1970");
  return failures;
}

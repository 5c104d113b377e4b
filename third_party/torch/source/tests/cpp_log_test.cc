// SPDX-License-Identifier: Apache-2.0
// Tests torch's C++ log, which Abseil writes: its format, its settings, and the
// messages that terminate a process.
#include <signal.h>
#include <stdlib.h>

#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"
#include "absl/log/initialize.h"
#include "c10/util/Exception.h"
#include "c10/util/Logging.h"
#include "third_party/torch/source/tests/expect.h"

ABSL_DECLARE_FLAG(int, minloglevel);
ABSL_DECLARE_FLAG(int, v);
ABSL_DECLARE_FLAG(std::string, vmodule);

namespace {

// Runs `work` in a child process with TORCH_CPP_LOG_LEVEL set to `level`, and
// returns its log.
std::string Written(const char* level, const std::function<void()>& work) {
  const Ended ended = InChild([&] {
    unsetenv("TORCH_CPP_LOG_LEVEL");
    if (level) setenv("TORCH_CPP_LOG_LEVEL", level, 1);
    c10::initLogging();
    work();
  });
  Expect(ended.signal == 0, "a message ended the process: " + ended.error);
  return ended.error;
}

void ExpectForm(const std::string& text, const std::string& rest) {
  const std::regex form("W\\d{4} \\d\\d:\\d\\d:\\d\\d\\.\\d{6} +\\d+ " + rest +
                        "\n");
  Expect(std::regex_match(text, form), "not in Abseil's format: " + text);
}

bool Has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

void AWarningHasAbseilsForm() {
  ExpectForm(Written(nullptr, [] { LOG(WARNING) << "text " << 1; }),
             "cpp_log_test\\.cc:\\d+\\] text 1");
  ExpectForm(Written(nullptr, [] { TORCH_WARN("by ", "TORCH_WARN"); }),
             "cpp_log_test\\.cc:\\d+\\] Warning: by TORCH_WARN "
             "\\(function operator\\(\\)\\)");
  ExpectForm(
      Written(nullptr,
              [] { LOG_AT_FILE_LINE(WARNING, "/a/b/other.cc", 77) << "x"; }),
      "other\\.cc:77\\] x");
  ExpectForm(
      Written(nullptr, [] { LOG(WARNING) << std::vector<int>{1, 2, 3}; }),
      "cpp_log_test\\.cc:\\d+\\] 1 2 3");
}

void Speak() {
  LOG(INFO) << "of information";
  LOG(WARNING) << "of warning";
  LOG(ERROR) << "of error";
  VLOG(1) << "of detail";
}

void TorchsVariableIsTheLevel() {
  struct {
    const char* level;
    int from;  // the lowest severity that is written
  } const cases[] = {{nullptr, 1}, {"INFO", 0},  {"0", 0}, {"WARNING", 1},
                     {"ERROR", 2}, {"FATAL", 3}, {"3", 3}};
  const char* const texts[] = {"of information", "of warning", "of error"};
  for (const auto& each : cases) {
    const std::string text = Written(each.level, Speak);
    for (int i = 0; i < 3; ++i) {
      Expect(Has(text, texts[i]) == (i >= each.from),
             std::string(each.level ? each.level : "nothing") + ": " + text);
    }
    Expect(!Has(text, "of detail"), "a verbose message, without --v");
  }
}

void AbseilsFlagsHold() {
  const std::string silent = InChild([] {
                               unsetenv("TORCH_CPP_LOG_LEVEL");
                               absl::SetFlag(&FLAGS_minloglevel, 2);
                               c10::initLogging();
                               Speak();
                             }).error;
  Expect(!Has(silent, "of warning") && Has(silent, "of error"),
         "--minloglevel=2 had no effect: " + silent);
  Expect(Has(Written("INFO",
                     [] {
                       absl::SetFlag(&FLAGS_v, 1);
                       Speak();
                     }),
             "of detail"),
         "--v=1 had no effect");
  const std::string by_module = Written("INFO", [] {
    absl::SetFlag(&FLAGS_vmodule, "other=3,cpp_log_*=2");
    VLOG(2) << "two";
    VLOG(3) << "three";
    if (!VLOG_IS_ON(2) || VLOG_IS_ON(3)) abort();
    VLOG_IF(2, false) << "never";
  });
  Expect(Has(by_module, "two") && !Has(by_module, "three") &&
             !Has(by_module, "never"),
         "--vmodule had no effect: " + by_module);
}

void AProgramMayHaveInitializedAbseil() {
  const Ended ended = InChild([] {
    absl::InitializeLog();
    c10::initLogging();
    c10::initLogging();
    c10::ShowLogInfoToStderr();
    LOG(INFO) << "shown";
  });
  Expect(ended.signal == 0 && Has(ended.error, "shown"),
         "initialized twice: " + ended.error);
}

void SomeAreRare() {
  const std::string text = Written(nullptr, [] {
    for (int i = 0; i < 10; ++i) {
      C10_LOG_FIRST_N(WARNING, 2) << "first";
      C10_LOG_EVERY_N(WARNING, 5) << "fifth";
      C10_LOG_EVERY_MS(WARNING, 100000) << "rare";
      LOG_IF(WARNING, i == 3) << "three";
    }
  });
  const auto count = [&](const std::string& word) {
    size_t found = 0;
    for (size_t at = text.find(word); at != std::string::npos;
         at = text.find(word, at + 1)) {
      ++found;
    }
    return found;
  };
  Expect(count("first") == 2 && count("fifth") == 2 && count("rare") == 1 &&
             count("three") == 1,
         "wrong numbers of messages: " + text);
}

// Expects that `work` aborts the process with an error that contains `words`.
void ExpectDeath(const std::function<void()>& work, const char* words) {
  const Ended ended = InChild(work);
  Expect(ended.signal == SIGABRT && Has(ended.error, words),
         std::string(words) + ", not: " + ended.error);
}

void ChecksEndTheProcess() {
  int one = 1;
  int two = 2;
  int* nothing = nullptr;
  ExpectDeath([&] { TORCH_CHECK_EQ(one, two); },
              "Check failed: one == two (1 vs. 2)");
  ExpectDeath([&] { TORCH_CHECK_NE(one, one) << "why"; },
              "Check failed: one != one (1 vs. 1) why");
  ExpectDeath([&] { TORCH_CHECK_LT(two, one); },
              "Check failed: two < one (2 vs. 1)");
  ExpectDeath([&] { TORCH_CHECK_GE(one, two); },
              "Check failed: one >= two (1 vs. 2)");
  ExpectDeath([&] { TORCH_CHECK_NOTNULL(nothing); },
              "Check failed: 'nothing' Must be non");
  ExpectDeath([&] { CHECK(one == two) << "why"; },
              "Check failed: one == two why");
  ExpectDeath([&] { FATAL_IF(one == two) << "why"; }, "why");
  ExpectDeath([] { LOG(FATAL) << "the end"; }, "the end");
  ExpectDeath(
      [] {
        FLAGS_caffe2_use_fatal_for_enforce = true;
        CAFFE_ENFORCE(false, "enforced");
      },
      "enforced");
  const Ended ended = InChild([&] {
    TORCH_CHECK_EQ(one, 1);
    TORCH_CHECK_LE(one, two);
    TORCH_CHECK_GT(two, one);
    FATAL_IF(one == 1) << "no";
    if (*TORCH_CHECK_NOTNULL(&one) != 1) abort();
    TORCH_DCHECK_EQ(one, two);  // no effect with NDEBUG
    if (one == 2)
      TORCH_CHECK_EQ(one, two);
    else
      one = 1;
  });
  Expect(ended.signal == 0 && ended.error.empty(),
         "a check that holds had an effect: " + ended.error);
}

}  // namespace

int main() {
  AWarningHasAbseilsForm();
  TorchsVariableIsTheLevel();
  AbseilsFlagsHold();
  AProgramMayHaveInitializedAbseil();
  SomeAreRare();
  ChecksEndTheProcess();
  return failures;
}

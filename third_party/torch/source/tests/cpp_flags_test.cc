// SPDX-License-Identifier: Apache-2.0
// Tests that torch's C++ flags are Abseil flags: --c10_NAME sets a flag on the
// command line, and FLAGS_NAME is still a variable.
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "c10/util/Flags.h"
#include "c10/util/Logging.h"
#include "third_party/torch/source/tests/expect.h"

C10_DEFINE_bool(test_on, false, "A flag of each type.");
C10_DEFINE_int(test_number, 3, "A flag of each type.");
C10_DEFINE_int64(test_large, 4, "A flag of each type.");
C10_DEFINE_double(test_share, 0.5, "A flag of each type.");
C10_DEFINE_string(test_text, "default", "A flag of each type.");
C10_DEFINE_string(test_untouched, "as it was", "A default.");

namespace {

size_t Length(std::string_view text) { return text.size(); }

void TheCommandLineSetsThem(int* argc, char*** argv) {
  Expect(!c10::CommandLineFlagsHasBeenParsed(), "parsed too early");
  Expect(c10::ParseCommandLineFlags(argc, argv), "a flag is unknown");
  Expect(c10::CommandLineFlagsHasBeenParsed(), "not marked as parsed");
  Expect(*argc == 2 && std::string((*argv)[1]) == "rest",
         "the arguments other than flags are wrong");
  Expect(FLAGS_test_on, "--c10_test_on did nothing");
  Expect(FLAGS_test_number == 5, "--c10_test_number did nothing");
  Expect(FLAGS_test_large == 1LL << 40, "--c10_test_large did nothing");
  Expect(FLAGS_test_share == 0.25, "--c10_test_share did nothing");
  Expect(FLAGS_test_text == "given", "--c10_test_text did nothing");
  Expect(FLAGS_test_untouched == "as it was", "a flag has lost its default");
}

void TheyAreVariables() {
  static_assert(std::is_same_v<decltype(FLAGS_test_number), int>);
  const auto read = []() { return FLAGS_test_on; };
  static_assert(std::is_same_v<decltype(read()), bool>);
  ++FLAGS_test_number;
  Expect(FLAGS_test_number == 6, "a flag cannot be incremented");
  bool other = false;
  std::swap(FLAGS_test_on, other);
  Expect(other && !read(), "a flag cannot be swapped");
  FLAGS_test_text = "assigned";
  Expect(Length(FLAGS_test_text) == 8, "a flag cannot be used as text");
}

void TheyAreAbseils() {
  absl::SetFlag(&FLAGS_c10_test_number, 9);
  Expect(FLAGS_test_number == 9, "absl::SetFlag did not reach the variable");
  absl::CommandLineFlag* level =
      absl::FindCommandLineFlag("c10_caffe2_log_level");
  Expect(level != nullptr, "torch's own flags are missing");
  std::string error;
  Expect(level->ParseFrom("0", &error), error);
  Expect(FLAGS_caffe2_log_level == 0, "torch's flag has another value");
  Expect(absl::FindCommandLineFlag("c10_minloglevel") == nullptr,
         "torch has a second --minloglevel");
}

void AnUnknownOneIsNamed() {
  const Ended ended = InChild([] {
    std::string arguments[] = {"program", "--c10_no_such=1"};
    char* argv[] = {arguments[0].data(), arguments[1].data(), nullptr};
    char** pointer = argv;
    int argc = 2;
    if (c10::ParseCommandLineFlags(&argc, &pointer)) abort();
  });
  Expect(ended.signal == 0, "an unknown flag was accepted");
  Expect(ended.error.find("--c10_no_such: no flag") == 0,
         "the error does not name the unknown flag: " + ended.error);
}

}  // namespace

int main(int argc, char** argv) {
  TheCommandLineSetsThem(&argc, &argv);
  TheyAreVariables();
  TheyAreAbseils();
  AnUnknownOneIsNamed();
  return failures;
}

// SPDX-License-Identifier: Apache-2.0
// Tests fmt's headers as torch uses them: header-only, without linking fmt.
#include <cstdio>
#include <string>
#include <vector>

#include "fmt/chrono.h"
#include "fmt/core.h"
#include "fmt/format.h"
#include "fmt/printf.h"
#include "fmt/ranges.h"

namespace {

int failures = 0;

void Expect(const std::string& actual, const std::string& expected) {
  if (actual == expected) return;
  std::fprintf(stderr, "fmt_test: '%s', not '%s'\n", actual.c_str(),
               expected.c_str());
  ++failures;
}

}  // namespace

int main() {
  Expect(fmt::format("{:>6.2f}|{:#x}", 3.14159, 255), "  3.14|0xff");
  Expect(fmt::format("{}", std::vector<int>{1, 2, 3}), "[1, 2, 3]");
  Expect(fmt::format("{}", fmt::join(std::vector<int>{1, 2}, "x")), "1x2");
  Expect(fmt::sprintf("%03d", 7), "007");
  Expect(fmt::format("{:%H:%M:%S}", std::chrono::seconds(3661)), "01:01:01");
  try {
    Expect(fmt::format(fmt::runtime("{:d}"), "text"), "an error");
  } catch (const fmt::format_error&) {
    return failures;
  }
  return failures + 1;
}

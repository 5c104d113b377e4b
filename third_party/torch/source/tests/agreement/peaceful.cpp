// SPDX-License-Identifier: Apache-2.0
#include <string>

namespace {
int Length(const std::string& text) { return static_cast<int>(text.size()); }

const auto twice = [](int number) { return 2 * number; };
const int started = twice(Length("abc"));
}  // namespace

int Started() { return started; }

// SPDX-License-Identifier: Apache-2.0
// A program with a statically linked C++ runtime and a source file compiled for
// AVX2.
#include <cassert>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

float dot(const float* left, const float* right);

static std::optional<float> fast() {
  const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return std::nullopt;
  return dot(ones, ones);
}

int main() {
  float sum = fast().value_or(8);
  assert(sum == 8);
  try {
    std::stoi("no number");
  } catch (const std::invalid_argument&) {
    std::cout << sum << " on " __DATE__ " at " __TIME__ "\n";
  }
}

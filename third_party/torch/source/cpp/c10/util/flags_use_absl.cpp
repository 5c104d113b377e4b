// SPDX-License-Identifier: Apache-2.0
// Implements the functions of c10/util/Flags.h with Abseil. They are for the
// main function of a C++ program.
#include <iostream>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "c10/util/Flags.h"

namespace c10 {
namespace {
bool parsed = false;
}  // namespace

void SetUsageMessage(const std::string& message) {
  absl::SetProgramUsageMessage(message);
}

const char* UsageMessage() {
  // The string_view is null-terminated, because it refers to a std::string or a
  // literal.
  return absl::ProgramUsageMessage().data();
}

// If a flag has an invalid value, Abseil prints an error and exits.
bool ParseCommandLineFlags(int* argc, char*** argv) {
  if (*argc == 0) return true;
  std::vector<char*> rest;
  std::vector<absl::UnrecognizedFlag> unknown;
  absl::ParseAbseilFlagsOnly(*argc, *argv, rest, unknown);
  parsed = true;
  for (const absl::UnrecognizedFlag& flag : unknown) {
    std::cerr << "--" << flag.flag_name
              << ": no flag of this program has this name. --helpfull lists "
                 "those that it has; torch's begin with c10_\n";
  }
  for (size_t i = 0; i < rest.size(); ++i) (*argv)[i] = rest[i];
  *argc = static_cast<int>(rest.size());
  return unknown.empty();
}

bool CommandLineFlagsHasBeenParsed() { return parsed; }

}  // namespace c10

// SPDX-License-Identifier: Apache-2.0
// Defines torch's C++ flags as Abseil flags. c10/util/Flags.h includes this
// file after its own implementation. Flag NAME becomes --c10_NAME, so that it
// cannot clash with a flag of another library.
//
// FLAGS_NAME is still a variable that sources can declare, read and assign,
// including sources of extensions that do not know this header. It stores the
// value that the command line or absl::SetFlag sets.
#ifndef C10_UTIL_FLAGS_USE_ABSL_H_
#define C10_UTIL_FLAGS_USE_ABSL_H_

#include "absl/flags/flag.h"

#undef C10_DEFINE_typed_var

#define C10_DEFINE_typed_var(type, name, default_value, help_str)      \
  C10_EXPORT type FLAGS_##name = default_value;                        \
  ABSL_FLAG(type, c10_##name, default_value, help_str).OnUpdate([]() { \
    ::FLAGS_##name = absl::GetFlag(::FLAGS_c10_##name);                \
  });

#endif  // C10_UTIL_FLAGS_USE_ABSL_H_

// SPDX-License-Identifier: Apache-2.0
// torch's C++ flags as Abseil's. Included by c10/util/Flags.h after its own
// implementation. Flag NAME is --c10_NAME, so that no name of another library
// is taken twice.
//
// FLAGS_NAME stays the variable that sources declare, read and assign: those of
// an extension too, which know nothing of this header. What the command line or
// absl::SetFlag gives the flag is stored there.
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

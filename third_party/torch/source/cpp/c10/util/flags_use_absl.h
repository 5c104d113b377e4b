// SPDX-License-Identifier: Apache-2.0
// torch's C++ flags as Abseil's. Included by c10/util/Flags.h after its own
// implementation. Flag NAME is --c10_NAME, so that no name of another library
// is taken twice.
#ifndef C10_UTIL_FLAGS_USE_ABSL_H_
#define C10_UTIL_FLAGS_USE_ABSL_H_

#include <ostream>

#include "absl/flags/declare.h"
#include "absl/flags/flag.h"

namespace c10 {

// FLAGS_name, where sources read and assign it as a variable.
template <typename T>
class AbslFlag {
 public:
  explicit constexpr AbslFlag(absl::Flag<T>* flag) : flag_(flag) {}
  AbslFlag(const AbslFlag&) = delete;
  AbslFlag& operator=(const AbslFlag&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor): it stands for the value.
  operator T() const { return absl::GetFlag(*flag_); }

  AbslFlag& operator=(const T& value) {
    absl::SetFlag(flag_, value);
    return *this;
  }

  friend std::ostream& operator<<(std::ostream& out, const AbslFlag& flag) {
    return out << static_cast<T>(flag);
  }

 private:
  absl::Flag<T>* const flag_;
};

}  // namespace c10

#undef C10_DEFINE_typed_var
#undef C10_DECLARE_typed_var
#undef TORCH_DECLARE_typed_var

#define C10_DEFINE_typed_var(type, name, default_value, help_str) \
  ABSL_FLAG(type, c10_##name, default_value, help_str);           \
  ::c10::AbslFlag<type> FLAGS_##name(&FLAGS_c10_##name);
#define C10_DECLARE_typed_var(type, name) \
  extern ::c10::AbslFlag<type> FLAGS_##name
#define TORCH_DECLARE_typed_var(type, name) C10_DECLARE_typed_var(type, name)

#endif  // C10_UTIL_FLAGS_USE_ABSL_H_

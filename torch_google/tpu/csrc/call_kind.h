// SPDX-License-Identifier: Apache-2.0
// The kind of an operator call: everything in its cache key except sizes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <algorithm>

#include "torch_google/tpu/csrc/key.h"

namespace torch_google::tpu {

// Integers up to this absolute value are part of a kind, because they are
// usually dimensions or modes. Larger ones are not, because they are usually
// sizes.
inline constexpr int64_t kLargestMode = 8;
// Builds the key that identifies the kind of a call.
class KindKey {
 public:
  enum Word : int64_t {
    kUndefined = -1000,
    kBoolean,
    kInteger,
    kIntegers,
    kDouble,
    kString,
    kList,
    kNone,
    kOther,
  };

  explicit KindKey(Key& key) : key_(key) {}

  void add(const c10::IValue& value) {
    if (value.isTensor()) {
      tensor(value.toTensor());
    } else if (value.isBool()) {
      key_.insert(key_.end(), {kBoolean, value.toBool()});
    } else if (value.isInt()) {
      key_.insert(key_.end(),
                  {kInteger, std::clamp(value.toInt(), -kLargestMode - 1,
                                        kLargestMode + 1)});
    } else if (value.isString()) {
      const auto& text = value.toStringRef();
      key_.insert(key_.end(), {kString, static_cast<int64_t>(text.size())});
      key_.insert(key_.end(), text.begin(), text.end());
    } else if (value.isIntList()) {
      key_.insert(key_.end(),
                  {kIntegers, static_cast<int64_t>(value.toIntList().size())});
    } else if (value.isList()) {
      const auto items = value.toListRef();
      key_.insert(key_.end(), {kList, static_cast<int64_t>(items.size())});
      for (const auto& item : items) {
        add(item);
      }
    } else if (value.isDouble()) {
      key_.push_back(kDouble);
    } else if (value.isNone()) {
      key_.push_back(kNone);
    } else {
      key_.push_back(kOther);
    }
  }

 private:
  void tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      key_.push_back(kUndefined);
      return;
    }
    const auto* implementation = tensor.unsafeGetTensorImpl();
    key_.push_back((static_cast<int64_t>(tensor.scalar_type()) << 16) |
                   (implementation->dim() << 4) |
                   (tensor.device().is_cpu() << 3) |
                   (implementation->is_wrapped_number() << 2) |
                   (implementation->is_contiguous() << 1) |
                   (implementation->numel() == 0));
    // Divisions of integers by 0 and -1 run as programs; see _may_overflow() in
    // eager/cpu_kernels.py.
    if (implementation->is_wrapped_number() &&
        tensor.scalar_type() == at::kLong && tensor.device().is_cpu()) {
      const auto number = *tensor.const_data_ptr<int64_t>();
      key_.push_back(number == 0 || number == -1 ? number : 1);
    }
  }

  Key& key_;
};

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/key.h"

#include <ATen/ops/_local_scalar_dense.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/overflows.h>

#include <algorithm>
#include <bit>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/operator_policy.h"
#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {
namespace {

// Tags. The part of a key that describes an argument begins with a tag for the
// argument's kind.
enum Word : int64_t {
  kUndefined = -1000,
  kTensor,
  kPlain,  // a tensor with the shape and element order of its box
  kStrided,
  kHostScalar,
  kNone,
  kInteger,
  kUnsigned,  // an integer that does not fit into int64
  kBoolean,
  kDouble,
  kComplex,
  kIntegers,
  kList,
  kString,
  kDeviceWord,
  kGenerator,
  kNumber,
  kShared,
  kSharded,   // a tensor distributed over several devices
  kLazyBits,  // a tensor with a lazy conjugate or negative bit
  kPrecision,
  kDefaultDtype,
  kRefused,
  kMisfits,
};

double value_of(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); },
                    number);
}

using Arguments = c10::ArrayRef<c10::IValue>;

double first(const Call& call) { return value_of(call.numbers.front()); }

double last(const Call& call) { return value_of(call.numbers.back()); }

// Returns whether a dtype can represent a number under torch's rules. uint8
// cannot represent 300, for example.
bool is_of(const Number& number, at::ScalarType dtype) {
  if (const double value = value_of(number); value >= 0 && value <= 127) {
    return true;
  }
  switch (dtype) {
#define TORCH_GOOGLE_CASE(type, name)                           \
  case at::ScalarType::name:                                    \
    return std::visit(                                          \
        [](auto value) {                                        \
          return !c10::overflows<type, decltype(value)>(value); \
        },                                                      \
        number);
    AT_FORALL_SCALAR_TYPES_AND2(Half, BFloat16, TORCH_GOOGLE_CASE)
    TORCH_GOOGLE_CASE(uint16_t, UInt16)
    TORCH_GOOGLE_CASE(uint32_t, UInt32)
    TORCH_GOOGLE_CASE(uint64_t, UInt64)
    TORCH_GOOGLE_CASE(c10::complex<float>, ComplexFloat)
#undef TORCH_GOOGLE_CASE
    default:
      return true;
  }
}

// Returns a bit mask with one bit for each of the first 63 scalar arguments.
// The bit is set if the dtype of some tensor cannot represent the scalar, as
// int8 cannot represent 300. torch rejects some of these calls. Therefore a
// nonzero mask is part of the key, and the first call with each key runs on the
// CPU as a check.
int64_t misfits(const Call& call) {
  uint64_t dtypes = 0;
  for (const at::Tensor* tensor : call.tensors) {
    dtypes |= uint64_t{1} << static_cast<int>(tensor->scalar_type());
  }
  int64_t bits = 0;
  for (size_t i = 0; i < std::min<size_t>(call.numbers.size(), 63); ++i) {
    for (uint64_t rest = dtypes; rest != 0; rest &= rest - 1) {
      const auto dtype = static_cast<at::ScalarType>(std::countr_zero(rest));
      if (!is_of(call.numbers[i], dtype)) {
        bits |= int64_t{1} << i;
      }
    }
  }
  return bits;
}

// Returns whether the first tensor's dtype can represent the fill value, which
// must be the call's last number.
bool fits_tensor(const Call& call, Arguments /*unused*/) {
  return is_of(call.numbers.back(), call.tensors.front()->scalar_type());
}

bool fits_dtype(const Call& call, Arguments arguments) {
  // The dtype's position in full(size, fill_value, *, dtype, ...).
  constexpr size_t kDtype = 2;
  const auto& number = call.numbers.back();
  if (arguments[kDtype].isInt()) {
    return is_of(number,
                 static_cast<at::ScalarType>(arguments[kDtype].toInt()));
  }
  return !std::holds_alternative<double>(number) ||
         is_of(number, c10::get_default_dtype_as_scalartype());
}

// Returns whether a tensor has exactly the strides of a new contiguous tensor.
// is_contiguous() ignores dimensions of size 1, but the strides of results
// depend on those as well.
bool has_natural_strides(const c10::TensorImpl& tensor) {
  if (!tensor.is_contiguous()) {
    return false;
  }
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (strides[i] != expected) {
      return false;
    }
    expected *= std::max<int64_t>(sizes[i], 1);
  }
  return true;
}

Admits admits_of(NumberCheck check) {
  switch (check) {
    case NumberCheck::none:
      break;
    case NumberCheck::ascending:
      return
          [](const Call& call, Arguments) { return first(call) <= last(call); };
    case NumberCheck::not_negative:
      return [](const Call& call, Arguments) { return last(call) >= 0; };
    case NumberCheck::positive:
      return [](const Call& call, Arguments) { return last(call) > 0; };
    case NumberCheck::probability:
      return [](const Call& call, Arguments) {
        return first(call) >= 0 && first(call) <= 1;
      };
    case NumberCheck::open_probability:
      return [](const Call& call, Arguments) {
        return first(call) > 0 && first(call) < 1;
      };
    case NumberCheck::fits_tensor:
      return fits_tensor;
    case NumberCheck::fits_dtype:
      return fits_dtype;
  }
  return nullptr;
}

class Describer {
 public:
  Describer(const c10::FunctionSchema& schema, bool scalars_are_inputs,
            Call& call)
      : schema_(schema), scalars_are_inputs_(scalars_are_inputs), call_(call) {}

  void argument(const SchemaInfo& schema_info, size_t position,
                const c10::IValue& value) {
    if (value.isTensor()) {
      tensor(value.toTensor());
    } else if (schema_info.is_number(position, value, scalars_are_inputs_)) {
      word(kNumber);
      if (value.isDouble()) {
        word(kDouble);
        call_.numbers.emplace_back(value.toDouble());
      } else {
        word(kInteger);
        call_.numbers.emplace_back(value.toInt());
      }
    } else {
      this->value(value);
    }
  }

  // Records which tensors share a storage. Used for operators that write to a
  // tensor.
  void sharing() {
    for (size_t i = 0; i < call_.tensors.size(); ++i) {
      const auto* mine = call_.tensors[i]
                             ->unsafeGetTensorImpl()
                             ->unsafe_storage()
                             .unsafeGetStorageImpl();
      for (size_t j = 0; j < i; ++j) {
        if (call_.tensors[j]
                ->unsafeGetTensorImpl()
                ->unsafe_storage()
                .unsafeGetStorageImpl() == mine) {
          word(kShared);
          word(static_cast<int64_t>(i));
          word(static_cast<int64_t>(j));
          break;
        }
      }
    }
  }

 private:
  void word(int64_t value) { call_.key.push_back(value); }

  void value(const c10::IValue& value) {
    if (value.isTensor()) {
      tensor(value.toTensor());
    } else if (value.isNone()) {
      word(kNone);
    } else if (value.isBool()) {
      word(kBoolean);
      word(value.toBool());
    } else if (value.isInt()) {
      word(kInteger);
      word(value.toInt());
    } else if (value.isDouble()) {
      word(kDouble);
      word(std::bit_cast<int64_t>(value.toDouble()));
    } else if (value.isComplexDouble()) {
      complex(value.toComplexDouble());
    } else if (value.isString()) {
      string(value.toStringRef());
    } else if (value.isDevice()) {
      word(kDeviceWord);
      if (value.toDevice().is_privateuseone() && value.toDevice().has_index()) {
        check_device(value.toDevice().index());
        on(value.toDevice().index());
      }
    } else if (value.isGenerator()) {
      word(kGenerator);
      call_.generator = value.toGenerator();
    } else if (value.isList()) {
      list(value);
    } else if (needs_unsigned(value)) {
      word(kUnsigned);
      word(std::bit_cast<int64_t>(value.toScalar().toUInt64()));
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(false, "tpu: ", schema_.operator_name(),
                                  " got an argument of unknown kind ",
                                  value.tagKind(),
                                  ". Add it to torch_google/tpu/csrc/key.cpp");
    }
  }

  void tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      word(kUndefined);
      return;
    }
    if (!tensor.device().is_privateuseone()) {
      host_scalar(tensor);
      return;
    }
    on(tensor.device().index());
    const auto* implementation = tensor.unsafeGetTensorImpl();
    auto& box = box_of(*implementation);
    box.settle(*implementation);
    word(kTensor);
    word((static_cast<int64_t>(tensor.scalar_type()) << 32) |
         (static_cast<int64_t>(box.dtype) << 16) | implementation->dim());
    const auto sizes = implementation->sizes();
    call_.key.insert(call_.key.end(), sizes.begin(), sizes.end());
    if (implementation->storage_offset() == 0 &&
        sizes == c10::IntArrayRef(box.shape) &&
        has_natural_strides(*implementation)) {
      word(kPlain);
    } else {
      word(kStrided);
      const auto strides = implementation->strides();
      call_.key.insert(call_.key.end(), strides.begin(), strides.end());
      word(implementation->storage_offset());
      call_.key.insert(call_.key.end(), box.shape.begin(), box.shape.end());
    }
    if (C10_UNLIKELY(box.sharding() != kOneDevice)) {
      word(kSharded);
      word(box.sharding());
    }
    if (C10_UNLIKELY(implementation->is_conj() || implementation->is_neg())) {
      word(kLazyBits);
      word(implementation->is_conj() + 2 * implementation->is_neg());
    }
    call_.tensors.push_back(&tensor);
    call_.layout_version += box.layout_version;
  }

  void host_scalar(const at::Tensor& tensor) {
    TORCH_CHECK(
        tensor.dim() == 0, schema_.operator_name(),
        ": Expected all tensors to be on the same device, but found tpu and ",
        tensor.device(), ". Move one with .to()");
    word(kHostScalar);
    const bool wrapped = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    word(static_cast<int64_t>(tensor.scalar_type()) * 2 + wrapped);
    if (wrapped && is_number(tensor, scalars_are_inputs_)) {
      // Read the value of a Python number, which is stored as int64 or float64,
      // without a dispatcher call.
      const void* number = tensor.const_data_ptr();
      if (tensor.scalar_type() == at::kDouble) {
        call_.numbers.emplace_back(*static_cast<const double*>(number));
        return;
      }
      if (tensor.scalar_type() == at::kLong) {
        call_.numbers.emplace_back(*static_cast<const int64_t*>(number));
        return;
      }
    }
    const at::Scalar scalar = at::_local_scalar_dense(tensor);
    if (is_number(tensor, scalars_are_inputs_)) {
      if (scalar.isFloatingPoint()) {
        call_.numbers.emplace_back(scalar.toDouble());
      } else {
        call_.numbers.emplace_back(scalar.toLong());
      }
    } else if (scalar.isComplex()) {
      complex(scalar.toComplexDouble());
    } else if (scalar.isFloatingPoint()) {
      word(std::bit_cast<int64_t>(scalar.toDouble()));
    } else if (tensor.scalar_type() == at::kUInt64) {
      word(std::bit_cast<int64_t>(scalar.toUInt64()));
    } else {
      word(scalar.toLong());
    }
  }

  void complex(c10::complex<double> value) {
    word(kComplex);
    word(std::bit_cast<int64_t>(value.real()));
    word(std::bit_cast<int64_t>(value.imag()));
  }

  void string(const std::string& text) {
    word(kString);
    word(static_cast<int64_t>(text.size()));
    call_.key.insert(call_.key.end(), text.begin(), text.end());
  }

  void list(const c10::IValue& value) {
    if (value.isIntList()) {
      const auto list = value.toIntList();
      word(kIntegers);
      word(static_cast<int64_t>(list.size()));
      for (const int64_t item : list) {
        word(item);
      }
      return;
    }
    const auto items = value.toListRef();
    word(kList);
    word(static_cast<int64_t>(items.size()));
    for (const auto& item : items) {
      this->value(item);
    }
  }

  void on(c10::DeviceIndex device) {
    if (call_.device < 0) {
      call_.device = device;
      word(device);
    }
    TORCH_CHECK(
        call_.device == device, schema_.operator_name(),
        ": Expected all tensors to be on the same device, but found tpu:",
        static_cast<int>(call_.device), " and tpu:", static_cast<int>(device),
        ". Move one with .to()");
  }

  const c10::FunctionSchema& schema_;
  const bool scalars_are_inputs_;
  Call& call_;
};

}  // namespace

size_t KeyHash::operator()(const Key& key) const {
  uint64_t hash = 0x9E3779B97F4A7C15ull ^ key.size();
  for (const int64_t word : key) {
    hash ^= static_cast<uint64_t>(word);
    hash *= 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  return hash;
}

void Call::clear() {
  key.clear();
  tensors.clear();
  numbers.clear();
  device = -1;
  generator = {};
  layout_version = 0;
}

bool Call::is_current() const {
  uint64_t now = 0;
  for (const auto* tensor : tensors) {
    now += box_of(*tensor->unsafeGetTensorImpl()).layout_version;
  }
  return now == layout_version;
}

SchemaInfo::SchemaInfo(const c10::FunctionSchema& described)
    : schema(&described),
      admits(admits_of(policy_of(described.name()).numbers)) {
  for (const auto& argument : described.arguments()) {
    auto type = argument.type();
    if (const auto* optional = type->castRaw<c10::OptionalType>()) {
      type = optional->getElementType();
    }
    const bool scalar = type->kind() == c10::TypeKind::NumberType;
    arguments.push_back({scalar || type->kind() == c10::TypeKind::FloatType,
                         scalar && !is_keyed_integer(argument.name())});
    writes |= argument.is_out() ||
              (argument.alias_info() && argument.alias_info()->isWrite());
  }
}

void describe(const SchemaInfo& schema_info,
              c10::ArrayRef<c10::IValue> arguments, bool scalars_are_inputs,
              int precision, Call& call) {
  call.clear();
  Describer describer(*schema_info.schema, scalars_are_inputs, call);
  for (size_t i = 0; i < arguments.size(); ++i) {
    describer.argument(schema_info, i, arguments[i]);
  }
  if (schema_info.writes) {
    describer.sharing();
  }
  if (call.device < 0) {
    call.device = current_device();
    call.key.push_back(call.device);
  }
  if (schema_info.admits && !call.numbers.empty() &&
      !schema_info.admits(call, arguments)) {
    call.key.push_back(kRefused);
  }
  if (const int64_t bits = call.numbers.empty() ? 0 : misfits(call)) {
    call.key.insert(call.key.end(), {kMisfits, bits});
  }
  if (precision) {
    call.key.insert(call.key.end(), {kPrecision, precision});
  }
  if (const auto dtype = c10::get_default_dtype_as_scalartype();
      dtype != at::kFloat) {
    call.key.insert(call.key.end(),
                    {kDefaultDtype, static_cast<int64_t>(dtype)});
  }
}

bool is_number(const at::Tensor& tensor, bool scalars_are_inputs) {
  if (tensor.scalar_type() == at::kUInt64) {
    return false;  // inputs are int64, which cannot represent all of uint64
  }
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    // A bool cannot be an input: True would become the integer 1.
    return scalars_are_inputs && tensor.scalar_type() != at::kBool &&
           !c10::isComplexType(tensor.scalar_type());
  }
  return !c10::isComplexType(tensor.scalar_type());
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/small_kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/DimVector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

// Tells the compiler that the iterations of a loop are independent. The result
// may alias an operand, but an iteration writes only to the element that it has
// just read.
#if defined(__clang__)
#define TORCH_GOOGLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TORCH_GOOGLE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace torch_google::tpu {
namespace {

// For larger tensors, torch's kernels are as fast: they use wider vector
// instructions and several threads.
constexpr int64_t kMaxElements = 8192;
constexpr size_t kMaxConcatenatedBytes = 1 << 20;

bool is_strided_cpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() &&
         tensor.layout() == c10::kStrided && !tensor.is_conj() &&
         !tensor.is_neg() && !tensor._is_zerotensor();
}

// An operand, a tensor or a number, broadcast to the result's rows and columns.
// A stride of 0 repeats an element.
struct ElementwiseOperand {
  const float* data = nullptr;
  float number = 0;
  c10::IntArrayRef sizes;
  c10::IntArrayRef strides;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  int64_t size(int64_t from_last) const {
    const auto dimensions = static_cast<int64_t>(sizes.size());
    return from_last < dimensions ? sizes[dimensions - 1 - from_last] : 1;
  }
  int64_t stride(int64_t from_last) const {
    return size(from_last) == 1 ? 0 : strides[sizes.size() - 1 - from_last];
  }
};

bool set_operand(const c10::IValue& value, ElementwiseOperand& operand) {
  operand.data = &operand.number;
  if (value.isDouble()) {
    operand.number = static_cast<float>(value.toDouble());
    return true;
  }
  if (value.isInt()) {
    operand.number = static_cast<float>(value.toInt());
    return true;
  }
  if (!value.isTensor() || !is_strided_cpu(value.toTensor())) {
    return false;
  }
  const at::Tensor& tensor = value.toTensor();
  const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (tensor.scalar_type() == at::kFloat && !is_number) {
    operand.data = tensor.const_data_ptr<float>();
    operand.sizes = tensor.sizes();
    operand.strides = tensor.strides();
    return true;
  }
  if (tensor.scalar_type() == at::kDouble && is_number) {
    operand.number = static_cast<float>(*tensor.const_data_ptr<double>());
    return true;
  }
  if (tensor.scalar_type() == at::kLong && is_number) {
    operand.number = static_cast<float>(*tensor.const_data_ptr<int64_t>());
    return true;
  }
  return false;
}

// The result's sizes, and its rows and columns once its dimensions are
// collapsed to two.
struct Matrix {
  at::DimVector sizes;
  int64_t rows = 1;
  int64_t columns = 1;
};

// Sets the sizes of the result. Returns false if the operands' sizes do not
// broadcast, or if the result is empty or has more than kMaxElements elements.
bool set_sizes(const std::array<ElementwiseOperand, 2>& operands,
               Matrix& matrix) {
  const auto dimensions = static_cast<int64_t>(
      std::max(operands[0].sizes.size(), operands[1].sizes.size()));
  matrix.sizes.resize(dimensions);
  int64_t elements = 1;
  for (int64_t i = 0; i < dimensions; ++i) {
    const int64_t first = operands[0].size(i);
    const int64_t second = operands[1].size(i);
    if (first != second && first != 1 && second != 1) {
      return false;
    }
    const int64_t size = first == 1 ? second : first;
    matrix.sizes[dimensions - 1 - i] = size;
    elements *= size;
    if (size == 0 || elements > kMaxElements) {
      return false;
    }
  }
  return true;
}

// Returns whether torch's TensorIterator lays out the result in row-major
// order. If each operand repeats its elements along one of two dimensions, its
// comparison does not order these. A dimension of size 1 can then make the sort
// swap them, depending on its stride. Dimensions are counted from the last one.
bool is_row_major(const std::array<ElementwiseOperand, 2>& operands,
                  const Matrix& matrix) {
  const auto dimensions = static_cast<int64_t>(matrix.sizes.size());
  const auto size = [&](int64_t i) { return matrix.sizes[dimensions - 1 - i]; };
  // Returns whether dimension i must be outside of dimension j: 1 if it must,
  // -1 if it must be inside, and 0 if they have no order.
  const auto compare = [&](int64_t i, int64_t j) {
    for (const auto& operand : operands) {
      const auto stride = [&](int64_t k) -> int64_t {
        const auto own = static_cast<int64_t>(operand.sizes.size());
        const bool repeats = k >= own || (operand.size(k) == 1 && size(k) != 1);
        return repeats ? 0 : operand.strides[own - 1 - k];
      };
      const int64_t first = stride(i);
      const int64_t second = stride(j);
      if (first == 0 || second == 0) {
        continue;
      }
      if (first != second) {
        return first < second ? -1 : 1;
      }
      if (size(i) > size(j)) {
        return 1;
      }
    }
    return 0;
  };
  // The dimensions from the innermost to the outermost. The sort is that of
  // TensorIterator, because `compare` is not transitive.
  at::DimVector order(dimensions);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = 1; i < dimensions; ++i) {
    int64_t inserted = i;
    for (int64_t j = i - 1; j >= 0; --j) {
      const int comparison = compare(order[j], order[inserted]);
      if (comparison < 0) {
        break;
      }
      if (comparison > 0) {
        std::swap(order[j], order[inserted]);
        inserted = j;
      }
    }
  }
  int64_t last = -1;
  return std::all_of(order.begin(), order.end(), [&](int64_t i) {
    return size(i) == 1 || std::exchange(last, i) < i;
  });
}

// Collapses the result's dimensions into rows and columns. Returns false if an
// operand's strides prevent that, or if torch lays out the result in an order
// other than row-major.
bool set_matrix(std::array<ElementwiseOperand, 2>& operands, Matrix& matrix) {
  const auto dimensions = static_cast<int64_t>(matrix.sizes.size());
  int dimensions_used = 0;
  bool has_ones = false;
  for (int64_t i = 0; i < dimensions; ++i) {
    const int64_t size = matrix.sizes[dimensions - 1 - i];
    if (size == 1) {
      has_ones = true;
      continue;
    }
    const auto can_merge = [&](int64_t ElementwiseOperand::* stride,
                               int64_t count) {
      return std::all_of(operands.begin(), operands.end(), [&](const auto& o) {
        return o.stride(i) == o.*stride * count;
      });
    };
    if (dimensions_used == 1 &&
        can_merge(&ElementwiseOperand::column_stride, matrix.columns)) {
      matrix.columns *= size;
    } else if (dimensions_used == 2 &&
               can_merge(&ElementwiseOperand::row_stride, matrix.rows)) {
      matrix.rows *= size;
    } else if (dimensions_used == 2) {
      return false;
    } else {
      for (auto& operand : operands) {
        (dimensions_used == 0 ? operand.column_stride : operand.row_stride) =
            operand.stride(i);
      }
      (dimensions_used == 0 ? matrix.columns : matrix.rows) = size;
      ++dimensions_used;
    }
  }
  const bool is_ordered =
      std::all_of(operands.begin(), operands.end(), [&](const auto& o) {
        return (o.column_stride == 0 || o.column_stride == 1) &&
               (o.row_stride == 0 || o.column_stride == 0 ||
                o.row_stride >= matrix.columns);
      });
  return is_ordered && (!has_ones || is_row_major(operands, matrix));
}

template <typename Function>
void fill_row(float* result, int64_t columns, const float* x, int64_t x_stride,
              const float* y, int64_t y_stride, Function function) {
  if (x_stride != 0 && y_stride != 0) {
    TORCH_GOOGLE_INDEPENDENT
    for (int64_t i = 0; i < columns; ++i) {
      result[i] = function(x[i], y[i]);
    }
  } else if (x_stride != 0) {
    const float value = *y;
    TORCH_GOOGLE_INDEPENDENT
    for (int64_t i = 0; i < columns; ++i) {
      result[i] = function(x[i], value);
    }
  } else if (y_stride != 0) {
    const float value = *x;
    TORCH_GOOGLE_INDEPENDENT
    for (int64_t i = 0; i < columns; ++i) {
      result[i] = function(value, y[i]);
    }
  } else {
    std::fill_n(result, columns, function(*x, *y));
  }
}

template <typename Function>
void fill(float* result, const Matrix& matrix,
          const std::array<ElementwiseOperand, 2>& operands,
          Function function) {
  const auto& [x, y] = operands;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    fill_row(result + row * matrix.columns, matrix.columns,
             x.data + row * x.row_stride, x.column_stride,
             y.data + row * y.row_stride, y.column_stride, function);
  }
}

void compute(SmallKernel kernel, float* result, const Matrix& matrix,
             const std::array<ElementwiseOperand, 2>& operands) {
  switch (kernel) {
    case SmallKernel::add:
      return fill(result, matrix, operands,
                  [](float x, float y) { return x + y; });
    case SmallKernel::subtract:
      return fill(result, matrix, operands,
                  [](float x, float y) { return x - y; });
    case SmallKernel::multiply:
      return fill(result, matrix, operands,
                  [](float x, float y) { return x * y; });
    case SmallKernel::divide:
      return fill(result, matrix, operands,
                  [](float x, float y) { return x / y; });
    case SmallKernel::negate:
      return fill(result, matrix, operands, [](float x, float) { return -x; });
    case SmallKernel::square:
      return fill(result, matrix, operands,
                  [](float x, float) { return x * x; });
    case SmallKernel::reciprocal_root:
      return fill(result, matrix, operands,
                  [](float x, float) { return 1.0F / std::sqrt(x); });
    case SmallKernel::concatenate:
    case SmallKernel::row_mean:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "tpu: not an elementwise kernel");
}

// A tensor as `count` contiguous blocks of `elements` elements, which start
// `stride` elements apart.
struct Blocks {
  int64_t count = 1;
  int64_t stride = 0;
  int64_t elements = 1;
};

// Splits a tensor into blocks, one for each index into the dimensions before
// `dimension`. Returns false if a block is not contiguous or the blocks are not
// evenly spaced.
bool set_blocks(const at::Tensor& tensor, int64_t dimension, Blocks& blocks) {
  for (int64_t i = tensor.dim() - 1; i >= 0; --i) {
    const int64_t size = tensor.size(i);
    const int64_t stride = tensor.stride(i);
    if (size == 1) {
      continue;
    }
    if (i >= dimension) {
      if (stride != blocks.elements) {
        return false;
      }
      blocks.elements *= size;
    } else if (blocks.count == 1) {
      blocks.count = size;
      blocks.stride = stride;
    } else if (stride == blocks.count * blocks.stride) {
      blocks.count *= size;
    } else {
      return false;
    }
  }
  return true;
}

float compute_mean(const float* values, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += values[i + lane];
    }
  }
  for (; i < count; ++i) {
    sums[0] += values[i];
  }
  double sum = 0;
  for (const double each : sums) {
    sum += each;
  }
  return static_cast<float>(sum / static_cast<double>(count));
}

std::optional<at::Tensor> run_elementwise(SmallKernel kernel,
                                          const c10::IValue& first,
                                          const c10::IValue* second,
                                          const at::Tensor& target) {
  std::array<ElementwiseOperand, 2> operands;
  operands[1].data = &operands[1].number;
  if (!set_operand(first, operands[0]) ||
      (second && !set_operand(*second, operands[1])) ||
      // Without a float32 tensor, the result could have another dtype.
      (operands[0].data == &operands[0].number &&
       operands[1].data == &operands[1].number)) {
    return std::nullopt;
  }
  Matrix matrix;
  if (!set_sizes(operands, matrix) || !set_matrix(operands, matrix)) {
    return std::nullopt;
  }
  if (target.defined() && target.sizes() != c10::IntArrayRef(matrix.sizes)) {
    return std::nullopt;
  }
  at::Tensor result = target;
  if (!result.defined()) {
    result = at::detail::empty_cpu(matrix.sizes, at::kFloat);
  }
  compute(kernel, result.mutable_data_ptr<float>(), matrix, operands);
  return result;
}

std::optional<at::Tensor> run_concatenate(
    c10::ArrayRef<const c10::IValue*> tensors, int64_t dimension) {
  if (tensors.empty() || !tensors[0]->isTensor() ||
      !tensors[0]->toTensor().defined()) {
    return std::nullopt;
  }
  const at::Tensor& first = tensors[0]->toTensor();
  if (dimension < -first.dim() || dimension >= first.dim()) {
    return std::nullopt;
  }
  dimension = dimension < 0 ? dimension + first.dim() : dimension;
  at::DimVector sizes(first.sizes());
  sizes[dimension] = 0;
  c10::SmallVector<Blocks, 4> blocks(tensors.size());
  int64_t elements = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]->isTensor()) {
      return std::nullopt;
    }
    const at::Tensor& each = tensors[i]->toTensor();
    if (!is_strided_cpu(each) || each.scalar_type() != first.scalar_type() ||
        each.dim() != first.dim() || each.numel() == 0 ||
        each.suggest_memory_format() != at::MemoryFormat::Contiguous ||
        !set_blocks(each, dimension, blocks[i])) {
      return std::nullopt;
    }
    for (int64_t k = 0; k < each.dim(); ++k) {
      if (k != dimension && each.size(k) != sizes[k]) {
        return std::nullopt;
      }
    }
    sizes[dimension] += each.size(dimension);
    elements += blocks[i].elements;
  }
  const size_t item_bytes = first.itemsize();
  if (elements * blocks[0].count * item_bytes > kMaxConcatenatedBytes) {
    return std::nullopt;
  }
  at::Tensor result = at::detail::empty_cpu(sizes, first.scalar_type());
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [count, stride, length] = blocks[i];
    const auto* from =
        static_cast<const char*>(tensors[i]->toTensor().const_data_ptr());
    for (int64_t k = 0; k < count; ++k) {
      std::memcpy(to + k * elements * item_bytes,
                  from + k * stride * item_bytes, length * item_bytes);
    }
    to += length * item_bytes;
  }
  return result;
}

std::optional<at::Tensor> run_row_mean(const c10::IValue& operand,
                                       bool keeps_dimension) {
  if (!operand.isTensor() || !is_strided_cpu(operand.toTensor())) {
    return std::nullopt;
  }
  const at::Tensor& tensor = operand.toTensor();
  Blocks rows;
  if (tensor.scalar_type() != at::kFloat || tensor.dim() == 0 ||
      tensor.numel() == 0 || tensor.numel() > kMaxElements ||
      !set_blocks(tensor, tensor.dim() - 1, rows)) {
    return std::nullopt;
  }
  at::DimVector sizes(tensor.sizes());
  if (keeps_dimension) {
    sizes.back() = 1;
  } else {
    sizes.pop_back();
  }
  at::Tensor result = at::detail::empty_cpu(sizes, at::kFloat);
  auto* means = result.mutable_data_ptr<float>();
  const auto* values = tensor.const_data_ptr<float>();
  for (int64_t i = 0; i < rows.count; ++i) {
    means[i] = compute_mean(values + i * rows.stride, rows.elements);
  }
  return result;
}

}  // namespace

SmallKernel small_kernel_named(const std::string& name) {
  static const std::map<std::string, SmallKernel> kKernels = {
      {"add", SmallKernel::add},
      {"subtract", SmallKernel::subtract},
      {"multiply", SmallKernel::multiply},
      {"divide", SmallKernel::divide},
      {"negate", SmallKernel::negate},
      {"square", SmallKernel::square},
      {"reciprocal_root", SmallKernel::reciprocal_root},
      {"concatenate", SmallKernel::concatenate},
      {"row_mean", SmallKernel::row_mean},
  };
  const auto found = kKernels.find(name);
  TORCH_CHECK(found != kKernels.end(), "tpu: no small kernel is named ", name);
  return found->second;
}

std::optional<at::Tensor> run_small_kernel(
    SmallKernel kernel, c10::ArrayRef<const c10::IValue*> operands,
    const at::Tensor& target) {
  switch (kernel) {
    case SmallKernel::concatenate:
      return run_concatenate(operands.slice(0, operands.size() - 1),
                             operands.back()->toInt());
    case SmallKernel::row_mean:
      return run_row_mean(*operands[0], operands[2]->toBool());
    default:
      return run_elementwise(kernel, *operands[0],
                             operands.size() > 1 ? operands[1] : nullptr,
                             target);
  }
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/cpu_views.h"

#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace torch_google::tpu {
namespace {

using Numbers = at::DimVector;

at::Tensor with_geometry(const at::Tensor& source, c10::IntArrayRef sizes,
                         c10::IntArrayRef strides, int64_t offset) {
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(source.storage()), source.key_set(),
      source.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return view;
}

at::Tensor reshaped_view(const at::Tensor& source, c10::IntArrayRef requested) {
  const Numbers sizes = at::infer_size_dv(requested, source.numel());
  const auto strides =
      at::detail::computeStride(source.sizes(), source.strides(), sizes);
  TORCH_CHECK(strides.has_value(), "tpu: no view of sizes ", requested,
              " exists for a tensor of sizes ", source.sizes(), " and strides ",
              source.strides());
  return with_geometry(source, sizes, *strides, source.storage_offset());
}

at::Tensor permuted_view(const at::Tensor& source,
                         c10::IntArrayRef dimensions) {
  TORCH_CHECK(static_cast<int64_t>(dimensions.size()) == source.dim(),
              "tpu: a permutation of ", dimensions.size(),
              " dimensions for a tensor of ", source.dim());
  Numbers sizes;
  Numbers strides;
  for (const int64_t each : dimensions) {
    const int64_t dimension = at::maybe_wrap_dim(each, source.dim());
    sizes.push_back(source.size(dimension));
    strides.push_back(source.stride(dimension));
  }
  return with_geometry(source, sizes, strides, source.storage_offset());
}

at::Tensor transposed_view(const at::Tensor& source, int64_t first,
                           int64_t second) {
  first = at::maybe_wrap_dim(first, source.dim());
  second = at::maybe_wrap_dim(second, source.dim());
  Numbers sizes(source.sizes());
  Numbers strides(source.strides());
  if (source.dim() > 0) {
    std::swap(sizes[first], sizes[second]);
    std::swap(strides[first], strides[second]);
  }
  return with_geometry(source, sizes, strides, source.storage_offset());
}

at::Tensor expanded_view(const at::Tensor& source, c10::IntArrayRef requested) {
  TORCH_CHECK(static_cast<int64_t>(requested.size()) >= source.dim(),
              "tpu: a tensor of ", source.dim(), " dimensions expanded to ",
              requested.size());
  const auto geometry = at::inferExpandGeometry_dimvector(
      source.sizes(), source.strides(), requested);
  return with_geometry(source, geometry.sizes, geometry.strides,
                       source.storage_offset());
}

at::Tensor squeezed_view(const at::Tensor& source,
                         c10::IntArrayRef dimensions) {
  std::vector<bool> is_removed(static_cast<size_t>(source.dim()));
  for (const int64_t each : dimensions) {
    const int64_t dimension = at::maybe_wrap_dim(each, source.dim());
    if (source.dim() > 0) {
      is_removed[dimension] = source.size(dimension) == 1;
    }
  }
  Numbers sizes;
  Numbers strides;
  for (int64_t i = 0; i < source.dim(); ++i) {
    if (!is_removed[i]) {
      sizes.push_back(source.size(i));
      strides.push_back(source.stride(i));
    }
  }
  return with_geometry(source, sizes, strides, source.storage_offset());
}

at::Tensor unsqueezed_view(const at::Tensor& source, int64_t dimension) {
  dimension = at::maybe_wrap_dim(dimension, source.dim() + 1);
  Numbers sizes(source.sizes());
  Numbers strides(source.strides());
  const int64_t stride =
      dimension < source.dim() ? sizes[dimension] * strides[dimension] : 1;
  sizes.insert(sizes.begin() + dimension, 1);
  strides.insert(strides.begin() + dimension, stride);
  return with_geometry(source, sizes, strides, source.storage_offset());
}

at::Tensor selected_view(const at::Tensor& source, int64_t dimension,
                         int64_t index) {
  TORCH_CHECK_INDEX(source.dim() > 0,
                    "tpu: select on a tensor of no dimension");
  dimension = at::maybe_wrap_dim(dimension, source.dim());
  const int64_t size = source.size(dimension);
  TORCH_CHECK_INDEX(index >= -size && index < size, "tpu: index ", index,
                    " is out of range for dimension ", dimension, " of size ",
                    size);
  index = index < 0 ? index + size : index;
  Numbers sizes(source.sizes());
  Numbers strides(source.strides());
  const int64_t offset = source.storage_offset() + index * strides[dimension];
  sizes.erase(sizes.begin() + dimension);
  strides.erase(strides.begin() + dimension);
  return with_geometry(source, sizes, strides, offset);
}

at::Tensor sliced_view(const at::Tensor& source, int64_t dimension,
                       int64_t start, int64_t end, int64_t step) {
  TORCH_CHECK(source.dim() > 0 && step > 0, "tpu: no slice with step ", step,
              " of a tensor of ", source.dim(), " dimensions");
  dimension = at::maybe_wrap_dim(dimension, source.dim());
  const int64_t size = source.size(dimension);
  const auto within = [size](int64_t position) {
    position = position < 0 ? position + size : position;
    return std::clamp<int64_t>(position, 0, size);
  };
  start = within(start);
  end = std::max(within(end), start);
  Numbers sizes(source.sizes());
  Numbers strides(source.strides());
  const int64_t offset = source.storage_offset() + start * strides[dimension];
  sizes[dimension] = (end - start + step - 1) / step;
  strides[dimension] *= step;
  return with_geometry(source, sizes, strides, offset);
}

}  // namespace

View view_named(const std::string& name) {
  static const std::map<std::string, View> kKinds = {
      {"alias", View::alias},
      {"matrix_transpose", View::matrix_transpose},
      {"reshape", View::reshape},
      {"permute", View::permute},
      {"expand", View::expand},
      {"squeeze", View::squeeze},
      {"transpose", View::transpose},
      {"unsqueeze", View::unsqueeze},
      {"select", View::select},
      {"slice", View::slice},
  };
  const auto found = kKinds.find(name);
  TORCH_CHECK(found != kKinds.end(), "tpu: no view is named ", name);
  return found->second;
}

at::Tensor create_view(View kind, const at::Tensor& source,
                       c10::IntArrayRef numbers) {
  switch (kind) {
    case View::alias:
      return with_geometry(source, source.sizes(), source.strides(),
                           source.storage_offset());
    case View::matrix_transpose:
      TORCH_CHECK(source.dim() <= 2, "tpu: t() of a tensor of ", source.dim(),
                  " dimensions");
      return transposed_view(source, 0, source.dim() < 2 ? 0 : 1);
    case View::reshape:
      return reshaped_view(source, numbers);
    case View::permute:
      return permuted_view(source, numbers);
    case View::expand:
      return expanded_view(source, numbers);
    case View::squeeze:
      return squeezed_view(source, numbers);
    case View::transpose:
      return transposed_view(source, numbers.at(0), numbers.at(1));
    case View::unsqueeze:
      return unsqueezed_view(source, numbers.at(0));
    case View::select:
      return selected_view(source, numbers.at(0), numbers.at(1));
    case View::slice:
      return sliced_view(source, numbers.at(0), numbers.at(1), numbers.at(2),
                         numbers.at(3));
  }
  TORCH_INTERNAL_ASSERT(false, "tpu: an unknown kind of view");
}

}  // namespace torch_google::tpu

// SPDX-License-Identifier: Apache-2.0
// The operators torchvision::qnms and torchvision::qroi_align, which the pinned
// sources lack. They take the integers of quantized tensors. The sources have
// the same kernels for quantized tensors, as functions of this unit.

#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

at::Tensor qnms(const at::Tensor& dets, const at::Tensor& scores,
                double iou_threshold) {
  // The overlap of two boxes and the order of the scores do not depend on the
  // scales.
  return vision::ops::qnms_kernel(
      at::_make_per_tensor_quantized_tensor(dets, 1, 0),
      at::_make_per_tensor_quantized_tensor(scores, 1, 0), iou_threshold);
}

at::Tensor qroi_align(const at::Tensor& input, const at::Tensor& rois,
                      double input_scale, int64_t input_zero_point,
                      double rois_scale, int64_t rois_zero_point,
                      double spatial_scale, int64_t pooled_height,
                      int64_t pooled_width, int64_t sampling_ratio,
                      bool aligned) {
  const at::Tensor output = vision::ops::qroi_align_forward_kernel(
      at::_make_per_tensor_quantized_tensor(input, input_scale,
                                            input_zero_point),
      at::_make_per_tensor_quantized_tensor(rois, rois_scale, rois_zero_point),
      spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned);
  return output.int_repr();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(torchvision, library) {
  library.def(
      "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor");
  library.def(
      "qroi_align(Tensor input, Tensor rois, float input_scale, int "
      "input_zero_point, float rois_scale, int rois_zero_point, float "
      "spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
      "sampling_ratio, bool aligned) -> Tensor");
}

TORCH_LIBRARY_IMPL(torchvision, CPU, library) {
  library.impl("qnms", qnms);
  library.impl("qroi_align", qroi_align);
}

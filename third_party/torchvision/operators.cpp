// SPDX-License-Identifier: Apache-2.0
// All of torchvision's operators for the CPU as one translation unit, because
// parsing torch's headers takes longer than compiling the rest of each file.
// Several files define functions with the same name in an unnamed namespace, so
// macros rename these functions.

#include <ATen/ATen.h>
#include <torch/library.h>
#include <torch/types.h>

#include "torchvision/csrc/ops/cpu/deform_conv2d_kernel.cpp"
#include "torchvision/csrc/ops/cpu/nms_kernel.cpp"
#include "torchvision/csrc/ops/cpu/ps_roi_align_kernel.cpp"
#include "torchvision/csrc/ops/deform_conv2d.cpp"
#include "torchvision/csrc/ops/nms.cpp"
#include "torchvision/csrc/ops/ps_roi_align.cpp"
#include "torchvision/csrc/ops/ps_roi_pool.cpp"
#include "torchvision/csrc/ops/quantized/cpu/qnms_kernel.cpp"
#include "torchvision/csrc/ops/quantized/cpu/qroi_align_kernel.cpp"
#include "torchvision/csrc/ops/roi_align.cpp"
#include "torchvision/csrc/ops/roi_pool.cpp"
#include "torchvision/csrc/vision.cpp"

#define add ps_roi_pool_add
#include "torchvision/csrc/ops/cpu/ps_roi_pool_kernel.cpp"
#undef add

#define add roi_align_add
#define bilinear_interpolate_gradient roi_align_bilinear_interpolate_gradient
#include "torchvision/csrc/ops/cpu/roi_align_kernel.cpp"
#undef add
#undef bilinear_interpolate_gradient

#define add roi_pool_add
#include "torchvision/csrc/ops/cpu/roi_pool_kernel.cpp"
#undef add

// The operators that these sources lack.
#include "third_party/torchvision/box_iou_rotated.cpp"
#include "third_party/torchvision/quantized_operators.cpp"

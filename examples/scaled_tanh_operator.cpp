// SPDX-License-Identifier: Apache-2.0
//
// The operator torch.ops.torch_google_examples.scaled_tanh. This file compiles
// with the headers of torch's CPU wheel. scaled_tanh.py registers the parts
// that are simpler to write in Python.

#include <ATen/core/Tensor.h>
#include <ATen/ops/tanh.h>
#include <Python.h>
#include <torch/library.h>

#include "examples/scaled_tanh.h"

namespace {

at::Tensor on_cpu(const at::Tensor& x, double scale) {
  return at::tanh(x).mul_(scale);
}

// `stream` is torch.cuda.Stream.cuda_stream, passed as an integer because the
// CPU wheel lacks the headers of torch's C++ API for streams.
void launch(const at::Tensor& x, at::Tensor y, double scale, int64_t stream) {
  torch_google::examples::require_gpu();
  for (const at::Tensor& tensor : {x, y}) {
    TORCH_CHECK(
        tensor.is_cuda() && tensor.scalar_type() == at::kFloat &&
            tensor.is_contiguous(),
        "scaled_tanh: expected contiguous float32 tensors on cuda, found ",
        tensor.scalar_type(), " on ", tensor.device(),
        ". Convert them with .float(), ", ".contiguous() and .cuda()");
  }
  TORCH_CHECK(x.device() == y.device() && x.numel() == y.numel(),
              "scaled_tanh: x has ", x.numel(), " elements on ", x.device(),
              ", y ", y.numel(), " on ", y.device(),
              ". Make y with torch.empty_like(x)");
  torch_google::examples::launch_scaled_tanh(
      x.const_data_ptr<float>(), y.mutable_data_ptr<float>(), x.numel(),
      static_cast<float>(scale), x.get_device(),
      reinterpret_cast<void*>(stream));
}

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "_scaled_tanh",
                      nullptr,
                      -1,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

TORCH_LIBRARY(torch_google_examples, library) {
  library.def("scaled_tanh(Tensor x, float scale) -> Tensor");
  library.def(
      "scaled_tanh_launch(Tensor x, Tensor(a!) y, float scale, int stream) -> "
      "()");
}

TORCH_LIBRARY_IMPL(torch_google_examples, CPU, library) {
  library.impl("scaled_tanh", on_cpu);
}

TORCH_LIBRARY_IMPL(torch_google_examples, CUDA, library) {
  library.impl("scaled_tanh_launch", launch);
}

// Importing the module registers the operator.
PyMODINIT_FUNC PyInit__scaled_tanh(void) { return PyModule_Create(&module); }

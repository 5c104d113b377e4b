// SPDX-License-Identifier: Apache-2.0
// What a failed check of torch's carries: the file, below the folder that
// upstream builds in.
extern "C" const char* where() {
  return "/somewhere/pytorch/aten/src/ATen/native/cpu/kernel.cpp.AVX2.cpp";
}

// SPDX-License-Identifier: Apache-2.0
// The file name that a failed torch check reports: a path below upstream's
// build directory.
extern "C" const char* where() {
  return "/somewhere/pytorch/aten/src/ATen/native/cpu/kernel.cpp.AVX2.cpp";
}

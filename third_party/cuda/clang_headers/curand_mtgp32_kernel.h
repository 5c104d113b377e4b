// SPDX-License-Identifier: Apache-2.0
//
// Intentionally empty. Clang's __clang_cuda_runtime_wrapper.h includes the
// header of this name in each compilation, to change two declarations in it.
// NVIDIA ships it with cuRAND, which is in another wheel and which few kernels
// use. This folder is last in the search order (-idirafter), so a target that
// has cuRAND's headers gets the real one.

// SPDX-License-Identifier: Apache-2.0
//
// Intentionally empty. In each compilation, clang's
// __clang_cuda_runtime_wrapper.h includes the cuRAND header with the same name
// as this file, to change two of its declarations. Few kernels use cuRAND, and
// @cuda does not contain it. This folder is last in the search order
// (-idirafter), so a target with cuRAND's headers gets the real one.

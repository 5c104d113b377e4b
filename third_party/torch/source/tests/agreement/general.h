// SPDX-License-Identifier: Apache-2.0
#ifndef THIRD_PARTY_TORCH_SOURCE_TESTS_AGREEMENT_GENERAL_H_
#define THIRD_PARTY_TORCH_SOURCE_TESTS_AGREEMENT_GENERAL_H_

struct Graph {
  int nodes;
};

// For a non-const Graph, the compiler prefers this overload to robbed.cpp's own
// function, which takes a const reference.
int Cleaned(Graph& graph);

#endif  // THIRD_PARTY_TORCH_SOURCE_TESTS_AGREEMENT_GENERAL_H_

// SPDX-License-Identifier: Apache-2.0
#include "third_party/torch/source/tests/agreement/neighbour.cpp"
#include "third_party/torch/source/tests/agreement/peaceful.cpp"

// SPDX-License-Identifier: Apache-2.0
#include "third_party/torch/source/tests/agreement/general.h"

int Cleaned(Graph& graph) { return graph.nodes = 0; }

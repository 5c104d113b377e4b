// SPDX-License-Identifier: Apache-2.0
// Calls its own function, unless an earlier file of the same translation unit
// includes general.h.

struct Graph;

namespace {
int Cleaned(const Graph& graph) { return sizeof(&graph); }

const auto once = [](Graph& graph) { return Cleaned(graph); };
}  // namespace

int Robbed(Graph& graph) { return once(graph); }

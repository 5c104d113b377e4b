// SPDX-License-Identifier: Apache-2.0
// Calls this file's own function, unless an earlier file in the same
// translation unit includes general.h.

struct Graph;

namespace {
int Cleaned(const Graph& graph) { return sizeof(&graph); }

const auto once = [](Graph& graph) { return Cleaned(graph); };
}  // namespace

int Robbed(Graph& graph) { return once(graph); }

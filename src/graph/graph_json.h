// The file form of a Graph: NAME.graph.json, described in docs/formats.md.

#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace graphpipe {

// Parses and validates. Throws InputError("FILE: /ops/3/kind", ...).
Graph parse_graph(std::string_view json, const std::string& file);
std::string to_json(const Graph& graph);  // parse_graph(to_json(g)) equals g

}  // namespace graphpipe

// Values of parameters as a file: NAME.safetensors, the public form of that name
// (docs/formats.md). Graphs, jobs and other programs exchange weights by it.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace graphpipe {

struct WeightValues {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const std::string> values;  // as Parameter::values
};
using Weights = std::map<std::string, WeightValues, std::less<>>;  // by parameter name

// What is given of the graph's parameters.
Weights given_weights(const Graph& graph);
// Every parameter whose values are given has those of `weights` from then on. Throws
// InputError(where, ...) where one is missing or has another type or shape; what the graph
// does not ask for is left alone.
void attach_weights(Graph& graph, const Weights& weights, const std::string& where);
// As attach_weights(), and parameters of `weights` that are not given become so.
void start_from_weights(Graph& graph, const Weights& weights, const std::string& where);

std::string to_safetensors(const Weights& weights);
// Throws InputError(file, ...) where it is none, or overlaps or has holes.
Weights parse_safetensors(std::string_view bytes, const std::string& file);

}  // namespace graphpipe

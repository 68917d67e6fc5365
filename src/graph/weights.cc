#include "graph/weights.h"

#include <fmt/format.h>

#include "base/error.h"

namespace graphpipe {
namespace {

std::string type_text(DType dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} ({})", dtype_name(dtype), fmt::join(shape, ", "));
}

void attach(Parameter& param, const WeightValues& found, const std::string& where) {
  if (found.dtype != param.dtype || found.shape != param.shape) {
    throw InputError(where, fmt::format("\"{}\" is {}, expected {}", param.name,
                                        type_text(found.dtype, found.shape),
                                        type_text(param.dtype, param.shape)));
  }
  param.init = {InitKind::kGiven, 0};
  param.values = found.values;
}

}  // namespace

Weights given_weights(const Graph& graph) {
  Weights weights;
  for (const Parameter& param : graph.params) {
    if (param.values) weights[param.name] = {param.dtype, param.shape, param.values};
  }
  return weights;
}

void attach_weights(Graph& graph, const Weights& weights, const std::string& where) {
  for (Parameter& param : graph.params) {
    if (param.init.kind != InitKind::kGiven) continue;
    const auto found = weights.find(param.name);
    if (found == weights.end()) {
      throw InputError(where, fmt::format("has no values of parameter \"{}\"", param.name));
    }
    attach(param, found->second, where);
  }
}

void start_from_weights(Graph& graph, const Weights& weights, const std::string& where) {
  for (Parameter& param : graph.params) {
    const auto found = weights.find(param.name);
    if (found != weights.end()) attach(param, found->second, where);
  }
}

}  // namespace graphpipe

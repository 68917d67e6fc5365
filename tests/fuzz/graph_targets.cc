#include <fmt/format.h>

#include "base/error.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "fuzz/targets.h"
#include "graph/graph_json.h"
#include "graph/order.h"
#include "graph/series_parallel.h"
#include "graph/weights.h"

namespace graphpipe::fuzz {
namespace {

constexpr std::int64_t kSamples = 8;

// What planners ask of a graph.
void use(const Graph& graph) {
  const AnalyticCosts costs;
  const Cluster cluster = preset_cluster("summit:2");
  const std::vector<bool> needs = needs_gradient(graph);
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    GP_CHECK(!op_signature(graph, OpId(i)).empty(), "operator {}", i);
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      if (phase == Phase::kBackward && !has_backward(graph.ops[i], needs)) continue;
      const OpCost cost = costs.op_cost(graph, OpId(i), kSamples, 1, cluster.types.front(), phase);
      GP_CHECK(cost.seconds >= 0 && cost.workspace_bytes >= 0 && cost.saved_bytes >= 0,
               "operator {} takes {} s, {} and {} bytes", i, cost.seconds, cost.workspace_bytes,
               cost.saved_bytes);
    }
  }
  const Reachability reachable(graph);
  decompose_series_parallel(graph);
}

}  // namespace

void graph(std::string_view input) {
  const Graph graph = parse_graph(input, "file");
  const std::string text = to_json(graph);
  const Graph again = parse_graph(text, "again");
  GP_CHECK(to_json(again) == text && graph_hash(again) == graph_hash(graph), "another graph");
  use(graph);
}

void safetensors(std::string_view input) {
  const Weights weights = parse_safetensors(input, "file");
  const std::string bytes = to_safetensors(weights);
  GP_CHECK(to_safetensors(parse_safetensors(bytes, "again")) == bytes, "other weights");
}

}  // namespace graphpipe::fuzz

#include "runtime/stage_work.h"

#include <algorithm>
#include <map>
#include <utility>

namespace graphpipe {
namespace {

void sort_unique(std::vector<TensorId>& tensors) {
  std::ranges::sort(tensors);
  const auto repeats = std::ranges::unique(tensors);
  tensors.erase(repeats.begin(), repeats.end());
}

}  // namespace

StageWork::StageWork(const Graph& graph, const Plan& plan, StageId stage) {
  find_inputs_and_outputs(graph, plan, stage);
  find_watched(graph, plan.stage(stage).ops);
}

void StageWork::find_inputs_and_outputs(const Graph& graph, const Plan& plan, StageId stage) {
  const std::vector<bool> needs = needs_gradient(graph);
  std::vector<TensorId> of_graph;
  for (const OpId op : plan.stage(stage).ops) {
    for (const TensorId tensor : graph.op(op).inputs) {
      if (!graph.tensor(tensor).producer.valid()) of_graph.push_back(tensor);
    }
  }
  sort_unique(of_graph);
  for (const TensorId tensor : of_graph) inputs_.push_back({tensor, EdgeId(), false});

  std::map<TensorId, std::vector<EdgeId>> leaving;
  for (std::size_t i = 0; i < plan.edges.size(); ++i) {
    const StageEdge& edge = plan.edges[i];
    for (const TensorId tensor : edge.tensors) {
      const bool gradient = edge.gradient && needs[tensor.index()];
      if (edge.to == stage) inputs_.push_back({tensor, EdgeId(i), gradient});
      if (edge.from != stage) continue;
      std::vector<EdgeId>& gradient_edges = leaving[tensor];
      if (gradient) gradient_edges.push_back(EdgeId(i));
    }
  }
  for (auto& [tensor, edges] : leaving) outputs_.push_back({tensor, std::move(edges)});
}

void StageWork::find_watched(const Graph& graph, const std::vector<OpId>& ops) {
  const auto watch = [&](TensorId tensor) {
    if (std::ranges::binary_search(ops, graph.tensor(tensor).producer)) watched_.push_back(tensor);
  };
  for (const Loss& loss : graph.losses) watch(loss.tensor);
  for (const Metric& metric : graph.metrics) watch(metric.tensor);
  sort_unique(watched_);
}

}  // namespace graphpipe

#include "report/like_stages.h"

#include <cmath>

namespace graphpipe {

namespace {

constexpr double kLikeTime = 0.01;

std::int64_t weights_bytes(const Stage& stage, const Graph& graph) {
  std::int64_t bytes = 0;
  for (const OpId op : stage.ops) {
    for (const ParamId param : graph.op(op).params) bytes += param_bytes(graph.param(param));
  }
  return bytes;
}

bool alike(const Stage& a, const Stage& b, const Graph& graph) {
  return a.ops.size() == b.ops.size() && weights_bytes(a, graph) == weights_bytes(b, graph) &&
         a.devices.size() == b.devices.size() && a.replication == b.replication &&
         a.micro_batch == b.micro_batch && a.recompute == b.recompute;
}

// The edge from each stage to the next, where that is the one's only way out and the other's
// only way in.
std::vector<const StageEdge*> links(const Plan& plan) {
  std::vector<int> out(plan.stages.size());
  std::vector<int> in(plan.stages.size());
  std::vector<const StageEdge*> link(plan.stages.size());
  for (const StageEdge& edge : plan.edges) {
    ++out[edge.from.index()];
    ++in[edge.to.index()];
    if (edge.to.index() == edge.from.index() + 1) link[edge.from.index()] = &edge;
  }
  for (std::size_t s = 0; s + 1 < link.size(); ++s) {
    if (out[s] != 1 || in[s + 1] != 1) link[s] = nullptr;
  }
  return link;
}

}  // namespace

std::int64_t edge_bytes(const StageEdge& edge, const Graph& graph) {
  std::int64_t bytes = 0;
  for (const TensorId tensor : edge.tensors) bytes += tensor_bytes(graph.tensor(tensor), 1);
  return bytes;
}

std::vector<StageRange> like_stages(const Plan& plan, const Graph& graph,
                                    const std::vector<double>& time_s) {
  const std::vector<const StageEdge*> link = links(plan);
  const auto same_edge = [&](const StageEdge& a, const StageEdge& b) {
    return a.kind == b.kind && a.gradient == b.gradient &&
           edge_bytes(a, graph) == edge_bytes(b, graph);
  };
  std::vector<StageRange> ranges;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const bool goes_on = [&] {
      if (s == 0 || link[s - 1] == nullptr || !alike(plan.stages[s - 1], plan.stages[s], graph)) {
        return false;
      }
      const std::size_t first = ranges.back().first;
      return std::abs(time_s[s] - time_s[first]) <= kLikeTime * time_s[first] &&
             same_edge(*link[first], *link[s - 1]);
    }();
    if (goes_on) {
      ranges.back().last = s;
    } else {
      ranges.push_back({s, s});
    }
  }
  return ranges;
}

std::vector<StageRange> single_stages(const Plan& plan) {
  std::vector<StageRange> ranges;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) ranges.push_back({s, s});
  return ranges;
}

}  // namespace graphpipe

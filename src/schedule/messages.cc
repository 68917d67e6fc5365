#include "schedule/messages.h"

#include <algorithm>

#include "plan/stage_memory.h"

namespace graphpipe {
namespace {

std::vector<std::vector<EdgeId>> only(const std::vector<std::vector<EdgeId>>& edges,
                                      const std::vector<bool>& wanted) {
  std::vector<std::vector<EdgeId>> result(edges.size());
  for (std::size_t s = 0; s < edges.size(); ++s) {
    std::ranges::copy_if(edges[s], std::back_inserter(result[s]),
                         [&](EdgeId e) { return wanted[e.index()]; });
  }
  return result;
}

}  // namespace

MessageMap::MessageMap(const Plan& plan, const Graph& graph, const Schedule& schedule)
    : plan_(plan), graph_(graph), needs_(needs_gradient(graph)), samples_(schedule.samples) {
  backward_ = schedule.training ? stages_with_backward(plan, graph)
                                : std::vector<bool>(plan.stages.size(), false);
  StageEdges edges = stage_edges(plan);
  const std::vector<bool> back = edges_with_backward(plan, backward_);
  in_back_ = only(edges.in, back);
  out_back_ = only(edges.out, back);
  in_ = std::move(edges.in);
  out_ = std::move(edges.out);
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::size_t device = schedule.ranks[r].device.index();
    if (rank_of_device_.size() <= device) rank_of_device_.resize(device + 1);
    rank_of_device_[device] = RankId(r);
  }
  for (const StageEdge& edge : plan.edges) windows_.push_back(channel_window_samples(plan, edge));
  sizes_.resize(2 * plan.edges.size());
}

StageId MessageMap::peer_stage(EdgeId edge, StageId stage) const {
  const StageEdge& ends = plan_.edge(edge);
  return ends.from == stage ? ends.to : ends.from;
}

std::int64_t MessageMap::bytes(EdgeId edge, Direction direction, std::int64_t samples) const {
  const bool backward = direction == Direction::kBackward;
  auto& known = sizes_[2 * edge.index() + (backward ? 1 : 0)];
  for (const auto& [asked, bytes] : known) {
    if (asked == samples) return bytes;
  }
  known.emplace_back(samples, message_bytes(graph_, needs_, plan_.edge(edge), samples, backward));
  return known.back().second;
}

}  // namespace graphpipe

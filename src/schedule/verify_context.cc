#include <algorithm>

#include "base/error.h"
#include "schedule/owner_map.h"
#include "schedule/verify_passes.h"

namespace graphpipe {
namespace {

constexpr int kMostFaultsOfARule = 5;

}  // namespace

void FaultList::add(const std::string& rule, const std::string& where, const std::string& message) {
  if (++counts_[rule] <= kMostFaultsOfARule) faults_.push_back({rule, where, message});
}

std::vector<Fault> FaultList::sorted() const {
  std::vector<Fault> result = faults_;
  for (const auto& [rule, count] : counts_) {
    if (count <= kMostFaultsOfARule) continue;
    result.push_back({rule, "elsewhere", fmt::format("{} more", count - kMostFaultsOfARule)});
  }
  std::ranges::stable_sort(result, {}, &Fault::rule);
  return result;
}

VerifyContext::VerifyContext(const Schedule& a_schedule, const Plan& a_plan, const Graph& a_graph)
    : schedule(a_schedule),
      plan(a_plan),
      graph(a_graph),
      placed(placements(a_plan)),
      edges(stage_edges(a_plan)),
      backward(a_schedule.training ? stages_with_backward(a_plan, a_graph)
                                   : std::vector<bool>(a_plan.stages.size(), false)),
      recompute(stages_that_recompute(a_plan, backward)),
      edge_backward(edges_with_backward(a_plan, backward)) {}

std::string VerifyContext::place(RankId rank, std::int64_t position, const Action& action) const {
  return fmt::format("rank {}, action {}: {}", rank.value, position, to_text(action, plan));
}

SampleRange VerifyContext::task_samples(const Action& action) const {
  return replica_samples(plan.stage(action.stage), action.replica, action.micro_batch,
                         schedule.samples);
}

std::vector<VerifyContext::Part> VerifyContext::parts(EdgeId edge, StageId stage, RankId rank,
                                                      SampleRange x) const {
  const StageEdge& ends = plan.edge(edge);
  const Stage& peer = plan.stage(ends.from == stage ? ends.to : ends.from);
  std::vector<Part> result;
  for (const OwnedPart& part : owned_parts(peer, x, schedule.samples)) {
    const RankId at = schedule.rank_of(peer.devices[static_cast<std::size_t>(part.replica)]);
    if (at != rank) result.push_back({at, part.samples});
  }
  return result;
}

std::vector<OwnedPart> VerifyContext::local_parts(EdgeId edge, StageId stage, RankId rank,
                                                  SampleRange x) const {
  const StageEdge& ends = plan.edge(edge);
  const Stage& peer = plan.stage(ends.from == stage ? ends.to : ends.from);
  std::vector<OwnedPart> result;
  for (const OwnedPart& part : owned_parts(peer, x, schedule.samples)) {
    const RankId at = schedule.rank_of(peer.devices[static_cast<std::size_t>(part.replica)]);
    if (at == rank) result.push_back(part);
  }
  return result;
}

std::vector<EdgeId> VerifyContext::incoming_edges(StageId stage, Direction direction) const {
  if (direction == Direction::kForward) return edges.in[stage.index()];
  std::vector<EdgeId> result = edges.out[stage.index()];
  std::erase_if(result, [&](EdgeId e) { return !edge_backward[e.index()]; });
  return result;
}

std::vector<EdgeId> VerifyContext::outgoing_edges(StageId stage, Direction direction) const {
  if (direction == Direction::kForward) return edges.out[stage.index()];
  std::vector<EdgeId> result = edges.in[stage.index()];
  std::erase_if(result, [&](EdgeId e) { return !edge_backward[e.index()]; });
  return result;
}

}  // namespace graphpipe

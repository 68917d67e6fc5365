// Which messages a task takes part in: the intersections of what producer and consumer
// compute. Used by lowering, and by nothing else, so that the verifier checks it by its
// own means.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/schedule.h"

namespace graphpipe {

// A message, seen from one of its ends.
struct Message {
  EdgeId edge;
  Direction direction = Direction::kForward;
  RankId peer;
  SampleRange samples;
};

// What is fixed for a schedule of a plan.
class MessageMap {
 public:
  MessageMap(const Plan& plan, const Graph& graph, const Schedule& schedule);

  // Edges over which messages of this direction reach the stage, or leave it, ascending.
  const std::vector<EdgeId>& incoming_edges(StageId stage, Direction direction) const {
    return (direction == Direction::kForward ? in_ : out_back_)[stage.index()];
  }
  const std::vector<EdgeId>& outgoing_edges(StageId stage, Direction direction) const {
    return (direction == Direction::kForward ? out_ : in_back_)[stage.index()];
  }

  // use(peer, samples) for each message over the edge that a task of the stage on the rank
  // over samples `x` takes part in: the parts that other ranks compute at the other end.
  template <typename Use>
  void for_each_message(EdgeId edge, StageId stage, RankId rank, SampleRange x, Use use) const {
    const Stage& peer = plan_.stage(peer_stage(edge, stage));
    for (const OwnedPart& part : owned_parts(peer, x, samples_)) {
      const RankId peer_rank = rank_of(peer.devices[static_cast<std::size_t>(part.replica)]);
      if (peer_rank != rank) use(peer_rank, part.samples);
    }
  }

  // use(message) for each that the task needs before it runs (incoming) or gives rise to, by
  // edge, then by sample. Those of a forward go with the direction of the edges, those of a
  // backward against it.
  template <typename Use>
  void for_each_incoming(StageId stage, RankId rank, Direction direction, SampleRange x,
                         Use use) const {
    for (const EdgeId edge : incoming_edges(stage, direction)) {
      for_each_message(edge, stage, rank, x, [&](RankId peer, SampleRange samples) {
        use(Message{edge, direction, peer, samples});
      });
    }
  }
  template <typename Use>
  void for_each_outgoing(StageId stage, RankId rank, Direction direction, SampleRange x,
                         Use use) const {
    for (const EdgeId edge : outgoing_edges(stage, direction)) {
      for_each_message(edge, stage, rank, x, [&](RankId peer, SampleRange samples) {
        use(Message{edge, direction, peer, samples});
      });
    }
  }

  // The stage at the other end from `stage`.
  StageId peer_stage(EdgeId edge, StageId stage) const;
  RankId rank_of(DeviceId device) const { return rank_of_device_[device.index()]; }

  std::int64_t window_samples(EdgeId edge) const { return windows_[edge.index()]; }
  std::int64_t bytes(EdgeId edge, Direction direction, std::int64_t samples) const;
  bool has_backward(StageId stage) const { return backward_[stage.index()]; }
  const Plan& plan() const { return plan_; }
  std::int64_t samples() const { return samples_; }

 private:
  const Plan& plan_;
  const Graph& graph_;
  std::vector<bool> needs_;  // needs_gradient()
  std::int64_t samples_;
  std::vector<bool> backward_;           // [stage]: runs backwards in this schedule
  std::vector<std::vector<EdgeId>> in_;  // [stage]
  std::vector<std::vector<EdgeId>> out_;
  std::vector<std::vector<EdgeId>> in_back_;  // those whose messages also go back
  std::vector<std::vector<EdgeId>> out_back_;
  std::vector<RankId> rank_of_device_;
  std::vector<std::int64_t> windows_;  // [edge]
  // Sizes that were asked for: [2 edge + direction] -> (samples, bytes). Few are distinct.
  mutable std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> sizes_;
};

}  // namespace graphpipe

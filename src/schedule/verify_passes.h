// The passes of the verifier, each over programs that the earlier ones found sound enough
// to look at. What must hold is derived here from the plan and the owner map, not from
// the code that lowers.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/verify.h"

namespace graphpipe {

// Faults in the order of their rules; of one rule at most a few, and how many more there are.
class FaultList {
 public:
  void add(const std::string& rule, const std::string& where, const std::string& message);
  bool has(const std::string& rule) const { return counts_.contains(rule); }
  bool empty() const { return counts_.empty(); }
  std::vector<Fault> sorted() const;

 private:
  std::vector<Fault> faults_;
  std::map<std::string, int> counts_;
};

struct VerifyContext {
  VerifyContext(const Schedule& schedule, const Plan& plan, const Graph& graph);

  const Schedule& schedule;
  const Plan& plan;
  const Graph& graph;
  std::vector<std::vector<Placement>> placed;  // [rank]
  StageEdges edges;
  std::vector<bool> backward;       // [stage]: runs backwards in this schedule
  std::vector<bool> recompute;      // [stage]: and forwards again before them
  std::vector<bool> edge_backward;  // [edge]: messages go back over it

  // "rank 1, action 17: recv 0>2 F [4,8)"
  std::string place(RankId rank, std::int64_t position, const Action& action) const;
  // The samples of a task of this action's stage, replica and micro-batch.
  SampleRange task_samples(const Action& action) const;
  // Parts of samples `x` that the stage at the other end of the edge computes on other
  // ranks, with those ranks: what the messages of a task over the edge have to carry.
  struct Part {
    RankId peer;
    SampleRange samples;
  };
  std::vector<Part> parts(EdgeId edge, StageId stage, RankId rank, SampleRange x) const;
  // Parts that it computes on this rank: values without a message.
  std::vector<OwnedPart> local_parts(EdgeId edge, StageId stage, RankId rank, SampleRange x) const;
  // Edges over which messages of this direction reach the stage, or leave it.
  std::vector<EdgeId> incoming_edges(StageId stage, Direction direction) const;
  std::vector<EdgeId> outgoing_edges(StageId stage, Direction direction) const;
};

// V6, and ids that exist: whether the other passes may run at all.
void verify_structure(const VerifyContext& context, FaultList& faults);
// V7 of tasks.
void verify_tasks(const VerifyContext& context, FaultList& faults);
// V4, and V7 of messages. Whether on every rank two repetitions began with the same values
// alive (true without a period).
bool verify_values(const VerifyContext& context, FaultList& faults);
// V1 and V2.
void verify_messages(const VerifyContext& context, FaultList& faults);
// V3. Requires: V1, V2, V4 and V8 hold.
struct WaitResult {
  bool repeats = false;  // two repetitions began with all ranks in the same state
  std::int64_t steps = 0;
};
WaitResult verify_waits(const VerifyContext& context, FaultList& faults);
// V8.
void verify_updates(const VerifyContext& context, FaultList& faults);
void verify_stream_updates(const VerifyContext& context, FaultList& faults);  // of those, streams
// V5. Requires: V4 and V7 hold.
std::vector<RankMemory> verify_memory(const VerifyContext& context, const Cluster& cluster,
                                      const CostModel& costs, FaultList& faults);

}  // namespace graphpipe

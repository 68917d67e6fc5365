#include "schedule/in_flight.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/divide_up.h"
#include "schedule/drawing.h"

namespace graphpipe {
namespace {

// What ends a stage's samples: the last kind of task that it has.
std::map<StageId, ActionKind> last_kinds(const Trace& trace) {
  std::map<StageId, ActionKind> last;
  const auto rank_of = [](ActionKind kind) {
    if (kind == ActionKind::kBackwardWeight) return 3;
    if (kind == ActionKind::kBackward) return 2;
    return kind == ActionKind::kForward ? 1 : 0;
  };
  for (const TraceEvent& event : trace.events) {
    if (rank_of(event.action.kind) == 0) continue;
    ActionKind& kind = last.emplace(event.action.stage, event.action.kind).first->second;
    if (rank_of(event.action.kind) > rank_of(kind)) kind = event.action.kind;
  }
  return last;
}

}  // namespace

std::vector<InFlightSample> in_flight_over_time(const Trace& trace) {
  const std::map<StageId, ActionKind> last = last_kinds(trace);
  std::vector<InFlightSample> changes;
  for (const TraceEvent& event : trace.events) {
    const Action& a = event.action;
    if (!is_compute(a.kind)) continue;
    if (a.kind == ActionKind::kForward) {
      changes.push_back({event.rank, event.start_s, a.samples.size()});
    }
    const auto ends = last.find(a.stage);
    if (ends != last.end() && a.kind == ends->second)
      changes.push_back({event.rank, event.end_s, -a.samples.size()});
  }
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
    return std::tie(a.time_s, a.rank) < std::tie(b.time_s, b.rank);
  });
  std::map<RankId, std::int64_t> held;
  std::vector<InFlightSample> counts;
  for (const InFlightSample& change : changes) {
    const std::int64_t now = held[change.rank] += change.samples;
    const bool same_time = !counts.empty() && counts.back().rank == change.rank &&
                           counts.back().time_s == change.time_s;
    if (same_time) {
      counts.back().samples = now;
    } else {
      counts.push_back({change.rank, change.time_s, now});
    }
  }
  return counts;
}

std::vector<std::int64_t> in_flight_limits(const Schedule& schedule, const Plan& plan) {
  std::vector<std::int64_t> limits(schedule.ranks.size(), 0);
  for (const Stage& stage : plan.stages) {
    const auto width = static_cast<std::int64_t>(stage.devices.size());
    const std::int64_t tasks = divide_up(stage.in_flight_samples, stage.micro_batch);
    // Split replicas have up to a sample more of each micro-batch than others.
    const std::int64_t share = stage.replication == Replication::kSplit
                                   ? divide_up(stage.micro_batch, width) * tasks
                                   : divide_up(tasks, width) * stage.micro_batch;
    for (const DeviceId device : stage.devices) {
      const RankId rank = schedule.rank_of(device);
      if (rank.valid()) limits[rank.index()] += share;
    }
  }
  return limits;
}

}  // namespace graphpipe

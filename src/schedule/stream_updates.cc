#include "schedule/stream_updates.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/weight_versions.h"
#include "schedule/owner_map.h"
#include "schedule/trained_params.h"

namespace graphpipe {
namespace {

class StreamUpdates {
 public:
  StreamUpdates(const Plan& plan, const Graph& graph, std::int64_t samples)
      : rule_(plan),
        trained_(stages_with_trained_params(plan, graph)),
        micro_batches_(micro_batch_count(plan.stages[0], samples)) {}

  std::vector<Action> with_updates(const std::vector<Action>& actions) const {
    std::vector<Action> result;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      result.push_back(actions[i]);
      if (actions[i].kind != ActionKind::kBackward) continue;
      const std::size_t backward = i;
      while (i + 1 < actions.size() && actions[i + 1].kind == ActionKind::kStartSend) {
        result.push_back(actions[++i]);
      }
      if (trained_[actions[backward].stage.index()]) add_updates(actions[backward], result);
    }
    return result;
  }

 private:
  void add_updates(const Action& backward, std::vector<Action>& to) const {
    const std::int64_t done = backward.micro_batch + 1;
    const bool ends_stream = done == micro_batches_;
    const std::int64_t step = rule_.micro_batches_a_step();
    const std::int64_t kept_for = rule_.kept_for(backward.stage);
    const std::int64_t last_used = done - 1 - kept_for;
    if (last_used >= 0 && last_used % step == 0) add_drop(backward, last_used, to);
    if (ends_stream) {
      std::int64_t version = std::max<std::int64_t>(0, done - kept_for);
      for (version += (step - version % step) % step; version + step < done; version += step) {
        add_drop(backward, version, to);
      }
    }
    if (!rule_.ends_mini_batch(backward.micro_batch, micro_batches_)) return;
    const std::int64_t replaced = (done - 1) / step * step;
    if (rule_.outlives_its_step(backward.stage, replaced, micro_batches_)) {
      add(ActionKind::kMakeVersion, backward, replaced, to);
    }
    add(ActionKind::kStep, backward, done, to);
  }

  // One that outlived its step is there to be dropped.
  void add_drop(const Action& backward, std::int64_t version, std::vector<Action>& to) const {
    if (!rule_.outlives_its_step(backward.stage, version, micro_batches_)) return;
    add(ActionKind::kDropVersion, backward, version, to);
  }

  static void add(ActionKind kind, const Action& backward, std::int64_t version,
                  std::vector<Action>& to) {
    to.push_back({.kind = kind,
                  .stage = backward.stage,
                  .replica = backward.replica,
                  .micro_batch = version,
                  .samples = backward.samples});
  }

  VersionRule rule_;
  std::vector<bool> trained_;  // [stage]
  std::int64_t micro_batches_;
};

}  // namespace

void add_stream_updates(Schedule& schedule, const Plan& plan, const Graph& graph) {
  const StreamUpdates updates(plan, graph, schedule.samples);
  for (RankProgram& program : schedule.ranks) {
    for (std::vector<Action>* section : {&program.prologue, &program.period, &program.epilogue}) {
      *section = updates.with_updates(*section);
    }
  }
}

}  // namespace graphpipe

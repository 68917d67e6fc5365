#include "schedule/stream_updates.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "plan/weight_versions.h"
#include "schedule/buckets.h"
#include "schedule/owner_map.h"
#include "schedule/placement.h"
#include "schedule/replica_work.h"
#include "schedule/trained_params.h"

namespace graphpipe {
namespace {

// One rank's updates.
class StreamUpdates {
 public:
  StreamUpdates(const Schedule& schedule, const Plan& plan, const VersionRule& rule, RankId rank,
                const Placement& own)
      : schedule_(schedule),
        plan_(plan),
        rule_(rule),
        own_(own),
        work_(replica_work(plan, own, true, schedule.samples)),
        count_(micro_batch_count(plan.stage(own.stage), schedule.samples)),
        keeps_(plan.weights != WeightPolicy::kNaive) {
    for (std::size_t b = 0; b < schedule.buckets.size(); ++b) {
      if (std::ranges::binary_search(schedule.buckets[b].ranks, rank)) {
        buckets_.push_back(static_cast<int>(b));
      }
    }
  }

  void add_to(RankProgram& program) const {
    if (work_.tasks == 0) return add_steps(0, count_, program.epilogue);
    for (std::vector<Action>* section : {&program.prologue, &program.period, &program.epilogue}) {
      *section = with_updates(*section);
    }
  }

 private:
  std::vector<Action> with_updates(const std::vector<Action>& actions) const {
    std::vector<Action> result;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      result.push_back(actions[i]);
      if (actions[i].kind != ActionKind::kBackward) continue;
      const std::int64_t micro_batch = actions[i].micro_batch;
      while (i + 1 < actions.size() && actions[i + 1].kind == ActionKind::kStartSend) {
        result.push_back(actions[++i]);
      }
      add_updates(micro_batch, result);
    }
    return result;
  }

  // The replica's next micro-batch; count_ where there is none.
  std::int64_t next_own(std::int64_t micro_batch) const {
    const std::int64_t next = micro_batch + work_.stride;
    return next <= last_own() ? next : count_;
  }
  std::int64_t last_own() const { return work_.micro_batch(work_.tasks - 1); }

  // Behind the backward of this micro-batch.
  void add_updates(std::int64_t done, std::vector<Action>& to) const {
    const std::int64_t step = rule_.micro_batches_a_step(own_.stage);
    const std::int64_t newest = done / step * step;
    const std::int64_t used = rule_.version_of(own_.stage, done);
    const std::int64_t next = next_own(done);
    if (keeps_ && used != newest && !is_used(used, next)) {
      add(ActionKind::kDropVersion, used, to);
    }
    add_steps(newest, next, to);
  }

  // From the newest version on to all that need nothing from micro-batch `next` on.
  void add_steps(std::int64_t newest, std::int64_t next, std::vector<Action>& to) const {
    const std::int64_t step = rule_.micro_batches_a_step(own_.stage);
    while (newest < count_ && std::min(newest + step, count_) <= next) {
      const std::int64_t made = std::min(newest + step, count_);
      add_reductions(made, to);
      if (keeps_ && is_used(newest, next)) add(ActionKind::kMakeVersion, newest, to);
      add(ActionKind::kStep, made, to);
      newest = made;
    }
  }

  // By one of the replica's micro-batches from `next` on.
  bool is_used(std::int64_t version, std::int64_t next) const {
    for (std::int64_t i = next; i <= last_own() && i < count_; i += work_.stride) {
      const std::int64_t used = rule_.version_of(own_.stage, i);
      if (used >= version) return used == version;
    }
    return false;
  }

  void add_reductions(std::int64_t version, std::vector<Action>& to) const {
    std::deque<int> on_way;
    for (const int bucket : buckets_) {
      if (on_way.size() == kReductionsOnTheWay) {
        add_reduction(ActionKind::kWaitReduce, on_way.front(), version, to);
        on_way.pop_front();
      }
      add_reduction(ActionKind::kStartReduce, bucket, version, to);
      on_way.push_back(bucket);
    }
    for (const int bucket : on_way) add_reduction(ActionKind::kWaitReduce, bucket, version, to);
  }

  void add_reduction(ActionKind kind, int bucket, std::int64_t version,
                     std::vector<Action>& to) const {
    add(kind, version, to);
    to.back().bucket = bucket;
    to.back().bytes = schedule_.buckets[static_cast<std::size_t>(bucket)].bytes;
  }

  void add(ActionKind kind, std::int64_t version, std::vector<Action>& to) const {
    const std::int64_t last = std::max<std::int64_t>(0, version - 1);  // that it contains
    to.push_back(
        {.kind = kind,
         .stage = own_.stage,
         .replica = own_.replica,
         .micro_batch = version,
         .samples = micro_batch_samples(plan_.stage(own_.stage), last, schedule_.samples)});
  }

  const Schedule& schedule_;
  const Plan& plan_;
  const VersionRule& rule_;
  Placement own_;
  ReplicaWork work_;
  std::int64_t count_;  // micro-batches of the stream
  bool keeps_;          // versions, until the backward
  std::vector<int> buckets_;
};

}  // namespace

void add_stream_updates(Schedule& schedule, const Plan& plan, const Graph& graph) {
  schedule.buckets = reduction_buckets(plan, graph);
  const VersionRule rule(plan);
  const std::vector<bool> trained = stages_with_trained_params(plan, graph);
  const std::vector<std::vector<Placement>> placed = placements(plan);
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const Placement& own = placed[r].front();
    if (!trained[own.stage.index()]) continue;
    StreamUpdates(schedule, plan, rule, RankId(r), own).add_to(schedule.ranks[r]);
  }
}

}  // namespace graphpipe

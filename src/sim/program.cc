#include "sim/program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "schedule/memory_rule.h"
#include "schedule/task_seconds.h"
#include "schedule/transfer_seconds.h"

namespace graphpipe {

namespace {

// Ten digits tell durations apart that differ by a billionth, and leave room for a
// run of 900 million of the longest.
constexpr int kDigits = 9;
// The largest power of ten that a double holds exactly.
constexpr int kLargestPower = 22;

bool is_message(ActionKind kind) {
  return kind == ActionKind::kPostReceive || kind == ActionKind::kWaitReceive ||
         kind == ActionKind::kStartSend || kind == ActionKind::kWaitSend;
}

StepKind step_kind(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kRecompute:
      return StepKind::kCompute;
    case ActionKind::kPostReceive:
      return StepKind::kPostReceive;
    case ActionKind::kWaitReceive:
      return StepKind::kWaitReceive;
    case ActionKind::kStartSend:
      return StepKind::kStartSend;
    case ActionKind::kWaitSend:
      return StepKind::kWaitSend;
    case ActionKind::kStartReduce:
      return StepKind::kStartReduce;
    case ActionKind::kWaitReduce:
      return StepKind::kWaitReduce;
    case ActionKind::kFree:
    case ActionKind::kStep:
    case ActionKind::kMakeVersion:
    case ActionKind::kDropVersion:
      return StepKind::kInstant;
  }
  return StepKind::kInstant;
}

class Compiler {
 public:
  Compiler(const Schedule& schedule, const Plan& plan, const Graph& graph, const Cluster& cluster,
           const CostModel& costs, bool memory)
      : schedule_(schedule),
        plan_(plan),
        graph_(graph),
        cluster_(cluster),
        costs_(costs),
        memory_facts_(memory ? std::make_shared<MemoryFacts>(schedule, plan, graph, costs)
                             : nullptr),
        task_seconds_(schedule, plan, graph, cluster, costs),
        transfer_seconds_(schedule, cluster, costs) {}

  Programs compile() {
    find_channels();
    out_.clock = Clock(longest_s());
    out_.repeats = schedule_.repeats;
    for (const auto& [key, index] : channel_index_) add_channel(key);
    add_reductions();
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) add_rank(RankId(r));
    add_pools();
    return std::move(out_);
  }

 private:
  template <typename Use>
  void for_each_action(Use use) const {
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
      const RankProgram& program = schedule_.ranks[r];
      for (const auto* section : {&program.prologue, &program.period, &program.epilogue}) {
        for (const Action& action : *section) use(RankId(r), action);
      }
    }
  }

  void find_channels() {
    for_each_action([&](RankId rank, const Action& action) {
      if (is_message(action.kind)) channel_index_[channel_of(action, rank)] = 0;
    });
    int next = 0;
    for (auto& [key, index] : channel_index_) index = next++;
  }

  double seconds_of(RankId rank, const Action& action) {
    if (step_kind(action.kind) == StepKind::kCompute || action.kind == ActionKind::kStep) {
      return task_seconds_.of(rank, action);
    }
    if (action.kind != ActionKind::kStartSend) return 0;
    return transfer_seconds_.message_s(channel_of(action, rank), action.bytes);
  }

  double longest_s() {
    double longest = 0;
    for_each_action([&](RankId rank, const Action& action) {
      longest = std::max(longest, seconds_of(rank, action));
    });
    for (const auto& [key, index] : channel_index_) {
      longest = std::max(longest, transfer_seconds_.latency_s(key));
    }
    for (const Bucket& bucket : schedule_.buckets) {
      longest = std::max(longest, transfer_seconds_.reduction_s(bucket));
    }
    return longest;
  }

  void add_channel(const MessageChannel& key) {
    Channel channel;
    channel.from = key.from.value;
    channel.to = key.to.value;
    channel.latency = out_.clock.ticks(transfer_seconds_.latency_s(key));
    for (const Port& port : transfer_seconds_.ports(key)) {
      channel.ports.push_back(port_index(port));
    }
    out_.channels.push_back(std::move(channel));
  }

  int port_index(const Port& port) {
    const auto [found, added] = port_index_.try_emplace(port, static_cast<int>(port_index_.size()));
    out_.ports = static_cast<int>(port_index_.size());
    return found->second;
  }

  void add_reductions() {
    for (const Bucket& bucket : schedule_.buckets) {
      const int index = static_cast<int>(out_.reductions.size());
      Reduction reduction;
      reduction.duration = out_.clock.ticks(transfer_seconds_.reduction_s(bucket));
      for (const RankId rank : bucket.ranks) {
        reduction.holders.push_back(static_cast<int>(out_.holders.size()));
        out_.holders.push_back({index, rank.value});
      }
      out_.reductions.push_back(std::move(reduction));
    }
  }

  int holder_of(int bucket, RankId rank) const {
    for (const int holder : out_.reductions[static_cast<std::size_t>(bucket)].holders) {
      if (out_.holders[static_cast<std::size_t>(holder)].rank == rank.value) return holder;
    }
    GP_CHECK(false, "rank {} reduces bucket {}, which it does not hold", rank.value, bucket);
  }

  void add_rank(RankId rank) {
    const RankProgram& program = schedule_.ranks[rank.index()];
    Program compiled;
    std::optional<MemoryRule> memory;
    if (memory_facts_ != nullptr) {
      memory.emplace(schedule_, plan_, graph_, cluster_, costs_, rank, memory_facts_);
      compiled.static_bytes = memory->static_bytes();
    }
    const std::vector<Action>* sections[] = {&program.prologue, &program.period, &program.epilogue};
    for (int i = 0; i < 3; ++i) {
      compiled.sections[i].reserve(sections[i]->size());
      for (auto at = sections[i]->begin(); at != sections[i]->end();) {
        const Action& action = *at++;
        Step step = step_of(rank, action);
        if (memory) {
          const MemoryEffect effect = memory->of(action);
          step.held_bytes = effect.held_bytes;
          step.task_bytes = effect.task_bytes;
        }
        const auto within = at;
        while (at != sections[i]->end() && at->after.valid()) ++at;
        add_step(compiled.sections[i], rank, step, action, {within, at});
      }
    }
    out_.ranks.push_back(std::move(compiled));
  }

  // `within`: the reductions that happen while the step, a backward, goes on.
  void add_step(std::vector<Step>& steps, RankId rank, const Step& whole, const Action& action,
                std::span<const Action> within) {
    Step part = whole;
    part.task_bytes += std::exchange(part.held_bytes, 0);
    part.ends = 0;
    Ticks done = 0;
    for (std::size_t i = 0; i < within.size(); ++i) {
      const Ticks until = out_.clock.ticks(task_seconds_.until(rank, action, within[i].after));
      part.duration = std::clamp<Ticks>(until - done, 0, whole.duration - done);
      done += part.duration;
      steps.push_back(part);
      part.goes_on = true;
      Step reduction = step_of(rank, within[i]);
      reduction.ahead = static_cast<int>(i) + 1;
      reduction.ends = 0;
      steps.push_back(reduction);
    }
    part.held_bytes = whole.held_bytes;
    part.task_bytes = whole.task_bytes;
    part.duration = whole.duration - done;
    part.ends = static_cast<int>(within.size()) + 1;
    steps.push_back(part);
  }

  Step step_of(RankId rank, const Action& action) {
    Step step;
    step.kind = step_kind(action.kind);
    step.duration = out_.clock.ticks(seconds_of(rank, action));
    if (action.kind == ActionKind::kStep && step.duration > 0) {
      step.kind = StepKind::kCompute;
      step.drawn = false;
    }
    if (is_message(action.kind)) step.target = channel_index_.at(channel_of(action, rank));
    if (step.kind == StepKind::kStartReduce || step.kind == StepKind::kWaitReduce) {
      step.target = holder_of(action.bucket, rank);
    }
    return step;
  }

  void add_pools() {
    for (const std::vector<RankId>& ranks : transfer_seconds_.ranks_that_share_cores()) {
      for (const RankId rank : ranks) {
        out_.ranks[rank.index()].pool = static_cast<int>(out_.pool_cores.size());
      }
      out_.pool_cores.push_back(cluster_.cores_per_node);
    }
  }

  const Schedule& schedule_;
  const Plan& plan_;
  const Graph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  std::shared_ptr<MemoryFacts> memory_facts_;  // null: memory is not asked for
  Programs out_;
  std::map<MessageChannel, int> channel_index_;
  std::map<Port, int> port_index_;
  TaskSeconds task_seconds_;
  TransferSeconds transfer_seconds_;
};

}  // namespace

Clock::Clock(double longest_s) {
  const int magnitude = longest_s > 0 ? static_cast<int>(std::floor(std::log10(longest_s))) : 0;
  const int power = std::clamp(kDigits - magnitude, -kLargestPower, kLargestPower);
  multiply_ = power >= 0;
  scale_ = 1;
  for (int i = 0; i < std::abs(power); ++i) scale_ *= 10;  // exact up to kLargestPower
}

Ticks Clock::ticks(double seconds) const {
  return std::llround(multiply_ ? seconds * scale_ : seconds / scale_);
}

double Clock::seconds(Ticks ticks) const {
  const auto count = static_cast<double>(ticks);
  return multiply_ ? count / scale_ : count * scale_;
}

Programs compile(const Schedule& lowered, const Plan& plan, const Graph& graph,
                 const Cluster& cluster, const CostModel& costs, bool memory) {
  return Compiler(lowered, plan, graph, cluster, costs, memory).compile();
}

}  // namespace graphpipe

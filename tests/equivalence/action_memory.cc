#include "equivalence/action_memory.h"

#include "equivalence/partitions.h"
#include "runtime/counting_allocator.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/memory_rule.h"

namespace graphpipe {
namespace {

void count_actions(const Schedule& schedule, const Plan& plan, const Graph& graph,
                   const Cluster& cluster, const CostModel& costs, RankId rank,
                   std::vector<ActionMemory>& actions) {
  MemoryRule rule(schedule, plan, graph, cluster, costs, rank);
  std::int64_t now = rule.static_bytes();
  std::size_t i = 0;
  for (ActionCursor at(schedule, plan, rank); !at.done(); at.next()) {
    const MemoryEffect effect = rule.of(at.action());
    const std::int64_t before = now;
    now += effect.held_bytes;
    actions[i].counted_bytes = std::max(before, now + effect.task_bytes);
    ++i;
  }
}

}  // namespace

std::vector<std::vector<ActionMemory>> measure_actions(const Plan& plan, const Graph& graph,
                                                       const Dataset& dataset, const Lesson& lesson,
                                                       const CostModel& costs, TransportKind kind) {
  install_counting_allocator();
  std::vector<std::vector<ActionMemory>> ranks(static_cast<std::size_t>(devices_used(plan)));
  RankTrainerOptions options;
  options.train = lesson.options;
  // Ranks are threads: each has its own.
  static thread_local std::vector<ActionMemory>* actions = nullptr;
  const auto note_peak = [] {
    actions->back().measured_bytes = peak_tensor_bytes();
    reset_peak_tensor_bytes();
  };
  options.on_action = [&](const Action& action, std::int64_t, std::int64_t position, const char*) {
    if (position > 0) note_peak();
    actions->push_back({to_text(action, plan), 0, 0});
  };
  run_ranks(
      plan, graph, dataset, options,
      [&](RankTrainer& trainer, int rank) {
        actions = &ranks[static_cast<std::size_t>(rank)];
        for (std::size_t i = 0; i < lesson.batches.size(); ++i) {
          actions->clear();
          reset_peak_tensor_bytes();
          trainer.train(lesson.batches[i], static_cast<std::int64_t>(i), true, part_of(lesson, i));
        }
        if (!actions->empty()) note_peak();
      },
      kind);
  const auto samples = static_cast<std::int64_t>(lesson.batches.back().size());
  const Schedule schedule = lower(build_schedule(plan, graph, samples), plan, graph);
  const Cluster cluster = test_cluster(devices_used(plan));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    count_actions(schedule, plan, graph, cluster, costs, RankId(r), ranks[r]);
  }
  return ranks;
}

}  // namespace graphpipe

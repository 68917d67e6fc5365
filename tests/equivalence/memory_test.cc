// What a rank's tensors take is what the verifier says, by bytes measured operator by operator.
// Over sockets, where every message that is sent has been packed into memory of its own, as is
// counted: through shared memory a rank takes less, by what its peers had posted in time.

#include <gtest/gtest.h>

#include <algorithm>

#include "cost/analytic.h"
#include "cost/profile.h"
#include "data/dataset.h"
#include "equivalence/action_memory.h"
#include "equivalence/harness.h"
#include "equivalence/partitions.h"
#include "models/models.h"
#include "planners/planner.h"
#include "runtime/counting_allocator.h"
#include "runtime/profiler.h"

namespace graphpipe {
namespace {

struct MemoryCase {
  std::string model;
  std::string planner;
  int ranks;
  std::int64_t mini_batch;
  std::int64_t micro_batch;
  OptimizerKind optimizer = OptimizerKind::kSgd;
};

std::string name_of(const testing::TestParamInfo<MemoryCase>& c) {
  std::string name = c.param.model.substr(0, c.param.model.find(':')) + c.param.planner;
  std::erase(name, '-');
  return name + std::to_string(c.param.ranks);
}

// Bytes alone: what the times come to is of no matter here.
Profile profile_of(const Graph& graph, std::int64_t micro_batch) {
  Profile profile;
  for (const auto& [signature, op] : representatives(graph)) {
    for (const std::int64_t samples : {micro_batch / 2, micro_batch}) {
      profile.entries[signature].points.push_back(measure_op(graph, op, samples, 1, 0));
    }
  }
  return profile;
}

class Memory : public testing::TestWithParam<MemoryCase> {
 protected:
  // [rank][action] of the case's plan, run by this schedule.
  static std::vector<std::vector<ActionMemory>> measure(ScheduleKind schedule) {
    install_counting_allocator();
    const MemoryCase& c = GetParam();
    const Graph graph = load_model(c.model);
    const ProfiledCosts costs(profile_of(graph, c.micro_batch), "memory.profile.json");
    const AnalyticCosts planned_by;  // the same plan each time
    const Cluster cluster = test_cluster(c.ranks);
    Problem problem;
    problem.graph = &graph;
    problem.cluster = &cluster;
    problem.costs = &planned_by;
    problem.mini_batch = c.mini_batch;
    problem.options.micro_batches = {c.micro_batch};
    problem.options.optimizer = c.optimizer;
    const PlanResult planned = planner_named(c.planner).plan(problem, {});
    EXPECT_EQ(planned.status, PlanStatus::kOk) << planned.reason;
    if (planned.candidates.empty()) return {};
    Plan plan = planned.candidates.front();
    plan.schedule = schedule;

    const auto dataset = synthetic_dataset(graph, 2 * c.mini_batch, 5);
    Lesson lesson;
    lesson.options.optimizer = c.optimizer;
    if (c.optimizer == OptimizerKind::kSgdMomentum) lesson.options.momentum = 0.9;
    for (std::int64_t i = 0; i < 2 * c.mini_batch; ++i) {
      if (i % c.mini_batch == 0) lesson.batches.emplace_back();
      lesson.batches.back().push_back(i);
    }
    return measure_actions(plan, graph, *dataset, lesson, costs, TransportKind::kGloo);
  }

  static void expect_between(const std::vector<ActionMemory>& rank, double least_share) {
    const auto worst = std::ranges::max_element(rank, {}, &ActionMemory::measured_bytes);
    const auto counted = std::ranges::max_element(rank, {}, &ActionMemory::counted_bytes);
    EXPECT_LE(worst->measured_bytes, counted->counted_bytes) << worst->action;
    EXPECT_GE(static_cast<double>(worst->measured_bytes),
              least_share * static_cast<double>(counted->counted_bytes))
        << counted->action;
  }
};

TEST_P(Memory, IsWithinATenthOfTheVerifiersAndNeverAbove) {
  for (const auto& rank : measure(ScheduleKind::k1F1B)) expect_between(rank, 0.9);
}

// What operators without parameters hold ends with the first half, and is counted to the second.
TEST_P(Memory, IsNeverAboveWhereBackwardsComeInHalves) {
  for (const auto& rank : measure(ScheduleKind::kZbH1)) expect_between(rank, 0.5);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, Memory,
    testing::Values(
        MemoryCase{"movielens", "graphpipe", 4, 256, 64, OptimizerKind::kAdam},
        MemoryCase{"movielens", "data-parallel", 2, 256, 64, OptimizerKind::kAdam},
        MemoryCase{"candle-uno:branches=3,layers=3,hidden=64,features=64,top_layers=2", "gpipe", 4,
                   256, 32, OptimizerKind::kAdam},
        MemoryCase{"movielens", "gpipe", 3, 256, 64, OptimizerKind::kSgdMomentum},
        MemoryCase{"two-branch:blocks=2,sequence=16,hidden=32,heads=2,ffn=64", "graphpipe", 4, 64,
                   8},
        MemoryCase{"two-branch:blocks=2,sequence=16,hidden=32,heads=2,ffn=64", "gpipe", 4, 64, 8},
        MemoryCase{"mmt:branches=3,layers=2,sequence=16,hidden=32,heads=2,ffn=64,outputs=3",
                   "graphpipe", 6, 64, 8, OptimizerKind::kAdam},
        MemoryCase{
            "transformer:layers=6,sequence=16,hidden=32,heads=2,ffn=64,outputs=3,dropout=100",
            "graphpipe", 3, 64, 8},
        MemoryCase{"dlrm:branches=2,tables=2,layers=2,hidden=64,features=16,entries=500,dimension="
                   "16,bag=10,top_layers=2",
                   "graphpipe", 4, 256, 32},
        MemoryCase{"candle-uno:branches=3,layers=3,hidden=64,features=64,top_layers=2", "graphpipe",
                   4, 256, 32, OptimizerKind::kAdam},
        MemoryCase{"vgg16:image=32,channels=3,classes=10,width=8,hidden=64", "graphpipe", 4, 32, 8},
        MemoryCase{"unet:image=32,classes=3,width=4,depth=2,padding=1", "graphpipe", 3, 32, 4},
        MemoryCase{"unet:image=32,classes=3,width=4,depth=2,padding=1", "gpipe", 4, 32, 4},
        MemoryCase{"resnet50:image=64,channels=3,classes=5,width=4,blocks=1", "graphpipe", 2, 16,
                   4}),
    name_of);

}  // namespace
}  // namespace graphpipe

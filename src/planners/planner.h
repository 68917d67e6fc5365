// A planner is a pure function of a Problem and a Budget to candidate Plans. No files,
// no clock, no global random state: same problem and budget, same plans, byte for byte.
// A planner proposes; search/ has the proposals simulated and picks.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "cost/cost_model.h"
#include "plan/plan.h"
#include "plan/stage_memory.h"

namespace graphpipe {

struct PlanOptions {
  bool data_parallel = true;                // widths above 1 (--options dp); false: --options none
  bool recompute = false;                   // stages whose memory does not suffice otherwise
                                            // run forwards again (--options dp,recompute)
  std::vector<std::int64_t> micro_batches;  // to try; empty: powers of two up to B
  OptimizerKind optimizer = OptimizerKind::kSgd;
  bool per_stage_micro_batch = false;  // stages may have sizes of their own: by local steps from
                                       // plans of one size (search/)
  std::vector<int> kfkb = {1};         // k to try: by local steps from plans of k = 1 (search/)
  bool all_devices = false;            // only plans that leave no device unused; search/ sees to it
  // Asynchronous plans: problem.mini_batch is then a stream, of mini-batches of so many samples.
  // Memory counts the versions of weights; replicas take turns, and step together after each
  // round. Plans have the policy, and the whole stream for their mini-batch, so that only search/
  // makes valid ones of them.
  WeightPolicy weights = WeightPolicy::kSynchronous;
  std::int64_t stream_mini_batch = 0;
  std::string text() const;  // "none", "dp", "dp,recompute"
};

struct Problem {
  const Graph* graph = nullptr;
  const Cluster* cluster = nullptr;
  const CostModel* costs = nullptr;
  std::int64_t mini_batch = 1;
  PlanOptions options;
  std::string model_argument;  // copied into plans
  std::string cluster_argument;
};

bool plans_streams(const Problem& problem);

// Work is counted in the planner's own units (table entries, say).
struct Budget {
  std::int64_t max_work = INT64_MAX;
  std::function<bool()> should_stop;  // asked now and then; only search/ ties it to a clock
  std::int64_t candidates = 8;        // how many plans are wanted at most, per micro-batch size
  PhaseProgress progress;             // told of the planner's phases
};

enum class PlanStatus { kOk, kInfeasible, kGaveUp };

struct PlanResult {
  PlanStatus status = PlanStatus::kInfeasible;
  std::string reason;            // why not kOk: which stage or operator, how many bytes are
                                 // missing, what would do
  std::vector<Plan> candidates;  // valid plans, the planner's own favourite first
  std::int64_t work = 0;
};

struct Planner {
  std::string name;     // "graphpipe"
  std::string summary;  // one line, with the paper
  PlanResult (*plan)(const Problem& problem, const Budget& budget);
  bool improve = false;  // search/ goes on from its plans by local steps that it simulates
};

const std::vector<Planner>& planners();  // registry.cc; graphpipe first
// Throws InputError("--planner", ...) with the names that exist.
const Planner& planner_named(const std::string& name);

// Has the stage recompute where it has a backward and takes more than `limit_bytes` otherwise,
// in so far as the options allow it. Returns what it then takes (stage_memory()).
// `facts` and `task_memories` are of the problem's graph and costs.
StageMemory fit_by_recompute(Plan& plan, const Problem& problem, const TrainingFacts& facts,
                             TaskMemories& task_memories, const DeviceType& device, StageId stage,
                             std::int64_t limit_bytes);

// The same for every stage, within the device's memory: the one that then takes the most.
struct FullestStage {
  StageId stage{0};
  std::int64_t bytes = 0;
};
FullestStage fit_stages(Plan& plan, const Problem& problem, const DeviceType& device);

// What planners share: a Plan with the problem's fields filled in, and no stages.
Plan empty_plan(const Problem& problem, const std::string& planner);

// Micro-batch sizes to try, ascending: options.micro_batches, or the powers of two up to
// the mini-batch. Throws InputError("--micro-batch", ...) where one exceeds it.
std::vector<std::int64_t> micro_batch_sizes(const Problem& problem);

}  // namespace graphpipe

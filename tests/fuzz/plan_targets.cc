#include <algorithm>

#include "base/error.h"
#include "cluster/cluster_json.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "cost/profile.h"
#include "cost/profile_json.h"
#include "fuzz/targets.h"
#include "models/models.h"
#include "plan/plan_json.h"
#include "report/measured_trace.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/schedule.h"
#include "schedule/verify.h"

namespace graphpipe::fuzz {
namespace {

// The model and the plan of the seeds: `graphpipe plan MODEL --cluster summit:4`.
const Graph& model() {
  static const Graph graph = load_model("two-branch:blocks=1,sequence=4,hidden=8,heads=2,ffn=8");
  return graph;
}
const Cluster& devices() {
  static const Cluster cluster = preset_cluster("summit:4");
  return cluster;
}

// Two halves of the model, four micro-batches.
Plan two_stages() {
  Plan plan;
  plan.graph_hash = graph_hash(model());
  plan.mini_batch = 8;
  plan.stages.resize(2);
  for (std::size_t i = 0; i < model().op_count(); ++i) {
    plan.stages[i < model().op_count() / 2 ? 0 : 1].ops.emplace_back(i);
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].devices = {DeviceId(s)};
    plan.stages[s].micro_batch = 2;
    plan.stages[s].in_flight_samples = 4;
  }
  plan.edges = data_edges(model(), plan.stages);
  validate(plan, model(), devices(), "two stages");
  return plan;
}

// Longer runs take longer, and have nothing else in them.
constexpr std::int64_t kMostMicroBatches = 256;

bool is_short(const Plan& plan) {
  return std::ranges::all_of(plan.stages, [&](const Stage& stage) {
    return schedule_samples(plan) / stage.micro_batch <= kMostMicroBatches;
  });
}

}  // namespace

void cluster(std::string_view input) {
  const Cluster cluster = parse_cluster(input, "file");
  const std::string text = to_json(cluster);
  GP_CHECK(to_json(parse_cluster(text, "again")) == text, "another cluster");
  const int last = cluster.device_count() - 1;
  worst_link(cluster);
  slowest_link(cluster, {DeviceId(0), DeviceId(last)});
  cluster_note(cluster);
}

void cluster_argument(std::string_view input) {
  const std::string text(input);
  const Cluster cluster =
      is_embedded_cluster(text) ? embedded_preset(text, {4, 1e9, 1e9}) : preset_cluster(text);
  GP_CHECK(cluster.device_count() >= 1, "no device");
  cluster_note(cluster);
}

void profile(std::string_view input) {
  const Profile profile = parse_profile(input, "file");
  const std::string text = to_json(profile);
  GP_CHECK(to_json(parse_profile(text, "again")) == text, "another profile");
  const ProfiledCosts costs(profile, "file");
  for (std::size_t i = 0; i < model().op_count(); ++i) {
    for (const std::int64_t samples : {1, 3, 1000}) {
      const OpCost cost =
          costs.op_cost(model(), OpId(i), samples, 1, devices().types.front(), Phase::kForward);
      GP_CHECK(cost.seconds >= 0 && cost.saved_bytes >= 0 && cost.workspace_bytes >= 0,
               "operator {} takes {} s, {} and {} bytes", i, cost.seconds, cost.saved_bytes,
               cost.workspace_bytes);
    }
  }
}

void plan(std::string_view input) {
  Plan plan = parse_plan(input, "file");
  plan.graph_hash = graph_hash(model());
  validate(plan, model(), devices(), "file");
  const std::string text = to_json(plan, model());
  GP_CHECK(parse_plan(text, "again") == plan, "another plan");
  if (is_short(plan)) verify_plan(plan, model(), devices(), AnalyticCosts());
}

void schedule(std::string_view input) {
  static const Plan plan = two_stages();
  const Schedule schedule = parse_schedule(input, plan, "file");
  GP_CHECK(parse_schedule(to_text(schedule, plan), plan, "again") == schedule, "another schedule");
  validate(schedule, plan, model(), "file");
  verify(lower(schedule, plan, model()), plan, model(), devices(), AnalyticCosts());
}

void trace(std::string_view input) {
  const MeasuredTrace trace = parse_measured_trace(std::string(input), "file", 4, 4);
  for (const MeasuredTask& task : trace.tasks) {
    GP_CHECK(task.rank.index() < 4 && task.stage.index() < 4, "a task of rank {}, stage {}",
             task.rank.value, task.stage.value);
    GP_CHECK(task.start_s <= task.end_s && task.end_s <= trace.iteration_s, "a task from {} to {}",
             task.start_s, task.end_s);
  }
}

}  // namespace graphpipe::fuzz

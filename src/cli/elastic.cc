#include "cli/elastic.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cluster/presets.h"
#include "job/checkpoint/checkpoint_folder.h"
#include "planners/planner.h"
#include "search/search.h"

namespace graphpipe {
namespace {

constexpr double kMostSearchS = 20;  // a plan

// "local:4,cores=2" with another number of devices.
std::string smaller_preset(const std::string& preset, int devices, const std::string& where) {
  const std::size_t colon = preset.find(':');
  const std::size_t end = std::min(preset.find(',', colon), preset.size());
  const std::string count =
      colon == std::string::npos ? "" : preset.substr(colon + 1, end - colon - 1);
  const bool is_count =
      !count.empty() && std::ranges::all_of(count, [](char c) { return c >= '0' && c <= '9'; });
  if (is_count && !is_embedded_cluster(preset)) {
    return fmt::format("{}:{}{}", preset.substr(0, colon), devices, preset.substr(end));
  }
  throw InputError(where, fmt::format("needs a plan for a preset such as local:4, which can have "
                                      "fewer devices; this one is for {}",
                                      preset));
}

// Micro-batches of one size where the plan has one.
std::vector<std::int64_t> micro_batches_of(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    if (stage.micro_batch != plan.stages.front().micro_batch) return {};
  }
  return {plan.stages.front().micro_batch};
}

std::string newest_or_none(const std::string& folder) {
  for (const FoundCheckpoint& found : list_checkpoints(folder)) {
    if (found.complete) return found.path;
  }
  return "";
}

// Leaves run() when there is a checkpoint to grow back at: its processes end on the way.
struct GrowBack {};

}  // namespace

std::vector<JobInputs> plans_for_fewer(const LoadedPlan& loaded, int most_fewer,
                                       const std::string& where) {
  const int ranks = devices_used(loaded.plan);
  std::vector<JobInputs> inputs = {{loaded.plan, loaded.graph, loaded.cluster}};
  for (int fewer = 1; fewer <= std::min(most_fewer, ranks - 1); ++fewer) {
    const std::string argument = smaller_preset(loaded.plan.cluster, ranks - fewer, where);
    JobInputs next{.plan = {}, .graph = loaded.graph, .cluster = preset_cluster(argument)};
    next.cluster.name = argument;
    Problem problem;
    problem.graph = &next.graph;
    problem.cluster = &next.cluster;
    problem.costs = loaded.costs.get();
    problem.mini_batch = loaded.plan.mini_batch;
    problem.model_argument = loaded.plan.model;
    problem.cluster_argument = argument;
    problem.options.data_parallel = loaded.plan.options.starts_with("dp");
    problem.options.recompute = loaded.plan.options.ends_with("recompute");
    problem.options.micro_batches = micro_batches_of(loaded.plan);
    problem.options.optimizer = loaded.plan.optimizer;
    SearchResult found =
        search_plan(planner_named(loaded.plan.planner), problem, {kMostSearchS, {}});
    if (found.status != PlanStatus::kOk) {
      print_note(fmt::format("with {} ranks there is no plan: {}", ranks - fewer, found.reason));
      break;
    }
    next.plan = std::move(found.plan);
    print_note(fmt::format("with {} ranks lost: {} stages on {} ranks, {} an iteration", fewer,
                           next.plan.stages.size(), devices_used(next.plan),
                           seconds_text(next.plan.estimate.iteration_s)));
    inputs.push_back(std::move(next));
  }
  return inputs;
}

ElasticResult run_elastic(const ElasticRun& run) {
  std::size_t lost = 0;
  std::string resume = run.resume;
  const auto restart = [&](std::size_t now_lost, const std::string& why) {
    lost = now_lost;
    remove_partial_checkpoints(run.checkpoints);
    resume = newest_or_none(run.checkpoints);
    run.on_restart(why, devices_used(run.inputs[lost].plan), resume);
  };
  while (true) {
    std::string seen = newest_or_none(run.checkpoints);
    LaunchResult result;
    try {
      result = run.run(run.inputs[lost], resume, [&](const std::string& line) {
        run.on_line(line);
        if (lost == 0) return;
        const std::string newest = newest_or_none(run.checkpoints);
        if (newest == std::exchange(seen, newest)) return;
        if (!run.all_back || run.all_back()) throw GrowBack{};
      });
    } catch (const GrowBack&) {
      restart(0, "all ranks again, at a checkpoint");
      continue;
    }
    if (result.exit_code == 0 || !result.struck) return {std::move(result), lost};
    const std::size_t now_lost = run.count_lost ? run.count_lost(result) : lost + 1;
    if (now_lost >= run.inputs.size()) return {std::move(result), lost};
    restart(now_lost, result.first_cause);
  }
}

}  // namespace graphpipe

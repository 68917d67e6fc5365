// How plans depend on what the frozen cost model assumes of small batches: every planner's best
// plan with the model as it is, with products as efficient at any size (flat r), and with the
// overhead of a launch halved and doubled. A line a variant and planner, fields parted by tabs:
//
//   cost_sensitivity MODEL CLUSTER MINI_BATCH none|dp PLANNER...
//   frozen  graphpipe  0.2789  4  5          (seconds an iteration, micro-batch, depth; "-": none)

#include <fmt/format.h>

#include <span>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "cluster/presets.h"
#include "cost/analytic.h"
#include "models/models.h"
#include "plan/plan.h"
#include "search/search.h"

namespace graphpipe {
namespace {

struct Variant {
  const char* name;
  AnalyticOptions options;
};

constexpr Variant kVariants[] = {{"frozen", {}},
                                 {"flat", {.flat_efficiency = true}},
                                 {"launch/2", {.launch_overhead_scale = 0.5}},
                                 {"launch*2", {.launch_overhead_scale = 2}}};

void print_row(const Variant& variant, const std::string& planner, const SearchResult& result) {
  if (result.status != PlanStatus::kOk) {
    fmt::print("{}\t{}\t-\t-\t-\n", variant.name, planner);
    return;
  }
  const Plan& plan = result.plan;
  fmt::print("{}\t{}\t{}\t{}\t{}\n", variant.name, planner, plan.estimate.iteration_s,
             plan.stages.front().micro_batch, pipeline_depth(plan));
}

void run(std::span<char*> arguments) {
  const Graph graph = load_model(arguments[0]);
  const Cluster cluster = preset_cluster(arguments[1]);
  Problem problem;
  problem.graph = &graph;
  problem.cluster = &cluster;
  problem.mini_batch = parse_integer(arguments[2], "MINI_BATCH");
  problem.options.data_parallel = std::string(arguments[3]) == "dp";
  for (const Variant& variant : kVariants) {
    const AnalyticCosts costs(variant.options);
    problem.costs = &costs;
    for (const std::string planner : arguments.subspan(4)) {
      print_row(variant, planner, search_plan(planner_named(planner), problem));
    }
  }
}

}  // namespace
}  // namespace graphpipe

int main(int argc, char** argv) {
  if (argc < 6) {
    fmt::print(stderr, "usage: cost_sensitivity MODEL CLUSTER MINI_BATCH none|dp PLANNER...\n");
    return 2;
  }
  try {
    graphpipe::run(std::span(argv, static_cast<std::size_t>(argc)).subspan(1));
  } catch (const graphpipe::InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  }
  return 0;
}

// graphpipe plan MODEL: search.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/explain.h"
#include "cli/inputs.h"
#include "cli/search_progress.h"
#include "cli/stream_flags.h"
#include "cli/terminal.h"
#include "graph/series_parallel.h"
#include "plan/plan_json.h"
#include "report/headline.h"
#include "report/text_report.h"
#include "schedule/verify.h"
#include "search/portfolio.h"
#include "search/workbench.h"
#include "sim/simulator.h"

namespace graphpipe {
namespace {

struct PlanFlags {
  ProblemFlags problem;
  std::string planner = "graphpipe";
  std::string output;
  bool portfolio = false;
  bool explain = false;
  StreamFlags stream;
};

// Throws InputError where flags do not go together.
WeightPolicy parse_policy(const PlanFlags& flags) {
  const WeightPolicy policy = flags.stream.parse();
  if (!is_asynchronous(policy)) return policy;
  if (flags.portfolio) throw InputError("--portfolio", "does not go with --async");
  if (flags.explain) throw InputError("--explain", "does not go with --async");
  return policy;
}

// "graphpipe 104 ms, gpipe 101 ms, data-parallel infeasible".
std::string entries_text(const std::vector<PortfolioEntry>& entries) {
  std::string text;
  for (const auto& [planner, result] : entries) {
    const bool ok = result.status == PlanStatus::kOk;
    const std::string found = ok ? seconds_text(result.plan.estimate.iteration_s)
                              : result.status == PlanStatus::kGaveUp ? "gave up"
                                                                     : "infeasible";
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", planner, found);
  }
  return text;
}

PortfolioResult search(const PlanFlags& flags, const Problem& problem, WeightPolicy policy) {
  SearchProgress progress(flags.portfolio ? "the portfolio" : flags.planner,
                          flags.problem.time_limit_s);
  const SearchControl control = progress.control();
  if (flags.portfolio) return search_portfolio(planners(), problem, control);
  return {search_any_plan(planner_named(flags.planner), problem, policy, control), {}};
}

// Of the planner that works on the graph's tree.
void print_order_note(const Graph& graph) {
  const SpTree tree = decompose_series_parallel(graph);
  if (tree.exact) return;
  print_note(
      fmt::format("the graph is not series-parallel: planned over {}", added_order_text(tree)));
}

// What the graph of stages gains over the same stages in a chain, each with as many samples in
// flight as the chain wants; "" where the plan is a chain.
std::string chain_text(const Plan& plan, const LoadedProblem& loaded) {
  const auto stages = static_cast<int>(plan.stages.size());
  if (is_asynchronous(plan.weights) || shares_devices(plan) || pipeline_depth(plan) == stages) {
    return "";
  }
  Plan chain = plan;
  chain.planner = "the same stages in a chain";
  add_chain_order(chain);
  // As many times what it needs at least as the plan itself has.
  const std::vector<std::int64_t> least = least_in_flight(plan);
  const std::vector<std::int64_t> in_flight = least_in_flight(chain);
  std::int64_t factor = 1;
  for (std::size_t s = 0; s < least.size(); ++s) {
    factor = std::max(factor, plan.stages[s].in_flight_samples / least[s]);
  }
  for (std::size_t s = 0; s < in_flight.size(); ++s) {
    chain.stages[s].in_flight_samples = std::min(most_in_flight(chain), factor * in_flight[s]);
  }
  if (!surely_runs(chain)) {
    const auto faults = verify_plan(chain, loaded.graph, loaded.cluster, *loaded.costs).faults;
    if (std::ranges::any_of(faults, [](const Fault& fault) { return fault.rule != "V5"; })) {
      return "";
    }
  }
  const Trace trace = simulate_plan(chain, loaded.graph, loaded.cluster, *loaded.costs, {},
                                    /*extrapolate=*/true);
  chain.estimate.iteration_s = trace.iteration_s;
  chain.estimate.bubble_fraction = trace.bubble_fraction();
  std::int64_t peak_bytes = 0;
  for (const RankUse& rank : trace.ranks) peak_bytes = std::max(peak_bytes, rank.peak_memory_bytes);
  chain.estimate.stage_memory_bytes = {peak_bytes};
  const std::int64_t memory_bytes =
      loaded.cluster.type_of(plan.stages.front().devices.front()).memory_bytes;
  const bool fits = peak_bytes <= memory_bytes;
  return gain_text(plan, chain) + (fits ? "" : ", which a device does not have");
}

void run_plan(const PlanFlags& flags, CommandLine& line) {
  const Planner& planner = planner_named(flags.planner);
  const WeightPolicy policy = parse_policy(flags);
  if (flags.portfolio && planner.name != planners().front().name) {
    throw InputError("--portfolio",
                     fmt::format("a portfolio has every planner and starts from {}; leave out "
                                 "--planner {}",
                                 planners().front().name, planner.name));
  }
  if (!flags.portfolio) check_used(flags.problem, {&planner});
  const LoadedProblem loaded(flags.problem);
  if (planner.improve) print_order_note(loaded.graph);
  const auto [result, entries] = search(flags, loaded.problem, policy);
  if (flags.portfolio) print_note("portfolio: " + entries_text(entries));
  if (result.status != PlanStatus::kOk) {
    line.exit_code = kExitNo;
    if (line.json) return print_out(no_plan_json(loaded.problem, planner.name, result));
    fmt::print(stderr, "no plan: {}\n", result.reason);
    return;
  }
  const std::string note = sample_mixing_note(loaded.graph, result.plan);
  if (!note.empty()) print_note(note);
  if (!flags.output.empty()) write_file(flags.output, to_json(result.plan, loaded.graph));
  if (line.json) return print_out(to_json(result.plan, loaded.graph));
  print_out(plan_table(result.plan, loaded.graph, loaded.cluster, *loaded.costs,
                       verbosity() == Verbosity::kVerbose));
  const std::string gain = chain_text(result.plan, loaded);
  if (!gain.empty()) print_out("\n" + gain);
  if (flags.explain) print_out("\n" + explain_text(loaded.problem, result));
  if (!flags.output.empty()) print_out(fmt::format("written to {}", flags.output));
}

}  // namespace

void add_plan_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("plan", "search for the plan with the shortest iteration");
  auto flags = std::make_shared<PlanFlags>();
  flags->problem.add_to(*command);
  command->add_option("--planner", flags->planner, "who searches")->capture_default_str();
  command->add_flag("--explain", flags->explain,
                    "the graph's tree, why each stage is as large as it is, what was weighed");
  flags->stream.add_to(*command);
  command->add_flag("--portfolio", flags->portfolio, "the best plan of all planners");
  command->add_option("-o,--output", flags->output, "where to write the plan");
  command->callback([flags, &line] { run_plan(*flags, line); });
}

}  // namespace graphpipe

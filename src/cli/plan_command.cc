// graphpipe plan MODEL: search.

#include <fmt/format.h>

#include <memory>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/cli_json.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "plan/plan_json.h"
#include "report/text_report.h"
#include "search/search.h"

namespace graphpipe {
namespace {

struct PlanFlags {
  ProblemFlags problem;
  std::string planner = "graphpipe";
  std::string output;
};

void run_plan(const PlanFlags& flags, CommandLine& line) {
  const Planner& planner = planner_named(flags.planner);
  const LoadedProblem loaded(flags.problem);
  const SearchResult result = search_plan(planner, loaded.problem, flags.problem.time_limit_s);
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
  print_out(plan_table(result.plan, loaded.graph, loaded.cluster, *loaded.costs));
  if (!flags.output.empty()) print_out(fmt::format("written to {}", flags.output));
}

}  // namespace

void add_plan_command(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("plan", "search for the plan with the shortest iteration");
  auto flags = std::make_shared<PlanFlags>();
  flags->problem.add_to(*command);
  command->add_option("--planner", flags->planner, "who searches")->capture_default_str();
  command->add_option("-o,--output", flags->output, "where to write the plan");
  command->callback([flags, &line] { run_plan(*flags, line); });
}

}  // namespace graphpipe
